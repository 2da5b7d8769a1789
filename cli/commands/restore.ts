/** `svc restore`: puts a backup into an empty data directory, all of it or nothing. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { restoreBackup } from '../../storage/backup/restore.ts';
import type { CommandContext } from '../command.ts';
import { CommandError, UsageError } from '../failure.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { interruptible } from '../interrupt.ts';
import { shellPath } from '../terminal/shell.ts';
import { backupFacts, printFacts } from './backup-facts.ts';

export async function run(context: CommandContext): Promise<void> {
  const { args, terminal, cwd, dataDirectory } = context;
  const file = resolve(cwd, args.at(0));
  if (!args.has('data-dir'))
    throw new UsageError('Name the directory to restore to.', {
      command: 'restore',
      hint: `svc restore ${shellPath(args.at(0))} --data-dir <dir>`,
    });
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new CommandError(`There is no file ${shortPath(file, context)}.`);
  const manifest = await interruptible((signal) => restoreBackup(file, dataDirectory, signal)).catch(
    (error: unknown) => {
      throw explainRestoring(error, dataDirectory, context);
    },
  );
  const facts = backupFacts(manifest);
  const config = join(dataDirectory, 'config.json');
  const isConfigured = existsSync(config) && readFileSync(config, 'utf8').trim() !== '{}';
  terminal.answer({ dataDir: dataDirectory, config: isConfigured ? config : null, ...facts }, () => {
    const place = shortPath(dataDirectory, context);
    printFacts(terminal, `restored into ${terminal.style('bold', place)}, verified`, facts, statSync(file).size);
    const withConfig = isConfigured ? ` --config ${shellPath(shortPath(config, context))}` : '';
    terminal.line(`  ${terminal.style('dim', 'next'.padEnd(9))} svc serve --data-dir ${shellPath(place)}${withConfig}`);
    terminal.note('The gateway makes a new access token when it starts: the old one is not in a backup.');
  });
}

function explainRestoring(error: unknown, target: string, context: CommandContext): unknown {
  if (!isDiskFull(error)) return error;
  const message = `There is not enough room for ${shortPath(target, context)}; nothing was left there.`;
  return new SvcError('STORAGE_FULL', message, { cause: error });
}
