/**
 * Reads, sets and removes branches and tags: a file each, or a line of `packed-refs`. isomorphic-git would move a ref without a
 * lock, an expected old value and a flush, and read all of `packed-refs` for one name.
 */
import { readFileSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing, mkdirDurable, syncDir } from '../files/atomic-file.ts';
import { flush } from '../files/flush.ts';
import { listTreeSync, pathOf } from '../files/list-tree.ts';
import { isRunning } from '../processes/process-identity.ts';
import { damaged, isObjectId } from './object.ts';

export const HEADS = 'refs/heads/';
export const MAIN = `${HEADS}main`;
export const TAGS = 'refs/tags/';
/** Prefix for tags of removed versions: no clone fetches them, and their numbers are not reused. */
export const DELETED = 'refs/deleted/';

const HOST = hostname().replaceAll(/\s/g, '_');
/** Written into a lock while it is held. */
const OWNER = `svc ${HOST} ${process.pid}\n`;

/** The error of a repository that is gone, or was emptied. */
export function nothingIn(): SvcError {
  return damaged('apps.git of the code store is missing, or has no branch and no tag');
}

export class Refs {
  readonly #dir: string;
  readonly #packed: string;

  constructor(repository: string) {
    this.#dir = repository;
    this.#packed = join(repository, 'packed-refs');
  }

