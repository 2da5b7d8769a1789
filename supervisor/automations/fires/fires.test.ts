// Every way from the request of a run to its stored end, on a ledger and handlers that do what the test says.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { DISK_FULL, RunsWorld, type ScriptedCall, settle } from '../../../testing/scripted-runs.ts';

const DIGEST = 'todos/digest';

function worldWith(...refs: string[]): RunsWorld {
  const world = new RunsWorld();
  for (const ref of refs) world.add(ref);
  return world;
}

/** A promise and what resolves it. */
function gate(): { open: () => void; until: Promise<void> } {
  let open = () => {};
  const until = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, until };
}

describe('a run', () => {
  test('is stored before its handler is called, and ended before anybody hears of its end', async () => {
    const world = worldWith(DIGEST);
    const { run, ended, handler } = await world.startCalled(DIGEST, { input: { a: 1 }, at: 77 });
    assert.deepEqual(world.ledger.done, ['insert'], 'one commit says that it is there and runs');
    assert.deepEqual(world.ledger.states(DIGEST), ['running']);
    assert.deepEqual(handler.body, {
      runId: run.runId,
      now: 77,
      trigger: { kind: 'manual', origin: null },
      automation: { ref: DIGEST, id: 'digest', name: 'Name of digest', version: '0.1.0' },
      input: { a: 1 },
    });
    const { request } = handler.call;
    assert.deepEqual([request.kind, request.tool, request.allowedMs], [3, 'digest', 60_000]);
    handler.returns({ summary: 'Two done.', output: { done: 2 } });
    const last = await ended;
    assert.deepEqual([last.state, last.summary, last.output, last.error], ['ok', 'Two done.', { done: 2 }, null]);
    assert.deepEqual(last.input, { a: 1 });
    assert.deepEqual(world.ledger.rows.get(run.runId), last);
    assert.ok((last.startedAt as number) < (last.endedAt as number), 'it took time');
    assert.deepEqual(world.types(run.runId), ['run.start', 'run.end']);
    assert.equal(world.engine.running(DIGEST), 0);
  });

  test('has an id that sorts behind those before it, also within a millisecond and while the clock goes back', async (t) => {
    const refs = Array.from({ length: 30 }, (_, i) => `todos/a${i}`);
    const world = worldWith(...refs);
    let now = Date.now();
    t.mock.method(Date, 'now', () => now);
    const ids: string[] = [];
    for (const [i, ref] of refs.entries()) {
      if (i === 15) now -= 60_000;
      ids.push((await world.startCalled(ref)).run.runId);
    }
    const form = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    assert.ok(
      ids.every((id) => form.test(id)),
      ids.join(' '),
    );
    assert.deepEqual([...ids].sort(), ids);
    assert.equal(new Set(ids).size, ids.length);
  });

  test('without an input gets none', async () => {
    const world = worldWith(DIGEST);
    const { handler } = await world.startCalled(DIGEST);
    assert.ok(!('input' in handler.body), 'no member');
  });

  test('that throws ends as error, with what its handler said', async () => {
    const world = worldWith(DIGEST);
    const { ended, handler } = await world.startCalled(DIGEST);
    handler.throws('the door is shut');
    const { state, error } = await ended;
    assert.deepEqual([state, error], ['error', { code: 'HANDLER_ERROR', message: 'the door is shut' }]);
  });

  test('whose result is too large, or is none, ends as error', async () => {
    const world = worldWith(DIGEST);
    const large = await world.startCalled(DIGEST);
    large.handler.returns({ output: 'x'.repeat(LIMITS.fireResultBytes) });
    assert.equal((await large.ended).error?.code, 'HANDLER_ERROR');
    const broken = await world.startCalled(DIGEST);
    broken.handler.call.succeed(200, Buffer.from('{'), 1);
    assert.equal((await broken.ended).error?.code, 'INTERNAL');
  });

  test('has what its handler answers the sender with, once it ended; what cannot be sent ends it as error', async () => {
    const world = worldWith(DIGEST);
    const { ended, handler, response } = await world.startCalled(DIGEST);
    assert.equal(response(), null);
    handler.returns({ output: 1, response: { status: 201, body: 'made' } });
    const { state, output, ...record } = await ended;
    assert.deepEqual([state, output, 'response' in record], ['ok', 1, false]);
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    assert.deepEqual(response(), { status: 201, headers, body: 'made' });
    const wrong = await world.startCalled(DIGEST);
    wrong.handler.returns({ output: 1, response: { status: 500 } });
    const { error } = await wrong.ended;
    assert.deepEqual([error?.code, error?.path, wrong.response()], ['HANDLER_ERROR', 'response.status', null]);
  });

  test('keeps of a large output only the beginning', async () => {
    const world = worldWith(DIGEST);
    const { ended, handler } = await world.startCalled(DIGEST);
    handler.returns({ output: { text: '"'.repeat(LIMITS.runValueBytes) } });
    const { output } = await ended;
    assert.equal((output as { cut?: boolean }).cut, true);
    assert.ok(JSON.stringify(output).length <= LIMITS.runValueBytes, 'what is kept is within the limit');
  });

  test('whose actor cannot be had ends as error', async () => {
    const world = new RunsWorld({
      actorOf: async () => {
        throw new SvcError('NO_ACTIVE_VERSION', 'There is none.');
      },
    });
    world.add(DIGEST);
    assert.equal((await (await world.start(DIGEST)).ended).error?.code, 'NO_ACTIVE_VERSION');
  });

  test('stores the statements that come with it in the same step', async () => {
    const world = worldWith(DIGEST);
    await world.start(DIGEST, 'cron', { extra: (runId) => [['INSERT', [runId]]] });
    assert.deepEqual(world.ledger.extra, [['INSERT', [...world.ledger.rows.keys()]]]);
  });

  test('with an input that is no JSON value is refused, and nothing is stored', async () => {
    const world = worldWith(DIGEST);
    await assert.rejects(world.start(DIGEST, 'manual', { input: 1n }), { code: 'BAD_REQUEST', path: 'input' });
    assert.equal(world.ledger.rows.size, 0);
  });
});

