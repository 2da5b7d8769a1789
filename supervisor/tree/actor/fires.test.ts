// Fires of automations on scripted threads: one at a time, what they ask, and how they end.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { type AskVerb, type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { settle, type Thread, version, World } from '../../../testing/scripted-host.ts';
import type { Actor } from './actor.ts';
import type { Call, CallReply } from './call.ts';

const LONG_MS = 300_000;

let world: World;

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  world = new World((ms) => mock.timers.tick(ms));
});
afterEach(() => mock.timers.reset());

function fire(actor: Actor, more: Partial<CallReply> = {}, allowedMs = LONG_MS) {
  return world.call(actor, { allowedMs, input: String(world.callers.length) }, more);
}

/** An automation's actor with a fire under way. */
async function firing(more: Partial<CallReply> = {}, actor = world.fireActor()) {
  const caller = fire(actor, more);
  const thread = await world.liveThread();
  return { actor, thread, caller };
}

function dispatched(thread: Thread): number {
  return thread.received.filter(([kind]) => kind === Kind.dispatch).length;
}

describe('fires of one automation', () => {
  test('come one at a time, in their order, on the same thread', async () => {
    const { actor, thread, caller } = await firing();
    const second = fire(actor);
    const third = fire(actor);
    assert.equal(dispatched(thread), 1);
    thread.answer(caller.call);
    assert.equal(dispatched(thread), 2);
    thread.answer(second.call);
    thread.answer(third.call);
    assert.deepEqual([second.answers, third.answers], [['200'], ['200']]);
    assert.equal(world.host.threads.length, 1);
  });

  test('are refused when too many wait', async () => {
    const { actor } = await firing();
    for (let n = 0; n < LIMITS.runsWaiting; n++) fire(actor);
    assert.match(fire(actor).answers[0] ?? '', /^OVERLOADED: 100 calls are already waiting for "app\/digest"/);
  });

  test('lose their thread a while after the end of the last fire', async () => {
    const { actor, thread, caller } = await firing();
    await world.pass(LIMITS.fireIdleMs + 100);
    thread.answer(caller.call);
    world.rotate();
    assert.equal(thread.stopAsked, null);
    await world.pass(LIMITS.fireIdleMs + 100);
    world.rotate();
    assert.equal(thread.stopAsked, 'politely');
    thread.end('stopped');
    assert.deepEqual([actor.vacant, world.retired], [true, ['idle']]);
  });

  test('have separate places, for which further fires wait and which they get in turn', async () => {
    world = new World((ms) => mock.timers.tick(ms), 1, 1);
    const app = world.actor();
    const query = world.call(app, { allowedMs: LONG_MS });
    (await world.liveThread()).answer(query.call);
    const { actor, thread, caller } = await firing();
    assert.equal(app.state, 'live', 'the app kept its thread');
    const next = fire(actor);
    const other = fire(world.fireActor('other'));
    await world.pass(3000);
    world.rotate();
    assert.deepEqual([thread.stopAsked, other.actor.state], [null, 'waiting']);
    thread.answer(caller.call);
    assert.equal(thread.stopAsked, 'politely');
    const otherThread = await world.liveThread();
    assert.equal(otherThread.generation.key, 'app/other');
    assert.equal(actor.state, 'waiting');
    otherThread.answer(other.call);
    thread.end('stopped');
    (await world.liveThread()).answer(next.call);
    assert.deepEqual([next.answers, other.answers], [['200'], ['200']]);
  });
});

describe('a new version', () => {
  test('lets a fire end on the old one, starts no thread before it is needed, and none beside the fire', async () => {
    const { actor, thread, caller } = await firing();
    actor.renew(version('v2'));
    const next = fire(actor);
    await world.pass(200_000);
    assert.deepEqual([thread.stopAsked, world.host.threads.length], [null, 1]);
    thread.answer(caller.call);
    assert.deepEqual([caller.answers, thread.stopAsked], [['200'], 'politely']);
    const newer = await world.liveThread();
    assert.deepEqual([newer.version, newer.generation.spec.automation], ['v2', 'digest']);
    newer.answer(next.call);
    assert.deepEqual(next.answers, ['200']);
  });

  test('ends a thread without work at once, and lifts a quarantine', async () => {
    const { actor, thread, caller } = await firing();
    thread.answer(caller.call);
    actor.renew(version('v2'));
    assert.equal(thread.stopAsked, 'politely');
    thread.end('stopped');
    assert.ok(actor.vacant, 'nothing is left');
    actor.quarantine('the test wants it');
    assert.match(fire(actor).answers[0] ?? '', /"app\/digest" is out of service.*POST \/svc\/_apps\/app\/restart/);
    actor.renew(version('v3'));
    const mended = fire(actor);
    (await world.liveThread()).answer(mended.call);
    assert.deepEqual(mended.answers, ['200']);
  });

  test('continues with waiting fires when the fire on the old one runs out of time', async () => {
    const { actor, thread, caller } = await firing({}, world.fireActor());
    actor.renew(version('v2'));
    const next = fire(actor, {}, 2 * LONG_MS);
    await world.pass(LONG_MS + 20);
    assert.match(caller.answers[0] ?? '', /"digest" timed out after 300 s/);
    assert.equal(thread.stopAsked, 'politely');
    (await world.liveThread()).answer(next.call);
    assert.deepEqual(next.answers, ['200']);
  });
});

