// Apps and workspaces are served and released while a gateway runs, on both stores: what is told, what ends, what is there again, here
// and at another gateway.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { Layout } from '../../storage/layout.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { appOf } from '../../testing/apps.ts';
import { historyOf } from '../../testing/chat.ts';
import { type Ending, serveExchanges } from '../../testing/exchange-server.ts';
import { type Answer, type StoreKind, TestGateway } from '../../testing/gateway.ts';
import { childrenOf } from '../../testing/processes.ts';
import { scriptedRunner } from '../../testing/scripted-runner.ts';
import { eventually, LIMIT_MS, LONG_MS } from '../../testing/waiting.ts';
import { resolveConfig } from '../config.ts';
import type { Services } from '../services.ts';
import { assemble } from '../wiring.ts';

const NOTES = appOf('notes', {
  queries: {
    list: `async ({ db }) => db.all('SELECT text FROM notes ORDER BY rowid')`,
    token: `async ({ ctx }) => (await ctx.secrets.get('TOKEN')) === 'of the app'`,
  },
  actions: {
    add: {
      writes: ['notes'],
      run: `async ({ db, input }) => {
        await db.run('INSERT INTO notes (text) VALUES (?)', input.text);
        return { status: 201, body: input };
      }`,
    },
    slow: {
      writes: ['notes'],
      run: `async ({ db }) => {
        while (!(await db.get('SELECT 1 FROM gates'))) await new Promise((resolve) => setTimeout(resolve, 10));
        await db.run("INSERT INTO notes (text) VALUES ('slow')");
      }`,
    },
  },
  automations: {
    hook: { triggers: [{ kind: 'webhook', pending: true }], run: 'async ({ input }) => ({ output: input })' },
    endless: { run: 'async () => new Promise(() => {})' },
    yearly: { triggers: [{ kind: 'cron', expr: '0 0 1 1 *', catchUp: true }], run: 'async () => ({})' },
  },
  migrations: ['CREATE TABLE notes (text TEXT); CREATE TABLE gates (isOpen INTEGER);'],
  files: { 'index.html': '<title>Notes</title><p>live' },
});
const OTHER = appOf('other', {
  queries: { list: `async ({ db }) => db.all('SELECT text FROM notes')` },
  actions: {
    add: {
      writes: ['notes'],
      run: `async ({ db, input }) => void (await db.run('INSERT INTO notes VALUES (?)', input.text))`,
    },
  },
  migrations: ['CREATE TABLE notes (text TEXT);'],
});
const YEAR_MS = 365 * 24 * 3600 * 1000;
const KEYED = { headers: { 'idempotency-key': 'first' } };
const HELD = { apps: ['notes'], workspaces: ['mine'] };

type Node = { gateway: TestGateway; services: Services; dataDir: string; end(): Promise<void> };

/** A gateway in this process. */
async function startNode(t: TestContext, dataDir: string, store: StoreKind, servesNothing = false): Promise<Node> {
  const appsStoreRoot = store === 'git' ? 'code-store' : undefined;
  const config = resolveConfig(dataDir, { handlerHosts: 1, ...(appsStoreRoot && { appsStoreRoot }) });
  const { services, pipeline, end } = await assemble(config, pino({ level: 'fatal' }), {
    auth: false,
    authorize: undefined,
    trustHost: false,
    kind: 'plugin',
    extensions: { conversationRunner: scriptedRunner() },
    listening: () => null,
    servesNothing,
    onFatal: (reason) => assert.fail(reason),
  });
  const gateway = new TestGateway(dataDir, []);
  const ends: (() => unknown)[] = [() => end(1000)];
  const ending: Ending = { after: (cleanup) => ends.push(cleanup), diagnostic: console.error };
  gateway.url = `http://127.0.0.1:${await serveExchanges(ending, pipeline.handle)}`;
  const stop = async (): Promise<void> => {
    for (const cleanup of ends.splice(0).reverse()) await cleanup();
  };
  t.after(stop);
  return { gateway, services, dataDir, end: stop };
}

