/** Change streams over HTTP, on both edges (specification, "Change stream"). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { before, test } from 'node:test';
import type { ServerSentEvent } from '../protocol/http/event-stream.ts';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachEdge, rawRequest, sendRaw } from '../testing/edges.ts';
import type { Stream, TestGateway } from '../testing/gateway.ts';

/** Tables with long names, so that few calls make many bytes. */
const WIDE = Array.from({ length: 50 }, (_, i) => `${i}_${'t'.repeat(2000)}`);

const APP = appOf('live', {
  migrations: ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT)'],
  queries: {
    list: '({ db }) => db.all("SELECT title FROM items")',
    writes:
      '({ db }) => db.run("INSERT INTO items (title) VALUES (1)") // governance: allow-query-handlers-read-only why',
  },
  actions: {
    add: { run: '({ db, input }) => db.run("INSERT INTO items (title) VALUES (?)", input.title)', writes: ['items'] },
    both: { run: '() => ({ status: 201, body: null })', writes: ['items', 'orders'] },
    twice: { run: '() => null', writes: ['items', 'orders', 'items'] },
    none: '() => null',
    refuses: { run: '() => ({ status: 404, body: null })', writes: ['items'] },
    undone: {
      run: 'async ({ db }) => { await db.transaction((tx) => { tx.run("DELETE FROM items"); throw new Error("no"); }); }',
      writes: ['items'],
    },
    early: {
      run: '({ db }) => { db.run("INSERT INTO items (title) VALUES (3)"); throw new Error("no"); }',
      writes: ['items'],
    },
    unsendable: {
      run: 'async ({ db }) => { await db.transaction((tx) => tx.run("INSERT INTO items (title) VALUES (4)")); return () => 1; }',
      writes: ['items'],
    },
    throws: {
      run: 'async ({ db }) => { await db.run("INSERT INTO items (title) VALUES (2)"); throw new Error("no"); }',
      writes: ['items'],
    },
    orders: { run: '() => null', writes: ['orders'] },
    wide: { run: '() => null', writes: WIDE },
  },
});

const SLOW = appOf('slow', {
  migrations: ['CREATE TABLE items (title TEXT)'],
  queries: { list: '({ db }) => db.all("SELECT title FROM items")' },
  actions: {
    add: {
      run: 'async ({ db }) => { await db.run("INSERT INTO items VALUES (?)", "half"); await new Promise(() => {}); }',
      writes: ['items'],
      timeoutMs: 200,
    },
  },
});

const parse = (event: ServerSentEvent) =>
  JSON.parse(event.data) as {
    app: string;
    table: string;
    tables: string[];
    action: string;
    source: string;
    ts: number;
    seq: number;
  };

async function take(stream: Stream, count: number): Promise<ServerSentEvent[]> {
  const events: ServerSentEvent[] = [];
  while (events.length < count) events.push(await stream.next());
  return events;
}

/** A missing event cannot be awaited: this event comes after it would have. */
async function expectNext(gateway: TestGateway, stream: Stream, action: string): Promise<ServerSentEvent> {
  assert.equal((await gateway.write('live', action)).status < 400, true);
  const event = await stream.next();
  assert.equal(parse(event).action, action, event.data);
  return event;
}

