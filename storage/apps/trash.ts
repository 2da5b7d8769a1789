/** Keeps removed apps in the trash, and cleans up unfinished uploads. */
import { randomUUID } from 'node:crypto';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { object } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import {
  exists,
  inParallel,
  isMissing,
  moveDir,
  namesIn,
  readShaped,
  renameDurable,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { listTree, pathOf } from '../files/list-tree.ts';
import type { AppPaths, Layout } from '../layout.ts';
import { takeLinkedCode } from './version-links.ts';

/** Files whose size is asked for at a time. */
const SIZES_AT_ONCE = 16;

const TRASHED = /^(.+)-(\d{13,})$/;

/** `removed.json`. `versions` are the numbers of its tags on the git store; null where they could not be read. */
type Removal = { removedAt: number; versions: number[] | null };
const REMOVAL = shape(object({ removedAt: { type: 'integer' } }, { versions: {} }));

/** A removed app: `id` is the name of its folder, `<app>-<removedAt>`, the time in milliseconds since the epoch. */
export type Trashed = { id: string; app: string; removedAt: number };

/** Null for a name that no removed app has. */
export function parseTrashed(id: string): Trashed | null {
  const [, app = '', removedAt] = TRASHED.exec(id) ?? [];
  return isAppId(app) ? { id, app, removedAt: Number(removedAt) } : null;
}

/** Newest first. */
export async function listTrash(layout: Layout): Promise<Trashed[]> {
  const found = (await namesIn(layout.trashDir)).flatMap((name) => parseTrashed(name) ?? []);
  return found.sort((a, b) => b.removedAt - a.removedAt || (a.id < b.id ? -1 : 1));
}

/** Null without a valid file: an older release removed the app. */
export async function readRemoval(app: AppPaths): Promise<Removal | null> {
  const value = await readShaped(app.removed, REMOVAL);
  if (value === null || value === undefined) return null;
  const { removedAt, versions } = value;
  return { removedAt, versions: Array.isArray(versions) ? versions.filter(Number.isSafeInteger) : null };
}

export async function noteRemoval(app: AppPaths, removal: Removal): Promise<void> {
  await writeFileAtomic(app.removed, `${JSON.stringify(removal)}\n`);
}

/** Where `moveToTrash` moves an app: `<id>-<ms>`, with the noted time of its removal if there is one. */
export async function trashEntryOf(layout: Layout, id: string, now: number): Promise<string> {
  const entry = `${id}-${(await readRemoval(layout.app(id)))?.removedAt ?? now}`;
  // A crash while it is copied from another disk may leave it in both places.
  return (await exists(layout.trashed(entry).dir)) ? `${id}-${now}` : entry;
}

/** Moves an app's folder, data and code included, to the trash. An app without a folder is nothing to move. */
export async function moveToTrash(layout: Layout, id: string, now: number): Promise<void> {
  const app = layout.app(id);
  await takeLinkedCode(app);
  await moveIfThere(app.dir, layout.trashed(await trashEntryOf(layout, id, now)).dir);
}

/** Moves it back; false when it is not in the trash any more. */
export async function takeFromTrash(layout: Layout, { id, app }: Trashed): Promise<boolean> {
  const { dir } = layout.trashed(id);
  if (!(await exists(dir))) return false;
  await moveDir(dir, layout.app(app).dir);
  return true;
}

/** Removes it for good; the first step removes it as a whole. False when it is not there. */
export async function removeTrashed(layout: Layout, id: string): Promise<boolean> {
  // The next start removes what a crash leaves under this name.
  const going = join(layout.trashDir, `.${id}.tmp`);
  try {
    await renameDurable(layout.trashed(id).dir, going);
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
  await rm(going, { recursive: true, force: true });
  return true;
}

/** Bytes of all files of a removed app. Files that go meanwhile count nothing. */
export async function trashedBytes(layout: Layout, id: string): Promise<number> {
  const entries = await listTree(layout.trashed(id).dir).catch(() => []);
  let bytes = 0;
  const files = entries.filter((entry) => entry.isFile());
  await inParallel(files, SIZES_AT_ONCE, async (file) => {
    const found = await lstat(pathOf(file)).catch(() => null);
    bytes += found?.size ?? 0;
  });
  return bytes;
}

/** Removes left-over uploads now, and old trash now and every day, until the timer is cleared. `onSwept` gets the names of that. */
export function sweepDaily(
  layout: Layout,
  trashDays: number,
  onSwept: (names: string[]) => Promise<void>,
  onError: (error: unknown) => void,
): NodeJS.Timeout {
  const sweep = () => void sweepTrash(layout, trashDays, Date.now()).then(onSwept).catch(onError);
  void sweepUploads(layout, Date.now()).catch(onError);
  sweep();
  return setInterval(sweep, LIMITS.dayMs).unref();
}

/** Removes what has been in the trash for longer than `trashDays`; answers the names. */
export async function sweepTrash(layout: Layout, trashDays: number, now: number): Promise<string[]> {
  const swept: string[] = [];
  for (const name of await namesIn(layout.trashDir)) {
    const trashedAt = Number(TRASHED.exec(name)?.[2] ?? Number.NaN);
    if (now - trashedAt > trashDays * LIMITS.dayMs && (await removeTrashed(layout, name))) swept.push(name);
  }
  return swept;
}

/** Removes what uploads of an earlier gateway left in `tmp/`: everything that was there before `startedAt`. */
export async function sweepUploads(layout: Layout, startedAt: number): Promise<string[]> {
  return removeWhere(layout.tmpDir, (name) => isOlder(join(layout.tmpDir, name), startedAt));
}

/** Removes temporary files from before this process began: it, or another command, may be writing later ones. */
export async function sweepTemporary(dir: string, before: number = performance.timeOrigin): Promise<string[]> {
  const isLeft = async (name: string) => name.endsWith('.tmp') && (await isOlder(join(dir, name), before));
  return (await removeWhere(dir, isLeft).catch(unlessMissing)) ?? [];
}

/** Moves apps that are not registered to the trash, before any is open. Answers their ids. */
export async function sweepUnregistered(
  layout: Layout,
  isRegistered: (id: string) => boolean,
  now: number,
): Promise<string[]> {
  const swept: string[] = [];
  for (const id of await readdir(layout.appsDir)) {
    if (!isAppId(id) || isRegistered(id) || !(await holdsApp(layout.app(id)))) continue;
    await moveToTrash(layout, id, now);
    swept.push(id);
  }
  return swept;
}

/** Other programs may put folders there, which stay. */
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
