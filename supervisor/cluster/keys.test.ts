import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { Layout } from '../../storage/layout.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { Keys } from './keys.ts';

const skip = whyNoPostgres() ?? false;
const SECRET = 'the secret of this cluster';

function newLayout(t: TestContext): Layout {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'data'));
  return new Layout(join(folder, 'data'));
}

const keysOf = ({ token, sessionKey, secretKey, pushKey }: Layout): string[] =>
  [token, sessionKey, secretKey, pushKey].map((file) => readFileSync(file, 'latin1'));

async function opened(t: TestContext): Promise<Database> {
  const db = new Database([await database()]);
  t.after(() => db.close());
  await prepareTables(db);
  return db;
}

test('the first node gives the cluster its keys, which the next ones get, at every start', { skip }, async (t) => {
  const db = await opened(t);
  const [one, two] = [newLayout(t), newLayout(t)];
  const token = '0123456789abcdef'.repeat(4);
  writeFileSync(one.token, `${token}\n`);
  await new Keys(db, SECRET, one).share();
  assert.equal(keysOf(one)[0], `${token}\n`);
  await new Keys(db, SECRET, two).share();
  await new Keys(db, SECRET, two).share();
  assert.deepEqual(keysOf(two), keysOf(one));
  const stored = await db.rows<{ sealed: Buffer }>('SELECT sealed FROM svc.keys');
  assert.equal(stored.length, 4);
  for (const { sealed } of stored) for (const key of keysOf(one)) assert.ok(!sealed.includes(key.trim()));
});

test('another secret, and a data directory of another gateway, are refused with what to do', { skip }, async (t) => {
  const db = await opened(t);
  const [one, two] = [newLayout(t), newLayout(t)];
  await new Keys(db, SECRET, one).share();
  await assert.rejects(new Keys(db, 'another secret', two).share(), {
    name: 'ConfigError',
    message: /"cluster.secretEnv" names a secret that is not the one of the cluster/,
  });
  writeFileSync(two.sessionKey, `${'f'.repeat(64)}\n`);
  await assert.rejects(new Keys(db, SECRET, two).share(), {
    name: 'ConfigError',
    message: /has the session-key.bin of another gateway .* Start this node with an empty data directory/,
  });
});

test('a token that is replaced at one node is that of all: of those that run, and of one that was away', {
  skip,
}, async (t) => {
  const db = await opened(t);
  const [one, two, three] = [newLayout(t), newLayout(t), newLayout(t)];
  const keys = [one, two, three].map((layout) => new Keys(db, SECRET, layout));
  for (const each of keys) await each.share();
  const replaced = `${'a'.repeat(64)}\n`;
  writeFileSync(one.token, replaced);
  for (const each of keys.slice(0, 2)) await each.followToken();
  assert.equal(readFileSync(two.token, 'latin1'), replaced);
  await keys[0]?.followToken();
  await new Keys(db, SECRET, three).share();
  for (const { token } of [one, two, three]) assert.equal(readFileSync(token, 'latin1'), replaced);
});
