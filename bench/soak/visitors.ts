/** What comes to a gateway beside plain calls: uploads, authors, event streams, webhooks, and requests that are odd or cut off. */
import { setMaxListeners } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { tarball } from '../../testing/archive.ts';
import { Author, css, EDITED, reloaded } from '../author.ts';
import { APP, automationFiles, benchApp, incompressible, LARGE_FILE, ROWS } from '../bench-app.ts';
import type { Daemon } from '../daemon.ts';
import { write, writeBatch } from '../scenarios/workloads.ts';
import { httpBytes } from '../workload.ts';
import ODD from './odd-requests.json' with { type: 'json' };

/** Milliseconds between two visits of a kind. A webhook may be called once a second, and each hook takes its turn. */
const EVERY_MS = { upload: 4000, guest: 20_000, author: 4000, stream: 250, hook: 500, run: 1000, cut: 200, odd: 100 };
type Kind = keyof typeof EVERY_MS;
/** The others overlap, as visits of several people do. */
const ONE_AT_A_TIME: Kind[] = ['upload', 'guest', 'author', 'hook', 'run'];

const UPLOADED = `${APP}-uploaded`;
const AUTHORED = `${APP}-authored`;
const HOOKED = `${APP}-hooked`;
/** More than are retained, so that every upload is of a version that is not there. */
const VERSIONS = 12;
const FILES = 30;
const FILE_BYTES = 2048;
const HOOKS = 4;
const KEPT_RUNS = 30;
const TURNS_PER_SESSION = 5;
const STREAM_MS = 1000;
const GUEST_FILES = {
  ...automationFiles('hook', [{ kind: 'webhook', pending: true }], { count: KEPT_RUNS }),
  ...automationFiles('yearly', [{ kind: 'cron', expr: '0 0 1 1 *' }]),
};
/** `refused`: the status of its error; `{name}` in it is another word each time. */
type Odd = { refused?: number; method: string; path: string; body?: unknown; headers?: Record<string, string> };

const EVENT = { type: 'order.updated', order: { id: 4711, total: 12.5, open: true } };

export class Visitors {
  /** Visits that ended as they should, by kind, and what the first that did not met. */
  readonly visits: Record<string, number> = {};
  failed = 0;
  firstFailure: string | null = null;
  readonly #daemon: Daemon;
  readonly #archives: Buffer[];
  readonly #hooks: MintedWebhook[];
  readonly #stopping = new AbortController();
  #going: Promise<void>[] = [];
  #author: Author | null = null;

  private constructor(daemon: Daemon, archives: Buffer[], hooks: MintedWebhook[]) {
    this.#daemon = daemon;
    this.#archives = archives;
    this.#hooks = hooks;
  }

  /** Installs the apps that are visited. */
  static async prepare(daemon: Daemon): Promise<Visitors> {
    const archives = Array.from({ length: VERSIONS }, (_, version) => archive(version));
    const hooks = Array.from({ length: HOOKS }, (_, i) =>
      automationFiles(`hook-${i}`, [{ kind: 'webhook', pending: true }], { count: KEPT_RUNS }),
    );
    await daemon.install(AUTHORED, benchApp(AUTHORED));
    const { webhooks } = await daemon.install(HOOKED, benchApp(HOOKED, Object.assign({}, ...hooks)));
    const visitors = new Visitors(daemon, archives, webhooks);
    setMaxListeners(0, visitors.#stopping.signal);
    return visitors;
  }

  /** Visits of every kind until `stop`. */
  start(): void {
    this.#going = (Object.keys(EVERY_MS) as Kind[]).map((kind) => this.#keepVisiting(kind));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#going);
    await this.#author?.close();
  }

  async #keepVisiting(kind: Kind): Promise<void> {
    const { signal } = this.#stopping;
    const under = new Set<Promise<void>>();
    for (let turn = 0; !signal.aborted; turn++) {
      const due = wait(EVERY_MS[kind], undefined, { signal }).catch(() => {});
      const visit = this.#visit(kind, turn).finally(() => under.delete(visit));
      under.add(visit);
      if (ONE_AT_A_TIME.includes(kind)) await visit;
      await due;
    }
    await Promise.all(under);
  }

