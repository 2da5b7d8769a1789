import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { pino } from 'pino';
import { Layout } from '../storage/layout.ts';
import { temporaryFolder } from '../testing/command-line.ts';
import { Blobs } from './blobs.ts';

test('files count as soon as they are there or gone, also when their folder cannot be flushed', async (t) => {
  const folder = temporaryFolder(t);
  const layout = new Layout(folder);
  mkdirSync(layout.tmpDir, { recursive: true });
  mkdirSync(join(layout.app('album').dir), { recursive: true });
  const blobs = new Blobs({ layout, log: pino({ enabled: false }), quotaMb: async () => 1, refusalOf: () => null });
  const store = (text: string) => blobs.store('album', Readable.from([Buffer.from(text)]), 'text/plain');
  const count = async () => {
    const { files, bytes } = await blobs.usage('album');
    return [files, bytes];
  };
  const first = await store('one');
  assert.deepEqual(await count(), [1, 3]);

  const handle = await open(folder);
  const files = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const { sync } = files;
  const broken = t.mock.method(files, 'sync', async function (this: FileHandle) {
    if ((await this.stat()).isDirectory()) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' });
    return sync.call(this);
  });
  await assert.rejects(store('three'), { code: 'EIO' });
  assert.deepEqual(await count(), [2, 8]);
  await assert.rejects(blobs.remove('album', first.sha256), { code: 'EIO' });
  assert.deepEqual(await count(), [1, 5]);

  broken.mock.restore();
  await store('three');
  assert.deepEqual(await count(), [1, 5], 'the same file counts once');
});
