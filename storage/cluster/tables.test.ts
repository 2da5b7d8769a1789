import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import pg from 'pg';
import { BUCKETS } from '../../protocol/buckets.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Database } from './database.ts';
import { prepareTables, TABLE_STEPS } from './tables.ts';

const NEXT = 'ALTER TABLE svc.buckets ADD COLUMN IF NOT EXISTS weight integer NOT NULL DEFAULT 1';

describe('tables of a cluster', { skip: whyNoPostgres() ?? false }, () => {
  let url: string;
  let db: Database;
  const opened: Database[] = [];
  const open = (address: string): Database => {
    const one = new Database([address]);
    opened.push(one);
    return one;
  };

  beforeEach(async () => {
    url = await database();
    db = open(url);
  });
  after(() => Promise.all(opened.map((one) => one.close())));

  const version = async () => (await db.rows<{ version: number }>('SELECT version FROM svc.meta'))[0]?.version;

  test('nodes that start at once make the tables once', async () => {
    await Promise.all(Array.from({ length: 8 }, () => prepareTables(open(url))));
    assert.equal(await version(), TABLE_STEPS.length);
    const [count] = await db.rows<{ count: number }>('SELECT count(*)::integer AS count FROM svc.buckets');
    assert.equal(count?.count, BUCKETS);
  });

  test('tables of an earlier release are moved, and a node of that release then refuses to start with what to do', async () => {
    await prepareTables(db);
    await db.rows('UPDATE svc.buckets SET owner = $1, epoch = 9 WHERE bucket = 3', ['one']);
    await prepareTables(db, [...TABLE_STEPS, NEXT]);
    assert.deepEqual(await db.rows('SELECT owner, epoch, weight FROM svc.buckets WHERE bucket = 3'), [
      { owner: 'one', epoch: '9', weight: 1 },
    ]);
    await assert.rejects(prepareTables(db), {
      code: 'DATA_FORMAT',
      message: new RegExp(
        `have version ${TABLE_STEPS.length + 1}, .* up to ${TABLE_STEPS.length}\\. .* update this one`,
      ),
    });
  });

  test('a step that fails leaves the tables as they were, and the next start makes it', async () => {
    await prepareTables(db);
    await assert.rejects(prepareTables(db, [...TABLE_STEPS, `${NEXT}; SELECT 1 / 0`]), /division by zero/);
    assert.equal(await version(), TABLE_STEPS.length);
    await assert.rejects(db.rows('SELECT weight FROM svc.buckets'));
    await prepareTables(db, [...TABLE_STEPS, NEXT]);
    assert.equal(await version(), TABLE_STEPS.length + 1);
  });

  test('a step waits for whoever holds a table without holding up the others, and is made in the end', async () => {
    await prepareTables(db);
    const long = new pg.Client({ connectionString: url });
    await long.connect();
    try {
      await long.query('BEGIN');
      await long.query('SELECT FROM svc.buckets WHERE bucket = 1 FOR SHARE');
      const moved = prepareTables(open(url), [...TABLE_STEPS, NEXT]);
      const waits = () => db.rows(`SELECT FROM pg_locks WHERE relation = 'svc.buckets'::regclass AND NOT granted`);
      assert.ok(await eventually(LIMIT_MS, async () => (await waits()).length > 0, 5), 'the step waits');
      // Would wait behind the step for as long as the long transaction goes on.
      const ask = () =>
        db.rows('UPDATE svc.buckets SET epoch = epoch + 1 WHERE bucket = 2').then(
          () => true,
          () => false,
        );
      assert.ok(await eventually(LIMIT_MS, ask, 5), 'others work meanwhile');
      await long.query('COMMIT');
      await moved;
      assert.equal(await version(), TABLE_STEPS.length + 1);
    } finally {
      await long.end();
    }
  });
});
