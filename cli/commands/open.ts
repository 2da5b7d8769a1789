/** `svc open`: prints a link that signs a browser in, once. */

import type { CommandContext } from '../command.ts';
import { UsageError } from '../failure.ts';
import { makeLink } from '../gateway/pages.ts';
import { appPath, filesPath } from '../gateway/paths.ts';
import { formatClock } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const session = args.text('session');
  if (session !== undefined && app === undefined)
    throw new UsageError('Name the app whose draft to open.', { command: 'open' });
  // A link would lead to an error, in a browser, where nobody says which apps there are.
  if (app !== undefined) await client.get(session === undefined ? appPath(app) : filesPath(session, app));
  const page = app === undefined ? undefined : { app, ...(session === undefined ? {} : { session }) };
  const link = await makeLink(client, page);
  terminal.answer(link, () => {
    terminal.line(link.url);
    terminal.note(terminal.noteStyle('dim', `Signs one browser in, until ${formatClock(link.expiresAt)}.`));
  });
}
