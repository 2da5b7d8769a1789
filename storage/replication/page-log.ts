/**
 * Stores the page sets of committed groups in the log of a cluster: those of all databases of a group in one round trip, which is one
 * transaction (specification, "Log of pages").
 */
import { randomUUID } from 'node:crypto';
import { LIMITS } from '../../protocol/limits.ts';
import { type Database, isAway, type Session, stateOf } from '../cluster/database.ts';

/** What one database adds: encoded sets, of which the first one has this seq. `writer` is that under which the database was opened. */
export type Entry = { database: string; bucket: number; writer: string; epoch: number; seq: number; sets: Buffer[] };

/** The entry is in the log; or its bucket has another owner or epoch, or the node another writer. */
export type Outcome = 'stored' | 'fenced';

const APPEND = { name: 'append', text: 'SELECT svc.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS fenced' };
const BEGIN = `
  INSERT INTO svc.writers AS w (node, writer, groups, fenced) VALUES ($1, $2, 0, '{}')
  ON CONFLICT (node) DO UPDATE SET writer = excluded.writer, groups = 0, fenced = '{}' WHERE w.writer <> excluded.writer`;
/** What was sent of these groups waits no longer: it is stored, or never will be. */
const SKIP = `
  UPDATE svc.writers SET groups = $4, fenced = '{}' WHERE node = $1 AND writer = $2 AND groups BETWEEN $3 AND $4 RETURNING 1`;

/** As which this process writes. `groups` have a known end, and `unknown` ones after them not. */
type Writer = {
  readonly id: string;
  begun: Promise<unknown> | null;
  skipping: Promise<void> | null;
  groups: number;
  unknown: number;
};

export class PageLog {
  readonly #database: Database;
  readonly #node: string;
  #writer: Writer = newWriter();

  /** `node` is the owner's name in `svc.buckets`. */
  constructor(database: Database, node: string) {
    this.#database = database;
    this.#node = node;
  }

  /**
   * Makes this the writer of the node, if it is not, and answers what entries name it by. What was sent before is in the log then, or
   * never will be: a database is read after this. Rejects with `STORAGE_UNAVAILABLE`.
   */
  async begin(): Promise<string> {
    for (;;) {
      const writer = this.#writer;
      writer.begun ??= this.#database.rows(BEGIN, [this.#node, writer.id]);
      try {
        await writer.begun;
      } catch (error) {
        writer.begun = null;
        throw error;
      }
      await this.#skipUnknown(writer);
      if (writer === this.#writer) return writer.id;
    }
  }

  /**
   * Adds all entries, of different databases, and resolves after the commit; one call after the other. When the connection is lost
   * meanwhile, it offers them again, which does no harm. Rejects with `STORAGE_UNAVAILABLE` when the database was silent for
   * `LIMITS.logPatienceMs`: what was sent may be in the log then, or come to it until the next `append` or `begin`.
   */
  async append(entries: Entry[]): Promise<Outcome[]> {
    const writer = this.#writer;
    const isOurs = (entry: Entry): boolean => entry.writer === writer.id;
    const rows = entries.flatMap((entry, index) => (isOurs(entry) ? rowsOf(entry, index) : []));
    const fenced = rows.length === 0 ? [] : await this.#patiently(writer, inParts(rows));
    const lost = new Set(fenced?.map((number) => rows[number - 1]?.index));
    return entries.map((entry, index) => (fenced !== null && isOurs(entry) && !lost.has(index) ? 'stored' : 'fenced'));
  }

  /** Answers the numbers of the rows, from 1 on, that were not stored; null when this is not the writer of the node any more. */
  async #patiently(writer: Writer, parts: Row[][]): Promise<number[] | null> {
    const until = performance.now() + LIMITS.logPatienceMs;
    for (let tries = 1; ; tries++) {
      try {
        await this.#skipUnknown(writer);
        const fenced = writer === this.#writer ? await this.#store(writer, parts) : null;
        if (fenced === null) this.#end(writer);
        return fenced;
      } catch (error) {
        if (performance.now() > until || !mayPass(error)) {
          writer.unknown = parts.length;
          throw error;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(50 * tries, 500)));
    }
  }

