/** Implements isomorphic-git's file system for one repository only. One flush at the end makes all writes durable. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, type Stats, statSync, utimesSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { inParallel, isMissing, SYNCS_AT_ONCE, syncDir } from '../files/atomic-file.ts';
import { flush } from '../files/flush.ts';
import { damaged } from './object.ts';

const SUM_BYTES = 20;

/** Tries to make a folder that git removes meanwhile. */
const TRIES = 10;

/** What isomorphic-git keeps of the packs that `packs` names, and how many bytes were read for it. */
export type PackCache = { packs: string; bytes: number; cache: object };

export class DurableFs {
  /**
   * The interface that isomorphic-git wants. Synchronous reads are several times as fast, and a job thread has nothing else to do.
   */
  readonly promises = {
    readFile: async (path?: string, options?: { encoding?: BufferEncoding } | BufferEncoding) =>
      // Without a path only to see whether that is a promise, several times for each object.
      path === undefined ? null : this.#readFile(path, options),
    writeFile: refused,
    stat: (path: string) => this.#stat(path),
    lstat: (path: string) => this.#stat(path),
    readdir: async (path: string) => withPacks(readdirSync(this.#inside(path))),
    mkdir: refused,
    rmdir: refused,
    unlink: refused,
    readlink: refused,
    symlink: refused,
  };
  readonly #packCache: PackCache;
  readonly #root: string;
  readonly #objectsDir: string;
  /** What was written and is not yet on disk. */
  readonly #staged = new Map<string, Uint8Array>();
  /** Objects that exist already: an earlier job may have ended before it made their names durable. */
  readonly #found = new Set<string>();
  #salvages = false;
  #packsAreFresh = false;

  constructor(repository: string, packCache: PackCache) {
    this.#packCache = packCache;
    this.#root = resolve(repository);
    this.#objectsDir = join(this.#root, 'objects');
  }

  /** From now on, the whole objects of a damaged pack can be read. */
  salvage(): void {
    this.#salvages = true;
  }

  /** The file of this object, compressed as it is, written or staged; null when there is none. */
  readLoose(id: string): Uint8Array | null {
    const path = this.#pathOf(id);
    try {
      return this.#staged.get(path) ?? readFileSync(path);
    } catch (error) {
      if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EISDIR') return null;
      throw error;
    }
  }

  /** Takes the file of an object; it is on disk after the next flush. */
  stage(id: string, compressed: Uint8Array): void {
    this.#staged.set(this.#pathOf(id), compressed);
  }

  /**
   * Whether the file of this object is there, written or staged. Makes it young, as git does, so that a garbage collection does not
   * take an old object that is about to be used again.
   */
  freshen(id: string): boolean {
    const path = this.#pathOf(id);
    if (this.#staged.has(path) || this.#found.has(path)) return true;
    const now = new Date();
    try {
      utimesSync(path, now, now);
      this.#found.add(path);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  /** The same for an object in a pack, by the pack's own time; once in a while is enough. */
  freshenPacks(): void {
    if (this.#packsAreFresh) return;
    this.#packsAreFresh = true;
    const now = Date.now();
    const dir = join(this.#objectsDir, 'pack');
    for (const name of readdirSync(dir).filter((one) => one.endsWith('.pack'))) {
      try {
        const path = join(dir, name);
        if (statSync(path).mtimeMs < now - LIMITS.gitPackUsedMs) utimesSync(path, now / 1000, now / 1000);
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    }
  }

  /**
   * Makes everything durable that was written. Each object appears whole, and after those it names, which were written before it: a
   * garbage collection of git fails on a new commit whose tree comes a moment later.
   */
  async flush(): Promise<void> {
    const temporary = new Map([...this.#staged.keys()].map((path) => [path, this.#temporaryPath()]));
    try {
      await inParallel(temporary, SYNCS_AT_ONCE, ([path, to]) =>
        writeDurable(to, this.#staged.get(path) as Uint8Array),
      );
      for (const [path, from] of temporary) place(from, path);
    } finally {
      // Placed files have left the folder.
      for (const path of temporary.values()) rmSync(path, { force: true });
    }
    const folders = new Set([...this.#staged.keys(), ...this.#found].map(dirname));
    await inParallel(folders, SYNCS_AT_ONCE, async (folder) => {
      await syncDir(folder).catch((error: unknown) => {
        // Gone with what was in it, which git has packed.
        if (!isMissing(error)) throw error;
      });
    });
    // The folders may be new.
    if (folders.size > 0) await syncDir(this.#objectsDir);
    this.#staged.clear();
    this.#found.clear();
  }

  #pathOf(id: string): string {
    return join(this.#objectsDir, id.slice(0, 2), id.slice(2));
  }

  #readFile(
    path: string,
    options?: { encoding?: BufferEncoding } | BufferEncoding,
  ): Buffer | Uint8Array | string | Promise<Buffer> {
    const whole = this.#inside(path);
    const staged = this.#staged.get(whole);
    if (staged !== undefined) return staged;
    if (/\.(?:idx|pack)$/.test(whole)) {
      const content = readPackFile(whole, this.#salvages);
      this.#packCache.bytes += content.length;
      return content;
    }
    const encoding = typeof options === 'string' ? options : options?.encoding;
    return encoding === undefined ? readFileSync(whole) : readFileSync(whole, { encoding });
  }

  async #stat(path: string): Promise<Pick<Stats, 'isFile' | 'isDirectory'>> {
    const whole = this.#inside(path);
    // Called for each object, to see whether it is a link of a work tree.
    if (whole === this.#root) return { isFile: () => false, isDirectory: () => true };
    if (this.#staged.has(whole)) return { isFile: () => true, isDirectory: () => false };
    return statSync(whole);
  }

  /** No file of a user or of the system is read, such as a configuration: those outside are not there. */
  #inside(path: string): string {
    const whole = resolve(path);
    if (whole === this.#root || whole.startsWith(this.#root + sep)) return whole;
    throw Object.assign(new Error(`${whole} is not in the repository.`), { code: 'ENOENT' });
  }

  /** Named like git's own temporary files: its garbage collection removes what a crash leaves. */
  #temporaryPath(): string {
    return join(this.#objectsDir, `tmp_obj_${randomUUID()}`);
  }
}

/** Writes a new read-only file, as git does. */
export async function writeDurable(path: string, data: Uint8Array): Promise<void> {
  const file = await open(path, 'wx', 0o400);
  try {
    await file.writeFile(data);
    await flush(file, path);
  } finally {
    await file.close();
  }
}

/** As in git, an index counts only with its pack: while git adds or removes a pack, one of the two may be missing. */
function withPacks(names: string[]): string[] {
  const present = new Set(names);
  return names.filter((name) => !name.endsWith('.idx') || present.has(name.replace(/idx$/, 'pack')));
}

async function refused(): Promise<never> {
  throw Object.assign(new Error('The repository is changed by storing objects only.'), { code: 'EPERM' });
}

/** A garbage collection of git may remove the new folder between the two calls, so they are tried again. */
function place(temporary: string, path: string): void {
  for (let tries = TRIES; ; tries--) {
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      renameSync(temporary, path);
      return;
    } catch (error) {
      if (!isMissing(error) || tries === 1) throw error;
    }
  }
}

/**
 * A file of a pack, made fit for isomorphic-git, which trusts an index and refuses a pack as a whole when one byte of it is
 * wrong: the file as it is on disk. With `salvages` the checksums in a pack and its index are made to match the damaged pack,
 * so that its objects can be read; the reader checks each. Throws `STORE_DAMAGED` for an index that is not whole.
 */
function readPackFile(path: string, salvages: boolean): Buffer {
  const content = readFileSync(path);
  const isIndex = path.endsWith('.idx');
  // A wrong count of objects would make the reader run for ever.
  if (isIndex && !sumOf(content).equals(content.subarray(-SUM_BYTES))) {
    throw damaged(`the index ${basename(path)} of a pack is not whole ("git index-pack" makes it again)`);
  }
  if (!salvages) return content;
  const sum = sumOf(isIndex ? readFileSync(path.replace(/idx$/, 'pack')) : content);
  // In an index the sum of the pack stands before its own.
  content.set(sum, Math.max(0, content.length - (isIndex ? 2 : 1) * SUM_BYTES));
  return content;
}

function sumOf(content: Buffer): Buffer {
  return createHash('sha1').update(content.subarray(0, -SUM_BYTES)).digest();
}
