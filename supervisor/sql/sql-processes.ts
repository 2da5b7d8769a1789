/**
 * Runs SQL of callers in processes of their own (workers/sql), one statement at a time in each: nothing else of the gateway waits
 * for a statement. A process whose statement takes too long is killed.
 */
import { errorFromBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import {
  type Frame,
  type FrameOf,
  Kind,
  type SqlOrder,
  SqlStatus,
  type SqlWriter,
} from '../../protocol/wire/frames.ts';
import { type Damage, damageIn } from '../../storage/apps/app-data.ts';
import { JobQueue, type QueuedJob } from '../jobs/job-queue.ts';
import type { CallReply, CallTiming } from '../tree/actor/call.ts';
import { stoppingError } from '../tree/actor/call-errors.ts';
import { type Child, type ChildEvents, OUT_OF_MEMORY } from '../tree/child.ts';
import { startGraceTimer } from '../tree/grace-timer.ts';

type SqlProcessesOptions = {
  /** A process, which is started with its first statement: `Tree.sqlChild`. */
  createChild(name: string, events: ChildEvents): Child;
  /** The database of an app or draft, and where its writer is reached. */
  database(app: string, migrated: boolean): Pick<SqlOrder, 'dataFile' | 'migrated'> & { writer: SqlWriter };
  /** A statement met damaged data of the app or draft. Resolves with the error for its caller. */
  onDamaged(app: string, damage: Damage): Promise<SvcError>;
  maxResultBytes: number;
  /** For the log: a statement ended its process, or was ended with it. */
  onEnded(app: string, what: string): void;
  sqlMs?: number;
  idleMs?: number;
};

/** `outcomeUnknown` is called before `failed` or alone; see `CallReply`. */
export type SqlReply = Pick<CallReply, 'failed' | 'outcomeUnknown' | 'faulted'> & {
  /** `status` is a `SqlStatus`; `body` is JSON text. */
  result(status: number, body: Uint8Array, timing: CallTiming): void;
};

type Statement = QueuedJob<'sql'> & {
  id: number;
  app: string;
  migrated: boolean;
  body: Uint8Array;
  reply: SqlReply;
  queuedAt: number;
  sentAt: number;
  /** Processes that it was sent to. */
  attempts: number;
  /** It was found to write, and may do so now. */
  writes: boolean;
  /** Its caller was answered, or has left before it began. */
  settled: boolean;
  /** Ends the wait for a process, or for the answer. */
  stopTimer(): void;
};

type Place = { child: Child; statement: Statement | null; resting: NodeJS.Timeout | undefined };

const now = (): number => performance.now();
/** A statement that ends its process is repeated once: the process may have been ended from outside. */
const ATTEMPTS = 2;

export class SqlProcesses {
  readonly #options: SqlProcessesOptions;
  readonly #sqlMs: number;
  readonly #idleMs: number;
  readonly #places: Place[];
  readonly #queue = new JobQueue<Statement, 'sql'>({
    threads: { sql: LIMITS.sqlProcesses },
    waiting: LIMITS.sqlQueue,
  });
  #lastId = 0;
  #closed = false;
  #onQuiet: () => void = () => {};

  constructor(options: SqlProcessesOptions) {
    this.#options = options;
    this.#sqlMs = options.sqlMs ?? LIMITS.sqlMs;
    this.#idleMs = options.idleMs ?? LIMITS.sqlIdleMs;
    this.#places = Array.from({ length: LIMITS.sqlProcesses }, (_, n) => this.#createPlace(`sql-${n + 1}`));
  }

  /** Runs a statement, `body` and `migrated` as in `SqlOrder`. Answers a function that drops it unless it has begun. */
  run(app: string, { body, migrated }: Pick<SqlOrder, 'body' | 'migrated'>, reply: SqlReply): () => void {
    const statement: Statement = {
      id: ++this.#lastId,
      app,
      migrated,
      body,
      reply,
      pool: 'sql',
      party: app,
      alone: false,
      queuedAt: now(),
      sentAt: 0,
      attempts: 0,
      writes: false,
      settled: false,
      stopTimer: () => {},
    };
    if (this.#closed) this.#fail(statement, stoppingError());
    else if (!this.#queue.add(statement)) this.#fail(statement, tooMany());
    else {
      this.#awaitPlace(statement);
      this.#pump();
    }
    return () => {
      if (this.#queue.waiting.includes(statement)) this.#drop(statement);
    };
  }

  /** Statements that run may end, which they soon do; those that wait are refused, and so are later ones. Ends the processes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const statement of this.#queue.waiting) this.#fail(statement, stoppingError());
    if (!this.#isQuiet)
      await new Promise<void>((resolve) => {
        this.#onQuiet = resolve;
      });
    for (const { resting } of this.#places) clearTimeout(resting);
    await Promise.all(this.#places.map(({ child }) => child.stop(LIMITS.terminateMs)));
  }

  /** Every statement that runs was answered. */
  get #isQuiet(): boolean {
    return [...this.#queue.running].every(({ settled }) => settled);
  }

  #createPlace(name: string): Place {
    const place: Place = {
      child: this.#options.createChild(name, {
        onReady: () => this.#send(place),
        onFrame: (frame) => this.#onFrame(place, frame),
        onExit: (reason) => this.#onExit(place, reason),
      }),
      statement: null,
      resting: undefined,
    };
    return place;
  }

  #pump(): void {
    for (let place = this.#freePlace(); place !== null; place = this.#freePlace()) {
      const statement = this.#queue.next();
      if (statement === null) return;
      place.statement = statement;
      clearTimeout(place.resting);
      if (!place.child.wake()) this.#settle(place, () => this.#fail(statement, down()));
      else this.#send(place);
    }
  }

  /** One whose process runs, if possible, or can be started. */
  #freePlace(): Place | null {
    const free = this.#places.filter(({ statement, child }) => statement === null && child.state !== 'stopping');
    const runs = free.find(({ child }) => child.state === 'running');
    return runs ?? free.find(({ child }) => child.state !== 'failed') ?? free[0] ?? null;
  }

  #awaitPlace(statement: Statement): void {
    statement.stopTimer();
    statement.stopTimer = startGraceTimer(LIMITS.sqlWaitMs, now, () => {
      const place = this.#places.find((one) => one.statement === statement);
      if (place) this.#settle(place, () => this.#fail(statement, tooMany()));
      else this.#fail(statement, tooMany());
    });
  }

  /** Once the process runs. */
  #send({ child, statement }: Place): void {
    if (statement === null || statement.settled || child.state !== 'running') return;
    if (!statement.writes) {
      statement.attempts++;
      statement.sentAt = now();
      statement.stopTimer();
      statement.stopTimer = startGraceTimer(this.#sqlMs, now, () => this.#overran(statement));
    }
    const { body, writes, migrated } = statement;
    const { dataFile, writer } = this.#options.database(statement.app, migrated);
    const { maxResultBytes } = this.#options;
    child.send([Kind.sql, statement.id, { body, dataFile, migrated, writer: writes ? writer : null, maxResultBytes }]);
  }

  /** Throws for a frame that this process may not send; its connection is then closed. */
  #onFrame(place: Place, frame: Frame): void {
    if (!isAnswer(frame)) throw new Error(`Not an answer of a process for SQL: kind ${frame[0]}.`);
    const { statement } = place;
    if (statement?.id !== frame[1] || statement.settled) return;
    if (frame[0] === Kind.error) this.#settle(place, () => this.#failed(statement, frame));
    else if (frame[2] === SqlStatus.writes && !statement.writes) {
      statement.writes = true;
      this.#send(place);
    } else this.#settle(place, () => this.#succeeded(statement, frame));
  }

  #succeeded(statement: Statement, [, , status, body]: FrameOf<'result'>): void {
    const { reply } = statement;
    this.#drop(statement);
    tell(reply, () => reply.result(status, body, timingOf(statement)));
  }

  #failed(statement: Statement, [, , error, , wrote = false]: FrameOf<'error'>): void {
    const { app } = statement;
    const isUnknown = wrote || error.code === 'OUTCOME_UNKNOWN';
    const damage = damageIn(error);
    if (damage === null) {
      this.#fail(statement, errorFromBody(error), isUnknown);
      return;
    }
    // Its place is free meanwhile.
    statement.stopTimer();
    void this.#options.onDamaged(app, damage).then((error) => this.#fail(statement, error, isUnknown));
  }

  /** Its time is up: the process goes with it, for nothing else ends a statement. Its place is free when the process is gone. */
  #overran(statement: Statement): void {
    const { app, writes } = statement;
    const place = this.#places.find((one) => one.statement === statement);
    const seconds = Math.round(this.#sqlMs / 100) / 10;
    const what = `The statement timed out after ${seconds} s`;
    this.#options.onEnded(app, `SQL of a caller timed out after ${seconds} s.`);
    if (writes) this.#failUnknown(statement, what);
    else this.#fail(statement, new SvcError('HANDLER_ERROR', `${what}.`));
    place?.child.destroy();
  }

  #onExit(place: Place, reason: string): void {
    const { statement, child } = place;
    if (statement !== null && (statement.settled || !this.#isRepeated(statement, child, reason))) this.#free(place);
    // Where the culprit is known, the death is not the process's own.
    if (statement !== null && statement.attempts > 0) child.revive();
    if (place.statement !== null) {
      const { statement: repeated } = place;
      if (child.wake()) this.#awaitPlace(repeated);
      else this.#settle(place, () => this.#fail(repeated, down()));
    }
    this.#pump();
  }

  /** Whether a statement whose process ended is sent to the next one; its caller gets an error otherwise. */
  #isRepeated(statement: Statement, child: Child, reason: string): boolean {
    if (statement.attempts === 0) return true;
    const isMemory = reason.includes(OUT_OF_MEMORY);
    this.#options.onEnded(statement.app, `SQL of a caller ended its process ${child.name}: ${reason}.`);
    if (statement.writes) this.#failUnknown(statement, 'The process that ran the statement ended');
    else if (isMemory) this.#fail(statement, new SvcError('HANDLER_ERROR', 'The statement needed too much memory.'));
    else if (statement.attempts < ATTEMPTS) return true;
    else this.#fail(statement, new SvcError('HANDLER_ERROR', 'The process that ran the statement ended twice.'));
    return false;
  }

  /** Answers the statement of a place, and frees it. */
  #settle(place: Place, answer: () => void): void {
    answer();
    this.#free(place);
    this.#pump();
  }

  #free(place: Place): void {
    const { child, statement } = place;
    if (statement !== null) this.#queue.remove(statement);
    place.statement = null;
    clearTimeout(place.resting);
    place.resting = setTimeout(() => {
      if (place.statement === null && child.state === 'running') void child.stop(LIMITS.terminateMs);
    }, this.#idleMs).unref();
  }

  #failUnknown(statement: Statement, what: string): void {
    const advice = 'It may be stored or not: look before you repeat it.';
    this.#fail(statement, new SvcError('OUTCOME_UNKNOWN', `${what}. ${advice}`), true);
  }

  #fail(statement: Statement, error: SvcError, isUnknown = false): void {
    const { reply } = statement;
    this.#drop(statement);
    if (isUnknown) tell(reply, () => reply.outcomeUnknown());
    tell(reply, () => reply.failed(error, timingOf(statement)));
  }

  /** Nobody waits for it any more. One that waits leaves the queue. */
  #drop(statement: Statement): void {
    statement.settled = true;
    statement.stopTimer();
    if (this.#queue.waiting.includes(statement)) this.#queue.remove(statement);
    if (this.#isQuiet) this.#onQuiet();
  }
}

function isAnswer(frame: Frame): frame is FrameOf<'result'> | FrameOf<'error'> {
  if (frame[0] === Kind.result) return typeof frame[2] === 'number' && frame[3] instanceof Uint8Array;
  return frame[0] === Kind.error && typeof frame[2]?.code === 'string' && typeof frame[2].message === 'string';
}

function timingOf({ queuedAt, sentAt, attempts }: Statement): CallTiming {
  const at = now();
  if (attempts === 0) return { queueMs: at - queuedAt, handlerMs: 0, started: false };
  return { queueMs: sentAt - queuedAt, handlerMs: at - sentAt, started: true };
}

function tell(reply: SqlReply, say: () => void): void {
  try {
    say();
  } catch (error) {
    reply.faulted(error);
  }
}

function tooMany(): SvcError {
  return overloaded('Too many SQL statements of callers run already; try again.', 1);
}

function down(): SvcError {
  return overloaded('The process that runs SQL does not stay up; the log says why. Try again later.', 30);
}

function overloaded(message: string, seconds: number): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': String(seconds) } });
}