describe('two at once', () => {
  for (const kind of ['manual', 'webhook'] as const) {
    test(`a ${kind} fire waits for the run before it`, async () => {
      const world = worldWith(DIGEST);
      const [first, second] = await Promise.all([world.start(DIGEST, kind), world.start(DIGEST, kind)]);
      await settle();
      assert.deepEqual(world.ledger.states(DIGEST), ['running', 'queued']);
      assert.equal(world.engine.running(DIGEST), 2);
      assert.deepEqual(world.engine.load('automation'), { running: 1, waiting: 1 });
      world.calls[0]?.returns();
      await first.ended;
      await settle();
      assert.deepEqual(world.ledger.states(DIGEST), ['ok', 'running']);
      world.calls[1]?.returns();
      assert.equal((await second.ended).state, 'ok');
    });
  }

  for (const kind of ['cron', 'failure'] as const) {
    test(`a ${kind} fire is skipped, also while the row of the other is not stored yet`, async () => {
      const world = worldWith(DIGEST);
      const [first, second] = await Promise.all([world.start(DIGEST, kind), world.start(DIGEST, kind)]);
      const skipped = await second.ended;
      assert.deepEqual([skipped.state, skipped.startedAt, skipped.error?.code], ['skipped', null, 'CONFLICT']);
      assert.deepEqual(world.types(skipped.runId), ['run.end']);
      await settle();
      assert.equal(world.calls.length, 1);
      world.calls[0]?.returns();
      await first.ended;
      assert.deepEqual(world.ledger.states(DIGEST), ['ok', 'skipped']);
      assert.equal((await world.start(DIGEST, kind)).run.state, 'running', 'the next one runs');
    });
  }

  test('another automation does not wait', async () => {
    const world = worldWith(DIGEST, 'todos/inbox');
    await Promise.all([world.start(DIGEST), world.start('todos/inbox')]);
    await settle();
    assert.equal(world.calls.length, 2);
  });

  test('the next one runs only once the end of the one before is stored', async () => {
    const world = worldWith(DIGEST);
    const { handler } = await world.startCalled(DIGEST);
    await world.start(DIGEST);
    const { open, until } = gate();
    world.ledger.held = { name: 'end', until };
    handler.returns();
    await settle();
    assert.equal(world.calls.length, 1);
    open();
    await settle();
    assert.equal(world.calls.length, 2);
  });

  test('as many wait as may, and one more is refused', async () => {
    const world = worldWith(DIGEST);
    for (let i = 0; i <= LIMITS.runsWaiting; i++) await world.start(DIGEST);
    await assert.rejects(world.start(DIGEST), { code: 'OVERLOADED' });
    assert.equal(world.ledger.rows.size, LIMITS.runsWaiting + 1);
    await settle();
    for (let i = 0; i <= LIMITS.runsWaiting; i++) {
      world.calls[i]?.returns();
      await settle();
    }
    assert.equal(world.engine.running(DIGEST), 0);
    assert.ok(
      world.ledger.states(DIGEST).every((state) => state === 'ok'),
      'all ran',
    );
  });

  test('a waiting run takes the version that is active at its turn, and fails without one', async () => {
    const world = worldWith(DIGEST);
    const { handler } = await world.startCalled(DIGEST);
    const second = await world.start(DIGEST);
    const third = await world.start(DIGEST);
    world.add(DIGEST, { version: '2.0.0' });
    handler.returns();
    await settle();
    assert.equal(((world.calls[1] as ScriptedCall).body.automation as { version: string }).version, '2.0.0');
    world.catalog.delete(DIGEST);
    world.calls[1]?.returns();
    assert.equal((await second.ended).state, 'ok');
    const { state, error } = await third.ended;
    assert.deepEqual([state, error?.code], ['error', 'UNKNOWN_AUTOMATION']);
    assert.equal(world.engine.running(DIGEST), 0);
  });
});

