/** The real daemon in its own processes, and a client that sees what a user of the HTTP API sees. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { eventReader, type ServerSentEvent } from '../protocol/http/event-stream.ts';
import { checkAnswer, checkEvent } from './answers.ts';
import { tarball } from './archive.ts';
import { type AppFiles, copyPublished, filesOf, type Published } from './published.ts';
import { inTime, LONG_MS } from './waiting.ts';

export const root: string = dirname(dirname(fileURLToPath(import.meta.url)));

/** Node's flag for a daemon whose standard input is a pipe from the test: however the test ends, so does the daemon. */
export const ENDS_WITH_PARENT: string = `--import=${join(root, 'testing/ends-with-parent.mjs')}`;

/** The folder of an app that comes with the gateway: a template, or an example. */
export function appFolder(name: string): string {
  const template = join(root, 'dist/templates', name);
  return existsSync(template) ? template : join(root, 'examples', name);
}

export type EdgeKind = 'uws' | 'node';
export type StoreKind = 'tarball' | 'git';

export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  bytes: Buffer;
  /** The body as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape
  json: any;
};

/** `agent`: whose connections it uses, or `false` for one of its own; otherwise those of all calls. */
export type CallOptions = {
  body?: unknown;
  headers?: Record<string, string>;
  token?: string | null;
  agent?: Agent | false;
};

/**
 * An open event stream. `next` waits for the next event that is not a comment, and rejects if the stream ends first or
 * nothing comes in time; `ended` rejects if the stream does not end in time, `closed` waits without a limit.
 */
export type Stream = {
  next(limitMs?: number): Promise<ServerSentEvent>;
  ended(): Promise<void>;
  closed: Promise<void>;
  close(): void;
};

/**
 * The checkout whose build is started, flags of Node for its supervisor, the script that replaces `bin/svc.js`, and a limit of file
 * descriptors: set in a shell that becomes Node, which takes all that it may have when it starts. `within` are the words of a command
 * that starts it, such as one in a network namespace.
 */
export type Build = {
  root: string;
  nodeFlags?: string[];
  script?: string;
  descriptors?: number;
  within?: readonly string[];
};

/** Idle connections are ended after longer than this, on both edges. The client ends them first: a request may cross the end of one. */
const IDLE_MS = 4000;
const AGENT = new Agent({ keepAlive: true, timeout: IDLE_MS });

export class TestGateway {
  readonly dataDir: string;
  url = '';
  token = '';
  /** Sent with every request, for a host that knows its callers by them. */
  headers: Record<string, string> = {};
  pid = 0;
  /** Its standard error, which is its log. */
  log = '';
  /** Milliseconds from its start until it said that it accepts requests. */
  readyMs = 0;
  readonly #flags: string[];
  readonly #env: Record<string, string>;
  readonly #build: Build;
  readonly #begins: Published | null;
  #child: ChildProcess | null = null;
  /** When a call last began, on the clock of `performance.now`. */
  #calledAt = performance.now();

