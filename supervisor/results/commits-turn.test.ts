import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openSqlite } from '../../storage/sqlite.ts';
import { WalIndex } from '../../storage/wal-index.ts';
import { Commits } from './commits.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-state-'));
const file = join(folder, 'data.sqlite');
const db = openSqlite(file);
db.pragma('journal_mode = WAL');
db.exec('CREATE TABLE t (a)');
const index = new WalIndex(file);
const commits = new Commits({ file: () => file });
after(() => {
  commits.close();
  index.close();
  db.close();
  rmSync(folder, { recursive: true });
});

test('within a turn of the event loop the state is read again once the note of a commit has come', async () => {
  await nextTurn();
  const history = commits.upToDate('a');
  assert.ok(history);
  const { now } = history;
  const before = index.read();
  db.exec('INSERT INTO t VALUES (1)');
  commits.committed('a', before, index.read(), ['t']);
  assert.equal(commits.upToDate('a'), history);
  assert.equal(history.unchanged(new Set(['t']), now), false);
});

test('within a turn the state is read again once a write was acknowledged, whether its note has come or not', async () => {
  await nextTurn();
  assert.ok(commits.upToDate('a'));
  db.exec('INSERT INTO t VALUES (3)');
  assert.ok(commits.upToDate('a'), 'nobody can know of it');
  commits.acknowledging();
  assert.equal(commits.upToDate('a'), null);
  commits.changed('a');
});

test('the next turn sees a commit of another process in the previous one', async () => {
  await nextTurn();
  assert.ok(commits.upToDate('a'));
  db.exec('INSERT INTO t VALUES (2)');
  await nextTurn();
  assert.equal(commits.upToDate('a'), null);
});
