import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatementCache } from './statements.ts';

test('used statements stay, unused ones are dropped', () => {
  const cache = new StatementCache<number>(4);
  for (let i = 0; i < 10; i++) {
    cache.set(`once ${i}`, i);
    if (i === 0) cache.set('often', -1);
    assert.equal(cache.get('often'), -1);
  }
  assert.equal(cache.get('once 0'), undefined);
  assert.equal(cache.get('once 9'), 9);
});
