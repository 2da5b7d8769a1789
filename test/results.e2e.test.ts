/** Kept results of queries: when a read is answered with one, and that it is never outdated (specification, "Kept results"). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import type { TestGateway } from '../testing/gateway.ts';
import { inTime } from '../testing/waiting.ts';

/** Queries that must run each time. */
const UNSTEADY: Record<string, string> = {
  'the clock': '({ db }) => Date.now()',
  'a new date': '() => new Date().getTime()',
  'a date as text': '() => Date()',
  'a subclass of Date': '() => new (class extends Date {})().getTime()',
  'the constructor of a date': '() => new (new Date(0).constructor)().getTime()',
  chance: '() => Math.random()',
  performance: '() => performance.now()',
  'a random id': '() => crypto.randomUUID()',
  'random bytes': '() => crypto.getRandomValues(new Uint8Array(4))[0]',
  'a random key':
    'async () => (await crypto.subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign"])).type',
  'a timer': '() => new Promise((done) => setTimeout(done, 1))',
  'an immediate': '() => new Promise((done) => setImmediate(done))',
  'a format without a date': '() => new Intl.DateTimeFormat("en", { dateStyle: "full" }).format()',
  'the trace': '({ ctx }) => ctx.traceId',
  'the deadline': '({ ctx }) => ctx.deadline',
  'the signal': '({ ctx }) => ctx.signal.aborted',
  'the network': '({ ctx }) => ctx.fetch("http://127.0.0.1:1/").then(() => 1, () => 2)',
  'a secret': '({ ctx }) => ctx.secrets.get("NONE").then(() => 1, () => 2)',
  'random rows': '({ db }) => db.get("SELECT random() AS n")',
  'the time of SQLite': `({ db }) => db.get("SELECT datetime('now') AS n")`,
  'a write':
    '/* governance: allow-query-handlers-read-only a test */ ({ db }) => db.run("INSERT INTO log VALUES (1)").then(() => 1)',
  'the address of a blob': '() => URL.createObjectURL(new Blob(["a"]))',
  'the time of a file': '() => new File(["a"], "a").lastModified',
  'the time of a file in a form':
    '() => { const form = new FormData(); form.append("a", new Blob(["a"])); return form.get("a").lastModified; }',
  'the time of an event': '() => new Event("a").timeStamp',
  'the start of the thread': '() => performance.timeOrigin',
  "a time of Node's": '() => performance.nodeTiming.duration',
  "a time of Node's that was kept": '((timing) => () => timing.idleTime)(performance.nodeTiming)',
  "Node's times as JSON": '((timing) => () => timing.toJSON())(performance.nodeTiming)',
  'a mark': '() => performance.mark("a").startTime',
  'the clock of a class': '() => new (class { at = new Date() })().at',
  'a boundary':
    'async () => { const form = new FormData(); form.append("a", "b"); return await new Response(form).text(); }',
  'the parts of a format without a date': '() => new Intl.DateTimeFormat("en").formatToParts()',
  'a signal that times out': '() => AbortSignal.timeout(1000).aborted',
  'a wait': '() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)',
  'the state of the garbage collector': '() => new WeakRef({}).deref() !== undefined',
  'the present in a view': '({ db }) => db.all("SELECT * FROM present")',
  'the present in a filter': '({ db }) => db.all("SELECT name FROM item WHERE name > CURRENT_TIMESTAMP")',
  'the count of changes': '({ db }) => db.get("SELECT changes() AS a, total_changes() AS b, last_insert_rowid() AS c")',
  'a pragma': '({ db }) => db.all("SELECT * FROM pragma_table_info(\'item\')")',
  'a transaction': '({ db }) => db.transaction((tx) => tx.get("SELECT count(*) AS n FROM log"))',
};
const unsteady = Object.values(UNSTEADY);

