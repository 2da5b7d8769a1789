/** What a folder changes of an app, file by file. */
import type { DiffAppJob, DiffAppResult, GitFileDiff } from '../../../protocol/git-jobs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Repository } from '../../../storage/git/repository.ts';
import { filesOf } from '../../../storage/git/tree.ts';
import { readFolder } from './folder.ts';
import { makePatch } from './patch.ts';
import { asText } from './text.ts';

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
  const after = folder === null ? new Map() : readFolder(folder);
  const patches = new Patches();
  const files: GitFileDiff[] = [];
  let reach: Pick<DiffAppResult, 'network' | 'uses'> = {};
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

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && [...one].every(([path, id]) => other.get(path) === id);
}

/** Who publishes an app sees at once that it wants to reach other hosts, or other apps. */
function reachChange(old: Buffer | undefined, now: Buffer | undefined): Pick<DiffAppResult, 'network' | 'uses'> {
  const change = (member: 'network' | 'uses') => {
    const [before, after] = [listIn(old, member), listIn(now, member)];
    return JSON.stringify(before) === JSON.stringify(after) ? {} : { [member]: { before, after } };
  };
  return { ...change('network'), ...change('uses') };
}

/** Null where there is no list, or no manifest that can be read: that is said when it is checked. */
function listIn(manifest: Buffer | undefined, member: 'network' | 'uses'): string[] | null {
  try {
    const list = (JSON.parse(String(manifest)) as Record<string, unknown>)[member];
    return Array.isArray(list) ? list.map(String) : null;
  } catch {
    return null;
  }
}

type Content = { id: string; content: Buffer } | null;

/** Makes patches until all together are too large, or took too long. */
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
