/**
 * Records the flushes and renames of the code under test, in order. Linux only: the paths of open files are in `/proc`.
 */
import fs, { readlinkSync } from 'node:fs';
import promises, { type FileHandle, open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';

/**
 * `path` of a flush is the file or folder, of a rename the new name; it is recorded when that is done. Until the test
 * ends.
 */
export async function onDiskSteps(
  t: TestContext,
  note: (step: 'flush' | 'rename', path: string) => void,
): Promise<void> {
  const pathOf = (fd: number): string => readlinkSync(`/proc/self/fd/${fd}`);
  const { fsyncSync, renameSync } = fs;
  t.mock.method(fs, 'fsyncSync', (fd: number) => {
    fsyncSync(fd);
    note('flush', pathOf(fd));
  });
  t.mock.method(fs, 'renameSync', (from: string, to: string) => {
    renameSync(from, to);
    note('rename', to);
  });
  const { rename } = promises;
  t.mock.method(promises, 'rename', async (from: string, to: string) => {
    await rename(from, to);
    note('rename', to);
  });
  const any = await open('/dev/null', 'r');
  const handles = Object.getPrototypeOf(any) as FileHandle;
  await any.close();
  const { sync } = handles;
  t.mock.method(handles, 'sync', async function (this: FileHandle) {
    await sync.call(this);
    note('flush', pathOf(this.fd));
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}