/** Two apps; `notes` has data, a secret, settings, automations, and on the git store a draft in the workspace `mine`. */
async function filled(t: TestContext, store: StoreKind) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-hosted-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const node = await startNode(t, join(folder, 'first'), store);
  const { gateway } = node;
  const [webhook] = (await gateway.install('notes', NOTES)).webhooks as [MintedWebhook];
  await gateway.install('other', OTHER);
  await ok(gateway.call('PUT', '/svc/_apps/notes/secrets/TOKEN', { body: { value: 'of the app' } }));
  await ok(gateway.call('PUT', '/svc/_apps/notes/settings', { body: { colour: 'blue' } }));
  await ok(gateway.write('notes', 'add', { text: 'one' }, KEYED));
  await ok(gateway.call('PUT', '/svc/notes/_blobs', { body: Buffer.from('a file') }));
  if (store === 'git') {
    await ok(gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'mine' } }));
    await ok(gateway.call('PUT', '/svc/_sessions/mine/apps/notes/files/index.html', { body: '<p>draft' }));
    await ok(draft(gateway, 'svc_write', { app: 'notes', action: 'add', input: { text: 'in the draft' } }));
  }
  return { ...node, folder, webhook };
}

/** Lets `slow` end, which takes calls no more to be told so. */
function openGate(dataDir: string): void {
  const data = openSqlite(new Layout(dataDir).app('notes').data);
  data.exec('INSERT INTO gates VALUES (1)');
  data.close();
}

function draft(gateway: TestGateway, tool: string, body: object): Promise<Answer> {
  return gateway.call('POST', `/svc/_draft/mine/_tool/${tool}`, { body });
}

async function ok(answered: Promise<Answer>): Promise<Answer> {
  const answer = await answered;
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

function post(gateway: TestGateway, { webhookId, secret }: MintedWebhook, body: unknown): Promise<Answer> {
  return gateway.call('POST', `/_svc-hook/${webhookId}`, { body, token: secret });
}

function refusedCalls({ gateway }: Node, store: StoreKind, webhook: MintedWebhook): Promise<Answer>[] {
  return [
    gateway.read('notes', 'list'),
    gateway.write('notes', 'add', { text: 'no' }),
    gateway.call('GET', '/svc/notes/'),
    gateway.call('GET', '/svc/_apps/notes'),
    gateway.upload('notes', NOTES),
    gateway.call('GET', '/svc/_apps/notes/secrets'),
    gateway.call('PUT', '/svc/_apps/notes/secrets/TOKEN', { body: { value: 'late' } }),
    gateway.call('GET', '/svc/notes/_changes'),
    gateway.call('POST', '/svc/notes/_chat', { body: { windowId: 'w', message: 'say:late' } }),
    gateway.call('PUT', '/svc/notes/_blobs', { body: Buffer.from('late') }),
    gateway.call('GET', '/svc/notes/_live?query=list'),
    gateway.call('GET', '/svc/_automations/notes/hook'),
    gateway.call('GET', '/svc/_automations?app=notes'),
    gateway.call('GET', '/svc/_logs?app=notes&follow=1'),
    gateway.call('GET', '/svc/_runs?ref=notes/hook'),
    post(gateway, webhook, {}),
    ...(store === 'git'
      ? [
          draft(gateway, 'svc_read', { app: 'notes', query: 'list' }),
          gateway.call('GET', '/svc/_draft/mine/notes/'),
          gateway.call('GET', '/svc/_sessions/mine/apps/notes/files'),
          gateway.call('GET', '/svc/_sessions/mine/diff'),
        ]
      : []),
  ];
}

async function checkRefused(calls: Promise<Answer>[]): Promise<void> {
  for (const [at, { status, text, headers }] of (await Promise.all(calls)).entries()) {
    assert.equal(status, 503, `call ${at}: ${text}`);
    assert.match(text, /STORAGE_UNAVAILABLE|does not serve this data now/, `call ${at}`);
    assert.equal(headers['retry-after'], '1', `call ${at}`);
  }
}

/** Files below the folder that this process or its children have open. */
function openBelow(folder: string): string[] {
  const pids = [process.pid, ...childrenOf(process.pid).map(({ pid }) => pid)];
  return pids.flatMap((pid) =>
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        const file = readlinkSync(`/proc/${pid}/fd/${fd}`);
        return file.startsWith(folder) ? [file] : [];
      } catch {
        return [];
      }
    }),
  );
}

