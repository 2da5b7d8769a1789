/**
 * Branches and tags: a file each, or a line of `packed-refs`. Not left to isomorphic-git, which moves a name without a lock, an
 * expected old value and a flush, and reads all of `packed-refs` for one name.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { isMissing, syncDir } from '../atomic-file.ts';
import { damaged, isObjectId } from './object.ts';
import { LockFile } from './ref-lock.ts';

export const MAIN = 'refs/heads/main';
export const TAGS = 'refs/tags/';
/** Where the tags of removed versions go: no clone fetches them, and their numbers are not given again. */
export const DELETED = 'refs/deleted/';

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

  /** Whether there is any name at all; what it stands for is not looked at. A lock is none: a crash may have left it. */
  any(): boolean {
    const isLoose = listFiles(join(this.#dir, 'refs')).some((file) => !file.endsWith('.lock'));
    return isLoose || (readBytes(this.#packed)?.includes(' refs/') ?? false);
  }

  /** Name → id of all below the prefix, which ends with a slash. */
  list(prefix: string): Map<string, string> {
    // In this order: git takes a name away only when it has packed it. A name that is there twice counts as the file says.
    const loose = new Map<string, string>();
    for (const file of listFiles(join(this.#dir, prefix))) {
      const text = file.endsWith('.lock') ? null : readText(join(this.#dir, prefix, file));
      if (text !== null) loose.set(prefix + file, this.#checked(prefix + file, text.trim()));
    }
    const packed = this.#packedLines(prefix).map(({ name, id }): [string, string] => [name, id]);
    return new Map([...packed, ...loose]);
  }

  /**
   * Sets the name, durably. `expected` is what it must stand for now, null for nothing: with `CONFLICT` it stays when
   * somebody else, such as a `git push`, was faster.
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

  /** Sets the name, durably, whatever it stood for, garbage too. */
  async put(name: string, id: string): Promise<void> {
    const lock = await LockFile.take(join(this.#dir, name), this.#dir);
    try {
      await lock.replace(`${id}\n`);
    } finally {
      await lock.release();
    }
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
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