const STEADY: Record<string, string> = {
  item: '({ input, db }) => db.get("SELECT * FROM item WHERE id = ?", input.id)',
  items:
    '({ db }) => db.all("SELECT i.id, i.name, count(t.item) AS tags FROM item i LEFT JOIN tag t ON t.item = i.id GROUP BY i.id")',
  prepared: '({ db }) => db.prepare("SELECT name FROM item ORDER BY id").all()',
  view: '({ db }) => db.all("SELECT * FROM named")',
  tags: '({ db }) => db.all("SELECT name FROM tag ORDER BY name")',
  nothing: '() => ({ fixed: [1, 2, 3] })',
  date: '() => new Date(0).toISOString()',
  logged: '({ log }) => { log.info("one run"); return 1; }',
};

const QUERIES = {
  ...STEADY,
  ...Object.fromEntries(unsteady.map((source, at) => [`unsteady-${at}`, source])),
  who: '({ ctx }) => ctx.caller.kind',
  busy: '({ ctx }) => new Promise((done) => ctx.signal.addEventListener("abort", () => done(null)))',
  slow: '({ db }) => db.get("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT count(*) AS n, (SELECT count(*) FROM item) AS items FROM n")',
};
const ACTIONS = {
  add: '({ input, db }) => db.run("INSERT INTO item (name) VALUES (?)", input.name)',
  rename: '({ input, db }) => db.run("UPDATE item SET name = ? WHERE id = ?", input.name, input.id)',
  tag: '({ input, db }) => db.run("INSERT INTO tag VALUES (?, ?)", input.item, input.name)',
  drop: '({ input, db }) => db.run("DELETE FROM item WHERE id = ?", input.id)',
  log: '({ db }) => db.run("INSERT INTO log VALUES (1)")',
  both: '({ db }) => db.transaction(async (tx) => { await tx.run("INSERT INTO item (name) VALUES (1)"); await tx.run("INSERT INTO tag VALUES (1, 1)"); })',
  fail: '({ db }) => db.transaction(async (tx) => { await tx.run("DELETE FROM item"); throw new Error("no"); })',
  late: '({ db }) => { void db.run("INSERT INTO item (name) VALUES (2)"); throw new Error("after it asked"); }',
  schema: '({ db }) => db.exec("DROP VIEW named; CREATE VIEW named AS SELECT name AS other FROM tag")',
};
const MIGRATION = `CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
  CREATE TABLE tag (item REFERENCES item ON DELETE CASCADE, name TEXT);
  CREATE TABLE log (v);
  CREATE VIEW named AS SELECT name FROM item;
  CREATE VIEW present AS SELECT name, datetime('now') AS at FROM item;
  CREATE TABLE place (code TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
  CREATE VIRTUAL TABLE words USING fts5 (text);
  CREATE VIRTUAL TABLE boxes USING rtree (id, low, high);
  INSERT INTO item (name) VALUES ('a'), ('b');`;

const SOURCE = { queries: QUERIES, actions: ACTIONS, migrations: [MIGRATION] };

async function read(
  gateway: TestGateway,
  query: string,
  input: unknown = {},
): Promise<{ data: unknown; cache: string }> {
  const answer = await gateway.read('shop', query, input as object);
  assert.equal(answer.status, 200, answer.text);
  const cache = /cache;desc=(\w+)/.exec(String(answer.headers['server-timing']))?.[1] ?? 'none';
  return { data: answer.json.data, cache };
}

async function write(gateway: TestGateway, action: string, input: object = {}): Promise<void> {
  const { status, text } = await gateway.write('shop', action, input);
  assert.equal(status, 200, text);
}

