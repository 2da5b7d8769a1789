/** The real daemon in its own processes, and a client that sees what a user of the HTTP API sees. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createParser } from 'eventsource-parser';
import { tarball } from './archive.ts';

export const root: string = dirname(dirname(fileURLToPath(import.meta.url)));

/** The folder of an app that comes with the gateway: a template, or an example. */
export function appFolder(name: string): string {
  const template = join(root, 'templates', name);
  return existsSync(template) ? template : join(root, 'examples', name);
}

export type EdgeKind = 'uws' | 'node';

export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  bytes: Buffer;
  /** The body as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape
  json: any;
};

export type CallOptions = { body?: unknown; headers?: Record<string, string>; token?: string | null };

export type ServerEvent = { event: string; id: string; data: string };

/** An open event stream; `next` waits for the next event that is not a comment. */
export type Stream = { next(): Promise<ServerEvent>; closed: Promise<void>; close(): void };

export class TestGateway {
  readonly dataDir: string;
  url = '';
  token = '';
  pid = 0;
  /** What it wrote to standard error: its log. */
  log = '';
  readonly #flags: string[];
  readonly #env: Record<string, string>;
  #child: ChildProcess | null = null;

  /** `env` is added to this process's own environment. */
  constructor(dataDir: string, flags: string[], env: Record<string, string> = {}) {
    this.dataDir = dataDir;
    this.#flags = flags;
    this.#env = env;
  }

  /** Starts, or starts again after `kill` or `stop`, on the same data. */
  async start(): Promise<void> {
    const args = [
      join(root, 'bin/svc.js'),
      'serve',
      '--data-dir',
      this.dataDir,
      '--port',
      '0',
      '--json',
      ...this.#flags,
    ];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr?.on('data', (chunk: Buffer) => {
      this.log += chunk.toString();
    });
    for await (const line of createInterface({ input: child.stdout! })) {
      const ready = JSON.parse(line) as { event?: string; url: string; token: string; pid: number };
      if (ready.event !== 'ready') break;
      Object.assign(this, { url: ready.url, token: ready.token, pid: ready.pid });
      child.stdout!.resume();
      return;
    }
    throw new Error(`The daemon did not start: ${this.log}`);
  }

  /** Asks it to stop; resolves with its exit code. */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    return this.#end(signal);
  }

  /** Ends the supervisor's process without warning. */
  kill(): Promise<number | null> {
    return this.#end('SIGKILL');
  }

  /** Resolves with its exit code when it ends by itself. */
  async exited(): Promise<number | null> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const [code] = (await once(child, 'exit')) as [number | null];
    return code;
  }

  #end(signal: NodeJS.Signals): Promise<number | null> {
    const exited = this.exited();
    this.#child?.kill(signal);
    return exited;
  }

  /** One request. A `Buffer` or string body is sent as it is, anything else as JSON. */
  call(method: string, path: string, { body, headers = {}, token = this.token }: CallOptions = {}): Promise<Answer> {
    const bytes =
      body === undefined
        ? null
        : Buffer.isBuffer(body)
          ? body
          : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    return new Promise((resolve, reject) => {
      const req = request(this.url + path, {
        method,
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(bytes ? { 'content-length': String(bytes.length) } : {}),
          ...headers,
        },
      });
      req.on('response', (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => {
          const all = Buffer.concat(chunks);
          const text = all.toString();
          resolve({
            status: res.statusCode ?? 0,
            headers: res.headers,
            text,
            bytes: all,
            get json() {
              return JSON.parse(text);
            },
          });
        });
      });
      req.on('error', reject);
      req.end(bytes ?? undefined);
    });
  }

  read(app: string, query: string, input?: unknown, options: CallOptions = {}): Promise<Answer> {
    return this.call('POST', '/svc/_tool/svc_read', { ...options, body: { app, query, input } });
  }

  write(app: string, action: string, input?: unknown, options: CallOptions = {}): Promise<Answer> {
    return this.call('POST', '/svc/_tool/svc_write', { ...options, body: { app, action, input } });
  }

  /** Uploads files by name, or a ready archive. */
  upload(app: string, files: Record<string, string | Buffer> | Buffer, query = ''): Promise<Answer> {
    const body = Buffer.isBuffer(files) ? files : tarball(files);
    return this.call('POST', `/svc/_apps/${app}/upload${query}`, {
      body,
      headers: { 'content-type': 'application/gzip' },
    });
  }

  /** Opens an event stream; resolves once its head has arrived. Rejects with the answer when it is no stream. */
  async stream(path: string, headers: Record<string, string> = {}): Promise<Stream> {
    const abort = new AbortController();
    const response = await fetch(this.url + path, {
      headers: { authorization: `Bearer ${this.token}`, ...headers },
      signal: abort.signal,
    });
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      throw new Error(`${response.status} ${await response.text()}`);
    }
    return readEvents(response, abort);
  }

  /** The process tree. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into it
  async system(): Promise<any> {
    return (await this.call('GET', '/svc/_system')).json;
  }
}

function readEvents(response: Response, abort: AbortController): Stream {
  const waiting: ((event: ServerEvent) => void)[] = [];
  const events: ServerEvent[] = [];
  const parser = createParser({
    onEvent: ({ event = '', id = '', data }) => {
      const waiter = waiting.shift();
      if (waiter) waiter({ event, id, data });
      else events.push({ event, id, data });
    },
  });
  const decoder = new TextDecoder();
  const read = async () => {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      parser.feed(decoder.decode(chunk, { stream: true }));
    }
  };
  return {
    next: () => {
      const event = events.shift();
      return event ? Promise.resolve(event) : new Promise((resolve) => waiting.push(resolve));
    },
    closed: read().catch(() => {}),
    close: () => abort.abort(),
  };
}

export type StartOptions = {
  edge?: EdgeKind;
  store?: 'tarball' | 'git';
  config?: Record<string, unknown>;
  /** Names of templates and examples. */
  examples?: string[];
  env?: Record<string, string>;
};

/** A gateway in a fresh data directory, which is not started yet; `remove` stops it and removes the directory. */
export function makeGateway({ edge, store, config = {}, examples = [], env = {} }: StartOptions = {}): {
  gateway: TestGateway;
  remove(): Promise<void>;
} {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const configFile = join(folder, 'config.json');
  writeFileSync(configFile, JSON.stringify({ log: 'warn', ...config }));
  const flags = [
    '--config',
    configFile,
    ...(edge ? ['--edge', edge] : []),
    ...(store ? ['--store', store] : []),
    ...examples.flatMap((name) => ['--with', appFolder(name)]),
  ];
  const gateway = new TestGateway(join(folder, 'data'), flags, env);
  const remove = async () => {
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { gateway, remove };
}

/** A gateway in a fresh data directory, stopped and removed at the end of the test (or suite) `t`. */
export async function startGateway(
  t: { after(cleanup: () => Promise<void>): void },
  options: StartOptions = {},
): Promise<TestGateway> {
  const { gateway, remove } = makeGateway(options);
  t.after(remove);
  await gateway.start();
  return gateway;
}
