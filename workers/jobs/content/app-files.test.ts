import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFolder } from './app-files.ts';

test('an empty folder is ignored, with any name; its files are checked', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-app-files-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ['.git', '.codex', 'pages/none']) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'pages/a.html'), 'a');
  assert.deepEqual(
    readFolder(folder).map(({ path }) => path),
    ['pages/a.html'],
  );
  writeFileSync(join(folder, '.git/config'), '');
  assert.throws(() => readFolder(folder), { code: 'ARCHIVE_PATH', path: '.git' });
});
