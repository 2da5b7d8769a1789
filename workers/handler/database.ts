/** `db`: an app's database as a handler sees it (decisions, section 3). Reads run here, writes go to the writer. */
import type { DbClient } from '../../protocol/db-client.ts';
import type { Row, RunResult } from '../../protocol/frames.ts';
import type { Call } from './call.ts';
import { toParams, toStatements } from './parameters.ts';
import type { Reader } from './reader.ts';

/** What `db.prepare(sql)` gives. */
export type HandlerStatement = {
  get(...params: unknown[]): Promise<Row | null>;
  all(...params: unknown[]): Promise<Row[]>;
  run(...params: unknown[]): Promise<RunResult>;
};

/** The operations of `db` and of `tx` alike, each one message to the writer. Errors keep SQLite's `code`. */
class Operations {
  protected readonly client: DbClient;
  readonly #tx: number;
  /** What was asked and not answered; made with the first of it, because most calls only read. */
  #pending: Set<Promise<unknown>> | null = null;

  constructor(client: DbClient, tx: number) {
    this.client = client;
    this.#tx = tx;
  }

  prepare(sql: string): HandlerStatement {
    return {
      get: (...params) => this.get(sql, ...params),
      all: (...params) => this.all(sql, ...params),
      run: (...params) => this.run(sql, ...params),
    };
  }

  /** The first row, or null. */
  get(sql: string, ...params: unknown[]): Promise<Row | null> {
    return this.ask(() => this.client.get(toText(sql), toParams(params), this.#tx));
  }

  all(sql: string, ...params: unknown[]): Promise<Row[]> {
    return this.ask(() => this.client.all(toText(sql), toParams(params), this.#tx));
  }

  run(sql: string, ...params: unknown[]): Promise<RunResult> {
    return this.ask(() => this.client.run(toText(sql), toParams(params), this.#tx));
  }

  /** `[[sql, ...params], …]`: all of them or none. */
  batch(statements: [sql: string, ...params: unknown[]][]): Promise<RunResult[]> {
    return this.ask(() => this.client.batch(toStatements(statements), this.#tx));
  }

  /** Several statements in one text, all of them or none. */
  exec(sql: string): Promise<null> {
    return this.ask(() => this.client.exec(toText(sql), this.#tx));
  }

  /** True while something that was asked has not been answered. */
  get busy(): boolean {
    return this.#pending !== null && this.#pending.size > 0;
  }

  /** Waits for what was asked and not awaited; rejects when one of it failed. */
  async settle(): Promise<void> {
    while (this.#pending !== null && this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Throws when this can no longer be used. */
  protected permit(): void {}

  protected ask<T>(operation: () => Promise<T>): Promise<T> {
    let asked: Promise<T>;
    try {
      this.permit();
      asked = operation();
    } catch (error) {
      return Promise.reject(error);
    }
    // The promise that is handed out has no other handler of ours, so that a failure that nobody looks at is still reported.
    this.#pending ??= new Set();
    const pending = this.#pending;
    // By hand: `finally` makes three promises more, for each statement.
    const tracked = new Promise<T>((resolve, reject) => {
      asked.then(
        (value) => {
          pending.delete(tracked);
          resolve(value);
        },
        (error: unknown) => {
          pending.delete(tracked);
          reject(error as Error);
        },
      );
    });
    pending.add(tracked);
    return tracked;
  }
}

/** What `db.transaction` hands to its callback. */
export class Transaction extends Operations {
  readonly #call: Call;
  #ended = false;

  constructor(client: DbClient, tx: number, call: Call) {
    super(client, tx);
    this.#call = call;
  }

  transaction(): Promise<never> {
    return Promise.reject(new Error('Transactions do not nest: use the tx that is open.'));
  }

  end(): void {
    this.#ended = true;
  }

  protected override permit(): void {
    this.#call.assertWanted();
    if (this.#ended) throw new Error('This transaction has ended; tx cannot be used after its callback.');
  }
}

/** The `db` of one call. */
export class CallDatabase extends Operations {
  readonly #reader: Reader;
  readonly #call: Call;
  #transactionOpen = false;

  constructor(client: DbClient, reader: Reader, call: Call) {
    super(client, 0);
    this.#reader = reader;
    this.#call = call;
  }

  override get(sql: string, ...params: unknown[]): Promise<Row | null> {
    try {
      this.#call.assertWanted();
      const statement = this.#reader.statement(toText(sql));
      if (statement !== null) return Promise.resolve(statement.get(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return super.get(sql, ...params);
  }

  override all(sql: string, ...params: unknown[]): Promise<Row[]> {
    try {
      this.#call.assertWanted();
      const statement = this.#reader.statement(toText(sql));
      if (statement !== null) return Promise.resolve(statement.all(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return super.all(sql, ...params);
  }

  /**
   * Runs `work` while holding the app's write lane, commits when it returns, and rolls back when it throws, when the
   * call is over, or (in the writer) when the lease is over.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T> | T): Promise<T> {
    if (typeof work !== 'function') return Promise.reject(new TypeError('db.transaction takes a function (tx) => ….'));
    return this.ask(() => this.#inTransaction(work));
  }

  async #inTransaction<T>(work: (tx: Transaction) => Promise<T> | T): Promise<T> {
    this.#transactionOpen = true;
    try {
      const number = await this.client.begin();
      const tx = new Transaction(this.client, number, this.#call);
      try {
        this.#call.assertWanted();
        const value = await Promise.race([work(tx), this.#call.whenOver()]);
        await tx.settle();
        tx.end();
        await this.client.commit(number);
        return value;
      } catch (error) {
        tx.end();
        // Not awaited: a writer that was lost has rolled back already, and is not worth waiting for. It comes before
        // whatever this connection asks next, and fails where the transaction has ended by itself, which is all we want.
        this.client.rollback(number).catch(() => {});
        throw error;
      }
    } finally {
      this.#transactionOpen = false;
    }
  }

  protected override permit(): void {
    this.#call.assertWanted();
    // It would wait for the lane that the transaction holds, and the transaction for it.
    if (this.#transactionOpen)
      throw new Error('A transaction of this call is open: write through its tx, not through db.');
  }
}

function toText(sql: unknown): string {
  if (typeof sql !== 'string') throw new TypeError(`SQL must be a string, not ${sql === null ? 'null' : typeof sql}.`);
  return sql;
}
