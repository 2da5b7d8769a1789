/**
 * The sessions of the git store on disk: `worktrees/sessions/<sid>/session.json` and the plain files of the apps beside it
 * (decisions, section 7). A session is there as a whole or not at all, and so are the files of an app and what its record says
 * of them.
 */
import { randomUUID } from 'node:crypto';
import { link, lstat, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SvcError } from '../protocol/errors.ts';
import { isAppId, isSessionId } from '../protocol/ids.ts';
import { exists, isThere, mkdirDurable, namesIn, renameDurable, syncDir } from './atomic-file.ts';
import { crashPoint } from './crash-point.ts';
import { type CodeStorePaths, SessionPaths } from './layout.ts';
import { readSession, type SessionRecord, writeSession } from './session-record.ts';

/** Names of folders that are being made or removed; no session id starts like this. */
const UNFINISHED = '.';
/** `<this><sid>.<app>`, or with an automation's id after them: the folder while another takes its place. */
const ASIDE = '.aside.';
/** What `writeFileAtomic` calls a file that it has not finished. */
const TEMPORARY = /^\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/;

/** Ids of the open sessions, sorted; those whose record is damaged too. */
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
    crashPoint('session.made');
    await renameDurable(making.dir, session.dir);
  } catch (error) {
    await rm(making.dir, { recursive: true, force: true });
    if (await exists(session.dir)) return false;
    throw error;
  }
  crashPoint('session.opened');
  return true;
}

/** It is gone from the first step on. */
export async function removeSession(store: CodeStorePaths, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(store.session(id).dir, going);
  crashPoint('session.closed');
  await rm(going, { recursive: true, force: true });
  crashPoint('session.removed');
}

/** An empty folder, on the file system of the sessions, for what will be renamed into one of them. */
export async function stagingFolder(store: CodeStorePaths): Promise<string> {
  const dir = unfinished(store);
  await mkdirDurable(dir);
  crashPoint('session.staging-made');
  return dir;
}

/** False for a link too: what it leads to is not the session's. */
export async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isDirectory() ?? false;
}

/** Whether the folder that a record says takes an app's place has not done so. */
export async function isWaiting(store: CodeStorePaths, from: string | undefined): Promise<boolean> {
  return from !== undefined && (await isFolder(join(store.sessionsDir, from)));
}

/** Puts `staged`, which is durable, in the place of the app's folder. A crash in between gives back the old one, unless the record names `staged`. */
export async function replaceApp(store: CodeStorePaths, sid: string, app: string, staged: string): Promise<void> {
  await replaceFolder(store.session(sid).app(app), staged, join(store.sessionsDir, `${ASIDE}${sid}.${app}`));
}

/** Puts `staged`, which is durable, in the place of an automation's folder, or in a place where there is none. */
export async function replaceAutomation(
  store: CodeStorePaths,
  [sid, app, id]: [sid: string, app: string, id: string],
  staged: string,
): Promise<void> {
  const target = automationFolder(store, sid, app, id);
  await replaceFolder(target, staged, join(store.sessionsDir, `${ASIDE}${sid}.${app}.${id}`));
}

/** Removes an automation's folder, all of it or nothing. */
export async function removeAutomation(store: CodeStorePaths, sid: string, app: string, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(automationFolder(store, sid, app, id), going);
  await rm(going, { recursive: true, force: true });
}

/** The same files once more under another name, for some of them to be replaced there. `to` is an empty folder. */
export async function twinFolder(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const target = join(to, entry.name);
    if (!entry.isDirectory()) await link(join(from, entry.name), target);
    else {
      await mkdir(target, { mode: 0o700 });
      await twinFolder(join(from, entry.name), target);
    }
  }
  await syncDir(to);
}

/**
 * Ends the replacements that a crash cut off, as the records say, and removes what is left of sessions and files that were being
 * made or removed. Before anything is done in a session.
 */
export async function sweepSessions(store: CodeStorePaths): Promise<void> {
  for (const id of await listSessions(store)) {
    // Nothing is known of what is in a session whose record is damaged.
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
    crashPoint('sweep.session');
  }
}

/** When a file of the session was last written, in milliseconds since the epoch. */
export async function touchedAt(session: SessionPaths): Promise<number> {
  let newest = 0;
  const below = await readdir(session.appsDir, { recursive: true, withFileTypes: true }).catch(() => []);
  for (const path of [session.record, ...below.map((entry) => join(entry.parentPath, entry.name))]) {
    const found = await stat(path).catch(() => null);
    if (found !== null && found.mtimeMs > newest) newest = found.mtimeMs;
  }
  return Math.floor(newest > 0 ? newest : (await stat(session.dir)).mtimeMs);
}

/** Ids of the apps that have a folder in the session, sorted: all that is known of them when its record is damaged. */
export async function appFolders(session: SessionPaths): Promise<string[]> {
  return (await namesIn(session.appsDir)).filter(isAppId);
}

async function replaceFolder(target: string, staged: string, going: string): Promise<void> {
  await rm(going, { recursive: true, force: true });
  const replaced = await isThere(target);
  if (replaced) await renameDurable(target, going);
  crashPoint('session.aside');
  try {
    await renameDurable(staged, target);
  } catch (error) {
    if (replaced && !(await exists(target))) await rename(going, target);
    throw error;
  }
  crashPoint('session.placed');
  await rm(going, { recursive: true, force: true });
  crashPoint('session.aside-removed');
}

async function sweepSession(store: CodeStorePaths, id: string, { apps }: SessionRecord): Promise<void> {
  for (const [app, { from }] of Object.entries(apps)) {
    if (from === undefined || !(await isWaiting(store, from))) continue;
    await replaceApp(store, id, app, join(store.sessionsDir, from));
    crashPoint('sweep.session-placed');
  }
  const { dir } = store.session(id);
  for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !TEMPORARY.test(entry.name)) continue;
    await rm(join(entry.parentPath, entry.name), { force: true });
    crashPoint('sweep.session-file');
  }
}

/** Where what was set aside belongs, unless something is there, or it is nobody's. */
async function placeOf(store: CodeStorePaths, [sid = '', app = '', id]: string[]): Promise<string | null> {
  if (!isAppId(app) || !(await isSession(store, sid))) return null;
  const target = id === undefined ? store.session(sid).app(app) : automationFolder(store, sid, app, id);
  return (await exists(dirname(target))) && !(await exists(target)) ? target : null;
}

function automationFolder(store: CodeStorePaths, sid: string, app: string, id: string): string {
  return join(store.session(sid).app(app), 'automations', id);
}

function unfinished(store: CodeStorePaths): string {
  return join(store.sessionsDir, `${UNFINISHED}${randomUUID()}`);
}
