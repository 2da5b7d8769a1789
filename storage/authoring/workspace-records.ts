/**
 * Stores the workspaces of the git store: `worktrees/sessions/<sid>/session.json` and the plain files of the apps beside it
 * (specification, "Workspaces"). In a cluster each folder is a part of a workspace, with one app. After a crash a workspace exists as a whole or not at all, and so do the files of an app with
 * their record.
 */
import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { isAppId, isChosenId, parseWorkspacePart } from '../../protocol/ids.ts';
import { formatted, matching, number, object, type Schema, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import type { GitFile } from '../../protocol/wire/git-jobs.ts';
import {
  exists,
  isFolder,
  isThere,
  mkdirDurable,
  namesIn,
  readJson,
  renameDurable,
  syncDir,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { listTree, pathOf } from '../files/list-tree.ts';
import { OBJECT_ID } from '../git/object.ts';
import { type CodeStorePaths, WorkspacePaths } from '../layout.ts';

/** Prefix of folders that are being made or removed; no workspace id starts with it. */
const UNFINISHED = '.';
/** `<this><sid>.<app>`, or with an automation's id after them: the folder while another takes its place. */
const ASIDE = '.aside.';
/** Files that `writeFileAtomic` has not finished; earlier releases put the name of the file first. */
const TEMPORARY = /^\.(?:.+\.)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/;

/** Ids of the open workspaces, sorted, including those with a damaged record. */
export async function listWorkspaces(store: CodeStorePaths): Promise<string[]> {
  const ids = (await namesIn(store.workspacesDir)).filter(isFolderName);
  const there = await Promise.all(ids.map((id) => isWorkspace(store, id)));
  return ids.filter((_, at) => there[at]);
}

/** Whether there is a workspace of this id, damaged or not. */
export async function isWorkspace(store: CodeStorePaths, id: string): Promise<boolean> {
  return isFolderName(id) && (await isFolder(store.workspace(id).dir));
}

function isFolderName(name: string): boolean {
  return isChosenId(name) || parseWorkspacePart(name) !== null;
}

/** False when there is a workspace of this id already. */
export async function createWorkspace(store: CodeStorePaths, id: string, record: WorkspaceRecord): Promise<boolean> {
  const workspace = store.workspace(id);
  if (await exists(workspace.dir)) return false;
  const making = new WorkspacePaths(unfinished(store));
  try {
    await mkdirDurable(making.appsDir);
    await writeWorkspace(making, record);
    await renameDurable(making.dir, workspace.dir);
  } catch (error) {
    await rm(making.dir, { recursive: true, force: true });
    if (await exists(workspace.dir)) return false;
    throw error;
  }
  return true;
}

/** The first step removes it as a whole. */
export async function removeWorkspace(store: CodeStorePaths, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(store.workspace(id).dir, going);
  await rm(going, { recursive: true, force: true });
}

/** Makes an empty folder on the file system of the workspaces, for files that will be renamed into one of them. */
export async function stagingFolder(store: CodeStorePaths): Promise<string> {
  const dir = unfinished(store);
  await mkdirDurable(dir);
  return dir;
}

/** Whether the folder that the record names as an app's replacement is still waiting. */
export async function isReplacementThere(store: CodeStorePaths, from: string | undefined): Promise<boolean> {
  return from !== undefined && (await isFolder(join(store.workspacesDir, from)));
}

/** The folder of an app in a workspace, or of one of its automations. */
type Place = [workspace: string, app: string, automation?: string];

/**
 * Moves `staged`, which is durable, there. After a crash in between the old folder comes back, unless the record names
 * `staged`.
 */
export async function replaceFolder(store: CodeStorePaths, place: Place, staged: string): Promise<void> {
  const target = folderOf(store, place);
  const going = join(store.workspacesDir, `${ASIDE}${place.join('.')}`);
  await rm(going, { recursive: true, force: true });
  const replaced = await isThere(target);
  if (replaced) await renameDurable(target, going);
  try {
    await renameDurable(staged, target);
  } catch (error) {
    if (replaced && !(await exists(target))) await rename(going, target);
    throw error;
  }
  await rm(going, { recursive: true, force: true });
}

/** Removes an automation's folder, completely or not at all. */
export async function removeAutomation(store: CodeStorePaths, sid: string, app: string, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(folderOf(store, [sid, app, id]), going);
  await rm(going, { recursive: true, force: true });
}

/** Links the same files into `to`, where some of them will be replaced. `to` is an empty folder. */
export async function linkFolder(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const target = join(to, entry.name);
    if (!entry.isDirectory()) await link(join(from, entry.name), target);
    else {
      await mkdir(target, { mode: 0o700 });
      await linkFolder(join(from, entry.name), target);
    }
  }
  await syncDir(to);
}

/** Finishes replacements that a crash interrupted in these workspaces, as the records say. Runs before any use. */
export async function sweepWorkspaces(store: CodeStorePaths, ids: Iterable<string>): Promise<void> {
  for (const id of ids) {
    // A damaged record does not say what its workspace holds.
    const record = await readWorkspace(store.workspace(id)).catch((error: unknown) => {
      if (error instanceof SvcError) return null;
      throw error;
    });
    if (record === null) continue;
    if (record.unfinished) await removeWorkspace(store, id);
    else await sweepWorkspace(store, id, record);
  }
  const swept = new Set(ids);
  for (const name of await namesIn(store.workspacesDir)) {
    if (!name.startsWith(ASIDE)) continue;
    const place = name.slice(ASIDE.length).split('.');
    if (!swept.has(place[0] as string)) continue;
    const target = await placeOf(store, place);
    if (target !== null) await renameDurable(join(store.workspacesDir, name), target);
  }
}

/** Removes what nobody finishes any more, once the workspaces are swept that are here at the start. */
export async function sweepUnfinished(store: CodeStorePaths): Promise<void> {
  for (const name of await namesIn(store.workspacesDir))
    if (name.startsWith(UNFINISHED)) await rm(join(store.workspacesDir, name), { recursive: true, force: true });
}

/** When a file of the workspace was last written, in milliseconds since the epoch. */
export async function touchedAt(workspace: WorkspacePaths): Promise<number> {
  let newest = 0;
  const below = await listTree(workspace.appsDir).catch(() => []);
  for (const path of [workspace.record, ...below.map(pathOf)]) {
    const found = await stat(path).catch(() => null);
    if (found !== null && found.mtimeMs > newest) newest = found.mtimeMs;
  }
  return Math.floor(newest > 0 ? newest : (await stat(workspace.dir)).mtimeMs);
}

/** Ids of the apps that have a folder in the workspace, sorted: the only source when its record is damaged. */
export async function appFolders(workspace: WorkspacePaths): Promise<string[]> {
  return (await namesIn(workspace.appsDir)).filter(isAppId);
}

async function sweepWorkspace(store: CodeStorePaths, id: string, { apps }: WorkspaceRecord): Promise<void> {
  for (const [app, { from }] of Object.entries(apps)) {
    if (from === undefined || !(await isReplacementThere(store, from))) continue;
    await replaceFolder(store, [id, app], join(store.workspacesDir, from));
  }
  const { dir } = store.workspace(id);
  for (const entry of await listTree(dir)) {
    if (!entry.isFile() || !TEMPORARY.test(entry.name)) continue;
    await rm(pathOf(entry), { force: true });
  }
}

/** Where a folder that was set aside belongs; null if that place is taken or its workspace is gone. */
async function placeOf(store: CodeStorePaths, [sid = '', app = '', id]: string[]): Promise<string | null> {
  if (!isAppId(app) || !(await isWorkspace(store, sid))) return null;
  const target = folderOf(store, id === undefined ? [sid, app] : [sid, app, id]);
  return (await exists(dirname(target))) && !(await exists(target)) ? target : null;
}

function folderOf(store: CodeStorePaths, [workspace, app, automation]: Place): string {
  const folder = store.workspace(workspace).app(app);
  return automation === undefined ? folder : join(folder, 'automations', automation);
}

function unfinished(store: CodeStorePaths): string {
  return join(store.workspacesDir, `${UNFINISHED}${randomUUID()}`);
}

// ---- The record of a workspace, `session.json` in its folder ----

/** `base` is the commit that the app's files came from; null for an app that was made in the workspace. */
export type WorkspaceApp = {
  base: string | null;
  /** When the app that the files came from was registered, to notice that its id is another app's now; may be unknown. */
  since?: number;
  /** The version that was live then, or that the files were said to be of; may be unknown. */
  version?: string;
  /** The folder that said which version its files came from, and that version, as long as the workspace published its files alone. */
  said?: string;
  /** Name of a folder beside the workspaces that replaces the app's folder: it is there until that is done. */
  from?: string;
};

/** `base` is the commit of `main` when the workspace was opened, or what it published last. Times are milliseconds since the epoch. */
export type WorkspaceRecord = {
  createdAt: number;
  base: string;
  /** What people call it; without one they see its id. */
  name?: string;
  /** Apps that were added to it or made in it. */
  apps: Readonly<Record<string, WorkspaceApp>>;
  /** The request that opened it has not ended: after a crash no client knows of it. */
  unfinished?: true;
};

/** Null when there is no such workspace. Rejects with `SESSION_DAMAGED` when its record is missing, or is none. */
export async function readWorkspace(workspace: WorkspacePaths): Promise<WorkspaceRecord | null> {
  let value: unknown;
  try {
    value = await readJson(workspace.record);
  } catch (error) {
    const reason =
      error instanceof SyntaxError ? 'is not JSON' : UNREADABLE[(error as NodeJS.ErrnoException).code ?? ''];
    throw reason === undefined ? error : damagedWorkspace(workspace, reason, error);
  }
  if (value === undefined) {
    if (await isFolder(workspace.dir)) throw damagedWorkspace(workspace, 'is missing');
    return null;
  }
  const record = parseRecord(value);
  if (record === null) throw damagedWorkspace(workspace, 'does not hold what it should');
  return record;
}

/** Node's error codes for a record that was replaced or made unreadable. */
const UNREADABLE: Readonly<Record<string, string>> = {
  EISDIR: 'is a folder',
  ELOOP: 'is a link that leads nowhere',
  EACCES: 'may not be read',
  EPERM: 'may not be read',
  EIO: 'cannot be read from the disk',
};

function damagedWorkspace({ dir }: WorkspacePaths, reason: string, cause?: unknown): SvcError {
  const id = basename(dir);
  return new SvcError(
    'SESSION_DAMAGED',
    `The workspace "${id}" is damaged: worktrees/sessions/${id}/session.json of the code store ${reason}. Its files are still there, in apps/; copy what you need, then close the workspace: svc workspaces rm ${id}`,
    { cause },
  );
}

/** The same text for the same files in any order. */
export function fingerprint(files: Pick<GitFile, 'path' | 'sha'>[]): string {
  const lines = files.map(({ path, sha }) => `${path}\0${sha}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex');
}

export async function writeWorkspace(
  workspace: WorkspacePaths,
  { createdAt, ...rest }: WorkspaceRecord,
): Promise<void> {
  const record = { createdAt: new Date(createdAt).toISOString(), ...rest };
  await writeFileAtomic(workspace.record, `${JSON.stringify(record, null, 2)}\n`);
}

function parseRecord(value: unknown): WorkspaceRecord | null {
  const record = RECORD.holds(value) ? PARTS.part(value) : null;
  const createdAt = Date.parse(record?.createdAt ?? '');
  return record === null || Number.isNaN(createdAt) ? null : { ...record, createdAt };
}

const COMMIT_OR_NONE = { anyOf: [OBJECT_ID, { type: 'null' }] } as const;
const apps = <const S extends Schema>(app: S) =>
  ({ type: 'object', propertyNames: formatted('app id', 'the id of an app'), additionalProperties: app }) as const;
/** What a record must have. */
const RECORD = shape(object({ createdAt: text, base: OBJECT_ID, apps: apps(object({ base: COMMIT_OR_NONE })) }));
/** The rest is left out where it is damaged. */
const PARTS = shape(
  object(
    {
      createdAt: text,
      base: OBJECT_ID,
      apps: apps(
        object(
          { base: COMMIT_OR_NONE },
          {
            since: number,
            version: formatted('version id', 'the id of a version'),
            said: text,
            // As `stagingFolder` names them.
            from: matching(/^\.[0-9a-f-]{36}$/, 'a folder beside the workspaces'),
          },
        ),
      ),
    },
    { name: text, unfinished: { const: true } },
  ),
);