onEachEdge({}, (gateway) => {
  before(async () => assert.equal((await gateway.upload('live', APP)).status, 201));
  const open = (query = '', headers: Record<string, string> = {}) =>
    gateway.stream(`/svc/live/_changes${query}`, headers);

  test('the head and the opening', async () => {
    const abort = new AbortController();
    const response = await fetch(`${gateway.url}/svc/live/_changes`, {
      headers: { authorization: `Bearer ${gateway.token}` },
      signal: abort.signal,
    });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    assert.equal(response.headers.get('cache-control'), 'no-cache, no-transform');
    assert.equal(response.headers.get('x-accel-buffering'), 'no');
    const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read();
    const opening = Buffer.from(value ?? []).toString();
    assert.match(opening, /^retry: 2000\n/);
    assert.match(opening, /^: ./m, 'a comment');
    assert.doesNotMatch(opening, /^event:|^data:/m);
    abort.abort();
  });

  test('one event for each table, with consecutive numbers', async () => {
    const stream = await open();
    const before = Date.now();
    await gateway.write('live', 'both');
    const [items, orders] = await take(stream, 2);
    assert.ok(items && orders);
    const { ts, seq, ...rest } = parse(items);
    assert.deepEqual(
      [items.event, rest],
      ['change', { app: 'live', table: 'items', tables: ['items'], action: 'both', source: 'handler' }],
    );
    assert.ok(ts >= before && ts <= Date.now());
    assert.equal(items.id, String(seq));
    assert.deepEqual([parse(orders).table, parse(orders).tables, parse(orders).seq], ['orders', ['orders'], seq + 1]);
    stream.close();
  });

  test('a table that the manifest names twice has one event', async () => {
    const stream = await open();
    await gateway.write('live', 'twice');
    const tables = (await take(stream, 2)).map((event) => parse(event).table);
    assert.deepEqual(tables, ['items', 'orders']);
    await expectNext(gateway, stream, 'orders');
    stream.close();
  });

  test('nothing for queries, actions without tables, a status of 400 and above, or wrong input', async () => {
    const stream = await open();
    await gateway.read('live', 'list');
    await gateway.read('live', 'writes');
    for (const action of ['none', 'refuses', 'missing', 'undone']) await gateway.write('live', action);
    await gateway.write('live', 'add', 'no object');
    await expectNext(gateway, stream, 'orders');
    stream.close();
  });

  test('an action that fails after it wrote: all subscribers get a reset', async () => {
    const stream = await open('?tables=others');
    for (const action of ['throws', 'early', 'unsendable']) {
      assert.equal((await gateway.write('live', action)).json.error.code, 'HANDLER_ERROR');
      assert.equal((await stream.next()).event, 'reset', action);
    }
    stream.close();
  });

  test('an action that timed out may have written: all subscribers get a reset, with any filter', async () => {
    assert.equal((await gateway.upload('slow', SLOW)).status, 201);
    const stream = await gateway.stream('/svc/slow/_changes?tables=others');
    assert.equal((await gateway.write('slow', 'add')).status, 500);
    assert.equal((await stream.next()).event, 'reset');
    assert.deepEqual((await gateway.read('slow', 'list')).json.data, [{ title: 'half' }]);
    stream.close();
  });

  test('the event arrives before the answer', async () => {
    const stream = await open();
    const next = stream.next();
    await gateway.write('live', 'add', { title: 'x' });
    assert.equal(parse(await next).action, 'add');
    assert.ok((await gateway.read('live', 'list')).json.data.some(({ title }: { title: string }) => title === 'x'));
    stream.close();
  });

  test('every subscriber gets every event, in the same order', async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => open()));
    await Promise.all(Array.from({ length: 10 }, () => gateway.write('live', 'both')));
    const [first, ...others] = await Promise.all(streams.map((stream) => take(stream, 20)));
    assert.ok(first);
    for (const events of others) assert.deepEqual(events, first);
    const start = Number(first[0]?.id);
    assert.deepEqual(
      first.map(({ id }) => Number(id)),
      first.map((_, i) => start + i),
    );
    for (const stream of streams) stream.close();
  });

  test('?tables filters', async () => {
    const stream = await open('?tables=orders,%20nothing');
    await gateway.write('live', 'add', { title: 'y' });
    await gateway.write('live', 'both');
    assert.equal(parse(await stream.next()).table, 'orders');
    await expectNext(gateway, stream, 'orders');
    stream.close();
    const all = await open('?tables=');
    await expectNext(gateway, all, 'add');
    all.close();
  });

  test('Last-Event-ID replays the missed events, and only those', async () => {
    const stream = await open();
    const seen = await expectNext(gateway, stream, 'orders');
    stream.close();
    for (let i = 0; i < 3; i++) await gateway.write('live', 'both');
    const again = await open('', { 'last-event-id': seen.id });
    const events = await take(again, 6);
    assert.deepEqual(
      events.map(({ id }) => Number(id) - Number(seen.id)),
      [1, 2, 3, 4, 5, 6],
    );
    again.close();
    const filtered = await open('?tables=orders', { 'last-event-id': seen.id });
    assert.deepEqual(
      (await take(filtered, 3)).map((event) => parse(event).table),
      ['orders', 'orders', 'orders'],
    );
    filtered.close();
    const last = await open('', { 'last-event-id': events[5]?.id ?? '' });
    await expectNext(gateway, last, 'orders');
    last.close();
  });

  for (const id of ['0', '1', 'x', '-1', '1e3', '9007199254740991', '99999999999999999999', '%00']) {
    test(`a foreign Last-Event-ID gets one reset: ${id}`, async () => {
      const stream = await open('', { 'last-event-id': id });
      const { event, data } = await stream.next();
      assert.equal(event, 'reset');
      assert.equal(JSON.parse(data).app, 'live');
      await expectNext(gateway, stream, 'orders');
      stream.close();
    });
  }

  test('events that have left the ring get a reset', async () => {
    const stream = await open();
    const { id } = await expectNext(gateway, stream, 'orders');
    stream.close();
    const calls = Math.ceil((LIMITS.changeRing + 1) / WIDE.length);
    for (let i = 0; i < calls; i++) await gateway.write('live', 'wide');
    const late = await open('', { 'last-event-id': id });
    assert.equal((await late.next()).event, 'reset');
    await expectNext(gateway, late, 'orders');
    late.close();
  });

  test('a reader that falls behind gets one reset, and then further events', async () => {
    const slow = await connectTo(gateway, '/svc/live/_changes');
    slow.pause();
    let sent = 0;
    // More than the system takes for it, and done before the gateway would cut it off.
    const bytes = 12 * 1024 * 1024;
    for (; sent * WIDE.join('').length * 2 < bytes; sent++)
      assert.equal((await gateway.write('live', 'wide')).status, 200);
    const { counters, processes } = await gateway.system();
    assert.ok(counters.changeRingBytes < 16 * 1024 * 1024);
    assert.ok(processes[0].rss < 512 * 1024 * 1024);

    const received: string[] = [];
    let rest = '';
    slow.on('data', (chunk: Buffer) => {
      const blocks = (rest + chunk.toString()).split('\n\n');
      rest = blocks.pop() ?? '';
      received.push(...blocks.map((block) => /^event: (\w+)$/m.exec(block)?.[1] ?? '').filter(Boolean));
    });
    slow.resume();
    await eventually(() => received.includes('reset'));
    assert.equal(received.indexOf('reset'), received.length - 1, 'nothing follows the reset yet');
    assert.ok(received.length < sent * WIDE.length, 'the backlog was not sent');
    await gateway.write('live', 'orders');
    await eventually(() => received.at(-1) === 'change');
    assert.equal(received.filter((event) => event === 'reset').length, 1);
    slow.destroy();
  });

  test('abandoned streams are removed', async () => {
    const count = async () => (await gateway.system()).counters.subscribers as number;
    await eventually(async () => (await count()) === 0);
    const streams = await Promise.all(Array.from({ length: 10 }, () => open()));
    assert.equal(await count(), 10);
    for (const stream of streams) stream.close();
    await eventually(async () => (await count()) === 0);
  });

  test('HEAD has the headers and ends', async () => {
    const { status, head, body } = await sendRaw(gateway, rawRequest(gateway, 'HEAD', '/svc/live/_changes'));
    assert.deepEqual([status, body], [200, '']);
    assert.match(head, /content-type: text\/event-stream/i);
    assert.equal((await gateway.system()).counters.subscribers, 0);
  });

  for (const [what, path, status, code] of [
    ['an unknown app', '/svc/nobody/_changes', 404, 'UNKNOWN_APP'],
    ['an impossible id', '/svc/N%20o/_changes', 404, 'NOT_FOUND'],
    ['a query string that cannot be decoded', '/svc/live/_changes?tables=%zz', 400, 'BAD_REQUEST'],
  ] as const) {
    test(`${what}: ${status}`, async () => {
      const answer = await gateway.call('GET', path);
      assert.deepEqual([answer.status, answer.json.error.code], [status, code]);
    });
  }

  test('POST is refused', async () => assert.equal((await gateway.call('POST', '/svc/live/_changes')).status, 405));
  test('without a token it is refused', async () =>
    assert.equal((await gateway.call('GET', '/svc/live/_changes', { token: null })).status, 401));

  test('another app has separate events', async () => {
    await gateway.upload('other', appOf('other', { actions: { go: { run: '() => null', writes: ['items'] } } }));
    const [mine, theirs] = await Promise.all([open(), gateway.stream('/svc/other/_changes')]);
    await gateway.write('other', 'go');
    assert.equal(parse(await theirs.next()).app, 'other');
    await expectNext(gateway, mine, 'orders');
    mine.close();
    theirs.close();
  });

  test('an app without an active version has a stream already, which sees its first event', async () => {
    const source = appOf('later', { actions: { go: { run: '() => null', writes: ['t'] } } });
    const { versionId } = (await gateway.upload('later', source, '?activate=0')).json;
    const stream = await gateway.stream('/svc/later/_changes');
    await gateway.call('POST', '/svc/_apps/later/activate', { body: { versionId } });
    assert.equal((await stream.next()).event, 'reload');
    await gateway.write('later', 'go');
    assert.equal(parse(await stream.next()).table, 't');
    stream.close();
  });

  test('a new version leaves the streams open', async () => {
    const stream = await open();
    const { event, id } = await expectNext(gateway, stream, 'orders');
    await gateway.upload('live', { ...APP, 'index.html': 'new' });
    assert.equal((await stream.next()).event, 'reload', 'pages are told that there is another version');
    const next = await expectNext(gateway, stream, 'orders');
    assert.deepEqual([next.event, Number(next.id)], [event, Number(id) + 1]);
    stream.close();
  });

  test('a page that shows a version that is no longer live gets a reload when it reconnects', async () => {
    const { versionId } = (await gateway.call('GET', '/svc/_apps/live/settings')).json;
    const current = await open(`?version=${versionId}`);
    await expectNext(gateway, current, 'orders');
    current.close();
    await gateway.upload('live', { ...APP, 'index.html': 'newer' });
    const late = await open(`?version=${versionId}`);
    assert.equal((await late.next()).event, 'reload');
    await expectNext(gateway, late, 'orders');
    late.close();
  });

  test('the numbers grow over a restart, and subscribers from before it get a reset', async () => {
    const stream = await open();
    const { id } = await expectNext(gateway, stream, 'orders');
    assert.equal(await gateway.stop(), 0);
    await stream.ended();
    await gateway.start();
    const again = await open('', { 'last-event-id': id });
    assert.equal((await again.next()).event, 'reset');
    const next = await expectNext(gateway, again, 'orders');
    assert.ok(Number(next.id) > Number(id));
    again.close();
  });

  test('deleting the app ends its streams', async () => {
    const [gone, stays] = await Promise.all([open(), gateway.stream('/svc/other/_changes')]);
    await gateway.call('DELETE', '/svc/_apps/live');
    await gone.ended();
    assert.equal((await gateway.call('GET', '/svc/live/_changes')).status, 404);
    await gateway.write('other', 'go');
    assert.equal(parse(await stays.next()).app, 'other');
    stays.close();
  });
});

/** A socket that has asked for a stream and read its head. */
async function connectTo(gateway: TestGateway, path: string): Promise<Socket> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.write(rawRequest(gateway, 'GET', path));
  await once(socket, 'data');
  return socket;
}
