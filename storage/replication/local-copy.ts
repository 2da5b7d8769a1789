/**
 * Brings the local copy of a database to what the log of pages has: keeps it where it is that already, brings an older one forward, and
 * makes it anew from the snapshot and the log else. What was committed here and is not in the log is dropped.
 */
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Database, Session } from '../cluster/database.ts';
import { renameDurable } from '../files/atomic-file.ts';
import { type Mark, MarkWriter, readMark, removeMark } from './mark.ts';
import { isWhole, type Page, type PageSet } from './page-set.ts';
import { entryAt, type Head, logAfter, snapshotHead, snapshotPages } from './snapshot.ts';
import { NO_LOG, readLog, type WalPlace } from './wal-pages.ts';

/** What the log has of a database; `bytes` and `entries` are since its snapshot. Seq 0 where it has nothing yet. */
export type LogEnd = Head & { bytes: number; entries: number };

/**
 * `kept`: the file and its write-ahead log are as they were. `new`: the log has nothing, and there was no copy of it here. `aside`: the
 * log has nothing any more, and the copy has another name now.
 */
export type Copy = { end: LogEnd; how: 'kept' | 'forward' | 'fetched' | 'new' | 'aside' };

/**
 * Makes `file` what the log has, which is read in one transaction. Nobody may have it open for writing. A file that changes is another file
 * under its name, so that readers of the old one are not disturbed.
 *
 * A mark that is older than the file is right as well: no checkpoint passes what the log has, so the file has nothing that the log lacks,
 * and entries that it has already do no harm: they say what bytes are, and the last one that names a byte is right. So what counts is only what the write-ahead log has after the mark.
 */
export async function openCopy(database: Database, name: string, file: string): Promise<Copy> {
  const fresh = new FreshFile(file);
  const read = async (session: Session) => {
    const snapshot = await snapshotHead(session, name);
    const local = await usableCopy(session, name, file, snapshot);
    if (local === null) for await (const set of snapshotPages(session, name)) await fresh.apply(set);
    else if (local.isAhead) await fresh.begin(local.mark.place);
    const end = await bringForward(session, name, snapshot, fresh, local?.mark ?? null);
    return { end, isLocal: local !== null };
  };
  try {
    const { end, isLocal } = await database.transaction(read, 'ISOLATION LEVEL REPEATABLE READ READ ONLY');
    if (end.seq === 0) {
      if (readMark(file) === null) return { end, how: 'new' };
      setAside(file);
      return { end, how: 'aside' };
    }
    if (!fresh.isBegun) return { end, how: 'kept' };
    // After the transaction, as a disk may take long for this.
    await fresh.replace(end);
    return { end, how: isLocal ? 'forward' : 'fetched' };
  } finally {
    await fresh.discard();
  }
}

/** The mark of a copy that is at an entry of the snapshot's end or of the log; null where the copy is of no use. */
async function usableCopy(
  session: Session,
  database: string,
  file: string,
  snapshot: Head | null,
): Promise<{ mark: Mark; isAhead: boolean } | null> {
  const mark = readMark(file);
  if (mark === null || !existsSync(file)) return null;
  const state = localState(file, mark.place);
  if (state === null) return null;
  const known = mark.seq === snapshot?.seq ? snapshot : await entryAt(session, database, mark.seq);
  if (known?.epoch !== mark.epoch || known.checksum !== mark.checksum) return null;
  return { mark, isAhead: state === 'ahead' };
}

/** Applies the entries that a copy at `mark` lacks, or that a snapshot does. Answers what the log has. */
async function bringForward(
  session: Session,
  database: string,
  snapshot: Head | null,
  fresh: FreshFile,
  mark: Mark | null,
): Promise<LogEnd> {
  const end: LogEnd = { seq: 0, epoch: 0, checksum: 0, ...snapshot, bytes: 0, entries: 0 };
  for await (const { head, bytes, set } of logAfter(session, database, end.seq)) {
    Object.assign(end, head);
    end.bytes += bytes;
    end.entries++;
    if (mark !== null && head.seq <= mark.seq) continue;
    if (mark !== null && !fresh.isBegun) await fresh.begin(mark.place);
    await fresh.apply(set);
  }
  return end;
}

