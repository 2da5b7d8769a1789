/** Runs an actor's calls and answers each exactly once. */
import { SvcError } from '../../protocol/errors.ts';
import type { Redactor } from '../../protocol/text/redactor.ts';
import {
  type CancelReason,
  type Frame,
  type FrameOf,
  Kind,
  ToolKind,
  type ToolKindValue,
} from '../../protocol/wire/frames.ts';
import type { HandlerCaller, HandlerUser } from '../../protocol/wire/handler-caller.ts';
import { InFlight } from '../../protocol/wire/in-flight.ts';
import { parseRequest } from './call-request.ts';
import type { Asks } from './context/asks.ts';
import { CallTrace } from './context/call-trace.ts';
import { ShownCaller } from './context/context-caller.ts';
import type { AppLog, LogOrigin } from './context/log.ts';
import { Reads } from './context/reads.ts';
import type { HandlerErrors } from './handler-errors.ts';
import type { Answer } from './result.ts';
import { type Failed, firstUnhandled } from './unhandled.ts';

const REASONS: Record<CancelReason, string> = {
  deadline: 'its time is up',
  cancelled: 'it is not wanted any more',
  'client-gone': 'its caller has gone away',
  shutdown: 'the app is being stopped',
};

/** Length of a trace id; longer ones are a `traceparent`. */
const TRACE_ID_CHARS = 32;

// App code could replace them.
const { now } = Date;
const { floor } = Math;
const elapsed = performance.now.bind(performance);

/** A running call: its deadline, and whether its answer is still wanted. */
export class HandlerCall {
  readonly id: number;
  readonly tool: string;
  readonly traceId: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  /** For its lines in the log. */
  readonly origin: LogOrigin;
  /** Its handler read the caller or the user, so its result may depend on who calls. */
  readCaller = false;
  /** Present when its trace is recorded or passed on. */
  readonly trace: CallTrace | null;
  /** What it reads, if the supervisor asked for that. */
  readonly reads: Reads | null;
  /** Whether its lines carry its number, for followers of a run. */
  followed = false;
  /** Whether one of its writes is stored. */
  wrote = false;
  /** Writes that failed, of rows and of files; made with the first of them. */
  failedWrites: Failed[] | null = null;
  /** What it asks of the supervisor; made with the first request. */
  asks: Asks | null = null;
  /** Ends all its fetches; made by the first of them. */
  fetchEnd: AbortSignal | null = null;
  /** Why its signal aborted. */
  #aborted: Error | null = null;
  /** The supervisor has answered it, so it may change nothing more. */
  #isOver = false;
  #controller: AbortController | null = null;
  #onOver: ((reason: Error) => void) | null = null;
  readonly #shown: ShownCaller;

  constructor([, id, , kind, tool, , traceId]: FrameOf<'dispatch'>, deadline: number, shown: ShownCaller) {
    this.id = id;
    this.tool = tool;
    this.trace = traceId.length > TRACE_ID_CHARS ? CallTrace.of(traceId) : null;
    this.traceId = this.trace === null ? traceId : this.trace.traceId;
    this.deadline = deadline;
    this.reads = kind === ToolKind.tracked ? new Reads() : null;
    this.#shown = shown;
    this.origin = { tool, traceId: this.traceId, call: this };
  }

  /** Made on the first use: most handlers never ask for it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#aborted !== null) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  /** The caller, frozen. */
  get caller(): HandlerCaller {
    this.readCaller = true;
    return this.#shown.caller;
  }

  /** The person who calls, or whose agent does, frozen; null where there is none. */
  get user(): HandlerUser | null {
    this.readCaller = true;
    return this.#shown.user;
  }

