/** `svc diff`: what a session changes against what is published. */

import type { CommandContext } from '../command.ts';
import type { FileDiff, SessionDiff } from '../gateway/api.ts';
import { sessionPath, withQuery } from '../gateway/paths.ts';
import { findSession, inSession } from '../sessions.ts';
import { drawNetwork, drawUses } from '../terminal/reach.ts';
import type { Style } from '../terminal/style.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { plural } from '../terminal/units.ts';

const MARKS = { added: ['green', 'A'], modified: ['yellow', 'M'], deleted: ['red', 'D'] } as const;

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const app = args.optionalAt(0);
  const session = await findSession(client, args.text('session'), app);
  const path = withQuery(sessionPath(session, '/diff'), { app });
  const diff = await inSession({ session, app }, client.get<SessionDiff>(path));
  terminal.answer(diff, () => {
    draw(terminal, diff.files, args.has('stat'));
    for (const { app: one, before, after } of diff.network ?? [])
      terminal.note(
        `${one} would reach other hosts than before: ${drawNetwork(after)} ("network" in app.json; until now ${drawNetwork(before)}).`,
      );
    for (const { app: one, before, after } of diff.uses ?? [])
      terminal.note(
        `Pages of ${one} would call tools of other apps than before: ${drawUses(after)} ("uses" in app.json; until now ${drawUses(before)}).`,
      );
    for (const one of diff.behind)
      terminal.note(
        `${one} was published since it was taken: that shows here as if it were undone, and publishing keeps it. To see your own changes only: svc sessions update ${session} --app ${one}`,
      );
  });
}

function draw(terminal: Terminal, files: FileDiff[], onlyNames: boolean): void {
  const { style } = terminal;
  if (files.length === 0) {
    terminal.line('Nothing is changed.');
    return;
  }
  for (const file of files) {
    const [colour, mark] = MARKS[file.status];
    const lines = file.binary
      ? 'binary'
      : `${style('green', `+${file.additions}`)} ${style('red', `-${file.deletions}`)}`;
    terminal.line(`${style(colour, mark)} ${style('bold', `${file.app}/${file.path}`)}  ${lines}`);
    if (!onlyNames && file.patch !== '') terminal.lines([...colourPatch(file.patch, style), '']);
    if (file.truncated) terminal.lines([style('dim', '  the patch is too large to be shown'), '']);
  }
  const [added, removed] = [sum(files, 'additions'), sum(files, 'deletions')];
  terminal.line(style('dim', `${plural(files.length, 'file')}, +${added} -${removed}`));
}

function sum(files: FileDiff[], member: 'additions' | 'deletions'): number {
  return files.reduce((total, file) => total + file[member], 0);
}

function colourPatch(patch: string, style: Style): string[] {
  return patch
    .trimEnd()
    .split('\n')
    .map((line) => {
      if (line.startsWith('+++') || line.startsWith('---') || line.startsWith('diff ')) return style('dim', line);
      if (line.startsWith('@@')) return style('cyan', line);
      if (line.startsWith('+')) return style('green', line);
      return line.startsWith('-') ? style('red', line) : line;
    });
}
