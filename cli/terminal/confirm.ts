/** Asks before something is lost. */
import { UsageError } from '../failure.ts';
import type { Terminal } from './terminal.ts';

/** Whether the user said yes to "`question` [y/N]". Throws `UsageError` where nobody can be asked; `command` is for its help. */
export async function confirm(terminal: Terminal, question: string, command: string): Promise<boolean> {
  if (!terminal.stdin.isTTY || terminal.json) {
    throw new UsageError(`"svc ${command}" needs a confirmation.`, {
      command,
      hint: 'Add --yes to skip the question.',
    });
  }
  return /^y(es)?$/i.test(await terminal.ask(`${question} [y/N] `));
}
