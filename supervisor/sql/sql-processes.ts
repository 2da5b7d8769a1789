/**
 * Runs SQL of callers in processes of their own (workers/sql), one statement at a time in each: nothing else of the gateway waits
 * for a statement. A process whose statement takes too long is killed.
 */
import { errorFromBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type FrameOf, Kind, type SqlOrder, SqlStatus, type SqlWriter } from '../../protocol/wire/frames.ts';
import { type Damage, damageIn } from '../../storage/apps/app-data.ts';
import { UnderWay } from '../serial.ts';
import type { CallReply, CallTiming } from '../tree/actor/call.ts';
import { stoppingError } from '../tree/actor/call-errors.ts';
import type { Child, ChildEvents } from '../tree/child.ts';
import { ChildClient, type Failure } from '../tree/child-client.ts';

type SqlProcessesOptions = {
  /** A process, which is started with its first statement: `Tree.sqlChild`. */
  createChild(name: string, events: ChildEvents): Child;
  /** The database of an app or draft, and where its writer is reached. */
  database(app: string, migrated: boolean): Pick<SqlOrder, 'dataFile' | 'migrated'> & { writer: SqlWriter };
  /** A statement met damaged data of the app or draft. Resolves with the error for its caller. */
  onDamaged(app: string, damage: Damage): Promise<SvcError>;
  /** As `TreeCallbacks.unsettled`. */
  unsettled(app: string): Promise<void> | null;
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

type Statement = {
  app: string;
  reply: SqlReply;
  queuedAt: number;
  sentAt: number;
  /** Processes that it was sent to. */
  attempts: number;
  /** It was found to write, and may do so now. */
  writes: boolean;
  order(id: number): FrameOf<'sql'>;
};
type Answer = FrameOf<'result'> | FrameOf<'error'>;

const now = (): number => performance.now();

export class SqlProcesses {
  readonly #options: SqlProcessesOptions;
  readonly #sqlMs: number;
  readonly #client: ChildClient;
  /** Those that a process may have, by the number of the question. */
  readonly #statements = new Map<number, Statement>();
  readonly #underWay = new UnderWay();

  constructor(options: SqlProcessesOptions) {
    const { createChild, sqlMs = LIMITS.sqlMs, idleMs = LIMITS.sqlIdleMs } = options;
    this.#options = options;
    this.#sqlMs = sqlMs;
    this.#client = new ChildClient({
      title: 'A process for SQL',
      createChild: (events, n) => createChild(`sql-${n + 1}`, events),
      limits: { threads: { sql: LIMITS.sqlProcesses }, waiting: LIMITS.sqlQueue },
      processes: LIMITS.sqlProcesses,
      perProcess: 1,
      idleMs: () => idleMs,
      lateEndsProcess: true,
      soleQuestionIsCause: true,
    });
    this.#client.on('result', (frame) => this.#answered(frame));
    this.#client.on('error', (frame) => this.#answered(frame));
  }

  /** Runs a statement, `body` and `migrated` as in `SqlOrder`. Answers a function that drops it unless it has begun. */
  run(app: string, { body, migrated }: Pick<SqlOrder, 'body' | 'migrated'>, reply: SqlReply): () => void {
    const { database, maxResultBytes } = this.#options;
    const statement: Statement = {
      app,
      reply,
      queuedAt: now(),
      sentAt: 0,
      attempts: 0,
      writes: false,
      order: (id) => {
        const { dataFile, writer } = database(app, migrated);
        return [Kind.sql, id, { body, dataFile, migrated, writer: statement.writes ? writer : null, maxResultBytes }];
      },
    };
    const dropped = new AbortController();
    const { id, answer } = this.#client.ask<Answer>({
      pool: 'sql',
      party: app,
      frame: (id) => {
        statement.attempts++;
        statement.sentAt = now();
        return statement.order(id);
      },
      failed: (why, _reason, cause) => this.#failure(statement, why, cause),
      repeats: (reason, process) => {
        this.#options.onEnded(app, `SQL of a caller ended its process ${process}: ${reason}.`);
        return !statement.writes;
      },
      waitMs: LIMITS.sqlWaitMs,
      answerMs: this.#sqlMs,
      signal: dropped.signal,
    });
    this.#statements.set(id, statement);
    void this.#underWay
      .run(app, async () => this.#shown(app, await answer))
      .finally(() => this.#statements.delete(id))
      .then(
        (frame) => this.#settle(statement, frame),
        (error: SvcError) => {
          if (statement.attempts > 0 || !dropped.signal.aborted)
            this.#fail(statement, error, error.code === 'OUTCOME_UNKNOWN');
        },
      );
    return () => dropped.abort();
  }

  /** Resolves when no statement of an app or draft runs or waits that did so at the call. */
  settled(app: string): Promise<void> {
    return this.#underWay.settled(app);
  }

  /** Statements that run may end, which they soon do; those that wait are refused, and so are later ones. Ends the processes. */
  async close(): Promise<void> {
    await this.#client.close(LIMITS.terminateMs, { drain: true });
  }

  /** Throws for an answer in another form; the connection of the process is then closed. */
  #answered(frame: Answer): void {
    if (!isAnswer(frame)) throw new Error('A process for SQL sent a malformed answer.');
    const [kind, id, status] = frame;
    const statement = this.#statements.get(id);
    if (kind === Kind.result && status === SqlStatus.writes && statement?.writes === false) {
      statement.writes = true;
      this.#client.tell(id, statement.order(id));
    } else this.#client.answer(id, frame);
  }

  /** What was read is answered when the log of pages has it. */
  async #shown(app: string, frame: Answer): Promise<Answer> {
    if (frame[0] !== Kind.result || frame[2] !== SqlStatus.read) return frame;
    const unsettled = this.#options.unsettled(app);
    if (unsettled === null) return frame;
    const [kind, id, status, body, handlerMs] = frame;
    // Its bytes are those of the connection.
    const kept = Buffer.from(body);
    await unsettled;
    return [kind, id, status, kept, handlerMs];
  }

  #settle(statement: Statement, frame: Answer): void {
    const { app, reply } = statement;
    if (frame[0] === Kind.result) {
      const [, , status, body] = frame;
      tell(reply, () => reply.result(status, body, timingOf(statement)));
      return;
    }
    const [, , error, , wrote = false] = frame;
    const isUnknown = wrote || error.code === 'OUTCOME_UNKNOWN';
    const damage = damageIn(error);
    if (damage === null) this.#fail(statement, errorFromBody(error), isUnknown);
    else void this.#options.onDamaged(app, damage).then((error) => this.#fail(statement, error, isUnknown));
  }

  #failure({ app, writes }: Statement, why: Failure, cause: unknown): SvcError {
    switch (why) {
      case 'stopping':
        return stoppingError();
      case 'full':
      case 'waited':
      case 'cancelled':
        return overloaded('Too many SQL statements of callers run already; try again.', 1);
      case 'down':
        return overloaded('The process that runs SQL does not stay up; the log says why. Try again later.', 30);
      case 'late': {
        const seconds = Math.round(this.#sqlMs / 100) / 10;
        this.#options.onEnded(app, `SQL of a caller timed out after ${seconds} s.`);
        const what = `The statement timed out after ${seconds} s`;
        return writes ? unknown(what) : new SvcError('HANDLER_ERROR', `${what}.`);
      }
      case 'too-large':
        return new SvcError('INTERNAL', 'The statement could not be sent.', { cause });
      default:
        if (writes) return unknown('The process that ran the statement ended');
        return new SvcError(
          'HANDLER_ERROR',
          why === 'memory'
            ? 'The statement needed too much memory.'
            : 'The process that ran the statement ended twice.',
        );
    }
  }

  #fail(statement: Statement, error: SvcError, isUnknown: boolean): void {
    const { reply } = statement;
    if (isUnknown) tell(reply, () => reply.outcomeUnknown());
    tell(reply, () => reply.failed(error, timingOf(statement)));
  }
}

function isAnswer(frame: Answer): boolean {
  if (frame[0] === Kind.result) return typeof frame[2] === 'number' && frame[3] instanceof Uint8Array;
  return typeof frame[2]?.code === 'string' && typeof frame[2].message === 'string';
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

function unknown(what: string): SvcError {
  return new SvcError('OUTCOME_UNKNOWN', `${what}. It may be stored or not: look before you repeat it.`);
}

function overloaded(message: string, seconds: number): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': String(seconds) } });
}
