/** `svc repair`: gives an app data again whose database is lost or damaged. */
import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { askFirst, type CommandContext } from '../../command.ts';
import { UsageError } from '../../failure.ts';
import { resolvesToHere } from '../../gateway/connection.ts';
import { isKeptName } from '../operations/kept-backups-command.ts';

export async function repair(context: CommandContext): Promise<void> {
  const { args, terminal, connect } = context;
  const app = args.at(0);
  const backup = args.text('restore');
  if ((backup === undefined) === !args.has('new-data'))
    throw new UsageError(
      'Name the data that the app is to have.',
      `svc repair ${app} --restore <backup>, or svc repair ${app} --new-data`,
    );
  const body = backup === undefined ? ({ newData: true } as const) : { restore: placeOf(backup, context) };
  if (backup === undefined) await askFirst(context, `Begin with empty data for ${app}?`);
  const answer = await connect().call('POST /svc/_apps/:id/repair', { params: { id: app }, body });
  terminal.answer(answer, () => {
    const { style } = terminal;
    const from = backup === undefined ? 'begins with empty data' : `has the data of ${backup}`;
    terminal.done(`${style('bold', app)} ${from}`);
    if (answer.migrationsApplied.length > 0)
      terminal.note(`Migrations applied: ${answer.migrationsApplied.join(', ')}`);
    if (answer.aside !== null)
      terminal.note(`What was there is apps/${app}/${answer.aside} of the data directory now.`);
  });
}

/** The gateway reads the backup: one that it keeps by its name, another by its absolute path. */
function placeOf(backup: string, context: CommandContext): string {
  const { args, cwd } = context;
  const isHere = resolvesToHere({ url: args.text('url'), dataDir: args.text('data-dir') }, context);
  if (isHere && existsSync(resolve(cwd, backup))) return resolve(cwd, backup);
  if (isAbsolute(backup) || isKeptName(backup)) return backup;
  throw new UsageError(
    `"${backup}" is no backup that the gateway keeps, and no file here.`,
    'List those that it keeps: svc backup ls. Name another by its absolute path on the machine of the gateway.',
  );
}
