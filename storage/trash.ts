/** What was removed and what was left over: the trash of deleted apps, and unfinished uploads. */
import { randomUUID } from 'node:crypto';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isAppId } from '../protocol/ids.ts';
import { LIMITS } from '../protocol/limits.ts';
import { exists, isMissing, moveDir } from './atomic-file.ts';
import type { AppPaths, Layout } from './layout.ts';

const TRASHED = /^.+-(\d{13,})$/;

/** Moves an app's folder, data included, to `trash/<id>-<ms>`. An app without a folder is nothing to move. */
export async function moveToTrash(layout: Layout, id: string, now: number): Promise<void> {
  await moveIfThere(layout.app(id).dir, join(layout.trashDir, `${id}-${now}`));
}

/** Removes left-over uploads now, and old trash now and every day, until the timer is cleared. */
export function sweepDaily(layout: Layout, trashDays: number, onError: (error: unknown) => void): NodeJS.Timeout {
  const sweep = () => void sweepTrash(layout, trashDays, Date.now()).catch(onError);
  void sweepTmp(layout, Date.now()).catch(onError);
  sweep();
  return setInterval(sweep, LIMITS.dayMs).unref();
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
  return removeWhere(layout.tmpDir, (name) => isOlder(join(layout.tmpDir, name), startedAt));
}

/** Removes temporary files from before this process began: it, or another command, may be writing later ones. */
export async function sweepTemporary(dir: string, before: number = performance.timeOrigin): Promise<string[]> {
  const isLeft = async (name: string) => name.endsWith('.tmp') && (await isOlder(join(dir, name), before));
  return (await removeWhere(dir, isLeft).catch(unlessMissing)) ?? [];
}

/** Removes unregistered apps: cut-off removals and first uploads. Before any is open. Answers their ids. */
export async function sweepUnregistered(
  layout: Layout,
  isRegistered: (id: string) => boolean,
  now: number,
): Promise<string[]> {
  const swept: string[] = [];
  for (const id of await readdir(layout.appsDir)) {
    if (!isAppId(id) || isRegistered(id)) continue;
    const app = layout.app(id);
    if (await exists(app.disposable)) await purgeApp(layout, id);
    else if (await holdsApp(app)) await moveToTrash(layout, id, now);
    else continue;
    swept.push(id);
  }
  return swept;
}

/** A folder of somebody else's in the folder of the apps is none of ours. */
async function holdsApp(app: AppPaths): Promise<boolean> {
  for (const path of [app.versionsDir, app.preparedDir, app.data]) if (await exists(path)) return true;
  return false;
}

/** Removes an app's folder for good; it is gone as a whole from the first step on. */
export async function purgeApp(layout: Layout, id: string): Promise<void> {
  const going = join(layout.tmpDir, `${id}-${randomUUID()}-removed`);
  await moveIfThere(layout.app(id).dir, going);
  await rm(going, { recursive: true, force: true });
}

async function moveIfThere(from: string, to: string): Promise<void> {
  await moveDir(from, to).catch(unlessMissing);
}

function unlessMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}

async function isOlder(path: string, than: number): Promise<boolean> {
  const found = await lstat(path).catch(() => null);
  return found !== null && found.mtimeMs < than;
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
