/**
 * Which requests the native parser may still be at. It reads a whole buffer before it returns to the event loop, and goes
 * on to what it takes for the next request as soon as this one is answered; while it is not, it ends the connection
 * instead. So no answer leaves in the turn in which its request was parsed: a buffer never holds two requests that run,
 * whatever the parser takes for the end of the first.
 */
export class ParserTurn {
  #number = 0;
  #entered = false;
  #waiting: (() => void)[] = [];

  /** To be called where the parser hands something over. Returns the turn's number. */
  enter(): number {
    if (!this.#entered) {
      this.#entered = true;
      setImmediate(this.#leave);
    }
    return this.#number;
  }

  isOver(turn: number): boolean {
    return turn !== this.#number;
  }

  /** Runs `callback` at the end of the turn that was entered last. */
  afterwards(callback: () => void): void {
    this.#waiting.push(callback);
  }

  readonly #leave = (): void => {
    this.#entered = false;
    this.#number += 1;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const callback of waiting) callback();
  };
}
