/**
 * Stores the sessions of the git store: `worktrees/sessions/<sid>/session.json` and the plain files of the apps beside it
 * (specification, "Sessions"). After a crash a session exists as a whole or not at all, and so do the files of an app with
 * their record.
 */
import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { isAppId, isSessionId } from '../../protocol/ids.ts';
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
import { type CodeStorePaths, SessionPaths } from '../layout.ts';

/** Prefix of folders that are being made or removed; no session id starts with it. */
const UNFINISHED = '.';
/** `<this><sid>.<app>`, or with an automation's id after them: the folder while another takes its place. */
const ASIDE = '.aside.';
/** Files that `writeFileAtomic` has not finished; earlier releases put the name of the file first. */
const TEMPORARY = /^\.(?:.+\.)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/;

/** Ids of the open sessions, sorted, including those with a damaged record. */
export async function listSessions(store: CodeStorePaths): Promise<string[]> {
  const ids = (await namesIn(store.sessionsDir)).filter(isSessionId);
  const there = await Promise.all(ids.map((id) => isSession(store, id)));
  return ids.filter((_, at) => there[at]);
}

/** Whether there is a session of this id, damaged or not. */
export async function isSession(store: CodeStorePaths, id: string): Promise<boolean> {
  return isSessionId(id) && (await isFolder(store.session(id).dir));
}

/** False when there is a session of this id already. */
export async function createSession(store: CodeStorePaths, id: string, record: SessionRecord): Promise<boolean> {
  const session = store.session(id);
  if (await exists(session.dir)) return false;
  const making = new SessionPaths(unfinished(store));
  try {
    await mkdirDurable(making.appsDir);
    await writeSession(making, record);
    await renameDurable(making.dir, session.dir);
  } catch (error) {
    await rm(making.dir, { recursive: true, force: true });
    if (await exists(session.dir)) return false;
    throw error;
  }
  return true;
}

/** The first step removes it as a whole. */
export async function removeSession(store: CodeStorePaths, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(store.session(id).dir, going);
  await rm(going, { recursive: true, force: true });
}

/** Makes an empty folder on the file system of the sessions, for files that will be renamed into one of them. */
export async function stagingFolder(store: CodeStorePaths): Promise<string> {
  const dir = unfinished(store);
  await mkdirDurable(dir);
  return dir;
}

/** Whether the folder that the record names as an app's replacement is still waiting. */
export async function isReplacementThere(store: CodeStorePaths, from: string | undefined): Promise<boolean> {
  return from !== undefined && (await isFolder(join(store.sessionsDir, from)));
}

/** The folder of an app in a session, or of one of its automations. */
type Place = [session: string, app: string, automation?: string];

/**
 * Moves `staged`, which is durable, there. After a crash in between the old folder comes back, unless the record names
 * `staged`.
 */
