import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSqlite } from '../../storage/sqlite.ts';
import { Database } from './database.ts';

/** As SQLite counts it. */
const SYNCHRONOUS = { full: 2, normal: 1 };

for (const durability of ['full', 'normal'] as const) {
  test(`a database is written at the durability that is configured: ${durability}`, (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'database-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const handle = openSqlite(join(folder, 'data.sqlite'));
    const database = new Database(handle, durability);
    const pragma = (name: string) => Number(handle.pragma(name, { simple: true }));
    assert.equal(pragma('synchronous'), SYNCHRONOUS[durability]);
    assert.equal(handle.pragma('journal_mode', { simple: true }), 'wal');
    assert.equal(pragma('foreign_keys'), 1);
    // The writer copies the log itself, in a thread.
    assert.equal(pragma('wal_autocheckpoint'), 0);
    database.close();
  });
}
