/** Many runs: which wait, which are cancelled, which stay in the history (specification, "Runs" and "History of runs"). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RunRecord } from '../protocol/automations/runs.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { ended, fire, isEnded, NOTES, note, noted, notesOf, push, runOf, runsOf, runToEnd } from '../testing/runs.ts';

describe('of the runs', () => {
  const gateway = gatewayOfSuite({});

  test('one that is cancelled ends at once; one that waits for it never begins', async () => {
    const run = `async ({ ctx, input }) => { ${note('cancel', 'input')} if (input === 'hang') await new Promise(() => {}); }`;
    await push(gateway, 'cancel', { ...NOTES, automations: { one: run } });
    const running = await fire(gateway, 'cancel/one', 'hang');
    await noted(gateway, 'cancel', 'hang');
    const [waiting, after] = [await fire(gateway, 'cancel/one', 'never'), await fire(gateway, 'cancel/one', 'after')];
    for (const runId of [waiting, running, waiting]) {
      const answer = await gateway.call('POST', `/svc/_runs/${runId}/cancel`);
      const { state, error } = answer.json as RunRecord;
      assert.deepEqual([answer.status, state, error?.code], [200, 'aborted', 'RUN_ABORTED'], answer.text);
    }
    assert.equal((await ended(gateway, after)).state, 'ok');
    assert.equal((await gateway.call('POST', `/svc/_runs/${after}/cancel`)).json.state, 'ok');
    assert.deepEqual(await notesOf(gateway, 'cancel'), ['hang', 'after']);
    assert.equal((await runOf(gateway, waiting)).startedAt, null);
    const unknown = await gateway.call('POST', '/svc/_runs/00000000-0000-7000-8000-000000000000/cancel');
    assert.deepEqual([unknown.status, unknown.json.error.code], [404, 'UNKNOWN_RUN']);
  });

  test('those of an automation run one at a time, in order; a cron fire during a run is recorded as skipped', async () => {
    const run = `async ({ ctx, input }) => {
      ${note('lane', '"in " + input')}
      while (input === 0 && !(await ctx.tool('svc_read', { app: 'lane', query: 'list' })).includes('go')) {}
      ${note('lane', '"out " + input')}
    }`;
    await push(gateway, 'lane', {
      ...NOTES,
      automations: { one: { triggers: [{ kind: 'cron', expr: '* * * * * *' }], run } },
    });
    await gateway.call('POST', '/svc/_automations/lane/one/enabled', { body: { enabled: false } });
    await eventually(async () => (await runsOf(gateway, 'lane/one')).every(isEnded));
    const before = (await notesOf(gateway, 'lane')).length;
    const runs: string[] = [];
    for (let n = 0; n < 5; n++) runs.push(await fire(gateway, 'lane/one', n));
    await gateway.call('POST', '/svc/_automations/lane/one/enabled', { body: { enabled: true } });
    await eventually(async () => (await runsOf(gateway, 'lane/one', '&state=skipped')).length > 0);
    await gateway.write('lane', 'add', { text: 'go' });
    for (const runId of runs) assert.equal((await ended(gateway, runId)).state, 'ok');
    const notes = (await notesOf(gateway, 'lane')).slice(before).filter((text) => /^(in|out) \d$/.test(text));
    assert.deepEqual(
      notes,
      [0, 1, 2, 3, 4].flatMap((n) => [`in ${n}`, `out ${n}`]),
    );
    const [{ error, startedAt, trigger } = {} as RunRecord] = await runsOf(gateway, 'lane/one', '&state=skipped');
    assert.deepEqual([error?.code, startedAt, trigger.kind], ['CONFLICT', null, 'cron']);
  });

  test('a pinned one stays although the history keeps two', async () => {
    await push(gateway, 'pins', {
      automations: {
        one: { history: { keep: { count: 2 } }, run: '() => ({})' },
        errors: { history: { keep: 'errors' }, run: 'async ({ input }) => { if (input) throw new Error("no"); }' },
      },
    });
    const runs: string[] = [];
    for (let n = 0; n < 6; n++) {
      runs.push((await runToEnd(gateway, 'pins/one')).runId);
      if (n === 1)
        assert.equal(
          (await gateway.call('POST', `/svc/_runs/${runs[1]}/pin`, { body: { pinned: true } })).json.pinned,
          true,
        );
    }
    const kept = async () => (await runsOf(gateway, 'pins/one')).map(({ runId }) => runId);
    assert.deepEqual(await kept(), [runs[5], runs[4], runs[1]]);
    await gateway.call('POST', `/svc/_runs/${runs[1]}/pin`, { body: { pinned: false } });
    await gateway.stop();
    await gateway.start();
    runs.push((await runToEnd(gateway, 'pins/one')).runId);
    assert.deepEqual(await kept(), [runs[6], runs[5]]);
    for (const input of [0, 1, 0]) await eventuallyEnded(await fire(gateway, 'pins/errors', input));
    assert.deepEqual(
      (await runsOf(gateway, 'pins/errors')).map(({ state }) => state),
      ['error'],
    );
  });

  test('a failed run is failing until its automation succeeds', async () => {
    await push(gateway, 'mend', {
      automations: {
        one: 'async ({ input }) => { if (input) throw new Error("no"); }',
        two: 'async () => { throw new Error("no"); }',
      },
    });
    const failing = async (more = '') => {
      const { status, json } = await gateway.call('GET', `/svc/_runs?failing=1&app=mend${more}`);
      assert.equal(status, 200);
      return json.map(({ runId }: RunRecord) => runId);
    };
    const runs: string[] = [];
    for (const [ref, input] of [
      ['mend/one', 1],
      ['mend/two', 1],
      ['mend/one', 1],
    ] as const)
      runs.unshift((await runToEnd(gateway, ref, input)).runId);
    assert.deepEqual(await failing(), runs);
    assert.deepEqual(await failing('&limit=1'), runs.slice(0, 1));
    assert.deepEqual(await failing('&ref=mend/two'), [runs[1]]);
    await runToEnd(gateway, 'mend/one', 0);
    assert.deepEqual(await failing(), [runs[1]]);
    const { status, json } = await gateway.call('GET', '/svc/_runs?failing=yes');
    assert.deepEqual([status, json.error.code, json.error.path], [400, 'BAD_REQUEST', 'failing']);
  });

  /** Also of a run that the history does not keep. */
  const eventuallyEnded = (runId: string) =>
    eventually(async () => {
      const { status, json } = await gateway.call('GET', `/svc/_runs/${runId}`);
      return status === 404 || isEnded(json);
    });
});
