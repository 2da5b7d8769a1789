import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { bucketOf } from '../../protocol/buckets.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { Database } from './database.ts';
import { prepareTables } from './tables.ts';
import { WebhookDirectory } from './webhook-directory.ts';

const skip = whyNoPostgres() ?? false;
const [A, B, C] = ['a', 'b', 'c'].map((letter) => letter.repeat(24)) as [string, string, string];

describe('the addresses of webhooks', { skip }, () => {
  let db: Database;
  let asked: string[] = [];
  let webhooks: WebhookDirectory;
  before(async () => {
    db = new Database([await database()], { connections: 3 });
    await prepareTables(db);
    const rows = db.rows.bind(db) as Database['rows'];
    db.rows = ((query: string, values?: unknown[]) => {
      asked.push(query);
      return rows(query, values);
    }) as Database['rows'];
  });
  after(() => db.close());
  beforeEach(async () => {
    await db.rows(`UPDATE svc.buckets SET owner = 'one', epoch = 3`);
    await db.rows('DELETE FROM svc.webhooks');
    webhooks = new WebhookDirectory(db, () => 3);
  });

  test('an app keeps what it claimed first, until it is settled without it', async () => {
    assert.deepEqual(await webhooks.claim('notes', [A, B, A]), []);
    assert.deepEqual(await webhooks.claim('todos', [B, C]), [B]);
    assert.deepEqual(await webhooks.claim('notes', [A]), [], 'its own');
    assert.deepEqual(await webhooks.others('todos', [A, B, C]), [A, B]);
    await webhooks.settle('todos', [C]);
    await webhooks.settle('notes', [B]);
    assert.deepEqual(await webhooks.claim('todos', [A, C]), []);
    assert.deepEqual(await webhooks.in([bucketOf('todos')]), [
      { slug: A, app: 'todos' },
      { slug: C, app: 'todos' },
    ]);
    // What is live and was never claimed, as by an older node.
    await webhooks.settle('notes', [A, B]);
    assert.deepEqual(await webhooks.in(['notes', 'todos'].map(bucketOf)), [
      { slug: A, app: 'todos' },
      { slug: B, app: 'notes' },
      { slug: C, app: 'todos' },
    ]);
  });

  test('of two nodes that claim the same at once, one has all of it', async () => {
    const both = await Promise.all([webhooks.claim('notes', [A, B, C]), webhooks.claim('todos', [C, B, A])]);
    assert.deepEqual(both.map((taken) => taken.length).sort(), [0, 3]);
  });

  test('a node without the bucket of the app changes nothing', async () => {
    await webhooks.claim('notes', [A]);
    await db.rows('UPDATE svc.buckets SET epoch = 4');
    const others = new WebhookDirectory(db, () => undefined);
    for (const one of [webhooks, others]) {
      await assert.rejects(one.claim('todos', [B]), { code: 'STORAGE_UNAVAILABLE' });
      await one.settle('notes', []);
    }
    assert.deepEqual(await webhooks.in(['notes', 'todos'].map(bucketOf)), [{ slug: A, app: 'notes' }]);
  });

  test('all that is asked for while an answer is under way is one question', async () => {
    await webhooks.claim('notes', [A, B]);
    asked = [];
    const found = await Promise.all([A, B, C, A].map((slug) => webhooks.appOf(slug)));
    assert.deepEqual([found, asked.length], [['notes', 'notes', null, 'notes'], 1]);
    const first = webhooks.appOf(A);
    await Promise.resolve();
    const later = Array.from({ length: 100 }, (_, at) => webhooks.appOf(at.toString(16).padStart(24, '0')));
    assert.equal(await first, 'notes');
    assert.deepEqual(new Set(await Promise.all(later)), new Set([null]));
    assert.equal(asked.length, 3);
    await webhooks.settle('notes', []);
    assert.equal(await webhooks.appOf(A), null, 'it is not remembered');
  });

  test('a question that fails fails for those that asked it', async () => {
    const rows = db.rows;
    db.rows = () => Promise.reject(new Error('away'));
    const asking = [A, B].map((slug) => webhooks.appOf(slug));
    for (const one of asking) await assert.rejects(one, /away/);
    db.rows = rows;
    assert.equal(await webhooks.appOf(A), null);
  });
});
