import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { StorePace } from './live-turn.ts';

test('few stores wait only for each other; with many, each has its own time', async (t) => {
  let now = 1000;
  t.mock.method(performance, 'now', () => now);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const pace = new StorePace();
  const few = Array.from({ length: LIMITS.chatStoreBurst + 1 }, () => pace.turn());
  await Promise.all(few);

  const done: number[] = [];
  const many = [1, 2, 3].map((i) => pace.turn().then(() => void done.push(i)));
  t.mock.timers.tick(2 * LIMITS.chatStoreEveryMs);
  await Promise.all(many.slice(0, 2));
  assert.deepEqual(done, [1, 2]);
  t.mock.timers.tick(LIMITS.chatStoreEveryMs);
  await many[2];

  // Time in which nothing was stored is not saved up.
  now += 60_000;
  await Promise.all(Array.from({ length: LIMITS.chatStoreBurst + 1 }, () => pace.turn()));
  const late = pace.turn();
  t.mock.timers.tick(LIMITS.chatStoreEveryMs);
  await late;
});