export async function replaceFolder(store: CodeStorePaths, place: Place, staged: string): Promise<void> {
  const target = folderOf(store, place);
  const going = join(store.sessionsDir, `${ASIDE}${place.join('.')}`);
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

/** Finishes replacements that a crash interrupted, as the records say, and removes unfinished folders. Runs before any use. */
export async function sweepSessions(store: CodeStorePaths): Promise<void> {
  for (const id of await listSessions(store)) {
    // A damaged record does not say what its session holds.
    const record = await readSession(store.session(id)).catch((error: unknown) => {
      if (error instanceof SvcError) return null;
      throw error;
    });
    if (record === null) continue;
    if (record.unfinished) await removeSession(store, id);
    else await sweepSession(store, id, record);
  }
  for (const name of await namesIn(store.sessionsDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    const left = join(store.sessionsDir, name);
    const target = name.startsWith(ASIDE) ? await placeOf(store, name.slice(ASIDE.length).split('.')) : null;
    if (target !== null) await renameDurable(left, target);
    else await rm(left, { recursive: true, force: true });
  }
}

/** When a file of the session was last written, in milliseconds since the epoch. */
export async function touchedAt(session: SessionPaths): Promise<number> {
  let newest = 0;
  const below = await listTree(session.appsDir).catch(() => []);
  for (const path of [session.record, ...below.map(pathOf)]) {
    const found = await stat(path).catch(() => null);
    if (found !== null && found.mtimeMs > newest) newest = found.mtimeMs;
  }
  return Math.floor(newest > 0 ? newest : (await stat(session.dir)).mtimeMs);
}

/** Ids of the apps that have a folder in the session, sorted: the only source when its record is damaged. */
export async function appFolders(session: SessionPaths): Promise<string[]> {
  return (await namesIn(session.appsDir)).filter(isAppId);
}

async function sweepSession(store: CodeStorePaths, id: string, { apps }: SessionRecord): Promise<void> {
  for (const [app, { from }] of Object.entries(apps)) {
    if (from === undefined || !(await isReplacementThere(store, from))) continue;
    await replaceFolder(store, [id, app], join(store.sessionsDir, from));
  }
  const { dir } = store.session(id);
  for (const entry of await listTree(dir)) {
    if (!entry.isFile() || !TEMPORARY.test(entry.name)) continue;
    await rm(pathOf(entry), { force: true });
  }
}

/** Where a folder that was set aside belongs; null if that place is taken or its session is gone. */
async function placeOf(store: CodeStorePaths, [sid = '', app = '', id]: string[]): Promise<string | null> {
  if (!isAppId(app) || !(await isSession(store, sid))) return null;
  const target = folderOf(store, id === undefined ? [sid, app] : [sid, app, id]);
  return (await exists(dirname(target))) && !(await exists(target)) ? target : null;
}

function folderOf(store: CodeStorePaths, [session, app, automation]: Place): string {
  const folder = store.session(session).app(app);
  return automation === undefined ? folder : join(folder, 'automations', automation);
}

function unfinished(store: CodeStorePaths): string {
  return join(store.sessionsDir, `${UNFINISHED}${randomUUID()}`);
}

// ---- The record of a session, `session.json` in its folder ----

/** `base` is the commit that the app's files came from; null for an app that was made in the session. */
export type SessionApp = {
  base: string | null;
  /** When the app that the files came from was registered, to notice that its id is another app's now; may be unknown. */
  since?: number;
  /** The version that was live then, or that the files were said to be of; may be unknown. */
  version?: string;
  /** The folder that said which version its files came from, and that version, as long as the session published its files alone. */
  said?: string;
  /** Name of a folder beside the sessions that replaces the app's folder: it is there until that is done. */
  from?: string;
};

/** `base` is the commit of `main` when the session was opened, or what it published last. Times are milliseconds since the epoch. */
export type SessionRecord = {
  createdAt: number;
  base: string;
  /** What people call it; without one they see its id. */
  name?: string;
  /** Apps that were added to it or made in it. */
  apps: Readonly<Record<string, SessionApp>>;
  /** The request that opened it has not ended: after a crash no client knows of it. */
  unfinished?: true;
};

/** Null when there is no such session. Rejects with `SESSION_DAMAGED` when its record is missing, or is none. */
export async function readSession(session: SessionPaths): Promise<SessionRecord | null> {
  let value: unknown;
  try {
    value = await readJson(session.record);
  } catch (error) {
    const reason =
      error instanceof SyntaxError ? 'is not JSON' : UNREADABLE[(error as NodeJS.ErrnoException).code ?? ''];
    throw reason === undefined ? error : damagedSession(session, reason, error);
  }
  if (value === undefined) {
    if (await isFolder(session.dir)) throw damagedSession(session, 'is missing');
    return null;
  }
  const record = parseRecord(value);
  if (record === null) throw damagedSession(session, 'does not hold what it should');
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

function damagedSession({ dir }: SessionPaths, reason: string, cause?: unknown): SvcError {
  const id = basename(dir);
  return new SvcError(
    'SESSION_DAMAGED',
    `The session "${id}" is damaged: worktrees/sessions/${id}/session.json of the code store ${reason}. Its files are still there, in apps/; copy what you need, then close the session: svc sessions rm ${id}`,
    { cause },
  );
}

/** The same text for the same files in any order. */
export function fingerprint(files: Pick<GitFile, 'path' | 'sha'>[]): string {
  const lines = files.map(({ path, sha }) => `${path}\0${sha}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex');
}

export async function writeSession(session: SessionPaths, { createdAt, ...rest }: SessionRecord): Promise<void> {
  const record = { createdAt: new Date(createdAt).toISOString(), ...rest };
  await writeFileAtomic(session.record, `${JSON.stringify(record, null, 2)}\n`);
}

function parseRecord(value: unknown): SessionRecord | null {
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
            from: matching(/^\.[0-9a-f-]{36}$/, 'a folder beside the sessions'),
          },
        ),
      ),
    },
    { name: text, unfinished: { const: true } },
  ),
);
