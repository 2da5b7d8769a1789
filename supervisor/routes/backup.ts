/** The gateway as one file. */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseStream } from '../edge/edge.ts';
import type { Route } from '../router.ts';
import type { Services } from '../services.ts';

const CHUNK_BYTES = 256 * 1024;

export function backupRoutes({ backups, log }: Services): Route[] {
  return [
    {
      method: 'POST',
      path: '/svc/_backup',
      summary: 'Make a backup of code, data and configuration: a gzipped tar archive, once it is made.',
      handle: async (exchange) => {
        const gone = new AbortController();
        exchange.onAbort(() => gone.abort());
        try {
          await backups.take(gone.signal, (archive, signal) => sendFile(exchange, archive, signal, log));
        } catch (error) {
          if (!gone.signal.aborted) throw error;
        }
      },
    },
  ];
}

/** What goes wrong once the answer has begun cuts it off: the archive then has no manifest, which tells whoever reads it. */
async function sendFile(exchange: Exchange, path: string, signal: AbortSignal, log: Logger): Promise<void> {
  const file = await open(path);
  const stream = exchange.stream(200, { 'content-type': 'application/gzip', 'cache-control': 'no-store' });
  try {
    for await (const chunk of file.createReadStream({ highWaterMark: CHUNK_BYTES })) {
      signal.throwIfAborted();
      if (!stream.write(chunk as Buffer)) await drained(stream, signal);
    }
  } catch (error) {
    if (!exchange.aborted) log.warn({ err: error }, 'a backup was made but could not be sent whole');
  } finally {
    stream.end();
    await file.close();
  }
}

/** Rejects when the reader takes nothing for too long, or nobody wants it any more. */
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
      () => end(new SvcError('BAD_REQUEST', 'The reader of the backup stood still for too long.')),
      LIMITS.backupStallMs,
    );
    signal.addEventListener('abort', aborted, { once: true });
    stream.onDrain(() => end());
    if (signal.aborted) aborted();
  });
}
