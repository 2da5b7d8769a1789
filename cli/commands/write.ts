/** `svc write`: runs an action. */

import type { CommandContext } from '../command.ts';
import { EXIT } from '../failure.ts';
import type { ActionResult, ToolAnswer } from '../gateway/api.ts';
import { readJsonInput } from '../input.ts';

/** An action that answers with a status of 400 and above has failed, though it says so in its own words. */
export async function run({ args, terminal, connect, cwd }: CommandContext): Promise<number> {
  const argument = args.optionalAt(2);
  const input = argument === undefined ? {} : await readJsonInput(argument, terminal.stdin, cwd);
  const key = args.text('key');
  const answer = await connect().postForAnswer(
    '/svc/_tool/svc_write',
    { app: args.at(0), action: args.at(1), input },
    key === undefined ? {} : { 'idempotency-key': key },
  );
  const result = (answer.body as ToolAnswer<ActionResult>).data;
  terminal.answer(result, () => {
    if (answer.headers['idempotency-replayed'] === 'true')
      terminal.note('This key was used before: its recorded result follows.');
    if (result.status !== 200) terminal.note(`status ${result.status}`);
    terminal.value(result.body);
  });
  return result.status < 400 ? EXIT.ok : EXIT.failed;
}