  async #visit(kind: Kind, turn: number): Promise<void> {
    try {
      await this.#kinds[kind](turn);
      this.visits[kind] = (this.visits[kind] ?? 0) + 1;
    } catch (error) {
      this.failed++;
      this.firstFailure ??= `${kind} ${turn}: ${(error as Error).message}`;
    }
  }

  readonly #kinds: Record<Kind, (turn: number) => Promise<void>> = {
    upload: async (turn) => {
      await this.#daemon.install(UPLOADED, this.#archives[turn % VERSIONS] as Buffer);
      await this.#daemon.readNote(UPLOADED);
    },
    guest: (turn) => this.#comeAndGo(`${APP}-guest-${turn}`),
    author: (turn) => this.#write(turn),
    stream: (turn) => this.#stream(turn),
    hook: (turn) => this.#callHook(this.#hooks[turn % HOOKS] as MintedWebhook),
    run: async (turn) => {
      const path = `/svc/_automations/${HOOKED}/hook-${turn % HOOKS}/run`;
      const { runId } = JSON.parse(await this.#text('POST', path, JSON.stringify({ input: EVENT })));
      // Its events end with it.
      await this.#text('GET', `/svc/_runs/${runId}/events`);
      await this.#text('GET', `/svc/_runs/${runId}/nodes`);
    },
    cut: (turn) => this.#cutOff(turn),
    odd: (turn) => this.#odd(turn),
  };

  /** An edit, looked at in the preview and published. */
  async #write(turn: number): Promise<void> {
    if (turn % TURNS_PER_SESSION === 0) {
      const last = this.#author;
      this.#author = null;
      await last?.close();
    }
    const author = this.#author ?? (await Author.open({ daemon: this.#daemon, apps: [AUTHORED] }));
    this.#author = author;
    const text = css(`${Date.now()} ${turn}`);
    await author.edit(AUTHORED, text);
    await author.shows(AUTHORED, text);
    const events = await author.changes(AUTHORED);
    const edited = css(`${Date.now()} ${turn} again`);
    await author.edit(AUTHORED, edited);
    await reloaded(events);
    await author.publish(AUTHORED);
    events.close();
  }

  /** An app that nobody had before and nobody has afterwards. */
  async #comeAndGo(app: string): Promise<void> {
    const { webhooks } = await this.#daemon.install(app, benchApp(app, GUEST_FILES));
    const events = await this.#daemon.stream(`/svc/${app}/_changes`);
    await this.#daemon.readNote(app);
    await this.#text('POST', '/svc/_tool/svc_write', JSON.stringify(write(1, app).request.body));
    await this.#text('GET', `/svc/${app}/${EDITED}`);
    await this.#text('PUT', `/svc/_apps/${app}/settings`, JSON.stringify({ app }));
    await this.#callHook(webhooks[0] as MintedWebhook);
    await this.#text('DELETE', `/svc/_apps/${app}?purge=1`);
    // It ends with the app.
    await events.ended();
  }

  async #callHook({ url, secret }: MintedWebhook): Promise<void> {
    await this.#text('POST', new URL(url).pathname, JSON.stringify(EVENT), { authorization: `Bearer ${secret}` });
  }

  /** A page that is open for a second. */
  async #stream(turn: number): Promise<void> {
    const path = turn % 2 === 0 ? `/svc/${APP}/_changes?tables=notes` : `/svc/_runs/_events?app=${HOOKED}`;
    const stream = await this.#daemon.stream(path);
    await wait(STREAM_MS, undefined, { signal: this.#stopping.signal }).catch(() => {});
    stream.close();
  }

  /** A connection that ends before its request or its answer is whole. */
  #cutOff(turn: number): Promise<void> {
    const { port, token } = this.#daemon;
    const call = (request: Parameters<typeof httpBytes>[0]): Buffer => httpBytes(request, token);
    const id = 1 + (turn % ROWS);
    const post = call(writeBatch(id).request);
    const upload = {
      method: 'POST',
      path: `/svc/_apps/${UPLOADED}/upload`,
      body: this.#archives[0] as Buffer,
    } as const;
    const cuts: [bytes: Buffer, afterAnswerBegins: boolean][] = [
      [post.subarray(0, 40), false],
      [post.subarray(0, post.length - 10), false],
      [post, false],
      [call(write(id).request), false],
      [call({ method: 'GET', path: `/svc/${APP}/${LARGE_FILE}` }), true],
      [call(upload).subarray(0, 20_000), false],
      [call({ method: 'GET', path: `/svc/${APP}/_changes` }), true],
      [call({ method: 'GET', path: `/svc/_logs?app=${APP}&follow=1` }), true],
    ];
    const [bytes, afterAnswerBegins] = cuts[turn % cuts.length] as (typeof cuts)[number];
    return new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      // What was written may not have been read by the other side: that, too, is what happens to real requests.
      socket.on('error', () => {});
      socket.on('close', () => resolve());
      socket.write(bytes, () => {
        if (!afterAnswerBegins) setTimeout(() => socket.resetAndDestroy(), turn % 7);
      });
      socket.once('data', () => socket.resetAndDestroy());
    });
  }

  /** Requests that are not like each other: whatever is remembered by their names must be forgotten again. */
  async #odd(turn: number): Promise<void> {
    const filled = JSON.stringify(ODD[turn % ODD.length]).replaceAll('{name}', `${turn}-${Date.now()}`);
    const { refused, method, path, body, headers = {} } = JSON.parse(filled) as Odd;
    const { status, text } = await this.#daemon.call(method, path, { body, headers });
    if (refused === undefined ? status >= 400 : status !== refused)
      throw new Error(`${method} ${path} was answered ${status}: ${text}`);
  }

  async #text(method: string, path: string, body?: string, headers?: Record<string, string>): Promise<string> {
    return (await this.#daemon.request(method, path, body, 'application/json', headers)).text();
  }
}

function archive(version: number): Buffer {
  const files = Array.from({ length: FILES }, (_, i): [string, Buffer] => [
    `media/${i}.png`,
    incompressible(FILE_BYTES, version * FILES + i),
  ]);
  return tarball(benchApp(UPLOADED, Object.fromEntries(files)));
}
