import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { Look, NodeRow, Owned } from './directory.ts';
import { Member } from './member.ts';

const nodeRow = (name: string, { leaseUntil = 'a', isLive = true, draining = false } = {}): NodeRow => ({
  name,
  leaseUntil,
  isLive,
  draining,
  instance: name,
  address: `http://${name}.example`,
  version: '1.0.0',
  started: '',
});
const look = (nodes: NodeRow[], buckets: Owned[] | null): Look => ({ isRenewed: true, nodes, buckets });
const free = (count: number): Owned[] => Array.from({ length: count }, () => ({ owner: null, epoch: 0 }));

/** A member with all of four buckets at epoch 1, at the time 20. */
function owner(): Member {
  const member = new Member('one');
  member.joined(0);
  member.looked(look([nodeRow('one')], free(4)), 5, 10);
  const decision = member.decide(10);
  assert.deepEqual(
    decision.claim.map(({ bucket }) => bucket),
    [0, 1, 2, 3],
  );
  const claimed = decision.claim.map(({ bucket }) => ({ bucket, epoch: 1 }));
  assert.equal(member.claimed(claimed, decision, 20).length, 4);
  return member;
}

test('a node may serve what it claimed until its lease may have ended, whether or not somebody told it', () => {
  const member = owner();
  const end = 5 + LIMITS.nodeLeaseMs - LIMITS.nodeLeaseMarginMs;
  assert.equal(member.epochOf(2, end - 1), 1);
  assert.equal(member.epochOf(2, end), null);
  assert.deepEqual(member.decide(end).claim, []);
  assert.deepEqual(
    member.looked(look([nodeRow('one')], null), end - 1, end),
    [0, 1, 2, 3],
    'an answer that is too late',
  );
});

test('what a claim got whose answer comes after the end of the lease does not count, even if the node joined again', () => {
  const member = new Member('one');
  member.joined(0);
  member.looked(look([nodeRow('one')], free(4)), 5, 10);
  const decision = member.decide(10);
  member.end();
  member.joined(5000);
  assert.deepEqual(member.claimed([{ bucket: 0, epoch: 1 }], decision, 5010), []);
  assert.equal(member.epochOf(0, 5010), null);
});

test('a bucket that another has by the directory is lost at once', () => {
  const member = owner();
  const buckets = free(4).map((owned, bucket) =>
    bucket === 1 ? { owner: 'two', epoch: 2 } : { ...owned, owner: 'one', epoch: 1 },
  );
  assert.deepEqual(member.looked(look([nodeRow('one'), nodeRow('two')], buckets), 1000, 1010), [1]);
  assert.deepEqual(member.ownerOf(1), { owner: 'two', epoch: 2 });
});

test('a look that was sent before a change was answered does not undo it', () => {
  const member = owner();
  assert.deepEqual(member.looked(look([nodeRow('one')], free(4)), 15, 30), []);
  assert.equal(member.epochOf(3, 30), 1);
});

test('what an earlier run of the node owned is claimed before it is served', () => {
  const member = new Member('one');
  member.joined(0);
  const buckets = [{ owner: 'one', epoch: 7 }];
  member.looked(look([nodeRow('one')], buckets), 5, 10);
  assert.equal(member.epochOf(0, 10), null);
  assert.deepEqual(member.decide(10).claim, [{ bucket: 0, epoch: 7 }]);
});

test('a node that drains releases what it serves, gives what is quiet, and claims nothing', () => {
  const member = owner();
  member.draining = true;
  const buckets = free(5).map((owned, bucket) => (bucket === 4 ? owned : { owner: 'one', epoch: 1 }));
  member.looked(look([nodeRow('one'), nodeRow('two')], buckets), 1000, 1010);
  assert.deepEqual(member.decide(1010), { claim: [], release: [0, 1, 2, 3], give: [], isMoving: true, term: 0 });
  assert.equal(member.released(2), true);
  assert.equal(member.epochOf(2, 1010), null, 'it stops before it gives');
  assert.deepEqual(member.decide(1010).give, [{ bucket: 2, epoch: 1, to: 'two' }]);
});

test('a node that drains keeps what it has while no other node takes it, and takes what nobody has', () => {
  const member = owner();
  member.draining = true;
  const buckets = free(5).map((owned, bucket) => (bucket === 4 ? owned : { owner: 'one', epoch: 1 }));
  const alone = [nodeRow('one'), nodeRow('two', { draining: true })];
  member.looked(look(alone, buckets), 1000, 1010);
  const { claim, release, give } = member.decide(1010);
  assert.deepEqual([claim, release, give], [[{ bucket: 4, epoch: 0 }], [], []]);
  member.looked(look([...alone, nodeRow('three')], buckets), 1100, 1110);
  assert.deepEqual(member.decide(1110).release, [0, 1, 2, 3]);
});

test('a node that ends gives what no other node takes to nobody', () => {
  const member = owner();
  member.draining = true;
  member.leaving = true;
  const buckets = free(4).map(() => ({ owner: 'one', epoch: 1 }));
  member.looked(look([nodeRow('one')], buckets), 1000, 1010);
  assert.deepEqual(member.decide(1010).release, [0, 1, 2, 3]);
  member.released(0);
  assert.deepEqual(member.decide(1010).give, [{ bucket: 0, epoch: 1, to: null }]);
});

test('a bucket that is being handed over is not called back when the others have moved', () => {
  const nodes = ['one', 'two', 'three'].map((name) => nodeRow(name));
  const buckets = Array.from({ length: 300 }, (_, bucket) => ({ owner: bucket < 150 ? 'one' : 'two', epoch: 1 }));
  /** What the first node releases for the third one, of which `late` is the last that is quiet. */
  const lateOf = (late: number) => {
    const member = new Member('one');
    member.joined(0);
    const before = buckets.map(({ owner }) => ({ owner: owner === 'one' ? null : owner, epoch: 0 }));
    member.looked(look(nodes.slice(0, 2), before), 5, 10);
    const mine = Array.from({ length: 150 }, (_, bucket) => ({ bucket, epoch: 1 }));
    member.claimed(mine, member.decide(10), 20);
    member.looked(look(nodes, [...buckets]), 30, 40);
    const { release } = member.decide(40);
    for (const bucket of release) if (bucket !== release[late]) member.released(bucket);
    const decision = member.decide(50);
    member.gave(
      decision.give.map(({ bucket }) => ({ bucket, epoch: 2 })),
      decision,
      60,
    );
    const last = release[late] as number;
    member.released(last);
    const { claim, give } = member.decide(70);
    return { claim, give, last, count: release.length };
  };
  const { count } = lateOf(0);
  assert.ok(count > 10, String(count));
  for (let late = 0; late < count; late++) {
    const { claim, give, last } = lateOf(late);
    assert.deepEqual([claim, give], [[], [{ bucket: last, epoch: 1, to: 'three' }]]);
  }
});

test('buckets of a node without a lease are claimed when no renewal was seen for a whole lease', () => {
  const member = new Member('one');
  member.joined(0);
  const buckets = [{ owner: 'two', epoch: 3 }];
  const ended = nodeRow('two', { isLive: false });
  member.looked(look([nodeRow('one'), ended], buckets), 5, 10);
  const first = member.decide(10);
  assert.deepEqual([first.claim, first.isMoving], [[], true], 'the clock of the database may have been set');
  for (let at = 1000; at <= 3000; at += 1000) member.looked(look([nodeRow('one'), ended], null), at, at + 10);
  assert.deepEqual(member.decide(3011).claim, [{ bucket: 0, epoch: 3 }]);
});
