/**
 * Defines HTTP for the routes. Two adapters implement it, `uws` and `node`. Both answer with the same status, headers and
 * bytes. The `node` adapter also wraps the `(req, res)` of an embedding host.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { errorEnvelope, type SvcError } from '../../protocol/errors.ts';
import type { Span } from '../tracing/span.ts';

/** A budget of memory for bodies. */
export type BodyRoom = {
  /**
   * Takes bytes. False: they do not fit, and none were taken. `isSmall` is true where their body is at most
   * `LIMITS.smallBodyBytes`.
   */
  take(bytes: number, isSmall: boolean): boolean;
  give(bytes: number): void;
};

/** The headers of an answer, by names in lower case. `content-length` is set by the edge and never given here. */
export type ResponseHeaders = Record<string, string | string[]>;

/** Headers that were checked and formatted once. */
export type ConstantHeaders = {
  readonly headers: ResponseHeaders;
  /** The name of the first header. */
  readonly first: string;
  /** The text that follows `first` on the wire, up to the last header. One call to native code writes both. */
  readonly rest: string;
  /** The same as `rest`, with the header that says how long the uws edge keeps a connection. */
  readonly restKept: string;
  /** All the headers, each behind a line break. They follow the value of another header. */
  readonly lines: string;
};

/** An answer that is written in parts, such as an event stream or a large file. */
export type ResponseStream = {
  /** Writes a part. False: bytes wait for a slow reader. They are kept, and `onDrain` tells when they have gone. */
  write(chunk: string | Buffer): boolean;
  /** The bytes that `write` accepted and that the socket has not taken yet. */
  readonly buffered: number;
  onDrain(callback: () => void): void;
  /** Ends the answer. If fewer bytes were written than announced, the connection ends, so that the reader notices. */
  end(): void;
  /** Ends the connection before the answer is complete, so that the reader notices. */
  cutOff(): void;
};

/** Counts answers. `ms` is the time until the answer began. */
export type AnswerMeter = { answered(routeKind: number, status: number, ms: number): void };

/** Who asks. What it presented can end while its answer is sent. */
export type Asker = { readonly ended: boolean };