describe('a fire', () => {
  test('runs as long as it may, longer than threads drain; then its thread is told, replaced, and ended', async () => {
    const { actor, thread, caller } = await firing();
    const next = fire(actor, {}, 2 * LONG_MS);
    await world.pass(LONG_MS - 100);
    assert.deepEqual([caller.answers, thread.stopAsked], [[], null]);
    await world.pass(200);
    assert.deepEqual([caller.answers.length, caller.unknown], [1, 1]);
    assert.deepEqual(thread.received.find(([kind]) => kind === Kind.cancel)?.[2], 'deadline');
    (await world.liveThread()).answer(next.call);
    assert.deepEqual(next.answers, ['200']);
    await world.pass(LIMITS.cancelGraceMs);
    assert.equal(thread.stopAsked, 'by force');
    await world.pass(LIMITS.terminateMs);
    assert.equal(world.host.killed, 1, 'a thread that cannot be ended takes its host along');
  });

  test('that is cancelled is answered at once, wherever it is', async () => {
    const { actor, thread, caller } = await firing();
    const waiting = fire(actor);
    const last = fire(actor);
    actor.cancel(waiting.call);
    actor.cancel(caller.call);
    actor.cancel(caller.call);
    assert.match(caller.answers[0] ?? '', /^HANDLER_ERROR: "digest" was cancelled\. Its outcome is unknown/);
    assert.deepEqual(waiting.answers, ['HANDLER_ERROR: "digest" was cancelled.']);
    assert.deepEqual(thread.received.find(([kind]) => kind === Kind.cancel)?.[2], 'cancelled');
    assert.equal(thread.stopAsked, 'politely');
    thread.answer(caller.call);
    (await world.liveThread()).answer(last.call);
    assert.deepEqual([caller.answers.length, last.answers], [1, ['200']]);
  });

  test('is answered once when its thread dies, is not repeated, and the next one gets another thread', async () => {
    const { actor, thread, caller } = await firing();
    const next = fire(actor);
    thread.end('memory');
    assert.match(caller.answers[0] ?? '', /ended while "digest" ran \(it ran out of memory\)\. Its outcome is unknown/);
    await world.pass(100);
    (await world.liveThread()).answer(next.call);
    assert.deepEqual([next.answers, actor.restarts], [['200'], 1]);
  });

  test('is answered when its app goes away', async () => {
    const { actor, thread, caller } = await firing();
    const waiting = fire(actor);
    const stopped = actor.stop('removed', LIMITS.cancelGraceMs);
    assert.match(waiting.answers[0] ?? '', /^UNKNOWN_APP/);
    await world.pass(LIMITS.cancelGraceMs);
    assert.equal(thread.stopAsked, 'by force');
    thread.end('stopped');
    await stopped;
    assert.match(caller.answers[0] ?? '', /the app was removed/);
  });

  test('takes the blame by its own name: its app is not touched', async () => {
    const app = world.actor();
    const query = world.call(app);
    const appThread = await world.liveThread();
    appThread.answer(query.call);
    let { actor, thread } = await firing();
    for (let n = 0; n <= LIMITS.harmTimes; n++) {
      actor.harmedOthers('it held up the test');
      thread.end('stopped');
      if (n === LIMITS.harmTimes) break;
      await world.pass(1000);
      ({ thread } = await firing({}, actor));
    }
    assert.deepEqual([actor.state, app.state, appThread.stopAsked], ['quarantined', 'live', null]);
    actor.restart();
    const mended = fire(actor);
    (await world.liveThread()).answer(mended.call);
    assert.deepEqual(mended.answers, ['200']);
  });
});

