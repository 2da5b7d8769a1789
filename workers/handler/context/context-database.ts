/**
 * Gives handlers their database, as `db` and `tx` (specification, "Database of an app"). Pure reads run in this thread
 * (`reader.ts`), everything else goes to the writer.
 */
import type { DbClient, Timed } from '../../../protocol/wire/db-client.ts';
import type { Row, RunResult } from '../../../protocol/wire/frames.ts';
import type { HandlerCall } from '../calls.ts';
import { type RowsJson, rowsJsonOf, rowsToJson } from '../result.ts';
import { placeError, StatementSites, siteOf } from './call-sites.ts';
import type { Reader, ReadStatement } from './reader.ts';
import { statementRuns, writerAsked } from './reads.ts';
import { toParams, toStatements, toText } from './sql-params.ts';

/** Where operations go. */
export type Writer = Pick<DbClient, 'get' | 'all' | 'run' | 'batch' | 'exec' | 'begin' | 'commit' | 'rollback' | 'end'>;

/** What `db.prepare(sql)` gives. */
type HandlerStatement = {
  get(...params: unknown[]): Promise<Row | null>;
  all(...params: unknown[]): Promise<Row[]>;
  json(...params: unknown[]): Promise<RowsJson>;
  run(...params: unknown[]): Promise<RunResult>;
};

// App code could replace it.
const { apply } = Reflect;
/** Arguments that take 4 KiB of the stack. */
const ROOM = new Array(512).fill(null);
const nothing = (): void => {};

const sites = new StatementSites();

const ENDED = 'This transaction has ended; tx cannot be used after its callback.';
// It would wait for the lane that the transaction holds, and the transaction for it.
const IN_TRANSACTION = 'A transaction of this call is open: write through its tx, not through db.';

// Not methods, because handlers hold the object.
/** Whether operations of the call are not answered yet. */
export let isPending: (db: CallDatabase) => boolean;
/** Resolves when the call's operations are answered or have failed. */
export let finished: (db: CallDatabase) => Promise<void>;

/** The `db` of one call, or the `tx` of a transaction. Each operation is one message to the writer. Errors keep SQLite's `code`. */
export class CallDatabase {
  readonly #client: Writer;
  /** Null in a transaction, which reads its own writes. */
  readonly #reader: Reader | null;
  readonly #call: HandlerCall;
  /** The number of the transaction; 0 outside. */
  readonly #tx: number;
  /** Why it cannot be used now. */
  #blocked: string | null = null;
  /** Unanswered operations; made with the first one, because most calls only read. */
  #pending: Set<Promise<unknown>> | null = null;

