// The races of an actor's life, one by one at the level of frames; and a random walk through all of them.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { Kind } from '../../../protocol/wire/frames.ts';
import { settle, type Thread, version, World } from '../../../testing/scripted-host.ts';
import type { Actor } from './actor.ts';

let world: World;

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  world = new World((ms) => mock.timers.tick(ms));
});
afterEach(() => mock.timers.reset());

/** An actor with a live thread. */
async function liveActor(app?: string): Promise<{ actor: Actor; thread: Thread }> {
  const actor = world.actor(app);
  const { call } = world.call(actor);
  const thread = await world.liveThread();
  thread.answer(call);
  return { actor, thread };
}

function callsAsked(thread: Thread): number {
  return thread.received.filter(([kind]) => kind === Kind.dispatch).length;
}

describe('many apps called at once', () => {
  test('start a few at a time, and the time of those that wait has not begun', async () => {
    const apps = Array.from({ length: LIMITS.startsAtOnce + 2 }, (_, i) => `app-${i}`);
    const callers = apps.map((app) => world.call(world.actor(app), { allowedMs: 60_000 }));
    const names = (): string[] => world.host.running.map(({ generation }) => generation.spec.app);
    await settle();
    assert.deepEqual(names(), apps.slice(0, LIMITS.startsAtOnce));
    await world.pass(LIMITS.actorStartMs - 100);
    const [first, second, ...others] = world.host.running as [Thread, Thread, ...Thread[]];
    first.ready();
    await settle();
    assert.deepEqual(names().at(-1), apps.at(-2), 'one that is ready makes place');
    second.end('failed_to_start');
    await settle();
    assert.deepEqual(names().at(-1), apps.at(-1), 'and one that fails');
    for (const thread of others) thread.ready();
    await world.pass(LIMITS.actorStartMs - 100);
    for (const thread of world.host.running.slice(-3)) thread.ready();
    await settle();
    for (const thread of world.host.running)
      for (const call of thread.generation.inFlight.values()) thread.answer(call);
    assert.deepEqual(
      callers.map(({ answers }) => answers),
      apps.map(() => ['200']),
    );
  });

  test('start when the host that died while they waited is back', async () => {
    const apps = Array.from({ length: LIMITS.startsAtOnce + 2 }, (_, i) => `app-${i}`);
    for (const app of apps) world.call(world.actor(app), { allowedMs: 60_000 });
    await settle();
    world.host.die();
    await settle();
    world.host.comeUp();
    await settle();
    assert.equal(world.host.running.length, LIMITS.startsAtOnce);
    for (const thread of world.host.running) thread.ready();
    await settle();
    assert.equal(world.host.running.length, apps.length);
  });
});

describe('a newer version', () => {
  test('that is starting takes over at once when the old thread dies, and no other thread is started', async () => {
    const { actor, thread } = await liveActor();
    const swapped = actor.swap(version('v2'));
    const waiting = world.call(actor, { input: '1' });
    thread.end();
    await swapped;
    await world.pass(10_000 - 20);
    assert.deepEqual(
      world.host.running.map((running) => running.version),
      ['v2'],
    );
    assert.match(waiting.answers[0] ?? '', /the thread that ran it had ended \(crash: as the test wants it\)/);
    const next = world.call(actor);
    (await world.liveThread()).answer(next.call);
    assert.deepEqual(next.answers, ['200']);
    await world.pass(10_000);
    assert.equal(world.host.running.length, 1);
  });

  test('that does not start gives its calls the reason, and is given up after three tries', async () => {
    const { actor, thread } = await liveActor();
    const swapped = actor.swap(version('v2'));
    (await world.thread()).end('failed_to_start');
    await swapped;
    assert.equal(thread.stopAsked, 'politely');
    const call = world.call(actor, { allowedMs: 60_000 });
    for (let tries = 1; tries < LIMITS.startTries; tries++) {
      await world.pass(1000);
      const again = await world.thread();
      assert.equal(again.version, 'v2');
      again.end('failed_to_start');
    }
    assert.equal(actor.state, 'failed_to_start');
    assert.match(
      call.answers[0] ?? '',
      /^QUARANTINED: "app" is out of service: it does not start \(crash: as the test wants it\)/,
    );
  });

  test('leaves the calls of the old one the time that they were given', async () => {
    const { actor, thread } = await liveActor();
    const long = world.call(actor, { action: true, allowedMs: 60_000 });
    const swapped = actor.swap(version('v2'));
    await world.liveThread();
    await swapped;
    await world.pass(50_000);
    assert.equal(thread.stopAsked, null);
    thread.answer(long.call, 201);
    assert.deepEqual(long.answers, ['201']);
    assert.equal(thread.stopAsked, 'politely');
  });

  test('replaces one that has not left its mark yet: of two in a row the last one serves', async () => {
    const { actor } = await liveActor();
    const first = actor.swap(version('v2'));
    const second = actor.swap(version('v3'));
    await first;
    await world.liveThread();
    await second;
    assert.equal(actor.summary.versionId, 'v3');
  });
});