/**
 * The log had this database once. It was removed, or somebody made the tables anew: then this copy is the last one, so it stays beside
 * its name.
 */
function setAside(file: string): void {
  removeMark(file);
  const aside = `${file}.removed-${Date.now()}`;
  rmSync(`${file}-shm`, { force: true });
  if (existsSync(`${file}-wal`)) renameSync(`${file}-wal`, `${aside}-wal`);
  if (existsSync(file)) renameSync(file, aside);
}

/** Removes the copy, with all that was committed to it. */
export function dropCopy(file: string): void {
  removeMark(file);
  for (const path of [...logsOf(file), file]) rmSync(path, { force: true });
}

/** The write-ahead log and its index, which are of this file alone. */
const logsOf = (file: string): string[] => [`${file}-wal`, `${file}-shm`];

/** Whether the write-ahead log ends at the place, or after it. Null when it lost what it had: the file alone cannot be known. */
function localState(file: string, place: WalPlace): 'at' | 'ahead' | null {
  const log = readLog(file);
  if (log === null) return place.frames === 0 ? 'at' : null;
  // A log that began anew after the mark was written: all that it had before is in the file.
  const frames = log.salt.equals(place.salt) ? place.frames : 0;
  if (log.frames < frames) return null;
  return log.frames > frames ? 'ahead' : 'at';
}

/** The file that takes the place of a copy. */
class FreshFile {
  readonly #file: string;
  readonly #path: string;
  #handle: FileHandle | null = null;
  #bytes = 0;

  constructor(file: string) {
    this.#file = file;
    this.#path = `${file}-fetched`;
  }

  get isBegun(): boolean {
    return this.#handle !== null;
  }

  /** Begins with the copy that is here: the file, and its write-ahead log up to the place. */
  async begin(place: WalPlace): Promise<void> {
    copyFileSync(this.#file, this.#path);
    this.#handle = await open(this.#path, 'r+');
    this.#bytes = (await this.#handle.stat()).size;
    const pages = new Map<number, Buffer>();
    const log = readLog(this.#file, ({ number, bytes }) => pages.set(number, bytes), place.frames);
    if (log === null || log.frames === 0 || !log.salt.equals(place.salt)) return;
    await this.apply({ pageBytes: log.pageBytes, size: log.size, pages });
  }

  async apply({ pageBytes, size, pages }: PageSet<Page>): Promise<void> {
    if (this.#handle === null) {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
      this.#handle = await open(this.#path, 'w', 0o600);
    }
    for (const [number, page] of pages) {
      const ranges = isWhole(page) ? [{ at: 0, bytes: page }] : page;
      for (const { at, bytes } of number <= size ? ranges : [])
        await this.#handle.write(bytes, 0, bytes.length, (number - 1) * pageBytes + at);
    }
    this.#bytes = size * pageBytes;
  }

  /**
   * Takes the place of the copy, at this entry of the log. After a crash between two steps there is no mark: it is fetched again. Whoever
   * opens the name finds a file at each moment.
   */
  async replace(end: Head): Promise<void> {
    const handle = this.#handle as FileHandle;
    await handle.truncate(this.#bytes);
    await handle.sync();
    removeMark(this.#file);
    for (const log of logsOf(this.#file)) rmSync(log, { force: true });
    await renameDurable(this.#path, this.#file);
    const mark = new MarkWriter(this.#file);
    mark.write({ ...end, place: NO_LOG });
    mark.close();
  }

  async discard(): Promise<void> {
    await this.#handle?.close();
    rmSync(this.#path, { force: true });
  }
}