  /** The id of that person. To ask for it does not make the result depend on who calls. */
  get personId(): string | undefined {
    return this.#shown.user?.id;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Aborts the signal. An action whose caller has gone away may finish: what it writes counts, and the change is announced. Any
   * other reason ends the call.
   */
  cancel(reason: CancelReason): void {
    if (this.#isOver) return;
    const error = new DOMException(`The call was cancelled: ${REASONS[reason]}.`, 'AbortError');
    this.#isOver = reason !== 'client-gone';
    if (this.#isOver || this.#aborted === null) this.#aborted = error;
    this.#controller?.abort(error);
    if (this.#isOver) this.#onOver?.(error);
  }

  /** `promise` is what the handler got for the write. */
  noteFailedWrite(error: unknown, promise: Promise<unknown>): void {
    this.failedWrites ??= [];
    this.failedWrites.push({ error, promise });
  }

  /** Throws when a write failed and nobody handles that, whether the handler awaited it or not. */
  async assertWritten(): Promise<void> {
    const failed = this.failedWrites === null ? undefined : await firstUnhandled(this.failedWrites);
    if (failed !== undefined) throw failed.error;
  }

  /** Throws once the call is over, so that a handler that runs on changes nothing more. */
  assertWanted(): void {
    if (this.#isOver) throw this.#aborted;
  }

  /** Calls the one `listener` when the call ends before its handler. */
  onOver(listener: (reason: Error) => void): void {
    this.#onOver = listener;
  }
}

/** What the calls of an actor run: the tools of an app, or an automation. */
export type Runner = {
  /** Rejects with the handler's error. */
  run(call: HandlerCall, kind: ToolKindValue, request: Record<string, unknown>): Promise<Answer>;
  /** Drops what is known of statements: it may be outdated. */
  schemaChanged(): void;
  /** Closes what the calls shared. */
  close(): void;
};

export class Calls {
  readonly #runner: Runner;
  readonly #failures: HandlerErrors;
  readonly #log: AppLog;
  readonly #redactor: Redactor;
  readonly #send: (frame: Frame) => void;
  readonly #running = new InFlight<HandlerCall>();
  /** By the numbers that dispatches name them by. */
  readonly #callers: ShownCaller[] = [];
  #whenIdle: (() => void) | null = null;
  #finished = 0;

  /** `send` throws when the frame is too large. */
  constructor(runner: Runner, failures: HandlerErrors, log: AppLog, redactor: Redactor, send: (frame: Frame) => void) {
    this.#runner = runner;
    this.#failures = failures;
    this.#log = log;
    this.#redactor = redactor;
    this.#send = send;
  }

  /** Calls that a caller waits for, and answered calls, for the heartbeat. */
  get counters(): { running: number; finished: number } {
    return { running: this.#running.size, finished: this.#finished };
  }

  told([, number, kind, text]: FrameOf<'caller'>): void {
    this.#callers[number] = new ShownCaller(kind, text);
  }

  dispatch(frame: FrameOf<'dispatch'>): void {
    const startedAt = elapsed();
    // Timers take whole milliseconds; the supervisor counts in fractions.
    const call = new HandlerCall(frame, now() + floor(frame[2]), this.#callers[frame[7]] as ShownCaller);
    this.#running.set(call.id, call);
    this.#run(call, frame[3], frame[5]).then(
      (answer) => this.#answer(call, answer, startedAt),
      (error: unknown) => this.#fail(call, error, elapsed() - startedAt),
    );
  }

  /** The caller no longer waits. The call is still answered when it ends, which frees its place. */
  cancel(id: number, reason: CancelReason): void {
    const call = this.#running.get(id);
    call?.cancel(reason);
    if (call?.isOver) this.#forget(call);
  }

  /** Resolves once no caller waits for a running call. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  #run(call: HandlerCall, kind: ToolKindValue, body: Uint8Array): Promise<Answer> {
    try {
      if (call.deadline > now()) return this.#runner.run(call, kind, parseRequest(body));
      throw new SvcError('HANDLER_ERROR', 'The call timed out before it could start.');
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** A result that cannot be sent is a failure of the call: its caller would wait until its deadline. */
  #answer(call: HandlerCall, { status, body }: Answer, startedAt: number): void {
    const { id, reads } = call;
    try {
      const redacted = this.#redactor.json(body);
      if (reads !== null) this.#send([Kind.reads, id, reads.tables, reads.keep, call.readCaller]);
      this.#tellTrace(call);
      this.#send([Kind.result, id, status, redacted, elapsed() - startedAt]);
      this.#forget(call);
    } catch (error) {
      this.#fail(call, error, elapsed() - startedAt);
    }
  }

  #fail(call: HandlerCall, error: unknown, handlerMs: number): void {
    const { id, origin, followed, wrote } = call;
    const body = this.#failures.toBody(error);
    if ((body.code === 'HANDLER_ERROR' || body.code === 'INTERNAL') && !call.isOver) {
      this.#log.report(body.message, this.#failures.fields(error), origin, followed ? id : undefined);
    }
    this.#tellTrace(call);
    this.#send(wrote ? [Kind.error, id, body, handlerMs, true] : [Kind.error, id, body, handlerMs]);
    this.#forget(call);
  }

  #tellTrace({ id, trace }: HandlerCall): void {
    const frame = trace === null ? null : trace.end(id);
    if (frame !== null) this.#send(frame);
  }

  #forget({ id, reads }: HandlerCall): void {
    reads?.end();
    if (!this.#running.delete(id)) return;
    this.#finished++;
    if (this.#running.size === 0) this.#whenIdle?.();
  }
}
