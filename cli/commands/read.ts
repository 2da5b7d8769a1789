/** `svc read`: runs a query. */

import type { CommandContext } from '../command.ts';
import type { ToolAnswer } from '../gateway/api.ts';
import { readJsonInput } from '../input.ts';
import { drawRecords, isRecords } from '../terminal/records.ts';

export async function run({ args, terminal, connect, cwd }: CommandContext): Promise<void> {
  const argument = args.optionalAt(2);
  const input = argument === undefined ? {} : await readJsonInput(argument, terminal.stdin, cwd);
  const body = { app: args.at(0), query: args.at(1), input };
  const { data } = await connect().post<ToolAnswer<unknown>>('/svc/_tool/svc_read', body);
  if (terminal.interactive && isRecords(data)) drawRecords(terminal, data);
  else terminal.value(data);
}
