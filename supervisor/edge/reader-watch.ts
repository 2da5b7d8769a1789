/** Cuts off a reader that takes nothing of an answer for `LIMITS.stalledReaderMs`, on both edges. */
import { LIMITS } from '../../protocol/limits.ts';

/**
 * The looks until a reader is cut off. The native code of the uws edge gives each connection at least 8 s from one to the next.
 */
const LOOKS = 6;

/** Watches one reader while something waits for it. Its time begins anew with everything that it takes. */
export class ReaderWatch {
  readonly #look: () => void;
  readonly #cutOff: () => void;
  #timer: NodeJS.Timeout | null;
  #left = LOOKS;

  /** Begins at once. `look` may call `progress` or `stop`; `cutOff` ends the connection. Neither runs after `stop`. */
  constructor(look: () => void, cutOff: () => void) {
    this.#look = look;
    this.#cutOff = cutOff;
    this.#timer = this.#wait();
  }

  /** Begins the time anew, because the reader took something. */
  progress(): void {
    this.stop();
    this.#left = LOOKS;
    this.#timer = this.#wait();
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #wait(): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#left -= 1;
      this.#look();
      // The look may have ended the watch, or begun it anew.
      if (this.#timer !== timer) return;
      if (this.#left > 0) this.#timer = this.#wait();
      else this.#cutOff();
    }, LIMITS.stalledReaderMs / LOOKS);
    return timer;
  }
}
