/** For tests: a real HTTP server around an exchange handler, and requests sent exactly as written. */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import type { ExchangeHandler } from '../supervisor/edge/edge.ts';
import { type EdgeKind, openEdge } from '../supervisor/edge/open-edge.ts';
import { inTime } from './waiting.ts';

/** Registers the clean-up of a test or a file of tests: a test's context, or `after` and a function. */
export type Ending = { after(cleanup: () => unknown): void; diagnostic(note: string): void };

export type Answer = { status: number; headers: IncomingHttpHeaders; body: Buffer };

/** Serves `handler` on a free port until the test ends. */
export async function serveExchanges(t: Ending, handler: ExchangeHandler, kind: EdgeKind = 'auto'): Promise<number> {
  const onFault = (error: unknown): void => t.diagnostic(`The handler threw: ${error}`);
  const { edge } = openEdge(kind, { handler, onFault });
  t.after(() => edge.close());
  return edge.listen('127.0.0.1', 0);
}

/** Sends one request; the path is neither normalized nor encoded. */
export function send(port: number, method: string, path: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
  const answered = new Promise<Answer>((resolve, reject) => {
    const req = request({ port, host: '127.0.0.1', method, path, headers, agent: false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) }));
      res.on('error', reject);
    });
    req.on('error', reject);
    req.end();
  });
  return inTime(answered, `the answer to ${method} ${path}`);
}

/** An event stream as the client sees it: blocks without the blank line that ends each. */
export type EventClient = {
  status: number;
  headers: IncomingHttpHeaders;
  /** The next block; undefined after the server has ended the stream. */
  next(): Promise<string | undefined>;
  pause(): void;
  resume(): void;
  /** Disconnects abruptly, like a closed browser tab. */
  close(): void;
};

export function openEvents(port: number, path: string, headers: OutgoingHttpHeaders = {}): Promise<EventClient> {
  const opened = new Promise<EventClient>((resolve, reject) => {
    const req = request({ port, host: '127.0.0.1', path, headers, agent: false }, (res) => {
      const blocks: string[] = [];
      let rest = '';
      let ended = false;
      let wake = (): void => {};
      res.setEncoding('utf8');
      res.on('data', (text: string) => {
        const parts = (rest + text).split('\n\n');
        rest = parts.pop() as string;
        blocks.push(...parts);
        wake();
      });
      res.on('close', () => {
        ended = true;
        wake();
      });
      res.on('error', () => {});
      resolve({
        status: res.statusCode ?? 0,
        headers: res.headers,
        async next() {
          while (blocks.length === 0 && !ended) {
            const woken = new Promise<void>((done) => {
              wake = done;
            });
            await inTime(woken, `the next event or the end of ${path}`);
          }
          return blocks.shift();
        },
        pause: () => res.pause(),
        resume: () => res.resume(),
        close: () => req.destroy(),
      });
    });
    req.on('error', reject);
    req.end();
  });
  return inTime(opened, `the head of ${path}`);
}
