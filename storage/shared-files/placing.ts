/**
 * Makes the files of a subject on this node equal to entries that came from the database. The entries are not trusted: nothing outside
 * the subject is written or removed, and no link is followed.
 */
import { createHash } from 'node:crypto';
import { chmod, lstat, open, readlink, rename, rm, rmdir, symlink, utimes } from 'node:fs/promises';
import { dirname, relative } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { inParallel, isMissing, mkdirDurable, SYNCS_AT_ONCE, syncDir, temporaryBeside } from '../files/atomic-file.ts';
import { flush } from '../files/flush.ts';
import { belongsTo, nameOf, type Places, realOf, type Subject } from './subjects.ts';
import type { Entries, Entry } from './tree.ts';

const KINDS = new Set(['file', 'link', 'folder']);
const HASH = /^[0-9a-f]{64}$/;

/** Gets the contents of these files, each in pieces and in order; what comes is checked. */
export type Contents = (files: readonly Entry[]) => (file: Entry) => AsyncIterable<Buffer>;

/** Throws `STORE_DAMAGED`, naming the path, for an entry that no node can have stored. */
export function checkEntries(entries: Entries, subject: Subject): void {
  for (const entry of entries.values()) {
    const { path, kind, mode, size, hash, target } = entry;
    const parent = dirname(path);
    const isSound =
      belongsTo(path, subject) &&
      (!belongsTo(parent, subject) || entries.get(parent)?.kind === 'folder') &&
      KINDS.has(kind) &&
      (mode & ~0o777) === 0 &&
      (kind === 'file' ? HASH.test(hash ?? '') && Number.isSafeInteger(size) && size >= 0 : hash === null) &&
      (kind === 'link' ? target !== null && belongsTo(target, subject) : target === null);
    if (!isSound) throw damaged(subject, path, 'is none that a node stores');
  }
}

/** The error of an entry or a content that is not what it should be. */
export function damaged(subject: Subject, path: string, how: string): SvcError {
  const message = `The entry ${JSON.stringify(path.slice(0, 300))} of ${nameOf(subject)} in the database of the cluster ${how}. Restore it from a backup; the files of this node stay as they are.`;
  return new SvcError('STORE_DAMAGED', message);
}

/**
 * Writes what differs from `local`, the entries that the node has, and takes away what is not in `wanted`, durably. New files appear
 * when all have been written. After a crash another call does the rest. Rejects with `STORE_DAMAGED` for a content that is not the
 * entry's, with nothing replaced, and with Node's errors.
 */
export async function place(
  places: Places,
  subject: Subject,
  { wanted, local, leftovers, contents }: { wanted: Entries; local: Entries; leftovers: string[]; contents: Contents },
): Promise<void> {
  const changed = new Set<string>();
  const pathOf = (entry: Entry): string => {
    const path = places.local(entry.path);
    if (path !== null) return path;
    const message = `${nameOf(subject)} has code of a git store, and this node has none. Start it with --store git.`;
    throw new SvcError('NO_GIT_STORE', message);
  };
  const of = (kind: Entry['kind']): Entry[] => [...wanted.values()].filter((entry) => entry.kind === kind);
  for (const path of leftovers) await rm(path, { force: true });
  for (const entry of of('folder')) {
    const path = pathOf(entry);
    if (await makeFolder(path)) changed.add(dirname(path));
  }
  const files = of('file').filter(({ path, hash }) => local.get(path)?.hash !== hash);
  const links = of('link');
  for (const parent of new Set([...files, ...links].map((entry) => dirname(pathOf(entry))))) await mkdirDurable(parent);

  const content = contents(files);
  const written: (readonly [temporary: string, path: string])[] = [];
  try {
    await inParallel(files, SYNCS_AT_ONCE, async (entry) => {
      const path = pathOf(entry);
      const temporary = temporaryBeside(path);
      written.push([temporary, path]);
      await writeFile(temporary, entry, content(entry), subject);
    });
    // What is in a folder comes after it, and goes before it.
    for (const entry of [...local.values()].reverse()) {
      if (wanted.has(entry.path)) continue;
      if (await remove(pathOf(entry), entry)) changed.add(dirname(pathOf(entry)));
    }
    for (const [temporary, path] of written) {
      await replace(temporary, path);
      changed.add(dirname(path));
    }
  } catch (error) {
    for (const [temporary] of written) await rm(temporary, { force: true });
    throw error;
  }
  for (const entry of links) if (await makeLink(places, pathOf(entry), entry)) changed.add(dirname(pathOf(entry)));
  for (const entry of of('file')) await describe(pathOf(entry), entry, local.get(entry.path));
  // Last: one that may not be written is written until now.
  for (const entry of of('folder').reverse()) await chmod(pathOf(entry), entry.mode);
  await inParallel(changed, SYNCS_AT_ONCE, async (folder) => {
    await syncDir(folder).catch((error: unknown) => {
      // It went itself.
      if (!isMissing(error)) throw error;
    });
  });
}

/** Whether it was made. What else has its name goes, a link too. */
async function makeFolder(path: string): Promise<boolean> {
  const found = await lstat(path).catch(nullWhenMissing);
  if (found?.isDirectory()) {
    if ((found.mode & 0o700) !== 0o700) await chmod(path, 0o700);
    return false;
  }
  if (found !== null) await rm(path);
  await mkdirDurable(path);
  return true;
}

async function writeFile(
  temporary: string,
  entry: Entry,
  content: AsyncIterable<Buffer>,
  subject: Subject,
): Promise<void> {
  const file = await open(temporary, 'wx', 0o600);
  try {
    const sum = createHash('sha256');
    for await (const piece of content) {
      sum.update(piece);
      await file.writeFile(piece);
    }
    if (sum.digest('hex') !== entry.hash) throw damaged(subject, entry.path, 'has a damaged content');
    await file.chmod(entry.mode);
    await file.utimes(...timesOf(entry));
    await flush(file, temporary);
  } finally {
    await file.close();
  }
}

/** Sets what differs beside the content. */
async function describe(path: string, entry: Entry, local: Entry | undefined): Promise<void> {
  if (local === undefined || local.hash !== entry.hash) return;
  if (local.mode !== entry.mode) await chmod(path, entry.mode);
  if (local.modified !== entry.modified) await utimes(path, ...timesOf(entry));
}

/** In seconds. In the middle of the millisecond, which no rounding leaves. */
function timesOf({ modified }: Entry): [number, number] {
  const seconds = (modified + 0.5) / 1000;
  return [seconds, seconds];
}

/** Whether it was made. */
async function makeLink(places: Places, path: string, { target }: Entry): Promise<boolean> {
  const to = target === null ? null : places.local(target);
  if (to === null) return false;
  const text = relative(await realOf(dirname(path)), to);
  if ((await readlink(path).catch(() => null)) === text) return false;
  const temporary = temporaryBeside(path);
  await symlink(text, temporary);
  await replace(temporary, path);
  return true;
}

/** A folder in the place of a file is empty by now, unless it has something of the node alone, which stays. */
async function replace(temporary: string, path: string): Promise<void> {
  if (await isFolder(path)) await rmdir(path);
  await rename(temporary, path);
}

/** Whether it was there. A folder stays that has something of the node alone. */
async function remove(path: string, { kind }: Entry): Promise<boolean> {
  try {
    if (kind === 'folder') await rmdir(path);
    else if (!(await isFolder(path))) await rm(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (isMissing(error) || code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(nullWhenMissing))?.isDirectory() ?? false;
}

function nullWhenMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}
