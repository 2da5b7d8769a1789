/** The calls that an actor works on: each is run, and answered exactly once, however it ends. */
import { SvcError } from '../../protocol/errors.ts';
import { type CancelReason, type DispatchFrame, type Frame, Kind, type ToolKindValue } from '../../protocol/frames.ts';
import { Call } from './call.ts';
import type { Failures } from './failure.ts';
import type { Answer } from './result.ts';

/** What the calls of an actor run: the tools of an app, or an automation. */
export type Runner = {
  /** `id` is the call's number, `body` the JSON text of the request. Rejects with whatever the handler threw. */
  run(id: number, call: Call, kind: ToolKindValue, body: Uint8Array): Promise<Answer>;
  /** To the app's log: a call failed through a fault of the handler. */
  report(id: number, call: Call, message: string, fields: Record<string, unknown>): void;
};

export type CallsOptions = {
  runner: Runner;
  failures: Failures;
  /** To the supervisor. Throws when the frame is too large. */
  send(frame: Frame): void;
};

// App code could put its own in their place.
const { now } = Date;
const { floor } = Math;
const elapsed = performance.now.bind(performance);

export class Calls {
  readonly #runner: Runner;
  readonly #options: CallsOptions;
  readonly #running = new Map<number, Call>();
  #whenIdle: (() => void) | null = null;
  #finished = 0;

  constructor(options: CallsOptions) {
    this.#runner = options.runner;
    this.#options = options;
  }

  /** Calls that somebody waits for, and those that were answered, for the heartbeat. */
  get counters(): { running: number; finished: number } {
    return { running: this.#running.size, finished: this.#finished };
  }

  dispatch(frame: DispatchFrame): void {
    const startedAt = elapsed();
    const id = frame[1];
    // In whole milliseconds, as timers want them; the supervisor counts in fractions.
    const call = new Call(frame[4], frame[6], now() + floor(frame[2]));
    this.#running.set(id, call);
    this.#run(id, call, frame[3], frame[5]).then(
      (answer) => this.#answer(id, call, [Kind.result, id, answer.status, answer.body, elapsed() - startedAt]),
      (error: unknown) => this.#fail(id, call, error, elapsed() - startedAt),
    );
  }

  /** Nobody waits for this call any more. It is answered all the same when it ends, so that its place is free again. */
  cancel(id: number, reason: CancelReason): void {
    const call = this.#running.get(id);
    call?.cancel(reason);
    if (call?.over) this.#forget(id);
  }

  /** Resolves once no call is running that somebody waits for. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  #run(id: number, call: Call, kind: ToolKindValue, body: Uint8Array): Promise<Answer> {
    if (call.deadline > now()) return this.#runner.run(id, call, kind, body);
    return Promise.reject(new SvcError('HANDLER_ERROR', 'The call timed out before it could start.'));
  }

  #answer(id: number, call: Call, frame: Frame): void {
    try {
      this.#options.send(frame);
      this.#forget(id);
    } catch (error) {
      this.#fail(id, call, error, 0);
    }
  }

  #fail(id: number, call: Call, error: unknown, handlerMs: number): void {
    const { failures, send } = this.#options;
    const body = failures.toBody(error);
    if ((body.code === 'HANDLER_ERROR' || body.code === 'INTERNAL') && !call.over) {
      this.#runner.report(id, call, body.message, failures.fields(error));
    }
    send(call.wrote ? [Kind.error, id, body, handlerMs, true] : [Kind.error, id, body, handlerMs]);
    this.#forget(id);
  }

  #forget(id: number): void {
    if (!this.#running.delete(id)) return;
    this.#finished++;
    if (this.#running.size === 0) this.#whenIdle?.();
  }
}