/** One request and its answer. Exactly one of `send` and `stream` is called, once. After an abort both do nothing. */
export type Exchange = {
  /** The method as sent, in upper case. */
  readonly method: string;
  /** The path as sent: not decoded, and without the query. It starts with `/`. */
  readonly path: string;
  /** The text after the first `?`, or the empty string. */
  readonly query: string;
  /**
   * The address at the other end of the connection, as the socket writes it, or `clientAddress`. It is empty once the client has
   * gone or has its answer.
   */
  readonly remoteAddress: string;
  /** The address of the client where another node of the cluster sent the request on. It is null for others. */
  clientAddress: string | null;
  /** The request of a host's own server. It is null for those of `serve`. */
  readonly raw: IncomingMessage | null;
  /** All request headers as they came: names in lower case and values, alternating. */
  readonly headers: readonly string[];
  /** A request header by its name in lower case. Repeated ones are joined by `, `. */
  header(name: string): string | undefined;
  /** True once the client has gone away before the answer was complete. */
  readonly aborted: boolean;
  /**
   * `callback` runs at most once, when the client goes away before the answer is complete, after those that were given before. It
   * runs at once if the client has gone.
   */
  onAbort(callback: () => void): void;
  /**
   * Collects the body. `onError` gets `PAYLOAD_TOO_LARGE` as soon as a declared or received length is over `limit`; the rest is
   * thrown away. It gets `OVERLOADED` when `room`, by default the budget of all bodies, has no room for the body, and
   * `BAD_REQUEST` when the body did not arrive in time. The connection then ends with the answer. Either callback may run
   * before this returns. Neither runs after an abort. Must be called in the turn in which the exchange was handed over. Once
   * `onBody` has run, a further call gives the same body again.
   */
  readBody(limit: number, onBody: (body: Buffer) => void, onError: (error: SvcError) => void, room?: BodyRoom): void;
  /** The bytes of the body that `readBody` has so far. */
  readonly bodyReceived: number;
  /** Ends `readBody` with this error. Does nothing once it has ended. */
  refuseBody(error: SvcError): void;
  /**
   * The body as a stream with back-pressure, for uploads. It fails with `PAYLOAD_TOO_LARGE` over `limit`, and with
   * `BAD_REQUEST` when it does not arrive within `timeoutMs` or the client goes away. Must be called as `readBody` is, and once: also
   * after `readBody` gave the body, which it then gives again.
   */
  streamBody(limit: number, timeoutMs: number): Readable;
  /** Counts the answer. It is null where nothing does. */
  meter: AnswerMeter | null;
  /** The time when the request came, on the clock of `performance.now`. The meter gets this and `routeKind`. */
  begunAt: number;
  routeKind: number;
  /** Who asks, known before the route runs. */
  caller: Asker | null;
  /**
   * Runs before a whole answer is sent, which waits for it; where it rejects, its error is the answer. It is null where nothing has to be
   * done first.
   */
  beforeAnswer: (() => Promise<void>) | null;
  /** Runs once, when an answer begins or the client has gone before one. It is null where nobody waits for that. */
  onceOver: (() => void) | null;
  /** The span of the request where traces are recorded or sent on. It ends with the beginning of the answer. */
  span: Span | null;
  /** Adds headers to whichever answer comes. `vary` is appended to that of the answer. */
  addHeaders(headers: ResponseHeaders): void;
  /**
   * Sends a whole answer. A HEAD request gets the headers and the length, without the body. 204 and 304 have neither body nor
   * length. A `Buffer` is not copied: leave it unchanged. `constant` are headers that many answers share: `constantHeaders`
   * makes them once, which costs an edge less. Throws a `TypeError` for a header value that is not printable ASCII, and then
   * sends nothing.
   */
  send(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void;
  /**
   * Begins an answer in parts. The headers leave with the first `write`. `length` is announced where it is known and not 0: so
   * much must be written. Throws as `send` does.
   */
  stream(status: number, headers: ResponseHeaders, length?: number): ResponseStream;
};

export type ExchangeHandler = (exchange: Exchange) => void;

/** A listening HTTP server. */
export type Edge = {
  readonly kind: 'uws' | 'node';
  /**
   * Listens, and resolves with the port. Port 0 takes any free one. Rejects when the address cannot be had (`EADDRINUSE`, …).
   */
  listen(host: string, port: number): Promise<number>;
  /**
   * Listens on a socket that another process opened. Resolves with its address. Rejects when it is no socket of TCP, and with
   * uws.
   */
  adopt(descriptor: number): Promise<{ host: string; port: number }>;
  /** Takes no new connections. Open ones live on until `close`. Their next answer has `connection: close`. */
  stopAccepting(): void;
  /** Ends every connection, also idle ones and open streams. `onAbort` reports it to their exchanges. */
  close(): Promise<void>;
};

export type Answer = { status: number; headers: ResponseHeaders; body: string };

/** The headers of data that only pages of the same origin may load, in any way (specification, "Requests of other sites"). */
export const PRIVATE = { 'cross-origin-resource-policy': 'same-origin' } as const;

/** The answer for an error, which has one shape on every route (specification, "Errors"). */
export function errorAnswer(error: SvcError): Answer {
  return {
    status: error.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      // Whoever refuses, another node has the data in a moment, or the database answers again.
      ...(error.code === 'STORAGE_UNAVAILABLE' && { 'retry-after': '1' }),
      ...error.headers,
    },
    body: JSON.stringify(errorEnvelope(error.toBody())),
  };
}

/** Answers with an error. Does nothing if the exchange is already answered. */
export function sendError(exchange: Pick<Exchange, 'send'>, error: SvcError): void {
  const { status, headers, body } = errorAnswer(error);
  exchange.send(status, headers, body);
}
