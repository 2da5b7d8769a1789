import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { lostFrames } from './lost-frames.ts';
import { openSqlite } from './sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'lost-frames-'));
after(() => rmSync(folder, { recursive: true }));

const live = join(folder, 'live.sqlite');
const db = openSqlite(live);
db.pragma('journal_mode = WAL');
db.pragma('wal_autocheckpoint = 0');
db.exec('CREATE TABLE t (x)');
const write = (rows: number) => {
  for (let n = 0; n < rows; n++) db.prepare('INSERT INTO t VALUES (randomblob(3000))').run();
};
after(() => db.close());

const PAGE = 4096;
const FRAME = 24 + PAGE;
let copies = 0;

/** The files as a kill would leave them, some of an earlier copy. */
function killed(earlier?: { file: string; suffixes: string[] }): string {
  const file = join(folder, `killed-${++copies}.sqlite`);
  for (const suffix of ['', '-wal', '-shm']) {
    const from = earlier?.suffixes.includes(suffix) ? earlier.file : live;
    if (existsSync(from + suffix)) copyFileSync(from + suffix, file + suffix);
  }
  return file;
}

const frames = (file: string) => (readFileSync(`${file}-wal`).length - 32) / FRAME;

test('a log that a kill left whole lost nothing', async () => {
  assert.equal(await lostFrames(killed()), 0);
  write(20);
  assert.equal(await lostFrames(killed()), 0);
  assert.equal(await lostFrames(join(folder, 'none.sqlite')), 0);
});

test('frames that were cut off, changed in the middle, or are gone with the file are counted', async () => {
  write(3);
  const cut = killed();
  const all = frames(cut);
  truncateSync(`${cut}-wal`, 32 + (all - 2) * FRAME + 100);
  assert.equal(await lostFrames(cut), 2);
  const changed = killed();
  const bytes = readFileSync(`${changed}-wal`);
  bytes.writeUInt8((bytes.readUInt8(32 + 4 * FRAME + 500) + 1) % 256, 32 + 4 * FRAME + 500);
  writeFileSync(`${changed}-wal`, bytes);
  assert.equal(await lostFrames(changed), all - 4);
  // SQLite drops these, and says nothing.
  const opened = openSqlite(changed);
  const rows = opened.prepare('SELECT count(*) FROM t').pluck().get() as number;
  assert.ok(rows < (db.prepare('SELECT count(*) FROM t').pluck().get() as number));
  assert.equal(opened.pragma('integrity_check', { simple: true }), 'ok');
  opened.close();
  const gone = killed();
  rmSync(`${gone}-wal`);
  assert.equal(await lostFrames(gone), all);
  const empty = killed();
  truncateSync(`${empty}-wal`);
  assert.equal(await lostFrames(empty), all);
});

test('what is in the database file, or in a log that was begun later, is not lost', async () => {
  const before = killed();
  db.pragma('wal_checkpoint(PASSIVE)');
  const copied = killed();
  rmSync(`${copied}-wal`);
  assert.equal(await lostFrames(copied), 0, 'all of it is in the file');
  write(2);
  assert.equal(await lostFrames(killed()), 0);
  assert.equal(await lostFrames(killed({ file: before, suffixes: ['-shm'] })), 0, 'the index is older than the log');
  assert.ok((await lostFrames(killed({ file: before, suffixes: ['-wal'] }))) > 0, 'the log is older than its index');
  db.pragma('wal_checkpoint(TRUNCATE)');
  assert.equal(await lostFrames(killed()), 0);
});

test('an index that is damaged, or being written, tells nothing', async () => {
  write(4);
  for (const at of [0, 20, 60]) {
    const file = killed();
    truncateSync(`${file}-wal`, 40);
    const index = readFileSync(`${file}-shm`);
    index.writeUInt8(index.readUInt8(at) ^ 1, at);
    writeFileSync(`${file}-shm`, index);
    assert.equal(await lostFrames(file), 0, String(at));
  }
});
