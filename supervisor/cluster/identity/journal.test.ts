import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { inTime, LIMIT_MS } from '../../../testing/waiting.ts';
import { Journal, type Told } from './journal.ts';

const told = (...names: string[]): Told[] => names.map((name) => [name]);
const names = (journal: Journal, epoch: number, number: number) =>
  journal.since({ epoch, number })?.told.map(([name]) => name) ?? null;

test('what came after a place is told, and nothing for a place that is not known', () => {
  const journal = new Journal({ epoch: 3, number: 7 });
  journal.add(told('a', 'b'));
  assert.deepEqual(journal.since({ epoch: 3, number: 8 }), { told: [['b']], place: { epoch: 3, number: 9 } });
  assert.deepEqual(
    [7, 9].map((number) => names(journal, 3, number)),
    [['a', 'b'], []],
  );
  for (const [epoch, number] of [
    [3, 6],
    [3, 10],
    [2, 8],
    [4, 8],
  ] as const)
    assert.equal(names(journal, epoch, number), null);
});

test('a new owner tells what the one before it told, and what that one stored last', () => {
  const journal = new Journal({ epoch: 1, number: 0 });
  journal.follow(told('a', 'b'), { epoch: 1, number: 2 });
  journal.follow(told('c'), { epoch: 1, number: 3 });
  journal.begin(2);
  journal.add(told('found'));
  assert.deepEqual(names(journal, 1, 1), ['b', 'c', 'found']);
  assert.deepEqual(journal.place, { epoch: 2, number: 4 });
  // It knew a change that this node missed.
  assert.equal(names(journal, 1, 4), null);
});

test('where an epoch ended that this node did not see end, nothing is known of it', () => {
  const journal = new Journal({ epoch: 1, number: 0 });
  journal.follow(told('a', 'b'), { epoch: 2, number: 2 });
  journal.begin(3);
  assert.equal(names(journal, 1, 1), null);
  assert.deepEqual(names(journal, 2, 1), ['b']);
});

test('only the latest changes are kept, and told in pieces', () => {
  const journal = new Journal({ epoch: 1, number: 0 });
  const all = told(...Array.from({ length: 2 * LIMITS.identityChanges + 1 }, (_, i) => `${i}`));
  journal.add(all);
  assert.equal(names(journal, 1, LIMITS.identityChanges), null);
  const first = journal.since({ epoch: 1, number: LIMITS.identityChanges + 1 });
  assert.equal(first?.told.length, LIMITS.identityChangesAtOnce);
  const next = journal.since(first.place);
  assert.deepEqual(next?.told[0], [`${LIMITS.identityChanges + 1 + LIMITS.identityChangesAtOnce}`]);
});

test('who waits for a change gets it at once, and does not wait for one that is there', async () => {
  const journal = new Journal({ epoch: 1, number: 0 });
  await inTime(journal.after({ epoch: 1, number: 4 }, LIMIT_MS), 'an answer at once');
  const waiting = journal.after(journal.place, LIMIT_MS);
  journal.add(told('a'));
  await inTime(waiting, 'the change');
});
