/** The gateway's own rows in a database for each bucket: found, listed and recovered as those of one database are, and moved with their app. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import pg from 'pg';
import { pino } from 'pino';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { bucketOf, GATEWAY_BUCKET, runtimeOfBucket } from '../../protocol/buckets.ts';
import { draftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Notice } from '../../protocol/notice.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { openLink } from '../../protocol/wire/link.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { Layout } from '../../storage/layout.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { ended, NOW, nodeOfRun, queuedRun, startWriter } from '../../testing/run-ledger.ts';
import { WriterProcess } from '../../testing/writer-process.ts';
import { Attachments } from '../agents/conversations/attachment-store.ts';
import { Chat } from '../agents/conversations/chat.ts';
import { ChatStore, makeChatTables, nameOf } from '../agents/conversations/chat-store.ts';
import { Idempotency } from '../dispatch/idempotency.ts';
import { KeptNotices } from '../notices/kept-notices.ts';
import { RunLedger } from '../runs/ledger.ts';
import { type RuntimeDatabases, RuntimeTables } from '../runtime/runtime-databases.ts';
import { RuntimeOfBuckets } from './runtime-of-buckets.ts';

const [TODOS, NOTES] = [bucketOf('todos'), bucketOf('notes')];
const UNAVAILABLE = { code: 'STORAGE_UNAVAILABLE' };
const KEY = { app: 'notes', action: 'put', caller: 'admin', key: 'k' };
const ANSWER = { status: 201, body: Buffer.from('{"data":1}') };

function ledgerOn(runtime: RuntimeDatabases, analytics: DbClient): RunLedger {
  return new RunLedger({
    runtime,
    analytics,
    putAnalyticsAside: () => Promise.reject(new Error('Nothing is damaged.')),
    now: () => NOW,
    // Summaries may be due when a test has ended.
    log: { warn: () => {} },
  });
}

/** A gateway that serves the buckets of two apps, without a row, and which buckets' databases it opened. */
const NEVER = (): never => assert.fail();

async function setUp(t: TestContext) {
  const writer = await startWriter(t);
  const opened: number[] = [];
  const runtime = new RuntimeOfBuckets((bucket) => {
    opened.push(bucket);
    return writer.client(`bucket-${bucket}`);
  });
  for (const bucket of [TODOS, NOTES]) runtime.serve(bucket, false);
  const layout = new Layout(writer.folder);
  for (const app of ['todos', 'notes']) mkdirSync(layout.app(app).dir, { recursive: true });
  const log = pino({ enabled: false });
  const tables = new RuntimeTables(runtime, makeChatTables);
  const store = new ChatStore({ tables, layout, log, now: () => NOW });
  const chat = new Chat({
    store,
    runner: { choose: () => assert.fail(), run: () => assert.fail() },
    engine: { start: NEVER, running: NEVER, stop: NEVER, release: NEVER },
    drafts: null,
    refusalOf: () => null,
    log,
  });
  const clock = { now: NOW };
  const attachments = new Attachments({ tables, layout, log, now: () => clock.now });
  const ledger = ledgerOn(runtime, writer.client('analytics'));
  await ledger.open();
  return { writer, runtime, opened, ledger, store, chat, attachments, clock, layout, log };
}

test('a database is made by the first write for an app of its bucket, and by no look', async (t) => {
  const { runtime, opened, ledger, store, chat, attachments, log } = await setUp(t);
  const idempotency = new Idempotency(runtime);
  await idempotency.forget('notes');
  await chat.ready('notes');
  await chat.forgetApp('notes');
  await ledger.forgetApp('notes');
  assert.deepEqual(
    [
      await ledger.list(),
      await ledger.list({ app: 'notes' }),
      await ledger.get(queuedRun().runId),
      await ledger.lastRuns([{ app: 'notes', id: 'digest' }]),
      await ledger.cronFired({ app: 'notes', id: 'digest' }),
      await store.windows('notes'),
      await store.list('notes', 10, null),
      await attachments.get('notes', 'a'.repeat(64)),
      await new KeptNotices(runtime, log).read(),
    ],
    [[], [], null, new Map(), null, [], [], null, { waiting: [], failures: new Map() }],
  );
  assert.deepEqual([opened, runtime.all()], [[], []]);
  assert.equal(await idempotency.claim(KEY, {}), null);
  assert.equal(runtime.of(draftKey('s1', 'notes')), runtime.of('notes'), 'its drafts are with it');
  assert.deepEqual(opened, [NOTES]);
  assert.equal(runtime.existing('todos'), null);
});