describe('a thread that was not started yet, because its host is down', () => {
  test('is given up for a restart, and one thread is started when the host is back', async () => {
    const actor = world.actor();
    world.host.state = 'backoff';
    const waiting = world.call(actor, { allowedMs: 60_000 });
    actor.restart();
    await actor.swap(version('v2'));
    await world.pass(10_000);
    world.host.comeUp();
    (await world.liveThread()).answer(waiting.call);
    assert.deepEqual(waiting.answers, ['200']);
    await world.pass(10_000);
    assert.equal(world.host.threads.length, 1);
    assert.equal(actor.restarts, 0);
  });

  test('is gone at once when the app is removed', async () => {
    const actor = world.actor();
    world.host.state = 'backoff';
    const waiting = world.call(actor);
    await actor.stop('removed', 1000);
    assert.equal(actor.state, 'stopped');
    assert.match(waiting.answers[0] ?? '', /^UNKNOWN_APP/);
    await world.pass(10_000);
    assert.equal(actor.state, 'stopped');
  });
});

describe('a call', () => {
  test('whose answer came before the end of its thread keeps it, even if the host reported the end first', async () => {
    const { actor, thread } = await liveActor();
    const action = world.call(actor, { action: true });
    thread.exited();
    thread.answer(action.call, 201);
    thread.disconnect();
    assert.deepEqual([action.answers, action.unknown], [['201'], 0]);
  });

  test('is not sent to a thread whose connection is lost', async () => {
    const { actor, thread } = await liveActor();
    thread.disconnect();
    const action = world.call(actor, { action: true, allowedMs: 20_000 });
    thread.exited();
    await world.pass(100);
    (await world.liveThread()).answer(action.call, 201);
    assert.deepEqual(action.answers, ['201']);
  });

  test('of a client that has gone before it came is not run', async () => {
    const { actor, thread } = await liveActor();
    const asked = callsAsked(thread);
    const caller = world.call(actor);
    caller.call.drop();
    actor.submit(caller.call);
    await world.pass(2000);
    assert.deepEqual([callsAsked(thread), caller.answers], [asked + 1, []]);
  });

  test('runs twice at most: a query whose second thread dies too is answered', async () => {
    const { actor, thread } = await liveActor();
    const query = world.call(actor, { allowedMs: 60_000 });
    thread.end('memory');
    await world.pass(1000);
    (await world.liveThread()).end('memory');
    assert.match(query.answers[0] ?? '', /^HANDLER_ERROR: .*ended while "tool" ran \(it ran out of memory\)/);
    assert.equal(actor.lastExit, 'memory: as the test wants it');
  });

  test('that was repeated when the app is given up is answered', async () => {
    const { actor } = await liveActor();
    const query = world.call(actor, { allowedMs: 60_000 });
    actor.quarantine('the test wants it');
    (await world.thread()).end();
    assert.match(query.answers[0] ?? '', /^QUARANTINED/);
  });
});

