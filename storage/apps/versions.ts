/**
 * The stored versions of one app (specification, "Stores of code"). The prepared files are renamed into place
 * first, the code last: a version is stored when its code folder exists, and whole when its `version.json` does too. The
 * prepared files of one that is stored and not whole were damaged, and are made anew from its code.
 */
import { createHash } from 'node:crypto';
import { lstat, open, readFile, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isVersionId } from '../../protocol/ids.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { object, text } from '../../protocol/shapes/schema.ts';
import { isRecord, shape } from '../../protocol/shapes/shape.ts';
import {
  exists,
  isMissing,
  isThere,
  mkdirDurable,
  namesIn,
  readJson,
  readShaped,
  renameDurable,
  StagedFile,
} from '../files/atomic-file.ts';
import type { AppPaths, VersionPaths } from '../layout.ts';

/** `current.json`. `activatedAt` is milliseconds since the epoch, in the file ISO 8601; 0 when the file does not say. */
export type CurrentPointer = { activeVersion: string; activatedAt: number };

const CURRENT = shape(object({ activeVersion: text }, { activatedAt: {} }));

/** Whole versions, newest first. */
export async function listVersions(app: AppPaths): Promise<VersionSummary[]> {
  const summaries = await Promise.all((await versionsIn(app, app.versionsDir)).map((id) => readVersion(app, id)));
  return summaries.filter((summary) => summary !== null).sort((a, b) => b.uploadedAt - a.uploadedAt);
}

/** What was prepared of a whole version; null when there is no such version or only a part of one. */
export async function readVersion(app: AppPaths, versionId: string): Promise<VersionSummary | null> {
  if (!isVersionId(versionId) || !(await exists(app.version(versionId).code))) return null;
  const summary = await readJson(app.version(versionId).summary, null);
  return isRecord(summary) && summary.versionId === versionId ? (summary as VersionSummary) : null;
}

/** Ids of the versions whose code is there, whole or not. */
export async function storedVersions(app: AppPaths): Promise<string[]> {
  const stored: string[] = [];
  for (const id of await versionsIn(app, app.versionsDir)) if (await exists(app.version(id).code)) stored.push(id);
  return stored;
}

/**
 * Whether what was prepared of a whole version is undamaged. Copies of static files are asked for their size alone: reading them
 * would take long. Versions that an older release prepared have no list of their files.
 */
export async function isPrepared(app: AppPaths, versionId: string): Promise<boolean> {
  const { prepared, preparedList, static: index, validators } = app.version(versionId);
  const list = await readJson(preparedList, null);
  if (list === undefined) return isRecord(await readJson(index, null)) && (await sizeOf(validators)) > 0;
  if (!isRecord(list)) return false;
  const found = await Promise.all(
    Object.entries(list as Record<string, [number, string]>).map(async ([name, [bytes, sha256]]) => {
      const path = join(prepared, name);
      if (name.startsWith('static/')) return (await sizeOf(path)) === bytes;
      return (await sha256Of(path, bytes)) === sha256;
    }),
  );
  return !found.includes(false);
}

/** Of a file of this size; null for any other. One read instead of the three that a file of unknown size takes: a start reads thousands. */
async function sha256Of(path: string, bytes: number): Promise<string | null> {
  try {
    const file = await open(path);
    try {
      const content = Buffer.allocUnsafe(bytes + 1);
      const { bytesRead } = await file.read(content, 0, content.length, 0);
      return bytesRead === bytes ? createHash('sha256').update(content.subarray(0, bytes)).digest('hex') : null;
    } finally {
      await file.close();
    }
  } catch {
    return null;
  }
}

async function sizeOf(path: string): Promise<number> {
  const found = await lstat(path).catch(() => null);
  return found?.isFile() ? found.size : -1;
}

/** Puts prepared files in the place of damaged ones. */
export async function installPrepared(app: AppPaths, versionId: string, staged: string): Promise<void> {
  const { prepared } = app.version(versionId);
  await mkdirDurable(app.preparedDir);
  await rm(prepared, { recursive: true, force: true });
  await renameDurable(staged, prepared);
}

/** Whether the version's `app.json` is unchanged since it was checked and stored. */
export async function isIntact(app: AppPaths, { versionId, manifestSha256 }: VersionSummary): Promise<boolean> {
  const bytes = await readFile(app.version(versionId).manifest).catch(() => Buffer.alloc(0));
  return createHash('sha256').update(bytes).digest('hex') === manifestSha256;
}

/** Puts a staged version into place; all or nothing after a crash. */
export async function installVersion(app: AppPaths, versionId: string, staged: VersionPaths): Promise<void> {
  const target = app.version(versionId);
  await mkdirDurable(app.preparedDir);
  await mkdirDurable(app.versionsDir);
  await rm(target.prepared, { recursive: true, force: true });
  await renameDurable(staged.prepared, target.prepared);
  await renameDurable(staged.code, target.code);
}

/** Removes a version: the first step moves it as a whole to `tmpDir`, where it is deleted. */
export async function removeVersion(app: AppPaths, versionId: string, tmpDir: string): Promise<void> {
  const target = app.version(versionId);
  const going = join(tmpDir, `${basename(app.dir)}-${basename(versionId)}-removed`);
  await rm(going, { recursive: true, force: true });
  let failure: unknown = null;
  try {
    await renameDurable(target.code, going);
  } catch (error) {
    if (await isThere(target.code)) throw error;
    // It was moved, only the flush failed: delete the rest all the same.
    if (!isMissing(error)) failure = error;
  }
  await rm(target.prepared, { recursive: true, force: true });
  await rm(going, { recursive: true, force: true });
  if (failure !== null) throw failure;
}

/** Removes what was prepared of versions whose code a crash kept from its place, or which were being removed. */
export async function removeHalfVersions(app: AppPaths): Promise<void> {
  for (const versionId of await versionsIn(app, app.preparedDir)) {
    const { code, prepared } = app.version(versionId);
    if (!(await exists(code))) await rm(prepared, { recursive: true, force: true });
  }
}

/** The pointer; null when no version is active, `damaged` when the file cannot be read as one. */
export async function readCurrent(app: AppPaths): Promise<CurrentPointer | null | 'damaged'> {
  const value = await readShaped(app.current, CURRENT);
  if (value === undefined) return null;
  if (value === null) return 'damaged';
  return { activeVersion: value.activeVersion, activatedAt: Date.parse(String(value.activatedAt)) || 0 };
}

export async function writeCurrent(app: AppPaths, pointer: CurrentPointer): Promise<void> {
  await (await stageCurrent(app, pointer)).place();
}

/** A pointer written in advance, so that it can be moved on a full disk. */
export function stageCurrent(app: AppPaths, pointer: CurrentPointer): Promise<StagedFile> {
  const activatedAt = new Date(pointer.activatedAt).toISOString();
  return StagedFile.write(app.current, `${JSON.stringify({ activeVersion: pointer.activeVersion, activatedAt })}\n`);
}

async function versionsIn(app: AppPaths, dir: string): Promise<string[]> {
  return (await namesIn(dir)).map((folder) => app.versionOf(folder)).filter(isVersionId);
}
