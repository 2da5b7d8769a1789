/**
 * Makes a stored version the active one: backup, migrations, pointer. A crash at any point leaves the old version or the new
 * one, whole, with the data to match: the journal says which migrations were intended (`storage/apps/live-version.ts`).
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { stageCurrent, writeCurrent } from '../../storage/apps/versions.ts';
import { exists } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';

type ActivationTools = {
  databases: Databases;
  /** Resolves when no process has the app's files open. */
  releaseApp(): Promise<void>;
  log: Logger;
};

/** Whether the migrations of a version are in the data could not be told; `cause` is why. */
export class UnknownOutcome extends Error {}

function unknown(cause: unknown): never {
  throw new UnknownOutcome('Whether the migrations are in the data is unknown.', { cause });
}

/** How many migrations the data has had. Data that is ahead belongs to a later version: a rollback leaves it as it is. */
export async function migrationsDone(
  id: string,
  app: AppPaths,
  { migrations }: VersionSummary,
  databases: Databases,
): Promise<number> {
  return migrations > 0 && (await exists(app.data)) ? databases.userVersion(id) : 0;
}

/**
 * Resolves with the numbers of the migrations that were applied, of those above `done`: the version is live then, also after a
 * crash; `isSettled` is false when only the journal says so. When it rejects, the pointer has not moved, and the data is as it
 * was but for an `UnknownOutcome`.
 */
export async function activateVersion(
  id: string,
  app: AppPaths,
  version: VersionSummary,
  done: number,
  tools: ActivationTools,
  now: number,
): Promise<{ applied: number[]; isSettled: boolean }> {
  const { databases } = tools;
  const pointer = { activeVersion: version.versionId, activatedAt: now };
  if (done >= version.migrations) {
    await writeCurrent(app, pointer);
    return { applied: [], isSettled: true };
  }
  const files = await migrationFiles(app, version.versionId, done);
  const backupTo = (await exists(app.data)) ? join(app.backupsDir, `${stamp(now)}_${done}.sqlite`) : null;
  if (backupTo !== null) await mkdir(app.backupsDir, { recursive: true, mode: 0o700 });
  // Before the data changes: a disk that has no room for it then would leave the old code on the new data.
  const staged = await stageCurrent(app, pointer);
  let applied: number[];
  try {
    applied = await migrate(id, version, files, backupTo, tools);
  } catch (error) {
    await staged.discard();
    throw error;
  }
  let isSettled = true;
  try {
    await staged.place();
  } catch (error) {
    // The old code does not know the data. With its migrations and the intention on the disk the version is live without the pointer.
    await databases.makeDurable(id).catch(unknown);
    tools.log.error({ app: id, err: error }, 'An activation cannot be settled; its version serves all the same.');
    isSettled = false;
  }
  if (backupTo !== null)
    await pruneBackups(app).catch((error: unknown) =>
      tools.log.error({ app: id, err: error }, 'Old copies of the data could not be removed.'),
    );
  return { applied, isSettled };
}

/** Copies the app's data aside, with those from before migrations; the copy's name, or null where there is no data. */
export async function copyAside(id: string, app: AppPaths, databases: Databases, now: number): Promise<string | null> {
  if (!(await exists(app.data))) return null;
  const name = `${stamp(now)}_${await databases.userVersion(id)}.sqlite`;
  await mkdir(app.backupsDir, { recursive: true, mode: 0o700 });
  await databases.migrate(id, [], join(app.backupsDir, name));
  if (!(await exists(join(app.backupsDir, name)))) return null;
  await pruneBackups(app);
  return name;
}

/**
 * A lost answer leaves the transaction's outcome open. So does a commit that failed on the disk: while the file is open it counts
 * as rolled back, but whoever opens it later may find it whole in the log.
 */
async function migrate(
  id: string,
  version: VersionSummary,
  files: MigrationFile[],
  backupTo: string | null,
  { databases, releaseApp }: ActivationTools,
): Promise<number[]> {
  try {
    return await databases.migrate(id, files, backupTo);
  } catch (error) {
    const failed = error instanceof SvcError && error.code === 'MIGRATION_FAILED';
    let isUndone = failed;
    try {
      if (!(error instanceof SvcError) || error.code === 'STORE_DAMAGED') await releaseApp();
      isUndone ||= (await databases.userVersion(id)) < version.migrations;
      if (!isUndone) await databases.makeDurable(id);
    } catch (cause) {
      unknown(cause);
    }
    if (!isUndone) return files.map(({ name }) => Number.parseInt(name, 10));
    // A writer that died leaves half a copy.
    if (backupTo !== null) await rm(`${backupTo}.tmp`, { force: true }).catch(() => {});
    throw error;
  }
}

/** The files above `done`; a stored version has them checked and numbered from 1 without a gap. */
export async function migrationFiles(app: AppPaths, versionId: string, done: number): Promise<MigrationFile[]> {
  const dir = app.version(versionId).migrationsDir;
  const names = (await readdir(dir)).filter((name) => /^\d{4}_.*\.sql$/.test(name)).sort();
  return names.slice(done).map((name) => ({ name, path: join(dir, name) }));
}

async function pruneBackups(app: AppPaths): Promise<void> {
  const names = (await readdir(app.backupsDir)).filter((name) => name.endsWith('.sqlite')).sort();
  for (const name of names.slice(0, -LIMITS.backups)) {
    await rm(join(app.backupsDir, name), { force: true });
  }
}

function stamp(at: number): string {
  return new Date(at).toISOString().replace(/[-:.]/g, '');
}