test('rows of no app are in the database of the gateway’s bucket; what another node has is refused', async (t) => {
  const { runtime, opened } = await setUp(t);
  assert.throws(() => runtime.of(null), UNAVAILABLE);
  runtime.serve(GATEWAY_BUCKET, false);
  runtime.of(null);
  assert.deepEqual(opened, [GATEWAY_BUCKET]);
  for (const find of [runtime.of, runtime.existing]) assert.throws(() => find.call(runtime, 'elsewhere'), UNAVAILABLE);
});

test('runs of all databases are listed in their order and by pages, and each is found by its id', async (t) => {
  const { ledger } = await setUp(t);
  const runs = Array.from({ length: 9 }, (_, n) =>
    queuedRun({ app: n % 3 === 0 ? 'todos' : 'notes', queuedAt: NOW + n }),
  );
  for (const [n, run] of runs.entries()) {
    await ledger.insert(run, [ledger.cronFire({ app: run.app, id: run.automation }, NOW + n)]);
    ledger.node(run.app, nodeOfRun(run, 1));
    await ledger.end(ended(run, { state: n < 4 ? 'error' : 'ok' }), 'all');
  }
  const newest = runs.map(({ runId }) => runId).reverse();
  const ids = async (...asked: Parameters<RunLedger['list']>) =>
    (await ledger.list(...asked)).map(({ runId }) => runId);
  assert.deepEqual(await ids(), newest);
  for (const limit of [2, 4]) assert.deepEqual(await ids({}, limit), newest.slice(0, limit));
  assert.deepEqual(await ids({ before: newest[3] as string }, 4), newest.slice(4, 8));
  assert.deepEqual(await ids({ state: 'error' }, 3), newest.slice(5, 8));
  assert.deepEqual(await ids({ app: 'todos' }, 2), [newest[2], newest[5]]);
  for (const run of runs) {
    assert.equal((await ledger.get(run.runId))?.app, run.app);
    assert.equal((await ledger.nodes(run)).length, 1);
  }
  assert.equal((await ledger.pin(newest[0] as string, true))?.pinned, true);
  const named = ['todos', 'notes', 'notes'].map((app) => ({ app, id: 'digest' }));
  const last = [...(await ledger.lastRuns(named))].map(([ref, { runId }]) => [ref, runId]);
  assert.deepEqual(last, [
    ['todos/digest', newest[2]],
    ['notes/digest', newest[0]],
  ]);
  assert.deepEqual(
    await ledger.lastCronFires(NOW + 8),
    new Map([
      ['todos/digest', NOW + 6],
      ['notes/digest', NOW + 8],
    ]),
  );
});

test('the rows of a bucket leave the lists with it, and come back', async (t) => {
  const { runtime, ledger, store } = await setUp(t);
  const [mine, theirs] = [queuedRun({ app: 'todos' }), queuedRun({ app: 'notes' })];
  for (const run of [mine, theirs]) {
    await ledger.insert(run);
    await ledger.end(ended(run), 'all');
    await store.create(run.app, { id: `c-${run.app}` });
  }
  const held = runtime.of('notes');
  runtime.release(NOTES);
  assert.deepEqual(
    (await ledger.list()).map(({ app }) => app),
    ['todos'],
  );
  assert.equal(await ledger.get(theirs.runId), null);
  await assert.rejects(ledger.insert(queuedRun({ app: 'notes' })), UNAVAILABLE);
  await assert.rejects(store.list('notes', 10, null), UNAVAILABLE);
  await assert.rejects(held.get('SELECT 1'), UNAVAILABLE, 'who still has the client cannot use it');
  assert.notEqual(runtime.serve(NOTES, true), null);
  assert.deepEqual(
    (await ledger.list()).map(({ app }) => app),
    ['notes', 'todos'],
  );
  assert.deepEqual(
    (await store.list('notes', 10, null)).map(({ conversationId }) => conversationId),
    ['c-notes'],
  );
});

