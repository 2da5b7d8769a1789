import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ToolKind } from '../../../protocol/wire/frames.ts';
import { ADMIN_CALLER } from '../../../protocol/wire/handler-caller.ts';
import { Call, type CallReply, Deadlines, Mailbox } from './call.ts';

beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
afterEach(() => mock.timers.reset());

function setUp() {
  const state = { now: 1000, expired: [] as string[] };
  const deadlines = new Deadlines(() => state.now);
  const add = (name: string, inMs: number) => {
    const request = {
      kind: ToolKind.query,
      tool: name,
      body: Buffer.alloc(0),
      traceId: '',
      caller: ADMIN_CALLER,
      allowedMs: inMs,
    };
    const call = new Call(request, {} as CallReply, state.now);
    call.watch(deadlines, ({ request: { tool } }) => state.expired.push(tool));
    return call;
  };
  const look = (ms: number) => {
    state.now += ms;
    mock.timers.tick(20);
  };
  return { state, add, look };
}

test('due calls expire at the next sweep, once, and the others wait', () => {
  const { state, add, look } = setUp();
  add('soon', 15);
  add('later', 100);
  look(20);
  look(20);
  assert.deepEqual(state.expired, ['soon']);
});

test('after a pause of this process answers that have arrived are read before anything expires', () => {
  const { state, add, look } = setUp();
  const answered = add('answered', 5000);
  add('silent', 5000);
  look(10_000);
  assert.deepEqual(state.expired, []);
  answered.drop();
  look(20);
  assert.deepEqual(state.expired, ['silent']);
});

test('due calls expire even if the process is late at every sweep', () => {
  const { state, add, look } = setUp();
  add('due', 100);
  look(1000);
  look(1000);
  assert.deepEqual(state.expired, ['due']);
});

const item = (n: number) => ({ n, settled: false });

test('calls leave in the order in which they came', () => {
  const box = new Mailbox<ReturnType<typeof item>>(1000);
  for (let n = 0; n < 500; n++) box.push(item(n));
  for (let n = 0; n < 500; n++) assert.equal(box.shift()?.n, n);
  assert.equal(box.shift(), undefined);
});

test('a full mailbox refuses, and room made by settled calls is used', () => {
  const box = new Mailbox<ReturnType<typeof item>>(2);
  const first = item(1);
  assert.ok(box.push(first));
  assert.ok(box.push(item(2)));
  assert.equal(box.push(item(3)), false);
  first.settled = true;
  assert.ok(box.push(item(4)));
  assert.equal(box.shift()?.n, 2);
  assert.equal(box.shift()?.n, 4);
});

test('calls put back come first, even over the limit', () => {
  const box = new Mailbox<ReturnType<typeof item>>(1);
  box.push(item(3));
  box.putBack([item(1), item(2)]);
  assert.deepEqual(
    box.drain().map((c) => c.n),
    [1, 2, 3],
  );
  assert.equal(box.size, 0);
});

test('a call that left, or was settled while it waited, is not held: its request may be large', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const box = new Mailbox<{ settled: boolean; body: Buffer }>(1000);
  const bytes = (): number => {
    collect();
    // Buffers are freed beside the program; another collection waits for that.
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = bytes();
  for (let n = 0; n < 60; n++) {
    box.push({ settled: n % 2 === 0, body: Buffer.alloc(2 ** 20) });
    box.shift();
  }
  assert.equal(box.size, 0);
  assert.ok(bytes() - before < 2 ** 21, `${bytes() - before} bytes are held`);
});
