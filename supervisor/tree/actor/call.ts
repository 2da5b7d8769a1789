/** One tool call on its way through an actor. */
import { createHash } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { type AskVerb, ToolKind, type ToolKindValue } from '../../../protocol/frames.ts';
import type { Deadlines, Due } from './deadlines.ts';

/** Milliseconds: waiting in the mailbox, and running in the handler; and whether the handler may have run at all. */
export type CallTiming = { queueMs: number; handlerMs: number; started: boolean };

/** Who asked. Exactly one of `result` and `failed` is called, once. What they throw harms nobody but the caller. */
export type CallReply = {
  /** `body` is JSON text; `status` is 200 for queries. */
  result(status: number, body: Uint8Array, timing: CallTiming): void;
  failed(error: SvcError, timing: CallTiming): void;
  /**
   * The call may have committed rows that no answer tells of: it timed out or its actor died (before `failed`), or it ended
   * after it had timed out (after `failed`).
   */
  outcomeUnknown(): void;
  /**
   * A fire asks for something while it runs: `payload` is JSON text, to be read now, for its memory is used again. `answer` is
   * called once, with JSON text: what was asked for (empty for undefined), or an `ErrorBody` when `ok` is false. Later calls of
   * it, and those after the end of the fire, have no effect.
   */
  asked?(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void;
  /** A fire wrote a line to the app's log: JSON text, as the app's code made it. */
  logged?(line: string): void;
  /** One of the others threw. */
  faulted(error: unknown): void;
};

export type CallRequest = {
  kind: ToolKindValue;
  /** Name of the tool; of a fire, the id of its automation. */
  tool: string;
  /** JSON text whose `input` member is the input; empty for `{}`. */
  body: Uint8Array;
  traceId: string;
  /** Time it is allowed in all, waiting included, in milliseconds. */
  allowedMs: number;
};

const FAULT = Buffer.from(JSON.stringify({ code: 'INTERNAL', message: 'The gateway could not answer this.' }));

export class Call implements Due {
  readonly request: CallRequest;
  readonly reply: CallReply;
  readonly queuedAt: number;
  readonly deadline: number;
  /** Set when it was answered, or when nobody wants it any more and it has not started. */
  settled = false;
  attempts = 0;
  sentAt = 0;
  /** Number within its actor while it is in flight. */
  id = 0;
  previous: Due | null = null;
  next: Due | null = null;
  #deadlines: Deadlines | null = null;
  #onExpired: ((call: Call) => void) | null = null;

  constructor(request: CallRequest, reply: CallReply, now: number) {
    this.request = request;
    this.reply = reply;
    this.queuedAt = now;
    this.deadline = now + request.allowedMs;
  }

  /** Puts the call under the clock; `onExpired` acts when its deadline passes before it is settled. */
  watch(deadlines: Deadlines, onExpired: (call: Call) => void): void {
    this.#deadlines = deadlines;
    this.#onExpired = onExpired;
    deadlines.add(this);
  }

  /** Nobody wants an answer any more. */
  drop(): void {
    this.settled = true;
    this.#deadlines?.delete(this);
  }

  expire(): void {
    this.#onExpired?.(this);
  }

  /** Queries may run twice; an action that started may have written. */
  get repeatable(): boolean {
    return this.request.kind === ToolKind.query;
  }

  succeed(status: number, body: Uint8Array, handlerMs: number): void {
    this.drop();
    try {
      this.reply.result(status, body, this.#timing(handlerMs));
    } catch (error) {
      this.reply.faulted(error);
    }
  }

  fail(error: SvcError, handlerMs = 0): void {
    this.drop();
    try {
      this.reply.failed(error, this.#timing(handlerMs));
    } catch (fault) {
      this.reply.faulted(fault);
    }
  }

  /** Throws nothing: when its caller does, the question is answered with an error. */
  asked(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void {
    try {
      this.reply.asked?.(verb, payload, answer);
    } catch (error) {
      answer(false, FAULT);
      this.reply.faulted(error);
    }
  }

  logged(line: string): void {
    try {
      this.reply.logged?.(line);
    } catch (error) {
      this.reply.faulted(error);
    }
  }

  /** It may have written, and no answer tells of it. */
  outcomeUnknown(): void {
    if (this.repeatable) return;
    try {
      this.reply.outcomeUnknown();
    } catch (error) {
      this.reply.faulted(error);
    }
  }

  /** Answers a call that had started and whose effect nobody can know. */
  failUnknown(why: string): void {
    if (this.repeatable) {
      this.fail(new SvcError('HANDLER_ERROR', why));
      return;
    }
    this.outcomeUnknown();
    this.fail(
      new SvcError(
        'HANDLER_ERROR',
        `${why} Its outcome is unknown: its writes may be stored. Check before you repeat it.`,
      ),
    );
  }

  /** The same app, tool and input have the same fingerprint. */
  fingerprint(): string {
    return createHash('sha256')
      .update(`${this.request.kind}\0${this.request.tool}\0`)
      .update(this.request.body)
      .digest('base64');
  }

  #timing(handlerMs: number): CallTiming {
    const queueMs = this.sentAt === 0 ? 0 : this.sentAt - this.queuedAt;
    return { queueMs, handlerMs, started: this.attempts > 0 };
  }
}
