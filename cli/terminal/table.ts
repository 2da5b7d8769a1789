/** Draws rows as aligned columns that fit the terminal, and measures how many columns a text takes there. */
import { printable } from '../../protocol/text/printable.ts';
import type { Format, Style } from './style.ts';

/** A cell's plain text, and how it is shown. */
export type Cell = string | { text: string; format: Format };
/**
 * A title, or more: `squeeze` is for the column in which a table that is too wide is cut first. Columns with `drop` are left out
 * before any is cut, the highest first.
 */
export type Column = string | { title: string; align?: 'left' | 'right'; squeeze?: true; drop?: number };

const GAP = 2;
/** No column is cut below this. */
const MIN_WIDTH = 4;
/** Columns that are wider may be cut to this before others are left out. */
const READABLE_WIDTH = 16;

/** A column of numbers. */
export function right(title: string): Column {
  return { title, align: 'right' };
}

/** The lines of a table: a dim head, then the rows. Where it is wider than `width`, the widest columns are cut. */
export function drawTable(titled: Column[], all: Cell[][], width: number, style: Style): string[] {
  const given = titled.map((column) => (typeof column === 'string' ? { title: column } : column));
  const kept = keptColumns(given, all, width);
  const columns = kept.map((i) => given[i] as FullColumn);
  const rows = all.map((row) => kept.map((i) => row[i] ?? ''));
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

/** Whether a table of this width has all its columns. */
export function hasRoom(titled: Column[], all: Cell[][], width: number): boolean {
  const columns = titled.map((column) => (typeof column === 'string' ? { title: column } : column));
  return keptColumns(columns, all, width).length === columns.length;
}

type FullColumn = Exclude<Column, string>;

/** The places of the columns that are drawn. */
function keptColumns(columns: FullColumn[], rows: Cell[][], width: number): number[] {
  const needed = columns.map(({ title, squeeze }, i) => {
    const widest = Math.max(displayWidth(title), ...rows.map((row) => displayWidth(asShown(row[i]).text)));
    return GAP + (squeeze ? Math.min(READABLE_WIDTH, widest) : widest);
  });
  const kept = columns.map((_, i) => i);
  while (kept.reduce((sum, i) => sum + (needed[i] as number), -GAP) > width) {
    const last = Math.max(...kept.map((i) => columns[i]?.drop ?? 0));
    if (last === 0) break;
    kept.splice(
      kept.findIndex((i) => columns[i]?.drop === last),
      1,
    );
  }
  return kept;
}

/** Takes from the widest columns first (of those marked in `from`) until all fit, or are at their minimum. */
export function fit(natural: number[], available: number, from: boolean[] = natural.map(() => true)): number[] {
  // No column is wider than all are together: a cell may be a text of a million letters.
  const widths = natural.map((width, i) => (from[i] ? Math.min(width, Math.max(MIN_WIDTH, available)) : width));
  for (let over = widths.reduce((sum, width) => sum + width, -available); over > 0; over--) {
    const widest = Math.max(...widths.filter((_, i) => from[i]));
    if (widest <= MIN_WIDTH) break;
    widths[widths.findIndex((width, i) => from[i] && width === widest)] = widest - 1;
  }
  return widths;
}

/** The text as it is printed, so that this is what is measured and cut. */
function asShown(cell: Cell = ''): { text: string; format?: Format } {
  const { text, ...format } = typeof cell === 'object' ? cell : { text: cell };
  return { text: printable(text).replaceAll('\t', ' '), ...format };
}

/** The columns and cells of rows of values. A column of numbers is aligned to the right. */
export function valueTable(names: string[], rows: unknown[][]): [Column[], Cell[][]] {
  const isNumeric = (i: number): boolean => {
    const values = rows.map((row) => row[i]).filter((value) => value !== null);
    return values.length > 0 && values.every((value) => typeof value === 'number');
  };
  return [
    names.map((title, i) => (isNumeric(i) ? right(title) : title)),
    rows.map((row) => names.map((_, i) => drawValue(row[i]))),
  ];
}

function drawValue(value: unknown): Cell {
  if (value === undefined) return '';
  if (value === null) return { text: 'null', format: 'dim' };
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const ZERO = /^(?:\p{Mn}|\p{Me}|\p{Cf})$/u;
const WIDE =
  /^[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{20000}-\u{3fffd}]$/u;
const EMOJI = /^\p{Emoji_Presentation}$/u;
const ASCII = /^[\x20-\x7e]*$/;

let segmenter: Intl.Segmenter | undefined;

function characters(text: string): Iterable<string> {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Columns of one grapheme: a letter with its accents, or an emoji with its modifiers. */
function characterWidth(character: string): number {
  const first = String.fromCodePoint(character.codePointAt(0) ?? 0);
  if (ZERO.test(first)) return 0;
  return WIDE.test(first) || EMOJI.test(first) || character.includes('\ufe0f') ? 2 : 1;
}

export function displayWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of characters(text)) width += characterWidth(character);
  return width;
}

/** Cuts to `width` columns; what was cut shows as `…`. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of characters(text)) {
    used += characterWidth(character);
    if (used > width - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + space : space + text;
}