test('a list and a look that are under way when a bucket goes have what is left', async (t) => {
  const { runtime, ledger } = await setUp(t);
  const runs = [queuedRun({ app: 'notes' }), queuedRun({ app: 'todos' })];
  for (const run of runs) {
    await ledger.insert(run);
    await ledger.end(ended(run), 'all');
  }
  const looks = [
    ['all', () => ledger.list(), ['todos']],
    ['get', async () => [await ledger.get((runs[0] as RunRecord).runId)], [undefined]],
  ] as const;
  for (const [operation, look, expected] of looks) {
    const db = runtime.serve(NOTES, true) as DbClient;
    // Makes the tables, which takes operations too.
    await ledger.list();
    const ask = db[operation].bind(db);
    db[operation] = (...asked: Parameters<DbClient['all']>): Promise<never> => {
      const answer = ask(...asked);
      runtime.release(NOTES);
      return answer as Promise<never>;
    };
    assert.deepEqual(
      (await look()).map((run) => run?.app),
      expected,
    );
    assert.throws(() => runtime.of('notes'), UNAVAILABLE);
  }
});

test('what an earlier owner left under way ends once, when its bucket comes, and nothing of other buckets does', async (t) => {
  const { runtime, ledger, store, chat } = await setUp(t);
  const begun = async (app: string, turnId: string) => {
    const conversation = await store.open(nameOf(app, `c-${app}`));
    await conversation.begin({ turnId, message: 'x', mode: 'full', runner: 'stub', ts: NOW }, []);
  };
  const [mine, theirs] = [queuedRun({ app: 'todos' }), queuedRun({ app: 'notes' })];
  for (const run of [mine, theirs]) {
    await ledger.insert(run);
    await begun(run.app, `t-${run.app}`);
  }
  const states = async () => [
    ...(await ledger.list()).map(({ app, state }) => [app, state]),
    (await store.get('notes', 'c-notes')).state,
    (await store.get('todos', 'c-todos')).state,
  ];
  runtime.release(NOTES);
  const db = runtime.serve(NOTES, true) as DbClient;
  await ledger.recover(db);
  await chat.recover(db);
  const recovered = [['notes', 'interrupted'], ['todos', 'queued'], 'interrupted', 'running'];
  assert.deepEqual(await states(), recovered);
  // What runs since then is this gateway's own.
  await ledger.insert(queuedRun({ app: 'notes' }));
  await ledger.recover(db);
  assert.deepEqual(await states(), [['notes', 'queued'], ...recovered]);
});

test('what another node put into a transcript is found when the bucket is back', async (t) => {
  const { writer, runtime, store, layout, log } = await setUp(t);
  const say = async (chats: ChatStore, id: string) => {
    const window = await chats.open({ kind: 'window', app: 'notes', id });
    const turn = { turnId: `t-${id}`, message: 'x', mode: 'data', runner: 'stub', ts: NOW } as const;
    await window.append(await window.begin(turn, []), [], { end: 'ok' });
  };
  const windows = async () => (await store.windows('notes')).map(({ windowId }) => windowId).sort();
  await say(store, 'here');
  assert.deepEqual(await windows(), ['here']);
  runtime.release(NOTES);
  const elsewhere = new RuntimeOfBuckets((bucket) => writer.client(`elsewhere-${bucket}`));
  elsewhere.serve(NOTES, false);
  await say(new ChatStore({ tables: new RuntimeTables(elsewhere, makeChatTables), layout, log }), 'there');
  runtime.serve(NOTES, true);
  assert.deepEqual(await windows(), ['here', 'there']);
});

test('attachments are swept in all databases', async (t) => {
  const { attachments, clock, layout } = await setUp(t);
  for (const app of ['todos', 'notes']) await attachments.store(app, Readable.from([Buffer.from(app)]), 'text/plain');
  clock.now += LIMITS.attachmentKeepMs + 1;
  await attachments.sweep();
  for (const app of ['todos', 'notes']) assert.deepEqual(readdirSync(layout.app(app).attachmentsDir), []);
});

