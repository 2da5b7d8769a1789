/**
 * The state of the disk of `powercut.c` after a power cut: reads its journal, and reverts everything that was not
 * durable.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../random.ts';

/** `enum kind` of powercut.c. */
const KINDS = [
  'write',
  'truncate',
  'sync',
  'syncLost',
  'syncAll',
  'create',
  'unlink',
  'mkdir',
  'rmdir',
  'rename',
] as const;
type Kind = (typeof KINDS)[number];

/** `struct record` of powercut.c. */
type Entry = {
  kind: Kind;
  mode: number;
  seq: number;
  ino: number;
  other: number;
  offset: number;
  length: number;
  sizeBefore: number;
  moved: number;
  replaced: number;
  name: string;
  name2: string;
  old: Buffer;
};

const HEADER_BYTES = 88;
const SECTOR_BYTES = 512;

/** The parts that no fsync covered but that are on the disk anyway. */
export type Survival = {
  /** Share of the sectors of 512 bytes, each decided separately: writes are reordered and torn. From 0 to 1. */
  sectors: number;
  /** Names: each separately by this share, or all before one moment, as on a journalling file system. */
  names: number | 'before a moment';
};

export type TakenBack = { writes: number; names: number; survivedWrites: number; survivedNames: number };

/** `journal` up to the byte `end`, which is in the control page. */
function parse(journal: Buffer, end: number): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at < end; ) {
    const u32 = (offset: number) => journal.readUInt32LE(at + offset);
    const u64 = (offset: number) => Number(journal.readBigUInt64LE(at + offset));
    const names = at + HEADER_BYTES;
    const names2 = names + u32(72);
    const data = names2 + u32(76);
    const kind = KINDS[u32(0) - 1];
    if (kind === undefined) throw new Error(`The journal is not one at byte ${at}.`);
    entries.push({
      kind,
      mode: u32(4),
      seq: u64(8),
      ino: u64(16),
      other: u64(24),
      offset: u64(32),
      length: u64(40),
      sizeBefore: u64(48),
      moved: u64(56),
      replaced: u64(64),
      name: journal.toString('utf8', names, names2),
      name2: journal.toString('utf8', names2, data),
      old: journal.subarray(data, data + u32(80)),
    });
    at = data + u32(80);
  }
  return entries;
}

const isSync = ({ kind }: Entry): boolean => kind === 'sync' || kind === 'syncLost' || kind === 'syncAll';
const isData = ({ kind }: Entry): boolean => kind === 'write' || kind === 'truncate';

/** The file or folder whose fsync makes it durable. */
const owner = (entry: Entry): number => (entry.kind === 'rename' ? entry.other : entry.ino);

/** The records that no fsync made durable. Those of a failed fsync never become durable. */
function volatileEntries(entries: Entry[]): Set<Entry> {
  const lost = new Set<Entry>();
  let pending: Entry[] = [];
  for (const entry of entries) {
    if (!isSync(entry)) {
      pending.push(entry);
      continue;
    }
    const covers = (one: Entry): boolean =>
      one.seq <= entry.length && (entry.kind === 'syncAll' || owner(one) === entry.ino);
    if (entry.kind === 'syncLost') for (const one of pending.filter(covers)) lost.add(one);
    pending = pending.filter((one) => !covers(one));
  }
  return new Set([...lost, ...pending]);
}

/** Sets the files below `root` to their state on the disk. No process may use them. `keepDir` holds removed files. */
export function takeBack(
  options: { root: string; keepDir: string; journal: string; end: number },
  survival: Survival,
  random: Random,
): TakenBack {
  const { root, keepDir, journal, end } = options;
  const entries = parse(readFileSync(journal), end);
  const volatile = volatileEntries(entries);
  const found = new Found(root, keepDir);
  try {
    const data = takeBackData(entries.filter(isData), volatile, found, survival.sectors, random);
    const names = takeBackNames(
      entries.filter((entry) => volatile.has(entry) && !isData(entry)),
      found,
      survival.names,
      random,
    );
    return { ...data, ...names };
  } finally {
    found.close();
  }
}

/** Inodes by number. Folders are held open, so that they are reachable wherever they are moved. */
class Found {
  readonly keepDir: string;
  readonly #files = new Map<number, string>();
  readonly #folders = new Map<number, number>();
  readonly #open: number[] = [];

  constructor(root: string, keepDir: string) {
    this.keepDir = keepDir;
    this.#addFolder(root);
    for (const name of readdirSync(keepDir)) this.#addFile(join(keepDir, name));
  }

  /** Open for writing; null if no path leads to the file any more. */
  openFile(ino: number): number | null {
    const path = this.#files.get(ino);
    if (path === undefined) return null;
    const fd = openSync(path, 'r+');
    this.#open.push(fd);
    return fd;
  }

  /** A path to any name of the file. */
  file(ino: number): string | undefined {
    return this.#files.get(ino);
  }

  /** A path to the entry; null if the folder itself is gone. */
  entry(folder: number, name: string): string | null {
    const fd = this.#folders.get(folder);
    return fd === undefined ? null : `/proc/self/fd/${fd}/${name}`;
  }

  /** The folder `ino` is back, as a new one. */
  replaceFolder(ino: number, path: string): void {
    this.#folders.set(ino, this.#hold(path));
  }

