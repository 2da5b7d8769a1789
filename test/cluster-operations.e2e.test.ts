// What an operator sees and does: a gateway that is a node, its options, status, metrics and audit log, and `svc cluster`.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BUCKETS, bucketOf } from '../protocol/buckets.ts';
import type { NodeStatus } from '../protocol/routes/operations/cluster-rows.ts';
import { appOf } from '../testing/apps.ts';
import { type OtherNode, otherNode } from '../testing/cluster.ts';
import { patient } from '../testing/cluster-gateways.ts';
import { svc } from '../testing/command-line.ts';
import { freePort } from '../testing/free-port.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';
import { type Postgres, postgres, whyNoPostgres } from '../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../testing/waiting.ts';

const SECRET = { SVC_CLUSTER_SECRET: 'of this test' };

describe('a gateway that is a node', { skip: whyNoPostgres() ?? false }, () => {
  let server: Postgres;
  let gateway: TestGateway;
  let other: OtherNode;
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));

  before(async () => {
    server = await postgres();
    const flags = ['--store', 'tarball', '--cluster', server.url, '--node', 'berlin'];
    gateway = new TestGateway(join(folder, 'data'), flags, SECRET);
    await gateway.start(String(await freePort()));
    other = otherNode(server.url, 'oslo');
  });

  after(async () => {
    await other.end();
    await gateway.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const show = async () => (await gateway.call('GET', '/svc/_cluster')).json;
  const nodeNamed = async (name: string): Promise<NodeStatus> =>
    (await show()).nodes.find((node: NodeStatus) => node.name === name);
  const drain = (draining: unknown): Promise<Answer> =>
    gateway.call('POST', '/svc/_cluster/drain', { body: { draining } });
  const command = (...words: string[]) =>
    svc(['cluster', ...words, '--url', gateway.url, '--token', gateway.token], { cwd: folder });
  const owns = (name: string, isEnough: (buckets: number) => boolean) =>
    eventually(LIMIT_MS, async () => isEnough((await nodeNamed(name))?.buckets ?? 0));

  test('options make it one, and it says what it owns and where its database is', async () => {
    const { nodes, ...rest } = await show();
    assert.deepEqual(rest, {
      node: 'berlin',
      freeBuckets: 0,
      database: { addresses: [server.url], answers: true, error: null },
    });
    const [{ started, version, ...node }, ...more] = nodes;
    assert.deepEqual(more, []);
    assert.deepEqual(node, { name: 'berlin', address: gateway.url, state: 'live', buckets: BUCKETS, self: true });
    assert.ok(started > Date.now() - 60_000 && started <= Date.now() + 1000, String(started));
    assert.deepEqual((await gateway.call('GET', '/svc/_system')).json.cluster.nodes, nodes);
    const { stdout } = await command();
    assert.match(stdout, /^node +berlin +1 node, 1 live\n/);
    assert.match(stdout, /● answers\n/);
  });

  test('the last node is not drained', async () => {
    const answer = await drain(true);
    assert.deepEqual([answer.status, answer.json.error.code], [409, 'LAST_NODE']);
    const { code, stderr } = await command('drain');
    assert.equal(code, 1);
    assert.match(stderr, /No other node is live/);
    assert.equal((await drain('yes')).status, 400);
    assert.equal((await nodeNamed('berlin')).state, 'live');
  });

  test('svc cluster drain waits until another node has everything, and --undo gives it its share back', async () => {
    await other.membership.start();
    assert.ok(await owns('oslo', (buckets) => buckets > BUCKETS * 0.4), 'the other node has its share');
    assert.equal(other.membership.epochOf(bucketOf('_identity')), null, 'the first one has the audit log');
    const drained = await command('drain', 'berlin');
    assert.equal(drained.code, 0, drained.stderr);
    assert.match(drained.stdout, /✓ Node berlin owns no buckets: it can be stopped/);
    assert.deepEqual(
      (await show()).nodes.map(({ name, state, buckets }: NodeStatus) => [name, state, buckets]),
      [
        ['berlin', 'draining', 0],
        ['oslo', 'live', BUCKETS],
      ],
    );
    const metrics = (await gateway.call('GET', '/svc/_metrics')).text;
    for (const line of [
      'svc_cluster_nodes{state="live"} 1',
      'svc_cluster_nodes{state="draining"} 1',
      'svc_cluster_buckets{owner="this"} 0',
      `svc_cluster_buckets{owner="other"} ${BUCKETS}`,
      'svc_cluster_buckets{owner="none"} 0',
      'svc_page_log_failures_total{process="writer"} 0',
    ])
      assert.ok(
        metrics.includes(`${line}\n`),
        `${line}:\n${metrics.match(/^svc_(?:cluster|page_log).*$/gm)?.join('\n')}`,
      );
    // On a busy machine an answer comes late now and then.
    assert.match(metrics, /^svc_cluster_renewals_total\{result="failed"\} \d/m);
    assert.match(metrics, /^svc_cluster_lease_seconds [12]/m);
    assert.match(metrics, /^svc_page_log_wait_seconds_count\{process="writer"\} \d/m);
    for (const what of ['writes', 'groups', 'group_seconds', 'bytes'])
      assert.match(metrics, new RegExp(`^svc_page_log_${what}_total\\{process="writer"\\} \\d`, 'm'));

    const undone = await command('drain', '--undo');
    assert.equal(undone.code, 0, undone.stderr);
    assert.match(undone.stdout, /✓ Node berlin takes its share again/);
    assert.ok(await owns('berlin', (buckets) => buckets > BUCKETS * 0.4), 'it has its share');
    assert.equal((await nodeNamed('berlin')).state, 'live');
  });

  test('a node that left is not there any more, one that was ended without a word is gone', async () => {
    await other.membership.stop();
    assert.ok(await eventually(LIMIT_MS, async () => (await nodeNamed('oslo')).state === 'gone'));
    assert.ok(await owns('berlin', (buckets) => buckets === BUCKETS), 'it takes what the other one had');
    const { code, stderr } = await command('drain', 'oslo');
    assert.equal(code, 1);
    assert.match(stderr, /Node oslo does not run/);
    assert.match((await command('drain', 'three')).stderr, /There is no node "three"\.\n {2}Nodes: berlin, oslo/);
    await other.leave();
    assert.ok(await eventually(LIMIT_MS, async () => (await nodeNamed('oslo')) === undefined));
  });

  test('a node that ends takes requests until it has handed over, and stores when tokens were used last', async () => {
    await patient(gateway).install('keeps', appOf('keeps', {}));
    const ofProgram = { name: 'a program', apps: ['keeps'], tools: 'all' };
    const { id, token } = (await gateway.call('POST', '/svc/_tokens', { body: ofProgram })).json;
    const used = await gateway.call('GET', '/svc/_apps/keeps', { token });
    assert.equal(used.status, 200, used.text);
    const headers = { authorization: `Bearer ${gateway.token}`, 'content-length': '6' };
    const upload = request(`${gateway.url}/svc/keeps/_blobs`, { method: 'PUT', headers, agent: false });
    const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
    // It holds the hand-over up until it is complete.
    upload.write('begins'.slice(0, 3));
    assert.ok(await eventually(LIMIT_MS, async () => (await nodeNamed('berlin')).buckets === BUCKETS));
    process.kill(gateway.pid, 'SIGTERM');
    assert.ok(await eventually(LIMIT_MS, () => gateway.log.includes('SIGTERM: stopping')));
    const health = await gateway.call('GET', '/svc/_health', { agent: false });
    assert.equal(health.status, 200, 'a new connection is accepted');
    upload.end('ins');
    const [{ statusCode }] = await answered;
    assert.equal(statusCode, 201);
    assert.equal(await gateway.exited(), 0);
    assert.doesNotMatch(gateway.log, /could not be stored/);
    await gateway.start(new URL(gateway.url).port);
    const tokens: { id: string; lastUsedAt: number | null }[] = (await gateway.call('GET', '/svc/_tokens')).json;
    assert.notEqual(tokens.find((one) => one.id === id)?.lastUsedAt, null);
  });

  test('draining is in the audit log', async () => {
    // That the drain was undone was told while the other node had the log, which does not answer.
    const entriesOf = async (): Promise<{ action: string; target: string | null }[]> => {
      const { status, json } = await gateway.call('GET', '/svc/_audit');
      return status === 200 ? json.filter(({ action }: { action: string }) => action.startsWith('node.')) : [];
    };
    assert.ok(await eventually(LIMIT_MS, async () => (await entriesOf()).length === 2));
    assert.deepEqual(
      (await entriesOf()).map(({ action, target }) => [action, target]),
      [
        ['node.resumed', 'berlin'],
        ['node.drained', 'berlin'],
      ],
    );
  });

  test('a database that is away is said, with its address, and the node comes back by itself', async () => {
    const notes = appOf('notes', {
      queries: { all: "({ db }) => db.all('SELECT v FROM notes')" },
      actions: { add: "({ db, input }) => db.run('INSERT INTO notes VALUES (?)', input.v)" },
      migrations: ['CREATE TABLE notes (v INTEGER);'],
    });
    await gateway.install('notes', notes);
    const stored = await gateway.write('notes', 'add', { v: 1 }, { headers: { 'idempotency-key': 'one' } });
    assert.equal(stored.status, 200, stored.text);
    await server.kill();
    assert.ok(await eventually(LIMIT_MS, async () => (await show()).database.answers === false));
    const { database: away } = await show();
    assert.deepEqual(away.addresses, [server.url]);
    assert.match(away.error, /\S/);
    assert.ok(
      await eventually(LIMIT_MS, async () => (await nodeNamed('berlin')).state === 'gone'),
      'its lease has ended',
    );
    const refused = await gateway.call('GET', '/svc/_apps/notes/settings');
    assert.equal(`${refused.status} ${refused.json.error.code}`, '503 STORAGE_UNAVAILABLE');
    assert.match(
      refused.json.error.message,
      /^The database of the cluster does not answer, so this node serves nothing/,
    );
    assert.match((await command()).stdout, /● does not answer\n/);
    await server.start();
    assert.ok(await owns('berlin', (buckets) => buckets === BUCKETS));
    assert.ok(await eventually(LIMIT_MS, async () => (await show()).database.answers === true));
    assert.deepEqual((await patient(gateway).read('notes', 'all')).json.data, [{ v: 1 }]);
    // What it had was let go of without the database, at once.
    assert.doesNotMatch(gateway.log, /cannot be let go of/);
  });
});
