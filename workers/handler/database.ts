/** `db`: an app's database as a handler sees it (decisions, section 3). Reads run here, writes go to the writer. */

import type { Row, RunResult } from '../../protocol/frames.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { closeClass } from './built-ins.ts';
import type { Call } from './call.ts';
import { toParams, toStatements } from './parameters.ts';
import type { Reader } from './reader.ts';

/** What `db.prepare(sql)` gives. */
export type HandlerStatement = {
  get(...params: unknown[]): Promise<Row | null>;
  all(...params: unknown[]): Promise<Row[]>;
  run(...params: unknown[]): Promise<RunResult>;
};

// What a handler is given shows nothing but what it is for: these reach behind it, and only this module has them.
let ask: <T>(of: Operations, operation: (client: DbClient) => Promise<T>) => Promise<T>;
let block: (of: Operations, why: string | null) => void;
let settle: (of: Operations) => Promise<void> | null;
let finish: (of: Operations) => Promise<void>;

/** The operations of `db` and of `tx` alike, each one message to the writer. Errors keep SQLite's `code`. */
class Operations {
  readonly #client: DbClient;
  readonly #tx: number;
  readonly #call: Call;
  /** Why it cannot be used now. */
  #blocked: string | null = null;
  /** What was asked and not answered; made with the first of it, because most calls only read. */
  #pending: Set<Promise<unknown>> | null = null;

  static {
    ask = (of, operation) => of.#ask(operation);
    block = (of, why) => {
      of.#blocked = why;
    };
    settle = (of) => (of.#pending !== null && of.#pending.size > 0 ? of.#settle(of.#pending) : null);
    finish = async (of) => {
      while (of.#pending !== null && of.#pending.size > 0) await Promise.allSettled(of.#pending);
    };
  }

  constructor(client: DbClient, tx: number, call: Call) {
    this.#client = client;
    this.#tx = tx;
    this.#call = call;
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
    return this.#ask((client) => client.get(toText(sql), toParams(params), this.#tx));
  }

  all(sql: string, ...params: unknown[]): Promise<Row[]> {
    return this.#ask((client) => client.all(toText(sql), toParams(params), this.#tx));
  }

  run(sql: string, ...params: unknown[]): Promise<RunResult> {
    return this.#ask((client) => client.run(toText(sql), toParams(params), this.#tx));
  }

  /** `[[sql, ...params], …]`: all of them or none. */
  batch(statements: [sql: string, ...params: unknown[]][]): Promise<RunResult[]> {
    return this.#ask((client) => client.batch(toStatements(statements), this.#tx));
  }

  /** Several statements in one text, all of them or none. */
  exec(sql: string): Promise<null> {
    return this.#ask((client) => client.exec(toText(sql), this.#tx));
  }

  async #settle(pending: Set<Promise<unknown>>): Promise<void> {
    while (pending.size > 0) await Promise.all(pending);
  }

  #ask<T>(operation: (client: DbClient) => Promise<T>): Promise<T> {
    let asked: Promise<T>;
    try {
      this.#call.assertWanted();
      if (this.#blocked !== null) throw new Error(this.#blocked);
      asked = operation(this.#client);
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
          if (this.#tx === 0) this.#call.wrote = true;
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

const ENDED = 'This transaction has ended; tx cannot be used after its callback.';
// It would wait for the lane that the transaction holds, and the transaction for it.
const IN_TRANSACTION = 'A transaction of this call is open: write through its tx, not through db.';

/** What `db.transaction` hands to its callback. */
export class Transaction extends Operations {
  transaction(): Promise<never> {
    return Promise.reject(new Error('Transactions do not nest: use the open tx.'));
  }
}

/** The `db` of one call. */
export class CallDatabase extends Operations {
  readonly #reader: Reader;
  readonly #call: Call;

  constructor(client: DbClient, reader: Reader, call: Call) {
    super(client, 0, call);
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
    return ask(this, (client) => this.#inTransaction(client, work));
  }

  async #inTransaction<T>(client: DbClient, work: (tx: Transaction) => Promise<T> | T): Promise<T> {
    block(this, IN_TRANSACTION);
    try {
      const number = await client.begin();
      const tx = new Transaction(client, number, this.#call);
      try {
        this.#call.assertWanted();
        const value = await Promise.race([work(tx), this.#call.whenOver()]);
        await settle(tx);
        block(tx, ENDED);
        await client.commit(number);
        return value;
      } catch (error) {
        block(tx, ENDED);
        // Not awaited: a writer that was lost has rolled back already, and is not worth waiting for. It comes before
        // whatever this connection asks next, and fails where the transaction has ended by itself, which is all we want.
        client.rollback(number).catch(() => {});
        throw error;
      }
    } finally {
      block(this, null);
    }
  }
}

closeClass(Operations);
closeClass(Transaction);
closeClass(CallDatabase);

/** Resolves when what the call asked and did not await is answered, and rejects when some of it failed; null when there is nothing. */
export function settled(db: CallDatabase): Promise<void> | null {
  return settle(db);
}

/** Resolves when what the call asked is answered, however it ended. */
export function finished(db: CallDatabase): Promise<void> {
  return finish(db);
}

function toText(sql: unknown): string {
  if (typeof sql !== 'string') throw new TypeError(`SQL must be a string, not ${sql === null ? 'null' : typeof sql}.`);
  return sql;
}
