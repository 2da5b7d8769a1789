import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { inTurns, KeptArray } from './kept-array.ts';

test('the same entries have the same bytes; another entry, order or number has others', async () => {
  const array = new KeptArray('{"apps":', '}');
  const [a, b] = [{ id: 'a' }, { id: 'b' }];
  const bytes = await array.bytesOf([a, b]);
  assert.equal(bytes.toString(), '{"apps":[{"id":"a"},{"id":"b"}]}');
  assert.equal(await array.bytesOf([a, b]), bytes);
  for (const entries of [[b, a], [a], [], [a, { id: 'c' }], [a, b, a]]) {
    assert.equal((await array.bytesOf(entries)).toString(), JSON.stringify({ apps: entries }));
  }
  assert.equal(bytes.toString(), '{"apps":[{"id":"a"},{"id":"b"}]}');
});

test('only a new entry among many is encoded again', async (t) => {
  const array = new KeptArray();
  const entries: object[] = Array.from({ length: 2000 }, (_, i) => ({ id: i }));
  await array.bytesOf(entries);
  const stringify = t.mock.method(JSON, 'stringify');
  entries[1000] = { id: 'new' };
  const bytes = await array.bytesOf(entries);
  assert.equal(stringify.mock.callCount(), 1);
  stringify.mock.restore();
  assert.equal(bytes.toString(), JSON.stringify(entries));
});

test('long work lets the event loop go on, keeps its order, and waits for promises', async () => {
  let turns = 0;
  let isDone = false;
  const counting = (async () => {
    for (; !isDone; turns++) await nextTurn();
  })();
  const items = Array.from({ length: 320 }, (_, i) => i);
  const results = await inTurns(items, (item) => {
    for (const until = performance.now() + LIMITS.turnMs / 16; performance.now() < until; );
    return item % 3 === 0 ? Promise.resolve(item) : item;
  });
  isDone = true;
  await counting;
  assert.deepEqual(results, items);
  assert.ok(turns >= items.length / 32, `${turns} turns`);
});

test('the first rejection ends it', async () => {
  const fail = async (item: number) => {
    if (item === 20) throw new Error('twenty');
  };
  await assert.rejects(
    inTurns(
      Array.from({ length: 100 }, (_, i) => i),
      fail,
    ),
    /twenty/,
  );
});
