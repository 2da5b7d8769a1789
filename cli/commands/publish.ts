/** `svc publish`: makes what a session changes of an app its next live version. */
import type { PublishAnswer } from '../api.ts';
import type { CommandContext } from '../command.ts';
import { sessionPath } from '../paths.ts';
import { findSession } from '../sessions.ts';
import { drawMinted } from '../terminal/minted.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const session = await findSession(client, args.text('session'), app);
  const message = args.text('message');
  const request = { ...(app === undefined ? {} : { app }), ...(message === undefined ? {} : { message }) };
  const answer = await client.post<PublishAnswer>(sessionPath(session, '/publish'), request);
  terminal.answer(answer, () => {
    const { style } = terminal;
    terminal.line(`${style('green', '✓')} ${style('bold', answer.id)} ${answer.tag} is live`);
    const facts: [name: string, value: string][] = [['commit', answer.sha.slice(0, 12)]];
    if (answer.migrationsApplied.length > 0) facts.push(['migrated', answer.migrationsApplied.join(', ')]);
    facts.push(['page', style('cyan', `${client.url}/svc/${answer.id}/`)]);
    if (answer.version > 1) facts.push(['undo', `svc rollback ${answer.id}`]);
    for (const [name, value] of facts) terminal.line(`  ${style('dim', name.padEnd(9))} ${value}`);
    drawMinted(terminal, answer.webhooks);
  });
}
