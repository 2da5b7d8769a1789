import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Mailbox } from './mailbox.ts';

const call = (n: number) => ({ n, settled: false });

test('calls leave in the order in which they came', () => {
  const box = new Mailbox<ReturnType<typeof call>>(1000);
  for (let n = 0; n < 500; n++) box.push(call(n));
  for (let n = 0; n < 500; n++) assert.equal(box.shift()?.n, n);
  assert.equal(box.shift(), undefined);
});

test('a full mailbox refuses, and room made by settled calls is used', () => {
  const box = new Mailbox<ReturnType<typeof call>>(2);
  const first = call(1);
  assert.ok(box.push(first));
  assert.ok(box.push(call(2)));
  assert.equal(box.push(call(3)), false);
  first.settled = true;
  assert.ok(box.push(call(4)));
  assert.equal(box.shift()?.n, 2);
  assert.equal(box.shift()?.n, 4);
});

test('calls put back come first, even over the limit', () => {
  const box = new Mailbox<ReturnType<typeof call>>(1);
  box.push(call(3));
  box.putBack([call(1), call(2)]);
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