describe('a ledger that fails', () => {
  test('at the start: the fire is refused, nothing runs, and the lane is free', async () => {
    const world = worldWith(DIGEST);
    world.ledger.faults.insert.push(DISK_FULL);
    const [first, second] = await Promise.allSettled([world.start(DIGEST), world.start(DIGEST)]);
    assert.equal(first.status === 'rejected' && first.reason, DISK_FULL);
    assert.equal(second.status, 'fulfilled');
    await settle();
    assert.equal(world.calls.length, 1);
    assert.equal(world.engine.running(DIGEST), 1);
  });

  test('at a skipped run: the fire is refused', async () => {
    const world = worldWith(DIGEST);
    await world.start(DIGEST);
    world.ledger.faults.skip.push(DISK_FULL);
    await assert.rejects(world.start(DIGEST, 'cron'), DISK_FULL);
    assert.equal(world.engine.running(DIGEST), 1);
  });

  test('at the end: it is tried again, and the run ends as stored', async () => {
    const world = worldWith(DIGEST);
    const { ended, handler } = await world.startCalled(DIGEST);
    world.ledger.faults.end.push(DISK_FULL, DISK_FULL);
    handler.returns({ output: 1 });
    assert.equal((await ended).state, 'ok');
    assert.equal(world.logged.length, 2);
  });

  test('at the end again and again: no follower gets a success, and the next one runs', async () => {
    const world = worldWith(DIGEST, 'todos/rescue');
    world.add(DIGEST, { onFailure: 'rescue' });
    const { ended, handler } = await world.startCalled(DIGEST);
    await world.start(DIGEST);
    world.ledger.faults.end.push(...Array.from({ length: LIMITS.runEndTries }, () => DISK_FULL));
    handler.returns({ output: 1 });
    const { state, error } = await ended;
    assert.deepEqual([state, error?.code], ['error', 'STORAGE_FULL']);
    await settle();
    assert.equal(world.calls.length, 2);
    assert.equal(world.engine.running('todos/rescue'), 0, 'its handler did not fail');
  });
});

