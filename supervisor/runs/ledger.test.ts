import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RUN_STATES } from '../../protocol/automations/run-states.ts';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { SqlParams, SqlStatement } from '../../protocol/wire/frames.ts';
import { claimMessage, listRuns, type RunFilter } from '../../storage/automations/run-rows.ts';
import { ended, NOW, nodeOfRun, queuedRun, runIdAt, startLedger } from '../../testing/run-ledger.ts';
import type { RunLedger } from './ledger.ts';
import { DROP_OLD, DROP_OLDEST } from './retention.ts';

const ids = (runs: RunRecord[]): string[] => runs.map((run) => run.runId);
const DIGEST = { app: 'todos', id: 'digest' };

async function endedRun(
  ledger: RunLedger,
  changes: Partial<RunRecord> = {},
  keep: Parameters<RunLedger['end']>[1] = 'all',
) {
  const run = queuedRun(changes);
  await ledger.insert({ ...run, state: 'queued', endedAt: null, startedAt: null });
  const end = ended(run, changes);
  await ledger.end(end, keep);
  return end;
}

const claim = ({ slug, webhookId }: { slug: string; webhookId: string }, runId: string, now = NOW) =>
  claimMessage(slug, webhookId, runId, now, 2 * LIMITS.webhookToleranceMs);

test('a run is stored before it starts, goes through its states, and ends once', async (t) => {
  const { ledger, warnings } = await startLedger(t);
  const run = queuedRun({
    trigger: { kind: 'failure', origin: 'x' },
    parentRunId: 'parent',
    input: { a: [1] },
  });
  await ledger.insert(run);
  assert.deepEqual(await ledger.get(run.runId), run);

  ledger.started(run, NOW + 5);
  assert.deepEqual(await ledger.get(run.runId), { ...run, state: 'running', startedAt: NOW + 5 });

  const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 3, cacheWriteTokens: 4, costUsd: 0.25 };
  const node = nodeOfRun(run, 1, { kind: 'agent', name: 'agent', usage });
  const failed = nodeOfRun(run, 2, { ok: false, output: null, error: { code: 'TOOL_REFUSED', message: 'No.' } });
  ledger.node('todos', node);
  ledger.node('todos', failed);
  const end = ended(run, { startedAt: NOW + 5, output: { n: 2 }, summary: 'Done.', usage });
  await ledger.end(end, 'all');
  assert.deepEqual(await ledger.get(run.runId), end);
  assert.deepEqual(await ledger.nodes(run), [node, failed]);
  assert.deepEqual(await ledger.nodes(run, { after: 1, limit: 1 }), [failed]);

  await ledger.end({ ...end, state: 'aborted', summary: 'Not this.' }, 'all');
  ledger.started(run, NOW + 9);
  assert.deepEqual(await ledger.get(run.runId), end);
  assert.equal(await ledger.get('nothing'), null);
  assert.deepEqual(warnings, []);
});

test('the end of a run and what is stored with it are one commit, and can be tried again', async (t) => {
  const { ledger } = await startLedger(t);
  const run = queuedRun();
  await ledger.insert(run);
  const extra = [ledger.cronFire(DIGEST, NOW)];
  const bad: SqlStatement = ['INSERT INTO nowhere VALUES (1)', []];
  await assert.rejects(ledger.end(ended(run), { count: 5 }, { extra: [...extra, bad] }));
  assert.deepEqual([(await ledger.get(run.runId))?.state, await ledger.cronFired(DIGEST)], ['queued', null]);
  await ledger.end(ended(run), { count: 5 }, { extra });
  assert.deepEqual([(await ledger.get(run.runId))?.state, await ledger.cronFired(DIGEST)], ['ok', NOW]);
});

test('a skipped run is stored as it ended', async (t) => {
  const { ledger } = await startLedger(t);
  const run = queuedRun({
    state: 'skipped',
    trigger: { kind: 'cron', origin: Date.parse('2023-11-14T22:13:20.000Z') },
  });
  await ledger.skip(run, 'all', [ledger.cronFire(DIGEST, NOW)]);
  assert.deepEqual(await ledger.get(run.runId), { ...run, endedAt: NOW });
  assert.equal(await ledger.cronFired(DIGEST), NOW);
});

test('last cron fires are found by their ref, those ahead of the clock up to what it may be wrong, and a plainly wrong one does not stay', async (t) => {
  const { ledger } = await startLedger(t);
  const fired = (id: string, at: number) => ledger.noteCronFired({ app: 'todos', id }, at);
  await fired('past', NOW);
  await fired('ahead', NOW + 1);
  await fired('day', NOW + LIMITS.cronBackMs);
  await fired('wrong', NOW + LIMITS.cronBackMs + 1);
  assert.deepEqual([...(await ledger.lastCronFires(NOW))].sort(), [
    ['todos/ahead', NOW + 1],
    ['todos/day', NOW + LIMITS.cronBackMs],
    ['todos/past', NOW],
  ]);
  await fired('ahead', NOW);
  await fired('wrong', NOW);
  assert.equal(await ledger.cronFired({ app: 'todos', id: 'ahead' }), NOW + 1);
  assert.equal(await ledger.cronFired({ app: 'todos', id: 'wrong' }), NOW);
});

