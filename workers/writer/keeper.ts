/**
 * Keeps the databases of a writer in the log of pages of a cluster: fetches each before it is used, ships what its commits changed, and
 * says when the log has it (specification, "Log of pages").
 */
import { statSync } from 'node:fs';
import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { LogGroups } from '../../protocol/wire/frames.ts';
import { Database } from '../../storage/cluster/database.ts';
import { dropCopy, openCopy } from '../../storage/replication/local-copy.ts';
import { MarkWriter } from '../../storage/replication/mark.ts';
import { PageLog } from '../../storage/replication/page-log.ts';
import type { PageSet } from '../../storage/replication/page-set.ts';
import { type Position, positionAt, Shipper } from '../../storage/replication/shipper.ts';
import { fold } from '../../storage/replication/snapshot.ts';
import { NO_LOG, WalPages, type WalPlace } from '../../storage/replication/wal-pages.ts';
import { pageBytesOf } from '../../storage/wal-format.ts';

/** The PostgreSQL database of a cluster, by its addresses, and this node's name in it. */
export type ClusterOfWriter = { urls: string[]; node: string };

/** What a lane's handle is asked for: all pages of the database as its latest commit left them. */
type Whole = { serialize(): Buffer };

export class Keeper {
  readonly #node: string;
  /** For opening databases, several at a time, and for folding their logs. */
  readonly #reading: Database;
  readonly #log: PageLog;
  readonly #shipper: Shipper;
  #epochs: ReadonlyMap<number, number> = new Map();

  /** `urls` are those of the PostgreSQL database, `node` the name that owns buckets in it; `isBusy` is that of a `Shipper`. */
  constructor({ urls, node }: ClusterOfWriter, isBusy: () => boolean) {
    const answerMs = LIMITS.logAnswerMs;
    this.#node = node;
    this.#reading = new Database(urls, { connections: LIMITS.logReaders, answerMs });
    // Of its own: commits wait for nobody.
    this.#log = new PageLog(new Database(urls, { connections: 1, answerMs }), node);
    this.#shipper = new Shipper(this.#log, isBusy);
  }

  /** Groups since the start. */
  get groups(): LogGroups {
    return this.#shipper.counters;
  }

