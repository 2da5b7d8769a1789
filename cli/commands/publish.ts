/** `svc publish`: makes what a session changes of an app its next live version. */

import type { VersionRecord } from '../../protocol/answers.ts';
import type { CommandContext } from '../command.ts';
import { drawMinted } from '../gateway/activation.ts';
import type { AutomationList, PublishAnswer } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { findPages } from '../gateway/pages.ts';
import { appPath, sessionPath, withQuery } from '../gateway/paths.ts';
import { findSession, inSession } from '../sessions.ts';
import { drawNetwork, drawUses } from '../terminal/reach.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const session = await findSession(client, args.text('session'), app);
  const message = args.text('message');
  const request = { ...(app === undefined ? {} : { app }), ...(message === undefined ? {} : { message }) };
  const path = sessionPath(session, '/publish');
  const answer = await inSession({ session, app }, client.post<PublishAnswer>(path, request));
  const flat = await flatFaults(client, answer.id);
  const canUndo = !terminal.json && (await hasOlder(client, answer));
  const addressOf = await findPages(client);
  terminal.answer(answer, () => {
    const { style } = terminal;
    terminal.line(`${style('green', '✓')} ${style('bold', answer.id)} ${answer.tag} is live`);
    const facts: [name: string, value: string][] = [['commit', answer.sha.slice(0, 12)]];
    if (answer.migrationsApplied.length > 0) facts.push(['migrated', answer.migrationsApplied.join(', ')]);
    if (answer.network !== undefined) facts.push(['network', drawNetwork(answer.network)]);
    if (answer.uses !== undefined) facts.push(['uses', drawUses(answer.uses)]);
    facts.push(['page', style('cyan', addressOf({ app: answer.id }))]);
    if (canUndo) facts.push(['undo', `svc rollback ${answer.id}`]);
    for (const [name, value] of facts) terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
    drawMinted(terminal, answer.webhooks);
  });
  for (const { message } of flat) terminal.note(`${terminal.noteStyle('yellow', '!')} ${message}`);
}

/** Files of the published app that look like automations and are none. */
async function flatFaults(client: Client, app: string): Promise<AutomationList['errors']> {
  const path = withQuery('/svc/_automations', { app });
  // It is published, whatever becomes of this question.
  const errors = await client.get<AutomationList>(path).then(
    (list) => list.errors,
    () => [],
  );
  return errors.filter(({ code }) => code === 'flat_file');
}

/** Whether there is something to go back to: the older versions of an app that was removed in between are not kept. */
async function hasOlder(client: Client, { id, version, tag }: PublishAnswer): Promise<boolean> {
  if (version === 1) return false;
  const path = withQuery(appPath(id, '/versions'), { limit: 1, before: tag });
  // It is published, whatever becomes of this question.
  const older = await client.get<VersionRecord[]>(path).catch(() => []);
  return older.length > 0;
}
