/** Decides when to restart: exponential back-off with jitter, and a restart intensity that escalates. Pure. */
import { LIMITS } from '../../protocol/limits.ts';

export class RestartPolicy {
  readonly #random: () => number;
  readonly #intensity: number;
  readonly #windowMs: number;
  #exits: number[] = [];

  /** `random` gives numbers in [0, 1), as Math.random does. More than `intensity` exits within `windowMs` escalate. */
  constructor(
    random: () => number,
    intensity: number = LIMITS.restartIntensity,
    windowMs: number = LIMITS.restartWindowMs,
  ) {
    this.#random = random;
    this.#intensity = intensity;
    this.#windowMs = windowMs;
  }

  /**
   * Records an exit at `now` (milliseconds). Answers how long to wait before the restart, or null when the intensity is
   * exceeded. The first restart in a window comes at once; each further one doubles the wait, with half of it jittered.
   */
  exited(now: number): number | null {
    this.#exits = this.#exits.filter((at) => now - at < this.#windowMs);
    this.#exits.push(now);
    const count = this.#exits.length;
    if (count > this.#intensity) return null;
    if (count === 1) return 0;
    const full = Math.min(LIMITS.restartBackoffMs * 2 ** (count - 2), LIMITS.restartBackoffMaxMs);
    return Math.round(full / 2 + (full / 2) * this.#random());
  }

  /** Forgets the past: after an escalation was dealt with, or when what failed was replaced. */
  reset(): void {
    this.#exits = [];
  }
}
