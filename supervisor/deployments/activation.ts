/**
 * Makes a stored version the active one: backup, migrations, pointer. A crash at any point leaves the old version or the new
 * one, whole, with the data to match; the repair in `storage/apps/registry.ts` finishes or drops what was interrupted.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { type CurrentPointer, stageCurrent, writeCurrent, writePending } from '../../storage/apps/versions.ts';
import { exists, removeDurable } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';

type ActivationTools = {
  databases: Pick<Databases, 'userVersion' | 'migrate' | 'makeDurable'>;
  /** Resolves when no process has the app's files open. */
  letGo(): Promise<void>;
  log: Pick<Logger, 'error'>;
};

/**
 * Resolves with the numbers of the migrations that were applied: the version is live then, also after a crash. When it rejects,
 * the pointer has not moved. No other activation may be pending: see `settlePointer`.
 */
export async function activateVersion(
  id: string,
  app: AppPaths,
  version: VersionSummary,
  tools: ActivationTools,
  now: number,
): Promise<number[]> {
  const { databases } = tools;
  const hasData = await exists(app.data);
  const userVersion = hasData && version.migrations > 0 ? await databases.userVersion(id) : 0;
  const pointer = { activeVersion: version.versionId, activatedAt: now };
  // Data that is ahead belongs to a later version: a rollback leaves it as it is.
  if (userVersion >= version.migrations) {
    await writeCurrent(app, pointer);
    return [];
  }
  const files = await migrationFiles(app, version.versionId, userVersion);
  const backupTo = hasData ? join(app.backupsDir, `${stamp(now)}_${userVersion}.sqlite`) : null;
  if (backupTo !== null) await mkdir(app.backupsDir, { recursive: true, mode: 0o700 });
  // Before the data changes: a disk that has no room for it then would leave the old code on the new data.
  const staged = await stageCurrent(app, pointer);
  let applied: number[];
  try {
    await writePending(app, { versionId: version.versionId, migrations: version.migrations });
    applied = await migrate(id, app, version, files, backupTo, tools);
  } catch (error) {
    await staged.discard();
    throw error;
  }
  try {
    await staged.place();
    await removeDurable(app.pending);
    if (backupTo !== null) await pruneBackups(app);
  } catch (error) {
    // The old code does not know the data. With its migrations and the intent on the disk the version is live without the pointer.
    await databases.makeDurable(id);
    tools.log.error({ app: id, err: error }, 'An activation cannot be settled; its version serves all the same.');
  }
  return applied;
}

/** Moves the pointer to the version that serves, which an activation before could not. When it rejects, it may have moved. */
export async function settlePointer(
  id: string,
  app: AppPaths,
  pointer: CurrentPointer,
  { databases }: Pick<ActivationTools, 'databases'>,
): Promise<void> {
  if (!(await exists(app.pending))) return;
  await databases.makeDurable(id);
  await writeCurrent(app, pointer);
  await removeDurable(app.pending);
}

/** Copies the app's data aside, with those from before migrations; the copy's name, or null where there is no data. */
export async function copyAside(
  id: string,
  app: AppPaths,
  databases: Pick<Databases, 'userVersion' | 'migrate'>,
  now: number,
): Promise<string | null> {
  if (!(await exists(app.data))) return null;
  const name = `${stamp(now)}_${await databases.userVersion(id)}.sqlite`;
  await mkdir(app.backupsDir, { recursive: true, mode: 0o700 });
  await databases.migrate(id, [], join(app.backupsDir, name));
  if (!(await exists(join(app.backupsDir, name)))) return null;
  await pruneBackups(app);
  return name;
}

/**
 * The intent stays on disk unless the migrations are known to be undone: a lost answer leaves the transaction's outcome open.
 * So does a commit that failed on the disk: while the file is open it counts as rolled back, but whoever opens it later may
 * find it whole in the log.
 */
async function migrate(
  id: string,
  app: AppPaths,
  version: VersionSummary,
  files: MigrationFile[],
  backupTo: string | null,
  { databases, letGo }: ActivationTools,
): Promise<number[]> {
  try {
    return await databases.migrate(id, files, backupTo);
  } catch (error) {
    const failed = error instanceof SvcError && error.code === 'MIGRATION_FAILED';
    if (!(error instanceof SvcError) || error.code === 'STORE_DAMAGED') await letGo();
    if (failed || (await databases.userVersion(id)) < version.migrations) {
      await removeDurable(app.pending);
      // A writer that died leaves half a copy.
      if (backupTo !== null) await rm(`${backupTo}.tmp`, { force: true }).catch(() => {});
      throw error;
    }
    await databases.makeDurable(id);
    return files.map(({ name }) => Number.parseInt(name, 10));
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
