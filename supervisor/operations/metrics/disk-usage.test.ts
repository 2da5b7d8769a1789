import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { Layout } from '../../../storage/layout.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { DiskUsage } from './disk-usage.ts';

test('apps are measured in the background, and again after a while', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-disk-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const layout = new Layout(folder);
  const put = (file: string, content: string): void => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  };
  const notes = layout.app('notes');
  put(notes.data, 'four');
  put(`${notes.data}-wal`, 'log');
  for (const [versionId, bytes] of [
    ['notes/v1', 100],
    ['notes/v2', 20],
  ] as const) {
    const version = notes.version(versionId);
    mkdirSync(version.code, { recursive: true });
    put(version.summary, JSON.stringify({ versionId, bytes, uploadedAt: 0 }));
  }
  let now = 0;
  const disk = new DiskUsage({ layout, registry: standIn({ ids: () => ['notes', 'gone'] }), now: () => now });
  assert.deepEqual(disk.known, []);
  await disk.settled();
  const first = [
    ['notes', { data: 7, versions: 120 }],
    ['gone', { data: 0, versions: 0 }],
  ];
  assert.deepEqual(disk.known, first);
  put(notes.data, 'more than four');
  now += LIMITS.diskUsageMs - 1;
  assert.deepEqual(disk.known, first);
  await disk.settled();
  assert.deepEqual(disk.known, first);
  now += 1;
  assert.deepEqual(disk.known, first);
  await disk.settled();
  assert.deepEqual(disk.known[0]?.[1], { data: 17, versions: 120 });
});
