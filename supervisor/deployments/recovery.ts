/**
 * Finishes or undoes the changes of apps that were cut off, by a crash or by a full disk, as the journal says (docs/architecture.md,
 * "From draft to live"): at the start for every app that the journal names, and for an app before its next change.
 */
import type { VersionSummary } from '../../protocol/manifest.ts';
import {
  type Intent,
  listIntents,
  readIntent,
  readVersionIntent,
  removeIntent,
  type VersionIntent,
} from '../../storage/apps/journal.ts';
import type { AppState } from '../../storage/apps/registry.ts';
import { moveToTrash, purgeApp, sweepUnregistered, trashEntryOf } from '../../storage/apps/trash.ts';
import { readCurrent, readVersion, writeCurrent } from '../../storage/apps/versions.ts';
import { exists, removeDurable } from '../../storage/files/atomic-file.ts';
import { type ChangeOptions, type FollowWorkspace, pruneKeys, takeAway, tryAfterChange } from './change.ts';

/** Runs work on an app while no other change of it is under way. */
type InTurn = (app: string, work: () => Promise<void>) => Promise<void>;

/** Before these apps take calls. Logs failures: the next change of the app tries again. */
export async function recoverAll(options: ChangeOptions, apps: ReadonlySet<string>, inTurn: InTurn): Promise<void> {
  const { layout, registry, log, now } = options;
  const listed = (await listIntents(layout)).filter((id) => apps.has(id));
  await recoverListed(options, listed, inTurn);
  const left = new Set(await listIntents(layout));
  const isLeft = (id: string) => !apps.has(id) || registry.has(id) || left.has(id);
  const swept = await sweepUnregistered(layout, isLeft, now());
  if (swept.length > 0) log.warn({ apps: swept }, 'Moved the folders of apps that are not registered to the trash.');
}

/** Those of the journal that `ids` names. */
export async function recoverListed(
  options: ChangeOptions,
  ids: readonly string[],
  inTurn: InTurn,
  follow?: FollowWorkspace,
): Promise<void> {
  const message = 'A change of an app that was cut off could not be put right yet.';
  for (const id of ids)
    await inTurn(id, async () => {
      await tryAfterChange(options, id, message, () => recover(options, id, follow));
    });
}

/**
 * Returns the app; null when it is not registered. Without `follow` a workspace that has not got what it published waits for the next
 * start: now somebody may be editing its files.
 */
export async function recover(options: ChangeOptions, id: string, follow?: FollowWorkspace): Promise<AppState | null> {
  const { layout, registry } = options;
  const state = registry.has(id) ? await registry.state(id) : null;
  const intent = await intentOf(options, id, state?.active ?? null);
  if (intent === null) return state;
  const isOver =
    state === null ? await clearUnregistered(options, id, intent) : await settle(options, state, intent, follow);
  if (isOver) await removeIntent(layout, id);
  return state;
}

/** A damaged note says nothing, so what is live counts. */
async function intentOf(
  { layout, store, log }: ChangeOptions,
  id: string,
  active: VersionSummary | null,
): Promise<Intent | null> {
  const intent = await readIntent(layout, id);
  if (intent !== 'damaged') return intent;
  log.error({ app: id }, 'The note of a change of an app that was cut off is damaged; what is live counts.');
  // A live version without its tag was being published. Without one its number would be given again.
  const commit = active === null ? null : await store.untagged(id, active.versionId);
  if (active !== null && commit !== null)
    return { kind: 'publish', versionId: active.versionId, commit, migrations: null };
  await removeIntent(layout, id);
  return null;
}

/** The app was removed, or its first version never became one. */
async function clearUnregistered(options: ChangeOptions, id: string, intent: Intent): Promise<true> {
  await clearFolder(options, id);
  if (intent.kind === 'remove') await options.store.settle(id, intent);
  return true;
}

/** False when something of it is left to do. */
async function settle(
  options: ChangeOptions,
  { id, active }: AppState,
  intent: Intent,
  follow: FollowWorkspace = async () => false,
): Promise<boolean> {
  const { layout, store } = options;
  const app = layout.app(id);
  if (intent.kind === 'remove') {
    if (await exists(app.removed)) await removeDurable(app.removed);
    return true;
  }
  const { kind, versionId } = intent;
  const isThere = kind === 'store' ? (await readVersion(app, versionId)) !== null : active?.versionId === versionId;
  if (isThere) {
    await settlePointer(options, id);
    await store.settle(id, intent);
    return followed(follow, id, intent);
  }
  // One whose files are damaged stays: no code is lost.
  if (kind === 'publish' && (await readVersion(app, versionId)) !== null) {
    await store.discard(id, versionId);
    await pruneKeys(options, id);
  }
  return true;
}

/** Moves the pointer to the version that serves, if its migrations are in the data and the disk refused the pointer then. */
export async function settlePointer({ layout, registry, databases }: ChangeOptions, id: string): Promise<void> {
  const intent = await readVersionIntent(layout, id);
  if (intent === null || intent.migrations === null) return;
  const { versionId } = intent;
  const { active, updatedAt } = await registry.state(id);
  if (active?.versionId !== versionId) return;
  const app = layout.app(id);
  const current = await readCurrent(app);
  if (current !== null && current !== 'damaged' && current.activeVersion === versionId) return;
  await databases.makeDurable(id);
  await writeCurrent(app, { activeVersion: versionId, activatedAt: updatedAt });
}

/** Gives the workspace that a version came from what was published. False when that is left to do. */
export async function followed(
  follow: FollowWorkspace,
  id: string,
  { session: workspace, commit }: VersionIntent,
  same?: boolean,
): Promise<boolean> {
  if (workspace === undefined || commit === null) return true;
  return follow(workspace.id, id, { commit, files: workspace.files, ...(same !== undefined && { same }) });
}

/** Takes away the folder of an app that is not registered: to the trash, unless the journal says that it goes for good. */
export async function clearFolder(options: ChangeOptions, id: string): Promise<void> {
  const { layout, now } = options;
  if (!(await exists(layout.app(id).dir))) return;
  const intent = await readIntent(layout, id);
  const isTrash = intent === null || intent === 'damaged' || (intent.kind === 'remove' && !intent.purge);
  const at = now();
  await takeAway(options, id, isTrash ? await trashEntryOf(layout, id, at) : null);
  if (isTrash) await moveToTrash(layout, id, at);
  else await purgeApp(layout, id);
}
