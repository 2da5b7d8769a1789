// A few trees that name each other again and again stand for more files than any disk has.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serializeTree } from './object.ts';
import type { ObjectStore } from './object-store.ts';
import { filesOf } from './repository.ts';

/** `levels` trees, each with `width` folders that are all the next one; the last has files. */
function nested(levels: number, width: number): ObjectStore {
  const id = (level: number) => String(level).padStart(40, '0');
  const trees = new Map<string, Buffer>();
  for (let level = 0; level < levels; level++) {
    const mode = level === levels - 1 ? '100644' : '40000';
    const entries = Array.from({ length: width }, (_, n) => ({ mode, name: `e${n}.js`, id: id(level + 1) }));
    trees.set(id(level), serializeTree(entries));
  }
  return { readAs: async (_type: string, wanted: string) => trees.get(wanted) } as unknown as ObjectStore;
}

const ROOT = '0'.repeat(40);

test('the files of trees that name each other are found', async () => {
  assert.equal((await filesOf(nested(3, 10), ROOT)).size, 1000);
});

test('more of them than an app may have are refused before they are gathered', async () => {
  await assert.rejects(filesOf(nested(12, 20), ROOT), { code: 'ARCHIVE_TOO_LARGE' });
});
