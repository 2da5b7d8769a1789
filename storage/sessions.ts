/**
 * The sessions of the git store on disk: `worktrees/sessions/<sid>/session.json` and the plain files of the apps beside it
 * (decisions, section 7). A session is there as a whole or not at all.
 */
import { randomUUID } from 'node:crypto';
import { lstat, readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { SvcError } from '../protocol/errors.ts';
import { isAppId, isSessionId } from '../protocol/ids.ts';
import { exists, isMissing, mkdirDurable, readJson, renameDurable, writeFileAtomic } from './atomic-file.ts';
import { isObjectId } from './git/object.ts';
import { type CodeStorePaths, SessionPaths } from './layout.ts';

/**
 * What is known of a session. `base` is the commit of `main` when it was opened; for each app that was taken into it, the
 * commit its files came from, or null for one that was made in the session. Times are milliseconds since the epoch.
 */
export type SessionRecord = {
  createdAt: number;
  base: string;
  apps: Readonly<Record<string, SessionApp>>;
};

/** `since`: when the app that the files came from was registered; without it nobody knows. One of its id may be another app. */
export type SessionApp = { base: string | null; since?: number };

/** Names of folders that are being made or removed; no session id starts like this. */
const UNFINISHED = '.';
/** `<this><sid>.<app>`: an app's folder while another takes its place. */
const ASIDE = '.aside.';

/** Ids of the open sessions, sorted; those whose record is damaged too. */
export async function listSessions(store: CodeStorePaths): Promise<string[]> {
  const ids = (await namesIn(store.sessionsDir)).filter(isSessionId).sort();
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

/** What somebody may have put in the place of a record, or done to it, in the words of Node. */
const UNREADABLE: Readonly<Record<string, string>> = {
  EISDIR: 'is a folder',
  ELOOP: 'is a link that leads nowhere',
  EACCES: 'may not be read',
  EPERM: 'may not be read',
  EIO: 'cannot be read from the disk',
};

function parseRecord(value: unknown): SessionRecord | null {
  const { createdAt, base, apps } = (value ?? {}) as { createdAt?: unknown; base?: unknown; apps?: unknown };
  const at = typeof createdAt === 'string' ? Date.parse(createdAt) : Number.NaN;
  const isWhole = !Number.isNaN(at) && isCommit(base) && typeof apps === 'object' && apps !== null;
  if (!isWhole || Array.isArray(apps)) return null;
  const known: Record<string, SessionApp> = {};
  for (const [id, app] of Object.entries(apps)) {
    const entry = (app ?? {}) as { base?: unknown; since?: unknown };
    if (!isAppId(id) || (entry.base !== null && !isCommit(entry.base))) return null;
    known[id] = { base: entry.base, ...(typeof entry.since === 'number' ? { since: entry.since } : {}) };
  }
  return { createdAt: at, base, apps: known };
}

function isCommit(value: unknown): value is string {
  return typeof value === 'string' && isObjectId(value);
}

function damagedSession({ dir }: SessionPaths, reason: string, cause?: unknown): SvcError {
  const id = basename(dir);
  return new SvcError(
    'SESSION_DAMAGED',
    `The session "${id}" is damaged: worktrees/sessions/${id}/session.json of the code store ${reason}. Its files are still beside it, in apps/; take what you need, then close the session: svc sessions rm ${id}`,
    { cause },
  );
}

export async function writeSession(session: SessionPaths, { createdAt, base, apps }: SessionRecord): Promise<void> {
  const record = { createdAt: new Date(createdAt).toISOString(), base, apps };
  await writeFileAtomic(session.record, `${JSON.stringify(record, null, 2)}\n`);
}

/** It is gone from the first step on. */
export async function removeSession(store: CodeStorePaths, id: string): Promise<void> {
  const going = unfinished(store);
  await renameDurable(store.session(id).dir, going);
  await rm(going, { recursive: true, force: true });
}

/** An empty folder, on the file system of the sessions, for what will be renamed into one of them. */
export async function stagingFolder(store: CodeStorePaths): Promise<string> {
  const dir = unfinished(store);
  await mkdirDurable(dir);
  return dir;
}

/** False for a link too: what it leads to is not the session's. */
export async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isDirectory() ?? false;
}

/**
 * Puts `staged` in the place of the app's folder, which a crash in between gives back at the next start. `then` belongs to
 * it: when it rejects, or the folder cannot be replaced, the old one is in its place again.
 */
export async function replaceApp(
  store: CodeStorePaths,
  { sid, app, staged }: { sid: string; app: string; staged: string },
  then: () => Promise<void>,
): Promise<void> {
  const target = store.session(sid).app(app);
  const going = join(store.sessionsDir, `${ASIDE}${sid}.${app}`);
  await rm(going, { recursive: true, force: true });
  const isThere = (await lstat(target).catch(() => null)) !== null;
  try {
    if (isThere) await renameDurable(target, going);
    await renameDurable(staged, target);
    await then();
  } catch (error) {
    await giveBack(target, isThere ? going : null);
    throw error;
  }
  await rm(going, { recursive: true, force: true });
}

async function giveBack(target: string, going: string | null): Promise<void> {
  const isAside = going === null || (await lstat(going).catch(() => null)) !== null;
  if (isAside) await rm(target, { recursive: true, force: true });
  if (isAside && going !== null) await renameDurable(going, target);
}

/** Gives back what a crash left of apps that were being replaced, and removes what is left of sessions that were made or removed. */
export async function sweepSessions(store: CodeStorePaths): Promise<void> {
  for (const name of await namesIn(store.sessionsDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    const left = join(store.sessionsDir, name);
    const [sid = '', app = ''] = name.startsWith(ASIDE) ? name.slice(ASIDE.length).split('.') : [];
    const session = isSessionId(sid) && isAppId(app) ? store.session(sid) : null;
    const isWanted = session !== null && (await isFolder(session.dir)) && !(await exists(session.app(app)));
    if (isWanted) await renameDurable(left, session.app(app));
    else await rm(left, { recursive: true, force: true });
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
  return (await namesIn(session.appsDir)).filter(isAppId).sort();
}

function unfinished(store: CodeStorePaths): string {
  return join(store.sessionsDir, `${UNFINISHED}${randomUUID()}`);
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
