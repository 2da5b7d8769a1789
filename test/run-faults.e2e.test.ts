/** The writer and the host die during runs, and a daemon is told to stop: every run has a recorded end. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import type { TestGateway } from '../testing/gateway.ts';
import { type Child, childrenOf } from '../testing/processes.ts';
import {
  ended,
  fire,
  hanging,
  isEnded,
  NOTES,
  nodesOf,
  note,
  noted,
  notesOf,
  only,
  post,
  push,
  runOf,
  runsOf,
  runToEnd,
} from '../testing/runs.ts';

function kill(gateway: TestGateway, role: Child['role']): void {
  for (const child of childrenOf(gateway.pid)) if (child.role === role) process.kill(child.pid, 'SIGKILL');
}

const gateway = gatewayOfSuite({});

describe('a process that is killed', () => {
  for (const role of ['writer', 'host'] as const) {
    test(`the ${role}, during a run: the run has a recorded end, and the next one works`, async () => {
      const app = `hit-${role}`;
      const hook = only(
        await push(gateway, app, {
          ...NOTES,
          automations: {
            busy: {
              triggers: [{ kind: 'webhook', pending: true }],
              onFailure: 'alarm',
              run: `async ({ ctx, input }) => {
                for (let n = 0; n < input.times; n++) {
                  ${note(app, "input.round + ' ' + n")}
                  await ctx.state.set('n', n);
                  await new Promise((go) => setTimeout(go, 5));
                }
                return { output: await ctx.state.get('n') };
              }`,
            },
            alarm: 'async ({ input }) => ({ output: input.runId })',
          },
        }),
      );
      for (let round = 0; round < 3; round++) {
        const answering = post(gateway, hook, { round, times: 40 });
        await noted(gateway, app, `${round} 3`);
        kill(gateway, role);
        const answer = await answering;
        const run = await runOf(gateway, answer.json.runId);
        assert.equal(run.state, answer.status === 200 ? 'ok' : 'error', answer.text);
        if (role === 'host') assert.deepEqual([run.state, run.error?.code], ['error', 'HANDLER_ERROR']);
        if (run.state === 'ok') assert.equal(run.output, 39);
        else
          await eventually(async () =>
            (await runsOf(gateway, `${app}/alarm`, '&state=ok')).some(({ parentRunId }) => parentRunId === run.runId),
          );
        const nodes = await nodesOf(gateway, run.runId);
        assert.deepEqual(
          nodes.map(({ ordinal }) => ordinal),
          nodes.map((_, n) => n + 1),
        );
        const next = await post(gateway, hook, { round: `${round} next`, times: 2 });
        assert.deepEqual([next.status, (await runOf(gateway, next.json.runId)).output], [200, 1], next.text);
      }
      const answers = await runsOf(gateway, `${app}/busy`);
      assert.equal(answers.length, 6);
      assert.ok(answers.every(isEnded), 'a run has no end');
    });
  }
});

test('SIGTERM during runs: one that ends in time is ok, the others are interrupted, and the exit code is 0', async () => {
  await push(gateway, 'stops', {
    ...NOTES,
    automations: {
      hung: hanging('stops'),
      quick: `async ({ ctx }) => { ${note('stops', '"quick"')} await new Promise((go) => setTimeout(go, 1000)); ${note('stops', '"done"')} return { summary: 'in time' }; }`,
    },
  });
  const hung = await fire(gateway, 'stops/hung', 'one');
  const waiting = await fire(gateway, 'stops/hung', 'two');
  const quick = await fire(gateway, 'stops/quick');
  await noted(gateway, 'stops', 'quick');
  await noted(gateway, 'stops', 'began one');
  const streams = [await gateway.stream('/svc/_runs/_events'), await gateway.stream(`/svc/_runs/${hung}/events`)];
  assert.equal(await gateway.stop(), 0);
  for (const stream of streams) await stream.ended();
  await gateway.start();
  const states = [];
  for (const runId of [hung, waiting, quick]) states.push((await runOf(gateway, runId)).state);
  assert.deepEqual(states, ['interrupted', 'interrupted', 'ok']);
  assert.deepEqual((await notesOf(gateway, 'stops')).sort(), ['began one', 'done', 'quick']);
  assert.equal((await ended(gateway, quick)).summary, 'in time');
  assert.equal((await runToEnd(gateway, 'stops/hung', 'end')).state, 'ok');
});
