/** Draws changes of files: a line for each file, its patch, and the totals. */
import { plural } from '../../protocol/text/units.ts';
import type { GitFileDiff } from '../../protocol/wire/git-jobs.ts';
import type { Style } from './style.ts';
import type { Terminal } from './terminal.ts';

const MARKS = { added: ['green', 'A'], modified: ['yellow', 'M'], deleted: ['red', 'D'] } as const;

/** `name` is the shown name of the file. */
type NamedChange = GitFileDiff & { name: string };

export function drawChanges(terminal: Terminal, files: readonly NamedChange[], onlyNames: boolean): void {
  const { style } = terminal;
  if (files.length === 0) {
    terminal.line('Nothing has changed.');
    return;
  }
  for (const { status, name, additions, deletions, patch, binary, truncated } of files) {
    const [colour, mark] = MARKS[status];
    const lines = binary ? 'binary' : `${style('green', `+${additions}`)} ${style('red', `-${deletions}`)}`;
    terminal.line(`${style(colour, mark)} ${style('bold', name)}  ${lines}`);
    if (!onlyNames && patch !== '') terminal.lines([...colourPatch(patch, style), '']);
    if (truncated) terminal.lines([style('dim', '  the patch is too large to be shown'), '']);
  }
  const [added, removed] = [sum(files, 'additions'), sum(files, 'deletions')];
  terminal.line(style('dim', `${plural(files.length, 'file')}, +${added} -${removed}`));
}

function sum(files: readonly NamedChange[], member: 'additions' | 'deletions'): number {
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
