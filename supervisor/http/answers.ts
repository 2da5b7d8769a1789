/** Sends the answers and errors of the JSON routes, with one set of headers. */
import type { Logger } from 'pino';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import { type Exchange, errorAnswer, PRIVATE, type ResponseHeaders } from '../edge/edge.ts';
import { constantHeaders } from '../edge/exchange.ts';

/** The headers of every JSON answer. */
export const JSON_HEADERS = constantHeaders({
  'content-type': 'application/json; charset=utf-8',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  ...PRIVATE,
});

export const NO_STORE: ResponseHeaders = { 'cache-control': 'no-store' };

export function answerJson(exchange: Exchange, status: number, value: unknown, headers: ResponseHeaders = {}): void {
  exchange.send(status, headers, JSON.stringify(value), JSON_HEADERS);
}

/** Answers with a thrown error; one that was not written for callers is logged and answered as `INTERNAL`. */
export function answerError(exchange: Exchange, error: unknown, log: Logger, headers: ResponseHeaders = {}): void {
  const { status, headers: own, body } = errorAnswer(toSvcError(error, log));
  exchange.send(status, { ...own, ...headers }, body);
}

/** Converts any thrown value to an error that may leave the gateway. */
export function toSvcError(error: unknown, log: Logger): SvcError {
  if (error instanceof SvcError) return error;
  if (isDiskFull(error))
    return new SvcError('STORAGE_FULL', 'The disk is full; nothing was changed. Free some space and try again.');
  if (error instanceof DbError && error.code === 'STORAGE_UNAVAILABLE')
    return new SvcError('STORAGE_UNAVAILABLE', error.message, { headers: { 'retry-after': '1' } });
  // The writer died, and its successor was not there in time.
  if (error instanceof DbError && error.code.startsWith('WRITER_'))
    return new SvcError('OVERLOADED', `${error.message} Try again in a moment.`, { headers: { 'retry-after': '1' } });
  log.error({ err: error }, 'A request failed unexpectedly.');
  return new SvcError('INTERNAL', 'The gateway failed on this request; its log has the details.');
}