/** Everything of `notes` and of its draft is there. */
async function checkServed({ gateway, services }: Node, store: StoreKind, webhook: MintedWebhook): Promise<void> {
  assert.match((await ok(gateway.call('GET', '/svc/notes/'))).text, /<p>live/);
  const again = await ok(gateway.write('notes', 'add', { text: 'one' }, KEYED));
  assert.equal(again.headers['idempotency-replayed'], 'true');
  assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'one' }, { text: 'slow' }]);
  assert.equal((await gateway.read('notes', 'token')).json.data, true);
  const rows = (await gateway.call('GET', '/svc/_apps/notes/secrets')).json;
  assert.deepEqual(
    rows.map(({ name, state }: { name: string; state: string }) => [name, state]),
    [['TOKEN', 'set']],
  );
  assert.deepEqual((await gateway.call('GET', '/svc/_apps/notes/settings')).json.settings, { colour: 'blue' });
  assert.equal((await ok(post(gateway, webhook, { from: 'outside' }))).json.ok, true);
  const sha256 = createHash('sha256').update('a file').digest('hex');
  assert.equal((await ok(gateway.call('GET', `/svc/notes/_blobs/${sha256}`))).text, 'a file');
  assert.ok((services.automations.scheduler.nextRunAt('notes/yearly') ?? 0) > Date.now());
  const listed = (await gateway.call('GET', '/svc/_automations?app=notes')).json.rows;
  assert.deepEqual(listed.map(({ ref }: { ref: string }) => ref).sort(), [
    'notes/endless',
    'notes/hook',
    'notes/yearly',
  ]);
  const stream = await gateway.stream('/svc/notes/_live?query=list');
  await stream.next();
  stream.close();
  if (store === 'tarball') return;
  const read = await ok(draft(gateway, 'svc_read', { app: 'notes', query: 'list' }));
  assert.deepEqual(read.json.data.at(-1), { text: 'in the draft' });
  assert.match((await gateway.call('GET', '/svc/_draft/mine/notes/')).text, /<p>draft/);
}

function runsOf({ services }: Node): Promise<RunRecord[]> {
  return services.automations.runs.list({ app: 'notes' });
}