test('values over 64 KiB are cut with a marker, and cut shorter in lists', async (t) => {
  const { ledger, runtime } = await startLedger(t);
  const fits = 'x'.repeat(LIMITS.runValueBytes - 2);
  const long = { text: '"ä\\\u{1F600}'.repeat(30_000) };
  const run = await endedRun(ledger, { input: fits, output: long });
  const stored = await ledger.get(run.runId);
  assert.equal(stored?.input, fits);
  const { cut, bytes, head } = (stored as RunRecord).output as { cut: boolean; bytes: number; head: string };
  const whole = JSON.stringify(long);
  assert.deepEqual([cut, bytes], [true, Buffer.byteLength(whole)]);
  assert.ok(whole.startsWith(head) && head.length > 10_000, `a head of ${head.length}`);
  const row = await runtime.get('SELECT octet_length(output) AS bytes FROM runs');
  assert.ok(Number(row?.bytes) <= LIMITS.runValueBytes, `${row?.bytes} bytes are stored`);

  const [listed] = await ledger.list();
  const [input, output] = [listed?.input, listed?.output] as { cut: boolean; bytes: number; head: string }[];
  assert.deepEqual([input?.cut, input?.bytes], [true, LIMITS.runValueBytes]);
  assert.ok(JSON.stringify(fits).startsWith(input?.head ?? '?'), 'the beginning of what is stored');
  assert.deepEqual([output?.cut, output?.bytes], [true, bytes]);
  assert.ok(output?.head !== '' && whole.startsWith(output?.head ?? '?'), `the beginning of it all: ${output?.head}`);
  assert.ok(JSON.stringify(listed).length < 8000, 'a short record');
});

test('the nodes of one run are bounded together', async (t) => {
  const { ledger, warnings } = await startLedger(t);
  const run = queuedRun();
  await ledger.insert(run);
  const output = 'x'.repeat(LIMITS.runValueBytes);
  const whole = Math.ceil(LIMITS.runNodesBytes / (LIMITS.runValueBytes / 2)) + 1;
  for (let ordinal = 1; ordinal <= whole + 50; ordinal++) ledger.node('todos', nodeOfRun(run, ordinal, { output }));
  await ledger.settled();
  const nodes = await ledger.nodes(run);
  const bytes = JSON.stringify(nodes).length;
  assert.equal(nodes.length, whole + 50);
  assert.ok(bytes < LIMITS.runNodesBytes + 4 * LIMITS.runValueBytes, `${bytes} bytes`);
  assert.deepEqual(warnings, []);
});

test('keep a count: the newest that ended, beside waiting, running and pinned ones', async (t) => {
  const { ledger, again } = await startLedger(t);
  const keep = { count: 3 };
  const other = await endedRun(ledger, { automation: 'other' }, keep);
  const pinned = await endedRun(ledger, { queuedAt: NOW + 1 }, keep);
  await ledger.pin(pinned.runId, true);
  const waiting = queuedRun({ queuedAt: NOW + 2 });
  await ledger.insert(waiting);
  const runs: RunRecord[] = [];
  for (let i = 0; i < 6; i++) runs.push(await endedRun(ledger, { queuedAt: NOW + 10 + i }, keep));
  const left = async (of = ledger) => ids(await of.list({ ref: DIGEST })).reverse();
  assert.deepEqual(await left(), ids([pinned, waiting, ...runs.slice(3)]));
  assert.deepEqual(ids(await ledger.list({ ref: { app: 'todos', id: 'other' } })), [other.runId]);

  // Pinned before its end, it does not count either; and a ledger that has just been opened counts the same.
  await ledger.pin(waiting.runId, true);
  await ledger.end(ended(waiting), keep);
  assert.deepEqual(await left(), ids([pinned, waiting, ...runs.slice(3)]));
  const next = again();
  await next.open();
  const last = await endedRun(next, { queuedAt: NOW + 20 }, keep);
  assert.deepEqual(await left(next), ids([pinned, waiting, ...runs.slice(4), last]));

  // A pin that is taken back, and a count that was made smaller, are caught up with at the next end.
  await next.pin(pinned.runId, false);
  const newest = await endedRun(next, { queuedAt: NOW + 21 }, { count: 2 });
  assert.deepEqual(await left(next), ids([waiting, last, newest]));
});

