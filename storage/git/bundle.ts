/** Exports and imports the whole repository as one file that git reads: a bundle, version 2. */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { versionNumber } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { syncDir, syncTree } from '../files/atomic-file.ts';
import { flush } from '../files/flush.ts';
import { damagedObject, FOLDER_MODE, isObjectId, parseCommit, parseTag } from './object.ts';
import type { ObjectStore } from './object-store.ts';
import { checkPackSizes } from './pack-format.ts';
import { DELETED, MAIN, TAGS } from './refs.ts';
import { type Repository, readTree } from './repository.ts';

const HEAD = '# v2 git bundle\n';
const SUBMODULE_MODE = '160000';

/** Commit → its parents. */
type Commits = Map<string, string[]>;
/** `name` is that of its ref. */
type Version = { name: string; number: number; commit: string };

/** Writes `main` and all tags, with the numbers of removed versions, to the file, which must not exist. */
export async function writeBundle(
  repository: Repository,
  to: string,
): Promise<{ main: string; tags: number; objects: number }> {
  const { objects, refs } = repository;
  const main = repository.main();
  const tags = refs.list(TAGS);
  // With HEAD, a clone of the file has its files checked out.
  const names = new Map([['HEAD', main], [MAIN, main], ...tags, ...refs.list(DELETED)]);
  const ids = await reachable(objects, names.values());
  const file = await open(to, 'wx', 0o400);
  try {
    const lines = [...names].map(([name, id]) => `${id} ${name}\n`);
    await file.writeFile(`${HEAD}${lines.join('')}\n`);
    await file.writeFile(await objects.pack(ids));
    await flush(file, to);
  } finally {
    await file.close();
  }
  await syncDir(dirname(to));
  return { main, tags: tags.size, objects: ids.size };
}

/**
 * Brings the bundle's `main` and tags into a repository that has only its root commit. After a crash, another call continues.
 * Rejects with `INVALID_BACKUP` (also for tags that are not on commits, and versions out of order) and `BACKUP_TOO_LARGE`, and with `RESTORE_TARGET` when the repository has versions already.
 */
export async function readBundle(
  repository: Repository,
  path: string,
  from: string,
): Promise<{ main: string; tags: number }> {
  const before = repository.main();
  const { names, pack } = await parseBundle(from);
  const main = names.get(MAIN);
  if (main === undefined) throw invalid(`it has no ${MAIN}`);
  if (before !== main && (await repository.commit(before)).parents.length > 0) {
    throw new SvcError('RESTORE_TARGET', 'A bundle needs a git store without versions.');
  }
  await addPack(path, pack);
  const wanted = [...names].filter(([name]) => name.startsWith(TAGS) || name.startsWith(DELETED));
  try {
    await checkNames(repository, main, wanted);
  } catch (error) {
    // Nothing of the repository is in it, unless it was imported before.
    if (before !== main) await removePack(path, pack);
    throw error;
  }
  for (const [name, id] of wanted) await repository.refs.set(name, id, null);
  await repository.refs.set(MAIN, main, before);
  return { main, tags: wanted.filter(([name]) => name.startsWith(TAGS)).length };
}

/** Throws unless everything is there, and the names are versions as a gateway makes them. */
async function checkNames(repository: Repository, main: string, wanted: [name: string, id: string][]): Promise<void> {
  const commits: Commits = new Map();
  try {
    await reachable(repository.objects, [main, ...wanted.map(([, id]) => id)], commits);
  } catch (error) {
    throw invalid('it is not complete', error);
  }
  if (!commits.has(main)) throw invalid(`${MAIN} is no commit`);
  const versions = new Map<string, Version[]>();
  for (const [name, id] of wanted) {
    const commit = await repository.peel(id).catch((error: unknown) => {
      throw invalid(`${name} is not on a commit`, error);
    });
    const tag = name.slice(name.startsWith(TAGS) ? TAGS.length : DELETED.length);
    const app = tag.slice(0, tag.indexOf('/'));
    const number = versionNumber(app, tag);
    if (number === null) continue;
    if (number > LIMITS.gitVersion) throw invalid(`${name} has a number over ${LIMITS.gitVersion}`);
    const known = versions.get(app) ?? [];
    versions.set(app, known);
    known.push({ name, number, commit });
  }
  const heights = heightsOf(commits);
  for (const all of versions.values()) checkOrder(all, commits, heights);
}

/** Throws for a version that is in the history of one with a lower number: going back from it would lead to newer code. */
function checkOrder(versions: Version[], commits: Commits, heights: Map<string, number>): void {
  versions.sort((a, b) => a.number - b.number);
  const height = ({ commit }: Version): number => heights.get(commit) ?? 0;
  let highest: Version | null = null;
  for (const version of versions) {
    if (highest === null || height(version) >= height(highest)) highest = version;
    else if (isBelow(version.commit, highest.commit, commits, heights))
      throw invalid(`${version.name} is older than ${highest.name}`);
  }
}

/** Commit → the number of commits on the longest way from it to a first one. */
function heightsOf(commits: Commits): Map<string, number> {
  const heights = new Map<string, number>();
  const waiting = [...commits.keys()];
  for (let id = waiting.at(-1); id !== undefined; id = waiting.at(-1)) {
    const parents = commits.get(id) ?? [];
    const unknown = parents.filter((parent) => !heights.has(parent));
    if (unknown.length === 0 || heights.has(id)) {
      waiting.pop();
      if (!heights.has(id))
        heights.set(id, 1 + parents.reduce((most, parent) => Math.max(most, heights.get(parent) ?? 0), 0));
    } else waiting.push(...unknown);
  }
  return heights;
}

