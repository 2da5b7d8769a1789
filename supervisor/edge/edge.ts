/**
 * Defines HTTP for the routes. Two adapters implement it, `uws` and `node`; both answer with the same status, headers and
 * bytes. An embedding host's `(req, res)` is wrapped by the `node` adapter too.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { errorEnvelope, type SvcError } from '../../protocol/errors.ts';
import type { Span } from '../tracing/span.ts';

/** The memory budget of bodies. */
export type BodyRoom = {
  /** False, and takes nothing, when the bytes do not fit; `isSmall` where their body is at most `LIMITS.smallBodyBytes`. */
  take(bytes: number, isSmall: boolean): boolean;
  give(bytes: number): void;
};

/** Lower-case names. `content-length` is set by the edge and never given here. */
export type ResponseHeaders = Record<string, string | string[]>;

/** Headers that were checked and formatted once. */
export type ConstantHeaders = {
  readonly headers: ResponseHeaders;
  /** Name of the first one, and everything after it as it stands on the wire: one call to native code instead of many. */
  readonly first: string;
  readonly rest: string;
  /** `rest`, and how long the uws edge keeps a connection. */
  readonly restKept: string;
  /** All of them, each behind a line break: what follows the value of another header. */
  readonly lines: string;
};

/** A response that is written in parts, such as an event stream or a large file. */
export type ResponseStream = {
  /** False when bytes are waiting for a slow reader; they are kept, `onDrain` tells when they have gone. */
  write(chunk: string | Buffer): boolean;
  /** Bytes accepted by `write` that the socket has not taken yet. */
  readonly buffered: number;
  onDrain(callback: () => void): void;
  /** If fewer bytes were written than announced, the connection ends, so that the reader notices. */
  end(): void;
};

/** Counts answers; `ms` is the time until the answer began. */
export type AnswerMeter = { answered(routeKind: number, status: number, ms: number): void };

/** Who asks; what it presented can end while its answer is sent. */
export type Asker = { readonly ended: boolean };

/** One request and its answer. Exactly one of `send` and `stream` is called, once; after an abort both do nothing. */
export type Exchange = {
  /** Upper case, as sent. */
  readonly method: string;
  /** Path as sent: not decoded, without the query. Starts with `/`. */
  readonly path: string;
  /** The text after the first `?`, or the empty string. */
  readonly query: string;
  /** The address at the other end of the connection, as the socket writes it; the empty string once the client has gone or has its answer. */
  readonly remoteAddress: string;
  /** The request of a host's own server; null for those of `serve`. */
  readonly raw: IncomingMessage | null;
  /** Names in lower case and values of all request headers, alternating, repeated ones as they came. */
  readonly headers: readonly string[];
  /** A request header by lower-case name; repeated ones are joined by `, `. */
  header(name: string): string | undefined;
  /** True once the client has gone away before the answer was complete. */
  readonly aborted: boolean;
  /** Called at most once, when the client goes away before the answer is complete; at once if it has gone already. */
  onAbort(callback: () => void): void;
  /**
   * Collects the body. `onError` gets `PAYLOAD_TOO_LARGE` as soon as a declared or received length is over `limit` (the rest
   * is thrown away), `OVERLOADED` when `room` (by default the budget of all bodies) has no room for it, or `BAD_REQUEST` when
   * it did not arrive in time; the connection ends with the answer. Either callback may run before this returns; neither runs
   * after an abort. Must be called in the turn in which the exchange was handed over, and at most once.
   */
  readBody(limit: number, onBody: (body: Buffer) => void, onError: (error: SvcError) => void, room?: BodyRoom): void;
  /** Bytes of the body that `readBody` has so far. */
  readonly bodyReceived: number;
  /** Ends `readBody` with this error, as those above do; does nothing once it has ended. */
  refuseBody(error: SvcError): void;
  /**
   * The body as a stream with back-pressure, for uploads. It errors with `PAYLOAD_TOO_LARGE` over `limit`, with
   * `BAD_REQUEST` when it does not arrive within `timeoutMs` or the client goes away. Called like `readBody`.
   */
  streamBody(limit: number, timeoutMs: number): Readable;
  /** The counter of the answer; null for none. */
  meter: AnswerMeter | null;
  /** When the request came, on the clock of `performance.now`, and the kind of its route: what the meter is told. */
  begunAt: number;
  routeKind: number;
  /** Known before its route is run. */
  caller: Asker | null;
  /** Its span where traces are recorded or sent on; ends with the beginning of the answer. */
  span: Span | null;
  /** Headers added to every answer; `vary` is appended. */
  addHeaders(headers: ResponseHeaders): void;
  /**
   * The whole answer. A HEAD request gets the headers and the length, without the body; 204 and 304 have neither body nor
   * length. A `Buffer` is not copied: leave it unchanged. `constant` are headers that many answers share: `constantHeaders`
   * makes them once, which costs an edge less. Throws a `TypeError`, with nothing sent, for a header value that is not
   * printable ASCII; so does `stream`.
   */
  send(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void;
  /** The headers leave with the first `write`. `length`, where it is known and not 0, is announced: so much must be written. */
  stream(status: number, headers: ResponseHeaders, length?: number): ResponseStream;
};

export type ExchangeHandler = (exchange: Exchange) => void;

/** A listening HTTP server. */
export type Edge = {
  readonly kind: 'uws' | 'node';
  /** Resolves with the port; port 0 takes any free one. Rejects when the address cannot be had (`EADDRINUSE`, …). */
  listen(host: string, port: number): Promise<number>;
  /** Listens on a socket that another process opened. Resolves with its address; rejects when it is none of TCP, or with uws. */
  adopt(descriptor: number): Promise<{ host: string; port: number }>;
  /** Takes no new connections; those that are open live on until `close`, and are told `connection: close` with their next answer. */
  stopAccepting(): void;
  /** Ends every connection, idle or not, open streams too. Their exchanges hear of it through `onAbort`. */
  close(): Promise<void>;
};

export type Answer = { status: number; headers: ResponseHeaders; body: string };

/** Of data that only pages of the same origin may load, as a picture, a script or whatever else (decisions, section 19). */
export const PRIVATE = { 'cross-origin-resource-policy': 'same-origin' } as const;

/** The answer for an error: one shape for every route (decisions, section 1). */
export function errorAnswer(error: SvcError): Answer {
  return {
    status: error.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...error.headers,
    },
    body: JSON.stringify(errorEnvelope(error.toBody())),
  };
}

/** Answers with an error; does nothing if the exchange is already answered. */
export function sendError(exchange: Pick<Exchange, 'send'>, error: SvcError): void {
  const { status, headers, body } = errorAnswer(error);
  exchange.send(status, headers, body);
}