  /** The buckets that this node owns from now on, all of them. Answers those that it owned before, and not any more in that epoch. */
  own(buckets: readonly (readonly [bucket: number, epoch: number])[]): number[] {
    const before = this.#epochs;
    this.#epochs = new Map(buckets);
    return [...before].flatMap(([bucket, epoch]) => (this.#epochs.get(bucket) === epoch ? [] : [bucket]));
  }

  /** The epoch in which this node owns the database; undefined when another one does. */
  epochOf(database: string): number | undefined {
    return this.#epochs.get(bucketOf(database));
  }

  /**
   * Makes the local copy what the log has. Nobody may have it open for writing. `isReplaced`: who has it open for reading reads an old
   * one. Rejects with `STORAGE_UNAVAILABLE`.
   */
  async open(database: string, file: string): Promise<{ kept: KeptDatabase; isReplaced: boolean }> {
    const epoch = this.epochOf(database);
    if (epoch === undefined) throw notOurs(database);
    const writer = await this.#log.begin();
    const { end, how } = await openCopy(this.#reading, database, file).catch((error: unknown) => {
      throw error instanceof SvcError ? error : failed(`This node cannot make its copy of ${database}`, error);
    });
    const position = positionAt(database, writer, epoch, end);
    const kept = new KeptDatabase(file, position, this.#shipper, () => this.#fold(position));
    return { kept, isReplaced: how !== 'kept' && how !== 'new' };
  }

  /** Shortens the log of the database. A failure leaves it for a later commit: the log is longer, and right. */
  async #fold(position: Position): Promise<void> {
    const { database, epoch } = position;
    const taken = await fold(this.#reading, database, { node: this.#node, epoch });
    position.bytes -= taken.bytes;
    position.entries -= taken.entries;
  }
}

/** The error for a database that another node has. */
export function notOurs(database: string): SvcError {
  return new SvcError('STORAGE_UNAVAILABLE', `Another node of the cluster has ${database}. Try again.`);
}

function failed(what: string, error: unknown): SvcError {
  const message = `${what}: ${(error as Error).message} See the disk of this node, and try again.`;
  return new SvcError('STORAGE_UNAVAILABLE', message, { cause: error });
}

/** One database, from its opening until its file is closed or lost. */
export class KeptDatabase {
  readonly #file: string;
  readonly #position: Position;
  readonly #shipper: Shipper;
  readonly #fold: () => Promise<void>;
  readonly #pages: WalPages;
  readonly #mark: MarkWriter;
  /** The log lacks what the file had before its first commit, or what was changed without its write-ahead log. */
  #isPartial: boolean;
  #isFolding = false;
  #latest: Promise<void> = Promise.resolve();
  #underWay = 0;
  #hasFailed = false;

  constructor(file: string, position: Position, shipper: Shipper, folding: () => Promise<void>) {
    this.#file = file;
    this.#position = position;
    this.#shipper = shipper;
    this.#fold = folding;
    this.#isPartial = position.seq === 0;
    this.#pages = new WalPages(file);
    this.#mark = new MarkWriter(file);
  }

  get epoch(): number {
    return this.#position.epoch;
  }

  /** The log has nothing of it. */
  get isUnknown(): boolean {
    return this.#position.seq === 0;
  }

  /** The log has everything that was committed. */
  get isSettled(): boolean {
    return this.#underWay === 0;
  }

  /** The log lacks a commit and will not get it: the local copy is of no use. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Resolves when the log has all that is committed now; rejects with `STORAGE_UNAVAILABLE` when it will not have it. */
  settled(): Promise<void> {
    return this.#latest;
  }

  /** Says where the write-ahead log ends that is there when the file is opened: the log of pages has what is before that. */
  opened(state: Uint8Array | null): void {
    if (state !== null) this.#pages.skip(state);
  }

  /** Ships what a commit changed that led to this state of the write-ahead log. Resolves and rejects as `settled`. */
  committed(database: Whole, state: Uint8Array | null): Promise<void> {
    try {
      if (state === null) throw new Error('The index of the write-ahead log cannot be read.');
      let pages: PageSet;
      if (this.#isPartial) {
        this.#pages.skip(state);
        pages = wholeOf(database.serialize());
        this.#isPartial = false;
      } else pages = this.#pages.read(state);
      this.#underWay++;
      this.#latest = this.#shipper
        .ship(this.#position, pages, this.#pages.place, (place) => this.#marked(place))
        .then(() => this.#shipped());
    } catch (error) {
      // It is committed, and nobody can say what it changed.
      this.#underWay++;
      this.#latest = Promise.reject(failed('A write cannot be sent to the log of the cluster', error));
    }
    this.#latest.catch(() => {
      this.#underWay--;
      this.#hasFailed = true;
    });
    return this.#latest;
  }

  /** The file gets what the log of pages may not have: until that is shipped, the copy is of no use after a crash. */
  rewriting(): void {
    this.#mark.clear();
  }

  /** Ships all pages of a file that was changed so. */
  rewritten(database: Whole, state: Uint8Array | null): Promise<void> {
    this.#isPartial = true;
    return this.committed(database, state);
  }

  #marked(place: WalPlace): void {
    const { seq, epoch, checksum } = this.#position;
    this.#mark.writeSoon({ seq, epoch, checksum, place });
  }

  #shipped(): void {
    this.#underWay--;
    const { bytes, entries } = this.#position;
    if (this.#isFolding || (bytes < LIMITS.logBytes && entries < LIMITS.logEntries)) return;
    this.#isFolding = true;
    const done = (): void => {
      this.#isFolding = false;
    };
    this.#fold().then(done, done);
  }

  /** The file was closed, with everything in the log. */
  closed(): void {
    // Where a reader kept the write-ahead log in place, the mark is right as it is.
    const log = statSync(`${this.#file}-wal`, { throwIfNoEntry: false });
    if (this.#position.seq > 0 && (log?.size ?? 0) === 0) this.#mark.write({ ...this.#position, place: NO_LOG });
    this.#end();
  }

  /**
   * The log lacks a commit, and the file was closed. It stays in its place until one that is right takes it: what reads it waits for the
   * log. A file of which the log has nothing is removed, as it would be taken for one that has to go there. Answers whether it was.
   */
  lost(): boolean {
    this.#end();
    if (this.isUnknown) dropCopy(this.#file);
    return this.isUnknown;
  }

  #end(): void {
    this.#shipper.end(this.#position);
    this.#pages.close();
    this.#mark.close();
  }
}

/** Where a database says how long its pages are. */
const PAGE_BYTES_AT = 16;

function wholeOf(bytes: Buffer): PageSet {
  const pageBytes = pageBytesOf(bytes.readUInt16BE(PAGE_BYTES_AT));
  const pages = new Map<number, Uint8Array>();
  for (let at = 0; at < bytes.length; at += pageBytes)
    pages.set(at / pageBytes + 1, bytes.subarray(at, at + pageBytes));
  return { pageBytes, size: bytes.length / pageBytes, pages };
}
