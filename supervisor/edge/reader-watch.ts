/** Cuts off clients that take nothing of an answer. */
import { LIMITS } from '../../protocol/limits.ts';

/** Tries until the client is cut off; the native code gives none less than 8 s between two. */
const TRIES = 6;

/**
 * Cuts off a client on uWebSockets.js that takes nothing of the waiting bytes. The native code would do so after some 10 s;
 * each further try to send restarts its timer.
 */
export class ReaderWatch {
  readonly #tryAgain: () => void;
  readonly #cutOff: () => void;
  #timer: NodeJS.Timeout;
  #left = TRIES;

  /** Begins at once. `tryAgain` hands the socket what waits, `cutOff` ends the connection; neither runs after `stop`. */
  constructor(tryAgain: () => void, cutOff: () => void) {
    this.#tryAgain = tryAgain;
    this.#cutOff = cutOff;
    this.#timer = this.#start();
  }

  /** The client took something: its time begins anew. */
  progress(): void {
    clearInterval(this.#timer);
    this.#left = TRIES;
    this.#timer = this.#start();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #start(): NodeJS.Timeout {
    return setInterval(() => {
      this.#left -= 1;
      if (this.#left > 0) this.#tryAgain();
      else this.#cutOff();
    }, LIMITS.stalledReaderMs / TRIES);
  }
}
