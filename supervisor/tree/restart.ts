/** Restart policy of one child: exponential back-off with jitter, and a restart intensity that escalates. Pure. */

export type RestartLimits = {
  /** More restarts than this within `windowMs` escalate. */
  intensity: number;
  windowMs: number;
  backoffMs: number;
  backoffMaxMs: number;
};

export class RestartPolicy {
  readonly #limits: RestartLimits;
  readonly #random: () => number;
  #exits: number[] = [];

  /** `random` gives numbers in [0, 1), as Math.random does. */
  constructor(limits: RestartLimits, random: () => number) {
    this.#limits = limits;
    this.#random = random;
  }

  /**
   * Records an exit at `now` (milliseconds). Answers how long to wait before the restart, or null when the intensity is
   * exceeded. The first restart in a window comes at once; each further one doubles the wait, with half of it jittered.
   */
  exited(now: number): number | null {
    this.#exits = this.#exits.filter((at) => now - at < this.#limits.windowMs);
    this.#exits.push(now);
    const count = this.#exits.length;
    if (count > this.#limits.intensity) return null;
    if (count === 1) return 0;
    const full = Math.min(this.#limits.backoffMs * 2 ** (count - 2), this.#limits.backoffMaxMs);
    return Math.round(full / 2 + (full / 2) * this.#random());
  }

  /** Forgets the past: after an escalation was dealt with, or when what failed was replaced. */
  reset(): void {
    this.#exits = [];
  }
}
