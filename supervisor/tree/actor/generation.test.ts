import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { InFlight } from './generation.ts';

test('a call is found by its number until it is taken, and its number is never used again', () => {
  const calls = new InFlight<string>();
  const seen = new Set<number>();
  for (let round = 0; round < 500; round++) {
    const id = calls.add(`call ${round}`);
    assert.ok(!seen.has(id), `${id} was used before`);
    seen.add(id);
    assert.equal(calls.get(id), `call ${round}`);
    if (round % 3 === 0) continue;
    assert.equal(calls.take(id), `call ${round}`);
    assert.equal(calls.take(id), null);
    assert.equal(calls.get(id), null);
    for (const other of [...calls.values()].slice(5)) assert.ok(other.startsWith('call'), other);
    if (calls.size === LIMITS.actorConcurrency / 2) calls.drain();
  }
});

test('it holds as many calls as an actor may work on, and hands all of them back', () => {
  const calls = new InFlight<number>();
  const ids = Array.from({ length: LIMITS.actorConcurrency }, (_, n) => calls.add(n));
  assert.equal(calls.size, LIMITS.actorConcurrency);
  assert.throws(() => calls.add(0), RangeError);
  assert.deepEqual([...calls.values()], Array.from(ids.keys()));
  assert.deepEqual(calls.drain(), Array.from(ids.keys()));
  assert.equal(calls.size, 0);
  assert.deepEqual([...calls.values()], []);
  assert.equal(calls.get(ids[3] as number), null);
});

test('numbers that a thread invents match no call', () => {
  const calls = new InFlight<string>();
  calls.add('one');
  for (const id of [0, -1, 1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])
    assert.equal(calls.get(id), null, String(id));
});
