import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { readSource } from './handler-source.ts';

const code = mkdtempSync(join(tmpdir(), 'handler-source-'));
after(() => rmSync(code, { recursive: true, force: true }));

before(() => {
  mkdirSync(join(code, 'lib/folder.js'), { recursive: true });
  writeFileSync(join(code, 'lib/a.js'), 'a');
  writeFileSync(join(code, 'lib/large.js'), 'a'.repeat(5 * 1024 * 1024 + 1));
});

test('a file of the app is read; why another cannot be is said', () => {
  assert.deepEqual(readSource(code, 'lib/a.js'), { text: 'a' });
  assert.deepEqual(readSource(code, 'lib/none.js'), { refused: 'does not exist' });
  assert.deepEqual(readSource(code, `lib/${'a'.repeat(300)}.js`), { refused: 'does not exist' });
  assert.deepEqual(readSource(code, 'lib/folder.js'), { refused: 'is not a file' });
  assert.deepEqual(readSource(code, 'lib/large.js'), { refused: 'is larger than 5242880 bytes' });
});

test('a symbolic link is not followed', () => {
  symlinkSync(join(code, 'lib'), join(code, 'link'));
  assert.match((readSource(code, 'link/a.js') as { refused: string }).refused, /behind a symbolic link/);
});
