/**
 * Takes the workspaces of a gateway into a cluster, where each is in parts, one for each of its apps (specification, "Begin of a
 * cluster").
 */
import { mkdir, rm, stat, utimes } from 'node:fs/promises';
import { bucketOfPart } from '../../protocol/buckets.ts';
import { isAppId, parseWorkspacePart, workspacePart } from '../../protocol/ids.ts';
import {
  linkFolder,
  listWorkspaces,
  readWorkspace,
  removeWorkspace,
  stagingFolder,
  sweepWorkspaces,
  type WorkspaceRecord,
  writeWorkspace,
} from '../authoring/workspace-records.ts';
import { isFolder, mkdirDurable, namesIn } from '../files/atomic-file.ts';
import { type CodeStorePaths, Layout } from '../layout.ts';
import type { SharedFiles } from '../shared-files/shared-files.ts';
import type { Session } from './database.ts';
import { addWorkspaces } from './workspace-directory.ts';

/** `apps`: those that it has files or data of. */
export type FirstWorkspace = { id: string; record: WorkspaceRecord; apps: string[] };

/**
 * Those that are open; what a crash left of others goes, as at every start. Rejects with `SESSION_DAMAGED` for one whose record does not
 * say what it has.
 */
export async function firstWorkspacesOf(layout: Layout): Promise<FirstWorkspace[]> {
  const { codeStore } = layout;
  if (codeStore === null) return [];
  await sweepWorkspaces(codeStore, await listWorkspaces(codeStore));
  const found: FirstWorkspace[] = [];
  for (const id of await listWorkspaces(codeStore)) {
    const record = await readWorkspace(codeStore.workspace(id));
    if (record === null) continue;
    const drafts = (await namesIn(layout.drafts(id))).filter(isAppId);
    found.push({ id, record, apps: [...new Set([...Object.keys(record.apps), ...drafts])].sort() });
  }
  return found;
}

/**
 * Stores them in the session's transaction; the folders of the gateway stay as they are. `filesOf` stores the files of a layout;
 * `progress` hears of each workspace that is stored.
 */
export async function storeWorkspaces(
  session: Session,
  layout: Layout,
  workspaces: readonly FirstWorkspace[],
  { epochs, filesOf, progress }: { epochs: readonly number[]; filesOf(layout: Layout): SharedFiles; progress(): void },
): Promise<void> {
  if (layout.codeStore === null || workspaces.length === 0) return;
  const store = layout.codeStore;
  // Beside the workspaces, so that links reach. After a crash the next start removes it.
  const staged = new Layout(layout.dataDir, layout.appsDir, await stagingFolder(store));
  try {
    const files = filesOf(staged);
    for (const workspace of workspaces) {
      for (const app of workspace.apps) {
        const part = workspacePart(workspace.id, app);
        await stagePart(store, staged.codeStore as CodeStorePaths, workspace, app);
        await files.store({ kind: 'workspace', id: part }, epochs[bucketOfPart(part)] ?? 0);
      }
      progress();
    }
    const rows = workspaces.map(({ id, record: { name = null, base, createdAt } }) => ({ id, name, base, createdAt }));
    await addWorkspaces(session, rows);
  } finally {
    await rm(staged.codeStore?.dir ?? '', { recursive: true, force: true });
  }
}

/** The node of a cluster gets the parts of a workspace from there: those in one piece are of the gateway that it was. */
export async function removeWhole(store: CodeStorePaths): Promise<void> {
  for (const id of await listWorkspaces(store)) if (parseWorkspacePart(id) === null) await removeWorkspace(store, id);
}

/** The same files, under the names of a part, with a record of their own. */
async function stagePart(
  store: CodeStorePaths,
  staged: CodeStorePaths,
  { id, record: { createdAt, base, apps } }: FirstWorkspace,
  app: string,
): Promise<void> {
  const part = staged.workspace(workspacePart(id, app));
  const from = store.workspace(id).app(app);
  await mkdirDurable(part.appsDir);
  if (await isFolder(from)) {
    await mkdir(part.app(app), { mode: 0o700 });
    await linkFolder(from, part.app(app));
  }
  const { [app]: entry } = apps;
  await writeWorkspace(part, { createdAt, base, apps: entry === undefined ? {} : { [app]: entry } });
  // A list of workspaces says when each was changed last.
  const { mtimeMs } = await stat(store.workspace(id).record);
  const seconds = (Math.floor(mtimeMs) + 0.5) / 1000;
  await utimes(part.record, seconds, seconds);
}