describe('onFailure', () => {
  const fails = async (handler: ScriptedCall | undefined): Promise<void> => {
    handler?.throws('broken');
    await settle();
    await settle();
  };

  for (const handle of ['rescue', 'todos/rescue']) {
    test(`"${handle}" is fired with what failed`, async () => {
      const world = worldWith('todos/rescue');
      world.add(DIGEST, { onFailure: handle });
      const { run, handler } = await world.startCalled(DIGEST);
      await fails(handler);
      const { input, trigger } = (world.calls[1] as ScriptedCall).body;
      const error = { code: 'HANDLER_ERROR', message: 'broken' };
      assert.deepEqual(input, { runId: run.runId, automationName: 'Name of digest', error });
      assert.deepEqual(trigger, { kind: 'failure', origin: run.runId });
      const rescue = [...world.ledger.rows.values()].find(({ ref }) => ref === 'todos/rescue');
      assert.equal(rescue?.parentRunId, run.runId);
    });
  }

  test('another app is reached by its ref', async () => {
    const world = worldWith('ops/alarm');
    world.add(DIGEST, { onFailure: 'ops/alarm' });
    const { handler } = await world.startCalled(DIGEST);
    await fails(handler);
    assert.equal(world.engine.running('ops/alarm'), 1);
  });

  test('fires of fires end after three', async () => {
    const world = worldWith();
    world.add('a/ping', { onFailure: 'pong' });
    world.add('a/pong', { onFailure: 'ping' });
    await world.start('a/ping');
    await settle();
    for (let i = 0; i < LIMITS.failureDepth; i++) await fails(world.calls[i]);
    assert.equal(world.calls.length, 1 + LIMITS.failureDepth);
    await fails(world.calls[LIMITS.failureDepth]);
    assert.equal(world.calls.length, 1 + LIMITS.failureDepth);
    assert.match(world.logged.join('\n'), /led to this run already/);
  });

  for (const [what, handle, why] of [
    ['itself', 'digest', /the automation itself/],
    ['itself by its ref', DIGEST, /the automation itself/],
    ['an unknown one', 'nobody', /no such automation/],
    ['no handle', 'a/b/c', /no handle/],
    ['a disabled one', 'asleep', /disabled/],
  ] as const) {
    test(`${what} is not fired, and the log says why`, async () => {
      const world = worldWith(DIGEST);
      world.add('todos/asleep', { enabled: false });
      world.add(DIGEST, { onFailure: handle });
      const { handler } = await world.startCalled(DIGEST);
      await fails(handler);
      assert.equal(world.calls.length, 1);
      assert.match(world.logged.join('\n'), why);
    });
  }

  test('is skipped while the one that it names is under way', async () => {
    const world = worldWith('todos/rescue');
    world.add(DIGEST, { onFailure: 'rescue' });
    await world.start('todos/rescue');
    const { handler } = await world.startCalled(DIGEST);
    await fails(handler);
    assert.deepEqual(world.ledger.states('todos/rescue'), ['running', 'skipped']);
  });

  test('does not fire for cancelled or successful runs', async () => {
    const world = worldWith('todos/rescue');
    world.add(DIGEST, { onFailure: 'rescue' });
    const one = await world.startCalled(DIGEST);
    await world.engine.cancel(one.run.runId);
    const other = await world.startCalled(DIGEST);
    other.handler.returns();
    await other.ended;
    await settle();
    assert.equal(world.engine.running('todos/rescue'), 0);
  });

  test('that cannot be stored is logged', async () => {
    const world = worldWith('todos/rescue');
    world.add(DIGEST, { onFailure: 'rescue' });
    const { handler } = await world.startCalled(DIGEST);
    world.ledger.faults.insert.push(DISK_FULL);
    await fails(handler);
    assert.match(world.logged.join('\n'), /could not be fired/);
  });
});