  async #store(writer: Writer, parts: Row[][]): Promise<number[] | null> {
    if (parts.length > 1) return this.#storeParts(writer, parts);
    const fenced = await this.#call(this.#database, writer, parts[0] as Row[], writer.groups + 1);
    writer.groups++;
    return fenced;
  }

  /** A group that is too large for one statement, which has one entry: all or none of it. */
  async #storeParts(writer: Writer, parts: Row[][]): Promise<number[] | null> {
    try {
      await this.#database.transaction(async (session) => {
        for (const [index, part] of parts.entries()) {
          const fenced = await this.#call(session, writer, part, writer.groups + 1 + index);
          if (fenced === null || fenced.length > 0) throw new Refused(fenced);
        }
      });
      writer.groups += parts.length;
      return [];
    } catch (error) {
      if (error instanceof Refused) return error.fenced;
      throw error;
    }
  }

  async #call(session: Session, writer: Writer, rows: Row[], group: number): Promise<number[] | null> {
    let end = 1;
    const starts = rows.map(({ set }) => {
      const start = end;
      end += set.length;
      return start;
    });
    const values = [
      this.#node,
      writer.id,
      group,
      arrayOf(rows.map(({ entry }) => entry.bucket)),
      arrayOf(rows.map(({ entry }) => JSON.stringify(entry.database))),
      arrayOf(rows.map(({ entry }) => entry.epoch)),
      arrayOf(rows.map(({ seq }) => seq)),
      arrayOf(starts),
      arrayOf(rows.map(({ set }) => set.length)),
      Buffer.concat(rows.map(({ set }) => set)),
    ];
    const [answer] = await session.rows<{ fenced: number[] | null }>(APPEND, values);
    return answer?.fenced ?? null;
  }

  /** Makes the end of groups known of which nobody waits for an answer any more. */
  async #skipUnknown(writer: Writer): Promise<void> {
    if (writer.unknown === 0) return;
    writer.skipping ??= this.#skip(writer);
    await writer.skipping;
  }

  async #skip(writer: Writer): Promise<void> {
    const groups = writer.groups + writer.unknown;
    try {
      const skipped = await this.#database.rows(SKIP, [this.#node, writer.id, writer.groups, groups]);
      if (skipped.length === 0) this.#end(writer);
      writer.groups = groups;
      writer.unknown = 0;
    } finally {
      writer.skipping = null;
    }
  }

  /** It is the writer of the node no more: whoever opens a database next begins again. */
  #end(writer: Writer): void {
    if (this.#writer === writer) this.#writer = newWriter();
  }
}

function newWriter(): Writer {
  return { id: randomUUID(), begun: null, skipping: null, groups: 0, unknown: 0 };
}

/** Ends the transaction of a group in parts. */
class Refused extends Error {
  readonly fenced: number[] | null;

  constructor(fenced: number[] | null) {
    super('refused');
    this.fenced = fenced;
  }
}

/** As PostgreSQL writes an array. The driver does it too, and looks at each element for what would have to be escaped. */
function arrayOf(elements: (number | string)[]): string {
  return `{${elements.join(',')}}`;
}

/** A set of the entry with this index. */
type Row = { entry: Entry; index: number; seq: number; set: Buffer };

function rowsOf(entry: Entry, index: number): Row[] {
  return entry.sets.map((set, n) => ({ entry, index, seq: entry.seq + n, set }));
}

/** Parts of `LIMITS.logGroupBytes` where there is one entry; entries of several databases are fewer bytes. */
function inParts(rows: Row[]): Row[][] {
  if (rows.some(({ index }) => index !== rows[0]?.index)) return [rows];
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

/** Whether the next try may have another end: the database was away, or another transaction was at the same. */
function mayPass(error: unknown): boolean {
  return isAway(error) || stateOf(error)?.startsWith('40') === true;
}
