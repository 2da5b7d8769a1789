/** A single timer that can be set again and called off: what an actor that waits out its back-off has. */
export class WakeUp {
  #timer: NodeJS.Timeout | null = null;

  /** Calls `wake` once, `ms` milliseconds from now, instead of what was set before. */
  set(ms: number, wake: () => void): void {
    this.clear();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      wake();
    }, ms);
  }

  clear(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