test('ends of one automation that come together keep the count exactly', async (t) => {
  const { ledger } = await startLedger(t);
  const runs = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const run = queuedRun({ queuedAt: NOW + i });
      await ledger.insert(run);
      return run;
    }),
  );
  await Promise.all(runs.map((run) => ledger.end(ended(run), { count: 7 })));
  assert.deepEqual(ids(await ledger.list()).reverse(), ids(runs.slice(-7)));
});

test('keep days: runs that ended before are removed, with their nodes', async (t) => {
  const { ledger, clock, runtime } = await startLedger(t);
  const keep = { days: 2 };
  const old = await endedRun(ledger, {}, keep);
  const pinned = await endedRun(ledger, {}, keep);
  await ledger.pin(pinned.runId, true);
  const long = queuedRun();
  await ledger.insert(long);
  ledger.node('todos', nodeOfRun(old, 1));
  ledger.node('todos', nodeOfRun(pinned, 1));
  clock.now = NOW + 2 * LIMITS.dayMs + 2;
  const young = await endedRun(ledger, { queuedAt: clock.now - LIMITS.dayMs }, keep);
  assert.deepEqual(ids(await ledger.list()).reverse(), ids([old, pinned, long, young]));
  clock.now += 1;
  await ledger.end(ended(long, { endedAt: clock.now }), keep);
  assert.deepEqual(ids(await ledger.list()).reverse(), ids([pinned, long, young]));
  assert.deepEqual(await runtime.all('SELECT run_id FROM run_nodes'), [{ run_id: pinned.runId }]);
});

test('keep errors: only failed, aborted, interrupted and pinned runs stay', async (t) => {
  const { ledger, runtime } = await startLedger(t);
  const pinned = queuedRun({ queuedAt: NOW - 1 });
  await ledger.insert(pinned);
  await ledger.pin(pinned.runId, true);
  await ledger.end(ended(pinned), 'errors');
  const states = ['ok', 'error', 'aborted', 'interrupted', 'skipped'] as const;
  for (const state of states) {
    const run = queuedRun({ state });
    if (state === 'skipped') {
      await ledger.skip(run, 'errors');
      continue;
    }
    await ledger.insert({ ...run, state: 'queued' });
    ledger.node('todos', nodeOfRun(run, 1));
    await ledger.end(ended(run, { state }), 'errors');
  }
  assert.deepEqual(
    (await ledger.list()).map((run) => run.state),
    ['interrupted', 'aborted', 'error', 'ok'],
  );
  assert.equal((await runtime.all('SELECT 1 FROM run_nodes')).length, 3);
});

test('keep all: no run is removed', async (t) => {
  const { ledger } = await startLedger(t);
  for (let i = 0; i < 20; i++) await endedRun(ledger);
  assert.equal((await ledger.list()).length, 20);
});

test('unfinished runs of an earlier gateway become interrupted, once, and their webhook messages may come again', async (t) => {
  const { ledger, runtime, analytics, clock, again } = await startLedger(t);
  const done = await endedRun(ledger);
  const running = queuedRun({ trigger: { kind: 'webhook', origin: 'slug' } });
  const waiting = queuedRun();
  const message = { slug: 'slug', webhookId: 'msg_1' };
  await ledger.insert(running, claim(message, running.runId));
  await ledger.insert(waiting);
  ledger.started(running, NOW + 1);
  ledger.node('todos', nodeOfRun(running, 1));
  await ledger.settled();
  // The crash came before these were written.
  await analytics.run('DELETE FROM run_summaries');

  clock.now = NOW + 1000;
  const next = again();
  await next.open();
  for (const { runId } of [running, waiting]) {
    const run = await next.get(runId);
    assert.deepEqual([run?.state, run?.endedAt, run?.error?.code], ['interrupted', NOW + 1000, 'RUN_ABORTED']);
  }
  assert.deepEqual(await next.get(done.runId), done);
  assert.deepEqual(await analytics.all('SELECT run_id, state, nodes, ended_at FROM run_summaries ORDER BY run_id'), [
    { run_id: done.runId, state: 'ok', nodes: 0, ended_at: done.endedAt },
    { run_id: running.runId, state: 'interrupted', nodes: 1, ended_at: NOW + 1000 },
    { run_id: waiting.runId, state: 'interrupted', nodes: 0, ended_at: NOW + 1000 },
  ]);
  assert.deepEqual(await runtime.all('SELECT * FROM webhook_ids'), []);

  clock.now = NOW + 2000;
  await again().open();
  assert.equal((await next.get(running.runId))?.endedAt, NOW + 1000);
  assert.equal((await analytics.all('SELECT 1 FROM run_summaries')).length, 3);
});

