import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { RunIds } from './run-id.ts';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test('an id is a UUID of version 7 that holds the time', () => {
  const now = 1_700_000_000_123;
  const id = new RunIds(() => now, randomBytes).next();
  assert.match(id, UUID_V7);
  assert.equal(Number.parseInt(id.slice(0, 13).replace('-', ''), 16), now);
});

test('ids grow within a millisecond, past its last count, and while the clock goes back', () => {
  let now = 1_700_000_000_000;
  const ids = new RunIds(() => now, randomBytes);
  const made: string[] = [];
  for (let i = 0; i < 10_000; i++) made.push(ids.next());
  now -= 60_000;
  for (let i = 0; i < 100; i++) made.push(ids.next());
  now += 120_000;
  made.push(ids.next());
  assert.ok(
    made.every((id) => UUID_V7.test(id)),
    'every one is well formed',
  );
  assert.deepEqual([...made].sort(), made);
  assert.equal(new Set(made).size, made.length);
});

test('the same clock and randomness make the same ids', () => {
  const make = () =>
    new RunIds(
      () => 1_700_000_000_000,
      (bytes) => Buffer.alloc(bytes, 0xff),
    );
  const [one, other] = [make(), make()];
  assert.deepEqual([one.next(), one.next()], [other.next(), other.next()]);
});
