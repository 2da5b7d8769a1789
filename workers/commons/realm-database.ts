/** Opens databases whose rows and errors belong to this realm: SQLite's own belong to that of the thread. */
import type Sqlite from 'better-sqlite3';
import type { OpenSqlite } from '../handler/context/reader.ts';
import { leave } from './leaving.ts';

/** As better-sqlite3's. */
export class SqliteError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}
Object.defineProperty(SqliteError.prototype, 'name', { value: 'SqliteError', writable: true, configurable: true });

type Handle = Pick<Sqlite.Database, 'prepare' | 'pragma' | 'defaultSafeIntegers' | 'close'>;
type Statement = Sqlite.Statement<unknown[], unknown>;

/** `open` gives those of the thread. */
export function inRealm(open: OpenSqlite): OpenSqlite {
  return (file, options) => new RealmDatabase(owned(() => open(file, options))) as unknown as Sqlite.Database;
}

class RealmDatabase {
  readonly #db: Handle;

  constructor(db: Handle) {
    this.#db = db;
  }

  prepare(sql: string): RealmStatement {
    return new RealmStatement(owned(() => this.#db.prepare(sql)));
  }

  pragma(text: string): unknown {
    return owned(() => this.#db.pragma(text));
  }

  defaultSafeIntegers(on: boolean): this {
    this.#db.defaultSafeIntegers(on);
    return this;
  }

  close(): void {
    this.#db.close();
  }
}

class RealmStatement {
  readonly #statement: Statement;

  constructor(statement: Statement) {
    this.#statement = statement;
  }

  get source(): string {
    return this.#statement.source;
  }

  get reader(): boolean {
    return this.#statement.reader;
  }

  get readonly(): boolean {
    return this.#statement.readonly;
  }

  safeIntegers(on: boolean): this {
    this.#statement.safeIntegers(on);
    return this;
  }

  pluck(): this {
    this.#statement.pluck();
    return this;
  }

  raw(): this {
    this.#statement.raw();
    return this;
  }

  columns(): unknown[] {
    return this.#statement.columns().map((column) => ({ ...column }));
  }

  get(...params: unknown[]): unknown {
    return ownRow(owned(() => this.#statement.get(...params)));
  }

  all(...params: unknown[]): unknown[] {
    return Array.from(
      owned(() => this.#statement.all(...params)),
      ownRow,
    );
  }

  *iterate(...params: unknown[]): Generator<unknown> {
    const rows = owned(() => this.#statement.iterate(...params));
    try {
      for (;;) {
        const { done, value } = owned(() => rows.next());
        if (done) return;
        yield ownRow(value);
      }
    } finally {
      rows.return?.();
    }
  }
}

/** Rows are objects, or arrays where they are raw. The value of a plucked statement is one of ours, and stays as it is. */
function ownRow(row: unknown): unknown {
  if (typeof row !== 'object' || row === null || ArrayBuffer.isView(row)) return row;
  if (Array.isArray(row)) return Array.from(row as unknown[]);
  const own: Record<string, unknown> = { ...row };
  for (const key in own) {
    const value = own[key];
    // In a thread it is a `Buffer`.
    if (typeof value === 'object' && value !== null) leave('globals', `the blob "${key.slice(0, 80)}"`);
  }
  return own;
}

const CLASSES = { TypeError, RangeError, SyntaxError } as const;

function owned<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error) throw error;
    const { name, message, code } = error as Error & { code?: string };
    if (name === 'SqliteError') throw new SqliteError(message, String(code));
    const Class = name in CLASSES ? CLASSES[name as keyof typeof CLASSES] : Error;
    throw code === undefined ? new Class(message) : Object.assign(new Class(message), { code });
  }
}