test('one summary for each run, with its nodes and tokens; it stays when the run goes', async (t) => {
  const { ledger, analytics } = await startLedger(t);
  const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 3, cacheWriteTokens: 4, costUsd: 0.5 };
  const run = queuedRun();
  await ledger.insert(run);
  ledger.node('todos', nodeOfRun(run, 1));
  ledger.node('todos', nodeOfRun(run, 2));
  await ledger.end(ended(run, { usage }), 'errors', { model: 'some/model' });
  await ledger.end(ended(run, { state: 'aborted' }), 'errors');
  await ledger.settled();
  assert.deepEqual(await analytics.all('SELECT * FROM run_summaries'), [
    {
      run_id: run.runId,
      app_id: 'todos',
      automation_id: 'digest',
      trigger_kind: 'manual',
      state: 'ok',
      model: 'some/model',
      started_at: NOW + 1,
      ended_at: NOW + 2,
      nodes: 2,
      input_tokens: 1,
      output_tokens: 2,
      cache_read_tokens: 3,
      cache_write_tokens: 4,
      cost_usd: 0.5,
    },
  ]);
  assert.equal(await ledger.get(run.runId), null);
});

test('the summary of a run whose end is stored at the second try has its nodes', async (t) => {
  const { ledger, runtime, analytics } = await startLedger(t);
  const run = queuedRun();
  await ledger.insert(run);
  ledger.node('todos', nodeOfRun(run, 1));
  await ledger.settled();
  await runtime.exec(
    "CREATE TRIGGER full BEFORE UPDATE OF ended_at ON runs BEGIN SELECT raise(ABORT, 'the disk is full'); END",
  );
  await assert.rejects(ledger.end(ended(run), 'all'), /the disk is full/);
  await runtime.exec('DROP TRIGGER full');
  await ledger.end(ended(run), 'all');
  await ledger.settled();
  assert.deepEqual(await analytics.all('SELECT nodes FROM run_summaries'), [{ nodes: 1 }]);
});

test('a writer that is killed again and again loses and repeats nothing', async (t) => {
  const { writer, ledger, runtime, analytics, warnings } = await startLedger(t);
  const keep = { count: 20 };
  const runs = Array.from({ length: 60 }, (_, i) => queuedRun({ queuedAt: NOW + i }));
  let kills = 0;
  for (const [i, run] of runs.entries()) {
    const stored = ledger.insert(run, [
      ledger.cronFire(DIGEST, run.queuedAt),
      ...claim({ slug: 's', webhookId: `${i}` }, run.runId),
    ]);
    const killed = i % 20 === 7 ? writer.replace() : null;
    await stored;
    ledger.started(run, NOW);
    ledger.node('todos', nodeOfRun(run, 1));
    ledger.node('todos', nodeOfRun(run, 2));
    const killedAgain = i % 20 === 17 ? (killed?.then(() => writer.replace()) ?? writer.replace()) : null;
    await Promise.all([killed, killedAgain, ledger.end(ended(run), keep)]);
    if (killed || killedAgain) kills += 1;
  }
  await ledger.settled();
  assert.equal(kills, 6);
  assert.deepEqual(warnings, []);
  assert.deepEqual(ids(await ledger.list()).reverse(), ids(runs.slice(-20)));
  assert.equal((await runtime.all('SELECT 1 FROM run_nodes')).length, 40);
  assert.equal((await runtime.all('SELECT 1 FROM webhook_ids')).length, 60);
  assert.equal((await analytics.all('SELECT 1 FROM run_summaries WHERE nodes = 2')).length, 60);
  assert.equal(await ledger.cronFired(DIGEST), NOW + 59);
});

test('batches that run twice claim nothing twice and drop no more than once', async (t) => {
  const { ledger, runtime } = await startLedger(t);
  const keep = { count: 4 };
  for (let i = 0; i < 5; i++) await endedRun(ledger, { queuedAt: NOW + i }, keep);
  // The answer to a batch that was committed is lost, so that it is sent again.
  const batch = runtime.batch.bind(runtime);
  t.mock.method(runtime, 'batch', async (statements: Parameters<typeof batch>[0]) => {
    await batch(statements);
    return batch(statements);
  });
  const run = queuedRun({ queuedAt: NOW + 10 });
  await ledger.insert(run, claim({ slug: 's', webhookId: 'msg' }, run.runId));
  await ledger.end(ended(run), keep);
  assert.equal((await ledger.list()).length, 4);
  await ledger.skip(queuedRun({ queuedAt: NOW + 11, state: 'skipped' }), keep);
  assert.equal((await ledger.list()).length, 4);
});

