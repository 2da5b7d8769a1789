// Runs in the host's own process: the seam fireAutomationFactory.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mock, test } from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import { Redactor } from '../../../protocol/text/redactor.ts';
import { RunsWorld, settle } from '../../../testing/scripted-runs.ts';
import type { FireAutomation, HostFire } from '../../extension-points.ts';

const DIGEST = 'todos/digest';

function worldWith(run: FireAutomation): { world: RunsWorld; hosts: object[] } {
  const hosts: object[] = [];
  const world = new RunsWorld({
    baseUrl: () => 'http://127.0.0.1:1',
    factory: (host) => {
      hosts.push(host);
      return run;
    },
  });
  world.add(DIGEST, { onFailure: 'rescue' });
  return { world, hosts };
}

test('the host gets the fire, and its result is the run', async () => {
  const fires: HostFire[] = [];
  const { world, hosts } = worldWith(async (fire) => {
    fires.push(fire);
    return { summary: 'Done.', output: { n: 1 }, response: { status: 202, body: 'later' } };
  });
  const request = { headers: {}, contentType: null, rawBody: '{"a":1}' };
  const { run, ended, response } = await world.start(DIGEST, 'webhook', { input: { a: 1 }, request, at: 42 });
  const { state, summary, output } = await ended;
  assert.deepEqual([response()?.status, response()?.body], [202, 'later']);
  assert.deepEqual([state, summary, output], ['ok', 'Done.', { n: 1 }]);
  const [fire] = fires as [HostFire];
  assert.deepEqual([fire.runId, fire.automationRef, fire.input, fire.now], [run.runId, DIGEST, { a: 1 }, 42]);
  assert.deepEqual([fire.automation.id, fire.handler], ['digest', '/code/todos/automations/digest/handler.js']);
  assert.deepEqual(fire.request, request);
  assert.deepEqual([fire.ctx.input, fire.ctx.now, fire.ctx.signal], [{ a: 1 }, 42, fire.signal]);
  assert.deepEqual(world.ledger.done, ['insert', 'end'], 'the ledger stays ours');
  await (await world.start(DIGEST)).ended;
  assert.deepEqual(hosts, [{ baseUrl: 'http://127.0.0.1:1' }], 'it is made once');
  assert.equal(world.calls.length, 0, 'no thread');
});

test('its ctx reaches what a handler reaches', async () => {
  const seen: unknown[] = [];
  const { world } = worldWith(async ({ ctx }) => {
    seen.push(await ctx.tool('svc_read', { app: 'todos' }));
    await ctx.state.set('k', { v: 1 });
    seen.push(await ctx.state.get('k'));
    await ctx.state.delete('k');
    seen.push(await ctx.state.get('k'), await ctx.runs.last(), await ctx.runs.list({ state: 'ok' }));
    await ctx.agent({ prompt: 'p' }).catch((error: SvcError) => seen.push(error.code));
  });
  const { state } = await (await world.start(DIGEST)).ended;
  assert.equal(state, 'ok');
  assert.deepEqual(seen, [{ app: 'todos' }, { v: 1 }, undefined, null, [], 'NO_RUNNER']);
  assert.equal(world.ledger.nodes.length, 2);
});

test('it gets secrets, which are in nothing that is kept of the run', async () => {
  const redactor = new Redactor();
  redactor.hide([['KEY', 'sk_live_51']]);
  const get = (_app: string, name: string) => (name === 'KEY' ? 'sk_live_51' : undefined);
  const seen: unknown[] = [];
  const world = new RunsWorld({
    secrets: { get, redactor: () => redactor },
    factory:
      () =>
      async ({ ctx, log, input }) => {
        const key = await ctx.secrets.get('KEY');
        log.info(`with ${key}`, { key });
        seen.push(await ctx.secrets.get('NONE').catch((error: SvcError) => error.message), input);
        if (input === undefined) return { summary: key, output: { key } };
        throw new Error(`no ${key}`);
      },
  });
  world.add(DIGEST);
  const first = await (await world.start(DIGEST)).ended;
  assert.deepEqual([first.summary, first.output], ['[secret KEY]', { key: '[secret KEY]' }]);
  const second = await (await world.start(DIGEST, 'manual', { input: 'sk_live_51' })).ended;
  assert.deepEqual([second.input, second.error?.message], ['[secret KEY]', 'no [secret KEY]']);
  assert.match(String(seen[0]), /svc secret set todos NONE$/);
  assert.equal(seen[3], 'sk_live_51', 'the handler gets its input as it is');
  assert.doesNotMatch(JSON.stringify([world.events, world.appLog]), /sk_live/);
});

