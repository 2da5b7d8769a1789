import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, test } from 'node:test';
import { listTree, listTreeSync, pathOf } from './list-tree.ts';

const root = mkdtempSync(join(tmpdir(), 'svc-tree-'));
after(() => rmSync(root, { recursive: true, force: true }));

test('everything below is listed, and no link is entered', async () => {
  const folder = join(root, 'app');
  mkdirSync(join(folder, 'a/b'), { recursive: true });
  mkdirSync(join(root, 'outside'));
  writeFileSync(join(root, 'outside/secret.txt'), 'secret');
  writeFileSync(join(folder, 'a/b/deep.txt'), '');
  symlinkSync(join(root, 'outside'), join(folder, 'a/link'));
  symlinkSync(folder, join(folder, 'a/circle'));
  for (const entries of [await listTree(folder), listTreeSync(folder)]) {
    const paths = entries.map((entry) => relative(folder, pathOf(entry))).sort();
    assert.deepEqual(paths, ['a', 'a/b', 'a/b/deep.txt', 'a/circle', 'a/link']);
  }
});

test('a folder that is missing is an error', async () => {
  const missing = join(root, 'missing');
  await assert.rejects(listTree(missing), { code: 'ENOENT' });
  assert.throws(() => listTreeSync(missing), { code: 'ENOENT' });
});
