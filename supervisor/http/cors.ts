/** Cross-origin headers for the origins that the configuration names; without any, none are sent (decisions, section 1). */
import type { Readable } from 'node:stream';
import type { SvcError } from '../../protocol/errors.ts';
import type { BodyRoom } from '../edge/body-budget.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders, ResponseStream } from '../edge/edge.ts';

const PREFLIGHT_SECONDS = '600';

/** Headers for this request's origin; null when it is not one that may read the answer. */
export function corsHeaders(exchange: Exchange, origins: readonly string[]): ResponseHeaders | null {
  const origin = exchange.header('origin');
  if (origin === undefined || !origins.includes(origin)) return null;
  return {
    'access-control-allow-origin': origin,
    vary: 'origin',
    'access-control-expose-headers': 'server-timing, idempotency-replayed, etag',
  };
}

/** What a preflight request is told in addition. */
export function preflightHeaders(allow: string): ResponseHeaders {
  return {
    'access-control-allow-methods': allow,
    'access-control-allow-headers':
      'authorization, content-type, idempotency-key, if-match, last-event-id, traceparent',
    'access-control-max-age': PREFLIGHT_SECONDS,
  };
}

/** The same exchange, with headers added to its answer. */
export class HeaderedExchange implements Exchange {
  readonly #inner: Exchange;
  readonly #headers: ResponseHeaders;

  constructor(inner: Exchange, headers: ResponseHeaders) {
    this.#inner = inner;
    this.#headers = headers;
  }

  get method(): string {
    return this.#inner.method;
  }
  get path(): string {
    return this.#inner.path;
  }
  get query(): string {
    return this.#inner.query;
  }
  get aborted(): boolean {
    return this.#inner.aborted;
  }
  header(name: string): string | undefined {
    return this.#inner.header(name);
  }
  onAbort(callback: () => void): void {
    this.#inner.onAbort(callback);
  }
  readBody(limit: number, onBody: (body: Buffer) => void, onError: (error: SvcError) => void, room?: BodyRoom): void {
    this.#inner.readBody(limit, onBody, onError, room);
  }
  get bodyReceived(): number {
    return this.#inner.bodyReceived;
  }
  refuseBody(error: SvcError): void {
    this.#inner.refuseBody(error);
  }
  streamBody(limit: number, timeoutMs: number): Readable {
    return this.#inner.streamBody(limit, timeoutMs);
  }
  send(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    this.#inner.send(status, this.#merge({ ...constant?.headers, ...headers }), body);
  }
  stream(status: number, headers: ResponseHeaders): ResponseStream {
    return this.#inner.stream(status, this.#merge(headers));
  }

  #merge(headers: ResponseHeaders): ResponseHeaders {
    const vary = headers.vary ? `${String(headers.vary)}, origin` : 'origin';
    return { ...headers, ...this.#headers, vary };
  }
}
