import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import pg from 'pg';
import { BUCKETS } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Directory, type Epoch, type NodeFacts } from './directory.ts';

const nodeOf = (name: string): NodeFacts => ({
  name,
  instance: randomUUID(),
  address: `http://${name}.example:8787`,
  version: '1.2.3',
});
const all = Array.from({ length: BUCKETS }, (_, bucket) => ({ bucket, epoch: 0 }));
const some = (...buckets: number[]): Epoch[] => buckets.map((bucket) => ({ bucket, epoch: 0 }));
const sorted = (epochs: Epoch[]): Epoch[] => [...epochs].sort((a, b) => a.bucket - b.bucket);

describe('directory', { skip: whyNoPostgres() ?? false }, () => {
  let url: string;
  let db: Database;
  let directory: Directory;
  let one: NodeFacts;
  let two: NodeFacts;

  before(async () => {
    url = await database();
    db = new Database([url]);
    await prepareTables(db);
    directory = new Directory(db);
  });
  after(() => db.close());
  beforeEach(async () => {
    await db.rows('DELETE FROM svc.nodes');
    await db.rows('UPDATE svc.buckets SET owner = NULL, epoch = 0');
    one = nodeOf('one');
    two = nodeOf('two');
  });

  const endLease = (name: string) =>
    db.rows('UPDATE svc.nodes SET lease_until = clock_timestamp() WHERE name = $1', [name]);

  test('a name belongs to one run of a node, until its lease ends or the next run knows that it is over', async () => {
    assert.equal(await directory.join(one, null), null);
    const other = { ...nodeOf('one'), address: 'http://elsewhere.example' };
    assert.equal(await directory.join(other, null), one.address, 'the name is in use, and by whom');
    assert.equal((await directory.look(one, false, -1)).isRenewed, true, 'the first run goes on');
    assert.equal(await directory.join(other, one.instance), null, 'it restarted');
    assert.equal((await directory.look(one, false, -1)).isRenewed, false, 'the first run is told');
    await endLease('one');
    assert.equal(await directory.join(one, null), null, 'nobody else has a lease');
    const started = async () => (await directory.nodes())[0]?.started;
    const first = await started();
    await endLease('one');
    assert.equal(await directory.join(one, null), null);
    assert.equal(await started(), first, 'the same run joins again');
    assert.equal(await directory.join(other, one.instance), null);
    assert.notEqual(await started(), first, 'another run');
  });

  test('a look renews the lease for three seconds of the database’s clock, and shows the nodes', async () => {
    await directory.join(one, null);
    await directory.join(two, null);
    await endLease('two');
    const { isRenewed, nodes } = await directory.look(one, true, -1);
    assert.equal(isRenewed, true);
    assert.deepEqual(
      nodes.map(({ name, address, version, isLive }) => ({ name, address, version, isLive })),
      [
        { name: 'one', address: one.address, version: '1.2.3', isLive: true },
        { name: 'two', address: two.address, version: '1.2.3', isLive: false },
      ],
    );
    const [left] = await db.rows<{ ms: number; draining: boolean }>(
      `SELECT draining, extract(epoch FROM lease_until - clock_timestamp())::float8 * 1000 AS ms FROM svc.nodes WHERE name = 'one'`,
    );
    assert.ok(left!.ms > 0 && left!.ms <= LIMITS.nodeLeaseMs, `${left!.ms} ms are left`);
    assert.equal(left!.draining, true);
  });

  test('buckets come with a look only if they changed since what the asker knows', async () => {
    await directory.join(one, null);
    assert.equal((await directory.look(one, false, -1)).buckets?.length, BUCKETS);
    assert.equal((await directory.look(one, false, 0)).buckets, null);
    await directory.claim(one, some(7));
    const { buckets } = await directory.look(one, false, 0);
    assert.deepEqual(buckets?.[7], { owner: 'one', epoch: 1 });
    assert.deepEqual(buckets?.[8], { owner: null, epoch: 0 });
    assert.equal((await directory.look(one, false, 1)).buckets, null);
  });

  test('two nodes that claim all buckets at once get each bucket once', async () => {
    await directory.join(one, null);
    await directory.join(two, null);
    const [ofOne, ofTwo] = await Promise.all([directory.claim(one, all), directory.claim(two, [...all].reverse())]);
    const got = sorted([...ofOne, ...ofTwo]);
    assert.deepEqual(
      got,
      all.map(({ bucket }) => ({ bucket, epoch: 1 })),
    );
  });

  test('a bucket of a node with a lease cannot be claimed, one of a node without can, and its epoch grows', async () => {
    await directory.join(one, null);
    await directory.join(two, null);
    await directory.claim(one, some(1, 2));
    assert.deepEqual(await directory.claim(two, [{ bucket: 1, epoch: 1 }]), []);
    await endLease('one');
    assert.deepEqual(await directory.claim(two, [{ bucket: 1, epoch: 1 }]), [{ bucket: 1, epoch: 2 }]);
    assert.deepEqual(await directory.claim(two, some(2)), [], 'an epoch that is not the one of now');
    assert.deepEqual(
      await directory.claim(one, [{ bucket: 2, epoch: 1 }]),
      [{ bucket: 2, epoch: 2 }],
      'of an earlier run',
    );
  });

  test('a run whose name another run has claims nothing', async () => {
    await directory.join(one, null);
    await directory.join(nodeOf('one'), one.instance);
    assert.deepEqual(await directory.claim(one, some(1)), []);
  });

  test('a claim waits for a renewal that is under way, and is refused after it', async () => {
    await directory.join(one, null);
    await directory.join(two, null);
    await directory.claim(one, some(1));
    await endLease('one');
    const renewal = new pg.Client({ connectionString: url });
    await renewal.connect();
    try {
      await renewal.query('BEGIN');
      await renewal.query(
        `UPDATE svc.nodes SET lease_until = clock_timestamp() + interval '1 minute' WHERE name = 'one'`,
      );
      const claim = directory.claim(two, [{ bucket: 1, epoch: 1 }]);
      const isWaiting = () =>
        db.rows(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`);
      assert.ok(await eventually(LIMIT_MS, async () => (await isWaiting()).length > 0, 5));
      await renewal.query('COMMIT');
      assert.deepEqual(await claim, []);
    } finally {
      await renewal.end();
    }
  });

  test('a node hands over what it owns, to another node or to nobody, and nothing that it does not own any more', async () => {
    await directory.join(one, null);
    await directory.join(two, null);
    await directory.claim(one, some(1, 2, 3));
    const given = await directory.give(one, [
      { bucket: 1, epoch: 1, to: 'two' },
      { bucket: 2, epoch: 1, to: null },
      { bucket: 3, epoch: 0, to: 'two' },
      { bucket: 4, epoch: 0, to: 'two' },
    ]);
    assert.deepEqual(sorted(given), [
      { bucket: 1, epoch: 2 },
      { bucket: 2, epoch: 2 },
    ]);
    const { buckets } = await directory.look(two, false, -1);
    assert.deepEqual(
      [1, 2, 3, 4].map((bucket) => buckets?.[bucket]?.owner),
      ['two', null, 'one', null],
    );
    assert.deepEqual(await directory.claim(two, [{ bucket: 1, epoch: 2 }]), [{ bucket: 1, epoch: 3 }]);
  });

  test('what a node still has when it leaves belongs to nobody, and a later run that has its name keeps it', async () => {
    await directory.join(one, null);
    await directory.claim(one, some(5));
    const later = nodeOf('one');
    await directory.join(later, one.instance);
    await directory.leave(one);
    assert.equal((await directory.nodes()).length, 1);
    await directory.leave(later);
    assert.deepEqual(await directory.nodes(), []);
    await directory.join(two, null);
    assert.deepEqual((await directory.look(two, false, -1)).buckets?.[5], { owner: null, epoch: 2 });
  });

  test('the row of a node that did not come back goes after a day', async () => {
    await directory.join(one, null);
    await db.rows(`UPDATE svc.nodes SET lease_until = clock_timestamp() - interval '23 hours'`);
    await directory.join(two, null);
    assert.equal((await directory.nodes()).length, 2);
    await db.rows(`UPDATE svc.nodes SET lease_until = clock_timestamp() - interval '25 hours' WHERE name = 'one'`);
    await directory.join(two, two.instance);
    assert.deepEqual(
      (await directory.nodes()).map(({ name }) => name),
      ['two'],
    );
  });

  test('each call is one question', async () => {
    const before = db.questions;
    await directory.join(one, null);
    await directory.look(one, false, -1);
    await directory.claim(one, all);
    await directory.give(one, [{ bucket: 1, epoch: 1, to: null }]);
    await directory.nodes();
    await directory.leave(one);
    assert.equal(db.questions - before, 6);
  });
});
