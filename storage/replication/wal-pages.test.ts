import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSqlite } from '../sqlite.ts';
import { WalIndex } from '../wal-index.ts';
import { WalPages } from './wal-pages.ts';

/** A database file whose handles can be closed, so that its write-ahead log is removed. */
function openFile(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-wal-'));
  const file = join(folder, 'data.sqlite');
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const open = () => {
    const db = openSqlite(file);
    db.pragma('journal_mode = WAL');
    const index = new WalIndex(file);
    const state = (): Uint8Array => index.read() as Uint8Array;
    const close = (): void => {
      db.close();
      index.close();
    };
    return { db, state, close };
  };
  return { file, open };
}

/** Texts that are in the pages. */
function textsIn({ pages }: { pages: Map<number, Uint8Array> }, texts: string[]): string[] {
  return texts.filter((text) => [...pages.values()].some((page) => Buffer.from(page).includes(text)));
}

const TEXTS = ['first text', 'second text', 'third text'];

for (const isSkipped of [true, false]) {
  const what = isSkipped ? 'after a part of it was skipped' : 'from its start';
  test(`a log that is another file is read ${what}`, (t) => {
    const { file, open } = openFile(t);
    const pages = new WalPages(file);
    t.after(() => pages.close());
    const one = open();
    one.db.exec(`CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('${TEXTS[0]}')`);
    pages.read(one.state());
    one.close();
    const two = open();
    t.after(() => two.close());
    two.db.exec(`INSERT INTO notes VALUES ('${TEXTS[1]}')`);
    if (isSkipped) pages.skip(two.state());
    two.db.exec(`INSERT INTO notes VALUES ('${TEXTS[2]}')`);
    assert.deepEqual(textsIn(pages.read(two.state()), TEXTS), TEXTS);
    assert.deepEqual(pages.read(two.state()).pages.size, 0);
  });
}