describe('cancel', () => {
  test('ends a run that waits at once, and it never runs', async () => {
    const world = worldWith(DIGEST);
    const first = await world.startCalled(DIGEST);
    const second = await world.start(DIGEST);
    const cancelled = await world.engine.cancel(second.run.runId);
    assert.deepEqual([cancelled.state, cancelled.startedAt, cancelled.error?.code], ['aborted', null, 'RUN_ABORTED']);
    assert.deepEqual(await second.ended, cancelled);
    first.handler.returns();
    assert.equal((await first.ended).state, 'ok');
    await settle();
    assert.equal(world.calls.length, 1);
  });

  test('ends a run that runs without waiting for its handler, whose answer is not heard any more', async () => {
    const world = worldWith(DIGEST);
    const { run, ended, handler } = await world.startCalled(DIGEST);
    const cancelled = await world.engine.cancel(run.runId);
    assert.equal(cancelled.state, 'aborted');
    assert.ok(handler.cancelled, 'the thread is told');
    handler.returns({ output: 1 });
    assert.deepEqual(await ended, cancelled);
    assert.deepEqual(world.ledger.rows.get(run.runId), cancelled);
    await assert.rejects(handler.ask('state.get', { key: 'k' }), { code: 'RUN_ABORTED' });
  });

  test('of a run whose actor is still looked up: no call is made', async () => {
    const { open, until } = gate();
    const calls: unknown[] = [];
    const actor = { submit: (call: unknown) => calls.push(call), cancel: () => {} };
    const world = new RunsWorld({ actorOf: () => until.then(() => actor) });
    world.add(DIGEST);
    const { run } = await world.start(DIGEST);
    assert.equal((await world.engine.cancel(run.runId)).state, 'aborted');
    open();
    await settle();
    assert.deepEqual(calls, []);
  });

  test('twice answers the same', async () => {
    const world = worldWith(DIGEST);
    const { run } = await world.startCalled(DIGEST);
    const [one, other] = await Promise.all([world.engine.cancel(run.runId), world.engine.cancel(run.runId)]);
    assert.deepEqual(one, other);
    assert.equal(world.ledger.done.filter((name) => name === 'end').length, 1);
  });

  test('leaves a run that has ended as it is', async () => {
    const world = worldWith(DIGEST);
    const { run, ended, handler } = await world.startCalled(DIGEST);
    handler.returns();
    await ended;
    assert.equal((await world.engine.cancel(run.runId)).state, 'ok');
  });

  test('of an unknown run is UNKNOWN_RUN', async () => {
    await assert.rejects(worldWith().engine.cancel('nothing'), { code: 'UNKNOWN_RUN' });
  });
});

describe('stop', () => {
  test('lets a run end, interrupts waiting ones, and accepts no more', async () => {
    const world = worldWith(DIGEST);
    const first = await world.startCalled(DIGEST);
    const second = await world.start(DIGEST);
    const stopped = world.engine.stop('automation', 60_000);
    assert.equal((await second.ended).state, 'interrupted');
    await assert.rejects(world.start(DIGEST), { code: 'OVERLOADED' });
    first.handler.returns();
    assert.equal((await first.ended).state, 'ok');
    await stopped;
  });

  test('interrupts runs that do not end in time', async () => {
    const world = worldWith(DIGEST);
    const { ended, handler } = await world.startCalled(DIGEST);
    await world.engine.stop('automation', 1);
    const { state, error } = await ended;
    assert.deepEqual([state, error?.code, handler.cancelled], ['interrupted', 'RUN_ABORTED', true]);
  });

  test('interrupts a run whose row is just being stored', async () => {
    const world = worldWith(DIGEST);
    const { open, until } = gate();
    world.ledger.held = { name: 'insert', until };
    const starting = world.start(DIGEST);
    const stopped = world.engine.stop('automation', 60_000);
    open();
    assert.equal((await (await starting).ended).state, 'interrupted');
    await stopped;
    assert.equal(world.calls.length, 0);
  });

  test('of some runs aborts them and leaves the others alone', async () => {
    const world = worldWith(DIGEST, 'other/digest');
    const [one, other] = [await world.startCalled(DIGEST), await world.startCalled('other/digest')];
    await world.engine.abort(({ record }) => record.app === 'todos', 'The app was removed.');
    assert.equal((await one.ended).state, 'aborted');
    other.handler.returns();
    assert.equal((await other.ended).state, 'ok');
  });
});

test('the runs of an app that moves end or are interrupted, and no others begin, not for a failure either', async () => {
  const world = worldWith(DIGEST, 'other/digest');
  world.add('todos/failing', { onFailure: 'todos/digest' });
  const ending = await world.startCalled(DIGEST);
  const failing = await world.startCalled('todos/failing');
  const other = await world.startCalled('other/digest');
  world.engine.refuse(['todos']);
  const released = world.engine.release(({ record }) => record.app === 'todos', 60_000);
  await assert.rejects(world.start(DIGEST), { code: 'STORAGE_UNAVAILABLE' });
  ending.handler.returns();
  failing.handler.throws();
  await released;
  assert.deepEqual([(await ending.ended).state, (await failing.ended).state], ['ok', 'error']);

  assert.equal(world.calls.length, 3);
  await world.engine.release(({ record }) => record.runId === other.run.runId, 0);
  assert.equal((await other.ended).state, 'interrupted');
  world.engine.serve(['todos']);
  assert.equal((await world.start(DIGEST)).run.state, 'running');
});