test('a webhook message is taken once, with its run or not at all', async (t) => {
  const { ledger, runtime, clock } = await startLedger(t);
  const message = { slug: 'a', webhookId: 'msg' };
  const webhook = (): RunRecord => queuedRun({ trigger: { kind: 'webhook', origin: 'a' } });
  const take = async (of = message): Promise<RunRecord> => {
    const run = webhook();
    await ledger.insert(run, claim(of, run.runId, clock.now));
    return run;
  };
  const first = await take();
  const replay = webhook();
  await assert.rejects(ledger.insert(replay, claim(message, replay.runId)), {
    code: 'CONFLICT',
    status: 409,
  });
  assert.equal(await ledger.get(replay.runId), null);
  await take({ slug: 'b', webhookId: 'msg' });
  const both = await Promise.allSettled([take({ slug: 'c', webhookId: 'msg' }), take({ slug: 'c', webhookId: 'msg' })]);
  assert.deepEqual(both.map((one) => one.status).sort(), ['fulfilled', 'rejected']);

  // A failed run lets its message go, one that did what it should does not.
  await ledger.end(ended(first, { state: 'error', error: { code: 'HANDLER_ERROR', message: 'No.' } }), 'errors');
  const second = await take();
  await ledger.end(ended(second), 'errors');
  await assert.rejects(take(), { code: 'CONFLICT' });

  // Nor does one that was cancelled have done it: its sender may send the message again.
  const of = { slug: 'd', webhookId: 'msg' };
  await ledger.end(ended(await take(of), { state: 'aborted' }), 'errors');
  await ledger.end(ended(await take(of)), 'errors');
  await assert.rejects(take(of), { code: 'CONFLICT' });

  // Nor has one that refused it.
  const refused = { slug: 'e', webhookId: 'msg' };
  await ledger.end(ended(await take(refused)), 'errors', { status: 400 });
  await ledger.end(ended(await take(refused)), 'errors', { status: 399 });
  await assert.rejects(take(refused), { code: 'CONFLICT' });

  clock.now += 2 * LIMITS.webhookToleranceMs;
  await assert.rejects(take(), { code: 'CONFLICT' });
  clock.now += 1;
  await take();
  assert.equal((await runtime.all('SELECT 1 FROM webhook_ids')).length, 1);
});

test('an insert that the database refuses for another reason is not called a conflict', async (t) => {
  const { ledger } = await startLedger(t);
  await assert.rejects(ledger.insert(queuedRun(), [['INSERT INTO cron_fired VALUES (NULL, NULL, NULL)', []]]), {
    code: 'SQLITE_CONSTRAINT_NOTNULL',
  });
  assert.deepEqual(await ledger.list(), []);
});

test('lists are filtered and paged, the newest first', async (t) => {
  const { ledger } = await startLedger(t);
  const runs: RunRecord[] = [];
  const states = ['ok', 'error', 'ok'] as const;
  for (let i = 0; i < 24; i++) {
    const app = i % 2 === 0 ? 'todos' : 'notes';
    const automation = i % 4 < 2 ? 'digest' : 'other';
    runs.unshift(await endedRun(ledger, { app, automation, state: states[i % 3] as 'ok', queuedAt: NOW + i }));
  }
  const waiting = queuedRun({ queuedAt: NOW + 100 });
  await ledger.insert(waiting);
  runs.unshift(waiting);
  const cases: [RunFilter, (run: RunRecord) => boolean][] = [
    [{}, () => true],
    [{ app: 'todos' }, (run) => run.app === 'todos'],
    [{ ref: DIGEST }, (run) => run.ref === 'todos/digest'],
    [{ ref: DIGEST, app: 'notes' }, () => false],
    [{ state: 'error' }, (run) => run.state === 'error'],
    [{ state: 'queued' }, (run) => run === waiting],
    [{ app: 'notes', state: 'error' }, (run) => run.app === 'notes' && run.state === 'error'],
    [{ ref: DIGEST, state: 'ok' }, (run) => run.ref === 'todos/digest' && run.state === 'ok'],
  ];
  for (const [filter, fits] of cases) {
    const wanted = ids(runs.filter(fits));
    assert.deepEqual(ids(await ledger.list(filter)), wanted);
    const paged: string[] = [];
    for (;;) {
      const before = paged.at(-1);
      const page = await ledger.list({ ...filter, ...(before === undefined ? {} : { before }) }, 2);
      paged.push(...ids(page));
      if (page.length < 2) break;
    }
    assert.deepEqual(paged, wanted);
  }
  const last = await ledger.lastRuns([DIGEST, { app: 'notes', id: 'other' }, { app: 'notes', id: 'none' }]);
  assert.deepEqual([...last.keys()].sort(), ['notes/other', 'todos/digest']);
  assert.equal(last.get('todos/digest')?.runId, waiting.runId);
});