function isBelow(low: string, high: string, commits: Commits, heights: Map<string, number>): boolean {
  const least = heights.get(low) ?? 0;
  const seen = new Set<string>();
  const waiting = [high];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (id === low) return true;
    if (seen.has(id) || (heights.get(id) ?? 0) <= least) continue;
    seen.add(id);
    waiting.push(...(commits.get(id) ?? []));
  }
  return false;
}

async function parseBundle(from: string): Promise<{ names: Map<string, string>; pack: Buffer }> {
  if ((await stat(from)).size > LIMITS.gitBundleBytes)
    throw new SvcError('BACKUP_TOO_LARGE', `The git bundle has more than ${LIMITS.gitBundleBytes} bytes.`);
  const file = await readFile(from);
  const end = file.indexOf('\n\n');
  const head = file.toString('utf8', 0, Math.max(end, 0));
  if (!head.startsWith(HEAD)) throw invalid('it is not of version 2');
  const names = new Map<string, string>();
  for (const line of head.slice(HEAD.length).split('\n')) {
    if (line.startsWith('-')) throw invalid('it is a part of a history');
    const [id = '', name = ''] = [line.slice(0, 40), line.slice(41)];
    if (!isObjectId(id) || !isSafeName(name)) throw invalid('it has a name that is not permitted');
    names.set(name, id);
  }
  const pack = file.subarray(end + 2);
  const sum = createHash('sha1').update(pack.subarray(0, -20)).digest();
  if (pack.length < 32 || !sum.equals(pack.subarray(-20))) throw invalid('it is not whole');
  try {
    checkPackSizes(pack);
  } catch (error) {
    throw error instanceof SvcError ? error : invalid('an object of it cannot be read', error);
  }
  return { names, pack };
}

/** As strict as git: no name leads out of the folder of refs or looks like a lock or another ref. */
function isSafeName(name: string): boolean {
  return (
    (name === 'HEAD' || name.startsWith('refs/')) &&
    /^[A-Za-z0-9_./-]+$/.test(name) &&
    !/\.\.|\/\/|\/\.|\.lock(?:\/|$)|[./]$/.test(name)
  );
}

/** Indexed aside, and put in place when both files are durable. */
async function addPack(repository: string, pack: Buffer): Promise<void> {
  const dir = join(repository, 'objects', 'pack');
  const aside = join(repository, 'importing');
  await rm(aside, { recursive: true, force: true });
  await mkdir(aside, { mode: 0o700 });
  try {
    const file = await open(join(aside, 'new.pack'), 'wx', 0o400);
    await file.writeFile(pack).finally(() => file.close());
    await indexPack(aside);
    await syncTree(aside);
    await installPack(dir, join(aside, 'new'), sumOf(pack));
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

async function indexPack(dir: string): Promise<void> {
  const [fs, { indexPack: index }] = await Promise.all([import('node:fs'), import('isomorphic-git')]);
  try {
    await index({ fs, dir, gitdir: dir, filepath: 'new.pack', cache: {} });
  } catch (error) {
    if (isDiskFull(error)) throw error;
    throw invalid('an object of it cannot be read', error);
  }
}

/** Moves `<aside>.pack` and `.idx`, both durable, to their names. The index comes last: whoever sees it finds the pack. */
async function installPack(dir: string, aside: string, sum: string): Promise<void> {
  for (const ending of ['pack', 'idx']) {
    await rename(`${aside}.${ending}`, join(dir, `pack-${sum}.${ending}`));
    await syncDir(dir);
  }
}

/** The index first: a reader without one looks elsewhere. */
async function removePack(repository: string, pack: Buffer): Promise<void> {
  const dir = join(repository, 'objects', 'pack');
  for (const ending of ['idx', 'pack']) await rm(join(dir, `pack-${sumOf(pack)}.${ending}`), { force: true });
  await syncDir(dir);
}

function sumOf(pack: Buffer): string {
  return pack.toString('hex', pack.length - 20);
}

function invalid(reason: string, cause?: unknown): SvcError {
  return new SvcError('INVALID_BACKUP', `The git bundle cannot be imported: ${reason}.`, { cause });
}

/**
 * Ids of all objects below these; `commits` gets those that are commits. Rejects with `STORE_DAMAGED` when one is missing; the
 * content of files is not read.
 */
async function reachable(
  objects: ObjectStore,
  from: Iterable<string>,
  commits: Commits = new Map(),
): Promise<Set<string>> {
  const found = new Set<string>();
  const waiting = [...from];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    const { type, content } = await objects.read(id);
    if (type === 'tag') waiting.push(parseTag(id, content).target);
    if (type !== 'commit') continue;
    const { tree, parents } = parseCommit(id, content);
    commits.set(id, parents);
    waiting.push(...parents);
    await addTree(objects, tree, found);
  }
  return found;
}

async function addTree(objects: ObjectStore, id: string, found: Set<string>): Promise<void> {
  if (found.has(id)) return;
  found.add(id);
  for (const { mode, id: child } of await readTree(objects, id)) {
    if (mode === FOLDER_MODE) await addTree(objects, child, found);
    else if (mode !== SUBMODULE_MODE && !found.has(child)) {
      if (!(await objects.has(child))) throw damagedObject(child, 'is missing');
      found.add(child);
    }
  }
}
