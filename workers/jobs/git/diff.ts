/** Compares a folder with an app, file by file, and makes patches. */
import { structuredPatch } from 'diff';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Manifest, publicParts } from '../../../protocol/manifest.ts';
import type { DiffAppJob, DiffAppResult, GitFileDiff } from '../../../protocol/wire/git-jobs.ts';
import { asText, linesOf } from '../../../storage/git/merge-text.ts';
import { filesOf, Repository } from '../../../storage/git/repository.ts';
import { type GitFiles, gitFiles, readFolder } from '../content/app-files.ts';

/** Sorted by path. Throws the errors of archives, `UNKNOWN_VERSION` and `STORE_DAMAGED`. */
export async function diffApp({ app, folder, against, since, ...job }: DiffAppJob): Promise<DiffAppResult> {
  const repository = new Repository(job.repository);
  const base = await repository.resolve(against);
  const filesIn = async (commit: string | null): Promise<Map<string, string>> => {
    const tree = commit === null ? null : await repository.appTree(commit, app);
    return tree === null ? new Map() : filesOf(repository.objects, tree);
  };
  const before = await filesIn(base);
  const taken = await filesIn(since);
  const after: GitFiles = folder === null ? new Map() : gitFiles(readFolder(folder));
  const patches = new Patches();
  const files: GitFileDiff[] = [];
  let reach: Reach = {};
  for (const path of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const oldId = before.get(path);
    const now = after.get(path) ?? null;
    if (oldId === now?.id) continue;
    const old = oldId === undefined ? null : { id: oldId, content: await repository.objects.readAs('blob', oldId) };
    const status = old === null ? 'added' : now === null ? 'deleted' : 'modified';
    files.push({ path, status, ...patches.next(`apps/${app}/${path}`, old, now) });
    if (path === 'app.json') reach = reachChange(old?.content, now?.content);
  }
  const now = new Map([...after].map(([path, { id }]) => [path, id]));
  return { base, edited: !isSame(taken, now), behind: !isSame(taken, before), files, ...reach };
}

/** The same of two folders, without a repository. Throws the errors of archives. */
export function diffFolders({
  app,
  before,
  folder,
}: {
  app: string;
  before: string | null;
  folder: string;
}): GitFileDiff[] {
  const old: GitFiles = before === null ? new Map() : gitFiles(readFolder(before));
  const now = gitFiles(readFolder(folder));
  const patches = new Patches();
  return [...new Set([...old.keys(), ...now.keys()])].sort().flatMap((path): GitFileDiff[] => {
    const [from = null, to = null] = [old.get(path), now.get(path)];
    if (from?.id === to?.id) return [];
    const status = from === null ? 'added' : to === null ? 'deleted' : 'modified';
    return [{ path, status, ...patches.next(`apps/${app}/${path}`, from, to) }];
  });
}

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && [...one].every(([path, id]) => other.get(path) === id);
}

/** Shows before publishing that the app wants to reach other hosts or other apps, or to be open to visitors. */
function reachChange(old: Buffer | undefined, now: Buffer | undefined): Reach {
  const [before, after] = [reachOf(old), reachOf(now)];
  const change = (member: keyof Reach) =>
    JSON.stringify(before[member]) === JSON.stringify(after[member])
      ? {}
      : { [member]: { before: before[member], after: after[member] } };
  return { ...change('network'), ...change('uses'), ...change('public') };
}

/** Null without a list or a readable manifest; publishing reports a bad manifest. */
function reachOf(text: Buffer | undefined): Record<keyof Reach, string[] | null> {
  try {
    const manifest = JSON.parse(String(text)) as Manifest;
    const { network, uses } = manifest;
    const parts = publicParts(manifest);
    const listed = (list: unknown) => (Array.isArray(list) ? list.map(String) : null);
    return { network: listed(network), uses: listed(uses), public: parts.length === 0 ? null : parts };
  } catch {
    return { network: null, uses: null, public: null };
  }
}

type Reach = Pick<DiffAppResult, 'network' | 'uses' | 'public'>;
type Content = { id: string; content: Buffer } | null;

/** Makes patches until all together are too large or take too long. */
class Patches {
  #bytes = 0;
  readonly #deadline = performance.now() + LIMITS.gitDiffsMs;

  next(path: string, before: Content, after: Content): Omit<GitFileDiff, 'path' | 'status'> {
    const old = textOf(before);
    const now = textOf(after);
    if (old === 'binary' || now === 'binary') return { additions: 0, deletions: 0, patch: '', binary: true };
    const lines = linesIn(before) + linesIn(after);
    if (lines <= LIMITS.gitDiffLines && this.#bytes < LIMITS.gitDiffBytes && performance.now() < this.#deadline) {
      const made = makePatch(path, old, now);
      this.#bytes += made.patch.length;
      if (this.#bytes <= LIMITS.gitDiffBytes) return made;
      return { ...made, patch: '', truncated: true };
    }
    return {
      additions: linesIn(after),
      deletions: linesIn(before),
      patch: '',
      truncated: true,
    };
  }
}

/** Counts them without making them. */
function linesIn(version: Content): number {
  if (version === null) return 0;
  const { content } = version;
  let lines = 0;
  for (let at = content.indexOf(0x0a); at !== -1; at = content.indexOf(0x0a, at + 1)) lines++;
  return content.length > 0 && content.at(-1) !== 0x0a ? lines + 1 : lines;
}

function textOf(version: Content): { id: string; text: string } | null | 'binary' {
  if (version === null) return null;
  const text = asText(version.content);
  return text === null ? 'binary' : { id: version.id, text };
}

const NO_NEWLINE = '\\ No newline at end of file';
/** The id that stands for a file that is not there. */
const NOTHING = '0'.repeat(40);

/** Null: no such file. */
type Version = { id: string; text: string } | null;
type Patch = { additions: number; deletions: number; patch: string };

type Hunk = { oldStart: number; oldLines: number; newStart: number; newLines: number; lines: string[] };

/**
 * In the form that `git apply` takes. `path` is the one inside the repository. A file with too many differences is replaced as
 * a whole.
 */
function makePatch(path: string, before: Version, after: Version): Patch {
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
  // A tab ends the name where the following text could belong to it.
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
