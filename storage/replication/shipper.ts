/**
 * Ships the commits of all databases of a writer to the log of pages, with one transaction under way: what is committed meanwhile is
 * collected and goes with the next one, of each page the last version.
 */

import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { LogGroups } from '../../protocol/wire/frames.ts';
import { KnownPages } from './known-pages.ts';
import type { LogEnd } from './local-copy.ts';
import type { Entry, PageLog } from './page-log.ts';
import { givePage } from './page-memory.ts';
import { addPages, checksumOf, encodePages, type PageSet, split } from './page-set.ts';
import type { WalPlace } from './wal-pages.ts';

/** Where a database stands in the log: its latest entry, and what is in the log of it since the last snapshot. */
export type Position = {
  readonly database: string;
  readonly bucket: number;
  /** The writer of the node when the database was opened. */
  readonly writer: string;
  readonly epoch: number;
  seq: number;
  /** Of the latest entry. */
  checksum: number;
  bytes: number;
  entries: number;
};

/** Of a database that was opened under this writer and epoch, when this was the end of its log. */
export function positionAt(database: string, writer: string, epoch: number, end: LogEnd): Position {
  const { seq, checksum, bytes, entries } = end;
  return { database, bucket: bucketOf(database), writer, epoch, seq, checksum, bytes, entries };
}

/** Where the log has nothing of a database. */
export const NO_ENTRIES: LogEnd = { seq: 0, epoch: 0, checksum: 0, bytes: 0, entries: 0 };

/** Hears that the log has a database up to a place in its own write-ahead log. Called before the promises resolve. */
export type Shipped = (place: WalPlace) => void;

type Waiting = { resolve(): void; reject(error: SvcError): void };
type Load = { position: Position; pages: PageSet; place: WalPlace; shipped: Shipped; waiting: Waiting[] };

export class Shipper {
  readonly #log: PageLog;
  readonly #isBusy: () => boolean;
  readonly #failed = new WeakSet<Position>();
  readonly #known = new KnownPages<Position>();
  #loads = new Map<Position, Load>();
  #isUnderWay = false;
  /** What is in the log, since the start. */
  readonly counters: LogGroups = { groups: 0, ms: 0, bytes: 0 };

  /** `isBusy`: commits are about to be made, for which a group waits up to `LIMITS.logGatherMs`, as it costs as much with them. */
  constructor(log: PageLog, isBusy: () => boolean) {
    this.#log = log;
    this.#isBusy = isBusy;
  }

  /**
   * Adds pages that a commit changed, up to `place`; they belong to the shipper from here on. Resolves when the log has them and all
   * before them; rejects with `STORAGE_UNAVAILABLE` when it does not: from then on the position is of no use, and the local copy has to
   * be fetched again.
   */
  ship(position: Position, pages: PageSet, place: WalPlace, shipped: Shipped): Promise<void> {
    if (this.#failed.has(position)) return Promise.reject(lost(position.database));
    const load = this.#loads.get(position);
    if (load === undefined) this.#loads.set(position, { position, pages, place, shipped, waiting: [] });
    else {
      for (const number of pages.pages.keys()) {
        const before = load.pages.pages.get(number);
        if (before !== undefined) givePage(before);
      }
      addPages(load.pages, pages);
      load.place = place;
    }
    const { waiting } = load ?? (this.#loads.get(position) as Load);
    return new Promise((resolve, reject) => {
      waiting.push({ resolve, reject });
      if (!this.#isUnderWay) {
        this.#isUnderWay = true;
        void this.#run();
      }
    });
  }

  /** Nothing more is shipped of it. */
  end(position: Position): void {
    this.#known.forget(position);
  }

  async #run(): Promise<void> {
    while (this.#loads.size > 0) {
      await this.#gather();
      const loads = this.#next();
      const entries = loads.map((load) => this.#entryOf(load));
      const sentAt = performance.now();
      try {
        const outcomes = await this.#log.append(entries);
        this.counters.groups++;
        this.counters.ms += performance.now() - sentAt;
        for (const [index, load] of loads.entries()) {
          const { sets } = entries[index] as { sets: Buffer[] };
          if (outcomes[index] === 'stored') this.#stored(load, sets);
          else this.#fail(load, lost(load.position.database));
        }
      } catch (error) {
        for (const load of loads) this.#fail(load, error as SvcError);
      }
    }
    this.#isUnderWay = false;
  }

  /** Another turn of the event loop at least, as commits are made one a turn. */
  async #gather(): Promise<void> {
    const until = performance.now() + LIMITS.logGatherMs;
    do await new Promise((resolve) => setImmediate(resolve));
    while (this.#isBusy() && performance.now() < until);
  }

  /** The loads that have waited longest, up to `LIMITS.logGroupBytes`; one at least. */
  #next(): Load[] {
    const loads: Load[] = [];
    let bytes = 0;
    for (const [position, load] of this.#loads) {
      bytes += load.pages.pages.size * load.pages.pageBytes;
      if (loads.length > 0 && bytes > LIMITS.logGroupBytes) break;
      loads.push(load);
      this.#loads.delete(position);
    }
    return loads;
  }

  #entryOf({ position, pages }: Load): Entry {
    const { database, bucket, writer, epoch, seq } = position;
    const known = this.#known.of(position);
    const sets = split(pages).map((set) => encodePages(set, known));
    // Where it does not become so, the position is of no use.
    this.#known.add(position, pages);
    return { database, bucket, writer, epoch, seq: seq + 1, sets };
  }

  #stored({ position, place, shipped, waiting }: Load, sets: Buffer[]): void {
    position.seq += sets.length;
    position.checksum = checksumOf(sets.at(-1) as Buffer);
    position.entries += sets.length;
    for (const { length } of sets) {
      position.bytes += length;
      this.counters.bytes += length;
    }
    shipped(place);
    for (const { resolve } of waiting) resolve();
  }

  /** Also what was committed after it: it stands on pages that the log lacks. */
  #fail({ position, waiting }: Load, error: SvcError): void {
    this.#failed.add(position);
    this.#known.forget(position);
    const later = this.#loads.get(position)?.waiting ?? [];
    this.#loads.delete(position);
    for (const { reject } of [...waiting, ...later]) reject(error);
  }
}

function lost(database: string): SvcError {
  const message = `Another node has ${database} now, or its latest writes are not in the log of the cluster. Try again.`;
  return new SvcError('STORAGE_UNAVAILABLE', message);
}
