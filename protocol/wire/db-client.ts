/** Client of the SQLite writer: each operation is a promise, paired with its answer by a number. */
import type { ErrorBody } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { DbError } from './db-error.ts';
import {
  DbOp,
  type Frame,
  type FrameOf,
  Kind,
  type MigrationFile,
  type Row,
  type RunResult,
  type SqlParams,
  type SqlStatement,
  type WriterTiming,
} from './frames.ts';
import { InFlight } from './in-flight.ts';
import type { Link, LinkHandlers } from './link.ts';
import { type DbAnswer, OpenTransaction } from './open-transaction.ts';

const LOST: ErrorBody = {
  code: 'WRITER_LOST',
  message: 'The connection to the database was lost; whether this statement took effect is unknown.',
};
const TRANSACTION_LOST: ErrorBody = {
  code: 'WRITER_LOST',
  message: 'The connection to the database was lost, and the transaction was rolled back.',
};
const UNAVAILABLE: ErrorBody = {
  code: 'WRITER_UNAVAILABLE',
  message: 'The database is not available; this statement was not run.',
};

type Outstanding = {
  frame: FrameOf<'db'>;
  /** The number of its transaction for whoever asked; 0 outside, `REPEATED` where nobody asked. */
  tx: number;
  /** Takes the whole answer. */
  answered: (answer: DbAnswer) => void;
  reject: (error: Error) => void;
};

/** Called with the writer's timing before the answer resolves; `error` is empty where the operation went well. */
export type Timed = (timing: WriterTiming, error: string) => void;

/** In place of the transaction's number: this client itself repeats it. */
const REPEATED = -1;

/**
 * A lost connection: its id, the last operation that was sent on it, whether a transaction was being repeated on it, and how
 * many writers were lost since, before they said how far it came.
 */
type Left = { connectionId: number; lastId: number; isAgain: boolean; lost: number };

// App code could replace them.
const { floor, random } = Math;
const CONNECTION_IDS = 2 ** 52;

/**
 * One database, as its ticket names it. The first operation connects, and so does the first one after the connection was lost.
 * While the writer is being replaced, all operations wait for the new one. It says how far the old one had come, and what cannot
 * be stored is sent again, an open transaction from its beginning. Operations with `timed` are those of a traced call.
 */
export class DbClient {
  readonly #open: (handlers: LinkHandlers, connectionId: number, socket?: string) => Link;
  readonly #errorOf: (body: ErrorBody) => Error;
  readonly #outstanding = new InFlight<Outstanding>();
  #link: Link | null = null;
  /** Where the shared writer said that the database has its own one. */
  #socket: string | undefined;
  /** A database has one at a time. */
  #tx: OpenTransaction | null = null;
  /** A new number for each connection. */
  #connectionId = 0;
  #left: Left | null = null;
  #lastId = 0;
  #unreachableSince = 0;
  #retry: NodeJS.Timeout | null = null;
  #retired: ErrorBody | null = null;

  /**
   * `open` connects to the writer's socket, or to `socket`, and says `hello` with the id of the connection. `errorOf` makes the
   * error of what the writer answers that an operation failed with.
   */
  constructor(
    open: (handlers: LinkHandlers, connectionId: number, socket?: string) => Link,
    errorOf: (body: ErrorBody) => Error = (body) => new DbError(body),
  ) {
    this.#open = open;
    this.#errorOf = errorOf;
  }

