import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { BUCKETS } from '../../protocol/buckets.ts';
import { Database } from '../../storage/cluster/database.ts';
import { Layout } from '../../storage/layout.ts';
import type { Subject } from '../../storage/shared-files/subjects.ts';
import { QUIET, SECRET, signal } from '../../testing/cluster-nodes.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { ClusterNode } from './node.ts';

const skip = whyNoPostgres() ?? false;

test('a node that gets a bucket again before it has let go of it serves and writes it after that', {
  skip,
}, async (t) => {
  const url = await database();
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const layout = new Layout(folder);
  mkdirSync(dirname(layout.node), { recursive: true });
  const db = new Database([url]);
  const settings = { urls: [url], node: 'one', address: 'http://127.0.0.1:1', secret: SECRET, s3: null };
  const node = await ClusterNode.open({ settings, version: '0.0.1', layout, places: null, log: QUIET });
  let isOver = false;
  t.after(async () => {
    isOver = true;
    await node.stop(0);
    await node.close();
    await db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const served: number[] = [];
  const released = signal();
  const failed = new Set<number>();
  const letGo = new Set<number>();
  /** Served while something of before went on. */
  const early: number[] = [];
  let isReleasing = false;
  let writable = new Map<number, number>();
  await node.begin({
    serve: async (bucket) => {
      if (isReleasing && !letGo.has(bucket)) early.push(bucket);
      served.push(bucket);
    },
    release: async (bucket) => {
      if (isOver) return;
      isReleasing = true;
      await released.fired('the end of what goes on');
      if (failed.has(bucket)) return void letGo.add(bucket);
      failed.add(bucket);
      throw new Error('The database is away.');
    },
    learn: async () => {},
    knows: () => false,
    own: async (buckets) => {
      writable = new Map(buckets);
    },
  });
  assert.equal(served.length, BUCKETS);
  const notes: Subject = { kind: 'app', id: 'notes' };
  await node.store(notes);
  const [epoch = 0] = writable.values();
  // As when its lease ended: it joins again at once, and all is its own.
  await db.rows('DELETE FROM svc.nodes');
  const owned = 'SELECT count(*)::int AS count FROM svc.buckets WHERE owner IS NOT NULL AND epoch > $1';
  const isOwner = async () => (await db.rows<{ count: number }>(owned, [epoch]))[0]?.count === BUCKETS;
  assert.ok(await eventually(LIMIT_MS, async () => isReleasing && (await isOwner())));
  assert.deepEqual([...writable], [], 'what still goes on writes nothing in a new epoch');
  await assert.rejects(node.store(notes), /Another node has/, 'what it has of files is of an earlier epoch');
  served.length = 0;
  released.fire();
  const isAgain = () => writable.size === BUCKETS && [...writable.values()].every((one) => one > epoch);
  // On a busy machine the lease may end once more.
  const isServed = () => isAgain() && new Set(served).size === BUCKETS;
  assert.ok(await eventually(LIMIT_MS, isServed), `${writable.size} buckets may be written`);
  assert.equal(early.length, 0);
  await node.store(notes);
});
