/** Defines a tool call in an actor, the mailbox where it waits, and the timer of deadlines. */
import { createHash, randomBytes } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { type AskVerb, ToolKind, type ToolKindValue } from '../../../protocol/wire/frames.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { parseTraceparent } from '../../../protocol/wire/trace-context.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { Meter } from '../../operations/metrics/meters.ts';
import type { Reads } from '../../results/results.ts';
import type { Span } from '../../tracing/span.ts';

/**
 * Milliseconds: waiting in the mailbox, and running in the handler; whether the handler may have run at all; of a query, whether its
 * result was kept.
 */
export type CallTiming = {
  queueMs: number;
  handlerMs: number;
  started: boolean;
  cache?: 'hit' | 'miss' | 'bypass' | undefined;
};

/** The tables of a tracked query, and the version that ran. */
export type Tracked = { reads: Reads; version: string };

/** The caller. Exactly one of `result` and `failed` is called, once. What they throw harms only this caller. */
export type CallReply = {
  /** `body` is JSON text; `status` is 200 for queries. `tracked` is null unless the call has a `schema`. */
  result(status: number, body: Uint8Array, timing: CallTiming, tracked: Tracked | null): void;
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
  /** One of the methods above threw. */
  faulted(error: unknown): void;
};

// Random once, then counted: unique for this boot and the others, at no cost per call.
const tracePrefix = randomBytes(8).toString('hex');
let traced = 0;

/** 32 hex characters: those of an incoming `traceparent`, else new ones. */
export function newTraceId(traceparent?: string): string {
  const sent = traceparent === undefined ? null : parseTraceparent(traceparent);
  return sent?.traceId ?? tracePrefix + (++traced).toString(16).padStart(16, '0');
}

/** The trace of a request's call: its span's `traceparent` if there is one, else a trace id. */
export function traceOf(exchange: Exchange): string {
  return exchange.span === null ? newTraceId(exchange.header('traceparent')) : exchange.span.traceparent;
}

type CallRequest = {
  kind: ToolKindValue;
  /** Name of the tool; of a fire, the id of its automation. */
  tool: string;
  /** JSON text whose `input` member is the input; empty for `{}`. */
  body: Uint8Array;
  traceId: string;
  /** If its trace is recorded or passed on. */
  span?: Span | null | undefined;
  caller: HandlerCaller;
  /** Time it is allowed in all, waiting included, in milliseconds. */
  allowedMs: number;
  /** For a tracked query: the schema number of its app's history, see `CommitHistory`. */
  schema?: number | undefined;
};

const FAULT = Buffer.from(JSON.stringify({ code: 'INTERNAL', message: 'The gateway could not answer this.' }));

export class Call implements Timed {
  readonly request: CallRequest;
  readonly reply: CallReply;
  readonly queuedAt: number;
  readonly deadline: number;
  /** Set when it was answered, or when its caller left before it started. */
  settled = false;
  attempts = 0;
  sentAt = 0;
  /** Number within its thread while it is in flight. */
  id = 0;
  place = -1;
  /** Its counter, once submitted. */
  meter: Meter | null = null;
  /** What it read, once its thread has reported that. */
  tracked: Tracked | null = null;
  /** Its thread has told the spans of it. */
  traced = false;
  /** Questions of a fire that are still open. */
  openAsks = 0;
  #deadlines: Deadlines | null = null;
  #onExpired: ((call: Call) => void) | null = null;

  constructor(request: CallRequest, reply: CallReply, now: number) {
    this.request = request;
    this.reply = reply;
    this.queuedAt = now;
    this.deadline = now + request.allowedMs;
  }

  /** `onExpired` acts when the deadline passes before the call is settled. */
  watch(deadlines: Deadlines, onExpired: (call: Call) => void): void {
    this.#deadlines = deadlines;
    this.#onExpired = onExpired;
    deadlines.add(this);
  }

  /** Its caller needs no answer. */
  drop(): void {
    this.settled = true;
    this.#deadlines?.delete(this);
    const { span, kind } = this.request;
    // A fire's deadline ends with its run.
    if (span != null && kind !== ToolKind.fire) span.end();
  }

  /** It never reaches an actor, and its caller is told by other means. */
  refuse(error: unknown): void {
    this.request.span?.fail(error instanceof SvcError ? error.code : 'INTERNAL');
    this.drop();
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
    const timing = this.#timing(handlerMs);
    this.#count(timing, 0);
    try {
      this.reply.result(status, body, timing, this.tracked);
    } catch (error) {
      this.reply.faulted(error);
    }
  }

  fail(error: SvcError, handlerMs = 0): void {
    this.request.span?.fail(error.code);
    this.drop();
    const timing = this.#timing(handlerMs);
    this.#count(timing, error.status);
    this.#tell(() => this.reply.failed(error, timing));
  }

