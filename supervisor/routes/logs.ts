/** Log entries over HTTP, of live apps and of drafts. */
import { LIMITS } from '../../protocol/limits.ts';
import type { AppLogs } from '../../storage/app-log.ts';
import type { Exchange } from '../edge/edge.ts';
import { answerJson } from '../http/answers.ts';
import { integerOf, queryOf } from './requests.ts';

/** Answers with the last entries of what is kept under `key`, or with `?follow=1` with those to come. */
export async function answerLogs(logs: AppLogs, exchange: Exchange, key: string): Promise<void> {
  const query = queryOf(exchange);
  if (query.get('follow') === '1') {
    followLogs(logs, exchange, key);
    return;
  }
  const before = integerOf(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  answerJson(exchange, 200, await logs.tail(key, integerOf(query, 'limit', 50, 500), before));
}

/** Of all live apps when `key` is null. */
export function followLogs(logs: AppLogs, exchange: Exchange, key: string | null): void {
  if (exchange.method === 'HEAD') {
    exchange.send(200, { 'content-type': 'text/event-stream' }, '');
    return;
  }
  const stream = exchange.stream(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
  });
  stream.write(': log entries follow\n\n');
  const heartbeat = setInterval(() => stream.write(':\n\n'), LIMITS.changeHeartbeatMs).unref();
  const write = (_key: string, line: string) => {
    // A reader that does not read misses lines rather than filling our memory; the file has them all.
    if (stream.buffered < LIMITS.subscriberBacklogBytes) stream.write(`event: log\ndata: ${line}\n\n`);
  };
  const unfollow = logs.follow(key, write, () => {
    clearInterval(heartbeat);
    stream.end();
  });
  exchange.onAbort(() => {
    unfollow();
    clearInterval(heartbeat);
  });
}
