// Gateways that share a PostgreSQL database: what one has acknowledged the others serve, wherever it is asked for.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { appOf } from '../testing/apps.ts';
import { idAt, nodesOf, patient, patiently, start } from '../testing/cluster-gateways.ts';
import { openEvents } from '../testing/exchange-server.ts';
import { contentOf, fill } from '../testing/filled-gateway.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { enter, type Origin, signIn } from '../testing/origins.ts';
import { join } from '../testing/people.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';
import { childrenOf } from '../testing/processes.ts';
import { eventually, LIMIT_MS } from '../testing/waiting.ts';

const skip = whyNoPostgres() ?? false;

const numbersOf = (id: string) =>
  appOf(id, {
    queries: { all: "async ({ db }) => (await db.all('SELECT v FROM numbers ORDER BY v')).map(({ v }) => v)" },
    actions: {
      add: {
        run: "async ({ db, input }) => { await db.run('INSERT INTO numbers (v) VALUES (?)', input.v); return input.v; }",
        writes: ['numbers'],
      },
    },
    migrations: ['CREATE TABLE numbers (v INTEGER NOT NULL);'],
  });

test('a node with an empty data directory goes on with what a killed one had acknowledged', { skip }, async (t) => {
  const [one, two] = nodesOf(t, await database(), ['one', 'two']) as [TestGateway, TestGateway];
  await start(one);
  await fill(patient(one));
  const was = await contentOf(patient(one));
  await one.kill();
  await start(two);
  assert.equal(two.token, one.token);
  assert.deepEqual(await contentOf(patient(two)), was);
});

