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

/** An empty one when any pack is another than it was. */
export function packCache(repository: string): PackCache {
  const { packs, bytes } = describe(packDir(repository));
  if (kept?.packs === packs) return kept.cache;
  const cache: PackCache = {};
  kept = bytes > LIMITS.gitPackCacheBytes ? null : { packs, cache };
  return cache;
}

/** Which packs there are: differs whenever any of them is another, empty while git removes one. */
export function packsOf(repository: string): string {
  return describe(packDir(repository)).packs;
}

function packDir(repository: string): string {
  return join(resolve(repository), 'objects', 'pack');
}

function describe(dir: string): { packs: string; bytes: number } {
  let bytes = 0;
  const lines = [dir];
  try {
    for (const name of readdirSync(dir).sort()) {
      if (!/\.(?:idx|pack)$/.test(name)) continue;
      const { size, mtimeMs, ino } = statSync(join(dir, name));
      bytes += size;
      lines.push(`${name} ${size} ${mtimeMs} ${ino}`);
    }
  } catch (error) {
    // A pack that git removes just now: nothing is kept of it.
    if (!isMissing(error)) throw error;
    return { packs: '', bytes: Number.POSITIVE_INFINITY };
  }
  return { packs: lines.join('\n'), bytes };
}
