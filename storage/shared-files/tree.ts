/**
 * Reads the files of a subject as they were at one moment, and hashes again only what may have changed. It follows no link, and reads
 * nothing that does not belong to the subject.
 */
import { createHash } from 'node:crypto';
import { type BigIntStats, constants, lstatSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { inParallel, isMissing } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';
import { belongsTo, nameOf, Places, rootsOf, type Subject } from './subjects.ts';

/**
 * One path of a subject. `mode` has the bits of permissions. `size` is in bytes, `modified` in milliseconds since the epoch, `hash` the
 * SHA-256 in hex: of files, else 0 and null. `target` is the path that a link leads to, of the same subject; else null.
 */
export type Entry = {
  readonly path: string;
  readonly kind: 'file' | 'link' | 'folder';
  readonly mode: number;
  readonly size: number;
  readonly modified: number;
  readonly hash: string | null;
  readonly target: string | null;
};

/** By path, folders before what is in them. */
export type Entries = ReadonlyMap<string, Entry>;

/** A path as the folder shows it; `sign` changes with everything that is told of it without reading. */
type Seen = { entry: Entry; local: string; sign: string; changedNs: bigint };
/** `left`: local paths of files that a crash left unfinished. */
type Walk = { seen: Map<string, Seen>; left: string[] };
/** The hash of a file with this sign. A change in the same tick of the clock may not show in the sign of a file that `isFresh`. */
type Known = { sign: string; hash: string; isFresh: boolean };

const AT_ONCE = 16;
/** Files whose state is asked for in one turn of the event loop. */
const LOOKS = 64;
/** How often a subject is read that changes meanwhile. */
const TRIES = 100;
/** More than the clock of any file system ticks. */
const TICK_NS = 100_000_000n;
const TEMPORARY = /\/\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/;
const LINKED_CODE = /^code-store\/worktrees\/main\//;
/** Named by their content, so that each is the same at any moment. */
const INDEPENDENT = /\/_(?:blobs|attachments)\//;
const READ_BYTES = 256 * 1024;

/** The file is not what it was when its folder was read. */
export class Changed extends Error {}

export class Tree {
  readonly #layout: Layout;
  readonly #subject: Subject;
  #known = new Map<string, Known>();
  /** As it was read last, by path the signs too. */
  #last: { entries: Entries; signs: ReadonlyMap<string, string> } | null = null;
  #looks = 0;

  constructor(layout: Layout, subject: Subject) {
    this.#layout = layout;
    this.#subject = subject;
  }

  /**
   * Everything that was changed before the call is in it; of what changes meanwhile, all of some moment. The same object when nothing
   * changed since the last call. Rejects with `STORAGE_UNAVAILABLE` when the files never rest, and with Node's errors.
   */
  async read(): Promise<Entries> {
    let { seen } = await this.#walk();
    if (this.#last !== null && isSame(seen, this.#last.signs, () => true) && !this.#hasFresh())
      return this.#last.entries;
    for (let tries = 0; tries < TRIES; tries++) {
      const isRead = await this.#hash(seen);
      // Where two walks see the same, it was so between them.
      const again = (await this.#walk()).seen;
      const signs = new Map([...seen].map(([path, { sign }]) => [path, sign]));
      if (isRead && isSame(again, signs, dependsOnOthers)) return this.#keep(seen, signs);
      seen = again;
    }
    throw new SvcError('STORAGE_UNAVAILABLE', `The files of ${nameOf(this.#subject)} change all the time. Try again.`);
  }

  /** Temporary files of the subject that a crash left: their paths on this node. */
  async leftovers(): Promise<string[]> {
    return (await this.#walk()).left;
  }

  #hasFresh(): boolean {
    for (const { isFresh } of this.#known.values()) if (isFresh) return true;
    return false;
  }

  #keep(seen: Map<string, Seen>, signs: Map<string, string>): Entries {
    const entries = new Map<string, Entry>();
    for (const [path, { entry }] of seen) {
      entries.set(path, entry.kind === 'file' ? { ...entry, hash: this.#known.get(path)?.hash ?? null } : entry);
    }
    for (const path of this.#known.keys()) if (!seen.has(path)) this.#known.delete(path);
    if (this.#last !== null && sameEntries(entries, this.#last.entries))
      this.#last = { entries: this.#last.entries, signs };
    else this.#last = { entries, signs };
    return this.#last.entries;
  }

  /** False when one of the files changed meanwhile. */
  async #hash(seen: Map<string, Seen>): Promise<boolean> {
    let isRead = true;
    await inParallel(seen, AT_ONCE, async ([path, { entry, local, sign, changedNs }]) => {
      if (entry.kind !== 'file') return;
      const known = this.#known.get(path);
      if (known?.sign === sign && !known.isFresh) return;
      const startNs = BigInt(Date.now()) * 1_000_000n;
      const hash = await hashOf(local, sign);
      if (hash === null) isRead = false;
      else this.#known.set(path, { sign, hash, isFresh: changedNs > startNs - TICK_NS });
    });
    return isRead;
  }

  async #walk(): Promise<Walk> {
    const places = await Places.of(this.#layout);
    const found: Walk = { seen: new Map(), left: [] };
    const roots = new Set(await rootsOf(this.#layout, this.#subject));
    // Grows by the code that links lead to.
    for (const root of roots) {
      for (let level = [root]; level.length > 0; ) {
        const below: string[] = [];
        await inParallel(level, AT_ONCE, async (path) => {
          const child = await this.#see(places, path, found);
          if (child.target !== null && LINKED_CODE.test(child.target)) roots.add(child.target);
          below.push(...child.names.map((name) => `${path}/${name}`));
        });
        level = below.sort();
      }
    }
    return found;
  }

  /** What was looked at before is in the system's memory: asking at once takes a seventh of the time. */
  async #look(path: string, local: string): Promise<BigIntStats> {
    if (this.#last?.signs.has(path) !== true) return await lstat(local, { bigint: true });
    this.#looks += 1;
    if (this.#looks % LOOKS === 0) await nextTurn();
    return lstatSync(local, { bigint: true });
  }

  /** Notes the path if it is there and is the subject's. `names` are those in a folder. */
  async #see(places: Places, path: string, { seen, left }: Walk): Promise<{ names: string[]; target: string | null }> {
    const nothing = { names: [], target: null };
    const local = places.local(path);
    if (local !== null && TEMPORARY.test(path)) left.push(local);
    if (local === null || !belongsTo(path, this.#subject)) return nothing;
    try {
      const stats = await this.#look(path, local);
      const common = { path, mode: Number(stats.mode & 0o777n), size: 0, modified: 0, hash: null, target: null };
      const note = (entry: Entry, sign: string): void => {
        seen.set(path, { entry, local, sign, changedNs: stats.ctimeNs });
      };
      if (stats.isFile()) {
        const size = Number(stats.size);
        note({ ...common, kind: 'file', size, modified: Number(stats.mtimeNs / 1_000_000n) }, signOf(stats));
        return nothing;
      }
      if (stats.isSymbolicLink()) {
        const target = await places.targetOf(local, await readlink(local));
        // One that leads elsewhere would lead to something else on another node.
        if (target === null || !belongsTo(target, this.#subject)) return nothing;
        note({ ...common, kind: 'link', mode: 0o777, target }, target);
        return { names: [], target };
      }
      if (!stats.isDirectory()) return nothing;
      note({ ...common, kind: 'folder' }, `folder ${common.mode}`);
      return { names: await readdir(local), target: null };
    } catch (error) {
      // It went meanwhile.
      if (isMissing(error)) return nothing;
      throw error;
    }
  }
}

/** Reads the file in pieces of `LIMITS.sharedPieceBytes`, the last one smaller; an empty one has one piece. Rejects with `Changed`. */
export async function* piecesOf(local: string, { size, hash }: Pick<Entry, 'size' | 'hash'>): AsyncGenerator<Buffer> {
  const file = await openFile(local);
  const sum = createHash('sha256');
  try {
    let at = 0;
    do {
      const piece = Buffer.alloc(Math.min(LIMITS.sharedPieceBytes, size - at));
      for (let filled = 0; filled < piece.length; ) {
        const { bytesRead } = await file.read(piece, filled, piece.length - filled);
        if (bytesRead === 0) throw new Changed();
        filled += bytesRead;
      }
      sum.update(piece);
      at += piece.length;
      if (at === size && sum.digest('hex') !== hash) throw new Changed();
      yield piece;
    } while (at < size);
  } finally {
    await file.close();
  }
}

/** Whether both have the same paths, and the same of each. */
function sameEntries(some: Entries, others: Entries): boolean {
  if (some.size !== others.size) return false;
  for (const [path, entry] of some) {
    const other = others.get(path);
    if (other === undefined || !isEqual(entry, other)) return false;
  }
  return true;
}

export function isEqual(one: Entry, other: Entry): boolean {
  return (
    one.kind === other.kind &&
    one.mode === other.mode &&
    one.size === other.size &&
    one.modified === other.modified &&
    one.hash === other.hash &&
    one.target === other.target
  );
}

/** Whether both walks saw the same paths, and the same of each; of those that `counts` says. */
function isSame(
  seen: Map<string, Seen>,
  signs: ReadonlyMap<string, string>,
  counts: (path: string) => boolean,
): boolean {
  let more = 0;
  for (const [path, { sign }] of seen) {
    if (!counts(path)) continue;
    if (signs.get(path) !== sign) return false;
    more += 1;
  }
  for (const path of signs.keys()) if (counts(path)) more -= 1;
  return more === 0;
}

function dependsOnOthers(path: string): boolean {
  return !INDEPENDENT.test(path);
}

function signOf({ mode, size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${mode} ${size} ${mtimeNs} ${ctimeNs} ${ino}`;
}

/** Null when it changed since its folder was read, or meanwhile. */
async function hashOf(local: string, sign: string): Promise<string | null> {
  let file: FileHandle;
  try {
    file = await openFile(local);
  } catch (error) {
    if (error instanceof Changed) return null;
    throw error;
  }
  try {
    const sum = createHash('sha256');
    if (signOf(await file.stat({ bigint: true })) !== sign) return null;
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    for (let read = 1; read > 0; ) {
      read = (await file.read(buffer, 0, READ_BYTES)).bytesRead;
      sum.update(buffer.subarray(0, read));
    }
    return signOf(await file.stat({ bigint: true })) === sign ? sum.digest('hex') : null;
  } finally {
    await file.close();
  }
}

/** Rejects with `Changed` where no file is any more. */
async function openFile(local: string): Promise<FileHandle> {
  try {
    return await open(local, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ELOOP') throw new Changed();
    throw error;
  }
}
