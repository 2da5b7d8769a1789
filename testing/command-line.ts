/** For tests: the command line run in this process, and a small HTTP server that speaks a gateway's routes. */
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import type { TestContext } from 'node:test';
import { runCommandLine } from '../cli/run-command-line.ts';

export const TOKEN = 'a'.repeat(64);

export type Outcome = { code: number; stdout: string; stderr: string };
export type RunOptions = {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  stdin?: string;
  tty?: boolean;
  platform?: NodeJS.Platform;
  /** Columns of the terminal. */
  columns?: number;
  onStdout?: (text: string) => void;
};

/** Runs `svc …` as on a machine without profile or gateway, unless `env` says otherwise. */
export async function svc(
  argv: string[],
  { env = {}, cwd, stdin = '', tty = false, platform = 'linux', columns = 100, onStdout }: RunOptions = {},
): Promise<Outcome> {
  const home = join(tmpdir(), 'svc-test-without-home');
  const stdout = collect(tty, columns, onStdout);
  const stderr = collect(tty, columns);
  const code = await runCommandLine(argv, {
    env: { HOME: home, ...env },
    cwd: cwd ?? tmpdir(),
    platform,
    stdin: Object.assign(Readable.from([stdin]), { isTTY: tty }),
    stdout: stdout.stream,
    stderr: stderr.stream,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

/** As a user other than root: file modes do not apply to root. */
export async function asUser<T>(folder: string, work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0) return work();
  chownSync(folder, 65534, 65534);
  process.seteuid?.(65534);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}

function collect(
  tty: boolean,
  columns: number,
  listener?: (text: string) => void,
): { stream: NodeJS.WriteStream; text: () => string } {
  let text = '';
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      text += chunk;
      listener?.(text);
      done();
    },
  });
  return {
    stream: Object.assign(stream, { isTTY: tty, columns, rows: 40 }) as unknown as NodeJS.WriteStream,
    text: () => text,
  };
}

export type Seen = { method: string; path: string; headers: IncomingMessage['headers']; body: Buffer };
/** The answer of a route: a JSON value with its status, or raw text of another type, left open if it is a stream. */
export type Reply = {
  status?: number;
  json?: unknown;
  headers?: Record<string, string>;
  stream?: string[];
  hangUp?: boolean;
};
export type Routes = Record<string, Reply | ((seen: Seen) => Reply)>;

export type FakeGateway = { url: string; seen: Seen[]; env: NodeJS.ProcessEnv };

/** Serves `routes` (`METHOD /path?query` → reply) to requests with the token; other routes are `NOT_FOUND`. */
export async function startGateway(t: TestContext, routes: Routes): Promise<FakeGateway> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const call = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      seen.push(call);
      const { status = 200, json, headers, stream, hangUp } = answer(routes, call);
      if (stream === undefined) {
        response
          .writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
          .end(JSON.stringify(json));
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const chunk of stream) response.write(chunk);
      if (hangUp) response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, seen, env: { SVC_URL: url, SVC_TOKEN: TOKEN } };
}

function answer(routes: Routes, call: Seen): Reply {
  if (call.headers.authorization !== `Bearer ${TOKEN}`)
    return failure(401, 'UNAUTHORIZED', 'The access token is missing or wrong.');
  const reply = routes[`${call.method} ${call.path}`];
  if (reply === undefined) return failure(404, 'NOT_FOUND', `Nothing is served at ${call.path}.`);
  return typeof reply === 'function' ? reply(call) : reply;
}

export function failure(status: number, code: string, message: string, more: object = {}): Reply {
  return { status, json: { isError: true, error: { code, message, ...more } } };
}

/** A folder that is removed after the test. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
