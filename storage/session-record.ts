/** What is known of one session of the git store, `session.json` in its folder (decisions, section 7). */
import { lstat } from 'node:fs/promises';
import { basename } from 'node:path';
import { SvcError } from '../protocol/errors.ts';
import { isAppId } from '../protocol/ids.ts';
import { readJson, writeFileAtomic } from './atomic-file.ts';
import { isObjectId } from './git/object.ts';
import type { SessionPaths } from './layout.ts';

/** `base` is the commit that the app's files came from; null for an app that was made in the session. */
export type SessionApp = {
  base: string | null;
  /** When the app that the files came from was registered; without it nobody knows. One of its id may be another app. */
  since?: number;
  /** Name of a folder beside the sessions that takes the place of the app's: while it is there, it has not yet. */
  from?: string;
  /** What is on its way to live: the commit, and a fingerprint of the files as they were sent. */
  publishing?: { commit: string; files: string };
};

/** `base` is the commit of `main` when the session was opened, or what it published last. Times are milliseconds since the epoch. */
export type SessionRecord = {
  createdAt: number;
  base: string;
  /** Those that were taken into it, or made in it. */
  apps: Readonly<Record<string, SessionApp>>;
  /** The request that it was opened for has not ended: after a crash nobody knows of it. */
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
    const isThere = (await lstat(session.dir).catch(() => null))?.isDirectory() ?? false;
    if (isThere) throw damagedSession(session, 'is missing');
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

function damagedSession({ dir }: SessionPaths, reason: string, cause?: unknown): SvcError {
  const id = basename(dir);
  return new SvcError(
    'SESSION_DAMAGED',
    `The session "${id}" is damaged: worktrees/sessions/${id}/session.json of the code store ${reason}. Its files are still there, in apps/; copy what you need, then close the session: svc sessions rm ${id}`,
    { cause },
  );
}

export async function writeSession(session: SessionPaths, { createdAt, ...rest }: SessionRecord): Promise<void> {
  const record = { createdAt: new Date(createdAt).toISOString(), ...rest };
  await writeFileAtomic(session.record, `${JSON.stringify(record, null, 2)}\n`);
}

type Json = Readonly<Record<string, unknown>>;

function parseRecord(value: unknown): SessionRecord | null {
  const { createdAt, base, apps, unfinished } = (value ?? {}) as Json;
  const at = typeof createdAt === 'string' ? Date.parse(createdAt) : Number.NaN;
  if (Number.isNaN(at) || !isCommit(base) || !isObject(apps)) return null;
  const known: Record<string, SessionApp> = {};
  for (const [id, entry] of Object.entries(apps)) {
    const app = isAppId(id) && isObject(entry) ? parseApp(entry) : null;
    if (app === null) return null;
    known[id] = app;
  }
  return { createdAt: at, base, apps: known, ...(unfinished === true ? { unfinished } : {}) };
}

function parseApp({ base, since, from, publishing }: Json): SessionApp | null {
  if (base !== null && !isCommit(base)) return null;
  const { commit, files } = isObject(publishing) ? publishing : {};
  return {
    base,
    ...(typeof since === 'number' ? { since } : {}),
    ...(typeof from === 'string' && FOLDER.test(from) ? { from } : {}),
    ...(isCommit(commit) && typeof files === 'string' ? { publishing: { commit, files } } : {}),
  };
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCommit(value: unknown): value is string {
  return typeof value === 'string' && isObjectId(value);
}

/** As `stagingFolder` names them. */
const FOLDER = /^\.[0-9a-f-]{36}$/;
