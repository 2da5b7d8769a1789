/** What is held against an actor: the deaths of its threads, the harm that it did to others, the calls that took it down. */
import { LIMITS } from '../../../protocol/limits.ts';
import { RestartPolicy } from '../restart.ts';
import type { Call } from './call.ts';
import type { Death } from './generation.ts';
import { PoisonMemory } from './poison.ts';

export class CrashRecord {
  readonly #poison = new PoisonMemory();
  readonly #deaths: RestartPolicy;
  readonly #harm: RestartPolicy;
  #startFailures = 0;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    const backoff = { backoffMs: LIMITS.restartBackoffMs, backoffMaxMs: LIMITS.restartBackoffMaxMs };
    this.#deaths = new RestartPolicy(
      { intensity: LIMITS.restartIntensity, windowMs: LIMITS.restartWindowMs, ...backoff },
      random,
    );
    this.#harm = new RestartPolicy({ intensity: LIMITS.harmTimes, windowMs: LIMITS.harmWindowMs, ...backoff }, random);
  }

  /** It runs one call at a time, so that the next death names its call. */
  get careful(): boolean {
    return this.#poison.careful;
  }

  /** True when the call took the actor down before, alone, and more than once. */
  refuses(call: Call): boolean {
    return this.#poison.refuses(call);
  }

  /** A thread became live. */
  started(): void {
    this.#startFailures = 0;
  }

  /** A call ended without harm. */
  survived(): void {
    this.#poison.survived();
  }

  /** A thread never became live. True when nothing more is to be tried. */
  failedToStart(): boolean {
    return ++this.#startFailures >= LIMITS.startTries;
  }

  /** The calls that were in flight when a thread died may be why. */
  suspect(death: Death): void {
    // One that stopped reacting was stopped by a call that outran its deadline, not by those that came after it.
    this.#poison.died(death.stuck ? death.orphans.filter((call) => call.settled) : death.orphans);
  }

  /** How long to wait before the next thread, in milliseconds; null when there were too many deaths at `now`. */
  died(now: number): number | null {
    return this.#deaths.exited(now);
  }

  /** Others suffered from it. True when that was once too often. */
  harmed(now: number): boolean {
    return this.#harm.exited(now) === null;
  }

  /** A new version, or a restart by hand: everything may be different. */
  pardon(): void {
    this.#poison.forget();
    this.#deaths.reset();
    this.#harm.reset();
    this.#startFailures = 0;
  }
}
