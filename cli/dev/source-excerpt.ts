/** Places in a file that somebody edits: where its JSON breaks off, and the lines around a place as the terminal shows them. */
import { printable } from '../../protocol/printable.ts';

/** Both count from 1, columns in UTF-16 units. */
export type Place = { line: number; column: number };

/** Characters of a line that are shown, so that a line without end does not fill the terminal. */
const WIDTH = 100;

/** Why a text is not JSON, and where as far as Node says it; null when it is. */
export function jsonFault(text: string): { reason: string; place: Place | null } | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const { message } = error as Error;
    const position = / in JSON at position (\d+)/.exec(message);
    const isCut = message === 'Unexpected end of JSON input';
    const reason = position === null ? message : message.slice(0, position.index);
    if (position === null && !isCut) return { reason, place: null };
    return { reason, place: placeAt(text, isCut ? text.trimEnd().length : Number(position?.[1])) };
  }
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n?|\n/);
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

/** The line and the one above it, with a mark below the column; none when the file has no such line. */
export function excerpt(text: string, { line, column }: Place): string[] {
  const lines = text.split(/\r\n?|\n/);
  if (lines[line - 1] === undefined) return [];
  // Further to the right, the shown part of all lines moves along.
  const from = column <= WIDTH ? 0 : column - 1 - WIDTH / 2;
  const show = (part: string): string => printable(part.replaceAll('\t', ' '));
  const shown = (at: number): string => show((lines[at - 1] ?? '').slice(from, from + WIDTH));
  const gutter = String(line).length;
  const row = (label: string | number, content: string): string =>
    `${String(label).padStart(gutter)} │ ${content}`.trimEnd();
  const mark = ' '.repeat(show((lines[line - 1] ?? '').slice(from, column - 1)).length);
  return [...(line > 1 ? [row(line - 1, shown(line - 1))] : []), row(line, shown(line)), row('', `${mark}^`)];
}
