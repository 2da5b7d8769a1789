/** How many bytes of answers wait for readers that are slow to take them, over all connections of the process. */
import { LIMITS } from '../../protocol/limits.ts';

/** A large answer that its client has not taken whole. */
export type WaitingAnswer = {
  /** Of the whole body: it is held until its last byte has gone. */
  readonly bytes: number;
  /** Ends its connection. */
  cutOff(): void;
};

/**
 * An answer cannot be refused any more, what it reports is done. So when they are over the limit together, the one whose
 * reader has taken nothing for longest is cut off, until the others fit. The newest one is never cut off here.
 */
export class AnswerBudget {
  readonly #limit: number;
  /** In the order in which their readers last took something. */
  readonly #waiting = new Set<WaitingAnswer>();
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes of the answers that wait. */
  get held(): number {
    return this.#held;
  }

  /** Its reader did not take all of it at once. May cut off others. */
  wait(answer: WaitingAnswer): void {
    this.#waiting.add(answer);
    this.#held += answer.bytes;
    for (const other of this.#waiting) {
      if (this.#held <= this.#limit || other === answer) return;
      this.done(other);
      other.cutOff();
    }
  }

  /** Its reader took some of it. */
  progress(answer: WaitingAnswer): void {
    if (this.#waiting.delete(answer)) this.#waiting.add(answer);
  }

  /** Its last byte has gone, or its client has. Does nothing the second time. */
  done(answer: WaitingAnswer): void {
    if (this.#waiting.delete(answer)) this.#held -= answer.bytes;
  }
}

/** Of this process, whatever serves its requests. */
export const PROCESS_ANSWERS: AnswerBudget = new AnswerBudget(LIMITS.answersBytes);
