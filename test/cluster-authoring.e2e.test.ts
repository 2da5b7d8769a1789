// Authors at any node of a cluster: their workspaces, drafts and publications survive the node that had them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodesOf, patient, start } from '../testing/cluster-gateways.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';

const skip = whyNoPostgres() ?? false;

async function ask(gateway: TestGateway, method: string, path: string, body?: unknown): Promise<Answer> {
  return patient(gateway).call(method, path, body === undefined ? {} : { body });
}

async function ok(gateway: TestGateway, method: string, path: string, body?: unknown): Promise<Answer['json']> {
  const answer = await ask(gateway, method, path, body);
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.json;
}

const QUERY = "export default async ({ db }) => (await db.all('SELECT v FROM numbers ORDER BY v')).map(({ v }) => v);";
const ACTION =
  "export default async ({ db, input }) => { await db.run('INSERT INTO numbers (v) VALUES (?)', input.v); return input.v; };";
const files = (id: string): Record<string, string> => ({
  'app.json': JSON.stringify({
    schemaVersion: '1',
    id,
    name: id,
    version: '1.0.0',
    queries: [{ name: 'all', title: 'All', input: {}, reads: ['numbers'] }],
    actions: [{ name: 'add', title: 'Add', input: { type: 'object' }, writes: ['numbers'] }],
  }),
  'queries/all.js': QUERY,
  'actions/add.js': ACTION,
  'migrations/0001_first.sql': 'CREATE TABLE numbers (v INTEGER NOT NULL);',
  'note.md': 'first',
});
/** Enough that each of two nodes has some. */
const APPS = ['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => `${letter}-numbers`);

async function allOf(gateway: TestGateway, app: string, draft = ''): Promise<number[]> {
  return (await ok(gateway, 'POST', `/svc/${draft}_tool/svc_read`, { app, query: 'all', input: {} })).data;
}

async function add(gateway: TestGateway, app: string, v: number, draft = ''): Promise<void> {
  await ok(gateway, 'POST', `/svc/${draft}_tool/svc_write`, { app, action: 'add', input: { v } });
}

test('what was acknowledged of drafts, and what was published, is at the node that is left', { skip }, async (t) => {
  const [one, two] = nodesOf(t, await database(), ['one', 'two'], 'git') as [TestGateway, TestGateway];
  await start(one, two);
  const nodeOf = (at: number) => (at % 2 === 0 ? one : two);
  for (const [at, app] of APPS.entries()) {
    await patient(nodeOf(at)).install(app, files(app));
    await add(nodeOf(at + 1), app, 1);
  }
  await ok(one, 'POST', '/svc/_sessions', { sessionId: 'w', name: 'Work' });
  const file = (app: string, path: string) => `/svc/_sessions/w/apps/${app}/files/${path}`;
  for (const [at, app] of APPS.entries()) {
    await ok(nodeOf(at), 'PUT', file(app, 'note.md'), Buffer.from(`edited ${app}`));
    await add(nodeOf(at + 1), app, 2, '_draft/w/');
    await ok(nodeOf(at), 'PUT', file(app, 'migrations/0002_more.sql'), Buffer.from('INSERT INTO numbers VALUES (10);'));
    await add(nodeOf(at), app, 3, '_draft/w/');
  }
  await ok(two, 'POST', '/svc/_apps', { id: 'made', sessionId: 'w' });
  // The last thing before its end.
  await ok(one, 'PUT', file('a-numbers', 'last.md'), Buffer.from('last'));
  await one.kill();
  for (const app of APPS) {
    assert.equal((await ask(two, 'GET', file(app, 'note.md'))).text, `edited ${app}`);
    assert.deepEqual(await allOf(two, app, '_draft/w/'), [1, 2, 3, 10]);
    assert.deepEqual(await allOf(two, app), [1]);
  }
  assert.equal((await ask(two, 'GET', file('a-numbers', 'last.md'))).text, 'last');
  const [row] = await ok(two, 'GET', '/svc/_sessions');
  assert.deepEqual([row.sessionId, row.name, row.apps], ['w', 'Work', [...APPS, 'made']]);
  await ok(two, 'POST', '/svc/_sessions/w/apps/a-numbers/reset-data');
  assert.deepEqual(await allOf(two, 'a-numbers', '_draft/w/'), [1, 10]);
  for (const app of APPS) {
    const published = await ok(two, 'POST', '/svc/_sessions/w/publish', { app });
    assert.equal(published.version, 2, app);
    assert.deepEqual(await allOf(two, app), [1, 10]);
  }
  assert.equal((await ok(two, 'POST', '/svc/_sessions/w/publish', { app: 'made' })).version, 1);
  assert.deepEqual((await ok(two, 'GET', '/svc/_sessions/w/diff')).files, []);
  await ok(two, 'DELETE', '/svc/_sessions/w');
  assert.equal((await ask(two, 'GET', file('a-numbers', 'note.md'))).json.error.code, 'UNKNOWN_SESSION');
});
