/**
 * Follows the resources that one MCP client subscribed to, and sends changes, those of its lists too, to its stream: a topic that
 * keeps the newest change of each, for a client that was away (specification, "MCP server").
 */
import { SvcError } from '../../protocol/errors.ts';
import { eventText } from '../../protocol/http/event-stream.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Topic } from '../../protocol/topic.ts';
import { unknownApp } from '../../storage/apps/registry.ts';
import type { EventReader } from '../http/event-streams.ts';
import type { LiveQueries } from '../live/live-queries.ts';
import type { LiveRequest, LiveState } from '../live/live-query.ts';

/** The lists whose changes are told; there are no prompts. */
export const LISTS = ['tools', 'resources'] as const;
export type ListName = (typeof LISTS)[number];

/** A query that a resource stands for. `may` says whether its client still may read it. */
export type FollowedResource = { request: LiveRequest; may(): boolean };

/** `lost`: the client may not read any more what it subscribed to. `closed`: an app or draft of it is gone. */
type SubscriptionEvents = { lost(): void; closed(): void };

type Subscription = {
  readonly resource: FollowedResource;
  /** Settles with the first result. */
  opened(): Promise<void>;
  /** `opened` rejects with this if it waits still. */
  end(error: SvcError): void;
};

type Notification = { method: string; params?: { uri: string } };

const keyOf = ({ method, params }: Notification): string => params?.uri ?? method;

export class Subscriptions {
  readonly #live: Pick<LiveQueries, 'follow'>;
  readonly #on: SubscriptionEvents;
  /** By the URI as the client wrote it. */
  readonly #all = new Map<string, Subscription>();
  readonly #changes = new Topic<Notification, { notification: Notification; id: number }>({
    keep: Number.POSITIVE_INFINITY,
    keyOf,
    form: (notification, id) => ({ notification, id }),
  });
  #closed = false;

  constructor(live: Pick<LiveQueries, 'follow'>, on: SubscriptionEvents) {
    this.#live = live;
    this.#on = on;
  }

  get size(): number {
    return this.#all.size;
  }

  /** The number of the latest change. */
  get latest(): number {
    return this.#changes.last;
  }

  /** Tells `lost` if the client may not read any more what it subscribed to. */
  endRefused(): void {
    if ([...this.#all.values()].some(({ resource }) => !resource.may())) this.#on.lost();
  }

  /**
   * Resolves once the resource has been read: a change after that is told. Rejects with what reading it is refused with, such as
   * `UNKNOWN_QUERY` and `INVALID_INPUT`, and with `OVERLOADED`; an error of 500 and above may pass, and is followed.
   */
  add(uri: string, resource: FollowedResource): Promise<void> {
    const known = this.#all.get(uri);
    if (known) return known.opened();
    if (this.#closed) return Promise.reject(ended());
    if (this.#all.size >= LIMITS.liveQueriesOfStream) {
      const message = `A client subscribes to ${LIMITS.liveQueriesOfStream} resources at most; end some of them first.`;
      return Promise.reject(new SvcError('OVERLOADED', message));
    }
    const opened = new Promise<void>((resolve, reject) => {
      let latest: string | null = null;
      const following = this.#live.follow(resource.request, {
        tell: (state) => {
          if (latest === null && isRefusal(state)) end(state.error);
          else if (latest === null) {
            resolve();
            // What it was asked with may have ended while it waited.
            this.endRefused();
          } else if (latest !== state.id) this.#changeIfPermitted(uri, resource);
          latest = state.id;
        },
        closed: () => {
          this.#change(uri);
          end(unknownApp(resource.request.scope.app));
          this.#on.closed();
        },
      });
      const end = (error: SvcError): void => {
        following.stop();
        this.#all.delete(uri);
        this.#changes.drop(uri);
        reject(error);
      };
      this.#all.set(uri, { resource, opened: () => opened, end });
    });
    return opened;
  }

  delete(uri: string): void {
    this.#all.get(uri)?.end(ended());
  }

  /** Tells that the client's lists are others now. */
  listsChanged(lists: readonly ListName[]): void {
    for (const list of lists) this.#changes.append({ method: `notifications/${list}/list_changed` });
  }

  /** Sends changes from now on, first those after the change of number `after`. `textOf` makes the text of each. */
  tell(reader: EventReader, after: number, textOf: (notification: Notification, id: number) => string): void {
    const take = ({ notification, id }: { notification: Notification; id: number }): boolean =>
      reader.deliver(Buffer.from(textOf(notification, id)));
    reader.add(this.#changes.follow({ take, ended: () => reader.end() }, after));
  }

  /** Ends all of them, with the streams that they are told to, and accepts no new ones. */
  close(): void {
    this.#closed = true;
    this.#changes.close();
    for (const subscription of [...this.#all.values()]) subscription.end(ended());
  }

  #changeIfPermitted(uri: string, { may }: FollowedResource): void {
    if (may()) this.#change(uri);
    else this.#on.lost();
  }

  #change(uri: string): void {
    this.#changes.append({ method: 'notifications/resources/updated', params: { uri } });
  }
}

function isRefusal(state: LiveState): state is LiveState & { error: SvcError } {
  return state.error !== null && state.error.status < 500;
}

function ended(): SvcError {
  return new SvcError('NOT_FOUND', 'The subscription was ended before its first result.');
}

/** An event of a stream of MCP: one message. */
export function messageEvent(message: object): string {
  return eventText('message', JSON.stringify({ jsonrpc: '2.0', ...message }));
}
