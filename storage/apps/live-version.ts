/**
 * Finds the live version of an app when the app is first needed, and repairs its files: after a crash it is the old version or the
 * new one, whole. What the journal says besides is the supervisor's to finish (`deployments/recovery.ts`).
 */
import { lstat } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { removeDurable } from '../files/atomic-file.ts';
import type { AppPaths, Layout } from '../layout.ts';
import { lostData, lostDataOf } from './app-data.ts';
import { readVersionIntent, type VersionIntent } from './journal.ts';
import { sweepTemporary } from './trash.ts';
import {
  isPrepared,
  listVersions,
  readCurrent,
  readVersion,
  removeHalfVersions,
  removeVersion,
  storedVersions,
  writeCurrent,
} from './versions.ts';

export type RepairOptions = {
  layout: Layout;
  /**
   * SQLite's `user_version` of an app's data: how many migrations it has had. Called only when a change was interrupted.
   */
  userVersion(app: string): Promise<number>;
  /** Resolves when the app's data is on the disk as found. */
  makeDurable(app: string): Promise<void>;
  /**
   * Makes anew what was prepared of a stored version; false when its code cannot be prepared. Rejects when
   * it could not be tried, as on a full disk.
   */
  prepareAnew(app: string, versionId: string): Promise<boolean>;
  /** Restores a version whose files are gone; false when there is no other copy. Never rejects. */
  restoreFiles(app: string, versionId: string): Promise<boolean>;
  log: Logger;
  now(): number;
};

type Found = { active: VersionSummary; activatedAt: number } | null;
type Pointer = Awaited<ReturnType<typeof readCurrent>>;
/** The whole versions, by their ids. */
type Whole = ReadonlyMap<string, VersionSummary>;

/** The version, and since when it is live; null when none is. `lost` says why the data is lost; null where it is not. */
export async function findLive(
  id: string,
  options: RepairOptions,
): Promise<(NonNullable<Found> & { lost: string | null }) | null> {
  const app = options.layout.app(id);
  for (const dir of [app.dir, app.backupsDir]) await sweepTemporary(dir);
  await removeHalfVersions(app);
  const intent = await readVersionIntent(options.layout, id);
  const pointer = await readCurrent(app);
  const whole = await prepareDamaged(id, app, [activeIn(pointer), intent?.versionId], options);
  // Asking a lost database how many migrations it had would make a new one.
  const migrated =
    intent === null || (await lostDataOf(app)) !== null ? null : await settleMigrated(id, intent, whole, options);
  // It may have been moved.
  const current = intent === null ? pointer : await readCurrent(app);
  const found = migrated ?? (await findActive(id, app, current, whole, options));
  return found && { ...found, lost: await lostData(app, found.active) };
}

/**
 * Makes anew what was prepared of the stored versions where it is damaged; returns the whole ones. Of versions that are
 * not `needed` only `version.json` is looked at: the rest is when they are activated. No code is removed, unless it is a link to what
 * the git store has.
 */
async function prepareDamaged(
  id: string,
  app: AppPaths,
  needed: readonly (string | null | undefined)[],
  options: RepairOptions,
): Promise<Whole> {
  const { layout, log, prepareAnew } = options;
  const whole = new Map<string, VersionSummary>();
  const keep = (summary: VersionSummary | null) => summary !== null && whole.set(summary.versionId, summary);
  for (const versionId of await storedVersions(app)) {
    const summary = await readVersion(app, versionId);
    if (summary !== null && (!needed.includes(versionId) || (await isPrepared(app, versionId)))) {
      keep(summary);
      continue;
    }
    try {
      if (await prepareAnew(id, versionId)) {
        keep(await readVersion(app, versionId));
        log.warn({ app: id, version: versionId }, 'Repaired: the prepared files of a version were damaged.');
        continue;
      }
    } catch (error) {
      // What serves must not change because the disk is full.
      if (needed.includes(versionId)) throw error;
      log.error(
        { app: id, version: versionId, err: error },
        'A version could not be prepared again; the next start tries it.',
      );
      continue;
    }
    if (await isLink(app.version(versionId).code)) await removeVersion(app, versionId, layout.tmpDir);
    else
      log.error({ app: id, version: versionId }, 'A version cannot be prepared from its code, which stays as it is.');
  }
  return whole;
}

async function isLink(path: string): Promise<boolean> {
  return (await lstat(path)).isSymbolicLink();
}

function activeIn(current: Pointer): string | null {
  return current === null || current === 'damaged' ? null : current.activeVersion;
}

async function findActive(
  id: string,
  app: AppPaths,
  current: Pointer,
  whole: Whole,
  options: RepairOptions,
): Promise<Found> {
  if (current === null) return null;
  if (current === 'damaged') return fallBack(id, app, 'current.json is damaged', options);
  const { activeVersion, activatedAt } = current;
  let active = whole.get(activeVersion) ?? (await readVersion(app, activeVersion));
  if (active === null && (await options.restoreFiles(id, activeVersion))) {
    active = await readVersion(app, activeVersion);
    options.log.warn({ app: id, version: activeVersion }, 'Repaired: the files of the active version were gone.');
  }
  if (active !== null) return { active, activatedAt };
  return fallBack(id, app, `the active version ${activeVersion} is missing`, options);
}

/**
 * Moves the pointer to an intended version whose migrations are in the data, because the old code does not know them. Returns
 * that version if the pointer cannot be moved, else null.
 */
async function settleMigrated(
  id: string,
  { versionId, migrations }: VersionIntent,
  whole: Whole,
  options: RepairOptions,
): Promise<Found> {
  const app = options.layout.app(id);
  if (migrations === null || !whole.has(versionId) || activeIn(await readCurrent(app)) === versionId) return null;
  if ((await options.userVersion(id)) < migrations) return null;
  const activatedAt = options.now();
  try {
    // The crash may have come before the flush: the pointer must not outlive what it needs.
    await options.makeDurable(id);
    await writeCurrent(app, { activeVersion: versionId, activatedAt });
  } catch (error) {
    options.log.warn(
      { app: id, version: versionId, err: error },
      'An activation cannot be settled; it serves all the same.',
    );
    const active = await readVersion(app, versionId);
    return active === null ? null : { active, activatedAt };
  }
  options.log.warn({ app: id, version: versionId }, 'An activation was cut off after its migrations; finished it.');
  return null;
}

async function fallBack(id: string, app: AppPaths, reason: string, options: RepairOptions): Promise<Found> {
  const [newest] = await listVersions(app);
  if (newest === undefined) {
    await removeDurable(app.current);
    options.log.warn({ app: id }, `Repaired: ${reason}, and there is no other. The app has no active version now.`);
    return null;
  }
  const activatedAt = options.now();
  await writeCurrent(app, { activeVersion: newest.versionId, activatedAt });
  options.log.warn(
    { app: id, version: newest.versionId },
    `Repaired: ${reason}. The newest whole version is active now.`,
  );
  return { active: newest, activatedAt };
}
