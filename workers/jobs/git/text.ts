/** What counts as text, and its lines. */
import { isUtf8 } from 'node:buffer';

/** Null for a binary file: one that holds a NUL or is not UTF-8. */
export function asText(content: Buffer): string | null {
  return content.includes(0) || !isUtf8(content) ? null : content.toString('utf8');
}

/** The lines around what a session and `main` both changed. */
export const MARKS = { begin: '<<<<<<< session', middle: '=======', end: '>>>>>>> published' } as const;

/** Whether a text still has the marks of an update: the first and, in a later line, the last. */
export function hasMarks(content: Buffer): boolean {
  // Most files have none: they are not made a string.
  if (!content.includes(MARKS.end)) return false;
  const text = asText(content);
  const begin = text === null ? null : /^<<<<<<< session/m.exec(text);
  return begin !== null && /^>>>>>>> published/m.test(begin.input.slice(begin.index));
}

/** With their endings; the last line may have none. */
export function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}
