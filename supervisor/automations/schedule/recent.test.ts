import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Recent } from './recent.ts';

test('what was used lately is made once, and no more is kept than the limit', () => {
  const made: string[] = [];
  const recent = new Recent(4, (key) => made.push(key));
  for (const key of ['a', 'b', 'c', 'a', 'b', 'a', 'd', 'e', 'a']) recent.get(key);
  assert.deepEqual(made, ['a', 'b', 'c', 'd', 'e']);
  recent.get('f');
  recent.get('g');
  recent.get('c');
  assert.deepEqual(made, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'c']);
});

test('what could not be made is not kept', () => {
  let tries = 0;
  const recent = new Recent(2, () => {
    tries++;
    throw new Error('no');
  });
  assert.throws(() => recent.get('a'), /no/);
  assert.throws(() => recent.get('a'), /no/);
  assert.equal(tries, 2);
});