  /** `env` is added to the environment of this process; a data directory that does not exist begins with `begins`. */
  constructor(
    dataDir: string,
    flags: string[],
    env: Record<string, string> = {},
    build: Build = { root },
    begins: Published | null = null,
  ) {
    this.dataDir = dataDir;
    this.#flags = flags;
    this.#env = env;
    this.#build = build;
    this.#begins = begins;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Whether its own process runs. */
  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /**
   * Starts, or starts again after `kill` or `stop`, on the same data; with the previous `port`, at the same address.
   */
  async start(port = '0'): Promise<void> {
    if (this.#begins !== null && !existsSync(this.dataDir))
      await copyPublished(this.dataDir, this.#begins, publisher(this.#begins));
    const args = [
      ENDS_WITH_PARENT,
      ...(this.#build.nodeFlags ?? []),
      join(this.#build.root, this.#build.script ?? 'bin/svc.js'),
      'serve',
      '--data-dir',
      this.dataDir,
      '--port',
      port,
      '--json',
      ...this.#flags,
    ];
    const startedAt = performance.now();
    const { descriptors, within = [] } = this.#build;
    const limited = descriptors ? ['/bin/sh', '-c', `ulimit -n ${descriptors} && exec "$0" "$@"`] : [];
    const [command = '', ...words] = [...within, ...limited, process.execPath, ...args];
    const child = spawn(command, words, {
      env: { ...process.env, ...this.#env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (chunk: Buffer) => {
      this.log += chunk.toString();
    });
    await inTime(this.#ready(child.stdout), `the start of the daemon on ${this.dataDir}`, LONG_MS);
    this.readyMs = performance.now() - startedAt;
    child.stdout.resume();
  }

  async #ready(stdout: Readable): Promise<void> {
    let said = '';
    for await (const line of createInterface({ input: stdout })) {
      said = line;
      const { event, url, token, pid } = JSON.parse(line) as {
        event?: string;
        url: string;
        token: string;
        pid: number;
      };
      if (event !== 'ready') break;
      Object.assign(this, { url, token, pid });
      return;
    }
    throw new Error(`The daemon did not start: ${said}${this.log}`);
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
    if (child === null || !this.isRunning) return child?.exitCode ?? null;
    const [code] = (await inTime(once(child, 'exit'), `the end of daemon ${this.pid}`, LONG_MS)) as [number | null];
    return code;
  }

  #end(signal: NodeJS.Signals): Promise<number | null> {
    const exited = this.exited();
    this.#child?.kill(signal);
    return exited;
  }

  /** One request. A `Buffer` or string body is sent unchanged, anything else as JSON. */
  call(
    method: string,
    path: string,
    { body, headers = {}, token = this.token, agent = AGENT }: CallOptions = {},
  ): Promise<Answer> {
    const bytes =
      body === undefined
        ? null
        : Buffer.isBuffer(body)
          ? body
          : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    const send = (resolve: (answer: Answer) => void, reject: (error: Error) => void): void => {
      const req = request(this.url + path, {
        method,
        agent,
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(bytes ? { 'content-length': String(bytes.length) } : {}),
          ...this.headers,
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
      req.on('error', (error) => {
        // A connection ends for many reasons; the daemon may have said which.
        error.cause ??= new Error(this.#state(req.reusedSocket));
        reject(error);
      });
      req.end(bytes ?? undefined);
    };
    // A test that was held up, by a program that it waited for, has not seen yet that idle connections have ended: it does in the
    // turn of the event loop after this one.
    const wasIdle = performance.now() - this.#calledAt > IDLE_MS;
    this.#calledAt = performance.now();
    const answered = new Promise<Answer>((resolve, reject) => {
      if (wasIdle) setImmediate(() => setImmediate(send, resolve, reject));
      else send(resolve, reject);
    });
    const checked = answered.then((answer) => {
      this.#check(() => checkAnswer(method, path, answer));
      return answer;
    });
    return inTime(checked, `the answer to ${method} ${path}`, LONG_MS);
  }

  /** Another build may have other routes. */
  #check(check: () => void): void {
    if (this.#build.root === root) check();
  }

  #state(isReused: boolean): string {
    const { exitCode = null, signalCode = null } = this.#child ?? {};
    const state = this.isRunning ? 'runs' : `ended (${signalCode ?? exitCode})`;
    const connection = isReused ? 'a connection that was used before' : 'a new connection';
    return `It was ${connection}; daemon ${this.pid} ${state}. Its log ends: ${this.log.slice(-2000) || 'nothing.'}`;
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

  /** Uploads an app that must be taken; its new webhooks. */
  async install(app: string, files: Record<string, string | Buffer> | Buffer): Promise<{ webhooks: MintedWebhook[] }> {
    const answer = await this.upload(app, files);
    if (answer.status >= 300) throw new Error(`The upload of ${app} was answered ${answer.status} ${answer.text}`);
    return answer.json as { webhooks: MintedWebhook[] };
  }

  /**
   * Opens an event stream, with a `body` by POST; resolves when its head has arrived. Rejects with the answer if it is
   * not a stream.
   */
  async stream(path: string, headers: Record<string, string> = {}, body?: unknown): Promise<Stream> {
    const abort = new AbortController();
    const head = fetch(this.url + path, {
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      headers: { authorization: `Bearer ${this.token}`, ...this.headers, ...headers },
      signal: abort.signal,
    });
    const response = await inTime(head, `the head of the stream ${path}`);
    const method = body === undefined ? 'GET' : 'POST';
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      const text = await response.text();
      this.#check(() =>
        checkAnswer(method, path, { status: response.status, headers: Object.fromEntries(response.headers), text }),
      );
      throw new Error(`${response.status} ${text}`);
    }
    return readEvents(path, response, abort, (event) => this.#check(() => checkEvent(method, path, event)));
  }

  /** The process tree. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into it
  async system(): Promise<any> {
    return (await this.call('GET', '/svc/_system')).json;
  }
}

function readEvents(
  path: string,
  response: Response,
  abort: AbortController,
  check: (event: ServerSentEvent) => void,
): Stream {
  const events: ServerSentEvent[] = [];
  const cut = eventReader();
  const waiting: (() => void)[] = [];
  const wake = (): void => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  let isOpen = true;
  let wrong: unknown = null;
  const take = (event: ServerSentEvent): void => {
    events.push(event);
    try {
      check(event);
    } catch (error) {
      wrong ??= error;
    }
  };
  const read = async () => {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      for (const event of cut(chunk)) take(event);
      wake();
    }
  };
  const closed = read()
    .catch(() => {})
    .finally(() => {
      isOpen = false;
      wake();
    });
  return {
    next: async (limitMs) => {
      for (;;) {
        if (wrong !== null) throw wrong;
        const event = events.shift();
        if (event) return event;
        if (!isOpen) throw new Error(`The stream ${path} ended.`);
        const woken = new Promise<void>((resolve) => waiting.push(resolve));
        await inTime(woken, `the next event of ${path}`, limitMs);
      }
    },
    ended: () => inTime(closed, `the end of the stream ${path}`),
    closed,
    close: () => abort.abort(),
  };
}

export type StartOptions = {
  edge?: EdgeKind;
  /** The tarball store by default, or the git store that `config` names. */
  store?: StoreKind;
  config?: Record<string, unknown>;
  /** Apps that are published before it starts: files by name, or the name of a template or example. */
  apps?: Record<string, AppFiles> | string[];
  env?: Record<string, string>;
  /** How many file descriptors it may have. */
  descriptors?: number;
  /** As in `Build`. */
  within?: readonly string[];
};

/** Publishes the apps with a gateway that starts on a new data directory, and ends. */
const publisher =
  ({ store, apps }: Published) =>
  async (dataDir: string): Promise<void> => {
    const gateway = new TestGateway(dataDir, ['--store', store], { TMPDIR: dirname(dataDir) });
    await gateway.start();
    try {
      for (const [id, files] of Object.entries(apps)) await gateway.install(id, files);
    } finally {
      await gateway.stop();
    }
  };

/** A gateway that is not started yet, with its configuration, its data and its sockets in `folder`. */
export function gatewayIn(
  folder: string,
  { edge, store, config = {}, apps = {}, env = {}, descriptors, within = [] }: StartOptions = {},
): TestGateway {
  const configFile = join(folder, 'config.json');
  writeFileSync(configFile, JSON.stringify({ log: 'warn', ...config }));
  const named = store ?? ('appsStoreRoot' in config ? null : 'tarball');
  const flags = ['--config', configFile, ...(edge ? ['--edge', edge] : []), ...(named ? ['--store', named] : [])];
  // The folder of the sockets, which a killed daemon leaves behind, is removed with the rest.
  const build = { root, within, ...(descriptors === undefined ? {} : { descriptors }) };
  const files = Array.isArray(apps) ? Object.fromEntries(apps.map((name) => [name, filesOf(appFolder(name))])) : apps;
  const begins = Object.keys(files).length === 0 ? null : { store: named ?? 'git', apps: files };
  return new TestGateway(join(folder, 'data'), flags, { TMPDIR: folder, ...env }, build, begins);
}

/** One in a fresh folder; `remove` stops it and removes the folder. */
export function makeGateway(options: StartOptions = {}): { gateway: TestGateway; remove(): Promise<void> } {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const gateway = gatewayIn(folder, options);
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