for (const store of ['tarball', 'git'] as const) {
  test(`an app is released and served again, on the ${store} store`, async (t) => {
    const node = await filled(t, store);
    const { gateway, services, webhook, dataDir } = node;
    const { hosted, automations } = services;
    const streams = await Promise.all(
      [
        '/svc/notes/_changes',
        '/svc/notes/_live?query=list',
        '/svc/_runs/_events?app=notes',
        '/svc/_logs?app=notes&follow=1',
      ].map((path) => gateway.stream(path)),
    );
    const turn = await gateway.stream('/svc/notes/_chat', {}, { windowId: 'w', message: 'say:hello hang' });
    for (let event = await turn.next(); event.event !== 'assistant.delta'; ) event = await turn.next();
    const followed = await gateway.stream('/svc/other/_changes');
    const slow = gateway.write('notes', 'slow');
    assert.ok(
      await eventually(LIMIT_MS, () => (services.tree.existing('notes')?.generations[0]?.inFlight.size ?? 0) > 0),
    );

    let isReleased = false;
    const released = hosted.release(HELD, LONG_MS).then(() => {
      isReleased = true;
    });
    assert.ok(await eventually(LIMIT_MS, () => services.registry.refusalOf('notes') !== null));
    await checkRefused([gateway.read('notes', 'list'), gateway.write('notes', 'add', { text: 'no' })]);
    assert.equal(isReleased, false, 'it waits for the call that is under way');
    openGate(dataDir);
    // A neighbour is not disturbed.
    for (let at = 0; !isReleased || at === 0; at++) await ok(gateway.write('other', 'add', { text: String(at) }));
    await released;
    assert.equal((await slow).status, 200, 'what was under way has ended');
    for (const stream of [...streams, turn]) await stream.ended();
    await checkRefused(refusedCalls(node, store, webhook));
    assert.equal(automations.scheduler.nextRunAt('notes/yearly'), null);
    assert.deepEqual(services.registry.ids(), ['other']);
    assert.equal((await followed.next()).event, 'change');
    assert.equal(followed.closed instanceof Promise, true);
    assert.deepEqual(openBelow(join(dataDir, 'apps/notes')), []);
    assert.deepEqual(openBelow(join(dataDir, 'apps/_drafts')), []);

    const aside = join(dataDir, 'aside');
    renameSync(join(dataDir, 'apps/notes'), aside);
    await checkRefused(refusedCalls(node, store, webhook));
    assert.equal(existsSync(join(dataDir, 'apps/notes')), false, 'nothing is made anew');
    assert.equal(existsSync(join(dataDir, 'journal/notes.json')), false);
    assert.deepEqual(readdirSync(join(dataDir, 'trash')), []);
    renameSync(aside, join(dataDir, 'apps/notes'));

    await hosted.serve(HELD);
    const fired = await ok(gateway.call('POST', '/svc/_automations/notes/endless/run', { body: {} }));
    // A release waits for what is under way, and what comes next waits for it.
    const order: string[] = [];
    await Promise.all([
      hosted.release(HELD, 0).then(() => order.push('released')),
      hosted.serve(HELD).then(() => order.push('served')),
      hosted.release(HELD, 0).then(() => order.push('released again')),
      hosted.serve(HELD).then(() => order.push('served again')),
    ]);
    assert.deepEqual(order, ['released', 'served', 'released again', 'served again']);
    await checkServed(node, store, webhook);
    const run = (await runsOf(node)).find(({ runId }) => runId === fired.json.runId);
    assert.equal(run?.state, 'interrupted');
    const said = await historyOf(gateway, 'notes', 'w');
    assert.deepEqual(
      said.map(({ text, state }) => [text, state]),
      [
        ['say:hello hang', 'interrupted'],
        ['hello', undefined],
      ],
    );
    assert.ok(
      (await runsOf(node)).every(({ trigger }) => trigger.kind !== 'cron'),
      'nothing was missed',
    );
    followed.close();
  });

  test(`another gateway goes on with an app, on the ${store} store`, async (t) => {
    const first = await filled(t, store);
    const { webhook, folder } = first;
    openGate(first.dataDir);
    await ok(first.gateway.write('notes', 'slow'));
    await ok(post(first.gateway, webhook, { from: 'before' }));
    const { registeredAt } = (await first.gateway.call('GET', '/svc/_apps/notes')).json;
    await first.services.hosted.release(HELD);
    await first.end();

    const dataDir = join(folder, 'second');
    mkdirSync(join(dataDir, 'apps'), { recursive: true });
    // What all nodes have, and what the log of pages and the repository bring.
    for (const name of [
      'secrets.key',
      'runtime.sqlite',
      ...(store === 'git' ? ['code-store', 'apps/_store.json'] : []),
    ])
      cpSync(join(first.dataDir, name), join(dataDir, name), { recursive: true });
    const second = await startNode(t, dataDir, store, true);
    const { gateway, services } = second;
    assert.equal((await gateway.read('notes', 'list')).json.error.code, 'UNKNOWN_APP');
    // As a crash of the other one would have left it: a run has not ended, and a time has passed.
    const rows = openSqlite(new Layout(dataDir).runtimeDb);
    rows.exec(`UPDATE runs SET state = 'running', ended_at = NULL;
      UPDATE cron_fired SET last_at = last_at - ${2 * YEAR_MS};`);
    rows.close();
    for (const name of ['apps/notes', ...(store === 'git' ? ['apps/_drafts'] : [])])
      cpSync(join(first.dataDir, name), join(dataDir, name), { recursive: true });

    await services.registry.learn([
      { id: 'notes', registeredAt: Date.parse(registeredAt) || registeredAt, maker: null },
    ]);
    await services.hosted.serve(HELD);
    assert.deepEqual(services.registry.ids(), ['notes']);
    assert.ok(
      await eventually(LIMIT_MS, async () =>
        (await runsOf(second)).some(({ trigger, state }) => trigger.kind === 'cron' && state === 'ok'),
      ),
      'what was missed is made up',
    );
    assert.equal((await runsOf(second)).find(({ ref }) => ref === 'notes/hook')?.state, 'interrupted');
    await checkServed(second, store, webhook);
  });
}

test('a gateway that serves nothing at its start serves what it is told to', async (t) => {
  const first = await filled(t, 'git');
  openGate(first.dataDir);
  await ok(first.gateway.write('notes', 'slow'));
  await first.end();
  const node = await startNode(t, first.dataDir, 'git', true);
  await checkRefused(refusedCalls(node, 'git', first.webhook).slice(0, -5));
  await node.services.hosted.serve(HELD);
  await checkServed(node, 'git', first.webhook);
  assert.equal((await node.gateway.read('other', 'list')).status, 503);
});
