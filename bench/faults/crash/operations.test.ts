/** What a short crash campaign crashes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../../testing/random.ts';
import { drawOperations, OPERATIONS } from './operations.ts';

function namesOf(seed: number): string[] {
  return drawOperations(OPERATIONS, new Random(seed)).map(({ name }) => name);
}

test('each seed draws an upload, an activation and a migration, the same ones each time, and all seeds everything', () => {
  const drawn = new Set<string>();
  for (let seed = 0; seed < 1000; seed++) {
    const names = namesOf(seed);
    assert.equal(new Set(names).size, 5);
    for (const kind of [/upload/, /activation|rollback|publi/, /migration/])
      assert.ok(
        names.some((name) => kind.test(name)),
        `seed ${seed}: ${names}`,
      );
    assert.deepEqual(namesOf(seed), names);
    for (const name of names) drawn.add(name);
  }
  assert.deepEqual([...drawn].sort(), OPERATIONS.map(({ name }) => name).sort());
});
