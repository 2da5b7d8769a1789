import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import type { RunEvent, RunNode, RunRecord } from '../../protocol/automations/runs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type EventClient, openEvents, send, serveExchanges } from '../../testing/exchange-server.ts';
import { ended, NOW, nodeOfRun, queuedRun, runIdAt, startLedger } from '../../testing/run-ledger.ts';
import { ADMIN } from '../http/access/callers.ts';
import { EMBEDDED } from '../http/access/places.ts';
import { answerError } from '../http/answers.ts';
import { EventReaders } from '../http/event-streams.ts';
import { Router } from '../http/router.ts';
import { runRoutes } from '../routes/automations/runs-routes.ts';
import { RunEvents } from './run-events.ts';

const OPENING = 'retry: 2000\n: events of runs';

async function setUp(t: TestContext, heartbeatMs?: number) {
  const { ledger, ...rest } = await startLedger(t);
  const readers = new EventReaders(heartbeatMs);
  const events = new RunEvents(ledger, readers);
  t.after(() => {
    readers.stop();
    events.closeAll();
  });
  const cancelled: string[] = [];
  const cancelRun = async (runId: string): Promise<RunRecord> => {
    cancelled.push(runId);
    return { ...((await ledger.get(runId)) as RunRecord), state: 'aborted' };
  };
  const router = new Router(runRoutes({ runs: ledger, runEvents: events, cancelRun }));
  const port = await serveExchanges(t, (exchange) => {
    const match = router.match(exchange.method === 'HEAD' ? 'GET' : exchange.method, exchange.path);
    const answered = (async () => {
      if ('error' in match) throw match.error;
      await match.route.handle(exchange, match.params, ADMIN, EMBEDDED);
    })();
    answered.catch((error: unknown) => answerError(exchange, error, pino({ enabled: false })));
  });
  const follow = async (path: string): Promise<EventClient> => {
    const client = await openEvents(port, `/svc/_runs/${path}`);
    t.after(() => client.close());
    assert.equal(client.status, 200);
    assert.equal(client.headers['content-type'], 'text/event-stream');
    assert.equal(await client.next(), OPENING);
    return client;
  };
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`http://127.0.0.1:${port}/svc/_runs${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as never };
  };
  return { ledger, events, readers, port, follow, ask, cancelled, ...rest };
}

const wire = (event: RunEvent | { type: 'missed'; events: number }): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}`;
const started = (run: RunRecord): RunRecord => ({ ...run, state: 'running', startedAt: run.queuedAt + 1 });
const logLine = (run: RunRecord, line: unknown): RunEvent => ({ type: 'log', runId: run.runId, line });
const startOf = ({ runId, ordinal, batchId, kind, name, args, startedAt }: RunNode): RunEvent => ({
  type: 'node.start',
  runId,
  ordinal,
  batchId,
  kind,
  name,
  args,
  startedAt,
});

async function expect(client: EventClient, ...events: Parameters<typeof wire>[0][]): Promise<void> {
  for (const event of events) assert.equal(await client.next(), wire(event));
}

test('a follower gets earlier events, then live ones, and its stream ends with the run', async (t) => {
  const { ledger, events, readers, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const early = await follow(`${run.runId}/events`);
  const node = nodeOfRun(run, 1, { kind: 'agent', name: 'agent' });
  const before: RunEvent[] = [
    { type: 'run.start', run: started(run) },
    startOf(node),
    { type: 'node.delta', runId: run.runId, ordinal: 1, delta: 'a\n\nb' },
  ];
  for (const event of before) events.publish(event);
  const late = await follow(`${run.runId}/events`);
  const end = ended(run);
  await ledger.insert(run);
  await ledger.end(end, 'all');
  const after: RunEvent[] = [{ type: 'node.end', node }, logLine(run, { msg: 'hi' }), { type: 'run.end', run: end }];
  for (const event of after) events.publish(event);
  for (const client of [early, late]) {
    await expect(client, ...before, ...after);
    assert.equal(await client.next(), undefined);
  }
  assert.deepEqual([events.live, readers.count], [0, 0]);
  events.publish(logLine(run, 'too late'));
  assert.equal(events.live, 0);
});

test('an ended run comes from the ledger, with all its nodes', async (t) => {
  const { ledger, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const output = 'x'.repeat(20_000);
  const nodes = Array.from({ length: 45 }, (_, i) => nodeOfRun(run, i + 1, { output }));
  for (const node of nodes) ledger.node('todos', node);
  const end = ended(run, { output: 7, summary: 'Seven.' });
  await ledger.end(end, 'all');
  const client = await follow(`${run.runId}/events`);
  await expect(client, { type: 'run.start', run: { ...started(run), output: null } });
  for (const node of nodes) await expect(client, startOf(node), { type: 'node.end', node });
  await expect(client, { type: 'run.end', run: end });
  assert.equal(await client.next(), undefined);
});

test('a history that cannot be read on ends the stream without the end of the run', async (t) => {
  const { ledger, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  await ledger.end(ended(run), 'all');
  t.mock.method(ledger, 'nodes', () => Promise.reject(new Error('The database is not available.')));
  const client = await follow(`${run.runId}/events`);
  await expect(client, { type: 'run.start', run: started(run) });
  assert.equal(await client.next(), undefined);
});

test('a run that is cancelled while it waits ends its followers, and one without followers is forgotten', async (t) => {
  const { ledger, events, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const first = await follow(`${run.runId}/events`);
  first.close();
  while (events.live > 0) await nextTurn();
  const second = await follow(`${run.runId}/events`);
  const aborted = ended(run, { state: 'aborted', startedAt: null });
  await ledger.end(aborted, 'all');
  events.publish({ type: 'run.end', run: aborted });
  await expect(second, { type: 'run.end', run: aborted });
  assert.equal(await second.next(), undefined);
});

test('a run that ends while its follower looks it up is sent completely', async (t) => {
  const { ledger, events, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const get = ledger.get.bind(ledger);
  const end = ended(run);
  let looks = 0;
  t.mock.method(ledger, 'get', async (runId: string) => {
    const found = await get(runId);
    if (++looks > 1) return found;
    events.publish({ type: 'run.start', run: started(run) });
    await ledger.end(end, 'all');
    events.publish({ type: 'run.end', run: end });
    return found;
  });
  const client = await follow(`${run.runId}/events`);
  await expect(client, { type: 'run.start', run: started(run) }, { type: 'run.end', run: end });
  assert.equal(await client.next(), undefined);
  assert.equal(events.live, 0);
});

test('a run of many events keeps the latest, and says how many are gone', async (t) => {
  const { ledger, events, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const start: RunEvent = { type: 'run.start', run: started(run) };
  events.publish(start);
  for (let i = 0; i < LIMITS.runEvents + 5; i++) events.publish(logLine(run, i));
  const client = await follow(`${run.runId}/events`);
  await expect(client, start, { type: 'missed', events: 5 });
  for (let i = 5; i < LIMITS.runEvents + 5; i++) await expect(client, logLine(run, i));

  const line = 'x'.repeat(LIMITS.runEventsBytes / 4);
  for (let i = 0; i < 8; i++) events.publish(logLine(run, line));
  const next = await follow(`${run.runId}/events`);
  await expect(next, start, { type: 'missed', events: LIMITS.runEvents + 5 + 8 - 3 });
  for (let i = 0; i < 3; i++) await expect(next, logLine(run, line));
});

test('a follower that does not read holds little, learns what it missed, and gets the end', async (t) => {
  const { ledger, events, follow } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const start: RunEvent = { type: 'run.start', run: started(run) };
  events.publish(start);
  const slow = await follow(`${run.runId}/events`);
  await expect(slow, start);
  slow.pause();
  const line = 'x'.repeat(64 * 1024);
  const count = 600;
  for (let i = 0; i < count; i++) {
    events.publish(logLine(run, line));
    if (i % 4 === 0) await nextTurn();
  }
  const end = ended(run);
  events.publish({ type: 'run.end', run: end });
  slow.resume();
  let lines = 0;
  let missed = 0;
  let block = await slow.next();
  // More than one "missed": the buffers of the connection may grow meanwhile.
  for (; block !== undefined && !block.startsWith('event: run.end'); block = await slow.next()) {
    const [, told] = /^event: missed\ndata: \{"type":"missed","events":(\d+)\}$/.exec(block) ?? [];
    if (told === undefined) lines += Number(block.startsWith('event: log'));
    else missed += Number(told);
  }
  assert.ok(lines < count / 2, `${lines} of ${count} waited for it`);
  assert.equal(lines + missed, count);
  assert.equal(block, wire({ type: 'run.end', run: end }));
  assert.equal(await slow.next(), undefined);
});

test('all runs are followed live, filtered by app or automation; a comment keeps the stream open', async (t) => {
  const { events, follow, readers } = await setUp(t, 5);
  const clients = await Promise.all(['_events', '_events?app=notes', '_events?ref=todos/digest'].map(follow));
  const todos = queuedRun();
  const notes = queuedRun({ app: 'notes' });
  const skipped = ended(queuedRun({ app: 'notes', state: 'skipped' }), { state: 'skipped' });
  const told: [RunEvent, RunRecord][] = [
    [{ type: 'run.start', run: todos }, todos],
    [{ type: 'run.start', run: notes }, notes],
    [logLine(notes, 1), notes],
    [{ type: 'run.end', run: skipped }, skipped],
    [{ type: 'run.end', run: todos }, todos],
  ];
  for (const [event] of told) events.publish(event);
  const filters = [() => true, (run: RunRecord) => run.app === 'notes', (run: RunRecord) => run === todos];
  for (const [i, client] of clients.entries()) {
    for (const [event] of told.filter(([, run]) => filters[i]?.(run))) {
      let block = await client.next();
      while (block === ':') block = await client.next();
      assert.equal(block, wire(event));
    }
    assert.equal(await client.next(), ':');
    client.close();
  }
  while (readers.count > 0) await nextTurn();
});

test('lists take a query, and the error for a wrong one names the fault', async (t) => {
  const { ledger, ask } = await setUp(t);
  const runs = [0, 1, 2].map((i) => queuedRun({ queuedAt: NOW + i, app: i === 1 ? 'notes' : 'todos' }));
  for (const run of runs) {
    await ledger.insert(run);
    await ledger.end(ended(run), 'all');
  }
  const [first, second, third] = await Promise.all(runs.map((run) => ledger.get(run.runId)));
  assert.deepEqual(await ask('GET', ''), { status: 200, body: [third, second, first] });
  assert.deepEqual((await ask('GET', '?limit=1')).body, [third]);
  assert.deepEqual((await ask('GET', `?before=${third?.runId}&app=todos&ref=todos/digest&state=ok`)).body, [first]);
  assert.deepEqual((await ask('GET', '?state=error')).body, []);
  for (const [query, path] of [
    ['state=done', 'state'],
    ['ref=todos', 'ref'],
    ['ref=todos/a/b', 'ref'],
    ['app=_x', 'app'],
    ['before=1', 'before'],
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
  ]) {
    const { status, body } = await ask('GET', `?${query}`);
    const { code, path: named } = (body as { error: { code: string; path: string } }).error;
    assert.deepEqual([status, code, named], [400, 'BAD_REQUEST', path], query);
  }
  assert.equal((await ask('GET', '/_events?app=_x')).status, 400);
});

test('one run: its record, nodes, pin and cancel; a missing one is UNKNOWN_RUN', async (t) => {
  const { ledger, ask, port, cancelled } = await setUp(t);
  const run = queuedRun();
  await ledger.insert(run);
  const nodes = [nodeOfRun(run, 1), nodeOfRun(run, 2)];
  for (const node of nodes) ledger.node('todos', node);
  assert.deepEqual((await ask('GET', `/${run.runId}`)).body, run);
  assert.deepEqual((await ask('GET', `/${run.runId}/nodes`)).body, nodes);
  assert.deepEqual((await ask('GET', `/${run.runId}/nodes?after=1`)).body, nodes.slice(1));
  assert.deepEqual((await ask('GET', `/${run.runId}/nodes?limit=1`)).body, nodes.slice(0, 1));
  assert.deepEqual((await ask('POST', `/${run.runId}/pin`, { pinned: true })).body, { ...run, pinned: true });
  assert.deepEqual((await ask('POST', `/${run.runId}/pin`, { pinned: false })).body, run);
  assert.equal((await ask('POST', `/${run.runId}/pin`, { pinned: 1 })).status, 400);
  assert.deepEqual((await ask('POST', `/${run.runId}/cancel`)).body, { ...run, state: 'aborted' });
  const end = ended(run);
  await ledger.end(end, 'all');
  assert.deepEqual((await ask('POST', `/${run.runId}/cancel`)).body, end);
  assert.deepEqual(cancelled, [run.runId]);

  for (const id of [runIdAt(NOW), 'nonsense', '%2f']) {
    for (const [method, path, body] of [
      ['GET', ''],
      ['GET', '/nodes'],
      ['GET', '/events'],
      ['POST', '/pin', { pinned: true }],
      ['POST', '/cancel', {}],
    ] as const) {
      const answer = await ask(method, `/${id}${path}`, body);
      const { code } = (answer.body as { error: { code: string } }).error;
      assert.deepEqual([answer.status, code], [404, 'UNKNOWN_RUN'], `${method} ${path}`);
    }
    assert.equal((await send(port, 'HEAD', `/svc/_runs/${id}/events`)).status, 404);
  }
  for (const path of ['', `/${run.runId}`, `/${run.runId}/nodes`, `/${run.runId}/events`, '/_events']) {
    const answer = await send(port, 'HEAD', `/svc/_runs${path}`);
    assert.deepEqual([answer.status, answer.body.length], [200, 0], path);
  }
});