  /** Never throws: an error of the caller becomes the answer. */
  asked(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void {
    try {
      this.reply.asked?.(verb, payload, answer);
    } catch (error) {
      answer(false, FAULT);
      this.reply.faulted(error);
    }
  }

  logged(line: string): void {
    this.#tell(() => this.reply.logged?.(line));
  }

  /** It may have written, and no answer tells of it. */
  outcomeUnknown(): void {
    if (!this.repeatable) this.#tell(() => this.reply.outcomeUnknown());
  }

  /** Answers a call that had started and whose effect is unknown. */
  failUnknown(why: string): void {
    this.outcomeUnknown();
    const advice = ' Its outcome is unknown: its writes may be stored. Check before you repeat it.';
    this.fail(new SvcError('HANDLER_ERROR', this.repeatable ? why : why + advice));
  }

  /** The same app, tool and input have the same fingerprint. */
  fingerprint(): string {
    return createHash('sha256')
      .update(`${this.request.kind}\0${this.request.tool}\0`)
      .update(this.request.body)
      .digest('base64');
  }

  #tell(say: () => void): void {
    try {
      say();
    } catch (error) {
      this.reply.faulted(error);
    }
  }

  /** Runs count themselves, and SQL by hand is no tool. */
  #count({ queueMs, handlerMs }: CallTiming, status: number): void {
    const { meter } = this;
    const { kind } = this.request;
    if (meter === null) return;
    if (kind === ToolKind.query) meter.called(meter.queries, queueMs + handlerMs, status);
    else if (kind === ToolKind.action) meter.called(meter.actions, queueMs + handlerMs, status);
  }

  #timing(handlerMs: number): CallTiming {
    const queueMs = this.sentAt === 0 ? 0 : this.sentAt - this.queuedAt;
    return { queueMs, handlerMs, started: this.attempts > 0, cache: undefined };
  }
}

/** A bounded first-in-first-out queue. Calls that were settled while they waited are skipped. */
export class Mailbox<T extends { readonly settled: boolean }> {
  readonly #limit: number;
  /** Dispatched calls, before `head`, are released: each has a request's body. */
  #items: (T | undefined)[] = [];
  #head = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Calls that wait; settled ones count until they are reached. */
  get size(): number {
    return this.#items.length - this.#head;
  }

  get empty(): boolean {
    this.#skipSettled();
    return this.size === 0;
  }

  /** False when it is full. */
  push(item: T): boolean {
    if (this.size >= this.#limit) {
      this.putBack([]);
      if (this.size >= this.#limit) return false;
    }
    this.#items.push(item);
    return true;
  }

  /** Puts dispatched calls back in front, over the limit too: they were admitted before. */
  putBack(items: T[]): void {
    this.#items = [...items, ...this.drain()];
  }

  /** The next one, which stays. */
  get first(): T | undefined {
    this.#skipSettled();
    return this.#items[this.#head];
  }

  shift(): T | undefined {
    this.#skipSettled();
    const item = this.#items[this.#head];
    if (item) this.#items[this.#head++] = undefined;
    return item;
  }

  /** Takes out every call that is not settled. */
  drain(): T[] {
    const wanted = (this.#items.slice(this.#head) as T[]).filter((item) => !item.settled);
    this.#items = [];
    this.#head = 0;
    return wanted;
  }

  #skipSettled(): void {
    while (this.#items[this.#head]?.settled) this.#items[this.#head++] = undefined;
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }
}

const SWEEP_MS = 20;
/** A sweep that comes this late means that this process did not run. */
const PAUSE_MS = 10 * SWEEP_MS;

/** What has a deadline. */
export interface Timed {
  readonly deadline: number;
  /** Where `Deadlines` has it; -1 where it is not watched. */
  place: number;
  /** The deadline has passed, and it is not watched any more. */
  expire(): void;
}

/** All calls' deadlines under one timer: a coarse sweep finds the due ones, so that the hot path sets no timers. */
export class Deadlines {
  readonly #now: () => number;
  readonly #watched: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;
  #lastSweep = 0;
  #waited = false;

  /** `now` is the clock that `deadline` refers to, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(call: Timed): void {
    call.place = this.#watched.push(call) - 1;
    if (this.#timer) return;
    this.#lastSweep = this.#now();
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  /** Nothing where it is not watched. */
  delete(call: Timed): void {
    const { place } = call;
    if (place < 0) return;
    call.place = -1;
    const last = this.#watched.pop() as Timed;
    if (last === call) return;
    this.#watched[place] = last;
    last.place = place;
  }

  #sweep(): void {
    const now = this.#now();
    // After a pause answers may wait to be read; a call that has one does not time out.
    this.#waited = !this.#waited && now - this.#lastSweep > PAUSE_MS;
    this.#lastSweep = now;
    if (this.#waited) return;
    // The end of one may settle another, which is passed over then.
    for (const call of this.#watched.filter(({ deadline }) => deadline <= now)) {
      if (call.place < 0) continue;
      this.delete(call);
      call.expire();
    }
    if (this.#watched.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
