/** `svc sessions`: lists the open sessions, opens one, closes one, or takes into one what was published meanwhile. */
import { LIMITS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import { EXIT, UsageError } from '../failure.ts';
import type { UpdateAnswer } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { sessionPath } from '../gateway/paths.ts';
import { allSessions, findSession, inSession } from '../sessions.ts';
import { confirm, type Terminal } from '../terminal/terminal.ts';
import { formatAge } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<number> {
  const client = connect();
  const verb = args.optionalAt(0);
  const id = args.optionalAt(1);
  if (verb === undefined) return list(client, terminal);
  if (verb === 'open') return open(client, terminal, id);
  if (verb === 'rm' && id !== undefined) return remove(client, terminal, id, args.has('yes'));
  if (verb === 'update') return update(client, terminal, id, args.text('app'));
  if (verb === 'rm')
    throw new UsageError('Name the session to close: svc sessions rm <id>.', { hint: 'Open ones: svc sessions' });
  throw new UsageError(`"${verb}" is not a verb; use "open", "rm" or "update".`, { command: 'sessions' });
}

async function list(client: Client, terminal: Terminal): Promise<number> {
  const sessions = await allSessions(client);
  terminal.answer(sessions, () => {
    if (sessions.length === 0) terminal.note('No session is open. Open one: svc dev <dir>, or svc sessions open');
    const now = Date.now();
    if (sessions.length > 0)
      terminal.table(
        [{ title: 'SESSION' }, { title: 'APPS' }, { title: 'LAST EDIT' }],
        sessions.map(({ sessionId, apps, touchedAt, damaged }) => [
          { text: sessionId, format: 'bold' },
          `${apps.join(', ') || '–'}${damaged === undefined ? '' : ' (damaged)'}`,
          { text: formatAge(touchedAt, now), format: now - touchedAt > LIMITS.sessionStaleMs ? 'yellow' : 'dim' },
        ]),
      );
    for (const { damaged } of sessions) if (damaged !== undefined) terminal.note(damaged);
  });
  return EXIT.ok;
}

async function open(client: Client, terminal: Terminal, sessionId: string | undefined): Promise<number> {
  const answer = await client.post<{ sessionId: string }>(
    '/svc/_sessions',
    sessionId === undefined ? {} : { sessionId },
  );
  terminal.answer(answer, () => {
    terminal.line(`${terminal.style('green', '✓')} session ${terminal.style('bold', answer.sessionId)} is open`);
  });
  return EXIT.ok;
}

async function remove(client: Client, terminal: Terminal, id: string, sure: boolean): Promise<number> {
  const rows = await allSessions(client);
  // Before anything is asked; the gateway has the last word.
  if (
    !sure &&
    rows.some(({ sessionId }) => sessionId === id) &&
    !(await confirm(terminal, `Close ${id}? What it has not published is lost.`, 'sessions'))
  ) {
    terminal.note('Nothing was closed.');
    return EXIT.failed;
  }
  const answer = await client.delete(sessionPath(id));
  terminal.answer(answer, () => terminal.line(`${terminal.style('green', '✓')} session ${id} is closed`));
  return EXIT.ok;
}

async function update(
  client: Client,
  terminal: Terminal,
  named: string | undefined,
  wanted: string | undefined,
): Promise<number> {
  const naming = `svc sessions update <id>${wanted === undefined ? '' : ` --app ${wanted}`}`;
  const session = await findSession(client, named, wanted, naming);
  const app = wanted ?? (await onlyApp(client, session));
  const path = sessionPath(session, `/apps/${encodeURIComponent(app)}/update`);
  const answer = await inSession({ session, app }, client.post<UpdateAnswer>(path, {}));
  terminal.answer(answer, () => {
    const { merged, conflicts } = answer;
    terminal.line(`${terminal.style('green', '✓')} ${app} in ${session} has all that is published`);
    for (const path of merged) terminal.line(`  ${terminal.style('dim', 'taken')}    ${path}`);
    for (const path of conflicts) terminal.line(`  ${terminal.style('yellow', 'resolve')}  ${path}`);
  });
  return EXIT.ok;
}

async function onlyApp(client: Client, session: string): Promise<string> {
  const sessions = await allSessions(client);
  const [app, ...others] = sessions.find(({ sessionId }) => sessionId === session)?.apps ?? [];
  if (app !== undefined && others.length === 0) return app;
  throw new UsageError('Name the app to update: --app <app>.', { command: 'sessions' });
}
