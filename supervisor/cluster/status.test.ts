import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BUCKETS } from '../../protocol/buckets.ts';
import type { NodeRow } from './directory.ts';
import { clusterStatus, type Known } from './status.ts';

const SETTINGS = { node: 'one', urls: ['postgres://svc:secret@a.example/svc', 'postgres://b.example/svc?password=x'] };
const row = (name: string, more: Partial<NodeRow> = {}): NodeRow => ({
  name,
  instance: 'i',
  address: `http://${name}.example`,
  version: '1.0.0',
  leaseUntil: '2026-01-01T00:00:03Z',
  started: '2026-01-01T00:00:00Z',
  draining: false,
  isLive: true,
  ...more,
});
/** One has the first half, two a quarter, nobody the rest. */
const KNOWN: Known = {
  nodes: [row('one'), row('two')],
  draining: false,
  leaseMs: 2000,
  databaseFault: null,
  ownerOf: (bucket) => ({ owner: bucket < BUCKETS / 2 ? 'one' : bucket < BUCKETS * 0.75 ? 'two' : null, epoch: 1 }),
};
const statesOf = (more: Partial<Known>) =>
  clusterStatus(SETTINGS, { ...KNOWN, ...more }).nodes.map(({ state }) => state);

test('nodes, what each owns and what nobody owns, and the database without its passwords', () => {
  assert.deepEqual(clusterStatus(SETTINGS, KNOWN), {
    node: 'one',
    nodes: [
      {
        name: 'one',
        address: 'http://one.example',
        version: '1.0.0',
        state: 'live',
        started: 1_767_225_600_000,
        buckets: BUCKETS / 2,
        self: true,
      },
      {
        name: 'two',
        address: 'http://two.example',
        version: '1.0.0',
        state: 'live',
        started: 1_767_225_600_000,
        buckets: BUCKETS / 4,
        self: false,
      },
    ],
    freeBuckets: BUCKETS / 4,
    database: { addresses: ['postgres://svc@a.example/svc', 'postgres://b.example/svc'], answers: true, error: null },
  });
  const { database } = clusterStatus(SETTINGS, { ...KNOWN, databaseFault: 'away' });
  assert.deepEqual([database?.answers, database?.error], [false, 'away']);
});

test('what a node knows of itself counts more than what the directory said last', () => {
  assert.deepEqual(statesOf({ draining: true }), ['draining', 'live']);
  assert.deepEqual(statesOf({ leaseMs: 0 }), ['gone', 'live']);
  assert.deepEqual(
    statesOf({ nodes: [row('one', { draining: true, isLive: false }), row('two', { draining: true })] }),
    ['live', 'draining'],
  );
  assert.deepEqual(statesOf({ nodes: [row('one'), row('two', { draining: true, isLive: false })] }), ['live', 'gone']);
});
