import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { Layout } from '../../storage/layout.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { shareKeys } from './keys.ts';

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
  await shareKeys(db, SECRET, one);
  assert.equal(keysOf(one)[0], `${token}\n`);
  await shareKeys(db, SECRET, two);
  await shareKeys(db, SECRET, two);
  assert.deepEqual(keysOf(two), keysOf(one));
  const stored = await db.rows<{ sealed: Buffer }>('SELECT sealed FROM svc.keys');
  assert.equal(stored.length, 4);
  for (const { sealed } of stored) for (const key of keysOf(one)) assert.ok(!sealed.includes(key.trim()));
});

test('another secret, and a data directory of another gateway, are refused with what to do', { skip }, async (t) => {
  const db = await opened(t);
  const [one, two] = [newLayout(t), newLayout(t)];
  await shareKeys(db, SECRET, one);
  await assert.rejects(shareKeys(db, 'another secret', two), {
    name: 'ConfigError',
    message: /"cluster.secretEnv" names a secret that is not the one of the cluster/,
  });
  writeFileSync(two.token, `${'f'.repeat(64)}\n`);
  await assert.rejects(shareKeys(db, SECRET, two), {
    name: 'ConfigError',
    message: /has the token.bin of another gateway .* Start this node with an empty data directory/,
  });
});
