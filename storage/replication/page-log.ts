/**
 * Stores the page sets of committed groups in the log of a cluster: those of all databases of a group in one round trip, which is one
 * transaction (specification, "Log of pages").
 */
import type pg from 'pg';
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Connection, unavailable } from './connection.ts';

/** What one database adds: encoded sets, whose seqs follow on `before`, the seq of its latest entry. */
export type Entry = { database: string; epoch: number; before: number; sets: Buffer[] };

/** The entry is in the log; or its bucket has another owner or epoch, or somebody else added to the database after `before`. */
export type Outcome = 'stored' | 'fenced';

const APPEND = {
  name: 'append',
  text: 'SELECT svc.append($1, $2, $3, $4, $5, $6, $7, $8, $9) AS number',
};
const READ_ONLY = '25006';
const ALREADY_THERE = '23505';
const IS_STORED = `SELECT 1 FROM svc.log WHERE bucket = $1 AND database = $2 AND seq = $3 AND epoch = $4 AND frames = $5`;

export class PageLog {
  readonly #node: string;
  readonly #connection: Connection;

  /** `node` is the owner's name in `svc.buckets`. */
  constructor(url: string, node: string) {
    this.#node = node;
    this.#connection = new Connection(url);
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
        return await this.#connection.use((client) => this.#offer(client, entries, tries > 1));
      } catch (error) {
        if (performance.now() > until || !isLost(error)) throw unavailable(error);
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(50 * tries, 500)));
    }
  }

  async #offer(client: pg.Client, entries: Entry[], isAgain: boolean): Promise<Outcome[]> {
    const rows = entries.flatMap((entry, index) =>
      entry.sets.map((set, n) => rowOf(entry, index, set, entry.before + 1 + n)),
    );
    const parts = inParts(rows);
    const stored = new Set(
      parts.length === 1 ? await this.#store(client, rows) : await this.#storeParts(client, parts),
    );
    // An earlier try may have been stored after all, or be stored while this one waits for its lock.
    if (isAgain) {
      for (const [index, { database, epoch, before, sets }] of entries.entries()) {
        if (stored.has(index)) continue;
        const found = await client.query(IS_STORED, [bucketOf(database), database, before + 1, epoch, sets[0]]);
        if (found.rows.length > 0) stored.add(index);
      }
    }
    return entries.map((_, index) => (stored.has(index) ? 'stored' : 'fenced'));
  }

  /** Answers the indexes of the entries that it stored. */
  async #store(client: pg.Client, rows: Row[]): Promise<number[]> {
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
    // The driver knows this limit for one query, its types do not.
    const query = { ...APPEND, values, query_timeout: LIMITS.logAnswerMs + end / LIMITS.logBytesPerMs };
    const answer = await client.query<{ number: number }>(query);
    return answer.rows.map(({ number }) => (rows[number - 1] as Row).index);
  }

  /** One entry that is too large for one statement, each part after the one before; all or none of it. */
  async #storeParts(client: pg.Client, parts: Row[][]): Promise<number[]> {
    await client.query('BEGIN');
    for (const part of parts) {
      const before = (part[0] as Row).seq - 1;
      const stored = await this.#store(
        client,
        part.map((row) => ({ ...row, before })),
      );
      if (stored.length === part.length) continue;
      await client.query('ROLLBACK');
      return [];
    }
    await client.query('COMMIT');
    return [0];
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

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

/**
 * Whether the next try may have another end: the connection ended or was refused, the server stops, starts, or became read-only, or
 * an earlier try of the same was stored at the same time.
 */
function isLost(error: unknown): boolean {
  const { code } = error as { code?: string };
  // Five characters are PostgreSQL's: classes 08 and 57 are connections and shutdowns, 40 is about transactions at the same time.
  if (code?.length !== 5 || code.startsWith('E')) return true;
  return /^(?:08|40|57)/.test(code) || code === READ_ONLY || code === ALREADY_THERE;
}
