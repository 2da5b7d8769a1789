import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FolderSyncs } from './syncs.ts';

test('few files are flushed at a time, in order; one that fails makes room for the next', async () => {
  const syncs = new FolderSyncs(tmpdir());
  const begun: number[] = [];
  let running = 0;
  let most = 0;
  const all = Array.from({ length: 10 }, (_, i) =>
    syncs.file(async () => {
      begun.push(i);
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running--;
      if (i % 2 === 1) throw new Error('full');
    }),
  );
  const results = await Promise.allSettled(all);
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(most, 3);
  assert.equal(results.filter(({ status }) => status === 'rejected').length, 5);
});

test('names that are made while a folder is flushed share the next flush; callers that share a flush share its failure', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-syncs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const syncs = new FolderSyncs(dir);
  const first = syncs.names();
  await Promise.resolve();
  await Promise.resolve();
  const second = syncs.names();
  assert.notEqual(second, first);
  assert.equal(syncs.names(), second);
  await Promise.all([first, second]);
  rmSync(dir, { recursive: true });
  await assert.rejects(syncs.names(), { code: 'ENOENT' });
});
