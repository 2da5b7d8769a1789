import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { BUCKETS } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { type Cuttable, cuttable } from '../../testing/cuttable.ts';
import { database, type Postgres, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, inTime, LIMIT_MS } from '../../testing/waiting.ts';
import { Directory, type Epoch } from './directory.ts';
import { Membership, type MembershipOptions } from './membership.ts';

/** A time in which a node owned a bucket, as it said by its events. */
type Span = { node: string; epoch: number; from: number; to: number };

describe('membership', { skip: whyNoPostgres() ?? false }, () => {
  let url: string;
  let nodes: Node[];
  let proxies: Cuttable[];
  let servers: Postgres[];
  /** By bucket. */
  let spans: Span[][];

  /** One node as its owner sees it: what it may serve, by the events. */
  class Node {
    readonly serves = new Map<number, number>();
    readonly quiesced: number[] = [];
    readonly warnings: string[] = [];
    readonly database: Database;
    readonly membership: Membership;

    constructor(name: string, address: string, options: Partial<MembershipOptions> = {}) {
      this.database = new Database([address]);
      this.membership = new Membership({
        directory: new Directory(this.database),
        node: { name, instance: randomUUID(), address: `http://${name}.example`, version: '1.0.0' },
        previous: null,
        quiesce: async (bucket) => void this.quiesced.push(bucket),
        log: { info: () => {}, warn: (...[, text]: unknown[]) => void this.warnings.push(String(text)) },
        ...options,
      });
      this.membership.on('owned', (buckets: Epoch[]) => {
        for (const { bucket, epoch } of buckets) {
          assert.equal(this.serves.has(bucket), false, 'a bucket is owned once');
          this.serves.set(bucket, epoch);
          spans[bucket]?.push({ node: name, epoch, from: performance.now(), to: Number.POSITIVE_INFINITY });
        }
      });
      this.membership.on('lost', (buckets: number[]) => {
        for (const bucket of buckets) {
          assert.ok(this.serves.delete(bucket), 'what is lost was owned');
          const span = spans[bucket]?.findLast(({ node }) => node === name);
          if (span !== undefined) span.to = performance.now();
        }
      });
      nodes.push(this);
    }

    async start(): Promise<this> {
      await this.membership.start();
      return this;
    }
  }

  const startNode = (name: string, address = url, options: Partial<MembershipOptions> = {}): Promise<Node> =>
    new Node(name, address, options).start();
  const servedBy = (some: Node[]): number => some.reduce((sum, { serves }) => sum + serves.size, 0);
  /** All buckets are served, by these alone, and so evenly that nothing has to move. */
  const isSpread = (some: Node[]) => (): boolean => {
    const mean = BUCKETS / some.length;
    const isEven = some.every(({ serves }) => serves.size <= mean * 1.1 && serves.size >= Math.floor(mean * 0.9));
    return isEven && servedBy(some) === BUCKETS;
  };
  const settles = async (what: string, holds: () => unknown): Promise<void> =>
    assert.ok(await eventually(LIMIT_MS, holds, 10), `${what}: ${nodes.map(({ serves }) => serves.size)}`);
  const proxyTo = async (address: string): Promise<Cuttable> => {
    const proxy = await cuttable(address);
    proxies.push(proxy);
    return proxy;
  };

  beforeEach(async () => {
    nodes = [];
    proxies = [];
    servers = [];
    spans = Array.from({ length: BUCKETS }, () => []);
    url = await database();
    const db = new Database([url]);
    await prepareTables(db);
    await db.close();
  });

  afterEach(async () => {
    for (const proxy of proxies) proxy.mend();
    await Promise.all(nodes.map(({ membership }) => membership.stop()));
    await Promise.all(nodes.map(({ database: one }) => one.close()));
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await Promise.all(servers.map((server) => server.stop()));
    for (const [bucket, owned] of spans.entries()) {
      const inOrder = owned.toSorted((a, b) => a.epoch - b.epoch);
      for (const [n, span] of inOrder.entries()) {
        const next = inOrder[n + 1];
        if (next === undefined) continue;
        assert.ok(span.epoch < next.epoch, `bucket ${bucket}: each owner has an epoch of its own`);
        assert.ok(span.to <= next.from, `bucket ${bucket}: ${span.node} and ${next.node} own it at once`);
      }
    }
  });

  test('the first node owns everything, the next ones take their share, and all of them agree', async () => {
    const one = await startNode('one');
    await settles('one has all', isSpread([one]));
    const [two, three] = await Promise.all([startNode('two'), startNode('three')]);
    await settles('three share', isSpread([one, two, three]));
    const known = () => nodes.map(({ membership }) => spans.map((_, bucket) => membership.ownerOf(bucket).owner));
    await settles('they agree', () => {
      const [first, ...others] = known().map((owners) => owners.join());
      return others.every((other) => other === first);
    });
    for (const { membership, serves } of nodes)
      for (const [bucket, epoch] of serves) assert.equal(membership.epochOf(bucket), epoch);
    assert.deepEqual(
      one.membership.nodes.map(({ name, address }) => [name, address]),
      ['one', 'three', 'two'].map((name) => [name, `http://${name}.example`]),
    );
    assert.deepEqual(two.quiesced, [], 'a node that joins takes from those that have most');
  });

  test('what a node had that stopped without a word goes to the others with higher epochs, after its lease', async () => {
    const [one, two, three] = (await Promise.all(['one', 'two', 'three'].map((name) => startNode(name)))) as [
      Node,
      Node,
      Node,
    ];
    await settles('three share', isSpread([one, two, three]));
    const before = new Map(three.serves);
    const kept = new Map(one.serves);
    await three.membership.stop();
    await settles('two share', isSpread([one, two]));
    for (const [bucket, epoch] of before) {
      const now = one.serves.get(bucket) ?? two.serves.get(bucket);
      assert.ok(now !== undefined && now > epoch, `bucket ${bucket} has epoch ${now} after ${epoch}`);
    }
    for (const [bucket, epoch] of kept) assert.equal(one.serves.get(bucket), epoch, 'nothing else moved');
    const gone = one.membership.nodes.find(({ name }) => name === 'three');
    assert.equal(gone?.isLive, false);
  });

  test('a node whose connection is cut stops serving before the others take over, and comes back alone', async () => {
    const proxy = await proxyTo(url);
    const one = await startNode('one');
    const two = await startNode('two', proxy.url);
    await settles('both share', isSpread([one, two]));
    proxy.cut();
    await settles('the other has all', isSpread([one]));
    assert.equal(two.serves.size, 0);
    assert.equal(two.membership.epochOf(0), null);
    assert.match(two.warnings.join(), /database of the cluster does not answer/);
    proxy.mend();
    await settles('both share again', isSpread([one, two]));
  });

  test('a node whose clock is set back does not serve for longer', async (t) => {
    const proxy = await proxyTo(url);
    const one = await startNode('one', proxy.url);
    await settles('one has all', isSpread([one]));
    const past = Date.now() - LIMITS.dayMs;
    t.mock.method(Date, 'now', () => past);
    proxy.cut();
    await settles('it has none', () => one.serves.size === 0);
  });

  test('a database that is away for a moment costs nothing, and one that is away for longer all of it until it is back', async () => {
    const server = await postgres();
    servers.push(server);
    const db = new Database([server.url]);
    await prepareTables(db);
    await db.close();
    const one = await startNode('one', server.url);
    await settles('one has all', isSpread([one]));
    const before = new Map(one.serves);
    await server.kill();
    assert.equal(one.serves.size, BUCKETS, 'it has them until its lease may have ended');
    await settles('it has none', () => one.serves.size === 0);
    await server.start();
    await settles('it has all again', isSpread([one]));
    for (const [bucket, epoch] of one.serves) assert.ok(epoch > (before.get(bucket) as number));
  });

  test('a drain hands over bucket by bucket, each when nothing of it is served any more, and nobody waits for a lease', async () => {
    const held = new Map<number, () => void>();
    const one = await startNode('one', url, {
      quiesce: (bucket) => new Promise<void>((resolve) => void held.set(bucket, resolve)),
    });
    await settles('one has all', isSpread([one]));
    const two = await startNode('two');
    await settles('some are asked for', () => held.size > 0);
    const drained = one.membership.drain();
    for (const [bucket] of held) assert.ok(one.serves.has(bucket), 'it serves until it is quiet');
    let isDone = false;
    void drained.then(() => {
      isDone = true;
    });
    await settles('two has all', () => {
      for (const [bucket, resolve] of held) {
        held.delete(bucket);
        resolve();
      }
      return two.serves.size === BUCKETS;
    });
    await inTime(drained, 'the end of the drain');
    assert.ok(isDone && one.serves.size === 0);
    await one.membership.leave();
    await settles('it is gone', () => two.membership.nodes.length === 1);
  });

  test('a node that was drained and need not be takes its share again; renewals are counted', async () => {
    const one = await startNode('one');
    const two = await startNode('two');
    await settles('both share', isSpread([one, two]));
    one.membership.draining = true;
    await settles('two has all', isSpread([two]));
    assert.ok(one.membership.draining && one.membership.leaseMs > 0, 'it is still a node');
    await settles('two knows', () => two.membership.nodes.find(({ name }) => name === 'one')?.draining);
    one.membership.draining = false;
    await settles('both share again', isSpread([one, two]));
    assert.ok(one.membership.renewals.ok > 2);
    assert.deepEqual([one.membership.renewals.failed, one.membership.databaseFault], [0, null]);
  });

  test('a node that leaves is followed at once', async () => {
    const [one, two] = (await Promise.all([startNode('one'), startNode('two')])) as [Node, Node];
    await settles('both share', isSpread([one, two]));
    const claims: number[] = [];
    one.membership.on('owned', (buckets) => claims.push(buckets.length));
    const nodesThen = new Promise<void>((resolve) => {
      one.membership.on('nodes', (list) => {
        if (list.length === 1) resolve();
      });
    });
    await two.membership.leave();
    await inTime(nodesThen, 'the list without it');
    await settles('one has all', isSpread([one]));
    assert.equal(claims.length, 1, 'in one claim');
  });

  test('a second node of one name is refused with both addresses’ settings; its own next run is not', async () => {
    const one = await startNode('one');
    await settles('one has all', isSpread([one]));
    await assert.rejects(startNode('one'), {
      name: 'ConfigError',
      key: 'cluster',
      message:
        '"cluster.node" is "one", and a node of this name runs at http://one.example. Give each node a name of its own.',
    });
    assert.equal(servedBy([one]), BUCKETS);
    await one.membership.stop();
    const next = await startNode('one');
    await settles('the next run has all', isSpread([next]));
  });

  test('a run that replaced this one under its name ends it: what both knew is owned once', async () => {
    const instance = randomUUID();
    const node = { name: 'one', instance, address: 'http://one.example', version: '1.0.0' };
    const first = await startNode('one', url, { node });
    await settles('the first has all', isSpread([first]));
    await first.membership.stop();
    const second = await startNode('one', url, { previous: instance });
    await settles('the second has all', isSpread([second]));
    for (const [bucket] of second.serves) assert.equal(second.membership.ownerOf(bucket).epoch, 2);
  });

  test('at rest a node asks one question a second', async () => {
    const [one, two] = (await Promise.all([startNode('one'), startNode('two')])) as [Node, Node];
    await settles('both share', isSpread([one, two]));
    const before = one.database.questions;
    const from = performance.now();
    await eventually(4 * LIMITS.nodeLookMs, () => false, LIMITS.nodeLookMs);
    const seconds = (performance.now() - from) / 1000;
    assert.ok(one.database.questions - before <= seconds + 2, `${one.database.questions - before} in ${seconds} s`);
  });
});
