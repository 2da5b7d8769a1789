/** Receives an archive for a session into a folder on the session's file system, so that its files are moved, not copied. */
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { stagingFolder } from '../../storage/authoring/sessions.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';

/** Where the archive is, and a name beside it for the folder that it is unpacked to. Both are gone when `work` has ended. */
export async function withUpload<T>(
  store: CodeStorePaths,
  body: Readable,
  work: (archive: string, unpackTo: string) => Promise<T>,
): Promise<T> {
  const staged = await stagingFolder(store);
  const archive = join(staged, 'upload.tgz');
  try {
    if (body.errored) throw body.errored;
    await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
    return await work(archive, join(staged, 'files'));
  } finally {
    await rm(staged, { recursive: true, force: true });
  }
}