describe('what a fire asks', () => {
  type Asked = { verb: AskVerb; payload: string; answer: (ok: boolean, body: Uint8Array) => void };
  let asked: Asked[];
  const recording: Partial<CallReply> = {
    asked: (verb, payload, answer) => void asked.push({ verb, payload: Buffer.from(payload).toString(), answer }),
  };
  const ask = (askId: number, call: Call, verb: string = 'tool', payload: unknown = Buffer.from('{}')): Frame =>
    [Kind.ask, askId, call.id, verb, payload] as never;
  const answers = (thread: Thread): unknown[] =>
    thread.received.flatMap((frame) => (frame[0] === Kind.answer ? [[frame[1], frame[2], String(frame[3])]] : []));

  beforeEach(() => {
    asked = [];
  });

  test('reaches whoever made the call, and is answered once, in any order', async () => {
    const { thread, caller } = await firing(recording);
    thread.send(ask(1, caller.call, 'state.get', Buffer.from('{"key":"a"}')));
    thread.send(ask(5, caller.call, 'tool'));
    assert.deepEqual(
      asked.map(({ verb, payload }) => [verb, payload]),
      [
        ['state.get', '{"key":"a"}'],
        ['tool', '{}'],
      ],
    );
    asked[1]?.answer(false, Buffer.from('no'));
    asked[0]?.answer(true, Buffer.from('1'));
    asked[0]?.answer(true, Buffer.from('2'));
    assert.deepEqual(answers(thread), [
      [5, false, 'no'],
      [1, true, '1'],
    ]);
  });

  test('is not heard once the call was answered, and then gets no answer', async () => {
    const { actor, thread, caller } = await firing(recording);
    thread.send(ask(1, caller.call));
    actor.cancel(caller.call);
    assert.equal(thread.send(ask(2, caller.call)), null, 'it is no fault');
    asked[0]?.answer(true, Buffer.from('1'));
    assert.deepEqual([asked.length, answers(thread)], [1, []]);
  });

  test('is answered when whoever made the call is at fault, and the thread lives on', async () => {
    const { thread, caller } = await firing({
      asked: () => {
        throw new Error('a fault of the gateway');
      },
    });
    assert.equal(thread.send(ask(1, caller.call)), null);
    assert.match(String(caller.faults[0]), /a fault of the gateway/);
    assert.match(JSON.stringify(answers(thread)), /INTERNAL/);
    thread.answer(caller.call);
    assert.deepEqual(caller.answers, ['200']);
  });

  test('may reach the limit at a time, even if the previous fire left some open', async () => {
    const { actor, thread, caller } = await firing(recording);
    let id = 0;
    for (; id < LIMITS.runNodesAtOnce; ) assert.equal(thread.send(ask(++id, caller.call)), null);
    asked[0]?.answer(true, Buffer.from('1'));
    assert.equal(thread.send(ask(++id, caller.call)), null);
    thread.answer(caller.call);
    const next = fire(actor, recording);
    for (let n = 0; n < LIMITS.runNodesAtOnce; n++) assert.equal(thread.send(ask(++id, next.call)), null);
    // What the fire before left open is no room for this one.
    for (const { answer } of asked.slice(1, LIMITS.runNodesAtOnce)) answer(true, Buffer.from('1'));
    assert.match(String(thread.send(ask(++id, next.call))), /Too many questions/);
  });

  for (const [what, frame] of [
    ['a number that is none', (call: Call) => ask('1' as never, call)],
    ['a number that was used before', (call: Call) => ask(7, call)],
    ['a call that is not in flight', (call: Call) => ask(8, { id: call.id + 1 } as Call)],
    ['a call number that is none', () => ask(8, { id: Number.NaN } as Call)],
    ['a verb that is none', (call: Call) => ask(8, call, 'constructor')],
    ['arguments that are no bytes', (call: Call) => ask(8, call, 'tool', '{}')],
    ['more arguments than there may be', (call: Call) => ask(8, call, 'tool', Buffer.alloc(LIMITS.askBytes + 1))],
    ['a log line of a call number that is none', () => [Kind.log, '{}', '1'] as never],
  ] as const) {
    test(`closes the connection, and nothing else, when it has ${what}`, async () => {
      const { actor, thread, caller } = await firing(recording);
      assert.equal(thread.send(ask(7, caller.call)), null);
      assert.ok(thread.send(frame(caller.call)) instanceof Error, 'the frame was taken');
      await world.pass(LIMITS.cancelGraceMs);
      assert.equal(thread.stopAsked, 'by force');
      thread.end('stopped');
      assert.equal(caller.answers.length, 1);
      assert.equal(asked.length, 1);
      const next = fire(actor);
      await world.pass(100);
      (await world.liveThread()).answer(next.call);
      assert.deepEqual([next.answers, world.host.killed], [['200'], 0]);
    });
  }

  test('is not taken from a tool of an app', async () => {
    const { call } = world.call(world.actor());
    const thread = await world.liveThread();
    assert.match(String(thread.send(ask(1, call))), /a call that cannot ask/);
  });
});

test('log lines of a fire reach its followers, until it is answered', async () => {
  const lines: string[] = [];
  const { actor, thread, caller } = await firing({ logged: (line) => void lines.push(line) });
  thread.send([Kind.log, '{"msg":"one"}', caller.call.id]);
  thread.send([Kind.log, '{"msg":"of nobody"}']);
  thread.send([Kind.log, `"${'x'.repeat(LIMITS.logLineBytes)}"`, caller.call.id]);
  actor.cancel(caller.call);
  assert.equal(thread.send([Kind.log, '{"msg":"late"}', caller.call.id]), null);
  assert.equal(thread.send([Kind.log, '{"msg":"of an unknown call"}', 12_345]), null);
  await settle();
  assert.deepEqual(lines, ['{"msg":"one"}']);
  assert.equal(world.appLog.length, 5);
});
