/** Puts one app's files right after a crash, when the app is first needed: the old version or the new one, whole. */
import type { Logger } from 'pino';
import type { VersionSummary } from '../protocol/manifest.ts';
import { exists, removeDurable } from './atomic-file.ts';
import type { AppPaths } from './layout.ts';
import { sweepTemporary } from './trash.ts';
import {
  listVersions,
  readCurrent,
  readIncoming,
  readPending,
  readVersion,
  removeHalfVersions,
  removeVersion,
  writeCurrent,
} from './versions.ts';

export type RepairTools = {
  /** Where what is being deleted lies meanwhile. */
  tmpDir: string;
  /** SQLite's `user_version` of the app's data: how many migrations it has had. */
  userVersion(app: string): Promise<number>;
  /** What is found in the data is on the disk when it resolves. */
  makeDurable(app: string): Promise<void>;
  /** Puts a version whose files are gone into its place again; false when it is kept nowhere else. Never rejects. */
  bringBack(app: string, versionId: string): Promise<boolean>;
  now(): number;
  log: Pick<Logger, 'warn'>;
};

/** The version that is active once everything is put right, and since when; null when there is none. */
export async function repairApp(
  id: string,
  app: AppPaths,
  tools: RepairTools,
): Promise<{ active: VersionSummary; activatedAt: number } | null> {
  for (const dir of [app.dir, app.backupsDir]) await sweepTemporary(dir);
  // It is registered, so its folder stays.
  if (await exists(app.disposable)) await removeDurable(app.disposable);
  const whole = await removeHalfVersions(app, tools.tmpDir);
  const found = (await settlePending(id, app, whole, tools)) ?? (await findActive(id, app, tools));
  await settleIncoming(app, found?.active ?? null, tools);
  return found;
}

async function findActive(
  id: string,
  app: AppPaths,
  tools: RepairTools,
): Promise<{ active: VersionSummary; activatedAt: number } | null> {
  const current = await readCurrent(app);
  if (current === null) return null;
  let active = current === 'damaged' ? null : await readVersion(app, current.activeVersion);
  if (current !== 'damaged' && active === null && (await tools.bringBack(id, current.activeVersion))) {
    active = await readVersion(app, current.activeVersion);
    tools.log.warn({ app: id, version: current.activeVersion }, 'Repaired: the files of the active version were gone.');
  }
  if (current !== 'damaged' && active !== null) return { active, activatedAt: current.activatedAt };
  return fallBack(id, app, current === 'damaged' ? null : current.activeVersion, tools);
}

/**
 * An activation that was cut off is finished when its migrations are in the data, for the old code does not know them; else
 * it never happened. Answers the version that is to serve although that could not be settled, and null otherwise.
 */
async function settlePending(
  id: string,
  app: AppPaths,
  whole: Set<string>,
  tools: RepairTools,
): Promise<{ active: VersionSummary; activatedAt: number } | null> {
  if (!(await exists(app.pending))) return null;
  const pending = await readPending(app);
  if (pending !== null && whole.has(pending.versionId) && (await tools.userVersion(id)) >= pending.migrations) {
    const { versionId } = pending;
    try {
      // The crash may have come before the flush: the pointer must not outlive what it needs.
      await tools.makeDurable(id);
      await writeCurrent(app, { activeVersion: versionId, activatedAt: tools.now() });
    } catch (error) {
      tools.log.warn(
        { app: id, version: versionId, err: error },
        'An activation cannot be settled; it serves all the same.',
      );
      const active = await readVersion(app, versionId);
      return active === null ? null : { active, activatedAt: tools.now() };
    }
    tools.log.warn({ app: id, version: versionId }, 'An activation was cut off after its migrations; finished it.');
  }
  await removeDurable(app.pending);
  return null;
}

/** An upload that was cut off before its version was active never happened. */
async function settleIncoming(app: AppPaths, active: VersionSummary | null, tools: RepairTools): Promise<void> {
  if (!(await exists(app.incoming))) return;
  const incoming = await readIncoming(app);
  if (incoming !== null && incoming !== active?.versionId) await removeVersion(app, incoming, tools.tmpDir);
  await removeDurable(app.incoming);
}

async function fallBack(
  id: string,
  app: AppPaths,
  missing: string | null,
  tools: RepairTools,
): Promise<{ active: VersionSummary; activatedAt: number } | null> {
  const [newest] = await listVersions(app);
  const reason = missing === null ? 'current.json is damaged' : `the active version ${missing} is missing`;
  if (newest === undefined) {
    await removeDurable(app.current);
    tools.log.warn({ app: id }, `Repaired: ${reason}, and there is no other. The app has no active version now.`);
    return null;
  }
  const activatedAt = tools.now();
  await writeCurrent(app, { activeVersion: newest.versionId, activatedAt });
  tools.log.warn(
    { app: id, version: newest.versionId },
    `Repaired: ${reason}. The newest whole version is active now.`,
  );
  return { active: newest, activatedAt };
}
