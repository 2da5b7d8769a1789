/** Live queries over HTTP, on both edges (specification, "Live queries"). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { ServerSentEvent } from '../protocol/http/event-stream.ts';
import { LIMITS } from '../protocol/limits.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachEdge, rawRequest, sendRaw } from '../testing/edges.ts';
import type { Stream } from '../testing/gateway.ts';

const ITEMS = ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT)', 'CREATE TABLE other (n INTEGER)'];
const LIST =
  '({ db, input }) => db.all("SELECT id, title FROM items WHERE title LIKE ? ORDER BY id", (input.like ?? "") + "%")';

const APP = appOf('notes', {
  migrations: ITEMS,
  queries: {
    list: LIST,
    strict: {
      run: LIST,
      input: { type: 'object', properties: { like: { type: 'string' } }, additionalProperties: false },
    },
    count: '({ db }) => db.get("SELECT count(*) AS n FROM items")',
    large: '({ db }) => db.get("SELECT count(*) AS n, hex(zeroblob(1000000)) AS fill FROM items")',
    fails:
      'async ({ db }) => { if ((await db.get("SELECT count(*) AS n FROM items")).n % 2 === 1) throw new Error("odd"); return "even"; }',
    who: '({ ctx }) => ctx.caller',
    order: '({ input }) => Object.keys(input)',
    stamped:
      'async ({ db }) => ({ n: (await db.get("SELECT count(*) AS n FROM items")).n, at: performance.now() + Math.random() })',
    clock: { run: '() => Date.now()', refreshSeconds: 1 },
    lines: '({ db }) => ({ text: "a\\r\\nb", n: 1 })',
  },
  actions: {
    add: { run: '({ db, input }) => db.run("INSERT INTO items (title) VALUES (?)", input.title)', writes: ['items'] },
    elsewhere: '({ db }) => db.run("INSERT INTO other VALUES (1)")',
    undeclared: '({ db }) => db.run("INSERT INTO items (title) VALUES (\'silent\')")',
    clear: { run: '({ db }) => db.run("DELETE FROM items")', writes: ['items'] },
    same: { run: '({ db }) => db.run("UPDATE items SET title = title")', writes: ['items'] },
  },
});

// biome-ignore lint/suspicious/noExplicitAny: the tests look into it
const dataOf = (event: ServerSentEvent): any => {
  assert.equal(event.event, 'data', event.data);
  return JSON.parse(event.data).data;
};

const errorOf = (event: ServerSentEvent): string => {
  assert.equal(event.event, 'error', event.data);
  const { isError, error } = JSON.parse(event.data);
  assert.equal(isError, true);
  return error.code;
};

/** The first event for which this holds: states between may be left out. */
async function until(stream: Stream, holds: (event: ServerSentEvent) => boolean): Promise<ServerSentEvent> {
  for (;;) {
    const event = await stream.next();
    if (holds(event)) return event;
  }
}

