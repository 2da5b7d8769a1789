/** `svc changes`: follows the change stream of an app. With `--json`, one event a line. */

import type { CommandContext } from '../command.ts';
import type { ChangeEvent } from '../gateway/api.ts';
import { withQuery } from '../gateway/paths.ts';
import { formatClock } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const { style, noteStyle } = terminal;
  const path = withQuery(`/svc/${encodeURIComponent(app)}/_changes`, { tables: args.text('tables') });
  const events = connect().follow(path, {
    onOpen: (again) => {
      if (again) terminal.note(noteStyle('dim', 'Connected again.'));
      else if (terminal.interactive)
        terminal.note(noteStyle('dim', `Following the changes of ${app}. Stop with Ctrl-C.`));
    },
    onLost: () => terminal.note(noteStyle('yellow', 'The connection was lost; trying again …')),
  });
  for await (const { event, data } of events) {
    if (terminal.json) terminal.line(JSON.stringify({ event, ...JSON.parse(data || '{}') }));
    else if (event === 'reset')
      terminal.line(style('yellow', 'reset  some changes were missed: read everything again'));
    else if (event === 'reload') terminal.line(style('cyan', 'reload  another version is live'));
    else if (event === 'change') terminal.line(drawChange(JSON.parse(data) as ChangeEvent, style));
  }
}

function drawChange(change: ChangeEvent, style: CommandContext['terminal']['style']): string {
  const what = `by ${change.action}${change.source === 'handler' ? '' : ` (${change.source})`}`;
  return `${style('dim', formatClock(change.ts))}  ${style('bold', change.table)}  ${what}  ${style('dim', `#${change.seq}`)}`;
}