test('the failing runs are the failed ones of automations that have not succeeded since', async (t) => {
  const { ledger } = await startLedger(t);
  let at = NOW;
  const run = (automation: string, state: string, app = 'todos') =>
    endedRun(ledger, { app, automation, state: state as 'ok', queuedAt: ++at });
  await run('old', 'error');
  const from = runIdAt(++at);
  await run('mended', 'error');
  for (const automation of ['broken', 'mended']) await run(automation, 'ok');
  const expected = [
    await run('broken', 'error'),
    await run('broken', 'error'),
    await run('mended', 'error', 'notes'),
    await run('once', 'error'),
  ];
  for (const state of ['skipped', 'aborted', 'interrupted']) await run('broken', state);
  await ledger.insert(queuedRun({ app: 'todos', automation: 'broken', queuedAt: ++at }));
  const newest = ids(expected).reverse();
  assert.deepEqual(ids(await ledger.list({ failingFrom: from })), newest);
  assert.deepEqual(ids(await ledger.list({ failingFrom: from }, 2)), newest.slice(0, 2));
  assert.deepEqual(ids(await ledger.list({ failingFrom: from, app: 'notes' })), [newest[1]]);
  await run('broken', 'ok');
  assert.deepEqual(ids(await ledger.list({ failingFrom: from })), newest.slice(0, 2));
});

test('of 100,000 runs every page comes from an index', async (t) => {
  const { ledger, runtime } = await startLedger(t);
  await fill(runtime, 100_000);
  const before = runIdAt(NOW + 50_000);
  const filters: RunFilter[] = [{}, { app: 'app3' }, { ref: { app: 'app3', id: 'a1' } }];
  const all = filters.flatMap((filter) => [filter, ...RUN_STATES.map((state) => ({ ...filter, state }))]);
  for (const filter of all.flatMap((one) => [one, { ...one, before }])) {
    const [sql, params] = listRuns(filter, 50);
    const plan = await planOf(runtime, sql, params);
    // The few that have not ended have an index of their own, and without a filter there is nothing to search for.
    const scans =
      /^SCAN runs USING INDEX runs_open$/.test(plan[0] ?? '') ||
      ['{}', '{"state":"ok"}'].includes(JSON.stringify(filter));
    assert.ok(
      plan.length === 1 && (scans ? /^SCAN runs USING INDEX/ : /^SEARCH runs USING INDEX/).test(plan[0] ?? ''),
      `${JSON.stringify(filter)}: ${plan.join('; ')}`,
    );
    const started = performance.now();
    await ledger.list(filter);
    t.diagnostic(`${JSON.stringify(filter)}: ${(performance.now() - started).toFixed(1)} ms (${plan[0]})`);
  }
  const [failing, given] = listRuns({ failingFrom: before }, 50);
  const steps = await planOf(runtime, failing, given);
  assert.match(steps[0] ?? '', /^SEARCH runs USING INDEX runs_not_ok \(state=\? AND run_id>\?\)/);
  assert.ok(
    steps.some((step) => /SEARCH later USING INDEX runs_by_automation .*run_id>/.test(step)),
    steps.join('; '),
  );
  for (const [sql, params] of [
    [DROP_OLDEST, ['app3', 'a1', 1, before]],
    [DROP_OLD, ['app3', 'a1', before, NOW, 1]],
  ] as const) {
    const plan = await planOf(runtime, sql, [...params]);
    assert.ok(!plan.some((step) => /^SCAN runs|TEMP B-TREE/.test(step)), plan.join('; '));
  }
  const started = performance.now();
  await ledger.lastRuns(Array.from({ length: 100 }, (_, i) => ({ app: `app${i % 10}`, id: `a${i % 7}` })));
  await endedRun(ledger, { app: 'app3', automation: 'a1', queuedAt: NOW + 200_000 }, { count: 1000 });
  t.diagnostic(`last runs and an end: ${(performance.now() - started).toFixed(1)} ms`);
  // What a smaller count makes superfluous goes in steps.
  const left = (await runtime.get("SELECT count(*) AS n FROM runs WHERE app_id = 'app3' AND automation_id = 'a1'"))?.n;
  assert.ok(Number(left) > 1000 - LIMITS.runsDropped, `${left} are left`);
});