test('its log goes to the app and to the followers', async () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const { world } = worldWith(async ({ log }) => {
    log.info('two', { n: 2, level: 'mine' });
    log.warn('round', circle);
    log.error('x'.repeat(1_000_000));
  });
  const { run, ended } = await world.start(DIGEST);
  await ended;
  const lines = world.appLog.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ level, app, tool, runId }) => [level, app, tool, runId]),
    ['info', 'warn', 'error'].map((level) => [level, 'todos', 'digest', run.runId]),
  );
  assert.deepEqual([lines[0]?.msg, lines[0]?.n, lines[2]?.truncated], ['two', 2, true]);
  assert.equal(world.types(run.runId).filter((type) => type === 'log').length, 3);
});

for (const [what, run, message] of [
  ['rejects', () => Promise.reject(new Error('out of paper')), 'out of paper'],
  ['throws nothing that is an error', () => Promise.reject(1), 'The host failed on this run.'],
  ['answers what is no JSON', async () => ({ output: 1n }), /BigInt/],
] as [string, FireAutomation, string | RegExp][]) {
  test(`a host that ${what} fails the run`, async () => {
    const { world } = worldWith(run);
    const { state, error } = await (await world.start(DIGEST)).ended;
    assert.deepEqual([state, error?.code], ['error', 'HANDLER_ERROR']);
    if (typeof message === 'string') assert.equal(error?.message, message);
    else assert.match(String(error?.message), message);
  });
}

test('what a host answers beside its output and a summary that is a text is ignored', async () => {
  const { world } = worldWith(async () => ({ summary: 1 as unknown as string, output: 2, more: 3 }));
  const { state, summary, output } = await (await world.start(DIGEST)).ended;
  assert.deepEqual([state, summary, output], ['ok', null, 2]);
});

test('a host whose factory fails, fails the run', async () => {
  const world = new RunsWorld({
    factory: () => {
      throw new Error('no');
    },
  });
  world.add(DIGEST);
  assert.equal((await (await world.start(DIGEST)).ended).error?.code, 'INTERNAL');
});

test('a run over its time ends as error, and the host is told', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  let signal: AbortSignal | null = null;
  const { world } = worldWith((fire) => {
    signal = fire.signal;
    return new Promise<void>(() => {});
  });
  const { ended } = await world.start(DIGEST);
  mock.timers.tick(60_000);
  const { state, error } = await ended;
  assert.deepEqual([state, error?.message], ['error', '"digest" timed out after 60 s.']);
  assert.equal((signal as AbortSignal | null)?.aborted, true);
});

test('a run that is cancelled ends at once; its ctx answers no more', async () => {
  let late: Promise<unknown> = Promise.resolve();
  const { world } = worldWith(async ({ ctx, signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    late = ctx.tool('svc_read');
    await late;
  });
  const { run } = await world.start(DIGEST);
  assert.equal((await world.engine.cancel(run.runId)).state, 'aborted');
  await settle();
  await assert.rejects(late, { code: 'RUN_ABORTED' });
});

test('ctx.fetch ends with the run', async (t) => {
  const server = createServer(() => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  const asked = new Promise((resolve) => server.once('request', resolve));
  const { port } = server.address() as AddressInfo;
  let failure: unknown = null;
  const { world } = worldWith(async ({ ctx }) => {
    await ctx.fetch(`http://127.0.0.1:${port}/`).catch((error: unknown) => {
      failure = error;
    });
  });
  const { run } = await world.start(DIGEST);
  await asked;
  await world.engine.cancel(run.runId);
  await settle();
  assert.ok(failure instanceof SvcError && failure.code === 'RUN_ABORTED', 'the run was why');
});
