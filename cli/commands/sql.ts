/** `svc sql`: one statement on an app's database. */

import type { CommandContext } from '../command.ts';
import type { SqlAnswer } from '../gateway/api.ts';
import { appPath } from '../gateway/paths.ts';
import { readJsonInput } from '../input.ts';
import { drawRows } from '../terminal/records.ts';
import { plural } from '../terminal/units.ts';

export async function run({ args, terminal, connect, cwd }: CommandContext): Promise<void> {
  const argument = args.optionalAt(2);
  const params = argument === undefined ? undefined : await readJsonInput(argument, terminal.stdin, cwd);
  const answer = await connect().post<SqlAnswer>(appPath(args.at(0), '/sql'), { sql: args.at(1), params });
  terminal.answer(answer, () => {
    if (!('rows' in answer)) {
      terminal.line(`${terminal.style('green', '✓')} ${plural(answer.changes, 'row')} changed`);
      return;
    }
    const rows = answer.rows.map((row) => cellsOf(row, answer.columns));
    if (answer.columns.length > 0) drawRows(terminal, answer.columns, rows);
    terminal.note(
      terminal.noteStyle('dim', plural(rows.length, 'row') + (answer.truncated ? ', and there are more' : '')),
    );
  });
}

/** Rows come as arrays of values, or as objects by column. */
function cellsOf(row: unknown, columns: string[]): unknown[] {
  return Array.isArray(row) ? row : columns.map((name) => (row as Record<string, unknown>)[name]);
}