test('a ledger of an earlier version changes its indexes, lists as before, and then knows who caused a run', async (t) => {
  const { ledger, runtime, again } = await startLedger(t);
  const indexes = async () =>
    (await runtime.all("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name")).map(
      ({ name }) => name,
    );
  const now = await indexes();
  const failed = await endedRun(ledger, { state: 'error' }, 'all');
  const good = await endedRun(ledger, {}, 'all');
  await runtime.exec(`ALTER TABLE runs DROP COLUMN person; DROP INDEX runs_not_ok; DROP INDEX runs_not_ok_by_app; DROP INDEX runs_not_ok_by_automation;
    CREATE INDEX runs_by_state ON runs (state, run_id) WHERE ended_at IS NOT NULL;
    CREATE INDEX runs_by_app_state ON runs (app_id, state, run_id) WHERE ended_at IS NOT NULL;
    CREATE INDEX runs_by_automation_state ON runs (app_id, automation_id, state, run_id) WHERE ended_at IS NOT NULL`);
  const reopened = again();
  await reopened.open();
  assert.deepEqual(await indexes(), now);
  for (const [state, run] of [
    ['error', failed],
    ['ok', good],
  ] as const) {
    for (const filter of [{}, { app: DIGEST.app }, { ref: DIGEST }]) {
      assert.deepEqual(ids(await reopened.list({ ...filter, state })), [run.runId]);
    }
  }
  const by = { id: 'p_1', name: 'Ada' };
  const caused = await endedRun(reopened, { by }, 'all');
  assert.deepEqual([(await reopened.get(caused.runId))?.by, (await reopened.get(good.runId))?.by], [by, undefined]);
});

async function planOf(runtime: DbClient, sql: string, params: SqlParams): Promise<string[]> {
  return (await runtime.all(`EXPLAIN QUERY PLAN ${sql}`, params)).map((row) => String(row.detail));
}

/** Runs of ten apps with seven automations each; one in a hundred failed. */
/** In steps: a statement that takes as long as an endless one, which 100,000 rows may on a busy machine, ends with its writer. */
async function fill(runtime: DbClient, count: number, step = 5000): Promise<void> {
  for (let from = 0; from < count; from += step) {
    await runtime.run(`WITH RECURSIVE n (i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${from + step - 1})
      INSERT INTO runs (run_id, kind, app_id, automation_id, trigger_kind, state, output, queued_at, started_at, ended_at)
      SELECT substr(printf('%012x', ${NOW} + i), 1, 8) || '-' || substr(printf('%012x', ${NOW} + i), 9) || '-7000-8000-000000000000',
        'automation', 'app' || (i % 10), 'a' || (i / 10 % 7), 'cron', CASE WHEN i % 100 = 0 THEN 'error' ELSE 'ok' END,
        '{"n":' || i || '}', ${NOW} + i, ${NOW} + i, ${NOW} + i + 5 FROM n`);
  }
}

test('an app that is removed takes its runs, state and cron fires along, and no others', async (t) => {
  const { ledger, runtime, analytics } = await startLedger(t);
  for (const app of ['todos', 'notes']) {
    const run = queuedRun({ app });
    await ledger.insert(run, [ledger.cronFire({ app, id: 'digest' }, NOW)]);
    ledger.node('todos', nodeOfRun(run, 1));
    await ledger.end(ended(run), { count: 3 });
    await ledger.setState({ app, id: 'digest' }, 'k', 1);
  }
  await ledger.forgetApp('todos');
  assert.deepEqual(
    (await ledger.list()).map((run) => run.app),
    ['notes'],
  );
  for (const table of ['run_nodes', 'automation_state', 'cron_fired']) {
    assert.equal((await runtime.all(`SELECT * FROM ${table}`)).length, 1, table);
  }
  assert.equal(await ledger.cronFired(DIGEST), null);
  assert.equal(await ledger.getState(DIGEST, 'k'), undefined);
  await ledger.settled();
  assert.equal((await analytics.all('SELECT 1 FROM run_summaries')).length, 2);
});

test('cron fires only go forward', async (t) => {
  const { ledger } = await startLedger(t);
  await ledger.noteCronFired(DIGEST, NOW);
  await ledger.noteCronFired(DIGEST, NOW - 1);
  assert.equal(await ledger.cronFired(DIGEST), NOW);
});

