/** Three-way merge of one text, line by line, as `git merge-file` does it. */
import { linesOf, MARKS } from './text.ts';
import { threeWay } from './three-way.ts';

/** Null when both sides change the same lines, or lines beside each other, in different ways. Endings of lines stay as they are. */
export function mergeText(base: string, ours: string, theirs: string): string | null {
  const { text, clean } = merge(base, ours, theirs);
  return clean ? text : null;
}

/** As `mergeText`, but lines that meet are kept both, between marks: first the session's, then those that were published. */
export function mergeMarked(base: string, session: string, published: string): string {
  return merge(base, session, published).text;
}

function merge(base: string, ours: string, theirs: string): { text: string; clean: boolean } {
  const texts = { base: linesOf(base), ours: linesOf(ours), theirs: linesOf(theirs) };
  const { head, tail } = commonEnds(texts);
  const middle = (lines: string[]): string[] => lines.slice(head, lines.length - tail);
  const [o, a, b] = [middle(texts.base), middle(texts.ours), middle(texts.theirs)];
  const merged: string[] = texts.base.slice(0, head);
  const ending = texts.ours[0]?.endsWith('\r\n') ? '\r\n' : '\n';
  let clean = true;
  // Nobody edits that much of a large file by hand: what cannot be told apart meets as a whole.
  for (const region of threeWay({ base: o, ours: a, theirs: b }) ?? [{ ours: a, theirs: b }]) {
    const isSettled = 'settled' in region;
    if (!isSettled) clean = false;
    for (const line of isSettled ? region.settled : marked(region.ours, region.theirs, ending)) merged.push(line);
  }
  return { text: [...merged, ...texts.base.slice(texts.base.length - tail)].join(''), clean };
}

function marked(session: string[], published: string[], ending: string): string[] {
  const ended = (lines: string[]): string[] => lines.map((line) => (line.endsWith('\n') ? line : line + ending));
  const { begin, middle, end } = MARKS;
  return [begin + ending, ...ended(session), middle + ending, ...ended(published), end + ending];
}

/** Lines at the beginning and the end that all three have; one line more stays on each side, as changes beside it count. */
function commonEnds({ base, ours, theirs }: Record<'base' | 'ours' | 'theirs', string[]>): {
  head: number;
  tail: number;
} {
  const shortest = Math.min(base.length, ours.length, theirs.length);
  let head = 0;
  while (head < shortest && base[head] === ours[head] && base[head] === theirs[head]) head++;
  let tail = 0;
  const same = (): boolean => base.at(-1 - tail) === ours.at(-1 - tail) && base.at(-1 - tail) === theirs.at(-1 - tail);
  while (tail < shortest - head && same()) tail++;
  return { head: Math.max(0, head - 1), tail: Math.max(0, tail - 1) };
}
