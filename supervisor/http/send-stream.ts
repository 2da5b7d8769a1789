/** Sends a file as an answer, as fast as the client reads. */
import type { Logger } from 'pino';
import type { Exchange, ResponseHeaders, ResponseStream } from '../edge/edge.ts';

/** Aborts when the client goes away. */
export function goneSignal(exchange: Exchange): AbortSignal {
  const gone = new AbortController();
  exchange.onAbort(() => gone.abort());
  return gone.signal;
}

/**
 * A failure after the answer has begun cuts it off: the reader sees a file without an end. `length`, if given, is that of all of
 * `content`. Never rejects.
 */
export async function sendStream(
  exchange: Exchange,
  content: AsyncIterable<unknown>,
  headers: ResponseHeaders,
  log: Logger,
  signal: AbortSignal = goneSignal(exchange),
  { status = 200, length }: { status?: number; length?: number } = {},
): Promise<void> {
  const stream = exchange.stream(status, headers, length);
  try {
    // Reads nothing for a HEAD request.
    if (exchange.method === 'HEAD') return;
    for await (const chunk of content) {
      signal.throwIfAborted();
      if (!stream.write(chunk as Buffer)) await drained(stream, signal);
    }
  } catch (error) {
    if (!exchange.aborted) log.warn({ err: error }, 'A file could not be sent completely.');
  } finally {
    stream.end();
  }
}

/** Rejects when `signal` aborts: the client went away, or the edge cut it off because it took nothing. */
function drained(stream: ResponseStream, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: unknown) => {
      signal.removeEventListener('abort', aborted);
      if (error === undefined) resolve();
      else reject(error as Error);
    };
    const aborted = () => end(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    stream.onDrain(() => end());
    if (signal.aborted) aborted();
  });
}
