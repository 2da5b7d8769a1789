/**
 * Replaces, moves and removes files and folders so that a crash leaves the old or the new one: temporary name, fsync, rename,
 * fsync of the folder.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { access, cp, lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Shape } from '../../protocol/shapes/shape.ts';
import { flush } from './flush.ts';
import { listTreeSync, pathOf } from './list-tree.ts';
import { makeFolder } from './make-folder.ts';

/** Replaces the file, durably. The folder must exist. Rejects with Node's error (`ENOSPC`, …) and leaves the old file. */
export async function writeFileAtomic(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  await (await StagedFile.write(path, data, mode)).place();
}

/** The next content of a file, durable under a temporary name beside it: replacing the file then needs no more disk space. */
export class StagedFile {
  readonly #path: string;
  readonly #temporary: string;

  private constructor(path: string, temporary: string) {
    this.#path = path;
    this.#temporary = temporary;
  }

  /** Rejects with Node's error, and leaves no file. */
  static async write(path: string, data: string | Uint8Array, mode = 0o600): Promise<StagedFile> {
    const temporary = temporaryBeside(path);
    const staged = new StagedFile(path, temporary);
    try {
      const file = await open(temporary, 'wx', mode);
      try {
        await file.writeFile(data);
        await flush(file, temporary);
      } finally {
        await file.close();
      }
    } catch (error) {
      await staged.discard();
      throw error;
    }
    return staged;
  }

  /** Replaces the file, durably. */
  async place(): Promise<void> {
    try {
      await rename(this.#temporary, this.#path);
    } catch (error) {
      await this.discard();
      throw error;
    }
    await syncDir(dirname(this.#path));
  }

  async discard(): Promise<void> {
    await rm(this.#temporary, { force: true });
  }
}

/** A new name in the same folder, which is not longer for a longer name: a file system takes 255 bytes. */
export function temporaryBeside(path: string): string {
  return join(dirname(path), `.${randomUUID()}.tmp`);
}

/** The parsed file; undefined when there is none. When it is not JSON, `damaged`, or a `SyntaxError` where that is not given. */
export async function readJson(path: string, damaged?: unknown): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    if (isMissing(error)) return undefined;
    if (damaged !== undefined && error instanceof SyntaxError) return damaged;
    throw error;
  }
}

/** The file as the shape says; undefined when there is none, null when it is not JSON or has another shape. */
export async function readShaped<T>(path: string, shape: Shape<T>): Promise<T | null | undefined> {
  const value = await readJson(path, null);
  return value === undefined || shape.holds(value) ? value : null;
}

/** The same with `damaged` for a file that was changed or replaced by hand: we write it atomically. */
export function readIfWhole(path: string): Promise<unknown> {
  return readJson(path, 'damaged').catch((error: unknown) => {
    if (isNoFile(error)) return 'damaged';
    throw error;
  });
}

/** Renames a folder that stands in the place of a file to `<name>.damaged`. The gateway never makes one there. */
export async function clearPlace(path: string): Promise<void> {
  if (!(await isFolder(path))) return;
  await rm(`${path}.damaged`, { recursive: true, force: true });
  await renameDurable(path, `${path}.damaged`);
}

/** Whether reading a file failed because a folder or a broken link stands in its place. */
function isNoFile(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'EISDIR' || code === 'ELOOP';
}

/** Makes the names in a folder durable: what was created, renamed or removed in it. */
export async function syncDir(path: string): Promise<void> {
  await syncFile(path, 'r');
}

/** Moves a file or folder within one file system, durably. The target's folder is created when missing. */
export async function renameDurable(from: string, to: string): Promise<void> {
  await mkdirDurable(dirname(to));
  await rename(from, to);
  await syncDir(dirname(to));
  await syncLeft(dirname(from));
}

/** Flushes a folder that something was moved out of: once empty, others may remove it and those above it meanwhile. */
async function syncLeft(dir: string): Promise<void> {
  try {
    await syncDir(dir);
  } catch (error) {
    if (!isMissing(error) || dirname(dir) === dir) throw error;
    await syncLeft(dirname(dir));
  }
}

/** Moves a folder, to another file system too: it then arrives whole under its name before the old one goes. */
export async function moveDir(from: string, to: string): Promise<void> {
  try {
    await renameDurable(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    const arriving = join(dirname(to), `.${basename(to)}.tmp`);
    await rm(arriving, { recursive: true, force: true });
    await cp(from, arriving, { recursive: true, preserveTimestamps: true });
    await renameDurable(arriving, to);
    // Renamed as a whole first: the rest of an interrupted removal must not look like the folder.
    const leaving = join(dirname(from), `.${basename(from)}.tmp`);
    await renameDurable(from, leaving);
    await rm(leaving, { recursive: true, force: true });
  }
}

/** Removes a file that may be missing, durably. */
export async function removeDurable(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncDir(dirname(path));
}

/** Creates a folder and those above it, durably; readable by its owner only. */
export async function mkdirDurable(path: string): Promise<void> {
  const first = makeFolder(resolve(path));
  if (first === undefined) return;
  // Each is a name in the one above it.
  for (let made = resolve(path); made.length >= first.length; made = dirname(made)) await syncDir(dirname(made));
}

export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
}

/** Like `exists`, for the name itself: a broken link counts too. */
export async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

/** False for every link. */
export async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isDirectory() ?? false;
}

/** Sorted names in a folder; empty for a missing one. */
export async function namesIn(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(noneWhenMissing)).sort();
}

/** Like `namesIn`, synchronous. */
export function namesInSync(dir: string): string[] {
  try {
    return readdirSync(dir).sort();
  } catch (error) {
    return noneWhenMissing(error);
  }
}

function noneWhenMissing(error: unknown): string[] {
  if (isMissing(error)) return [];
  throw error;
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Works on `atOnce` items at a time. After a failure it starts no more, and rejects once those under way have ended. */
export async function inParallel<T>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const workOff = async (): Promise<void> => {
    for (let next = rest.next(); !next.done && failures.length === 0; next = rest.next()) {
      await work(next.value).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, workOff));
  if (failures.length > 0) throw failures[0];
}

/** From this many files on, one flush of the whole file system costs less than one for each file. */
const FLUSH_ALL_FILES = 200;
/** Files that are flushed at a time: the disk writes them together. */
export const SYNCS_AT_ONCE = 32;

/** Flushes everything in the folder: contents and names. */
export async function syncTree(dir: string): Promise<void> {
  const entries = listTreeSync(dir);
  const files = entries.filter((entry) => entry.isFile()).map(pathOf);
  if (files.length >= FLUSH_ALL_FILES && syncFileSystem(dir)) return;
  await inParallel(files, SYNCS_AT_ONCE, (path) => syncFile(path, 'r+'));
  const folders = entries.filter((entry) => entry.isDirectory()).map(pathOf);
  await inParallel([...folders, dir], SYNCS_AT_ONCE, (path) => syncFile(path, 'r'));
}

export async function syncFile(path: string, flags: 'r' | 'r+'): Promise<void> {
  const file = await open(path, flags);
  try {
    await flush(file, path);
  } finally {
    await file.close();
  }
}

/** syncfs(2), which Node does not offer but every Linux has a program for. The jobs process may start none. */
function syncFileSystem(dir: string): boolean {
  if (process.platform !== 'linux' || process.permission?.has('child') === false) return false;
  return spawnSync('sync', ['-f', dir], { stdio: 'ignore' }).status === 0;
}