  run(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<RunResult> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.run, tx, sql, params], timed);
  }

  get(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<Row | null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.get, tx, sql, params], timed);
  }

  all(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<Row[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.all, tx, sql, params], timed);
  }

  /** All statements or none. */
  batch(statements: SqlStatement[], tx = 0, timed?: Timed): Promise<RunResult[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.batch, tx, statements], timed);
  }

  /** Several statements in one text, all or none. */
  exec(sql: string, tx = 0, timed?: Timed): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.exec, tx, sql], timed);
  }

  /** Waits for the database's lane and takes it; resolves with the number to pass as `tx` to later operations. */
  begin(timed?: Timed): Promise<number> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.begin, 0], timed);
  }

  /** Rejects and rolls back when an operation of the transaction fails that is under way now: it need not be awaited before. */
  commit(tx: number, timed?: Timed): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.commit, tx, this.#firstOf(tx)], timed);
  }

  rollback(tx: number): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.rollback, tx]);
  }

  userVersion(): Promise<number> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.userVersion, 0]);
  }

  /** Applies the pending files in one transaction, after a copy to `backupTo`; resolves with the numbers applied. */
  migrate(files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.migrate, 0, files, backupTo]);
  }

  /** Makes the writer close the file and every other connection to it. */
  close(): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.close, 0]);
  }

  /**
   * Makes the file what the log of pages has; a file that the log does not know is in it when this resolves. Nothing without such a log.
   */
  settle(): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.settle, 0]);
  }

  /** Ends the connection and rejects what is outstanding. A later operation would connect again. */
  end(): void {
    if (this.#retry) clearTimeout(this.#retry);
    this.#retry = null;
    this.#link?.close();
    this.#link = null;
    this.#left = null;
    this.#tx = null;
    this.#rejectAll(() => true, LOST);
  }

  /** Ends the connection for good: what is outstanding is rejected as by `end`, and every later operation with `why`. */
  retire(why: ErrorBody): void {
    this.#retired = why;
    this.end();
  }

  get isRetired(): boolean {
    return this.#retired !== null;
  }

  /** The number of the transaction's first operation that is under way; 0 when none is. */
  #firstOf(tx: number): number {
    for (const [id, asked] of this.#outstanding.entries()) if (asked.tx === tx) return id;
    return 0;
  }

  #ask<T>(frame: FrameOf<'db'>, timed?: Timed): Promise<T> {
    if (timed !== undefined) (frame as unknown[]).push(true);
    return new Promise<T>((resolve, reject) => {
      const tx = frame[3];
      if (this.#retired !== null) {
        reject(this.#errorOf(this.#retired));
        return;
      }
      if (tx !== 0 && this.#isGone(tx)) {
        reject(new DbError(TRANSACTION_LOST));
        return;
      }
      const answered = (answer: DbAnswer): void => {
        if (answer[3] !== undefined) timed?.(answer[3], answer[0] === Kind.dbResult ? '' : answer[2].code);
        if (answer[0] === Kind.dbResult) resolve(answer[2] as T);
        else reject(this.#errorOf(answer[2]));
      };
      const asked = { frame, tx, answered, reject };
      this.#outstanding.set(frame[1], asked);
      if (!this.#retry && !this.#left) this.#send(asked);
    });
  }

  /** Nothing can be asked of that transaction any more. The writer says why one has ended. */
  #isGone(tx: number): boolean {
    return this.#tx?.number === tx ? this.#tx.state === 'lost' : this.#link === null || this.#left !== null;
  }

  #send({ frame, tx, reject }: Outstanding): void {
    if (tx !== 0 && tx === this.#tx?.number) {
      if (this.#tx.state === 'repeating') return;
      frame[3] = this.#tx.current;
    }
    try {
      // The next operation of a transaction often follows at once.
      if (tx === 0) this.#connection().send(frame);
      else this.#connection().sendLater(frame);
    } catch (error) {
      // The frame is too large, or holds an integer of more than 64 bits.
      this.#outstanding.delete(frame[1]);
      reject(new DbError({ code: 'SQLITE_TOOBIG', message: (error as Error).message }));
    }
  }

  #connection(): Link {
    if (this.#link) return this.#link;
    this.#connectionId = 1 + floor(random() * CONNECTION_IDS);
    const handlers: LinkHandlers = {
      onFrame: (frame, link) => this.#receive(frame, link),
      onClose: (error, link) => this.#lost(error, link),
    };
    this.#link = this.#open(handlers, this.#connectionId, this.#socket);
    if (this.#left) this.#link.send([Kind.resume, this.#left.connectionId]);
    return this.#link;
  }

  #receive(frame: Frame, link: Link): void {
    if (frame[0] === Kind.elsewhere) {
      this.#link = null;
      link.close();
      this.#socket = frame[1];
      this.#again();
      return;
    }
    this.#unreachableSince = 0;
    if (frame[0] === Kind.resumed && this.#left) {
      this.#resumed(this.#left, frame);
      return;
    }
    if (frame[0] !== Kind.dbResult && frame[0] !== Kind.dbError) {
      link.close(new Error('The writer sent a frame that is not an answer.'));
      return;
    }
    const asked = this.#outstanding.get(frame[1]);
    if (!asked) return;
    this.#outstanding.delete(frame[1]);
    this.#follow(asked, frame);
    asked.answered(frame);
  }

  /** What the answer means for the transaction. */
  #follow({ frame, tx }: Outstanding, answer: DbAnswer): void {
    const op = frame[2];
    if (op === DbOp.begin) {
      if (answer[0] === Kind.dbResult && tx === 0) this.#tx = new OpenTransaction(answer[2] as number);
    } else if (tx !== 0 && tx === this.#tx?.number) {
      if (op === DbOp.commit || op === DbOp.rollback) this.#tx = null;
      else this.#tx.note(frame, answer);
    }
  }

  #lost(error: Error | null, link: Link): void {
    if (link !== this.#link) return;
    this.#link = null;
    if ((error as NodeJS.ErrnoException | null)?.syscall === 'connect') {
      // The database may be back at the writer that apps share.
      this.#socket = undefined;
      this.#unreachableSince ||= performance.now();
      if (performance.now() - this.#unreachableSince > LIMITS.childStartMs) {
        this.#unreachableSince = 0;
        this.#giveUp();
        return;
      }
    } else if (!this.#left) this.#keep();
    else if (++this.#left.lost > LIMITS.writerLostTries) {
      this.#giveUp();
      return;
    }
    if (this.#outstanding.size > 0 || this.#tx?.state === 'repeating')
      this.#retry = setTimeout(() => this.#again(), LIMITS.writerRetryMs);
    else this.#left = null;
  }

  /** The connection broke. Its transaction is repeated at the next writer. */
  #keep(): void {
    const transaction = this.#tx;
    const isAgain = transaction?.state === 'repeating';
    this.#left = { connectionId: this.#connectionId, lastId: this.#lastId, isAgain, lost: 0 };
    if (transaction?.state === 'open') transaction.state = 'repeating';
    this.#rejectAll(({ tx }) => tx !== 0 && tx !== transaction?.number, LOST);
  }

  #again(): void {
    this.#retry = null;
    if (this.#left) this.#connection();
    else for (const asked of this.#outstanding.values()) this.#send(asked);
  }

  /** The outcome of what may be stored is unknown; the rest is sent again, first of all the open transaction. */
  #resumed(left: Left, [, operation, commit]: FrameOf<'resumed'>): void {
    this.#left = null;
    const mayBeStored = operation < 0 ? left.lastId : operation;
    this.#rejectAll(({ frame, tx }) => tx === 0 && frame[1] <= mayBeStored && frame[2] !== DbOp.begin, LOST);
    const waiting = this.#outstanding.values();
    const transaction = this.#tx;
    if (transaction?.state === 'repeating') {
      const mayBeCommitted = commit < 0 ? left.lastId : commit;
      const isUnknown = waiting.some(
        ({ frame, tx }) => tx === transaction.number && frame[2] === DbOp.commit && frame[1] <= mayBeCommitted,
      );
      // It may be what the writer died of. Its commit was not sent.
      if (left.isAgain && commit < 0) this.#lose(transaction);
      else if (isUnknown) {
        this.#tx = null;
        this.#rejectAll(({ tx }) => tx === transaction.number, LOST);
      } else void this.#repeat(transaction);
    }
    for (const asked of waiting) if (asked.tx === 0) this.#send(asked);
  }

  async #repeat(transaction: OpenTransaction): Promise<void> {
    const link = this.#link;
    const ask = (frame: FrameOf<'db'>): Promise<DbAnswer> =>
      new Promise((answered, reject) => {
        if (frame[3] !== 0) frame[3] = transaction.current;
        const asked = { frame, tx: REPEATED, answered, reject };
        this.#outstanding.set(frame[1], asked);
        this.#send(asked);
      });
    const begin = async (): Promise<number> => {
      const answer = await ask([Kind.db, ++this.#lastId, DbOp.begin, 0]);
      if (answer[0] === Kind.dbError) throw new DbError(answer[2]);
      return answer[2] as number;
    };
    const isSame = await transaction.repeat(begin, ask).catch(() => false);
    if (this.#link !== link) return;
    if (isSame) {
      transaction.state = 'open';
      for (const asked of this.#outstanding.values()) if (asked.tx === transaction.number) this.#send(asked);
      return;
    }
    this.#lose(transaction);
    if (transaction.current !== 0) link?.send([Kind.db, ++this.#lastId, DbOp.rollback, transaction.current]);
  }

  #lose(transaction: OpenTransaction): void {
    transaction.state = 'lost';
    this.#rejectAll(({ tx }) => tx === transaction.number, TRANSACTION_LOST);
  }

  /** No writer takes over. Operations that were never sent were not run. */
  #giveUp(): void {
    const lastSent = this.#left?.lastId ?? 0;
    this.#left = null;
    this.#rejectAll(({ frame }) => frame[1] <= lastSent, LOST);
    if (this.#tx !== null) this.#lose(this.#tx);
    this.#rejectAll(() => true, UNAVAILABLE);
  }

  #rejectAll(which: (asked: Outstanding) => boolean, body: ErrorBody): void {
    for (const [id, asked] of this.#outstanding.entries()) {
      if (!which(asked)) continue;
      this.#outstanding.delete(id);
      asked.reject(new DbError(body));
    }
  }
}
