/** Answers with a large file that was made for this one request, at the pace of its reader. */
import { open } from 'node:fs/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseStream } from '../edge/edge.ts';

const CHUNK_BYTES = 256 * 1024;

/** What goes wrong once the answer has begun cuts it off: the file then has no end, which tells whoever reads it. */
export async function sendFile(
  exchange: Exchange,
  { path, type }: { path: string; type: string },
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
      () => end(new SvcError('BAD_REQUEST', 'The reader read nothing for too long.')),
      LIMITS.backupStallMs,
    );
    signal.addEventListener('abort', aborted, { once: true });
    stream.onDrain(() => end());
    if (signal.aborted) aborted();
  });
}
