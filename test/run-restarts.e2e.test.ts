/** Daemons that die during runs, and the next ones: every run has a recorded end, and schedules continue. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { RunRecord } from '../protocol/automations/runs.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { eventually } from '../testing/edges.ts';
import { startGateway, type TestGateway } from '../testing/gateway.ts';
import {
  fire,
  hanging,
  isEnded,
  killAll,
  NOTES,
  nodesOf,
  note,
  noted,
  notesOf,
  post,
  push,
  runOf,
  runsOf,
  runToEnd,
} from '../testing/runs.ts';

const SECOND = 1000;
const HOUR = 3_600_000;
const EVERY_SECOND = [{ kind: 'cron', expr: '* * * * * *', tz: 'UTC' }];

const origins = (runs: RunRecord[]) => runs.map(({ trigger }) => Number(trigger.origin));

describe('a daemon that is killed', () => {
  for (const [whom, end] of [
    ['alone', (gateway: TestGateway) => gateway.kill()],
    ['with all its processes', killAll],
  ] as const) {
    test(`${whom} during runs: they are interrupted, their writes are kept, and the clock fires again`, async (t) => {
      const gateway = await startGateway(t);
      await push(gateway, 'kept', {
        ...NOTES,
        automations: {
          hung: { onFailure: 'alarm', run: hanging('kept') },
          alarm: `async ({ ctx }) => { ${note('kept', '"alarm"')} }`,
          tick: { triggers: EVERY_SECOND, run: '() => ({})' },
        },
      });
      const running = await fire(gateway, 'kept/hung', 'one');
      const waiting = await fire(gateway, 'kept/hung', 'two');
      await noted(gateway, 'kept', 'began one');
      await eventually(async () => (await nodesOf(gateway, running)).length === 1);
      await eventually(async () => (await runsOf(gateway, 'kept/tick', '&state=ok')).length > 0);
      const ticks = (await runsOf(gateway, 'kept/tick', '&state=ok')).map(({ runId }) => runId);
      await end(gateway);
      const startedAt = Date.now();
      await gateway.start();
      for (const runId of [running, waiting]) {
        const { state, error, endedAt, startedAt: began } = await runOf(gateway, runId);
        assert.deepEqual(
          [state, error?.code, isEnded({ endedAt } as RunRecord), began !== null],
          ['interrupted', 'RUN_ABORTED', true, runId === running],
        );
      }
      assert.deepEqual(
        (await nodesOf(gateway, running)).map(({ name, ok }) => [name, ok]),
        [['svc_write', true]],
      );
      assert.deepEqual(await notesOf(gateway, 'kept'), ['began one']);
      assert.deepEqual(
        [await runsOf(gateway, 'kept/hung', '&state=running'), await runsOf(gateway, 'kept/hung', '&state=queued')],
        [[], []],
      );
      assert.equal((await runToEnd(gateway, 'kept/hung', 'end')).state, 'ok');

      await eventually(async () =>
        origins(await runsOf(gateway, 'kept/tick', '&state=ok')).some((at) => at > startedAt),
      );
      const all = await runsOf(gateway, 'kept/tick', '&limit=500');
      for (const runId of ticks)
        assert.ok(
          all.some((run) => run.runId === runId),
          'an earlier run is lost',
        );
      assert.equal(new Set(origins(all)).size, all.length, 'a second fired twice');
      for (const { queuedAt, trigger } of all)
        assert.ok(queuedAt >= Number(trigger.origin), 'it fired before its time');
      assert.deepEqual(await notesOf(gateway, 'kept'), ['began one', 'began end']);
    });
  }

  test('at the time of a cron with catchUp: it runs once at the next start, with that time, and not again', async (t) => {
    const gateway = await startGateway(t);
    const run = 'async ({ ctx }) => ({ output: ctx.now })';
    let due = new Date(0);
    // Once a year, and late enough for the push: where it is not, once more.
    for (let ahead = 4; Date.now() >= due.getTime(); ahead *= 2) {
      due = new Date(Math.ceil(Date.now() / SECOND) * SECOND + ahead * SECOND);
      const expr = `${due.getUTCSeconds()} ${due.getUTCMinutes()} ${due.getUTCHours()} ${due.getUTCDate()} ${due.getUTCMonth() + 1} *`;
      const trigger = { kind: 'cron', expr, tz: 'UTC' };
      const caught = { triggers: [{ ...trigger, catchUp: true }], run };
      await gateway.call('DELETE', '/svc/_apps/late?purge=1');
      await push(gateway, 'late', {
        automations: { caught, missed: { triggers: [trigger], run }, other: '() => ({})' },
      });
      // The notes of their arrival are on disk before this.
      await runToEnd(gateway, 'late/other');
    }
    await gateway.kill();
    await eventually(() => Date.now() > due.getTime());
    for (let start = 0; start < 2; start++) {
      await gateway.start();
      await eventually(async () => (await runsOf(gateway, 'late/caught', '&state=ok')).length === 1);
      const [caught] = await runsOf(gateway, 'late/caught');
      assert.deepEqual([caught?.trigger, caught?.output], [{ kind: 'cron', origin: due.getTime() }, due.getTime()]);
      assert.deepEqual(await runsOf(gateway, 'late/missed'), []);
      const { nextRunAt } = (await gateway.call('GET', '/svc/_automations/late/caught')).json;
      assert.equal(
        nextRunAt,
        Date.UTC(
          due.getUTCFullYear() + 1,
          due.getUTCMonth(),
          due.getUTCDate(),
          due.getUTCHours(),
          due.getUTCMinutes(),
          due.getUTCSeconds(),
        ),
      );
      await gateway.kill();
    }
    await gateway.start();
    assert.equal((await runsOf(gateway, 'late/caught')).length, 1);
  });

  test('and reads many automations at its next start: a missed cron with catchUp runs all the same', async (t) => {
    const gateway = await startGateway(t);
    const due = new Date(Date.now() - 2 * HOUR);
    const triggers = [{ kind: 'cron', expr: `0 ${due.getUTCHours()} * * *`, tz: 'UTC', catchUp: true }];
    const run = '() => ({})';
    const others = Array.from({ length: 300 }, (_, n) => [`other${n}`, run] as const);
    await push(gateway, 'many', { automations: { ...Object.fromEntries(others), zcaught: { triggers, run } } });
    await runToEnd(gateway, 'many/other0');
    await gateway.kill();
    const db = openSqlite(join(gateway.dataDir, 'runtime.sqlite'));
    db.prepare('UPDATE cron_fired SET last_at = ?').run(Date.now() - 48 * HOUR);
    db.close();
    await gateway.start();
    await eventually(async () => (await runsOf(gateway, 'many/zcaught', '&state=ok')).length === 1);
  });

  test('right after it answered: every run whose id was answered is recorded, and each post that was answered ok is ok', async (t) => {
    const gateway = await startGateway(t);
    const automations = Object.fromEntries(
      Array.from({ length: 6 }, (_, n) => [
        `hook${n}`,
        {
          triggers: [{ kind: 'webhook', pending: true }],
          run: `async ({ ctx, input }) => { ${note('answers', 'input')} return { summary: input }; }`,
        },
      ]),
    );
    const hooks = await push(gateway, 'answers', { ...NOTES, automations });
    assert.equal(hooks.length, 6);
    for (let round = 0; round < 3; round++) {
      const answered = new Map<string, { text: string; status: number }>();
      let stop = false;
      const clients = hooks.map(async (hook, n) => {
        for (let i = 0; !stop && i < 18; i++) {
          const text = `${round} ${n} ${i}`;
          const answer = await post(gateway, hook, text, { query: n % 2 === 0 ? '' : '?async=1' }).catch(() => null);
          if (answer?.json.runId) answered.set(answer.json.runId, { text, status: answer.status });
        }
      });
      await eventually(() => answered.size >= 12);
      await (round % 2 === 0 ? killAll(gateway) : gateway.kill());
      stop = true;
      await Promise.all(clients);
      await gateway.start();
      const notes = new Set(await notesOf(gateway, 'answers'));
      for (const [runId, { text, status }] of answered) {
        const { state, input } = await runOf(gateway, runId);
        assert.equal(input, text);
        if (status === 200) assert.ok(state === 'ok' && notes.has(text), `${text} was answered ok and is ${state}`);
        else assert.match(`${status} ${state}`, /^(202 (ok|interrupted|error)|500 (error|aborted|interrupted))$/);
      }
      assert.deepEqual(
        [
          ...(await runsOf(gateway, 'answers/hook0', '&state=running')),
          ...(await runsOf(gateway, 'answers/hook1', '&state=queued')),
        ],
        [],
      );
    }
  });
});

test('a daemon that starts with the clock set back repeats no fire that is stored', async (t) => {
  const gateway = await startGateway(t);
  const tick = { triggers: EVERY_SECOND, run: '() => ({})' };
  await push(gateway, 'kept', { ...NOTES, automations: { tick, wrong: tick } });
  for (const id of ['tick', 'wrong'])
    await eventually(async () => (await runsOf(gateway, `kept/${id}`, '&state=ok')).length > 0);
  await gateway.stop();
  // As if both had fired by clocks that were an hour, and two days, ahead of this one.
  const ahead = { tick: Date.now() + HOUR, wrong: Date.now() + 48 * HOUR };
  const db = openSqlite(join(gateway.dataDir, 'runtime.sqlite'));
  for (const [id, at] of Object.entries(ahead))
    db.prepare('UPDATE cron_fired SET last_at = ? WHERE app_id = ? AND automation_id = ?').run(at, 'kept', id);
  db.close();
  const before = (await fires(gateway)).tick;
  await gateway.start();
  const { rows } = (await gateway.call('GET', '/svc/_automations?app=kept')).json as {
    rows: { id: string; nextRunAt: number }[];
  };
  const next = rows.find(({ id }) => id === 'tick')?.nextRunAt ?? 0;
  assert.ok(next > ahead.tick && next <= ahead.tick + SECOND, String(next - ahead.tick));
  // The one whose clock was clearly wrong fires again, and the other has had the same time to do so.
  const count = (await fires(gateway)).wrong ?? 0;
  await eventually(async () => ((await fires(gateway)).wrong ?? 0) >= count + 2);
  assert.equal((await fires(gateway)).tick, before);

  async function fires({ dataDir }: TestGateway): Promise<Record<string, number>> {
    const runs = openSqlite(join(dataDir, 'runtime.sqlite'), { readonly: true });
    const rows = runs.prepare('SELECT automation_id AS id, count(*) AS n FROM runs GROUP BY automation_id').all();
    runs.close();
    return Object.fromEntries((rows as { id: string; n: number }[]).map(({ id, n }) => [id, n]));
  }
});
