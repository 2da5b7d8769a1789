/**
 * The sessions of the git store on disk: `worktrees/sessions/<sid>/session.json` and the plain files of the apps beside it
 * (decisions, section 7). A session is there as a whole or not at all.
 */
import { randomUUID } from 'node:crypto';
import { lstat, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isAppId, isSessionId } from '../protocol/ids.ts';
import { exists, isMissing, mkdirDurable, readJson, renameDurable, writeFileAtomic } from './atomic-file.ts';
import { type CodeStorePaths, SessionPaths } from './layout.ts';

/**
 * What is known of a session. `base` is the commit of `main` when it was opened; for each app that was taken into it, the
 * commit its files came from, or null for one that was made in the session. Times are milliseconds since the epoch.
 */
export type SessionRecord = {
  createdAt: number;
  base: string;
  apps: Readonly<Record<string, { base: string | null }>>;
};

/** Names of folders that are being made or removed; no session id starts like this. */
const UNFINISHED = '.';
/** `<this><sid>.<app>`: an app's folder while another takes its place. */
const ASIDE = '.aside.';

/** Ids of the open sessions, sorted. */
export async function listSessions(store: CodeStorePaths): Promise<string[]> {
  const ids = (await namesIn(store.sessionsDir)).filter(isSessionId).sort();
  const there = await Promise.all(ids.map((id) => exists(store.session(id).record)));
  return ids.filter((_, at) => there[at]);
}

/** False when there is a session of this id already. */
export async function createSession(store: CodeStorePaths, id: string, record: SessionRecord): Promise<boolean> {
  const session = store.session(id);
  if (await exists(session.dir)) return false;
  const making = new SessionPaths(unfinished(store));
  await mkdirDurable(making.appsDir);
  await writeSession(making, record);
  try {
    await renameDurable(making.dir, session.dir);
  } catch (error) {
    await rm(making.dir, { recursive: true, force: true });
    if (await exists(session.dir)) return false;
    throw error;
  }
  return true;
}

/** Null when there is no such session. Rejects with a `SyntaxError` when its record was damaged. */
export async function readSession(session: SessionPaths): Promise<SessionRecord | null> {
  const value = await readJson(session.record);
  if (value === undefined) return null;
  const { createdAt, base, apps } = value as { createdAt?: unknown; base?: unknown; apps?: unknown };
  const at = typeof createdAt === 'string' ? Date.parse(createdAt) : Number.NaN;
  if (Number.isNaN(at) || typeof base !== 'string' || typeof apps !== 'object' || apps === null)
    throw new SyntaxError('The record of the session is damaged.');
  const known = Object.entries(apps as Record<string, { base?: unknown }>).filter(([id]) => isAppId(id));
  return {
    createdAt: at,
    base,
    apps: Object.fromEntries(known.map(([id, app]) => [id, { base: typeof app.base === 'string' ? app.base : null }])),
  };
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

/** Puts `staged` in the place of the app's folder, which a crash in between gives back at the next start. */
export async function replaceApp(store: CodeStorePaths, sid: string, app: string, staged: string): Promise<void> {
  const target = store.session(sid).app(app);
  const going = join(store.sessionsDir, `${ASIDE}${sid}.${app}`);
  await rm(going, { recursive: true, force: true });
  if ((await lstat(target).catch(() => null)) !== null) await renameDurable(target, going);
  await renameDurable(staged, target);
  await rm(going, { recursive: true, force: true });
}

/** Gives back what a crash left of apps that were being replaced, and removes what is left of sessions that were made or removed. */
export async function sweepSessions(store: CodeStorePaths): Promise<void> {
  for (const name of await namesIn(store.sessionsDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    const left = join(store.sessionsDir, name);
    const [sid = '', app = ''] = name.startsWith(ASIDE) ? name.slice(ASIDE.length).split('.') : [];
    const session = isSessionId(sid) && isAppId(app) ? store.session(sid) : null;
    const isWanted = session !== null && (await exists(session.record)) && !(await exists(session.app(app)));
    if (isWanted) await renameDurable(left, session.app(app));
    else await rm(left, { recursive: true, force: true });
  }
}

/** When a file of the session was last written, in milliseconds since the epoch. */
export async function touchedAt(session: SessionPaths): Promise<number> {
  let newest = (await stat(session.record)).mtimeMs;
  for (const entry of await readdir(session.appsDir, { recursive: true, withFileTypes: true })) {
    const found = await stat(join(entry.parentPath, entry.name)).catch(() => null);
    if (found !== null && found.mtimeMs > newest) newest = found.mtimeMs;
  }
  return Math.floor(newest);
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
