/** `svc restart`: a fresh actor for an app. */
import type { CommandContext } from '../command.ts';
import { appPath } from '../gateway/paths.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const answer = await connect().post<unknown>(appPath(app, '/restart'));
  terminal.answer(answer, () =>
    terminal.line(`${terminal.style('green', '✓')} ${terminal.style('bold', app)} is restarted`),
  );
}
