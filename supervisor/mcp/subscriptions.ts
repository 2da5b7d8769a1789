/**
 * Follows the resources that one MCP client subscribed to, and sends changes, those of its lists too, to its stream. Changes that the stream could not
 * take, or missed while the client was away, are sent when it can take them (decisions, section 13).
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
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
  /** Number of its latest change; 0 before the first. */
  changed: number;
  /** Settles with the first result. */
  opened(): Promise<void>;
  /** `opened` rejects with this if it waits still. */
  end(error: SvcError): void;
};

type Notification = { method: string; params?: { uri: string } };

/** Where to tell, and from which change on. */
type Teller = { reader: EventReader; told: number; eventOf(notification: Notification, change: number): string };

export class Subscriptions {
  readonly #live: Pick<LiveQueries, 'follow'>;
  readonly #on: SubscriptionEvents;
  /** By the URI as the client wrote it. */
  readonly #all = new Map<string, Subscription>();
  /** The number of the latest change of each list. */
  readonly #lists = new Map<ListName, number>();
  #changes = 0;
  #closed = false;
  #teller: Teller | null = null;

  constructor(live: Pick<LiveQueries, 'follow'>, on: SubscriptionEvents) {
    this.#live = live;
    this.#on = on;
  }

  get size(): number {
    return this.#all.size;
  }

  /** The number of the latest change. */
  get latest(): number {
    return this.#changes;
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
          } else if (latest !== state.id) this.#judge(subscription);
          latest = state.id;
        },
        closed: () => {
          this.#change(subscription);
          end(unknownApp(resource.request.app));
          this.#on.closed();
        },
      });
      const end = (error: SvcError): void => {
        following.stop();
        this.#all.delete(uri);
        reject(error);
      };
      const subscription: Subscription = { resource, changed: 0, opened: () => opened, end };
      this.#all.set(uri, subscription);
    });
    return opened;
  }

  delete(uri: string): void {
    this.#all.get(uri)?.end(ended());
  }

  /** Tells that the client's lists are others now. */
  listsChanged(lists: readonly ListName[]): void {
    for (const list of lists) {
      this.#changes += 1;
      this.#lists.set(list, this.#changes);
    }
    this.flush();
  }

  /** Has changes told from now on, first those after the change `told`. */
  attach(teller: Teller): void {
    this.#teller = teller;
    this.flush();
  }

  detach(): void {
    this.#teller = null;
  }

  /** Tells what the stream has not been told and takes. */
  flush(): void {
    const teller = this.#teller;
    if (teller === null) return;
    const untold: [changed: number, Notification][] = [];
    for (const [uri, { changed }] of this.#all)
      if (changed > teller.told) untold.push([changed, { method: 'notifications/resources/updated', params: { uri } }]);
    for (const [list, changed] of this.#lists)
      if (changed > teller.told) untold.push([changed, { method: `notifications/${list}/list_changed` }]);
    for (const [changed, notification] of untold.sort(([a], [b]) => a - b)) {
      if (!teller.reader.deliver(Buffer.from(teller.eventOf(notification, changed)))) return;
      teller.told = changed;
    }
  }

  /** Ends all of them, and accepts no new ones. */
  close(): void {
    this.#closed = true;
    this.#teller = null;
    for (const subscription of [...this.#all.values()]) subscription.end(ended());
  }

  #judge(subscription: Subscription): void {
    if (subscription.resource.may()) this.#change(subscription);
    else this.#on.lost();
  }

  #change(subscription: Subscription): void {
    this.#changes += 1;
    subscription.changed = this.#changes;
    this.flush();
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
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
}
