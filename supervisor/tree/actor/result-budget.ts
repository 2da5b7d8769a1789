/**
 * How many calls an app may work on at once, by how large its results have been: the thread holds each several times over
 * before it has left, and many large ones at once would take it over its memory limit. Pure.
 */
import { LIMITS } from '../../../protocol/limits.ts';

/** Results up to this size limit nothing. */
const SMALL_BYTES = LIMITS.actorResultsBytes / LIMITS.actorConcurrency;

export class ResultBudget {
  /** Of the results over `SMALL_BYTES` that came lately; 0 when there were none. */
  #largest = 0;
  /** When there was last one of about that size. */
  #seenAt = 0;

  /** A result of so many bytes has come. `now` gives milliseconds. */
  saw(bytes: number, now: () => number): void {
    if (bytes <= SMALL_BYTES || bytes < this.#largest / 2) return;
    this.#largest = Math.max(this.#largest, bytes);
    this.#seenAt = now();
  }

  /** Calls at a time. Large results are remembered as long as deaths are, so that they cannot add up to a quarantine. */
  calls(now: () => number): number {
    if (this.#largest === 0) return LIMITS.actorConcurrency;
    if (now() - this.#seenAt > LIMITS.restartWindowMs) {
      this.#largest = 0;
      return LIMITS.actorConcurrency;
    }
    return Math.max(1, Math.floor(LIMITS.actorResultsBytes / this.#largest));
  }

  /** A new version may be another app. */
  forget(): void {
    this.#largest = 0;
  }
}