  /** The id that the name stands for; null when there is no such name. Throws `STORE_DAMAGED`. */
  read(name: string): string | null {
    const loose = readText(join(this.#dir, name));
    if (loose !== null) return this.#checked(name, loose.trim());
    const lines = this.#packedLines(name);
    return lines.find((line) => line.name === name)?.id ?? null;
  }

  /** Whether there is any name at all. A lock does not count: a crash may have left it. */
  any(): boolean {
    const isLoose = listFiles(join(this.#dir, 'refs')).some((file) => !file.endsWith('.lock'));
    return isLoose || (readBytes(this.#packed)?.includes(' refs/') ?? false);
  }

  /** Name → id of all below the prefix, which ends with a slash. Throws `STORE_DAMAGED`, also where there is no name at all. */
  list(prefix: string): Map<string, string> {
    // In this order: git removes the file of a name only after packing it. If both exist, the file counts.
    const loose = new Map<string, string>();
    for (const file of listFiles(join(this.#dir, prefix))) {
      const text = file.endsWith('.lock') ? null : readText(join(this.#dir, prefix, file));
      if (text !== null) loose.set(prefix + file, this.#checked(prefix + file, text.trim()));
    }
    const packed = this.#packedLines(prefix).map(({ name, id }): [string, string] => [name, id]);
    if (loose.size === 0 && packed.length === 0 && !this.any()) throw nothingIn();
    return new Map([...packed, ...loose]);
  }

  /** Whether these, name after the prefix → id, are all that there are below the prefix. Throws as `list` does. */
  has(prefix: string, wanted: Record<string, string>): boolean {
    const there = this.list(prefix);
    const names = Object.keys(wanted);
    return there.size === names.length && names.every((name) => there.get(prefix + name) === wanted[name]);
  }

  /**
   * Sets the name, durably. `expected` is what it must stand for now, null for nothing. Rejects with `CONFLICT` when another
   * program, such as a `git push`, was faster.
   */
  async set(name: string, id: string, expected: string | null): Promise<void> {
    const path = join(this.#dir, name);
    const lock = await LockFile.take(path, this.#dir);
    try {
      const current = this.read(name);
      if (current === id) return;
      if (current !== expected) throw moved(name);
      await lock.replace(`${id}\n`);
    } finally {
      await lock.release();
    }
  }

  /** Sets the name, durably, and replaces any value, garbage too. */
  async put(name: string, id: string): Promise<void> {
    const lock = await LockFile.take(join(this.#dir, name), this.#dir);
    await lock.replace(`${id}\n`);
  }

  /** Removes names, durably; those that are not there count as removed. */
  async remove(names: string[]): Promise<void> {
    const gone = new Set(names);
    // From the packed ones first: a loose name hides the packed one, which would show again.
    if (names.some((name) => this.#packedLines(name).some((line) => line.name === name))) {
      const lock = await LockFile.take(this.#packed, this.#dir);
      try {
        await lock.replace(withoutLines(readFileSync(this.#packed, 'utf8'), gone));
      } finally {
        await lock.release();
      }
    }
    for (const name of names) await rm(join(this.#dir, name), { force: true });
    for (const folder of new Set(names.map((name) => dirname(join(this.#dir, name))))) {
      await syncDir(folder).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
    }
  }

  /** Lines whose name begins with the prefix. The file is searched, not taken apart: it may hold every tag of every app. */
  #packedLines(prefix: string): { name: string; id: string }[] {
    const lines: { name: string; id: string }[] = [];
    const file = readBytes(this.#packed);
    if (file === null) return lines;
    const wanted = Buffer.from(` ${prefix}`);
    for (let at = file.indexOf(wanted); at >= 0; at = file.indexOf(wanted, at + 1)) {
      const end = file.indexOf(0x0a, at);
      const name = file.toString('utf8', at + 1, end < 0 ? file.length : end).trimEnd();
      const start = at - 40;
      if (start !== 0 && file[start - 1] !== 0x0a) continue;
      lines.push({ name, id: this.#checked(name, file.toString('latin1', start, at)) });
    }
    return lines;
  }

  #checked(name: string, id: string): string {
    if (!isObjectId(id)) throw damaged(`${name} names no object`);
    return id;
  }
}

/** A line that begins with `^` belongs to the name before it. */
function withoutLines(text: string, names: Set<string>): string {
  let drop = false;
  const kept = text.split('\n').filter((line) => {
    if (!line.startsWith('^')) drop = names.has(line.slice(41));
    return !drop;
  });
  return kept.join('\n');
}

function moved(name: string): SvcError {
  return new SvcError('CONFLICT', `${name} of the git repository changed meanwhile; try again.`);
}

function readText(path: string): string | null {
  return readBytes(path)?.toString('utf8') ?? null;
}

/** Null for what is missing, and for a folder: a name is never both. */
function readBytes(path: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EISDIR') return null;
    throw error;
  }
}

/** Paths of the files below the folder, with `/`. */
function listFiles(folder: string): string[] {
  try {
    return listTreeSync(folder)
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, pathOf(entry)));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** The lock that git programs take on a file before they replace it: `<file>.lock`, which becomes the file. */
export class LockFile {
  readonly #path: string;
  readonly #repository: string;
  readonly #lock: string;
  /** Null once the lock is not held. */
  #file: FileHandle | null;

  private constructor(path: string, repository: string, lock: string, file: FileHandle) {
    this.#path = path;
    this.#repository = repository;
    this.#lock = lock;
    this.#file = file;
  }

  /** On a file of the repository. Waits for a git program that holds it, and takes over what a crash left. Rejects with `CONFLICT`. */
  static async take(path: string, repository: string): Promise<LockFile> {
    const lock = `${path}.lock`;
    const deadline = performance.now() + LIMITS.gitLockMs;
    for (;;) {
      try {
        const held = new LockFile(path, repository, lock, await open(lock, 'wx', 0o600));
        await held.#write(OWNER);
        return held;
      } catch (error) {
        if (isMissing(error) && performance.now() <= deadline) {
          await makeFolder(dirname(path));
          continue;
        }
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      if (await isLeft(lock)) await rm(lock, { force: true });
      else if (performance.now() > deadline) {
        throw new SvcError('CONFLICT', 'Another program is changing the git repository; try again.');
      } else await wait(LIMITS.gitLockPollMs);
    }
  }

  /** Replaces the file, durably, and releases the lock, also when it rejects. */
  async replace(content: string): Promise<void> {
    if (this.#file === null) throw new Error('The lock is not held.');
    const file = this.#file;
    try {
      await file.truncate();
      await this.#write(content);
      await flush(file, this.#lock);
      await file.close();
      await rename(this.#lock, this.#path);
    } catch (error) {
      await this.release();
      throw error;
    }
    this.#file = null;
    await syncDir(dirname(this.#path)).catch(async (error: unknown) => {
      if (!isMissing(error)) throw error;
      // git has packed the name since, and removed its folder, which was empty then: `packed-refs` at the top has it.
      await syncDir(this.#repository);
    });
  }

  /** Writes the whole text from the start; releases the lock when that fails. */
  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      for (let at = 0; at < bytes.length; )
        at += (await this.#file?.write(bytes, at, bytes.length - at, at))?.bytesWritten ?? 0;
    } catch (error) {
      await this.release();
      throw error;
    }
  }

  /** Leaves the file as it is. Does nothing when the lock is not held any more. */
  async release(): Promise<void> {
    if (this.#file === null) return;
    const file = this.#file;
    this.#file = null;
    await file.close();
    await rm(this.#lock, { force: true });
  }
}

/** git removes a folder of names when it has packed them all: at any time, also while it is made. */
async function makeFolder(path: string): Promise<void> {
  try {
    await mkdirDurable(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Git programs hold such a lock for milliseconds and write nothing in it; a gateway writes who holds it. */
async function isLeft(lock: string): Promise<boolean> {
  try {
    const [, host, pid] = /^svc (\S+) (\d+)\n/.exec(await readFile(lock, 'utf8')) ?? [];
    if (host === HOST && !isRunning(Number(pid))) return true;
    return Date.now() - (await stat(lock)).mtimeMs > LIMITS.gitLockLeftMs;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
