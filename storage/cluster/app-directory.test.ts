import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketOf } from '../../protocol/buckets.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { AppDirectory } from './app-directory.ts';
import { Database } from './database.ts';
import { prepareTables } from './tables.ts';

const skip = whyNoPostgres() ?? false;

test('the apps of a bucket are listed as its owner put them, removed ones too, and nobody else puts any', {
  skip,
}, async (t) => {
  const db = new Database([await database()]);
  t.after(() => db.close());
  await prepareTables(db);
  const buckets = ['notes', 'todos'].map((id) => bucketOf(id));
  await db.rows(`UPDATE svc.buckets SET owner = 'one', epoch = 3 WHERE bucket = ANY ($1)`, [buckets]);
  const apps = new AppDirectory(db, (bucket) => (buckets.includes(bucket) ? 3 : undefined));
  await apps.put({ id: 'notes', registeredAt: 1_700_000_000_123, maker: null });
  await apps.put({ id: 'todos', registeredAt: 5, maker: 'p_1' });
  await apps.put({ id: 'notes', registeredAt: null, maker: null });
  assert.deepEqual(await apps.in(buckets), [
    { id: 'notes', registeredAt: null, maker: null },
    { id: 'todos', registeredAt: 5, maker: 'p_1' },
  ]);
  assert.deepEqual(await apps.in([bucketOf('todos')]), [{ id: 'todos', registeredAt: 5, maker: 'p_1' }]);
  assert.deepEqual(await apps.in([bucketOf('others')]), []);
  const unavailable = { code: 'STORAGE_UNAVAILABLE', message: /Another node of the cluster has/ };
  await assert.rejects(apps.put({ id: 'others', registeredAt: 1, maker: null }), unavailable);
  await db.rows('UPDATE svc.buckets SET epoch = 4 WHERE bucket = $1', [bucketOf('todos')]);
  await assert.rejects(apps.put({ id: 'todos', registeredAt: 6, maker: null }), unavailable);
  assert.equal((await apps.in(buckets))[1]?.registeredAt, 5);
});

test('a change is told to who asks for what is new, also one whose transaction began before and ended after the last question', {
  skip,
}, async (t) => {
  const db = new Database([await database()], { connections: 3 });
  t.after(() => db.close());
  await prepareTables(db);
  await db.rows(`UPDATE svc.buckets SET owner = 'one', epoch = 3`);
  const apps = new AppDirectory(db, () => 3);
  const idsOf = (list: { id: string }[]) => list.map(({ id }) => id).sort();
  await apps.put({ id: 'notes', registeredAt: 1, maker: null });
  const all = await apps.since(null);
  assert.deepEqual(all.apps, [{ id: 'notes', registeredAt: 1, maker: null }]);
  assert.deepEqual((await apps.since(all.horizon)).apps, []);
  let horizon = all.horizon;
  await db.transaction(async (session) => {
    await session.rows(`UPDATE svc.apps SET registered_at = NULL, changed = pg_current_xact_id() WHERE id = 'notes'`);
    await apps.put({ id: 'todos', registeredAt: 2, maker: 'p_1' });
    const now = await apps.since(horizon);
    assert.deepEqual(idsOf(now.apps), ['todos']);
    horizon = now.horizon;
  });
  const { apps: later, horizon: last } = await apps.since(horizon);
  assert.deepEqual(idsOf(later), ['notes', 'todos']);
  assert.deepEqual((await apps.since(last)).apps, []);
  await apps.put({ id: 'todos', registeredAt: null, maker: null });
  assert.deepEqual((await apps.since(last)).apps, [{ id: 'todos', registeredAt: null, maker: null }]);
});
