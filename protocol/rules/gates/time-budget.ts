/** The time that checking all handlers of an app may take: parser and walks ask for it as they go, for nothing else can stop them. */

/** Asked far more often than a clock should be read. */
const STEPS = 256;

export class TookTooLong extends Error {}

export class TimeBudget {
  readonly #until: number;
  readonly #now: () => number;
  #steps = 0;

  constructor(ms: number, now: () => number = () => performance.now()) {
    this.#now = now;
    this.#until = now() + ms;
  }

  /** @throws {TookTooLong} */
  readonly step = (): void => {
    if (++this.#steps % STEPS === 0 && this.#now() > this.#until) throw new TookTooLong();
  };
}
