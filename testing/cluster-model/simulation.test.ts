import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { ClusterSimulation, type Scale } from './simulation.ts';

const SCALE: Scale = { nodes: 12, apps: 20_000, losses: 2, lostMessages: 0.02, lateMessages: 0.05, cuts: 1 };
const PLACED_MS = LIMITS.nodeLeaseMs + 5000;

test('after a loss everything is placed again in time and evenly, and no bucket ever has two owners', () => {
  for (let seed = 1; seed <= 3; seed++) {
    const outcome = new ClusterSimulation(seed, SCALE).run();
    assert.deepEqual(outcome.violations, [], `seed ${seed}`);
    assert.ok(outcome.placedMs <= PLACED_MS, `seed ${seed}: placed after ${outcome.placedMs} ms`);
    assert.ok(outcome.unevenBuckets <= 1.3, `seed ${seed}: ${outcome.unevenBuckets} × the mean`);
    assert.ok(outcome.unevenApps <= 1.3, `seed ${seed}: ${outcome.unevenApps} × the mean`);
    assert.ok(
      outcome.questionsAtRest <= SCALE.nodes * 1.5,
      `seed ${seed}: ${outcome.questionsAtRest} questions a second`,
    );
  }
});

test('nodes are cut off, and many messages are late or lost: nodes lose their leases, and still no bucket has two owners', () => {
  for (let seed = 1; seed <= 5; seed++) {
    const bad = { ...SCALE, nodes: 6, lostMessages: 0.1, lateMessages: 0.15, cuts: 6 };
    assert.deepEqual(new ClusterSimulation(seed, bad).run().violations, [], `seed ${seed}`);
  }
});

test('a seed replays', () => {
  const run = () => new ClusterSimulation(9, { ...SCALE, nodes: 4, losses: 1 }).run();
  assert.deepEqual(run(), run());
});
