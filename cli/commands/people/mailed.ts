/** Says whether a link was mailed. */
import type { Mailed } from '../../../protocol/routes/people/pieces.ts';
import type { CommandContext } from '../../command.ts';

/** `otherwise` is what to do with the link where it was not. */
export function hintMailed(terminal: CommandContext['terminal'], mailed: Mailed | undefined, otherwise: string): void {
  if (mailed != null && mailed.problem !== null)
    terminal.hint(`It could not be mailed to ${mailed.to}: ${mailed.problem}`);
  terminal.hint(mailed != null && mailed.problem === null ? `It was mailed to ${mailed.to}.` : otherwise);
}
