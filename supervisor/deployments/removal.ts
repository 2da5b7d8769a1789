/**
 * Removes apps and restores them from the trash (specification, "Removal and trash"). The registry decides: after a crash at
 * any step, a registered app is there, whole, and any other is in the trash.
 */
import { SvcError } from '../../protocol/errors.ts';
import { isArchiveVersion, versionNumber } from '../../protocol/ids.ts';
import { type Intent, removeIntent, writeIntent } from '../../storage/apps/journal.ts';
import { unknownApp } from '../../storage/apps/registry.ts';
import {
  moveToTrash,
  noteRemoval,
  parseTrashed,
  purgeApp,
  readRemoval,
  type Trashed,
  takeFromTrash,
  trashEntryOf,
} from '../../storage/apps/trash.ts';
import { readCurrent } from '../../storage/apps/versions.ts';
import { exists, namesIn, removeDurable } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import { type ChangeOptions, takeAway, tryAfterChange } from './change.ts';
import { clearFolder, settlePointer } from './recovery.ts';

export type RestoreResult = { id: string; restored: true; activeVersion: string | null };

/** Its data goes with it: to the trash, or at once when `purge` is set. Rejects with `UNKNOWN_APP`. */
export async function removeApp(options: ChangeOptions, id: string, purge: boolean): Promise<void> {
  const { registry, layout, now, apps, share } = options;
  if (!registry.has(id)) throw unknownApp(id);
  const app = layout.app(id);
  // The next intention takes the place of what said so.
  await settlePointer(options, id);
  await writeIntent(layout, id, { kind: 'remove', purge });
  try {
    if (!purge) await noteForTrash(options, id);
    await share(id);
    // First of all no new call may find the app and start it again.
    await registry.deregister(id);
  } catch (error) {
    if (await exists(app.removed)) await removeDurable(app.removed);
    await removeIntent(layout, id);
    throw error;
  }
  try {
    const at = now();
    await takeAway(options, id, purge ? null : await trashEntryOf(layout, id, at));
    if (purge) await purgeApp(layout, id);
    else await moveToTrash(layout, id, at);
  } catch (error) {
    throw notCleared(options, id, error);
  }
  // After the folder: a crash here leaves only what the first upload of an app of this name removes as well.
  await tryAfterChange(options, id, 'The history of an app that was removed is still there.', () => apps.forget(id));
  await tryAfterChange(options, id, 'The code of an app that was removed is still on main.', () =>
    forgetCode(options, id, purge),
  );
}

/** Takes the code of an app that is gone off `main`, and its versions out of the store. */
export async function forgetCode({ store, layout }: ChangeOptions, id: string, purge = true): Promise<void> {
  const intent: Intent = { kind: 'remove', purge };
  await store.settle(id, intent);
  await removeIntent(layout, id);
}

async function noteForTrash({ layout, store, now }: ChangeOptions, id: string): Promise<void> {
  const app = layout.app(id);
  // A repository that cannot be read keeps no app from being removed.
  const versions = await store.numbers(id).catch(() => null);
  if (await exists(app.dir)) await noteRemoval(app, { removedAt: now(), versions });
}

/** The app is removed, so the error must not read as if nothing had changed. */
function notCleared({ log }: ChangeOptions, id: string, error: unknown): SvcError {
  log.error({ app: id, err: error }, 'An app was removed, but its folder is still there.');
  return new SvcError(
    'INTERNAL',
    `The app "${id}" is registered no more, but its files could not be moved away. The next upload of "${id}" does that.`,
    { cause: error },
  );
}

/** Throws `UNKNOWN_TRASH` for an id that no removed app can have. */
export function trashedOf(id: string): Trashed {
  const trashed = parseTrashed(id);
  if (trashed === null) throw unknownTrash(id);
  return trashed;
}

export function unknownTrash(id: string): SvcError {
  return new SvcError('UNKNOWN_TRASH', `The trash has no "${id.slice(0, 80)}".`);
}

/**
 * Registers a removed app again with everything it had: code with its versions, data, files, settings, secrets, chat windows,
 * logs. Rejects with `UNKNOWN_TRASH`, `CONFLICT`, `STORE_DAMAGED`, and `INVALID_AUTOMATION` for a webhook whose address another
 * app has now; it then stays in the trash.
 */
export async function restoreApp(options: ChangeOptions, trashed: Trashed): Promise<RestoreResult> {
  const { registry, layout, store, apps, databases, claims, log, share } = options;
  const { id, app } = trashed;
  if (registry.has(app))
    throw new SvcError('CONFLICT', `There is an app "${app}" now. Remove that one first, then restore this one.`);
  await checkStore(options, trashed);
  await clearFolder(options, app);
  // Until the app is registered, this says of all that follows that it did not happen.
  await writeIntent(layout, app, { kind: 'remove', purge: false });
  await share(app);
  try {
    await apps.forget(app);
    if (!(await takeFromTrash(layout, trashed))) throw unknownTrash(id);
    await databases.attach(app, id);
    const active = await readCurrent(layout.app(app));
    const activeVersion = active === null || active === 'damaged' ? null : active.activeVersion;
    if (activeVersion !== null) await claims.claim(app, layout.app(app).version(activeVersion));
    await share(app);
    await store.revive(app, await versionsOf(layout.app(app), app), activeVersion);
    await apps.loadRestored(app);
    await registry.register(app);
  } catch (error) {
    const words = 'An app that could not be restored is not back in the trash yet; the next start does that.';
    await tryAfterChange(options, app, words, async () => {
      await databases.detach(app, id);
      await moveToTrash(layout, app, trashed.removedAt);
    });
    await tryAfterChange(options, app, words, () => apps.forget(app));
    await tryAfterChange(options, app, words, () => forgetCode(options, app));
    throw error;
  }
  await tryAfterChange(options, app, 'The note of a restoration could not be removed.', async () => {
    await removeDurable(layout.app(app).removed);
    await removeIntent(layout, app);
  });
  // Its first use repairs what the removal or the crash of an older gateway left.
  const { active } = await registry.state(app);
  if (active !== null)
    await tryAfterChange(options, app, 'What follows a restored app could not be told of it.', () =>
      apps.swap(app, active),
    );
  log.info({ app, trash: id, version: active?.versionId ?? null }, 'Restored an app from the trash.');
  return { id: app, restored: true, activeVersion: active?.versionId ?? null };
}

/** Rejects when it is not there, or was removed from the other store. */
async function checkStore({ layout, store }: ChangeOptions, { id, app }: Trashed): Promise<void> {
  const paths = layout.trashed(id);
  if (!(await exists(paths.dir))) throw unknownTrash(id);
  const others = (await namesIn(paths.versionsDir)).filter(
    (name) => isArchiveVersion(name) === (store.backend === 'git') && !name.startsWith('.'),
  );
  if (others.length === 0) return;
  throw new SvcError(
    'CONFLICT',
    `"${app}" was removed from the other store, and its versions cannot be restored to this one. Its folder is trash/${id} of ` +
      'the data directory: push what is in versions/, then copy data.sqlite while the gateway is stopped.',
  );
}

/** The numbers of its tags: those noted, else those of the versions that it has a folder of. */
async function versionsOf(app: AppPaths, id: string): Promise<number[]> {
  const noted = (await readRemoval(app))?.versions;
  if (noted) return noted;
  return (await namesIn(app.preparedDir)).flatMap((name) => versionNumber(id, app.versionOf(name)) ?? []);
}
