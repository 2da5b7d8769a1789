import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BUCKETS, bucketOf } from '../../protocol/buckets.ts';
import { Database } from '../../storage/cluster/database.ts';
import { Layout } from '../../storage/layout.ts';
import type { Subject } from '../../storage/shared-files/subjects.ts';
import { otherNode } from '../../testing/cluster.ts';
import { QUIET, SECRET, signal } from '../../testing/cluster-nodes.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import type { Automations } from '../automations/automations.ts';
import type { Exchange } from '../edge/edge.ts';
import { openEdge } from '../edge/open-edge.ts';
import { ClusterNode } from './node.ts';

const skip = whyNoPostgres() ?? false;

/** A node that ends with the test. */
async function nodeOn(t: TestContext, url: string): Promise<ClusterNode> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const layout = new Layout(folder);
  mkdirSync(dirname(layout.node), { recursive: true });
  const settings = { urls: [url], node: 'one', address: 'http://127.0.0.1:1', secret: SECRET, s3: null };
  const node = await ClusterNode.open({ settings, version: '0.0.1', layout, places: null, log: QUIET });
  t.after(async () => {
    await node.stop(0);
    await node.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return node;
}

test('a node that gets a bucket again before it has let go of it serves and writes it after that', {
  skip,
}, async (t) => {
  const url = await database();
  const db = new Database([url]);
  let isOver = false;
  t.after(() => db.close());
  const node = await nodeOn(t, url);
  t.after(() => {
    isOver = true;
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

test('a node that drains ends nothing of a bucket before what it was asked about that is answered', {
  skip,
}, async (t) => {
  const url = await database();
  const other = otherNode(url, 'two');
  t.after(() => other.end());
  const node = await nodeOn(t, url);
  const released = new Set<number>();
  await node.begin({
    serve: async () => {},
    release: async (bucket) => void released.add(bucket),
    learn: async () => {},
    knows: () => true,
    own: async () => {},
  });
  const held: Exchange[] = [];
  const handler = node.handler({} as Automations, {
    handle: (exchange) => void held.push(exchange),
    isStranger: () => false,
  });
  const { edge } = openEdge('node', { handler, onFault: (error) => t.diagnostic(String(error)) });
  const port = await edge.listen('127.0.0.1', 0);
  t.after(() => edge.close());
  // Buckets are given in their order.
  const app = Array.from({ length: 1000 }, (_, i) => `app-${i}`).find((id) => bucketOf(id) < 20) as string;
  const answer = fetch(`http://127.0.0.1:${port}/svc/_apps/${app}/settings`);
  assert.ok(await eventually(LIMIT_MS, () => held.length === 1));
  await other.membership.start();
  node.draining = true;
  const bucket = bucketOf(app);
  assert.ok(await eventually(LIMIT_MS, () => released.size > 100));
  assert.equal(released.has(bucket), false);
  held[0]?.send(200, {}, 'done');
  assert.equal(await (await answer).text(), 'done');
  assert.ok(await eventually(LIMIT_MS, () => released.has(bucket)));
});