describe('invalid answers end the connection, and the call is still answered', () => {
  for (const [what, frame] of [
    ['a status outside HTTP', [Kind.result, 2, 99_999, Buffer.from('1'), 1]],
    ['a body that is not bytes', [Kind.result, 2, 200, 'text', 1]],
    ['no time', [Kind.result, 2, 200, Buffer.from('1')]],
    ['an error without a body', [Kind.error, 2, null, 1]],
    ['an error without a message', [Kind.error, 2, { code: 'HANDLER_ERROR' }, 1]],
    ['an error with a path that is no text', [Kind.error, 2, { code: 'X', message: '', path: 1n }, 1]],
    ['an error with issues that are no list', [Kind.error, 2, { code: 'X', message: '', issues: { length: 1 } }, 1]],
    [
      'an error with an issue that JSON cannot say',
      [Kind.error, 2, { code: 'X', message: '', issues: [{ path: '', message: 2n ** 60n, keyword: '' }] }, 1],
    ],
    [
      'an error with more issues than there may be',
      [
        Kind.error,
        2,
        { code: 'X', message: '', issues: new Array(999).fill({ path: '', message: '', keyword: '' }) },
        1,
      ],
    ],
    ['statistics that are none', [Kind.pong, 1, null]],
    ['a kind that actors do not send', [Kind.stuck, 'app', 1]],
  ] as const) {
    test(what, async () => {
      const { actor, thread } = await liveActor();
      const action = world.call(actor, { action: true, allowedMs: 60_000 });
      assert.ok(thread.send(frame as never) instanceof Error, 'the frame was taken');
      await world.pass(LIMITS.cancelGraceMs);
      assert.equal(thread.stopAsked, 'by force');
      thread.end('stopped');
      assert.match(action.answers[0] ?? '', /outcome is unknown/);
      assert.equal(action.unknown, 1);
    });
  }

  test('a reply that throws gets an error, and the thread lives on', async () => {
    const { actor, thread } = await liveActor();
    const caller = world.call(actor);
    caller.call.reply.result = () => {
      throw new Error('a fault of the route');
    };
    assert.equal(thread.answer(caller.call), null);
    assert.match(String(caller.faults[0]), /a fault of the route/);
    assert.equal(actor.state, 'live');
  });
});

describe('harm to others', () => {
  test('ends the thread, and quarantines an app that does it again and again, with any input', async () => {
    const { actor, thread } = await liveActor();
    let current = thread;
    for (let n = 0; n < LIMITS.harmTimes; n++) {
      world.call(actor, { action: true, input: String(n) });
      actor.harmedOthers('it held up the test');
      assert.equal(current.stopAsked, 'by force');
      current.end('stopped');
      assert.equal(actor.lastExit, 'unresponsive: it held up the test');
      const next = world.call(actor);
      await world.pass(1000);
      current = await world.liveThread();
      current.answer(next.call);
    }
    actor.harmedOthers('it held up the test');
    assert.equal(actor.state, 'quarantined');
    const refused = world.call(actor);
    assert.match(
      refused.answers[0] ?? '',
      /^QUARANTINED: "app" is out of service: it held up other apps .*held up the test/,
    );
    await actor.swap(version('v2'));
    const mended = world.call(actor);
    (await world.liveThread()).answer(mended.call);
    assert.deepEqual(mended.answers, ['200']);
  });
});

