/** Fills a file system except for a given rest. */
import { closeSync, openSync, statfsSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const CHUNK = Buffer.alloc(64 * 1024, 1);

/** Writes the file until `left` bytes are free on its file system, by default none. */
export function fill(path: string, left = 0): void {
  const fd = openSync(path, 'w');
  try {
    for (let length = CHUNK.length; length >= 1; ) {
      const room = left === 0 ? length : freeOn(dirname(path)) - left;
      if (room <= 0) return;
      try {
        const next = Math.min(length, room);
        if (writeSync(fd, CHUNK, 0, next) < next) length >>= 1;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        length >>= 1;
      }
    }
  } finally {
    closeSync(fd);
  }
}

function freeOn(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
