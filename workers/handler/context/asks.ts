/**
 * Sends what a running call asks of the supervisor, and gives its handler the answers: the members of `ctx` that work outside the
 * thread.
 */
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type AskVerb, type Frame, type FrameOf, Kind } from '../../../protocol/wire/frames.ts';
import { AskError } from '../handler-errors.ts';
import { toJsonBytes } from '../result.ts';

// App code could replace them.
const { parse } = JSON;
const startImmediate = setImmediate;

/** The requests of all calls of a thread. */
export class ActorAsks {
  readonly #send: (frame: Frame) => void;
  readonly #tooLate: () => SvcError;
  readonly #open = new Set<Asks>();
  /** Stands for those of calls that have ended. */
  readonly #ended: Asks;

  /** `what` a handler works on, in messages. */
  constructor(send: (frame: Frame) => void, what: 'call' | 'run') {
    this.#send = send;
    this.#tooLate = () => new SvcError('HANDLER_ERROR', `The ${what} has ended: its ctx can no longer be used.`);
    this.#ended = new Asks(0, send);
    this.#ended.end(this.#tooLate);
  }

  /** Those of a call; made with the first, because most calls ask nothing. */
  of(call: { readonly id: number; asks: Asks | null }): Asks {
    if (call.asks === null) {
      call.asks = new Asks(call.id, this.#send);
      this.#open.add(call.asks);
    }
    return call.asks;
  }

  /** Ignores an answer that comes after its call has ended. */
  answered(frame: FrameOf<'answer'>): void {
    for (const asks of this.#open) asks.answered(frame);
  }

  /** The call has ended: what it asks from now on is refused. */
  end(call: { asks: Asks | null }): void {
    if (call.asks !== null) {
      this.#open.delete(call.asks);
      call.asks.end(this.#tooLate);
    }
    call.asks = this.#ended;
  }
}

type Question = {
  verb: AskVerb;
  payload: Uint8Array;
  resolve(frame: FrameOf<'answer'>): void;
  reject(error: unknown): void;
};

/** Numbers are never reused in a thread, so that no answer reaches a later call. */
let lastAsk = 0;

/**
 * One call's requests to the supervisor: each is a promise, paired with its answer by a number. A limited number is under way
 * at a time; the others wait here in order.
 */
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
   * Resolves with the answer. Rejects with an `AskError`, also for arguments that are not valid JSON or take more than
   * `LIMITS.askBytes` (`INVALID_INPUT`); after `end`, with its reason.
   */
  async ask(verb: AskVerb, args: Record<string, unknown>): Promise<unknown> {
    if (this.#refusal !== null) throw this.#refusal();
    const payload = encode(verb, args);
    const [, , ok, body] = await new Promise<FrameOf<'answer'>>((resolve, reject) => {
      const question = { verb, payload, resolve, reject };
      // What tells of a request is answered at once, and its answer must not wait for other calls.
      if (verb === 'fetch' || verb === 'fetched') {
        this.#submit(question);
        return;
      }
      this.#waiting.add(question);
      this.#next();
    });
    const value: unknown = body.length === 0 ? undefined : parse(asBuffer(body).toString());
    // Made here, so that its stack shows where the handler waited for it.
    if (!ok) throw new AskError(value as ErrorBody);
    return value;
  }

  answered(frame: FrameOf<'answer'>): void {
    const question = this.#asked.get(frame[1]);
    if (question === undefined) return;
    this.#asked.delete(frame[1]);
    question.resolve(frame);
    this.#next();
    if (this.#asked.size === 0) this.#whenSettled?.();
  }

  /** A question is not answered yet. */
  get open(): boolean {
    return this.#asked.size > 0;
  }

  /** Resolves when all requests are answered, also those that follow from the answers. */
  async settled(): Promise<void> {
    while (this.#asked.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenSettled = resolve;
      });
      // The handler may use the last answer to ask again.
      await new Promise<void>((resolve) => startImmediate(resolve));
    }
  }

  /** Rejects waiting and later requests, each with a new `reason`. */
  end(reason: () => unknown): void {
    if (this.#refusal !== null) return;
    this.#refusal = reason;
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
      this.#submit(question);
    }
  }

  #submit(question: Question): void {
    const askId = ++lastAsk;
    this.#asked.set(askId, question);
    this.#send([Kind.ask, askId, this.#callId, question.verb, question.payload]);
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