onEachEdge({}, (gateway, _edge, store) => {
  before(async () => assert.ok((await gateway.upload('notes', APP)).status < 300));
  const open = (query: string, headers: Record<string, string> = {}): Promise<Stream> =>
    gateway.stream(`/svc/notes/_live?${query}`, headers);
  const clear = () => gateway.write('notes', 'clear');
  const add = (title: string) => gateway.write('notes', 'add', { title });

  test('the result comes at once, and whenever it differs', async () => {
    await clear();
    const stream = await open('query=list');
    const first = await stream.next();
    assert.deepEqual(dataOf(first), []);
    await add('milk');
    const second = await stream.next();
    assert.deepEqual(dataOf(second), [{ id: 1, title: 'milk' }]);
    assert.equal(JSON.parse(second.data).seq, JSON.parse(first.data).seq + 1);
    assert.notEqual(second.id, first.id);
    // A write that does not change the result, and one to an undeclared table.
    await gateway.write('notes', 'same');
    await gateway.write('notes', 'undeclared');
    assert.deepEqual(
      dataOf(await stream.next()).map(({ title }: { title: string }) => title),
      ['milk', 'silent'],
    );
    stream.close();
  });

  test('a read after the event sees the state of the event', async () => {
    await clear();
    const stream = await open('query=count');
    assert.equal(dataOf(await stream.next()).n, 0);
    for (let n = 1; n <= 20; n++) {
      await add(`note ${n}`);
      await until(stream, (event) => dataOf(event).n === n);
      assert.equal((await gateway.read('notes', 'count')).json.data.n, n);
    }
    stream.close();
  });

  test('many writes: at most 20 events a second, the last state at the end', async () => {
    await clear();
    const stream = await open('query=count');
    await stream.next();
    const begun = performance.now();
    await Promise.all(Array.from({ length: 300 }, (_, i) => add(`burst ${i}`)));
    let events = 1;
    while (dataOf(await stream.next()).n !== 300) events += 1;
    const most = 2 + (performance.now() - begun) / LIMITS.liveIntervalMs;
    assert.ok(events <= most, `${events} events, at most ${most}`);
    stream.close();
  });

  test('the same query and input share one evaluation; another input has a separate one', async () => {
    await clear();
    await add('apple');
    await add('pear');
    const all = await Promise.all(
      ['%7B%22like%22%3A%22a%22%7D', '%7B%22like%22:%22a%22}'].map((input) => open(`query=list&input=${input}`)),
    );
    const [one, two] = await Promise.all(all.map((stream) => stream.next()));
    assert.deepEqual(one, two);
    const pears = await open('query=list&input={"like":"p"}');
    assert.deepEqual(
      dataOf(await pears.next()).map(({ title }: { title: string }) => title),
      ['pear'],
    );
    for (const stream of [...all, pears]) stream.close();
  });

  test('an input keeps the order of its members, which its handler sees', async () => {
    for (const [input, names] of [
      ['{"b":1,"a":2}', ['b', 'a']],
      ['{"a":2,"b":1}', ['a', 'b']],
    ] as const) {
      const stream = await open(`query=order&input=${encodeURIComponent(input)}`);
      assert.deepEqual(dataOf(await stream.next()), names);
      stream.close();
    }
  });

  test('a reconnect gets the latest result only if it does not have it', async () => {
    await clear();
    const stream = await open('query=count');
    const { id } = await stream.next();
    stream.close();
    const again = await open('query=count', { 'last-event-id': id });
    await add('new');
    assert.equal(dataOf(await again.next()).n, 1, 'nothing came before');
    again.close();
    const late = await open('query=count', { 'last-event-id': id });
    assert.equal(dataOf(await late.next()).n, 1);
    late.close();
    await clear();
  });

  test('an error is an event, and so is the next result', async () => {
    await clear();
    const stream = await open('query=fails');
    assert.equal(dataOf(await stream.next()), 'even');
    await add('one');
    assert.equal(errorOf(await stream.next()), 'HANDLER_ERROR');
    await add('two');
    assert.equal(dataOf(await stream.next()), 'even');
    stream.close();
  });

  test('a write to a table that the query does not read does not run it again', async () => {
    await clear();
    const stream = await open('query=stamped');
    const first = await until(stream, (event) => dataOf(event).n === 0);
    for (let i = 0; i < 5; i++) await gateway.write('notes', 'elsewhere');
    await add('one');
    // Each run has another result, which would be sent.
    const second = await stream.next();
    assert.equal(dataOf(second).n, 1);
    assert.equal(JSON.parse(second.data).seq, JSON.parse(first.data).seq + 1);
    stream.close();
  });

  test('a table made later, and read through a view that was changed, is followed like others', async () => {
    const views = appOf('views', {
      migrations: ['CREATE TABLE one (v)', 'CREATE TABLE two (v)', 'CREATE VIEW shown AS SELECT v FROM one'],
      queries: { shown: '({ db }) => db.all("SELECT v FROM shown")' },
    });
    assert.ok((await gateway.upload('views', views)).status < 300);
    const sql = (text: string) => gateway.call('POST', '/svc/_apps/views/sql', { body: { sql: text } });
    const stream = await gateway.stream('/svc/views/_live?query=shown');
    await stream.next();
    for (const statement of [
      'CREATE TABLE three (v)',
      'DROP VIEW shown',
      'CREATE VIEW shown AS SELECT v FROM two UNION ALL SELECT v FROM three',
    ])
      assert.equal((await sql(statement)).status, 200);
    for (const [at, table] of ['two', 'three', 'two'].entries()) {
      assert.equal((await sql(`INSERT INTO ${table} VALUES (${at})`)).status, 200);
      await until(stream, (event) => event.event === 'data' && dataOf(event).length === at + 1);
    }
    stream.close();
  });

  test('writes of another process arrive', async () => {
    await clear();
    const stream = await open('query=count');
    await until(stream, (event) => dataOf(event).n === 0);
    const db = openSqlite(join(gateway.dataDir, 'apps', 'notes', 'data.sqlite'));
    db.prepare("INSERT INTO items (title) VALUES ('outside')").run();
    db.close();
    await until(stream, (event) => dataOf(event).n === 1);
    stream.close();
  });

  const refused: [what: string, path: string, status: number, code: string][] = [
    ['an unknown app', '/svc/nobody/_live?query=list', 404, 'UNKNOWN_APP'],
    ['an impossible id', '/svc/N%20o/_live?query=list', 404, 'NOT_FOUND'],
    store === 'git'
      ? ['an unknown workspace', '/svc/_draft/nowhere/notes/_live?query=list', 404, 'UNKNOWN_SESSION']
      : ['a draft without workspaces', '/svc/_draft/nowhere/notes/_live?query=list', 409, 'NO_GIT_STORE'],
    ['no query', '/svc/notes/_live', 400, 'BAD_REQUEST'],
    ['an unknown query', '/svc/notes/_live?query=nothing', 404, 'UNKNOWN_QUERY'],
    ['an action', '/svc/notes/_live?query=add', 400, 'WRONG_KIND'],
    ['input that is not JSON', '/svc/notes/_live?query=list&input={', 400, 'BAD_REQUEST'],
    ['input that nests too deep', `/svc/notes/_live?query=list&input=${'['.repeat(2000)}`, 400, 'BAD_REQUEST'],
    ['input against the schema', '/svc/notes/_live?query=strict&input={"like":1}', 400, 'INVALID_INPUT'],
    ['an invalid percent encoding', '/svc/notes/_live?query=%zz', 400, 'BAD_REQUEST'],
    ['two queries with one input', '/svc/notes/_live?query=list&query=count&input={}', 400, 'BAD_REQUEST'],
    [
      'too many queries',
      `/svc/notes/_live?${'query=count&'.repeat(LIMITS.liveQueriesOfStream + 1)}`,
      400,
      'BAD_REQUEST',
    ],
  ];
  for (const [what, path, status, code] of refused) {
    test(`${what} is ${status} ${code}, and leaves nothing`, async () => {
      const answer = await gateway.call('GET', path);
      assert.deepEqual([answer.status, answer.json.isError, answer.json.error.code], [status, true, code], answer.text);
    });
  }

  test('without a token it is 401, and POST is refused', async () => {
    assert.equal((await gateway.call('GET', '/svc/notes/_live?query=list', { token: null })).status, 401);
    assert.equal((await gateway.call('POST', '/svc/notes/_live?query=list')).status, 405);
  });

  test('HEAD gets the head', async () => {
    const { status, head, body } = await sendRaw(gateway, rawRequest(gateway, 'HEAD', '/svc/notes/_live?query=list'));
    assert.deepEqual([status, body], [200, '']);
    assert.match(head, /content-type: text\/event-stream/i);
  });

  test('several queries over one stream, each with its place, and changes with them', async () => {
    await clear();
    const stream = await open('query=count&input={}&query=nothing&input={}&query=list&input={"like":"x"}&changes');
    const events = [await stream.next(), await stream.next(), await stream.next()];
    const byIndex = new Map(events.map((event) => [JSON.parse(event.data).index, event]));
    assert.deepEqual(dataOf(byIndex.get(0) as ServerSentEvent), { n: 0 });
    assert.equal(errorOf(byIndex.get(1) as ServerSentEvent), 'UNKNOWN_QUERY');
    assert.deepEqual(dataOf(byIndex.get(2) as ServerSentEvent), []);
    const had = events[2]?.id ?? '';
    await add('y');
    const after = [await stream.next(), await stream.next()];
    assert.deepEqual(after.map(({ event }) => event).sort(), ['change', 'data']);
    assert.equal(JSON.parse(after.find(({ event }) => event === 'data')?.data ?? '').index, 0);
    stream.close();
    // A known result is not sent again; the missed change is.
    const again = await open('query=count&input={}&query=nothing&input={}&query=list&input={"like":"x"}&changes', {
      'last-event-id': had,
    });
    const missed = [await again.next(), await again.next()];
    assert.deepEqual(missed.map(({ event }) => event).sort(), ['change', 'data']);
    assert.equal(dataOf(missed.find(({ event }) => event === 'data') as ServerSentEvent).n, 1);
    again.close();
    const latest = missed.find(({ event }) => event === 'data')?.id as string;
    const silent = await open(
      `query=count&input={}&query=nothing&input={}&query=list&input={"like":"x"}&changes&lastEventId=${latest}`,
    );
    await add('x1');
    const next = [await silent.next(), await silent.next(), await silent.next()];
    assert.deepEqual(next.map(({ event }) => event).sort(), ['change', 'data', 'data']);
    silent.close();
  });

  test('each caller gets the result for itself', async () => {
    const admin = await open('query=who');
    assert.deepEqual(dataOf(await admin.next()), { kind: 'admin' });
    const made = await gateway.call('POST', '/svc/_tokens', { body: { name: 'reader', tools: 'read' } });
    const { id, token } = made.json;
    const stream = await open('query=who', { authorization: `Bearer ${token}` });
    assert.deepEqual(dataOf(await stream.next()), { kind: 'token', name: 'reader' });
    // A revoked token ends its streams; others reconnect.
    assert.equal((await gateway.call('DELETE', `/svc/_tokens/${id}`)).status < 300, true);
    await stream.ended();
    await assert.rejects(open('query=who', { authorization: `Bearer ${token}` }), /401/);
    admin.close();
  });

  test('a query that depends on no write runs again after refreshSeconds', async () => {
    const stream = await open('query=clock');
    const first = dataOf(await stream.next());
    assert.ok(dataOf(await stream.next()) > first);
    stream.close();
  });

  test('line ends in a result stay in it', async () => {
    const stream = await open('query=lines');
    assert.deepEqual(dataOf(await stream.next()), { text: 'a\r\nb', n: 1 });
    stream.close();
  });

  test('another version answers from then on', async () => {
    const stream = await open('query=count');
    await stream.next();
    const files = { ...APP, 'queries/count.js': 'export default () => "another"' };
    assert.ok((await gateway.upload('notes', files)).status < 300);
    await until(stream, (event) => dataOf(event) === 'another');
    assert.ok((await gateway.upload('notes', APP)).status < 300);
    await until(stream, (event) => dataOf(event) !== 'another');
    stream.close();
  });

  test('a slow reader gets the last state, and does not slow the others', async () => {
    await clear();
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.write(rawRequest(gateway, 'GET', '/svc/notes/_live?query=large'));
    await once(socket, 'readable');
    const quick = await open('query=count');
    for (let n = 1; n <= 20; n++) {
      await add(`slow ${n}`);
      await until(quick, (event) => dataOf(event).n === n);
    }
    quick.close();
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text = (text + chunk.toString('latin1')).slice(-3_000_000);
    });
    socket.resume();
    await eventually(() => /"n":20,/.test(text));
    socket.destroy();
  });

  test('ten thousand subscriptions of one client are refused, and take no room from others', async () => {
    const made = await gateway.call('POST', '/svc/_tokens', { body: { name: 'greedy', tools: 'read' } });
    const headers = { authorization: `Bearer ${made.json.token}` };
    const perStream = LIMITS.liveQueriesOfStream;
    const full = LIMITS.liveFollowersOfClient / perStream;
    const streams: Stream[] = [];
    const refused: Stream[] = [];
    for (let n = 0; n < 10_000 / perStream; n++) {
      const stream = await open('query=count&'.repeat(perStream), headers);
      const first = await stream.next();
      streams.push(stream);
      if (n < full) dataOf(first);
      else {
        assert.equal(errorOf(first), 'OVERLOADED');
        refused.push(stream);
      }
    }
    await assert.rejects(open('query=count', headers), /503.*OVERLOADED.*This client has 6000 live subscriptions/s);
    const other = await open('query=count');
    dataOf(await other.next());
    streams.shift()?.close();
    // One of those that were refused tries again by itself, and finds room.
    const untilData = async (stream: Stream) => until(stream, ({ event }) => event === 'data');
    assert.deepEqual(Object.keys(dataOf(await Promise.any(refused.map(untilData)))), ['n']);
    for (const stream of [...streams, other]) stream.close();
    await gateway.call('DELETE', `/svc/_tokens/${made.json.id}`);
  });

  test('the streams of a removed app end, and nothing is left', async () => {
    assert.equal((await gateway.upload('gone', appOf('gone', { queries: { one: '() => 1' } }))).status, 201);
    const one = await gateway.stream('/svc/gone/_live?query=one');
    const many = await gateway.stream('/svc/gone/_live?query=one&changes');
    await Promise.all([one.next(), many.next()]);
    assert.equal((await gateway.call('DELETE', '/svc/_apps/gone')).status < 300, true);
    await Promise.all([one.ended(), many.ended()]);
    await eventually(async () => (await gateway.system()).counters.subscribers === 0);
  });
});