test('each of two nodes answers for both; what one that is killed had acknowledged is there, once', {
  skip,
}, async (t) => {
  const [one, two] = nodesOf(t, await database(), ['one', 'two']) as [TestGateway, TestGateway];
  await start(one, two);
  const names = ['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => `${letter}-numbers`);
  for (const [at, id] of names.entries()) {
    const node = patient(at % 2 === 0 ? one : two);
    await node.install(id, numbersOf(id));
  }
  const listed = (await patient(two).call('GET', '/svc/_apps')).json.map(({ id }: { id: string }) => id);
  assert.deepEqual(listed, names);
  const acknowledged = new Map(names.map((id) => [id, [] as number[]]));
  const add = async (node: TestGateway, id: string, v: number): Promise<void> => {
    const body = { app: id, action: 'add', input: { v } };
    const headers = { 'idempotency-key': `${id} ${v}` };
    const answer = await patiently(() => node.call('POST', '/svc/_tool/svc_write', { body, headers }));
    assert.ok(answer.status < 300, answer.text);
    acknowledged.get(id)?.push(v);
  };
  for (let v = 0; v < 5; v++) await Promise.all(names.map((id) => add(v % 2 === 0 ? one : two, id, v)));
  await one.kill();
  for (let v = 5; v < 10; v++) await Promise.all(names.map((id) => add(two, id, v)));
  for (const id of names) assert.deepEqual((await patient(two).read(id, 'all')).json.data, acknowledged.get(id), id);
});

test('a removed app leaves its data to no other one of its id, and is restored with it at another node', {
  skip,
}, async (t) => {
  const [one, two] = nodesOf(t, await database(), ['one', 'two']) as [TestGateway, TestGateway];
  await start(one, two);
  const ok = async (answer: Promise<Answer>): Promise<Answer> => {
    const given = await answer;
    assert.ok(given.status < 300, given.text);
    return given;
  };
  const [first, second] = [patient(one), patient(two)];
  await first.install('numbers', numbersOf('numbers'));
  await ok(second.write('numbers', 'add', { v: 1 }));
  await ok(first.call('DELETE', '/svc/_apps/numbers'));
  await second.install('numbers', numbersOf('numbers'));
  assert.deepEqual((await first.read('numbers', 'all')).json.data, []);
  await ok(second.call('DELETE', '/svc/_apps/numbers'));
  const trash: { id: string }[] = (await ok(first.call('GET', '/svc/_trash'))).json;
  assert.equal(trash.length, 2);
  await one.kill();
  const oldest = trash.map(({ id }) => id).sort()[0];
  await ok(second.call('POST', `/svc/_trash/${oldest}/restore`));
  assert.deepEqual((await second.read('numbers', 'all')).json.data, [1]);
});

describe('nodes with the git store', { skip }, () => {
  let url: string;
  let one: TestGateway;
  let two: TestGateway;
  let client: TestGateway;
  const ends: (() => unknown)[] = [];
  after(async () => {
    for (const end of ends) await end();
  });
  before(async () => {
    url = await database();
    const later = { after: (end: () => unknown) => void ends.push(end) };
    [one, two] = nodesOf(later, url, ['one', 'two'], 'git') as [TestGateway, TestGateway];
    await start(one, two);
    client = patient(one);
  });

  test("a page at one node calls and follows the app of another one that its own app's manifest names, and no other", async (t) => {
    const used = await idAt(url, 'two', 'used');
    const other = await idAt(url, 'two', 'other');
    const page = await idAt(url, 'one', 'page');
    for (const id of [used, other]) await client.install(id, numbersOf(id));
    const source = (uses: string[]) =>
      appOf(page, { manifest: { uses }, files: { 'index.html': '<title>A page</title>' } });
    await client.install(page, source([used]));
    const origin = await enter(client, await signIn(client), { app: page });
    const call = (tool: string, body: object) => origin.call('POST', `/svc/_tool/${tool}`, { body });
    assert.equal((await call('svc_write', { app: used, action: 'add', input: { v: 1 } })).status, 200);
    assert.deepEqual((await call('svc_read', { app: used, query: 'all' })).json.data, [1]);
    assert.equal((await call('svc_describe', { app: used })).json.data.app, used);
    const { apps } = (await call('svc_describe', {})).json.data;
    assert.deepEqual(
      apps.map(({ app }: { app: string }) => app),
      [page, used],
    );
    const followed = async (app: string) => {
      const stream = await openEvents(one.port, `/svc/${app}/_live?query=all`, origin.headers);
      t.after(() => stream.close());
      return stream;
    };
    const live = await followed(used);
    while (!/"data":\[1\]/.test(String(await live.next())));
    assert.equal((await followed(other)).status, 403);
    assert.equal((await call('svc_read', { app: other, query: 'all' })).json.error.code, 'FORBIDDEN');
    // What a later version does not name any more it may not call.
    await client.install(page, source([]));
    assert.equal((await call('svc_read', { app: used, query: 'all' })).json.error.code, 'FORBIDDEN');
  });

  test('the address of a webhook is that of one app, whichever nodes their apps have', async () => {
    const of = (app: string, triggers: object[]) =>
      appOf(app, { automations: { in: { run: `() => ({ response: { status: 200, body: '${app}' } })`, triggers } } });
    const [first, second] = [await idAt(url, 'one', 'hook'), await idAt(url, 'two', 'hook')];
    const ids = [first, second];
    const { webhooks } = await client.install(first, of(first, [{ kind: 'webhook', pending: true }]));
    const { webhookId, secret } = webhooks[0] as { webhookId: string; secret: string };
    const path = `/_svc-hook/${webhookId}`;
    const secretHash = createHash('sha256').update(secret).digest('hex');
    const claiming = (app: string) => of(app, [{ kind: 'webhook', id: webhookId, secretHash }]);
    /** Which app is called, at each node. */
    const holders = async () => {
      const found: unknown[] = [];
      for (const node of [one, two]) {
        const headers = { authorization: `Bearer ${secret}` };
        const { status, text } = await patient(node).call('POST', path, { token: null, headers, body: {} });
        found.push(status === 200 ? text : status);
      }
      return found;
    };
    const outcomes = (answers: Answer[]) => answers.map(({ status, json }) => json.error?.code ?? status).sort();
    assert.deepEqual(await holders(), [first, first]);
    const taken = await client.upload(second, claiming(second));
    assert.deepEqual(
      [taken.json.error.code, taken.json.error.path],
      ['INVALID_AUTOMATION', 'automations/in/automation.json#triggers[0].id'],
    );
    // Released with its app, and claimed by both at once.
    await client.call('DELETE', `/svc/_apps/${first}`);
    assert.deepEqual(await holders(), [404, 404]);
    const both = await Promise.all(ids.map((id) => client.upload(id, claiming(id))));
    assert.deepEqual(outcomes(both), [201, 'INVALID_AUTOMATION']);
    const [had, other] = both[0]?.status === 201 ? [first, second] : [second, first];
    assert.deepEqual(await holders(), [had, had]);
    // Released with the version.
    await client.upload(had as string, of(had as string, []));
    assert.deepEqual(await holders(), [404, 404]);
    assert.equal((await client.upload(other as string, claiming(other as string))).status, 201);
    assert.deepEqual(await holders(), [other, other]);
    const renewed = await client.call('POST', '/svc/_automations/_provision', {
      body: { ref: `${other}/in`, renew: true },
    });
    assert.equal(renewed.status, 200, renewed.text);
    assert.deepEqual(await holders(), [404, 404]);
  });

  test('apps that are made of a template get ids of their own, whichever node is asked', async () => {
    const made: string[] = [];
    for (const node of [two, one]) {
      const body = { templateId: 'contact', publish: true };
      const answer = await patient(node).call('POST', '/svc/_apps/_clone', { body });
      assert.equal(answer.status, 201, answer.text);
      made.push(answer.json.app);
    }
    // `contact-2` would be the other node's.
    assert.equal(made[0], 'contact');
    assert.match(made[1] ?? '', /^contact-[3-9]$/);
    for (const id of made) assert.equal((await client.call('GET', `/svc/${id}/`)).status, 200, id);
  });

  test('an author changes no workspace with an app that the other node has just published for somebody else', async () => {
    const [own, other] = [await idAt(url, 'one', 'ada'), await idAt(url, 'two', 'bob')];
    const { origin } = await join(client, 'Ada', { role: 'author' });
    const staged = async (by: Pick<TestGateway, 'call'>, id: string) => {
      const answer = await by.call('POST', '/svc/_apps', { body: { id, sessionId: 'shared' } });
      assert.equal(answer.status, 201, answer.text);
    };
    await client.call('POST', '/svc/_sessions', { body: { sessionId: 'shared' } });
    await staged(origin, own);
    await staged(client, other);
    const rename = () => origin.call('PATCH', '/svc/_sessions/shared', { body: { name: 'New' } });
    assert.equal((await rename()).status, 200, 'nobody has published any of them');
    await patient(two).install(other, numbersOf(other));
    assert.equal((await rename()).json.error?.code, 'FORBIDDEN');
    assert.equal((await origin.call('DELETE', '/svc/_sessions/shared')).json.error?.code, 'FORBIDDEN');
  });

  test('what people have of an app is the same at each node, and ends at all of them at once', async () => {
    const app = await idAt(url, 'two', 'shown');
    const me = "async ({ db, ctx }) => { await db.all('SELECT n FROM t'); return ctx.user?.name ?? null; }";
    await client.install(app, appOf(app, { queries: { me }, migrations: ['CREATE TABLE t (n INTEGER);'] }));
    const grants = [{ app, role: 'editor' }];
    const [zoe, max] = await Promise.all([join(client, 'Zoe', { grants }), join(client, 'Max', { grants })]);
    const ask = async ({ host, headers }: Origin, node: TestGateway) => {
      const body = { app, query: 'me' };
      const { status, json } = await patient(node).call('POST', '/svc/_tool/svc_read', { body, token: null, headers });
      return status === 200 ? json.data : `${status} at ${host}`;
    };
    const atBoth = (page: Origin) => Promise.all([ask(page, one), ask(page, two)]);
    for (let round = 0; round < 2; round++)
      for (const [{ origin }, name] of [
        [zoe, 'Zoe'],
        [max, 'Max'],
      ] as const)
        assert.deepEqual(new Set(await atBoth(origin)), new Set([name]));
    const live = await openEvents(one.port, `/svc/${app}/_live?query=me`, zoe.origin.headers);
    const shares: { id: string; person?: string }[] = (await client.call('GET', `/svc/_apps/${app}/shares`)).json;
    const share = shares.find(({ person }) => person === zoe.id)?.id;
    assert.equal((await patient(two).call('DELETE', `/svc/_apps/${app}/shares/${share}`)).status, 200);
    assert.deepEqual(new Set(await atBoth(zoe.origin)), new Set([`403 at ${zoe.origin.host}`]));
    while ((await live.next()) !== undefined);
    assert.equal(await ask(max.origin, two), 'Max');
    const { headers } = max.origin;
    assert.equal((await patient(two).call('DELETE', '/svc/_session', { token: null, headers })).status, 200);
    assert.deepEqual(new Set(await atBoth(max.origin)), new Set([`401 at ${max.origin.host}`]));
  });

  test('an app is duplicated to an id of the other node, with its data, and survives the end of that node', async () => {
    const [from, like, full] = [
      await idAt(url, 'one', 'from'),
      await idAt(url, 'two', 'like'),
      await idAt(url, 'two', 'full'),
    ];
    await client.install(from, numbersOf(from));
    await client.write(from, 'add', { v: 7 });
    await client.call('PUT', `/svc/_apps/${from}/settings`, { body: { colour: 'green' } });
    const { sha256 } = (await client.call('PUT', `/svc/${from}/_blobs`, { body: Buffer.from('A file.') })).json;
    const duplicate = (body: object) => client.call('POST', `/svc/_apps/${from}/duplicate`, { body });
    assert.equal((await duplicate({ id: like })).status, 201);
    const made = await duplicate({ id: full, name: 'Copy', data: true });
    assert.deepEqual([made.status, made.json.id], [201, full], made.text);
    assert.equal((await duplicate({ id: full })).json.error.code, 'CONFLICT');
    assert.equal(
      (await client.call('POST', '/svc/_apps/nothing/duplicate', { body: { id: 'any' } })).json.error.code,
      'UNKNOWN_APP',
    );
    await two.kill();
    assert.deepEqual((await client.read(like, 'all')).json.data, []);
    assert.deepEqual((await client.read(full, 'all')).json.data, [7]);
    assert.deepEqual((await client.call('GET', `/svc/_apps/${full}/settings`)).json.settings, { colour: 'green' });
    assert.equal((await client.call('GET', `/svc/${full}/_blobs/${sha256}`)).text, 'A file.');
    // Each goes its own way.
    await client.write(full, 'add', { v: 8 });
    assert.deepEqual((await client.read(from, 'all')).json.data, [7]);
  });
});

/** Has the log of pages refuse the next write of the node, which calls `write`. */
async function refuseOnce(client: pg.Client, write: () => Promise<Answer>): Promise<void> {
  await client.query('UPDATE svc.writers SET writer = gen_random_uuid()');
  const { status, text } = await write();
  assert.equal(status, 503, text);
}

/** Kills the writer of the node between a commit of `write` and the log of pages, which does not get it. */
async function killBeforeLog(client: pg.Client, write: () => Promise<Answer>, node: TestGateway): Promise<void> {
  await client.query('BEGIN; LOCK svc.log IN SHARE MODE');
  const unknown = write();
  const waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'svc'";
  const isWaiting = async () => (await client.query(`SELECT pid ${waiting}`)).rowCount !== 0;
  assert.ok(await eventually(LIMIT_MS, isWaiting), 'the log is asked to take the commit');
  for (const { pid, role } of childrenOf(node.pid)) if (role === 'writer') process.kill(pid, 'SIGKILL');
  await client.query(`SELECT pg_terminate_backend(pid) ${waiting}`);
  await client.query('COMMIT');
  const { status, text } = await unknown;
  assert.ok(status >= 500, text);
}

test('what the log of pages does not get is not shown, and what it gets later is', { skip }, async (t) => {
  const url = await database();
  const [one] = nodesOf(t, url, ['one']) as [TestGateway];
  await start(one);
  const node = patient(one);
  await node.install('numbers', numbersOf('numbers'));
  const client = new pg.Client(url);
  await client.connect();
  t.after(() => client.end());
  const add = (v: number) => () => one.write('numbers', 'add', { v });
  const all = async () => (await node.read('numbers', 'all')).json.data;
  const sql = async () => {
    const body = { sql: 'SELECT v FROM numbers ORDER BY v' };
    return (await node.call('POST', '/svc/_apps/numbers/sql', { body })).json.rows.flat();
  };
  await add(1)();
  // The thread of the app has the file open from here on.
  assert.deepEqual(await all(), [1]);
  await refuseOnce(client, add(2));
  assert.deepEqual(await all(), [1]);
  await refuseOnce(client, add(3));
  assert.deepEqual(await sql(), [1]);
  await killBeforeLog(client, add(4), one);
  assert.deepEqual(await all(), [1]);
  await patiently(add(5));
  assert.deepEqual(await all(), [1, 5]);
});
