/** `svc new`: a folder with a small app to start from. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { isAppId } from '../../protocol/ids.ts';
import type { CommandContext } from '../command.ts';
import { shortPath } from '../data-directory.ts';
import { CommandError, UsageError } from '../failure.ts';
import { idFromName, nameFromId, writeScaffold } from '../scaffold.ts';

export async function run(context: CommandContext): Promise<void> {
  const { args, terminal, cwd } = context;
  const folder = resolve(cwd, args.at(0));
  const shown = shortPath(folder, context);
  const id = idFromName(basename(folder));
  if (!isAppId(id))
    throw new UsageError(`No app id can be made from "${basename(folder)}".`, {
      hint: 'Use letters and digits in the name of the folder.',
    });
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CommandError(`${shown} is not empty.`, 'Name a new folder.');
  const files = writeScaffold(folder, id, args.text('name') ?? nameFromId(id));
  terminal.answer({ id, folder, files }, () => {
    const { style } = terminal;
    terminal.line(`${style('green', '✓')} ${style('bold', id)} is ready in ${shown}`);
    for (const file of files) terminal.line(style('dim', `  ${file}`));
    terminal.line(`\nMake it live:  ${style('cyan', `svc push ${shown}`)}`);
  });
}
