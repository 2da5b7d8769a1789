/** What goes in and out as one large file: backups, and the code of all apps with its history (decisions, section 7). */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseStream } from '../edge/edge.ts';
import { answerJson } from '../http/answers.ts';
import { type Route, route } from '../http/router.ts';
import type { Services } from '../services.ts';
import { gitStoreOf } from './drafts.ts';
import { originOf } from './requests.ts';

const CHUNK_BYTES = 256 * 1024;

export function transferRoutes(services: Services): Route[] {
  const { backups, listening, log } = services;
  return [
    route('POST', '/svc/_backup', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      try {
        await backups.take(gone, (path, signal) => sendFile(exchange, path, 'application/gzip', signal, log));
      } catch (error) {
        if (!gone.aborted) throw error;
      }
    }),
    route('POST', '/svc/_code/export', 'admin', async (exchange) => {
      const gone = goneSignal(exchange);
      await gitStoreOf(services).code.export((path) => sendFile(exchange, path, 'application/x-git-bundle', gone, log));
    }),
    route('POST', '/svc/_code/import', 'admin', async (exchange) => {
      const origin = originOf(exchange, listening());
      const body = exchange.streamBody(LIMITS.gitBundleBytes, LIMITS.uploadTimeoutMs);
      try {
        answerJson(exchange, 201, await gitStoreOf(services).code.import(body, origin));
      } finally {
        body.destroy();
      }
    }),
  ];
}

/** Aborts when the client goes away. */
function goneSignal(exchange: Exchange): AbortSignal {
  const gone = new AbortController();
  exchange.onAbort(() => gone.abort());
  return gone.signal;
}

/**
 * Answers with a file that was made for this request, at the pace of its reader. A failure after the answer has begun cuts it off:
 * the reader sees a file without an end.
 */
async function sendFile(
  exchange: Exchange,
  path: string,
  type: string,
  signal: AbortSignal,
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  const file = await open(path);
  const stream = exchange.stream(200, { 'content-type': type, 'cache-control': 'no-store' });
  try {
    for await (const chunk of file.createReadStream({ highWaterMark: CHUNK_BYTES })) {
      signal.throwIfAborted();
      if (!stream.write(chunk as Buffer)) await drained(stream, signal);
    }
  } catch (error) {
    if (!exchange.aborted) log.warn({ err: error }, 'A file could not be sent completely.');
  } finally {
    stream.end();
    await file.close();
  }
}

/** Rejects when the reader takes nothing for too long, or `signal` aborts. */
function drained(stream: ResponseStream, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: unknown) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      if (error === undefined) resolve();
      else reject(error as Error);
    };
    const aborted = () => end(signal.reason);
    const timer = setTimeout(
      () => end(new SvcError('BAD_REQUEST', 'The reader read nothing for too long.')),
      LIMITS.backupStallMs,
    );
    signal.addEventListener('abort', aborted, { once: true });
    stream.onDrain(() => end());
    if (signal.aborted) aborted();
  });
}
