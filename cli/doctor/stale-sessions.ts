/** The checks of `svc doctor` for sessions that nobody touches any more, or that are damaged. They are never removed unless somebody says so. */
import { existsSync } from 'node:fs';
import { LIMITS } from '../../protocol/limits.ts';
import { Layout, type SessionPaths } from '../../storage/layout.ts';
import { readSession } from '../../storage/session-record.ts';
import { listSessions, touchedAt } from '../../storage/sessions.ts';
import { GatewayError } from '../failure.ts';
import { Client } from '../gateway/client.ts';
import { readDaemonFile, readJsonFile, readTextFile } from '../gateway/data-directory.ts';
import { allSessions } from '../sessions.ts';
import { formatAge } from '../terminal/units.ts';
import type { Check } from './health-checks.ts';

type Found = { sessionId: string; touchedAt: number; damaged?: string };

/** Where `svc serve --store git` keeps code, unless the data directory's mark says otherwise. */
const CODE_STORE = 'code-store';
/** Sessions named; the others are counted. */
const NAMED = 5;

/** Nothing where there is no git store, or its gateway does not answer: other checks tell that. */
export async function checkSessions(dataDirectory: string, now = Date.now()): Promise<Check[]> {
  let sessions: Found[] | null;
  try {
    sessions = await askGateway(dataDirectory);
    sessions ??= await readFolder(dataDirectory);
  } catch {
    return [];
  }
  if (sessions === null) return [];
  return [...checkDamaged(sessions), ...checkStale(sessions, now)];
}

function checkDamaged(sessions: Found[]): Check[] {
  const damaged = sessions.filter((session) => session.damaged !== undefined).map(({ sessionId }) => sessionId);
  if (damaged.length === 0) return [];
  return [
    {
      name: 'sessions',
      state: 'problem',
      finding: `damaged, their session.json cannot be read: ${damaged.join(', ')}`,
      fix: 'Take what you need from worktrees/sessions/<id>/apps of the code store, then close them: svc sessions rm <id>',
    },
  ];
}

function checkStale(sessions: Found[], now: number): Check[] {
  const stale = sessions.filter((session) => now - session.touchedAt > LIMITS.sessionStaleMs);
  const open = `${sessions.length} open`;
  if (stale.length === 0) return [{ name: 'sessions', state: 'ok', finding: open }];
  stale.sort((a, b) => a.touchedAt - b.touchedAt);
  const named = stale.slice(0, NAMED).map((session) => `${session.sessionId} (${formatAge(session.touchedAt, now)})`);
  const more = stale.length > NAMED ? ` and ${stale.length - NAMED} more` : '';
  const days = LIMITS.sessionStaleMs / 86_400_000;
  return [
    {
      name: 'sessions',
      state: 'warning',
      finding: `${open}, untouched for ${days} days: ${named.join(', ')}${more}`,
      fix: 'Publish what they hold, or close them: svc diff --session <id>, svc sessions rm <id>',
    },
  ];
}

/** Null when none runs, or when it has no git store. */
async function askGateway(dataDirectory: string): Promise<Found[] | null> {
  const daemon = readDaemonFile(dataDirectory);
  if (daemon === null) return null;
  const token = readTextFile(new Layout(dataDirectory).token) ?? undefined;
  const client = new Client({ url: daemon.url, urlFrom: 'daemon.json', token, tokenFrom: 'token.bin' });
  try {
    return await allSessions(client, LIMITS.helloMs);
  } catch (error) {
    if (error instanceof GatewayError && error.body.code === 'NO_GIT_STORE') return null;
    throw error;
  }
}

async function readFolder(dataDirectory: string): Promise<Found[] | null> {
  const mark = readJsonFile(new Layout(dataDirectory).storeMark) as { appsStoreRoot?: unknown } | null;
  const root = typeof mark?.appsStoreRoot === 'string' ? mark.appsStoreRoot : CODE_STORE;
  const store = new Layout(dataDirectory, undefined, root).codeStore;
  if (store === null || !existsSync(store.sessionsDir)) return null;
  const ids = await listSessions(store);
  return await Promise.all(ids.map((id) => readFound(id, store.session(id))));
}

async function readFound(sessionId: string, session: SessionPaths): Promise<Found> {
  const found = { sessionId, touchedAt: await touchedAt(session) };
  try {
    await readSession(session);
    return found;
  } catch (error) {
    return { ...found, damaged: (error as Error).message };
  }
}