  static {
    isPending = (db) => db.#pending !== null && db.#pending.size > 0;
    finished = async (db) => {
      while (db.#pending !== null && db.#pending.size > 0) await Promise.allSettled(db.#pending);
    };
  }

  constructor(client: Writer, reader: Reader | null, call: HandlerCall, tx = 0) {
    this.#client = client;
    this.#reader = reader;
    this.#call = call;
    this.#tx = tx;
  }

  prepare(sql: string): HandlerStatement {
    return {
      get: (...params) => this.get(sql, ...params),
      all: (...params) => this.all(sql, ...params),
      json: (...params) => this.json(sql, ...params),
      run: (...params) => this.run(sql, ...params),
    };
  }

  /** The first row, or null. */
  get(sql: string, ...params: unknown[]): Promise<Row | null> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(statement.get(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask(sql, this.get, (client) => client.get(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  all(sql: string, ...params: unknown[]): Promise<Row[]> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(statement.all(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask(sql, this.all, (client) => client.all(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  /** All rows as JSON for a handler to return: the same bytes as for the rows of `all`. */
  json(sql: string, ...params: unknown[]): Promise<RowsJson> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(rowsJsonOf(statement.json(toParams(params))));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask(sql, this.json, async (client) => {
      const rows = await client.all(toText(sql), toParams(params), this.#tx, this.#timed(sql));
      return rowsJsonOf(rowsToJson(rows));
    });
  }

  run(sql: string, ...params: unknown[]): Promise<RunResult> {
    return this.#ask(sql, this.run, (client) => client.run(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  /** `[[sql, ...params], …]`: all of them or none. */
  batch(statements: [sql: string, ...params: unknown[]][]): Promise<RunResult[]> {
    return this.#ask(statements?.[0]?.[0], this.batch, (client) =>
      client.batch(toStatements(statements), this.#tx, this.#call.trace?.operation('BATCH')),
    );
  }

  /** Several statements in one text, all of them or none. */
  exec(sql: string): Promise<null> {
    return this.#ask(sql, this.exec, (client) =>
      client.exec(toText(sql), this.#tx, this.#call.trace?.operation('EXEC')),
    );
  }

  /**
   * Runs `work` while holding the app's write lane, commits when it returns, and rolls back when it throws, when the call is over,
   * or (in the writer) when the lease is over.
   */
  transaction<T>(work: (tx: CallDatabase) => Promise<T> | T): Promise<T> {
    if (this.#tx !== 0) return Promise.reject(new Error('Transactions do not nest: use the open tx.'));
    if (typeof work !== 'function') return Promise.reject(new TypeError('db.transaction takes a function (tx) => ….'));
    return this.#ask('BEGIN', this.transaction, (client) => this.#inTransaction(client, work));
  }

  async #inTransaction<T>(client: Writer, work: (tx: CallDatabase) => Promise<T> | T): Promise<T> {
    this.#blocked = IN_TRANSACTION;
    try {
      const { trace } = this.#call;
      const number = await client.begin(trace?.operation('BEGIN'));
      const tx = new CallDatabase(client, null, this.#call, number);
      try {
        this.#call.assertWanted();
        const value = await Promise.race([work(tx), new Promise<never>((_, reject) => this.#call.onOver(reject))]);
        if (tx.#mustSettle()) await tx.#answered();
        tx.#blocked = ENDED;
        // Operations that are not awaited travel together with the commit. The writer refuses the commit if one failed, with a
        // better message.
        const committed = client.commit(number, trace?.operation('COMMIT'));
        committed.catch(() => {});
        await tx.#answered();
        await committed;
        return value;
      } catch (error) {
        tx.#blocked = ENDED;
        // Not awaited: a writer that was lost has rolled back already. It comes before later operations of this connection, and
        // may fail if the transaction has ended by itself.
        client.rollback(number).catch(() => {});
        throw error;
      }
    } finally {
      this.#blocked = null;
    }
  }

  #timed(sql: string): Timed | undefined {
    const { trace } = this.#call;
    return trace === null ? undefined : trace.statement(sql);
  }

  /** The statement when it is a pure read that this thread can answer, else null. */
  #readable(sql: string): ReadStatement | null {
    if (this.#reader === null) return null;
    this.#call.assertWanted();
    // Where too little stack is left to make an error of SQLite, better-sqlite3 ends the process: the overflow comes here instead.
    apply(nothing, undefined, ROOM);
    const statement = this.#reader.statement(toText(sql));
    if (statement !== null) statementRuns(statement);
    return statement;
  }

  /** An operation failed that was not awaited; or the handler awaits one, and may send more after it. */
  #mustSettle(): boolean {
    for (const asked of (this.#pending ?? []) as Set<Asked<unknown>>) {
      if (asked.failed && asked.awaited) this.#pending?.delete(asked);
      else if (asked.failed || asked.awaited) return true;
    }
    return false;
  }

  /** Rejects when an operation failed that is not answered yet, or that was not awaited. */
  async #answered(): Promise<void> {
    while (this.#pending !== null && this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** `called` is the method that the handler called with `sql`, for the stack of a failure. */
  #ask<T>(sql: unknown, called: (...args: never[]) => unknown, operation: (client: Writer) => Promise<T>): Promise<T> {
    let asked: Promise<T>;
    try {
      this.#call.assertWanted();
      writerAsked();
      if (this.#blocked !== null) throw new Error(this.#blocked);
      sites.note(this.#call.tool, sql, called);
      asked = operation(this.#client);
    } catch (error) {
      return this.#refused(error);
    }
    // We handle the inner promise only, so that a failure that the handler ignores is still reported as unhandled.
    this.#pending ??= new Set();
    return this.#tx === 0 ? this.#ofCall(asked, sql, this.#pending) : this.#ofTransaction(asked, sql, this.#pending);
  }

  #ofCall<T>(asked: Promise<T>, sql: unknown, pending: Set<Promise<unknown>>): Promise<T> {
    // Who waits for the inner one does not handle the failure.
    pending.add(asked);
    // Not with `finally`, which makes three more promises for each statement.
    const tracked = asked.then(
      (value) => {
        pending.delete(asked);
        this.#call.wrote = true;
        return value;
      },
      (error: unknown) => {
        pending.delete(asked);
        this.#place(error, sql);
        this.#call.noteFailedWrite(error, tracked);
        throw error;
      },
    );
    return tracked;
  }

  #ofTransaction<T>(asked: Promise<T>, sql: unknown, pending: Set<Promise<unknown>>): Promise<T> {
    const tracked = new Asked<T>((resolve, reject) => {
      asked.then(
        (value) => {
          pending.delete(tracked);
          resolve(value);
        },
        (error: unknown) => {
          if (tracked.awaited) pending.delete(tracked);
          else tracked.failed = true;
          this.#place(error, sql);
          reject(error as Error);
        },
      );
    });
    pending.add(tracked);
    return tracked;
  }

  /** An error of the writer has no place of the app: it gets that of the handler that awaits it, or that ran the statement first. */
  #place(error: unknown, sql: unknown): void {
    placeError(error, siteOf(), sites.get(this.#call.tool, sql));
  }

  /** An operation that never left. It fails its transaction as one that the writer refused. */
  #refused<T>(error: unknown): Promise<T> {
    if (this.#tx !== 0 && this.#blocked === null) {
      const refused = new Asked<T>((_, reject) => reject(error as Error));
      refused.failed = true;
      this.#pending ??= new Set();
      this.#pending.add(refused);
      return refused;
    }
    const refused = Promise.reject<T>(error);
    this.#call.noteFailedWrite(error, refused);
    return refused;
  }
}

/**
 * A promise that knows whether it is awaited, for the operations of a transaction: `await` calls `then` of a promise whose class is
 * not Promise.
 */
class Asked<T> extends Promise<T> {
  readonly #isAsked = true;
  awaited = false;
  /** It failed before it was awaited. */
  failed = false;

  /** `instanceof` would run a proxy that an app made the prototype of a promise. */
  static has(promise: Promise<unknown>): boolean {
    return #isAsked in promise && promise.#isAsked;
  }

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.awaited = true;
    return super.then(onFulfilled, onRejected);
  }
}

/** The transaction fails with it, so that its own promise says whether the handler saw it. */
export function isOfTransaction(operation: Promise<unknown>): boolean {
  return Asked.has(operation);
}
