import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClusterStatus, NO_CLUSTER, type NodeStatus } from '../../../protocol/routes/operations/cluster-rows.ts';
import { startGateway, svc } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';
import { createStyle, visible } from '../../terminal/style.ts';
import { drawCluster } from './cluster-command.ts';

const nodeOf = (name: string, more: Partial<NodeStatus> = {}): NodeStatus => ({
  name,
  address: `http://${name}.example:8787`,
  version: '0.2.0',
  state: 'live',
  started: Date.now(),
  buckets: 2048,
  self: name === 'one',
  ...more,
});
const STATUS: ClusterStatus = {
  node: 'one',
  nodes: [nodeOf('one'), nodeOf('two')],
  freeBuckets: 0,
  database: { addresses: ['postgres://svc@db.example/svc'], answers: true, error: null },
};
const draw = (now: ClusterStatus, width = Number.POSITIVE_INFINITY) =>
  drawCluster(now, width, createStyle(false)).map(visible);

test('one screen: the node, the database, the buckets and all nodes', () => {
  assert.deepEqual(
    draw(STATUS).map((line) => line.replace(/ {2,}/g, ' | ').trimEnd()),
    [
      'node | one | 2 nodes, 2 live',
      'database | postgres://svc@db.example/svc | ● answers',
      'buckets | 4,096, each has an owner',
      '',
      'NODE | STATE | BUCKETS | STARTED | VERSION | ADDRESS',
      'one | this one | ● live | 2,048 | just now | 0.2.0 | http://one.example:8787',
      'two | ● live | 2,048 | just now | 0.2.0 | http://two.example:8787',
    ],
  );
});

test('what is wrong is said: a database that is away and why, buckets of nobody, a node that is gone', () => {
  const lines = draw({
    ...STATUS,
    nodes: [nodeOf('one'), nodeOf('two', { state: 'gone', buckets: 0 })],
    freeBuckets: 2048,
    database: { addresses: ['postgres://svc@db.example/svc'], answers: false, error: 'connect ECONNREFUSED' },
  }).join('\n');
  assert.match(lines, /2 nodes, 1 live/);
  assert.match(lines, /● does not answer\n {11}connect ECONNREFUSED\n/);
  assert.match(lines, /4,096 {3}● 2,048 without an owner/);
  assert.match(lines, /● gone/);
});

test('on a narrow terminal nothing is wider', () => {
  for (const line of draw(STATUS, 40)) assert.ok(line.length <= 40, line);
});

test('a gateway of its own says that it is in no cluster, and how to make it a node', async (t) => {
  const { env } = await startGateway(t, { 'GET /svc/_cluster': { json: NO_CLUSTER } });
  for (const line of ['cluster', 'cluster nodes']) {
    const { code, stderr } = await svc(line.split(' '), { env });
    assert.equal(code, EXIT.ok);
    assert.match(stderr, /is in no cluster\. .*svc serve --cluster/);
  }
  assert.deepEqual(JSON.parse((await svc(['cluster', '--json'], { env })).stdout), NO_CLUSTER);
  assert.deepEqual(JSON.parse((await svc(['cluster', 'nodes', '--json'], { env })).stdout), []);
});

test('another node is drained at its own address, with the same token; the command ends when it owns nothing', async (t) => {
  const drained = { ...STATUS, node: 'two', nodes: [nodeOf('one', { self: false }), nodeOf('two', { self: true })] };
  const withBuckets = (buckets: number): ClusterStatus => ({
    ...drained,
    nodes: drained.nodes.map((node) => (node.self ? { ...node, state: 'draining', buckets } : node)),
  });
  const two = await startGateway(t, {
    'POST /svc/_cluster/drain': { json: withBuckets(2048) },
    'GET /svc/_cluster': { json: withBuckets(0) },
  });
  const here = { ...STATUS, nodes: [nodeOf('one'), nodeOf('two', { address: two.url })] };
  const one = await startGateway(t, { 'GET /svc/_cluster': { json: here } });
  const { code, stdout, stderr } = await svc(['cluster', 'drain', 'two'], { env: one.env });
  assert.equal(code, EXIT.ok, stderr);
  assert.match(stdout, /✓ Node two owns no buckets: it can be stopped/);
  assert.match(stderr, /svc cluster drain two --undo/);
});
