/** A backup of a gateway that does not run, taken from its data directory under its lock. */
import { mkdtempSync, rmSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { BackupWorkspace, packManifest, packSources } from '../../storage/backup/pack.ts';
import { takeBackup } from '../../storage/backup/take.ts';
import { reapChildren } from '../../storage/children.ts';
import { acquireDataLock } from '../../storage/data-lock.ts';
import { Layout } from '../../storage/layout.ts';
import { readEntries } from '../../storage/registry.ts';
import { readStoreMark } from '../../storage/store-mark.ts';
import { packageVersion } from '../version.ts';

/**
 * False when the directory holds no gateway's data, or its apps lie elsewhere (`appsDir`). Throws `DataLockedError` when a
 * gateway has it after all, the signal's reason, and what packing throws; `file` is not there then.
 */
export async function backUpStopped(dataDirectory: string, file: string, signal: AbortSignal): Promise<boolean> {
  const layout = await layoutOf(dataDirectory);
  if ((await readEntries(layout.registry)) === null) return false;
  const lock = acquireDataLock(layout.lock);
  // Beside the file, so that a rename puts it there.
  const folder = mkdtempSync(join(dirname(file), `${basename(file)}-`));
  try {
    // A writer whose gateway was killed may still be at work.
    await reapChildren(layout.children);
    const apps = (await readEntries(layout.registry)) ?? new Map<string, number>();
    const workspace = new BackupWorkspace(folder);
    const check = () => signal.throwIfAborted();
    await takeBackup({
      layout,
      config: null,
      svcVersion: packageVersion(),
      takenAt: Date.now(),
      apps: [...apps.keys()].sort(),
      hold: async (id, work) => {
        await work();
        return apps.get(id) ?? null;
      },
      pack: async (work) =>
        'finish' in work
          ? { files: 1, bytes: await packManifest(workspace, work.finish) }
          : packSources(workspace, work.sources, check),
    });
    await rename(workspace.archive, file);
    return true;
  } finally {
    rmSync(folder, { recursive: true, force: true });
    lock.release();
  }
}

/** With the git store where there is one. */
async function layoutOf(dataDirectory: string): Promise<Layout> {
  const root = (await readStoreMark(new Layout(dataDirectory)))?.root ?? null;
  return new Layout(dataDirectory, undefined, root ?? undefined);
}
