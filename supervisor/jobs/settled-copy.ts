/** Copies a database that others write: in a cluster until the log of pages has all that is in the copy. */
import { stat } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';

const TRIES = 5;

/**
 * `settled` is called after `copy`: as `TreeCallbacks.unsettled`. Rejects as both do; then the copy may have what the log has not. `copy`
 * is repeated where another file took the place of the database meanwhile, because the log refused what that had.
 */
export async function settledCopy<T>(
  file: string,
  settled: () => Promise<void> | null,
  copy: () => Promise<T>,
): Promise<T> {
  for (let tries = 0; tries < TRIES; tries++) {
    const before = await inodeOf(file);
    const copied = await copy();
    await settled();
    if ((await inodeOf(file)) === before) return copied;
  }
  throw new SvcError('STORAGE_UNAVAILABLE', 'The live data was fetched again while it was copied. Try again.');
}

/** 0 without a file. */
async function inodeOf(file: string): Promise<number> {
  return (await stat(file).catch(() => null))?.ino ?? 0;
}
