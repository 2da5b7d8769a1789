/** What is known of one session of the git store, `session.json` in its folder (decisions, section 7). */
import { isAppId } from '../protocol/ids.ts';
import { readJson, writeFileAtomic } from './atomic-file.ts';
import type { SessionPaths } from './layout.ts';

/** `base` is the commit that the app's files came from; null for an app that was made in the session. */
export type SessionApp = {
  base: string | null;
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

/** Null when there is no such session. Rejects with a `SyntaxError` when its record was damaged. */
export async function readSession(session: SessionPaths): Promise<SessionRecord | null> {
  const value = await readJson(session.record);
  if (value === undefined) return null;
  const { createdAt, base, apps, unfinished } = value as Partial<Record<keyof SessionRecord, unknown>>;
  const at = typeof createdAt === 'string' ? Date.parse(createdAt) : Number.NaN;
  if (Number.isNaN(at) || typeof base !== 'string' || typeof apps !== 'object' || apps === null)
    throw new SyntaxError('The record of the session is damaged.');
  const known = Object.entries(apps).filter(([id]) => isAppId(id));
  return {
    createdAt: at,
    base,
    apps: Object.fromEntries(known.map(([id, app]) => [id, readApp(app as Readonly<Record<string, unknown>>)])),
    ...(unfinished === true ? { unfinished } : {}),
  };
}

export async function writeSession(session: SessionPaths, { createdAt, ...rest }: SessionRecord): Promise<void> {
  const record = { createdAt: new Date(createdAt).toISOString(), ...rest };
  await writeFileAtomic(session.record, `${JSON.stringify(record, null, 2)}\n`);
}

function readApp({ base, from, publishing }: Readonly<Record<string, unknown>>): SessionApp {
  const { commit, files } = (publishing ?? {}) as Readonly<Record<string, unknown>>;
  return {
    base: typeof base === 'string' ? base : null,
    ...(typeof from === 'string' && FOLDER.test(from) ? { from } : {}),
    ...(typeof commit === 'string' && typeof files === 'string' ? { publishing: { commit, files } } : {}),
  };
}

/** As `stagingFolder` names them. */
const FOLDER = /^\.[0-9a-f-]{36}$/;
