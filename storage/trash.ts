/** What was removed and what was left over: the trash of deleted apps, and unfinished uploads. */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LIMITS } from '../protocol/limits.ts';
import { isMissing, moveDir } from './atomic-file.ts';
import type { Layout } from './layout.ts';

const TRASHED = /^.+-(\d{13,})$/;

/** Moves an app's folder, data included, to `trash/<id>-<ms>`. An app without a folder is nothing to move. */
export async function moveToTrash(layout: Layout, id: string, now: number): Promise<void> {
  try {
    await moveDir(layout.app(id).dir, join(layout.trashDir, `${id}-${now}`));
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Removes what has been in the trash for longer than `trashDays`; answers the names. */
export async function sweepTrash(layout: Layout, trashDays: number, now: number): Promise<string[]> {
  return removeWhere(layout.trashDir, async (name) => {
    const trashedAt = Number(TRASHED.exec(name)?.[1] ?? Number.NaN);
    return now - trashedAt > trashDays * LIMITS.dayMs;
  });
}

/** Removes what uploads of an earlier gateway left in `tmp/`: everything that was there before `startedAt`. */
export async function sweepTmp(layout: Layout, startedAt: number): Promise<string[]> {
  return removeWhere(layout.tmpDir, async (name) => {
    const found = await stat(join(layout.tmpDir, name)).catch(() => null);
    return found !== null && found.mtimeMs < startedAt;
  });
}

async function removeWhere(dir: string, isOver: (name: string) => Promise<boolean>): Promise<string[]> {
  const removed: string[] = [];
  for (const name of await readdir(dir)) {
    if (!(await isOver(name))) continue;
    await rm(join(dir, name), { recursive: true, force: true });
    removed.push(name);
  }
  return removed;
}
