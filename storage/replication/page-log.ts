/**
 * Stores the page sets of committed groups in the log of a cluster: those of all databases of a group in one round trip, which is one
 * transaction (specification, "Log of pages").
 */
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Database, isAway, type Session, stateOf } from '../cluster/database.ts';

/** What one database adds: encoded sets, whose seqs follow on `before`, the seq of its latest entry. */
export type Entry = { database: string; epoch: number; before: number; sets: Buffer[] };

/** The entry is in the log; or its bucket has another owner or epoch, or somebody else added to the database after `before`. */
export type Outcome = 'stored' | 'fenced';

const APPEND = {
  name: 'append',
  text: 'SELECT svc.append($1, $2, $3, $4, $5, $6, $7, $8, $9) AS number',
};
const ALREADY_THERE = '23505';
const IS_STORED = `SELECT 1 FROM svc.log WHERE bucket = $1 AND database = $2 AND seq = $3 AND epoch = $4 AND frames = $5`;

export class PageLog {
  readonly #node: string;
  readonly #database: Database;

  /** `node` is the owner's name in `svc.buckets`. */
  constructor(database: Database, node: string) {
    this.#database = database;
    this.#node = node;
  }

  /**
   * Adds all entries, of different databases, and resolves after the commit. When the connection is lost meanwhile, it offers them again
   * and looks whether they had been stored. Rejects with `STORAGE_UNAVAILABLE` when the database was silent for `LIMITS.logPatienceMs`:
   * what was sent may be in the log then, or come to it.
   */
  async append(entries: Entry[]): Promise<Outcome[]> {
    const until = performance.now() + LIMITS.logPatienceMs;
    for (let tries = 1; ; tries++) {
      try {
        return await this.#offer(entries, tries > 1);
      } catch (error) {
        if (performance.now() > until || !mayPass(error)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(50 * tries, 500)));
    }
  }

  async #offer(entries: Entry[], isAgain: boolean): Promise<Outcome[]> {
    const rows = entries.flatMap((entry, index) =>
      entry.sets.map((set, n) => rowOf(entry, index, set, entry.before + 1 + n)),
    );
    const parts = inParts(rows);
    const stored = new Set(
      parts.length === 1 ? await this.#store(this.#database, rows) : await this.#storeParts(parts),
    );
    // An earlier try may have been stored after all, or be stored while this one waits for its lock.
    if (isAgain) {
      for (const [index, { database, epoch, before, sets }] of entries.entries()) {
        if (stored.has(index)) continue;
        const found = await this.#database.rows(IS_STORED, [bucketOf(database), database, before + 1, epoch, sets[0]]);
        if (found.length > 0) stored.add(index);
      }
    }
    return entries.map((_, index) => (stored.has(index) ? 'stored' : 'fenced'));
  }

  /** Answers the indexes of the entries that it stored. */
  async #store(session: Session, rows: Row[]): Promise<number[]> {
    let end = 1;
    const starts = rows.map(({ set }) => {
      const start = end;
      end += set.length;
      return start;
    });
    const values = [
      this.#node,
      rows.map(({ database }) => bucketOf(database)),
      rows.map(({ database }) => database),
      rows.map(({ epoch }) => epoch),
      rows.map(({ before }) => before),
      rows.map(({ seq }) => seq),
      starts,
      rows.map(({ set }) => set.length),
      Buffer.concat(rows.map(({ set }) => set)),
    ];
    const answer = await session.rows<{ number: number }>(APPEND, values);
    return answer.map(({ number }) => (rows[number - 1] as Row).index);
  }

  /** One entry that is too large for one statement, each part after the one before; all or none of it. */
  async #storeParts(parts: Row[][]): Promise<number[]> {
    try {
      await this.#database.transaction(async (session) => {
        for (const part of parts) {
          const before = (part[0] as Row).seq - 1;
          const stored = await this.#store(
            session,
            part.map((row) => ({ ...row, before })),
          );
          if (stored.length < part.length) throw new Refused();
        }
      });
      return [0];
    } catch (error) {
      if (error instanceof Refused) return [];
      throw error;
    }
  }
}

class Refused extends Error {}

/** A set of the entry with this index. */
type Row = { index: number; database: string; epoch: number; before: number; seq: number; set: Buffer };

function rowOf({ database, epoch, before }: Entry, index: number, set: Buffer, seq: number): Row {
  return { index, database, epoch, before, seq, set };
}

/** Parts of `LIMITS.logGroupBytes` where there is one entry; entries of several databases are fewer bytes. */
function inParts(rows: Row[]): Row[][] {
  if (rows.some(({ index }) => index > 0)) return [rows];
  const parts: Row[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    bytes += row.set.length;
    if (bytes > LIMITS.logGroupBytes) {
      parts.push([]);
      bytes = row.set.length;
    }
    parts.at(-1)?.push(row);
  }
  return parts;
}

/** Whether the next try may have another end: also when another transaction was at the same, or an earlier try of the same was stored then. */
function mayPass(error: unknown): boolean {
  return isAway(error) || stateOf(error)?.startsWith('40') === true || stateOf(error) === ALREADY_THERE;
}
