/** The regions of a three-way merge: where one side changed a text, and where the changes of both meet (as diff3 does). */
import { diffArrays } from 'diff';
import { LIMITS } from '../../../protocol/limits.ts';

type Side = 'ours' | 'theirs';
type Texts = Record<'base' | Side, string[]>;
/** Lines `from` to `to` of the base became lines `start` to `end` of the side; ends are exclusive. */
type Hunk = { side: Side; from: number; to: number; start: number; end: number };

/** Lines that the merge settles, or those of both sides where they meet. */
export type Region = { settled: string[] } | Record<Side, string[]>;

/** Null when a side differs from the base in too much to find out where. */
export function threeWay(texts: Texts): Region[] | null {
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
  // Declared as if it always found them, it gives nothing beyond these limits.
  const changes = diffArrays(texts.base, texts[side], limits) as ReturnType<typeof diffArrays<string>> | undefined;
  if (changes === undefined) return null;
  const hunks: Hunk[] = [];
  let [from, start] = [0, 0];
  for (const { added, removed, value } of changes) {
    const to = added ? from : from + value.length;
    const end = removed ? start : start + value.length;
    const last = hunks.at(-1);
    // What was taken out and what came for it is one change.
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
