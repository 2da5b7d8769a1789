/** What comes to a gateway beside plain calls: uploads, authors, event streams, webhooks, and requests that are odd or cut off. */
import { setMaxListeners } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { tarball } from '../../testing/archive.ts';
import { type Author, css, EDITED, openAuthor, reloaded } from '../author.ts';
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

export type Visits = Awaited<ReturnType<typeof prepareVisits>>['seen'];

/** Installs the apps that are visited; visits of every kind come from `start` until `stop`. */
export async function prepareVisits(daemon: Daemon) {
  /** Visits that ended as they should, by kind, and what the first that did not met. */
  const seen = { visits: {} as Record<string, number>, failed: 0, firstFailure: null as string | null };
  const archives = Array.from({ length: VERSIONS }, (_, version) => archive(version));
  const files = Array.from({ length: HOOKS }, (_, i) =>
    automationFiles(`hook-${i}`, [{ kind: 'webhook', pending: true }], { count: KEPT_RUNS }),
  );
  await daemon.install(AUTHORED, benchApp(AUTHORED));
  const { webhooks: hooks } = await daemon.install(HOOKED, benchApp(HOOKED, Object.assign({}, ...files)));
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  let going: Promise<void>[] = [];
  let author: Author | null = null;

  function start(): void {
    going = (Object.keys(EVERY_MS) as Kind[]).map((kind) => keepVisiting(kind));
  }

  async function stop(): Promise<void> {
    stopping.abort();
    await Promise.all(going);
    await author?.close();
  }

  async function keepVisiting(kind: Kind): Promise<void> {
    const { signal } = stopping;
    const under = new Set<Promise<void>>();
    for (let turn = 0; !signal.aborted; turn++) {
      const due = wait(EVERY_MS[kind], undefined, { signal }).catch(() => {});
      const visiting = visit(kind, turn).finally(() => under.delete(visiting));
      under.add(visiting);
      if (ONE_AT_A_TIME.includes(kind)) await visiting;
      await due;
    }
    await Promise.all(under);
  }

  async function visit(kind: Kind, turn: number): Promise<void> {
    try {
      await kinds[kind](turn);
      seen.visits[kind] = (seen.visits[kind] ?? 0) + 1;
    } catch (error) {
      seen.failed++;
      seen.firstFailure ??= `${kind} ${turn}: ${(error as Error).message}`;
    }
  }

  const kinds: Record<Kind, (turn: number) => Promise<void>> = {
    upload: async (turn) => {
      await daemon.install(UPLOADED, archives[turn % VERSIONS] as Buffer);
      await daemon.readNote(UPLOADED);
    },
    guest: (turn) => comeAndGo(`${APP}-guest-${turn}`),
    author: editAndPublish,
    stream: openStream,
    hook: (turn) => callHook(hooks[turn % HOOKS] as MintedWebhook),
    run: async (turn) => {
      const path = `/svc/_automations/${HOOKED}/hook-${turn % HOOKS}/run`;
      const { runId } = JSON.parse(await ask('POST', path, JSON.stringify({ input: EVENT })));
      // Its events end with it.
      await ask('GET', `/svc/_runs/${runId}/events`);
      await ask('GET', `/svc/_runs/${runId}/nodes`);
    },
    cut: cutOff,
    odd: sendOdd,
  };

  /** An edit, looked at in the preview and published. */
  async function editAndPublish(turn: number): Promise<void> {
    if (turn % TURNS_PER_SESSION === 0) {
      const last = author;
      author = null;
      await last?.close();
    }
    author ??= await openAuthor({ daemon, apps: [AUTHORED] });
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
  async function comeAndGo(app: string): Promise<void> {
    const { webhooks } = await daemon.install(app, benchApp(app, GUEST_FILES));
    const events = await daemon.stream(`/svc/${app}/_changes`);
    await daemon.readNote(app);
    await ask('POST', '/svc/_tool/svc_write', JSON.stringify(write(1, app).request.body));
    await ask('GET', `/svc/${app}/${EDITED}`);
    await ask('PUT', `/svc/_apps/${app}/settings`, JSON.stringify({ app }));
    await callHook(webhooks[0] as MintedWebhook);
    await ask('DELETE', `/svc/_apps/${app}?purge=1`);
    // It ends with the app.
    await events.ended();
  }

  async function callHook({ url, secret }: MintedWebhook): Promise<void> {
    await ask('POST', new URL(url).pathname, JSON.stringify(EVENT), { authorization: `Bearer ${secret}` });
  }

  /** A page that is open for a second. */
  async function openStream(turn: number): Promise<void> {
    const path = turn % 2 === 0 ? `/svc/${APP}/_changes?tables=notes` : `/svc/_runs/_events?app=${HOOKED}`;
    const stream = await daemon.stream(path);
    await wait(STREAM_MS, undefined, { signal: stopping.signal }).catch(() => {});
    stream.close();
  }

  /** A connection that ends before its request or its answer is whole. */
  function cutOff(turn: number): Promise<void> {
    const { port, token } = daemon;
    const call = (request: Parameters<typeof httpBytes>[0]): Buffer => httpBytes(request, token);
    const id = 1 + (turn % ROWS);
    const post = call(writeBatch(id).request);
    const upload = {
      method: 'POST',
      path: `/svc/_apps/${UPLOADED}/upload`,
      body: archives[0] as Buffer,
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
  async function sendOdd(turn: number): Promise<void> {
    const filled = JSON.stringify(ODD[turn % ODD.length]).replaceAll('{name}', `${turn}-${Date.now()}`);
    const { refused, method, path, body, headers = {} } = JSON.parse(filled) as Odd;
    const { status, text } = await daemon.call(method, path, { body, headers });
    if (refused === undefined ? status >= 400 : status !== refused)
      throw new Error(`${method} ${path} was answered ${status}: ${text}`);
  }

  async function ask(method: string, path: string, body?: string, headers?: Record<string, string>): Promise<string> {
    return (await daemon.request(method, path, body, 'application/json', headers)).text();
  }

  return { seen, start, stop };
}

function archive(version: number): Buffer {
  const files = Array.from({ length: FILES }, (_, i): [string, Buffer] => [
    `media/${i}.png`,
    incompressible(FILE_BYTES, version * FILES + i),
  ]);
  return tarball(benchApp(UPLOADED, Object.fromEntries(files)));
}
