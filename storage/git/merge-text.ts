/** Merges one text three ways, line by line, like `git merge-file`. */
import { isUtf8 } from 'node:buffer';
import { diffArrays } from 'diff';
import { LIMITS } from '../../protocol/limits.ts';

/** Null for a binary file: one that holds a NUL or is not UTF-8. */
export function asText(content: Buffer): string | null {
  return content.includes(0) || !isUtf8(content) ? null : content.toString('utf8');
}

/** The lines around what a workspace and `main` both changed. */
const MARKS = { begin: '<<<<<<< workspace', middle: '=======', end: '>>>>>>> published' } as const;

/** Whether a text still has the marks of an update: the first and, in a later line, the last. */
export function hasMarks(content: Buffer): boolean {
  // Most files have none: they are not decoded.
  if (!content.includes(MARKS.end)) return false;
  const text = asText(content);
  // Earlier releases marked with the word "session".
  const begin = text === null ? null : /^<<<<<<< (workspace|session)/m.exec(text);
  return begin !== null && /^>>>>>>> published/m.test(begin.input.slice(begin.index));
}

/** With their endings; the last line may have none. */
export function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Null when both sides change the same lines, or lines beside each other, in different ways. Endings of lines stay as they are. */
export function mergeText(base: string, ours: string, theirs: string): string | null {
  const { text, clean } = merge(base, ours, theirs);
  return clean ? text : null;
}

/** Like `mergeText`, but keeps both sides of a conflict between marks: first the workspace's lines, then the published ones. */
export function mergeMarked(base: string, workspace: string, published: string): string {
  return merge(base, workspace, published).text;
}

function merge(base: string, ours: string, theirs: string): { text: string; clean: boolean } {
  const texts = { base: linesOf(base), ours: linesOf(ours), theirs: linesOf(theirs) };
  const { head, tail } = commonEnds(texts);
  const middle = (lines: string[]): string[] => lines.slice(head, lines.length - tail);
  const [o, a, b] = [middle(texts.base), middle(texts.ours), middle(texts.theirs)];
  const merged: string[] = texts.base.slice(0, head);
  const ending = texts.ours[0]?.endsWith('\r\n') ? '\r\n' : '\n';
  let clean = true;
  // Too many edits to compare: the whole text counts as one conflict.
  for (const region of threeWay({ base: o, ours: a, theirs: b }) ?? [{ ours: a, theirs: b }]) {
    const isSettled = 'settled' in region;
    if (!isSettled) clean = false;
    for (const line of isSettled ? region.settled : marked(region.ours, region.theirs, ending)) merged.push(line);
  }
  return { text: [...merged, ...texts.base.slice(texts.base.length - tail)].join(''), clean };
}

function marked(workspace: string[], published: string[], ending: string): string[] {
  const ended = (lines: string[]): string[] => lines.map((line) => (line.endsWith('\n') ? line : line + ending));
  const { begin, middle, end } = MARKS;
  return [begin + ending, ...ended(workspace), middle + ending, ...ended(published), end + ending];
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

type Side = 'ours' | 'theirs';
type Texts = Record<'base' | Side, string[]>;
/** Lines `from` to `to` of the base became lines `start` to `end` of the side; ends are exclusive. */
type Hunk = { side: Side; from: number; to: number; start: number; end: number };

/** Lines that the merge settles, or those of both sides where they meet. */
type Region = { settled: string[] } | Record<Side, string[]>;

/**
 * Where one side changed a text, and where the changes of both meet (as diff3 does). Null when a side has too many differences
 * from the base.
 */
function threeWay(texts: Texts): Region[] | null {
  const ours = hunksOf(texts, 'ours');
  const theirs = ours === null ? null : hunksOf(texts, 'theirs');
  if (ours === null || theirs === null) return null;
  const hunks = [...ours, ...theirs].sort((a, b) => a.from - b.from);
  const { base } = texts;
  const regions: Region[] = [];
  let at = 0;
  for (let next = 0; next < hunks.length; ) {
    const { from } = hunks[next] as Hunk;
    let { to } = hunks[next] as Hunk;
    const first = next++;
    // A change beside another one meets it too.
    for (let hunk = hunks[next]; hunk !== undefined && hunk.from <= to; hunk = hunks[++next])
      to = Math.max(to, hunk.to);
    regions.push({ settled: base.slice(at, from) }, merged(texts, hunks.slice(first, next), from, to));
    at = to;
  }
  return [...regions, { settled: base.slice(at) }];
}

function hunksOf(texts: Texts, side: Side): Hunk[] | null {
  const limits = { maxEditLength: LIMITS.gitMergeEdits, timeout: LIMITS.gitMergeMs };
  // Its type claims a result, but beyond these limits there is none.
  const changes = diffArrays(texts.base, texts[side], limits) as ReturnType<typeof diffArrays<string>> | undefined;
  if (changes === undefined) return null;
  const hunks: Hunk[] = [];
  let [from, start] = [0, 0];
  for (const { added, removed, value } of changes) {
    const to = added ? from : from + value.length;
    const end = removed ? start : start + value.length;
    const last = hunks.at(-1);
    // A removal and its replacement are one change.
    if (last !== undefined && last.to === from && last.end === start && (added || removed)) {
      last.to = to;
      last.end = end;
    } else if (added || removed) hunks.push({ side, from, to, start, end });
    [from, start] = [to, end];
  }
  return hunks;
}

/** `hunks` are those of lines `from` to `to` of the base. */
function merged(texts: Texts, hunks: Hunk[], from: number, to: number): Region {
  const linesOf = (side: Side): string[] | null => {
    const own = hunks.filter((hunk) => hunk.side === side);
    const [first, last] = [own[0], own.at(-1)];
    if (first === undefined || last === undefined) return null;
    // What lies between its changes and the ends of the region is as in the base.
    return texts[side].slice(first.start - (first.from - from), last.end + (to - last.to));
  };
  const [ours, theirs] = [linesOf('ours'), linesOf('theirs')];
  if (ours === null || theirs === null) return { settled: ours ?? theirs ?? [] };
  const same = ours.length === theirs.length && ours.every((line, i) => line === theirs[i]);
  return same ? { settled: ours } : { ours, theirs };
}
