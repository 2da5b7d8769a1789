/** `svc rm`: removes an app, after asking. */
import { createInterface } from 'node:readline/promises';
import { DEFAULTS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import { EXIT, UsageError } from '../failure.ts';
import { appPath, withQuery } from '../paths.ts';
import type { Terminal } from '../terminal/terminal.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<number> {
  const app = args.at(0);
  const purge = args.has('purge');
  const client = connect();
  await client.get(appPath(app));
  if (!args.has('yes') && !(await confirm(terminal, app, purge))) {
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

async function confirm(terminal: Terminal, app: string, purge: boolean): Promise<boolean> {
  if (!terminal.stdin.isTTY || terminal.json) {
    throw new UsageError(`Removing "${app}" needs a confirmation.`, {
      command: 'rm',
      hint: 'Add --yes to go on without being asked.',
    });
  }
  const prompt = createInterface({ input: terminal.stdin, output: terminal.stderr });
  try {
    const what = purge ? `${app} and all its data, for good` : `${app} (its data goes to the trash)`;
    const answer = await prompt.question(`Remove ${what}? [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    prompt.close();
  }
}
