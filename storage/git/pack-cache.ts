/**
 * What isomorphic-git has read of packs, kept between the jobs of a thread. It reads and checks a pack as a whole, and takes its
 * index apart: with 60,000 objects 50 to 100 ms, which every job would pay again.
 */
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from '../atomic-file.ts';

export type PackCache = object;

/** Of the repository that was used last; `packs` tells whether they are still the same files. */
let kept: { packs: string; cache: PackCache } | null = null;
/** What was read of packs since. */
let readBytes = 0;

/** An empty one when any pack is another than it was. */
export function packCache(repository: string): PackCache {
  const packs = packsOf(repository);
  if (kept?.packs === packs && readBytes <= LIMITS.gitPackCacheBytes) return kept.cache;
  kept = { packs, cache: {} };
  readBytes = 0;
  return kept.cache;
}

/** A pack or an index was read, and may stay in the memory of the thread. */
export function notePackRead(bytes: number): void {
  readBytes += bytes;
}

/** Which packs there are: differs whenever any of them is another, empty while git removes one. */
export function packsOf(repository: string): string {
  const dir = join(resolve(repository), 'objects', 'pack');
  const lines = [dir];
  try {
    for (const name of readdirSync(dir).sort()) {
      if (!/\.(?:idx|pack)$/.test(name)) continue;
      const { size, mtimeMs, ino } = statSync(join(dir, name));
      lines.push(`${name} ${size} ${mtimeMs} ${ino}`);
    }
  } catch (error) {
    // A pack that git removes just now: nothing is kept of it.
    if (!isMissing(error)) throw error;
    return '';
  }
  return lines.join('\n');
}