  close(): void {
    for (const fd of this.#open) closeSync(fd);
  }

  #addFolder(path: string): void {
    const fd = this.#hold(path);
    this.#folders.set(fstatSync(fd).ino, fd);
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (entry.isDirectory()) this.#addFolder(join(path, entry.name));
      else if (entry.isFile()) this.#addFile(join(path, entry.name));
    }
  }

  #addFile(path: string): void {
    const { ino } = lstatSync(path);
    if (!this.#files.has(ino)) this.#files.set(ino, path);
  }

  #hold(path: string): number {
    const fd = openSync(path, 'r');
    this.#open.push(fd);
    return fd;
  }
}

/** From the last write back to the first. A sector that keeps a later write also keeps the write under it. */
function takeBackData(
  entries: Entry[],
  volatile: Set<Entry>,
  found: Found,
  share: number,
  random: Random,
): Pick<TakenBack, 'writes' | 'survivedWrites'> {
  const files = new Map<number, Entry[]>();
  for (const entry of entries) files.set(entry.ino, [...(files.get(entry.ino) ?? []), entry]);
  let writes = 0;
  let survivedWrites = 0;
  for (const [ino, own] of files) {
    if (!own.some((entry) => volatile.has(entry))) continue;
    const fd = found.openFile(ino);
    if (fd === null) continue;
    const settled = new Settled();
    for (const entry of own.reverse()) {
      if (!volatile.has(entry)) settled.settle(entry);
      else if (takeBackEntry(fd, entry, settled, share, random)) survivedWrites += 1;
      else writes += 1;
    }
  }
  return { writes, survivedWrites };
}

/** Sectors, and the size, that are as a later write left them. */
class Settled {
  size = false;
  readonly #sectors = new Set<number>();
  #from = Number.POSITIVE_INFINITY;

  has(sector: number): boolean {
    return sector >= this.#from || this.#sectors.has(sector);
  }

  add(sector: number): void {
    this.#sectors.add(sector);
  }

  settle(entry: Entry): void {
    this.size = true;
    if (entry.kind === 'truncate') this.#from = Math.min(this.#from, Math.ceil(entry.offset / SECTOR_BYTES));
    else for (const { sector } of sectorsOf(entry.offset, entry.length)) this.add(sector);
  }
}

/** True when a part of it survived. */
function takeBackEntry(fd: number, entry: Entry, settled: Settled, share: number, random: Random): boolean {
  const { kind, offset, old, sizeBefore } = entry;
  if (kind === 'truncate' && random.next() < share) {
    settled.settle(entry);
    return true;
  }
  const length = kind === 'truncate' ? old.length : entry.length;
  let survived = false;
  for (const { sector, from, to } of sectorsOf(offset, length)) {
    if (settled.has(sector) || (kind === 'write' && random.next() < share)) {
      settled.add(sector);
      survived = true;
      continue;
    }
    // Beyond the old end a file system shows zeros where it has not written.
    const before = Buffer.alloc(to - from);
    before.set(old.subarray(from - offset, to - offset));
    writeSync(fd, before, 0, before.length, from);
  }
  if (survived) settled.size = true;
  else if (!settled.size) ftruncateSync(fd, sizeBefore);
  return survived;
}

function sectorsOf(offset: number, length: number): { sector: number; from: number; to: number }[] {
  const parts = [];
  for (let from = offset; from < offset + length; ) {
    const sector = Math.floor(from / SECTOR_BYTES);
    const to = Math.min((sector + 1) * SECTOR_BYTES, offset + length);
    parts.push({ sector, from, to });
    from = to;
  }
  return parts;
}

function takeBackNames(
  entries: Entry[],
  found: Found,
  share: Survival['names'],
  random: Random,
): Pick<TakenBack, 'names' | 'survivedNames'> {
  const moment = random.between(0, entries.length);
  const survivors = new Set(
    entries.filter((_, index) => (share === 'before a moment' ? index < moment : random.next() < share)),
  );
  for (const entry of entries.toReversed()) if (!survivors.has(entry)) takeBackName(entry, found);
  return { names: entries.length - survivors.size, survivedNames: survivors.size };
}

/** An entry that is no longer what the operation made of it was changed again since, and stays. */
function takeBackName(entry: Entry, found: Found): void {
  const { kind, ino, other, seq, name, name2, moved, replaced, mode } = entry;
  const kept = join(found.keepDir, String(seq));
  const path = found.entry(ino, name);
  if (path === null) return;
  if (kind === 'create' || kind === 'mkdir') {
    if (inodeAt(path) === other) renameSync(path, join(found.keepDir, `${seq}-taken-back`));
  } else if (kind === 'unlink') {
    if (!existsSync(path)) linkSync(kept, path);
  } else if (kind === 'rmdir') {
    if (existsSync(path)) return;
    mkdirSync(path, { mode });
    found.replaceFolder(other, path);
  } else {
    const target = found.entry(other, name2);
    if (target !== null && inodeAt(target) === moved) {
      renameSync(target, inodeAt(path) === null ? path : join(found.keepDir, `${seq}-taken-back`));
      if (replaced !== 0) linkSync(kept, target);
    } else {
      const elsewhere = found.file(moved);
      if (inodeAt(path) === null && elsewhere !== undefined && existsSync(elsewhere)) linkSync(elsewhere, path);
    }
  }
}

function inodeAt(path: string): number | null {
  return lstatSync(path, { throwIfNoEntry: false })?.ino ?? null;
}

/** Removes what a power cut put aside. */
export function emptyFolder(path: string): void {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
}
