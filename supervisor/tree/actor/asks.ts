/** What the fires on one thread ask, and have not been answered yet. Nothing that a thread sends is believed. */
import { type AnswerFrame, ASKS, type AskFrame, Kind } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Call } from './call.ts';

export class Asks {
  readonly #send: (frame: AnswerFrame) => void;
  /** The call that asked last, and how much of it is under way. */
  #call: Call | null = null;
  #open = 0;
  #lastId = 0;

  /** `send` throws when a frame is too large. */
  constructor(send: (frame: AnswerFrame) => void) {
    this.#send = send;
  }

  /**
   * Hands a question to whoever made the call, who answers it once; `call` is the one in flight under the frame's number. What
   * is asked for a call that was answered already is not heard. Throws when no sound thread would send this.
   */
  take(frame: AskFrame, call: Call | null): void {
    const [, askId, , verb, payload] = frame;
    if (!isAsk(frame) || askId <= this.#lastId) throw new Error('Not a question.');
    if (!call?.reply.asked) throw new Error('A question of a call that cannot ask.');
    this.#lastId = askId;
    if (call.settled) return;
    if (this.#call !== call) {
      this.#call = call;
      this.#open = 0;
    }
    if (++this.#open > LIMITS.runNodesAtOnce) throw new Error('Too many questions at once.');
    let answered = false;
    call.asked(verb, payload, (ok, body) => {
      if (answered) return;
      answered = true;
      if (this.#call === call) this.#open--;
      if (!call.settled) this.#answer(askId, ok, body);
    });
  }

  #answer(askId: number, ok: boolean, body: Uint8Array): void {
    try {
      this.#send([Kind.answer, askId, ok, body]);
    } catch {
      this.#send([Kind.answer, askId, false, TOO_LARGE]);
    }
  }
}

const TOO_LARGE = Buffer.from(JSON.stringify({ code: 'HANDLER_ERROR', message: 'The answer is too large.' }));

function isAsk([, askId, callId, verb, payload]: AskFrame): boolean {
  if (!Number.isSafeInteger(askId) || !Number.isSafeInteger(callId) || !ASKS.includes(verb)) return false;
  return payload instanceof Uint8Array && payload.length <= LIMITS.askBytes;
}
