/** Breaks texts into lines between words. */
import { withoutColours } from './style.ts';
import { displayWidth } from './table.ts';

const MAX_WIDTH = 100;
const MIN_WIDTH = 24;
/** Not behind the mark of a line end: what a foreign text has on a line of its own begins none here. */
const BREAK = /(?<!⏎) /;

/** Lines of at most `columns`, or of `MAX_WIDTH`; a word that is longer has a line of its own. */
export function wrap(text: string, columns: number): string[] {
  return joined(text.split(BREAK), ' ', Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, columns)));
}

/** The parts with `gap` between them, in as many lines as `columns` need; one that is longer is broken. Parts may have colours. */
export function joined(parts: string[], gap: string, columns: number): string[] {
  const lines: string[] = [];
  let line = '';
  let used = 0;
  const widthOf = (part: string): number => displayWidth(withoutColours(part));
  for (const part of parts.flatMap((whole) => (widthOf(whole) > columns ? whole.split(BREAK) : [whole]))) {
    const width = widthOf(part);
    if (line !== '' && used + gap.length + width > columns) {
      lines.push(line);
      line = '';
      used = 0;
    }
    used += (line === '' ? 0 : gap.length) + width;
    line += line === '' ? part : gap + part;
  }
  return [...lines, line];
}