test('notices are kept with their app, and read from all databases or one, oldest first', async (t) => {
  const { runtime, log } = await setUp(t);
  const kept = new KeptNotices(runtime, log);
  const notice = (id: string, app: string): Notice => ({
    ...{ id, at: NOW, kind: 'app', title: id, text: id, url: null, isWell: false },
    app: { id: app, name: app },
  });
  for (const [id, app] of [
    ['1', 'todos'],
    ['2', 'notes'],
    ['3', 'todos'],
  ] as const)
    await kept.keep(notice(id, app), ['ntfy', 'slack']);
  kept.keepFailure('run notes/digest', 5);
  kept.keepFailure('app todos', 6);
  kept.removeSent(notice('1', 'todos'), 'ntfy');
  kept.dropChannel('slack');
  await kept.settled();
  const { waiting, failures } = await kept.read();
  assert.deepEqual(
    waiting.map(({ channel, notice: { id } }) => [channel, id]),
    [
      ['ntfy', '2'],
      ['ntfy', '3'],
    ],
  );
  assert.deepEqual(
    failures,
    new Map([
      ['app todos', 6],
      ['run notes/digest', 5],
    ]),
  );
  const ofNotes = await kept.read(runtime.of('notes'));
  assert.deepEqual([ofNotes.waiting.length, [...ofNotes.failures.keys()]], [1, ['run notes/digest']]);
});

/** A node whose writer keeps its databases in the log of a cluster. */
class Node {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-runtime-'));
  readonly writer: WriterProcess;
  readonly runtime = new RuntimeOfBuckets((bucket) => this.#client(runtimeOfBucket(bucket)));
  readonly idempotency = new Idempotency(this.runtime);
  readonly ledger: RunLedger;
  readonly #t: TestContext;

  constructor(t: TestContext, url: string, name: string, analytics: DbClient) {
    this.#t = t;
    this.writer = new WriterProcess(this.folder, { urls: [url], node: name });
    mkdirSync(join(this.folder, '_runtime'));
    t.after(async () => {
      await this.writer.end();
      rmSync(this.folder, { recursive: true, force: true });
    });
    this.ledger = ledgerOn(this.runtime, analytics);
  }

  #client(name: string): DbClient {
    const ticket = this.writer.ticketFor(name, this.folder);
    const client = new DbClient((handlers, id) => openLink(this.writer.socket, ticket, handlers, id));
    this.#t.after(() => client.end());
    return client;
  }
}

test('keys and runs go to another node with the bucket of their app', { skip: whyNoPostgres() ?? false }, async (t) => {
  const url = await database();
  const tables = new Database([url]);
  await prepareTables(tables).finally(() => tables.close());
  const directory = new pg.Client({ connectionString: url });
  await directory.connect();
  t.after(() => directory.end());
  const give = (node: string, epoch: number) =>
    directory.query('UPDATE svc.buckets SET owner = $1, epoch = $2 WHERE bucket = $3', [node, epoch, NOTES]);
  const local = await startWriter(t);
  const [a, b] = ['a', 'b'].map((name) => new Node(t, url, name, local.client(`analytics-${name}`))) as [Node, Node];
  await Promise.all([a.writer.start(), b.writer.start()]);
  await give('a', 1);
  a.writer.own([[NOTES, 1]]);
  a.runtime.serve(NOTES, false);
  assert.equal(await a.idempotency.claim(KEY, {}), null);
  await a.idempotency.record(KEY, ANSWER);
  const run = queuedRun({ app: 'notes' });
  await a.ledger.insert(run);

  const released = a.writer.released();
  a.runtime.release(NOTES);
  a.writer.own([]);
  await released;
  await give('b', 2);
  b.writer.own([[NOTES, 2]]);
  const db = b.runtime.serve(NOTES, true) as DbClient;
  await b.ledger.recover(db);
  assert.deepEqual(await b.idempotency.claim(KEY, {}), ANSWER);
  assert.equal((await b.ledger.get(run.runId))?.state, 'interrupted');
  await assert.rejects(a.ledger.end(ended(run), 'all'), UNAVAILABLE);
  assert.equal((await b.ledger.get(run.runId))?.state, 'interrupted');
});
