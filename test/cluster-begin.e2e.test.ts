// A gateway with apps becomes the first node of a cluster: all that it had is there, once, also where it was killed meanwhile.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { Database } from '../storage/cluster/database.ts';
import { prepareTables } from '../storage/cluster/tables.ts';
import { appOf } from '../testing/apps.ts';
import { nodeIn, nodesOf, patient, start, testFolder } from '../testing/cluster-gateways.ts';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';
import { enterPassword, join as joinGateway } from '../testing/people.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';
import { eventually, LONG_MS } from '../testing/waiting.ts';

const KEY = { 'idempotency-key': 'once' };
const STORED = ['svc.apps', 'svc.subjects', 'svc.contents', 'svc.snapshots', 'svc.workspaces', 'svc.keys'];

async function ok(answer: Promise<Answer>): Promise<Answer> {
  const given = await answer;
  assert.ok(given.status < 300, given.text);
  return given;
}

type Webhook = { url: string; secret: string };

const DRAFT = '/svc/_draft/draft';
const FILE = 'a file of the draft';
const FILE_SHA256 = createHash('sha256').update(FILE).digest('hex');

/** A removed app with data, a person, edits and data of drafts, and a call that was made under a key, beside what `fill` makes; answers a webhook. */
async function fillMore(gateway: TestGateway): Promise<Webhook> {
  await fill(gateway);
  await joinGateway(gateway, 'Ada');
  const migrations = ['CREATE TABLE numbers (v INTEGER);'];
  const queries = { all: "({ db }) => db.all('SELECT v FROM numbers')" };
  const run = "async ({ db }) => { await db.run('INSERT INTO numbers (v) VALUES (1)'); return null; }";
  await gateway.install('gone', appOf('gone', { migrations, queries, actions: { add: { run, writes: ['numbers'] } } }));
  await ok(gateway.write('gone', 'add'));
  await ok(gateway.call('DELETE', '/svc/_apps/gone'));
  await ok(gateway.write('shop', 'add', { text: 'Once' }, { headers: KEY }));
  const write = { app: 'shop', action: 'add', input: { text: 'In the draft' } };
  await ok(gateway.call('POST', `${DRAFT}/_tool/svc_write`, { body: write }));
  await ok(gateway.call('PUT', `${DRAFT}/shop/_blobs`, { body: FILE }));
  await ok(gateway.call('POST', '/svc/_apps', { body: { id: 'made', sessionId: 'draft' } }));
  await ok(gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'empty', name: 'Nothing yet' } }));
  const posted = { run: "() => ({ output: 'posted' })", triggers: [{ kind: 'webhook', pending: true }] };
  const { webhooks } = await gateway.install('posted', appOf('posted', { automations: { posted } }));
  return webhooks[0] as Webhook;
}

async function post(gateway: TestGateway, { url, secret }: Webhook): Promise<Answer> {
  const headers = { authorization: `Bearer ${secret}` };
  return gateway.call('POST', new URL(url).pathname, { token: null, headers, body: {} });
}

/** The time of the last change is that of a file of its apps. */
function changedWith({ touchedAt, ...row }: { touchedAt: number; apps: string[] }): object {
  return row.apps.length === 0 ? row : { ...row, touchedAt };
}

/** What `fillMore` made, as people see it. */
async function contentOfMore(gateway: TestGateway): Promise<object> {
  const names = async (path: string, of: string) =>
    (await ok(gateway.call('GET', path))).json.map((row: Record<string, unknown>) => row[of]);
  return {
    ...(await contentOf(gateway)),
    trash: await names('/svc/_trash', 'id'),
    audit: (await names('/svc/_audit', 'action')).filter((action: string) => action.startsWith('app.')),
    workspaces: (await ok(gateway.call('GET', '/svc/_sessions'))).json.map(changedWith),
    changed: (await ok(gateway.call('GET', '/svc/_sessions/draft/diff'))).text,
    draftRows: (await ok(gateway.call('POST', `${DRAFT}/_tool/svc_read`, { body: { app: 'shop', query: 'list' } })))
      .json,
    draftFile: (await ok(gateway.call('GET', `${DRAFT}/shop/_blobs/${FILE_SHA256}`))).text,
    signsIn: (await enterPassword(gateway, 'ada@example.org')).status,
    repeated: (await gateway.write('shop', 'add', { text: 'Once' }, { headers: KEY })).status,
  };
}

