import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { InFlight } from './in-flight.ts';

/** Numbers that share slots, beside some that do not. */
const numbers = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 1, max: 40 }).map((n) => n * 64),
);
const steps = fc.array(fc.tuple(fc.constantFrom('set', 'delete'), numbers), { maxLength: 300 });

test('holds what a map holds, by increasing numbers', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const table = new InFlight<string>();
      const map = new Map<number, string>();
      for (const [at, [step, number]] of all.entries()) {
        if (step === 'set') {
          table.set(number, `${number} at ${at}`);
          map.set(number, `${number} at ${at}`);
        } else assert.equal(table.delete(number), map.delete(number));
        assert.equal(table.size, map.size);
        assert.equal(table.get(number), map.get(number));
      }
      for (let number = 1; number <= 40; number++) assert.equal(table.get(number * 64), map.get(number * 64));
      const expected = [...map].sort(([a], [b]) => a - b);
      assert.deepEqual(table.entries(), expected);
      assert.deepEqual(
        table.values(),
        expected.map(([, item]) => item),
      );
      table.clear();
      assert.equal(table.size, 0);
      assert.deepEqual(table.entries(), []);
    }),
  );
});

test('one that stays does not keep those that came and went after it', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
  const table = new InFlight<object>();
  for (let number = 1; number <= 40; number++) table.set(number, {});
  // Moves the table itself into V8's old space.
  for (let times = 0; times < 3; times++) collect({ type: 'minor' });
  const before = process.memoryUsage().heapUsed;
  for (let number = 41; number < 20_000; number++) {
    table.set(number, new Array(1000).fill(number));
    table.delete(number - 40);
  }
  for (let times = 0; times < 3; times++) collect({ type: 'minor' });
  const kept = process.memoryUsage().heapUsed - before;
  assert.ok(kept < 10 * 1024 * 1024, `${kept} bytes are kept`);
});
