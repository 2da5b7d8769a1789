/**
 * What one fire asks of the supervisor: each question is a promise, paired with its answer by a number. Only so many are under
 * way at a time; the others wait here, in the order in which they were asked.
 */
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { type AnswerFrame, type AskVerb, type Frame, Kind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { toJsonBytes } from './result.ts';

/** A question that was answered with an error: `code` as in the table of error codes, `path` where there is one. */
export class AskError extends Error {
  readonly code: string;
  readonly path?: string;

  constructor({ code, message, path }: ErrorBody) {
    super(message);
    this.name = 'AskError';
    this.code = code;
    if (path !== undefined) this.path = path;
  }
}

type Question = { verb: AskVerb; payload: Uint8Array; resolve(frame: AnswerFrame): void; reject(error: unknown): void };

// App code could put its own in its place.
const { parse } = JSON;
const startImmediate = setImmediate;

/** Numbers are never used twice in a thread, so that no answer reaches the fire after the one that asked. */
let lastAsk = 0;

export class Asks {
  readonly #callId: number;
  readonly #send: (frame: Frame) => void;
  readonly #waiting = new Set<Question>();
  readonly #asked = new Map<number, Question>();
  #refusal: (() => unknown) | null = null;
  #whenSettled: (() => void) | null = null;

  constructor(callId: number, send: (frame: Frame) => void) {
    this.#callId = callId;
    this.#send = send;
  }

  /**
   * Resolves with the answer. Rejects with an `AskError`, also for arguments that JSON cannot say or that take more than
   * `LIMITS.askBytes` (`INVALID_INPUT`); and with the reason that `end` was given, once nothing can be asked any more.
   */
  async ask(verb: AskVerb, args: Record<string, unknown>): Promise<unknown> {
    if (this.#refusal !== null) throw this.#refusal();
    const payload = encode(verb, args);
    const [, , ok, body] = await new Promise<AnswerFrame>((resolve, reject) => {
      this.#waiting.add({ verb, payload, resolve, reject });
      this.#next();
    });
    const value: unknown = body.length === 0 ? undefined : parse(asBuffer(body).toString());
    // Made here, so that its stack shows where the handler waited for it.
    if (!ok) throw new AskError(value as ErrorBody);
    return value;
  }

  answered(frame: AnswerFrame): void {
    const question = this.#asked.get(frame[1]);
    if (question === undefined) return;
    this.#asked.delete(frame[1]);
    question.resolve(frame);
    this.#next();
    if (this.#asked.size === 0) this.#whenSettled?.();
  }

  /** Something was asked and is not answered. */
  get open(): boolean {
    return this.#asked.size > 0;
  }

  /** Resolves when every question that was asked so far, and those that follow from the answers, are answered. */
  async settled(): Promise<void> {
    while (this.#asked.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenSettled = resolve;
      });
      // What the handler does with the last answer may be another question.
      await new Promise<void>((resolve) => startImmediate(resolve));
    }
  }

  /** From now on nothing can be asked, and what was asked is not waited for. `reason` is made when somebody is refused. */
  end(reason: () => unknown): void {
    if (this.#refusal !== null) return;
    this.#refusal = reason;
    // Most fires ask nothing.
    if (this.#asked.size === 0 && this.#waiting.size === 0) return;
    for (const question of [...this.#asked.values(), ...this.#waiting]) question.reject(reason());
    this.#asked.clear();
    this.#waiting.clear();
    this.#whenSettled?.();
  }

  #next(): void {
    for (const question of this.#waiting) {
      if (this.#asked.size >= LIMITS.runNodesAtOnce) return;
      this.#waiting.delete(question);
      const askId = ++lastAsk;
      this.#asked.set(askId, question);
      this.#send([Kind.ask, askId, this.#callId, question.verb, question.payload]);
    }
  }
}

function encode(verb: AskVerb, args: Record<string, unknown>): Uint8Array {
  try {
    return toJsonBytes(args, LIMITS.askBytes, { name: `What ctx.${verb} was given`, advice: '' });
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new AskError({ code: 'INVALID_INPUT', message: error.message });
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
