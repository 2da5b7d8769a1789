/** Cuts off a reader that takes nothing of an answer for `LIMITS.stalledReaderMs`, on both edges. */
import { LIMITS } from '../../protocol/limits.ts';

/** Looks until a reader is cut off; the native code of the uws edge gives none less than 8 s between two. */
const LOOKS = 6;

/** Watches one reader while something waits for it. The time begins anew with everything that it takes. */
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

  /** The reader took something. */
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
      // That ended the watch, or began it anew.
      if (this.#timer !== timer) return;
      if (this.#left > 0) this.#timer = this.#wait();
      else this.#cutOff();
    }, LIMITS.stalledReaderMs / LOOKS);
    return timer;
  }
}
