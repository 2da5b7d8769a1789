// What happens to questions when processes come, die and are slow. The processes are played by the test.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { inTime } from '../../testing/waiting.ts';
import type { Child, ChildEvents } from './child.ts';
import { ChildClient, type Failure, type Question } from './child-client.ts';

class FakeChild {
  state = 'stopped';
  lastExit: string | null = null;
  revived = 0;
  readonly name = 'fake';
  readonly sent: Frame[] = [];
  readonly events: ChildEvents;

  constructor(events: ChildEvents) {
    this.events = events;
  }

  wake(): boolean {
    if (this.state === 'stopped') this.state = 'starting';
    return this.state !== 'failed';
  }
  send(frame: Frame): void {
    this.sent.push(frame);
  }
  revive(): void {
    this.revived++;
  }
  destroy(): void {
    this.state = 'stopping';
  }
  async stop(): Promise<void> {
    this.die('stopped', 'was asked to stop');
  }
  come(): void {
    this.state = 'running';
    this.events.onReady();
  }
  die(state: string, reason: string): void {
    this.state = state;
    this.lastExit = reason;
    this.events.onExit(reason);
  }
}

type Options = Partial<ConstructorParameters<typeof ChildClient>[0]>;

function setUp(options: Options = {}) {
  const children: FakeChild[] = [];
  const client = new ChildClient({
    title: 'The process',
    limits: { threads: { work: 8 }, waiting: 4 },
    createChild: (events) => {
      const child = new FakeChild(events);
      children.push(child);
      return child as unknown as Child;
    },
    ...options,
  });
  const whys: Failure[] = [];
  const ask = (more: Partial<Question> = {}) => {
    const asked = client.ask<string>({
      pool: 'work',
      party: null,
      frame: (id) => [Kind.ping, id],
      failed: (why, reason) => {
        whys.push(why);
        return new SvcError('OVERLOADED', `${why} ${reason}`.trim());
      },
      ...more,
    });
    asked.answer.catch(() => {});
    return asked;
  };
  const [child] = children as [FakeChild];
  return { client, child, children, ask, whys };
}

const settle = async () => {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
};

describe('a question', () => {
  test('starts the process, is sent once it runs, and gets its answer once', async () => {
    const { client, child, ask } = setUp();
    const { id, answer } = ask();
    assert.deepEqual([child.state, child.sent], ['starting', []]);
    child.come();
    assert.deepEqual(child.sent, [[Kind.ping, id]]);
    client.answer(id, 'done');
    client.answer(id, 'again');
    client.answer(id, new SvcError('INTERNAL', 'late'));
    assert.equal(await answer, 'done');
  });

  test('that is aborted is dropped before it is sent; later it is cancelled in the process, and its answer counts', async () => {
    const { client, child, ask } = setUp();
    const [first, second, third] = [1, 2, 3].map(() => new AbortController()) as [
      AbortController,
      AbortController,
      AbortController,
    ];
    const dropped = ask({ signal: first.signal });
    const kept = ask({ signal: second.signal });
    const left = ask({ signal: third.signal, leaves: true });
    first.abort();
    await assert.rejects(dropped.answer, { message: 'cancelled' });
    child.come();
    second.abort();
    third.abort();
    await assert.rejects(left.answer, { message: 'cancelled' });
    client.answer(kept.id, 'done');
    assert.equal(await kept.answer, 'done');
    assert.deepEqual(child.sent, [
      [Kind.ping, kept.id],
      [Kind.ping, left.id],
      [Kind.cancel, kept.id, 'cancelled'],
      [Kind.cancel, left.id, 'cancelled'],
    ]);
  });

  test('waits for a place where others run, and is refused where too many wait', async () => {
    const { client, child, ask } = setUp({ limits: { threads: { work: 1 }, waiting: 1 } });
    const [first, second] = [ask(), ask()];
    child.come();
    await assert.rejects(ask().answer, { message: 'full' });
    assert.deepEqual(child.sent, [[Kind.ping, first.id]]);
    client.answer(first.id, '');
    assert.deepEqual(child.sent.at(-1), [Kind.ping, second.id]);
  });

  test('that waits for too long fails, and makes room', async (t) => {
    const { child, ask } = setUp({ limits: { threads: { work: 1 }, waiting: 1 } });
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const placed = ask({ waitMs: 1000 });
    const next = ask();
    t.mock.timers.tick(1000);
    await assert.rejects(placed.answer, { message: 'waited' });
    child.come();
    assert.deepEqual(child.sent, [[Kind.ping, next.id]]);
    t.mock.timers.tick(1000);
    assert.equal(child.sent.length, 1);
  });

  test('that cannot be sent fails alone', async () => {
    const { child, ask } = setUp();
    child.come();
    const failing = ask({
      frame: () => {
        throw new Error('too large');
      },
    });
    await assert.rejects(failing.answer, { message: 'too-large' });
    const { id } = ask();
    assert.deepEqual(child.sent, [[Kind.ping, id]]);
  });
});

