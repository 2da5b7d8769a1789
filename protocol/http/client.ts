/**
 * The client of the gateway, for the command line and the console: calls its routes by their keys, reads whole lists, files and
 * event streams. A *transport* carries its requests.
 */
import type { Bytes, ListKey, Received, RouteKey, RowIn, Sent } from '../routes/api.ts';
import type { Method } from '../routes/row.ts';
import { filled, type Query, withQuery } from './addresses.ts';
import { eventReader, followEvents, type ServerSentEvent, streamPlace } from './event-stream.ts';
import { GatewayError, refusal } from './gateway-error.ts';
import { allRows, PAGE_ROWS } from './list-pages.ts';

/** What goes along with any request. */
export type CallOptions = {
  headers?: Readonly<Record<string, string>> | undefined;
  /** Called with the number of bytes that the connection has taken. */
  onSent?: ((bytes: number) => void) | undefined;
  /** Milliseconds that the gateway may be silent, where the transport can tell. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
};

/** `json` is sent as such, `body` as it is. `requestOf` makes one from the key of a route. */
export type Request = CallOptions & { method: Method | 'HEAD'; path: string; json?: unknown; body?: Bytes | undefined };

/** An answer whose head has come: the part of `Response` that the client needs, and its bytes as they come. */
export type Answer = {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
  /** They end, or throw, where the connection breaks. Whoever stops reading closes it. */
  chunks(): AsyncIterable<Uint8Array>;
};

/** How requests reach the gateway. What it throws says that no answer came, or why the request was given up. */
export type Transport<A extends Answer = Answer> = {
  /** What messages call the gateway. */
  readonly url: string;
  send(request: Sending): Promise<A>;
  /** Throws for more bytes than an answer or an event has. */
  checkSize?(bytes: number): void;
  /** Throws for more pages than any list has. */
  checkPages?(pages: number): void;
  /** Throws for what is no page of a list. */
  checkList?(answer: unknown): void;
};
export type Sending = Omit<Request, 'json' | 'body' | 'headers'> & {
  headers: Record<string, string>;
  body: string | Bytes | undefined;
};

export type FollowOptions = {
  /** Called when a stream is open, before its events are read; `again` after a reconnect. What it throws ends the stream. */
  onOpen?: (again: boolean) => void | Promise<void>;
  /** Called once when a stream breaks; reconnects follow. */
  onLost?: () => void;
  /** Ends the stream, which then throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** The first connection may fail as later ones may. */
  isPatient?: boolean;
};

export const EVENT_STREAM = 'text/event-stream';

/** What a call sends may be left out where none of it is needed. */
export type Given<Key extends RouteKey> =
  Record<never, never> extends Sent<Key>
    ? [sent?: Sent<Key>, options?: CallOptions]
    : [sent: Sent<Key>, options?: CallOptions];

/** The request of a route. */
export function requestOf<Key extends RouteKey>(key: Key, ...[sent, options]: Given<Key>): Request {
  const [method, path] = key.split(' ') as [Method, string];
  const {
    params = {},
    query = {},
    body,
  } = (sent ?? {}) as {
    params?: Record<string, string | undefined>;
    query?: Query;
    body?: unknown;
  };
  return { ...options, method, path: withQuery(filled(path, params), query), ...contentOf(body) };
}

/** The address of a route. */
export function addressOf<Key extends RouteKey>(key: Key, ...[sent]: Given<Key>): string {
  return requestOf(key, ...([sent] as Given<Key>)).path;
}

export class GatewayClient<A extends Answer = Answer> {
  readonly #transport: Transport<A>;

  constructor(transport: Transport<A>) {
    this.#transport = transport;
  }

  /** One call of a route. Throws `GatewayError` for an answer that is an error, as everything here does. */
  async call<Key extends RouteKey>(key: Key, ...given: Given<Key>): Promise<Received<Key>> {
    return (await this.ask(requestOf(key, ...given))).body as Received<Key>;
  }

  /** Every row of a list, page by page; `next` is what is asked for the rows after the last one. */
  all<Key extends ListKey>(
    key: Key,
    sent: Sent<Key>,
    next: (last: RowIn<Key>) => Query,
    options: CallOptions = {},
  ): Promise<RowIn<Key>[]> {
    const { query, ...rest } = sent as { query?: Query };
    return this.pages((last?: RowIn<Key>) => {
      const asked = { ...rest, query: { limit: PAGE_ROWS, ...query, ...(last && next(last)) } };
      return this.call(key, ...([asked, options] as unknown as Given<Key>));
    });
  }

  /** Every row; `read` gets the last row of the page before. */
  pages<Row>(read: (last?: Row) => Promise<unknown>): Promise<Row[]> {
    let pages = 0;
    return allRows(async (last?: Row) => {
      this.#transport.checkPages?.(++pages);
      const page = await read(last);
      this.#transport.checkList?.(page);
      return page as Row[];
    });
  }

  /** One request that is answered with JSON, or with nothing. An action may choose its own status: then it says `isError: false`. */
  async ask(request: Request): Promise<{ status: number; headers: Answer['headers']; body: unknown }> {
    const answer = await this.send(request);
    const { status, headers } = answer;
    const body = parsed(await answer.text());
    if (status >= 400 && (body as { isError?: unknown } | null)?.isError !== false) throw refusal(status, body);
    if (body === undefined && status !== 204) throw this.#notAGateway(status, 'JSON');
    return { status, headers, body };
  }

  /** An answer that is not JSON. */
  async open(request: Request): Promise<A> {
    const answer = await this.send(request);
    const { status } = answer;
    if (status >= 200 && status < 300) return answer;
    throw refusal(status, parsed(await answer.text()));
  }

  /** An answer, whatever its status is. */
  send({ json, body, headers, ...rest }: Request): Promise<A> {
    const type = json === undefined ? body && 'application/octet-stream' : 'application/json';
    return this.#transport.send({
      ...rest,
      headers: { accept: 'application/json', ...(type && { 'content-type': type }), ...headers },
      body: json === undefined ? body : JSON.stringify(json),
    });
  }

  /**
   * The events of a stream, without end: connects again from the last event on when it breaks, and while the gateway starts. Throws
   * what the gateway refuses the stream with, and what the first connection fails with unless it `isPatient`.
   */
  async *follow(path: string, options: FollowOptions = {}): AsyncGenerator<ServerSentEvent> {
    const { onOpen, onLost, signal, isPatient = false } = options;
    const leaving = new AbortController();
    const leave = (): void => leaving.abort(signal?.reason);
    const place = streamPlace();
    let connectedBefore = false;
    let isLost = false;
    const lose = (): void => {
      if (!isLost) onLost?.();
      isLost = true;
    };
    const read = async function* (answer: Answer): AsyncGenerator<Uint8Array> {
      await onOpen?.(connectedBefore);
      connectedBefore = true;
      isLost = false;
      yield* untilItBreaks(answer.chunks());
      signal?.throwIfAborted();
      lose();
    };
    const request: Request = { method: 'GET', path, signal: leaving.signal };
    const open = async (): Promise<AsyncIterable<Uint8Array> | Uint8Array[]> => {
      const headers = place.lastEventId === '' ? {} : { 'last-event-id': place.lastEventId };
      const answer = await this.#openEvents({ ...request, headers }).catch((error: unknown) => {
        signal?.throwIfAborted();
        if (!(connectedBefore || isPatient) || !mayPass(error)) throw error;
        return null;
      });
      if (answer !== null) return read(answer);
      lose();
      return [];
    };
    signal?.addEventListener('abort', leave);
    try {
      signal?.throwIfAborted();
      yield* followEvents(place, open, () => waited(place.retryMs, signal), this.#reader);
    } finally {
      signal?.removeEventListener('abort', leave);
      leaving.abort();
    }
  }

  /** The events with which a request is answered, to the end of the stream. */
  async *events(request: Request): AsyncGenerator<ServerSentEvent> {
    const answer = await this.#openEvents(request);
    const read = this.#reader();
    for await (const chunk of answer.chunks()) yield* read(chunk);
  }

  async #openEvents(request: Request): Promise<A> {
    const headers = { ...request.headers, accept: EVENT_STREAM };
    const answer = await this.open({ ...request, headers });
    if (answer.headers.get('content-type')?.startsWith(EVENT_STREAM)) return answer;
    throw this.#notAGateway(answer.status, 'an event stream');
  }

  /** Throws for an event that is larger than any answer, where the transport says so. */
  readonly #reader: typeof eventReader = (place) => {
    const read = eventReader(place);
    let bytes = 0;
    return (chunk) => {
      const events = read(chunk);
      bytes = events.length === 0 ? bytes + chunk.length : 0;
      this.#transport.checkSize?.(bytes);
      return events;
    };
  };

  #notAGateway(status: number, wanted: string): GatewayError {
    const message = `${this.#transport.url} is not a gateway: its answer is not ${wanted}.`;
    return new GatewayError(status, { code: 'INTERNAL', message });
  }
}

/** The bytes of an answer, as far as the connection lasts. */
export async function* untilItBreaks<Chunk extends Uint8Array>(answer: AsyncIterable<Chunk>): AsyncGenerator<Chunk> {
  try {
    for await (const chunk of answer) yield chunk;
  } catch {
    // The gateway went away, or was silent for too long: whoever follows connects again.
  }
}

/** A gateway that restarts answers 5xx or not at all; other refusals are final. */
function mayPass(error: unknown): boolean {
  return !(error instanceof GatewayError) || error.status === 0 || error.status >= 500;
}

/** Rejects with the signal's reason. */
function waited(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/** Bytes are sent as they are. */
function contentOf(content: unknown): Pick<Request, 'json' | 'body'> {
  const isBlob = typeof content === 'object' && content !== null && 'arrayBuffer' in content;
  return isBlob || content instanceof Uint8Array ? { body: content as Bytes } : { json: content };
}

/** Undefined for what is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
