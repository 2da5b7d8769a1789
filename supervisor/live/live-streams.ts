/**
 * Answers with event streams of live queries: one query for a program, or all those of a page, with its change stream, over one
 * connection (specification, "Live queries").
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChangeStreams, SubscribeOptions } from '../dispatch/change-streams.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, opening } from '../http/event-streams.ts';
import type { LiveQueries } from './live-queries.ts';
import type { LiveRequest, LiveState } from './live-query.ts';

/** Whose queries are followed, and who follows them. */
type LiveSubject = Pick<LiveRequest, 'scope' | 'caller' | 'client'>;

/** `input` is JSON text as the client wrote it. `lastId` is the id of the state that the client has, if any. */
export type FollowedQuery = { query: string; input: string; lastId: string | undefined };

/** An event of more bytes is sent in parts. A smaller one is copied into one piece. */
const COPIED_BYTES = 64 * 1024;
const OPENING = opening('live');
const END = Buffer.from('\n\n');

/** The text of a state's event. All followers of a query get the same text, so it is made once. */
const events = new WeakMap<LiveState, Buffer>();

export class LiveStreams {
  readonly queries: LiveQueries;
  readonly #changes: ChangeStreams;

  constructor(queries: LiveQueries, changes: ChangeStreams) {
    this.queries = queries;
    this.#changes = changes;
  }

  /**
   * Answers with the stream of one query, which opens with the query's first state. Resolves once the stream is open. Rejects with
   * the error that a call of the query has, such as `UNKNOWN_QUERY` or `INVALID_INPUT`, and with `OVERLOADED`. An error of 500 and
   * above may pass, so the stream sends it as an event.
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
      // The app is gone, or the gateway stops. A client that connects again gets the error of that.
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

  /**
   * Answers with the stream of several queries. With `changes` the app's changes are in it too. An event of a query has its place in
   * the list.
   */
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
    /** Follows the queries at these places. Those that are refused now are tried again, ever more rarely. */
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