describe('calls that never end', () => {
  test('do not keep a place that another app waits for, nor the thread of an unused app', async () => {
    world = new World((ms) => mock.timers.tick(ms), 1);
    const { actor, thread } = await liveActor('stuck');
    const stuck = world.call(actor, { allowedMs: 1000 });
    const other = world.call(world.actor('other'), { allowedMs: 5000 });
    await world.pass(1020);
    assert.match(stuck.answers[0] ?? '', /timed out after 1 s/);
    assert.equal(thread.stopAsked, 'politely');
    (await world.liveThread()).answer(other.call);
    assert.deepEqual(other.answers, ['200']);
    assert.equal(world.host.killed, 0);
  });

  test('end with their thread when half of its places are taken by them', async () => {
    const { actor, thread } = await liveActor();
    for (let n = 0; n < LIMITS.actorConcurrency / 2; n++) world.call(actor);
    await world.pass(500);
    assert.equal(thread.stopAsked, null);
    thread.send([Kind.pong, 99, { heapUsed: 1 }]);
    await world.pass(520);
    assert.ok(thread.stopAsked, 'the thread was kept');
  });

  test('are no poison while their thread reacts: the next thread takes many calls at once', async () => {
    const { actor, thread } = await liveActor();
    for (let n = 0; n < LIMITS.actorConcurrency / 2; n++) world.call(actor);
    await world.pass(1020);
    thread.send([Kind.pong, 99, { heapUsed: 1 }]);
    thread.end('stopped');
    for (let n = 0; n < 4; n++) world.call(actor);
    assert.equal(callsAsked(await world.liveThread()), 4);
  });

  test('have their thread replaced when they run on, also when its event loop answers: the app says why', async () => {
    const { actor, thread } = await liveActor();
    const stuck = world.call(actor);
    const long = world.call(actor, { allowedMs: 60_000 });
    await world.pass(1020);
    thread.send([Kind.pong, 99, { heapUsed: 1 }]);
    await world.pass(LIMITS.overdueMs - 40);
    assert.equal(actor.generations.length, 1);
    await world.pass(60);
    assert.deepEqual([actor.lastExit, actor.state], ['deadline: "tool" ran on after its time was up', 'idle']);
    assert.equal(thread.stopAsked, null, 'the other call may end');
    thread.answer(long.call);
    assert.equal(thread.stopAsked, 'politely');
    assert.match(stuck.answers[0] ?? '', /timed out/);
    assert.deepEqual(
      world.appLog.map(({ level, tool, msg }) => [level, tool, msg]),
      [
        ['error', 'tool', '"tool" timed out after 1 s.'],
        ['error', 'tool', '"tool" ran on after its time was up; its thread is replaced'],
      ],
    );
  });

  test('that ended in time leave their thread alone', async () => {
    const { actor, thread } = await liveActor();
    const { call } = world.call(actor);
    await world.pass(1020);
    thread.send([Kind.pong, 99, { heapUsed: 1 }]);
    thread.answer(call);
    await world.pass(LIMITS.overdueMs);
    assert.deepEqual([actor.state, thread.stopAsked], ['live', null]);
  });

  test('a pause of the supervisor itself, while it waits for a thread to react, is not held against the thread', async () => {
    const { actor, thread } = await liveActor();
    world.call(actor);
    await world.pass(1020);
    world.now += 10_000;
    await world.pass(LIMITS.cancelGraceMs);
    assert.equal(thread.stopAsked, null);
    const ping = thread.received.findLast((frame) => frame[0] === Kind.ping);
    thread.send([Kind.pong, ping?.[1] as number, { heapUsed: 1 }]);
    await world.pass(3 * LIMITS.cancelGraceMs);
    assert.equal(thread.stopAsked, null);
  });

  test('a pong that was on its way before the deadline does not prove that the thread reacts', async () => {
    const { actor, thread } = await liveActor();
    const [generation] = actor.generations;
    void generation?.refreshStats(10_000);
    world.call(actor);
    await world.pass(1020);
    thread.send([Kind.pong, 1, { heapUsed: 1 }]);
    await world.pass(LIMITS.cancelGraceMs);
    assert.equal(thread.stopAsked, 'by force');
    await world.pass(LIMITS.terminateMs);
    assert.equal(world.host.killed, 1);
  });
});

describe('places', () => {
  test('go on when the calls that an app was started for are gone', async () => {
    world = new World((ms) => mock.timers.tick(ms), 1);
    const first = world.actor('first');
    const gone = world.call(first, { allowedMs: 60_000 });
    const other = world.call(world.actor('other'), { allowedMs: 60_000 });
    first.abandon(gone.call);
    await world.liveThread();
    (await world.liveThread()).answer(other.call);
    assert.deepEqual([gone.answers, other.answers], [[], ['200']]);
  });

  test('are shared in turns by apps that never rest', async () => {
    world = new World((ms) => mock.timers.tick(ms), 1);
    const busy = await liveActor('busy');
    const running = world.call(busy.actor, { allowedMs: 60_000 });
    const other = world.call(world.actor('other'), { allowedMs: 60_000 });
    world.rotate();
    (await world.liveThread()).answer(other.call);
    assert.deepEqual(other.answers, ['200']);
    busy.thread.answer(running.call);
    assert.deepEqual(running.answers, ['200']);
  });
});

