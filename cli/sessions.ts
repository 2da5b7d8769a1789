/** Which session a command is about. */
import { LIMITS } from '../protocol/limits.ts';
import { CommandError, GatewayError, type SessionSubject, UsageError } from './failure.ts';
import type { SessionRow } from './gateway/api.ts';
import type { Client } from './gateway/client.ts';
import { withQuery } from './gateway/paths.ts';
import { nearest } from './terminal/nearest.ts';

const OPEN_ONE = 'Open one: svc dev <dir>, svc new --clone <template>, or svc sessions open';

/** All open sessions, newest first. */
export async function allSessions(client: Client, timeoutMs?: number): Promise<SessionRow[]> {
  const rows: SessionRow[] = [];
  for (;;) {
    const last = rows.at(-1);
    const path = withQuery('/svc/_sessions', { limit: LIMITS.listRowsMax, before: last?.sessionId });
    const page = await client.get<SessionRow[]>(path, timeoutMs);
    rows.push(...page);
    if (page.length < LIMITS.listRowsMax) return rows;
  }
}

/** Waits for an answer about a session. An error then says which one it was and of which app, for what to do next. */
export async function inSession<T>(about: SessionSubject, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof GatewayError) throw new GatewayError(error.status, error.body, about);
    throw error;
  }
}

/**
 * The session that was named, else the only one there is, of those that `app` was taken into when that is given. `naming` is how
 * the command is told which one.
 */
export async function findSession(
  client: Client,
  named: string | undefined,
  app?: string,
  naming = '--session <id>',
): Promise<string> {
  if (named !== undefined) return named;
  const sessions = await allSessions(client);
  const fitting = app === undefined ? sessions : sessions.filter(({ apps }) => apps.includes(app));
  const [only] = fitting;
  if (only === undefined) {
    if (app === undefined || sessions.length === 0) throw new CommandError('No session is open.', OPEN_ONE);
    const meant = nearest(
      app,
      sessions.flatMap(({ apps }) => apps),
    );
    const hint = meant === undefined ? ['Open sessions: svc sessions', OPEN_ONE] : `Did you mean "${meant}"?`;
    throw new CommandError(`No open session has the app "${app}".`, hint);
  }
  if (fitting.length > 1) {
    const rows = fitting.map(({ sessionId, apps }) => `  ${sessionId}  ${apps.join(', ') || '–'}`);
    throw new UsageError(`Several sessions are open; name one: ${naming}`, {
      hint: ['Open sessions:', ...rows],
    });
  }
  return only.sessionId;
}