describe('a process that dies', () => {
  test('loses what it had, once what it left was cleaned up, also if that fails; the rest waits for the next one', async () => {
    const { client, child, ask } = setUp();
    let clean = (_error: Error): void => {};
    client.onExit(
      () =>
        new Promise((_resolve, reject) => {
          clean = reject;
        }),
    );
    child.come();
    const controller = new AbortController();
    const had = ask({ signal: controller.signal });
    let isLost = false;
    had.answer.catch(() => {
      isLost = true;
    });
    child.die('backoff', 'ended by SIGKILL');
    const next = ask();
    controller.abort();
    await settle();
    assert.equal(isLost, false, 'its processes may still write');
    child.come();
    assert.deepEqual(child.sent.at(-1), [Kind.ping, next.id]);
    clean(new Error('no /proc'));
    await assert.rejects(inTime(had.answer, 'the loss'), { message: 'lost ended by SIGKILL' });
  });

  test('has what may be repeated asked once more, alone where others were under way, and not a third time', async () => {
    const { child, ask } = setUp({ soleQuestionIsCause: true });
    child.come();
    const repeats = () => true;
    const both = [ask({ repeats }), ask({ repeats })] as const;
    child.die('backoff', 'crashed');
    assert.equal(child.revived, 0, 'either may be the culprit');
    child.come();
    assert.deepEqual(child.sent.slice(2), [[Kind.ping, both[0].id]]);
    child.die('backoff', 'crashed');
    assert.equal(child.revived, 1);
    await assert.rejects(both[0].answer, { message: 'lost crashed' });
    child.come();
    assert.deepEqual(child.sent.slice(3), [[Kind.ping, both[1].id]]);
  });

  test('of memory is not given its only question again', async () => {
    const { child, ask } = setUp();
    child.come();
    const { answer } = ask({ repeats: () => true });
    child.die('backoff', 'out of memory: it used more than 1 MiB');
    await assert.rejects(answer, { message: /^memory out of memory/ });
  });

  test('for good fails what it did not have yet, and what comes', async () => {
    const { client, child, ask } = setUp();
    const waiting = ask();
    child.die('failed', 'exited with code 1');
    await assert.rejects(waiting.answer, { message: 'down exited with code 1' });
    await assert.rejects(ask().answer, { message: 'down exited with code 1' });
    assert.equal(client.isDown, true);
  });

  test('while it was to stop, for want of work, is started again for what has come since', async () => {
    const { child, ask } = setUp();
    child.come();
    child.state = 'stopping';
    const { id } = ask();
    assert.deepEqual([child.state, child.sent], ['stopping', []]);
    child.die('stopped', 'was asked to stop');
    assert.equal(child.state, 'starting');
    child.come();
    assert.deepEqual(child.sent, [[Kind.ping, id]]);
  });
});

test('several processes have one question each; one that is late takes its process with it, and another takes over', async (t) => {
  const { children, ask } = setUp({
    processes: 3,
    perProcess: 1,
    lateEndsProcess: true,
    limits: { threads: { work: 2 }, waiting: 4 },
  });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const [one, other, spare] = children as [FakeChild, FakeChild, FakeChild];
  const late = ask({ answerMs: 1000 });
  one.come();
  assert.equal(other.state, 'stopped', 'none is started without need');
  const [second, third] = [ask(), ask()];
  other.come();
  assert.deepEqual([one.sent, other.sent], [[[Kind.ping, late.id]], [[Kind.ping, second.id]]]);
  assert.equal(spare.state, 'stopped', 'the others wait');
  for (let quarter = 0; quarter < 10; quarter++) t.mock.timers.tick(1000);
  await assert.rejects(late.answer, { message: 'late' });
  assert.equal(one.state, 'stopping');
  assert.equal(one.sent.length, 1);
  spare.come();
  assert.deepEqual(spare.sent, [[Kind.ping, third.id]]);
  one.die('stopped', 'the gateway ends');
  assert.equal(one.state, 'stopped');
});

test('at the end what runs may end with `drain`, and is refused without; later questions are refused', async () => {
  const drained = setUp({ limits: { threads: { work: 1 }, waiting: 4 } });
  drained.child.come();
  const [runs, waits] = [drained.ask(), drained.ask()];
  let isClosed = false;
  const closed = drained.client.close(0, { drain: true }).then(() => {
    isClosed = true;
  });
  await assert.rejects(waits.answer, { message: 'stopping' });
  await settle();
  assert.equal(isClosed, false);
  drained.client.answer(runs.id, 'done');
  await inTime(closed, 'the end');
  assert.equal(await runs.answer, 'done');
  const { client, child, ask } = setUp();
  child.come();
  const cut = ask();
  await client.close(0);
  await assert.rejects(cut.answer, { message: 'stopping' });
  await assert.rejects(ask().answer, { message: 'stopping' });
  assert.equal(child.state, 'stopped');
});

test('a frame of a kind that nobody hears is refused', () => {
  const { client, child } = setUp();
  client.on('result', () => {});
  child.events.onFrame([Kind.result, 1, 200, new Uint8Array(), 1]);
  assert.throws(() => child.events.onFrame([Kind.exited, 1, 'crash', '']), /The process may not send/);
});
