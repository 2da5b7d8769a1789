/**
 * Flushes files and folders to the disk: here, or through another process. Node's permission model denies every `fsync` from
 * version 26 on, and that of a bare descriptor in all versions.
 */
import type { FileHandle } from 'node:fs/promises';

let elsewhere: ((path: string) => Promise<void>) | null = null;

/**
 * Makes `ask` flush what Node does not let this process flush. It rejects with the error that `fsync` gave, with its `code`.
 */
export function flushElsewhere(ask: (path: string) => Promise<void>): void {
  elsewhere = ask;
}

/** Resolves once the content of the file, or the names in the folder, are durable. `path` is its current path. */
export async function flush(file: FileHandle, path: string): Promise<void> {
  try {
    await file.sync();
  } catch (error) {
    if (elsewhere === null || (error as NodeJS.ErrnoException).code !== 'ERR_ACCESS_DENIED') throw error;
    // A flush applies to the file, so any descriptor of it will do.
    await elsewhere(path);
  }
}