test('state: any JSON by key, per automation, within its limits', async (t) => {
  const { ledger, runtime } = await startLedger(t);
  for (const value of [null, 0, 'text', { a: [1, { b: null }] }]) {
    await ledger.setState(DIGEST, 'k', value);
    assert.deepEqual(await ledger.getState(DIGEST, 'k'), value);
  }
  assert.equal(await ledger.getState({ app: 'todos', id: 'other' }, 'k'), undefined);
  await ledger.deleteState(DIGEST, 'k');
  await ledger.deleteState(DIGEST, 'k');
  assert.equal(await ledger.getState(DIGEST, 'k'), undefined);

  const most = 'x'.repeat(LIMITS.stateValueBytes - 2);
  await ledger.setState(DIGEST, 'large', most);
  await assert.rejects(ledger.setState(DIGEST, 'large', `${most}x`), { code: 'PAYLOAD_TOO_LARGE', path: 'value' });
  assert.equal(await ledger.getState(DIGEST, 'large'), most);
  await assert.rejects(ledger.setState(DIGEST, 'k', undefined), { code: 'BAD_REQUEST', path: 'value' });
  for (const key of ['', 'ä'.repeat(128), 7, null, undefined]) {
    await assert.rejects(ledger.setState(DIGEST, key, 1), { code: 'BAD_REQUEST', path: 'key' });
    await assert.rejects(ledger.getState(DIGEST, key), { code: 'BAD_REQUEST', path: 'key' });
    await assert.rejects(ledger.deleteState(DIGEST, key), { code: 'BAD_REQUEST', path: 'key' });
  }

  await Promise.all(Array.from({ length: LIMITS.stateKeys - 1 }, (_, i) => ledger.setState(DIGEST, `k${i}`, i)));
  await assert.rejects(ledger.setState(DIGEST, 'one more', 1), { code: 'PAYLOAD_TOO_LARGE', path: 'key' });
  await ledger.setState(DIGEST, 'k0', 'again');
  await ledger.setState({ app: 'todos', id: 'other' }, 'one more', 1);
  await ledger.deleteState(DIGEST, 'k0');
  await ledger.setState(DIGEST, 'one more', 1);
  const plan = await runtime.all(
    "EXPLAIN QUERY PLAN SELECT count(*) FROM automation_state WHERE app_id = 'a' AND automation_id = 'b'",
  );
  assert.match(String(plan[0]?.detail), /COVERING INDEX/);
});

test('a step that cannot be recorded is logged, and the rest goes on', async (t: TestContext) => {
  const { ledger, warnings } = await startLedger(t);
  ledger.node('todos', nodeOfRun(queuedRun(), 1));
  await ledger.settled();
  assert.deepEqual(warnings, ['A step of a run could not be recorded.']);
});

test('insights sum up the days that are asked for, by day, automation and model', async (t) => {
  const { ledger, analytics } = await startLedger(t);
  const day = 24 * 3600 * 1000;
  const usage = { inputTokens: 10, outputTokens: 20, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: 0.5 };
  const end = async (changes: Partial<RunRecord>, model: string | null, daysAgo = 0) => {
    const run = queuedRun();
    await ledger.insert(run);
    await ledger.end(ended(run, { ...changes, usage }), 'all', { model });
    await ledger.settled();
    const sql = 'UPDATE run_summaries SET ended_at = ended_at - ? WHERE run_id = ?';
    await analytics.run(sql, [daysAgo * day, run.runId]);
  };
  await end({}, 'a/one');
  await end({ state: 'error' }, 'a/one', 1);
  await end({ state: 'aborted' }, null, 1);
  await end({}, 'b/two', 40);
  const sums = (runs: number, ok: number, failed: number) => ({
    runs,
    ok,
    failed,
    inputTokens: 10 * runs,
    outputTokens: 20 * runs,
    costUsd: 0.5 * runs,
  });
  const dayOf = (daysAgo: number) => new Date(NOW - daysAgo * day).toISOString().slice(0, 10);
  const { recent, ...month } = await ledger.insights(30);
  const { ref } = queuedRun();
  assert.deepEqual(month, {
    totals: sums(3, 1, 1),
    byDay: [
      { day: dayOf(1), ...sums(2, 0, 1) },
      { day: dayOf(0), ...sums(1, 1, 0) },
    ],
    byAutomation: [{ ref, ...sums(3, 1, 1) }],
    byModel: [{ model: 'a/one', ...sums(2, 1, 1) }],
  });
  assert.equal(recent.length, 4);
  assert.deepEqual((await ledger.insights(1)).totals, sums(1, 1, 0));
  assert.deepEqual(
    (await ledger.insights(366)).byModel.map(({ model }) => model),
    ['a/one', 'b/two'],
  );
});

test('a cost that no agent reported is null, in runs and sums, and one that was reported adds up', async (t) => {
  const { ledger } = await startLedger(t);
  const unpriced = { inputTokens: 10, outputTokens: 20, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null };
  const end = async (usage: RunRecord['usage'], model: string) => {
    const run = queuedRun();
    await ledger.insert(run);
    await ledger.end(ended(run, { usage }), 'all', { model });
    assert.deepEqual((await ledger.get(run.runId))?.usage, usage);
  };
  await end(unpriced, 'no/price');
  assert.equal((await ledger.insights(30)).totals.costUsd, null);
  await end({ ...unpriced, costUsd: 0.5 }, 'priced');
  const { totals, byModel } = await ledger.insights(30);
  assert.equal(totals.costUsd, 0.5);
  assert.deepEqual(byModel.map(({ model, costUsd }) => [model, costUsd]).sort(), [
    ['no/price', null],
    ['priced', 0.5],
  ]);
});
