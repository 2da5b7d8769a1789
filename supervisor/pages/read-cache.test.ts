import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReadCache } from './read-cache.ts';

/** A cache of 10 units that counts its reads; a value's size is its length. */
function setUp() {
  const reads: string[] = [];
  const cache = new ReadCache<string>(10, (value) => value.length);
  const get = (key: string, value: string) =>
    cache.get(key, async () => {
      reads.push(key);
      return value;
    });
  return { cache, reads, get };
}

test('reads once, then answers at once', async () => {
  const { reads, get } = setUp();
  const [first, second] = await Promise.all([get('a', 'one'), get('a', 'two')]);
  assert.deepEqual([first, second, await get('a', 'three'), reads], ['one', 'one', 'one', ['a']]);
});

test('drops the least recently used first', async () => {
  const { cache, reads, get } = setUp();
  await get('a', '1234');
  await get('b', '1234');
  await get('a', '1234');
  await get('c', '1234');
  assert.equal(cache.size, 8);
  assert.equal(await get('a', '1234'), '1234');
  await get('b', '1234');
  assert.deepEqual(reads, ['a', 'b', 'c', 'b']);
});

test('does not keep values larger than itself', async () => {
  const { cache, get } = setUp();
  await get('a', '1234');
  assert.equal(await get('b', '12345678901'), '12345678901');
  assert.equal(cache.size, 4);
});

test('keeps empty values', async () => {
  const { reads, get } = setUp();
  await get('a', '');
  assert.deepEqual([await get('a', 'other'), reads], ['', ['a']]);
});

test('forgets by prefix, also values being read', async () => {
  const { cache, reads, get } = setUp();
  await get('v1/a', '123');
  await get('v10/a', '123');
  const reading = get('v1/b', 'old');
  cache.forget('v1/');
  assert.equal(await reading, 'old');
  assert.equal(cache.size, 3);
  assert.equal(await get('v1/b', 'new'), 'new');
  assert.deepEqual(reads, ['v1/a', 'v10/a', 'v1/b', 'v1/b']);
});

test('a failed read is tried again', async () => {
  const { cache, get } = setUp();
  await assert.rejects(async () => cache.get('a', () => Promise.reject(new Error('disk'))), /disk/);
  assert.equal(await get('a', 'fine'), 'fine');
});
