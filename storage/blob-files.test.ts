import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { countBlobs } from './blob-files.ts';

test('the bytes of all files in a folder count, however many are read at once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-blobs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (let i = 1; i <= 100; i++)
    writeFileSync(join(folder, createHash('sha256').update(String(i)).digest('hex')), 'x'.repeat(i));
  assert.deepEqual(await countBlobs(folder), { files: 100, bytes: 5050 });
});