onEachEdge({}, (gateway, _edge, store) => {
  before(async () => {
    const uploaded = await gateway.upload('shop', appOf('shop', SOURCE));
    assert.equal(uploaded.status, 201, uploaded.text);
    await read(gateway, 'item', { id: 1 });
  });

  const warm = async (query: string, input: unknown = {}): Promise<unknown> => {
    let last = await read(gateway, query, input);
    // The note of a commit may be in transit, and another process sends none.
    await eventually(async () => {
      last = await read(gateway, query, input);
      return last.cache === 'hit';
    });
    return last.data;
  };

  for (const query of Object.keys(STEADY)) {
    test(`the result of "${query}" is kept`, async () => {
      const first = await read(gateway, query, { id: 1 });
      assert.deepEqual(await warm(query, { id: 1 }), first.data);
    });
  }

  for (const [at, what] of Object.keys(UNSTEADY).entries()) {
    test(`a result that depends on ${what} is not kept`, async () => {
      for (let time = 0; time < 5; time++) assert.equal((await read(gateway, `unsteady-${at}`)).cache, 'bypass');
    });
  }

  test('an input with the same bytes shares a result, whatever stands around it; others have separate ones', async () => {
    await warm('item', { id: 1, more: { a: 1, b: [1, 'ä'] } });
    const body = '{ "query":"item", "app":"shop", "input": {"id":1,"more":{"a":1,"b":[1,"ä"]}}}';
    const same = await gateway.call('POST', '/svc/_tool/svc_read', { body });
    assert.match(String(same.headers['server-timing']), /cache;desc=hit/);
    assert.equal((await read(gateway, 'item', { id: 1, more: { a: 1, b: [1, 'a'] } })).cache, 'miss');
    assert.equal((await read(gateway, 'item', { more: { a: 1, b: [1, 'ä'] }, id: 1 })).cache, 'miss');
  });

  test('a result is new after each write to its tables, and stays after writes to others', async () => {
    await warm('item', { id: 1 });
    await warm('items');
    await warm('view');
    await warm('nothing');
    await write(gateway, 'log');
    for (const query of ['items', 'view', 'nothing']) assert.equal((await read(gateway, query)).cache, 'hit', query);
    await write(gateway, 'tag', { item: 1, name: 'x' });
    assert.equal((await read(gateway, 'item', { id: 1 })).cache, 'hit');
    assert.equal((await read(gateway, 'view')).cache, 'hit');
    const { data, cache } = await read(gateway, 'items');
    assert.deepEqual([cache, (data as { tags: number }[])[0]?.tags], ['miss', 1]);
    await write(gateway, 'rename', { id: 1, name: 'c' });
    assert.deepEqual(await read(gateway, 'item', { id: 1 }), { data: { id: 1, name: 'c' }, cache: 'miss' });
    assert.deepEqual((await read(gateway, 'view')).data, [{ name: 'c' }, { name: 'b' }]);
    assert.equal((await read(gateway, 'nothing')).cache, 'hit');
  });

  test('a cascade and a transaction count as writes of each of their tables', async () => {
    await write(gateway, 'tag', { item: 2, name: 'y' });
    await warm('tags');
    await write(gateway, 'drop', { id: 2 });
    assert.deepEqual(await read(gateway, 'tags'), { data: [{ name: 'x' }], cache: 'miss' });
    await warm('items');
    await warm('tags');
    await write(gateway, 'both');
    assert.equal((await read(gateway, 'tags')).cache, 'miss');
    assert.equal((await read(gateway, 'items')).cache, 'miss');
  });

  test('a rollback keeps results; a write that outlives its call does not', async () => {
    const items = await warm('items');
    assert.equal((await gateway.write('shop', 'fail')).json.isError, true);
    assert.deepEqual(await read(gateway, 'items'), { data: items, cache: 'hit' });
    assert.equal((await gateway.write('shop', 'late')).json.isError, true);
    const { data, cache } = await read(gateway, 'items');
    assert.deepEqual([cache, (data as unknown[]).length], ['miss', (items as unknown[]).length + 1]);
  });

  test('many reads of a missing result share one run', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => read(gateway, 'slow')));
    assert.equal(new Set(answers.map(({ data }) => JSON.stringify(data))).size, 1);
    const { json } = await gateway.call('GET', '/svc/_status');
    assert.ok(json, 'the gateway is well');
    assert.equal((await read(gateway, 'slow')).cache, 'hit');
  });

  test('a read whose client left while it waited holds up no later one', async () => {
    const ask = (query: string, input: object) => {
      const left = new AbortController();
      const answer = fetch(`${gateway.url}/svc/_tool/svc_read`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.token}` },
        body: JSON.stringify({ app: 'shop', query, input }),
        signal: left.signal,
      });
      answer.catch(() => {});
      return { answer, leave: () => left.abort() };
    };
    const load = async (): Promise<{ inFlight: number; mailbox: number }> => {
      type Actor = { app: string; state: string; inFlight: number; mailbox: number };
      const { processes } = (await gateway.system()) as { processes: { actors?: Actor[] }[] };
      const all = processes.flatMap(({ actors = [] }) => actors);
      return all.find(({ app, state }) => app === 'shop' && state === 'live') as Actor;
    };
    const busy = Array.from({ length: LIMITS.actorConcurrency }, (_, n) => ask('busy', { n }));
    await eventually(async () => (await load()).inFlight === LIMITS.actorConcurrency);
    const leaving = ask('items', { asked: 'by two' });
    await eventually(async () => (await load()).mailbox === 1);
    leaving.leave();
    await assert.rejects(leaving.answer);
    const next = ask('items', { asked: 'by two' });
    // Sent after the others, so the read that it begins or joins is known by then.
    await load();
    for (const one of busy) one.leave();
    assert.equal((await inTime(next.answer, 'the answer of the next read')).status, 200);
    // A handler that is told of its end keeps results of reads beside it from being kept.
    await eventually(async () => (await load()).inFlight === 0);
  });

  test('a result that read the caller is kept for each caller', async () => {
    assert.deepEqual(await read(gateway, 'who'), { data: 'admin', cache: 'miss' });
    assert.deepEqual(await read(gateway, 'who'), { data: 'admin', cache: 'hit' });
  });

  test('svc sql, another process, and a changed schema make results new', async () => {
    await warm('items');
    const sql = await gateway.call('POST', '/svc/_apps/shop/sql', {
      body: { sql: "INSERT INTO item (name) VALUES ('by sql')" },
    });
    assert.equal(sql.status, 200, sql.text);
    const { data, cache } = await read(gateway, 'items');
    assert.deepEqual([cache, (data as { name: string }[]).at(-1)?.name], ['miss', 'by sql']);

    await warm('items');
    const db = openSqlite(join(gateway.dataDir, 'apps', 'shop', 'data.sqlite'));
    for (let time = 0; time < 5; time++) {
      db.prepare('INSERT INTO item (name) VALUES (?)').run(`outside ${time}`);
      assert.equal(((await read(gateway, 'items')).data as { name: string }[]).at(-1)?.name, `outside ${time}`);
    }
    db.close();

    await warm('view');
    await write(gateway, 'schema');
    assert.deepEqual(
      (await read(gateway, 'view')).data,
      (await read(gateway, 'tags')).data && [{ other: 'x' }, { other: '1' }],
    );
    await warm('view');
    await write(gateway, 'tag', { item: 1, name: 'z' });
    assert.equal(((await read(gateway, 'view')).data as unknown[]).length, 3);
  });

  test('another version has separate results, and so has the previous one after a rollback', async () => {
    await warm('nothing');
    const next = appOf('shop', { ...SOURCE, queries: { ...QUERIES, nothing: '() => "next"' } });
    const uploaded = await gateway.upload('shop', next);
    assert.equal(uploaded.status, 201, uploaded.text);
    assert.deepEqual(await read(gateway, 'nothing'), { data: 'next', cache: 'miss' });
    await warm('nothing');
    const back = await gateway.call('POST', '/svc/_apps/shop/rollback', { body: {} });
    assert.equal(back.status, 200, back.text);
    assert.deepEqual((await read(gateway, 'nothing')).data, { fixed: [1, 2, 3] });
    await warm('nothing');
    if (store === 'git') return;
    const versions = await gateway.call('GET', '/svc/_apps/shop/versions');
    const newest = (versions.json as { versionId: string }[])[0]?.versionId;
    assert.equal((await gateway.call('POST', '/svc/_apps/shop/activate', { body: { versionId: newest } })).status, 200);
    assert.deepEqual((await read(gateway, 'nothing')).data, 'next');
  });

  test('an app whose manifest says "cache": false keeps nothing', async () => {
    const off = appOf('shop', { ...SOURCE, manifest: { cache: false } });
    assert.equal((await gateway.upload('shop', off)).status, 201);
    for (let time = 0; time < 3; time++) assert.equal((await read(gateway, 'nothing')).cache, 'bypass');
  });
});
