/**
 * Answers with event streams of live queries: one query for a program, or all those of a page, with its change stream, over one
 * connection (specification, "Live queries").
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChangeStreams, SubscribeOptions } from '../dispatch/changes.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, opening } from '../http/event-streams.ts';
import type { LiveQueries } from './live-queries.ts';
import type { LiveRequest, LiveState } from './live-query.ts';

/** Whose queries, and who asks. */
type LiveSubject = Pick<LiveRequest, 'scope' | 'caller' | 'client'>;

/** `input` is JSON text as the client wrote it. `lastId` is the id of the state that the client has, if any. */
export type FollowedQuery = { query: string; input: string; lastId: string | undefined };

/** Larger events are not copied to be sent in one piece with what is before them. */
const COPIED_BYTES = 64 * 1024;
const OPENING = opening('live');
const END = Buffer.from('\n\n');

/** The events of one query are the same for all who follow it. */
const events = new WeakMap<LiveState, Buffer>();

export class LiveStreams {
  readonly queries: LiveQueries;
  readonly #changes: ChangeStreams;

  constructor(queries: LiveQueries, changes: ChangeStreams) {
    this.queries = queries;
    this.#changes = changes;
  }

  /**
   * The stream of one query, which opens with its first state. Resolves once it is open; rejects with what a call of the query
   * would be refused with, such as `UNKNOWN_QUERY` or `INVALID_INPUT`, and with `OVERLOADED`. An error of 500 and above is an
   * event: it may pass.
   */
  openOne(exchange: Exchange, subject: LiveSubject, { query, input, lastId }: FollowedQuery): Promise<void> {
    return new Promise((resolve, reject) => {
      let reader: EventReader | null = null;
      let sent = lastId;
      const open = (): EventReader | null => {
        const opened = this.#changes.readers.open(exchange);
        if (opened === null) following.stop();
        opened?.write(OPENING);
        opened?.add(following);
        resolve();
        return opened;
      };
      const tell = (state: LiveState): void => {
        try {
          if (reader === null && state.error !== null && state.error.status < 500) throw state.error;
          reader ??= open();
          if (sent !== state.id && reader?.deliver(eventOf(state))) sent = state.id;
        } catch (error) {
          following.stop();
          reject(error as Error);
        }
      };
      // A client that reconnects gets the current error: the app is gone, or the gateway stopped.
      const closed = (): void => {
        try {
          reader ??= open();
          reader?.end();
        } catch (error) {
          following.stop();
          reject(error as Error);
        }
      };
      const following = this.queries.follow({ ...subject, query, input }, { tell, closed });
      exchange.onAbort(() => {
        following.stop();
        resolve();
      });
    });
  }

  /** The stream of several queries, and with `changes` that of the app's changes. Events name the query by its place in the list. */
  openMany(exchange: Exchange, subject: LiveSubject, list: FollowedQuery[], changes: SubscribeOptions | null): void {
    const reader = this.#changes.readers.open(exchange);
    if (reader === null) return;
    if (changes === null) reader.write(OPENING);
    const followed = changes && this.#changes.attach(subject.scope.key, reader, changes);
    let retry: NodeJS.Timeout | undefined;
    reader.onEnd(() => clearTimeout(retry));
    const sent = list.map(({ lastId }) => lastId ?? '');
    const send = (index: number, state: LiveState): void => {
      if (sent[index] === state.id) return;
      const id = [followed?.last ?? '', ...sent.with(index, state.id)].join('.');
      const head = Buffer.from(`event: ${state.event}\nid: ${id}\ndata: {"index":${index},`);
      const parts = [head, state.json, END];
      const written =
        state.json.length > COPIED_BYTES ? reader.deliver(...parts) : reader.deliver(Buffer.concat(parts));
      if (written) sent[index] = state.id;
    };
    /** Follows the queries at these places; those that the app has no room for now are tried again, ever more rarely. */
    const follow = (indexes: number[], retryMs: number): void => {
      const refused = indexes.filter((index) => {
        const { query, input } = list[index] as FollowedQuery;
        try {
          const follower = { tell: (state: LiveState) => send(index, state), closed: () => reader.end() };
          reader.add(this.queries.follow({ ...subject, query, input }, follower));
          return false;
        } catch (error) {
          if (!(error instanceof SvcError)) throw error;
          const json = Buffer.from(JSON.stringify({ isError: true, error: error.toBody() })).subarray(1);
          send(index, { id: error.code, event: 'error', json, error });
          return true;
        }
      });
      if (refused.length === 0) return;
      retry = setTimeout(() => follow(refused, Math.min(retryMs * 2, LIMITS.liveRetryMaxMs)), retryMs);
    };
    follow([...list.keys()], LIMITS.liveRetryMs);
  }
}

function eventOf(state: LiveState): Buffer {
  let event = events.get(state);
  if (!event) {
    event = Buffer.concat([Buffer.from(`event: ${state.event}\nid: ${state.id}\ndata: {`), state.json, END]);
    events.set(state, event);
  }
  return event;
}