/** A generator of numbers in [0, 1) that a seed replays. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe('any events in any order', () => {
  for (let seed = 1; seed <= 40; seed++) {
    test(`every call is answered once, and no thread is forgotten (seed ${seed})`, async () => {
      const random = seeded(seed);
      const some = <T>(items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)];
      world = new World((ms) => mock.timers.tick(ms), 2, 1, 20);
      const actors = ['a', 'b', 'c', 'd'].map((app) => world.actor(app));
      actors.push(world.fireActor('e'), world.fireActor('f'));
      const any = () => some(actors) as Actor;
      let versions = 1;
      const moves: (() => unknown)[] = [
        () => world.call(any(), { action: random() < 0.5, allowedMs: 50 + random() * 3000, input: some(['1', '2']) }),
        () => world.call(any(), { allowedMs: 20_000 }),
        () => some(world.host.running)?.ready(),
        () => some(world.host.running)?.ready(),
        () => answerOne(random() < 0.8),
        () => answerOne(true),
        () => some(world.host.running)?.end(some(['crash', 'memory', 'failed_to_start'])),
        () => some(world.host.running)?.disconnect(),
        () => some(world.host.running.filter((thread) => thread.stopAsked))?.end('stopped'),
        () => some(world.host.running.filter((thread) => thread.stopAsked))?.end('stopped'),
        () => random() < 0.2 && world.host.die(),
        () => world.host.state === 'backoff' && world.host.comeUp(),
        () => void renewOrSwap(any(), version(`v${++versions}`)),
        () => random() < 0.3 && cancelOne(),
        () => random() < 0.3 && any().restart(),
        () => any().evict('idle'),
        () => random() < 0.2 && any().harmedOthers('the test wants it'),
        () => random() < 0.1 && any().quarantine('the test wants it'),
        () => world.rotate(),
        () => abandonOne(),
        () => world.pass(random() * 100),
        () => random() < 0.3 && world.pass(random() * 5000),
      ];
      const abandoned = new Set<unknown>();
      const abandonOne = () => {
        const caller = some(world.callers.filter(({ call }) => !call.settled));
        caller?.actor.abandon(caller.call);
        if (caller?.call.settled) abandoned.add(caller);
      };
      const cancelOne = () => {
        const caller = some(world.callers.filter(({ call }) => !call.settled));
        caller?.actor.cancel(caller.call);
      };
      const answerOne = (well: boolean) => {
        const thread = some(world.host.running.filter(({ generation }) => generation.inFlight.size > 0));
        const call = some([...(thread?.generation.inFlight.values() ?? [])]);
        if (!thread || !call) return;
        if (well) thread.answer(call);
        else thread.send([Kind.error, call.id, { code: 'HANDLER_ERROR', message: 'no' }, 1]);
      };
      for (let step = 0, kills = 0; step < 400; step++) {
        await some(moves)?.();
        await settle();
        if (world.host.killed > kills) {
          kills = world.host.killed;
          world.host.die();
        }
        checkThreads(actors);
      }
      // Peace: threads do as they are told, and whatever still waits runs out of time.
      if (world.host.state === 'backoff') world.host.comeUp();
      for (let n = 0; n < 60; n++) {
        await world.pass(500);
        for (const thread of world.host.running) if (thread.stopAsked) thread.end('stopped');
        checkThreads(actors);
      }
      for (const caller of world.callers) {
        const expected = abandoned.has(caller) ? 0 : 1;
        assert.equal(caller.answers.length, expected, `${JSON.stringify(caller.answers)} of call ${caller.call.id}`);
        assert.deepEqual(caller.faults, []);
      }
      const stopped = Promise.all(actors.map((actor) => actor.stop('shutdown', 0)));
      await world.pass(20);
      for (const thread of world.host.running) thread.end('stopped');
      await stopped;
      await world.pass(10_000);
      assert.equal(world.host.running.length, 0);
    });
  }
});

/** A new version comes to the actor of an app or of an automation. */
function renewOrSwap(actor: Actor, summary: ReturnType<typeof version>): unknown {
  return actor.automation === null ? actor.swap(summary) : actor.renew(summary);
}

/** Each thread that runs is one that its actor knows, or one that was told to end. */
function checkThreads(actors: Actor[]): void {
  const known = new Set(actors.flatMap((actor) => actor.generations));
  for (const thread of world.host.running) {
    assert.ok(known.has(thread.generation) || thread.generation.state === 'gone', 'a thread was forgotten');
  }
  for (const actor of actors) {
    if (actor.automation !== null) {
      const calls = actor.generations.flatMap(({ inFlight }) => [...inFlight.values()]);
      assert.ok(calls.filter(({ settled }) => !settled).length <= 1, 'two fires overlap');
      continue;
    }
    assert.equal(actor.state === 'live' || actor.state === 'starting', actor.occupied, `${actor.app}: ${actor.state}`);
  }
}
