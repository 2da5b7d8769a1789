import assert from 'node:assert/strict';
import { test } from 'node:test';
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
