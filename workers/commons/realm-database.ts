/** Opens databases whose rows and errors belong to this realm: SQLite's own belong to that of the thread. */
import type Sqlite from 'better-sqlite3';
import type { OpenSqlite } from '../handler/context/reader.ts';
import { across } from './crossing.ts';
import { leave } from './leaving.ts';

type Handle = Pick<Sqlite.Database, 'prepare' | 'pragma' | 'defaultSafeIntegers' | 'close'>;
type Statement = Sqlite.Statement<unknown[], unknown>;

/** `open` gives those of the thread. */
export function inRealm(open: OpenSqlite): OpenSqlite {
  return (file, options) => new RealmDatabase(across(() => open(file, options))) as unknown as Sqlite.Database;
}

class RealmDatabase {
  readonly #db: Handle;

  constructor(db: Handle) {
    this.#db = db;
  }

  prepare(sql: string): RealmStatement {
    return new RealmStatement(across(() => this.#db.prepare(sql)));
  }

  pragma(text: string): unknown {
    return across(() => this.#db.pragma(text));
  }

  defaultSafeIntegers(on: boolean): this {
    across(() => this.#db.defaultSafeIntegers(on));
    return this;
  }

  close(): void {
    across(() => this.#db.close());
  }
}

class RealmStatement {
  readonly #statement: Statement;

  constructor(statement: Statement) {
    this.#statement = statement;
  }

  get source(): string {
    return across(() => this.#statement.source);
  }

  get reader(): boolean {
    return across(() => this.#statement.reader);
  }

  get readonly(): boolean {
    return across(() => this.#statement.readonly);
  }

  safeIntegers(on: boolean): this {
    across(() => this.#statement.safeIntegers(on));
    return this;
  }

  pluck(): this {
    across(() => this.#statement.pluck());
    return this;
  }

  raw(): this {
    across(() => this.#statement.raw());
    return this;
  }

  columns(): unknown[] {
    return copied(
      across(() => this.#statement.columns()),
      (column) => ({ ...column }),
    );
  }

  get(...params: unknown[]): unknown {
    return ownRow(across(() => this.#statement.get(...params)));
  }

  all(...params: unknown[]): unknown[] {
    return copied(
      across(() => this.#statement.all(...params)),
      ownRow,
    );
  }

  *iterate(...params: unknown[]): Generator<unknown> {
    const rows = across(() => this.#statement.iterate(...params));
    try {
      for (;;) {
        const { done, value } = across(() => rows.next());
        if (done) return;
        yield ownRow(value);
      }
    } finally {
      across(() => rows.return?.());
    }
  }
}

/** Rows are objects, or arrays where they are raw. The value of a plucked statement is one of ours, and stays as it is. */
function ownRow(row: unknown): unknown {
  if (typeof row !== 'object' || row === null || ArrayBuffer.isView(row)) return row;
  if (Array.isArray(row)) return copied(row, (value) => value);
  const own: Record<string, unknown> = { ...row };
  for (const key in own) {
    const value = own[key];
    // In a thread it is a `Buffer`.
    if (typeof value === 'object' && value !== null) leave('globals', `the blob "${key.slice(0, 80)}"`);
  }
  return own;
}

/** Not with the list's iterator, which is the thread's. */
function copied<T, O>(list: readonly T[], own: (one: T) => O): O[] {
  const copy: O[] = [];
  for (let i = 0; i < list.length; i++) copy.push(own(list[i] as T));
  return copy;
}
