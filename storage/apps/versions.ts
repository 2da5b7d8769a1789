/**
 * The stored versions of one app (specification, "Versioning"; decisions, section 2). A version is whole when its code folder
 * and its `version.json` exist: the prepared files are renamed into place first, the code last.
 */
import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isVersionId } from '../../protocol/ids.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import {
  exists,
  isMissing,
  isRecord,
  isThere,
  mkdirDurable,
  namesIn,
  readJson,
  renameDurable,
  StagedFile,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import type { AppPaths, VersionPaths } from '../layout.ts';

/** `current.json`. `activatedAt` is milliseconds since the epoch, in the file ISO 8601; 0 when the file does not say. */
export type CurrentPointer = { activeVersion: string; activatedAt: number };

/** `pending.json`: an activation that was begun. `migrations` is the `user_version` that its migrations lead to. */
type PendingActivation = { versionId: string; migrations: number };

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

/** Removes the parts of versions that a crash left; returns the ids of the whole ones. */
export async function removeHalfVersions(app: AppPaths, tmpDir: string): Promise<Set<string>> {
  const whole = new Set<string>();
  const found = new Set([...(await versionsIn(app, app.versionsDir)), ...(await versionsIn(app, app.preparedDir))]);
  for (const versionId of found) {
    if ((await readVersion(app, versionId)) !== null) whole.add(versionId);
    else await removeVersion(app, versionId, tmpDir);
  }
  return whole;
}

/** The pointer; null when no version is active, `damaged` when the file cannot be read as one. */
export async function readCurrent(app: AppPaths): Promise<CurrentPointer | null | 'damaged'> {
  const value = await readJson(app.current, 'damaged');
  if (value === undefined) return null;
  if (!isRecord(value) || typeof value.activeVersion !== 'string') return 'damaged';
  const activatedAt = typeof value.activatedAt === 'string' ? Date.parse(value.activatedAt) : Number.NaN;
  return { activeVersion: value.activeVersion, activatedAt: Number.isNaN(activatedAt) ? 0 : activatedAt };
}

export async function writeCurrent(app: AppPaths, pointer: CurrentPointer): Promise<void> {
  await (await stageCurrent(app, pointer)).place();
}

/** A pointer written in advance, so that it can be moved on a full disk. */
export function stageCurrent(app: AppPaths, pointer: CurrentPointer): Promise<StagedFile> {
  const activatedAt = new Date(pointer.activatedAt).toISOString();
  return StagedFile.write(app.current, `${JSON.stringify({ activeVersion: pointer.activeVersion, activatedAt })}\n`);
}

export async function readPending(app: AppPaths): Promise<PendingActivation | null> {
  const value = await readJson(app.pending, null);
  if (!isRecord(value) || typeof value.versionId !== 'string' || typeof value.migrations !== 'number') return null;
  return { versionId: value.versionId, migrations: value.migrations };
}

export async function writePending(app: AppPaths, pending: PendingActivation): Promise<void> {
  await writeFileAtomic(app.pending, `${JSON.stringify(pending)}\n`);
}

/** The version that an upload is about to make active; null when there is none. */
export async function readIncoming(app: AppPaths): Promise<string | null> {
  const value = await readJson(app.incoming, null);
  return isRecord(value) && typeof value.versionId === 'string' ? value.versionId : null;
}

export async function writeIncoming(app: AppPaths, versionId: string): Promise<void> {
  await writeFileAtomic(app.incoming, `${JSON.stringify({ versionId })}\n`);
}

async function versionsIn(app: AppPaths, dir: string): Promise<string[]> {
  return (await namesIn(dir)).map((folder) => app.versionOf(folder)).filter(isVersionId);
}
