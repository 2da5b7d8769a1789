/** What both edges, and the routes, share about answers: the one error answer, header checks, and which have no body. */
import { STATUS_CODES } from 'node:http';
import { errorEnvelope, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders, ResponseStream } from './edge.ts';

export type Answer = { status: number; headers: ResponseHeaders; body: string };

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

/** Answers with an error; does nothing when the exchange has its answer already. */
export function sendError(exchange: Exchange, error: SvcError): void {
  const { status, headers, body } = errorAnswer(error);
  exchange.send(status, headers, body);
}

/** Runs code of the routes for one exchange: what it throws is reported and answered, and ends nothing else. */
export function guard(exchange: Exchange, onFault: (error: unknown) => void, run: () => void): void {
  try {
    run();
  } catch (error) {
    onFault(error);
    sendError(exchange, new SvcError('INTERNAL', 'The gateway failed on this request; its log has the details.'));
  }
}

/** `PAYLOAD_TOO_LARGE`, naming the limit in bytes. */
export function bodyTooLarge(limit: number): SvcError {
  return new SvcError('PAYLOAD_TOO_LARGE', `The body is over the limit of ${limit} bytes.`);
}

/** `BAD_REQUEST` for a body that took longer than `timeoutMs`. */
export function bodyTooSlow(timeoutMs: number = LIMITS.requestTimeoutMs): SvcError {
  return new SvcError('BAD_REQUEST', `The body did not arrive within ${timeoutMs / 1000} s.`);
}

/** `BAD_REQUEST` for a body whose sender went away. Nobody is left to read the answer; it ends the stream of the body. */
export function bodyCutShort(): SvcError {
  return new SvcError('BAD_REQUEST', 'The connection was closed before the body was complete.');
}

/** Answers that have no body and no length, whatever was given (RFC 9110, 15.3.5 and 15.4.5). */
export function isBodyless(status: number): boolean {
  return status === 204 || status === 304;
}

/** Where a stream goes whose client has gone, or asked for the headers only. */
export const NOWHERE: ResponseStream = {
  write: () => true,
  buffered: 0,
  onDrain: () => {},
  end: () => {},
};

const UNSAFE_VALUE = /[^\t\x20-\x7e]/;

/** Throws a `TypeError` for a header value that could end its line: with it, data could write headers of its own. */
export function checkHeaders(headers: ResponseHeaders): void {
  for (const name in headers) {
    const value = headers[name] as string | string[];
    if (typeof value === 'string' ? UNSAFE_VALUE.test(value) : value.some((item) => UNSAFE_VALUE.test(item))) {
      throw new TypeError(`The response header ${name} holds a character that is not printable ASCII.`);
    }
  }
}

/** How long the uws edge keeps a connection that waits for its next request: its native code ends it a little later. */
export const KEPT_FOR = `timeout=${LIMITS.uwsKeepAliveMs / 1000}`;
export const KEPT = `\r\nkeep-alive: ${KEPT_FOR}`;

/** Headers for the `constant` argument of `send`. Throws as `checkHeaders` does. */
export function constantHeaders(headers: Record<string, string>): ConstantHeaders {
  checkHeaders(headers);
  const [[first, value], ...others] = Object.entries(headers) as [[string, string], ...[string, string][]];
  const rest = [value, ...others.map(([name, other]) => `${name}: ${other}`)].join('\r\n');
  return { headers, first, rest, restKept: rest + KEPT, lines: `\r\n${first}: ${rest}` };
}

/** Status lines by code, such as `404 Not Found`. */
export function statusLine(status: number): string {
  return STATUS_LINES[status] ?? `${status} Unknown`;
}

const STATUS_LINES: Record<number, string> = Object.fromEntries(
  Object.entries(STATUS_CODES).map(([code, text]) => [code, `${code} ${text}`]),
);
