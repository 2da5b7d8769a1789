/**
 * Takes snapshots of drafts: the worktree is copied and prepared like an uploaded version, so that what runs and what is served
 * never changes under a call. Not durable, for the worktree has it all.
 */
import { rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { draftVersion } from '../../protocol/bridge.ts';
import type { DraftMigration, Snapshot, SnapshotJob, SnapshotResult } from '../../protocol/drafts.ts';
import { versionId } from '../../protocol/ids.ts';
import { namesInSync } from '../../storage/atomic-file.ts';
import { AppPaths, type VersionPaths } from '../../storage/layout.ts';
import { makeFolder, writeNewFile } from './files.ts';
import { contentHash, prepareFiles } from './ingest.ts';
import { readWorktree, type WorktreeFile } from './worktree.ts';

const MIGRATION = /^migrations\/(\d{4}_[^/]*\.sql)$/;

/** Throws what an upload of the files would be refused with. */
export function takeSnapshot(job: SnapshotJob): SnapshotResult {
  const files = readWorktree(job.folder);
  const sha256 = contentHash(files);
  const { previous } = job;
  if (previous?.summary.sha256 === sha256) return null;
  const draft = new AppPaths(job.draft);
  const at = Math.max(job.at, (previous?.summary.uploadedAt ?? 0) + 1);
  const placed = draft.version(versionId(at, sha256));
  try {
    const taken = prepare(job, files, sha256, at, placed);
    removeOthers(draft, placed, previous === null ? null : draft.version(previous.summary.versionId));
    return taken;
  } catch (error) {
    for (const dir of [placed.code, placed.prepared]) rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

function prepare(job: SnapshotJob, files: WorktreeFile[], sha256: string, at: number, placed: VersionPaths): Snapshot {
  const { app, session, previous } = job;
  // Of a process that died while it did the same.
  for (const dir of [placed.code, placed.prepared]) rmSync(dir, { recursive: true, force: true });
  makeFolder(placed.code);
  for (const { path, content } of files) writeNewFile(join(placed.code, path), content);
  // Compiling schemas is the longest part by far, and most edits are to something else.
  const before = previous === null ? null : new AppPaths(job.draft).version(previous.summary.versionId);
  const { summary } = prepareFiles({ app, versionId: versionId(at, sha256), uploadedAt: at, sha256, files }, placed, {
    owner: { app, draft: { session, version: draftVersion(sha256) } },
    compressed: false,
    before,
  });
  return { summary, migrations: migrationsOf(files) };
}

function migrationsOf(files: WorktreeFile[]): DraftMigration[] {
  return files.flatMap(({ path, sha256 }) => {
    const name = MIGRATION.exec(path)?.[1];
    return name === undefined ? [] : [{ name, sha256 }];
  });
}

/** Calls may still be at work on the one before. */
function removeOthers(draft: AppPaths, newest: VersionPaths, before: VersionPaths | null): void {
  const kept = [basename(newest.code), ...(before === null ? [] : [basename(before.code)])];
  for (const dir of [draft.versionsDir, draft.preparedDir]) {
    for (const name of namesInSync(dir)) {
      if (!kept.includes(name)) rmSync(join(dir, name), { recursive: true, force: true });
    }
  }
}