test('a gateway with apps becomes a node, and one that is killed before the end is as it was', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const url = await database();
  const folder = testFolder(t);
  const alone = new TestGateway(join(folder, 'data'), ['--store', 'git']);
  t.after(() => alone.stop());
  await alone.start();
  const webhook = await fillMore(alone);
  await alone.stop();
  const first = nodeIn(folder, url, 'one', 'git');
  t.after(() => first.stop());
  const record = join(folder, 'data/code-store/worktrees/sessions/draft/session.json');
  const recorded = readFileSync(record);
  writeFileSync(record, '{');
  await assert.rejects(start(first), /The workspace ..draft.. is damaged.*svc workspaces rm draft.*without ..cluster/);
  writeFileSync(record, recorded);
  await alone.start();
  const was = await contentOfMore(alone);
  // Its latest writes are in write-ahead logs.
  await alone.kill();

  const db = new Database([url]);
  t.after(() => db.close());
  await prepareTables(db);
  const counts = async () => {
    const rows = await db.rows<{ count: number }>(
      STORED.map((table) => `SELECT count(*)::integer AS count FROM ${table}`).join(' UNION ALL '),
    );
    return rows.map(({ count }) => count);
  };
  // It waits for this when all but the keys are stored.
  const holder = new pg.Client({ connectionString: url });
  t.after(() => holder.end());
  await holder.connect();
  await holder.query('BEGIN');
  await holder.query('LOCK TABLE svc.keys IN EXCLUSIVE MODE');
  const killed = assert.rejects(start(first), /did not start/);
  const waits = () => db.rows(`SELECT FROM pg_locks WHERE relation = 'svc.keys'::regclass AND NOT granted`);
  assert.ok(await eventually(LONG_MS, async () => (await waits()).length > 0), 'all but the keys is stored');
  await first.kill();
  await killed;
  await holder.query('ROLLBACK');
  assert.ok(await eventually(LONG_MS, async () => (await waits()).length === 0));
  const nothing = STORED.map(() => 0);
  assert.deepEqual(await counts(), nothing, 'the cluster has nothing');
  assert.deepEqual(await db.rows('SELECT store FROM svc.meta'), [{ store: null }]);

  await alone.start();
  assert.deepEqual(await contentOfMore(alone), was, 'the gateway goes on alone');
  await ok(alone.write('shop', 'add', { text: 'Meanwhile' }));
  await alone.stop();
  const copy = testFolder(t);
  cpSync(join(folder, 'data'), join(copy, 'data'), { recursive: true });
  rmSync(join(copy, 'data/run'), { recursive: true });

  await start(first);
  const content = (await contentOfMore(patient(first))) as { rows: unknown[] };
  assert.deepEqual(content, { ...was, rows: [...(was as { rows: unknown[] }).rows, { id: 5, text: 'Meanwhile' }] });
  assert.deepEqual(readdirSync(join(folder, 'data/code-store/worktrees/sessions')), ['draft~made', 'draft~shop']);
  await first.kill();

  const [second] = nodesOf(t, url, ['two'], 'git') as [TestGateway];
  await start(second);
  const two = patient(second);
  assert.deepEqual(await contentOfMore(two), content, 'a node with an empty data directory has all of it');
  for (const app of ['shop', 'made']) await ok(two.call('POST', '/svc/_sessions/draft/publish', { body: { app } }));
  assert.deepEqual((await ok(two.call('GET', '/svc/_sessions/draft/diff'))).json.files, []);
  const [{ id }] = (await ok(two.call('GET', '/svc/_trash'))).json;
  await ok(two.call('POST', `/svc/_trash/${id}/restore`));
  assert.deepEqual((await two.read('gone', 'all')).json.data, [{ v: 1 }]);
  const run = await ok(two.call('POST', '/svc/_automations/shop/count/run?wait=1', { body: {} }));
  assert.equal(run.json.output, 2, 'the state of the automation');

  // What does not belong together is refused, and stays as it is.
  await assert.rejects(start(nodeIn(copy, url, 'three', 'git')), /is of a gateway of its own.*an empty data directory/);
  await assert.rejects(alone.start(), /is of a node of a cluster, which has what counts/);
  const ofTarballs = nodeIn(testFolder(t), url, 'three', 'tarball');
  await assert.rejects(start(ofTarballs), /The nodes of the cluster have the git store, .*appsStoreRoot.* is not set/);
  await assert.rejects(
    start(nodeIn(folder, await database(), 'one', 'git')),
    /the database of \\"cluster\\" is of none/,
  );
  const again = nodeIn(folder, url, 'one', 'git');
  t.after(() => again.stop());
  await start(again);
  assert.deepEqual((await patient(again).read('shop', 'list')).json.data, content.rows);
  for (const node of [two, patient(again)]) await ok(post(node, webhook));
});
