/** Draws rows as aligned columns that fit the terminal. */
import { printable } from '../../protocol/printable.ts';
import type { Format, Style } from './style.ts';
import { displayWidth, pad, truncate } from './width.ts';

/** A cell's text, without colours of its own, and how it is shown. */
export type Cell = string | { text: string; format: Format };
/** `squeeze`: where the table is too wide, this column gives way before the others do. */
export type Column = { title: string; align?: 'left' | 'right'; squeeze?: true };

const GAP = 2;
/** No column is squeezed below this. */
const MIN_WIDTH = 4;

/**
 * The lines of a table: a dim head, then the rows. `width` is the terminal's; where the table is wider, the widest columns
 * are cut. Without a terminal pass `Infinity` and nothing is cut.
 */
export function drawTable(columns: Column[], rows: Cell[][], width: number, style: Style): string[] {
  const head = columns.map(({ title }) => asShown({ text: title, format: 'dim' }));
  const shown = rows.map((row) => columns.map((_, i) => asShown(row[i])));
  const natural = columns.map((_, i) => Math.max(...[head, ...shown].map((row) => displayWidth(row[i]?.text ?? ''))));
  const available = width - GAP * (columns.length - 1);
  const squeezed = columns.map(({ squeeze }) => squeeze === true);
  const widths = fit(fit(natural, available, squeezed), available);
  const line = (cells: { text: string; format?: Format }[]): string =>
    cells
      .map(({ text, format }, i) => {
        const cut = truncate(text, widths[i] as number);
        const last = i === cells.length - 1 && columns[i]?.align !== 'right';
        const padded = last ? cut : pad(cut, widths[i] as number, columns[i]?.align);
        return format === undefined ? padded : style(format, padded);
      })
      .join(' '.repeat(GAP))
      .trimEnd();
  return [head, ...shown].map(line);
}

/** Takes from the widest columns first (only of those marked in `from`) until all fit together, or are at their minimum. */
export function fit(natural: number[], available: number, from: boolean[] = natural.map(() => true)): number[] {
  const widths = [...natural];
  let over = widths.reduce((sum, width) => sum + width, 0) - available;
  while (over > 0) {
    const candidates = widths.filter((width, i) => from[i] && width > MIN_WIDTH);
    if (candidates.length === 0) break;
    const widest = Math.max(...candidates);
    const next = Math.max(MIN_WIDTH, ...candidates.filter((width) => width < widest));
    const targets = widths.flatMap((width, i) => (from[i] && width === widest ? [i] : []));
    const each = Math.min(widest - next, Math.ceil(over / targets.length));
    for (const i of targets) {
      const cut = Math.min(each, over);
      widths[i] = (widths[i] as number) - cut;
      over -= cut;
    }
  }
  return widths;
}

/** As it is printed, so that it is measured and cut as such. */
function asShown(cell: Cell = ''): { text: string; format?: Format } {
  const { text, ...format } = typeof cell === 'object' ? cell : { text: cell };
  return { text: printable(text).replaceAll('\t', ' '), ...format };
}
