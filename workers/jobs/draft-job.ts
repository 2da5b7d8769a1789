/**
 * Prepares what drafts run on. Copies and prepares their worktree like an uploaded version, so that no file changes during a
 * call; not durably, because the worktree has them. Also copies the live data.
 */
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { contentHash } from '../../protocol/content-hash.ts';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { draftVersion } from '../../protocol/http/origins.ts';
import { versionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isTypeScript } from '../../protocol/rules/handler-imports.ts';
import type {
  DraftMigration,
  SeedJob,
  SeedResult,
  Snapshot,
  SnapshotJob,
  SnapshotResult,
} from '../../protocol/wire/jobs.ts';
import { namesInSync, syncFile } from '../../storage/files/atomic-file.ts';
import { AppPaths, type VersionPaths } from '../../storage/layout.ts';
import { removeMark } from '../../storage/replication/mark.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { type AppFile, hashed, readFolder } from './content/app-files.ts';
import { NO_ICONS } from './content/drawn-icons.ts';
import type { ExtractedFile } from './content/extracted.ts';
import { makeFolder, writeNewFile } from './content/files.ts';
import { buildPage } from './content/page-bundle.ts';
import { inspectHandlers, writeErased } from './handlers.ts';
import { checkFiles, prepareFiles } from './prepare-files.ts';

type SnapshotFile = AppFile & ExtractedFile;

const MIGRATION = /^migrations\/(\d{4}_[^/]*\.sql)$/;

/** Throws the error with which an upload of the files would be refused. */
export async function makeSnapshot(job: SnapshotJob): Promise<SnapshotResult> {
  const files = existsSync(job.folder) ? readFolder(job.folder).map(hashed) : [];
  const sha256 = contentHash(files);
  const { previous } = job;
  if (previous?.summary.sha256 === sha256) return null;
  const draft = new AppPaths(job.draft);
  const at = Math.max(job.at, (previous?.summary.uploadedAt ?? 0) + 1);
  const placed = draft.version(versionId(at, sha256));
  try {
    const taken = await prepare(job, files, sha256, at, placed);
    removeOthers(draft, placed, previous === null ? null : draft.version(previous.summary.versionId));
    return taken;
  } catch (error) {
    for (const dir of [placed.code, placed.prepared]) rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

async function prepare(
  job: SnapshotJob,
  files: SnapshotFile[],
  sha256: string,
  at: number,
  placed: VersionPaths,
): Promise<Snapshot> {
  const { app, workspace, previous } = job;
  // Left by a process that died during the same work.
  for (const dir of [placed.code, placed.prepared]) rmSync(dir, { recursive: true, force: true });
  makeFolder(placed.code);
  for (const { path, content } of files) writeNewFile(join(placed.code, path), content);
  // Compiling schemas is the longest part by far, and most edits are to something else.
  const before = previous === null ? null : new AppPaths(job.draft).version(previous.summary.versionId);
  const content = { app, versionId: versionId(at, sha256), uploadedAt: at, sha256, files };
  const owner = { app, draft: { workspace, version: draftVersion(sha256) } };
  // Nobody installs a draft.
  const checked = checkFiles(content, placed.code);
  const built = await buildPage(placed.code, files, checked.manifest);
  const preparation = { owner, compressed: false, before, icons: NO_ICONS, built };
  const summary = prepareFiles(content, checked, placed, preparation);
  const paths = files.map(({ path }) => path);
  // Other findings in handlers only refuse a publication.
  if (paths.some(isTypeScript))
    await writeErased((await inspectHandlers({ code: placed.code, paths, ...checked })).erased, placed);
  return { summary, migrations: migrationsOf(files) };
}

function migrationsOf(files: SnapshotFile[]): DraftMigration[] {
  return files.flatMap(({ path, sha256 }) => {
    const name = MIGRATION.exec(path)?.[1];
    return name === undefined ? [] : [{ name, sha256 }];
  });
}

/** Calls may still run on the previous one. */
function removeOthers(draft: AppPaths, newest: VersionPaths, before: VersionPaths | null): void {
  const kept = [basename(newest.code), ...(before === null ? [] : [basename(before.code)])];
  for (const dir of [draft.versionsDir, draft.preparedDir]) {
    for (const name of namesInSync(dir)) {
      if (!kept.includes(name)) rmSync(join(dir, name), { recursive: true, force: true });
    }
  }
}

/** What SQLite keeps beside a database. */
const COMPANIONS = ['-wal', '-shm', '-journal'];

/** Gives a draft a copy of the live data: one snapshot, read while others go on writing. */
export async function seed({ from, to }: SeedJob): Promise<SeedResult> {
  const unfinished = `${to}.tmp`;
  remove(unfinished);
  try {
    const userVersion = existsSync(from) ? await copy(from, unfinished) : null;
    // The rest of the old data's log would be applied to the new data.
    remove(to);
    // It said of the old data what the log of a cluster has.
    removeMark(to);
    if (userVersion !== null) renameSync(unfinished, to);
    await syncFile(dirname(to), 'r');
    return { userVersion: userVersion ?? 0 };
  } catch (error) {
    remove(unfinished);
    throw error;
  }
}

/** Null when it is empty. */
async function copy(from: string, to: string): Promise<number | null> {
  // Made here, because SQLite would let other users read it.
  writeFileSync(to, '', { mode: 0o600 });
  try {
    using(openSqlite(from, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs }), (db) =>
      db.prepare('VACUUM INTO ?').run(to),
    );
    if (statSync(to).size === 0) {
      remove(to);
      return null;
    }
    // SQLite does not flush the copy.
    await syncFile(to, 'r+');
    return using(openSqlite(to, { readonly: true }), (db) => Number(db.pragma('user_version', { simple: true })));
  } catch (error) {
    if (isDiskFull(error)) throw error;
    throw new SvcError('INTERNAL', `The live data cannot be copied: ${(error as Error).message}.`, { cause: error });
  }
}

function using<T>(db: Database, work: (db: Database) => T): T {
  try {
    return work(db);
  } finally {
    db.close();
  }
}

function remove(file: string): void {
  for (const suffix of ['', ...COMPANIONS]) rmSync(file + suffix, { force: true });
}
