/** `svc rm`: removes an app, after asking. */
import { DEFAULTS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import { EXIT } from '../failure.ts';
import { appPath, withQuery } from '../gateway/paths.ts';
import { confirm } from '../terminal/terminal.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<number> {
  const app = args.at(0);
  const purge = args.has('purge');
  const client = connect();
  await client.get(appPath(app));
  const what = purge ? `${app} and all its data, for good` : `${app} (its data goes to the trash)`;
  if (!args.has('yes') && !(await confirm(terminal, `Remove ${what}?`, 'rm'))) {
    terminal.note('Nothing was removed.');
    return EXIT.failed;
  }
  const answer = await client.delete<unknown>(withQuery(appPath(app), { purge: purge ? 1 : undefined }));
  terminal.answer(answer, () => {
    const kept = purge ? 'with its data' : `its data stays in the trash for ${DEFAULTS.trashDays} days`;
    terminal.line(`${terminal.style('green', '✓')} ${terminal.style('bold', app)} is removed, ${kept}`);
  });
  return EXIT.ok;
}
