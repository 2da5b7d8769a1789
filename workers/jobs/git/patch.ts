/** Patches in the form that `git apply` takes. */
import { structuredPatch } from 'diff';
import { LIMITS } from '../../../protocol/limits.ts';
import { linesOf } from './text.ts';

const NO_NEWLINE = '\\ No newline at end of file';
/** The id that stands for a file that is not there. */
const NOTHING = '0'.repeat(40);

/** Null: there is no such file. */
export type Version = { id: string; text: string } | null;
export type Patch = { additions: number; deletions: number; patch: string };

type Hunk = { oldStart: number; oldLines: number; newStart: number; newLines: number; lines: string[] };

/** `path` is the one inside the repository. A file that differs in too much is replaced as a whole. */
export function makePatch(path: string, before: Version, after: Version): Patch {
  const hunks = hunksOf(before?.text ?? '', after?.text ?? '');
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    additions: lines.filter((line) => line.startsWith('+')).length,
    deletions: lines.filter((line) => line.startsWith('-')).length,
    patch: `${[...header(path, before, after, hunks.length > 0), ...hunks.flatMap(hunkLines)].join('\n')}\n`,
  };
}

function hunksOf(before: string, after: string): Hunk[] {
  if (before !== '' && after !== '') {
    const options = { context: 3, maxEditLength: LIMITS.gitDiffEdits, timeout: LIMITS.gitDiffMs };
    const patch = structuredPatch('', '', before, after, undefined, undefined, options);
    if (patch !== undefined) return patch.hunks;
  }
  const [removed, added] = [linesOf(before), linesOf(after)];
  if (removed.length + added.length === 0) return [];
  const lines = [...removed.flatMap((line) => marked('-', line)), ...added.flatMap((line) => marked('+', line))];
  return [
    {
      oldStart: removed.length === 0 ? 0 : 1,
      oldLines: removed.length,
      newStart: added.length === 0 ? 0 : 1,
      newLines: added.length,
      lines,
    },
  ];
}

function marked(sign: string, line: string): string[] {
  return line.endsWith('\n') ? [sign + line.slice(0, -1)] : [sign + line, NO_NEWLINE];
}

function hunkLines({ oldStart, oldLines, newStart, newLines, lines }: Hunk): string[] {
  return [`@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`, ...lines];
}

function header(path: string, before: Version, after: Version, hasHunks: boolean): string[] {
  const [a, b] = [quoted(`a/${path}`), quoted(`b/${path}`)];
  const lines = [`diff --git ${a} ${b}`];
  if (before === null) lines.push('new file mode 100644');
  if (after === null) lines.push('deleted file mode 100644');
  const mode = before === null || after === null ? '' : ' 100644';
  lines.push(`index ${before?.id ?? NOTHING}..${after?.id ?? NOTHING}${mode}`);
  if (!hasHunks) return lines;
  // A tab ends the name where it could go on with what follows.
  const end = path.includes(' ') ? '\t' : '';
  const from = before === null ? '/dev/null' : a + end;
  const to = after === null ? '/dev/null' : b + end;
  return [...lines, `--- ${from}`, `+++ ${to}`];
}

/** Names with unusual characters are quoted as in C, byte by byte. */
function quoted(name: string): string {
  if (!/[\p{Cc}"\\]|[^\p{ASCII}]/u.test(name)) return name;
  const bytes = [...Buffer.from(name)].map((byte) => {
    if (byte === 0x22 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`;
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
  });
  return `"${bytes.join('')}"`;
}
