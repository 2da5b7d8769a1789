/**
 * Records an actor's failures: deaths of its threads, harm to others, calls that crashed it, results that nearly did. It
 * decides how many calls may run at a time, how long the next thread waits, and when the app is quarantined. Pure.
 *
 * With many calls in flight a death does not say whose fault it was. After one the actor is careful: it runs one call at a
 * time, so that the next death names its call. A call that took the actor down twice, alone, is refused.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { RestartPolicy } from '../restart.ts';
import type { Death } from './generation.ts';

/** Calls that must end well, one at a time, before the actor stops being careful. */
const CAREFUL_CALLS = 32;
const DEATHS = 2;
/** Results up to this size have no effect. */
const SMALL_BYTES = LIMITS.actorResultsBytes / LIMITS.actorConcurrency;

type Suspect = { readonly settled: boolean; fingerprint(): string };

export class CrashRecord {
  readonly #deaths: RestartPolicy;
  readonly #harm: RestartPolicy;
  #startFailures = 0;
  #carefulFor = 0;
  /** How many deaths each call caused alone, by its fingerprint. The latest is last. */
  readonly #deathsByCall = new Map<string, number>();
  /** The largest recent result over `SMALL_BYTES`, and when one of about that size came last; 0 without any. */
  #largestResult = 0;
  #largestAt = 0;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    this.#deaths = new RestartPolicy(random);
    this.#harm = new RestartPolicy(random, LIMITS.harmTimes, LIMITS.harmWindowMs);
  }

  get careful(): boolean {
    return this.#carefulFor > 0;
  }

  /**
   * How many calls may run at a time, `concurrency` at most. The thread holds each large result several times over before it
   * has left. They are remembered as long as deaths are, so that they cannot add up to a quarantine.
   */
  callsAtOnce(concurrency: number, now: () => number): number {
    if (this.#carefulFor > 0) return 1;
    if (this.#largestResult === 0) return concurrency;
    if (now() - this.#largestAt > LIMITS.restartWindowMs) {
      this.#largestResult = 0;
      return concurrency;
    }
    return Math.min(concurrency, Math.max(1, Math.floor(LIMITS.actorResultsBytes / this.#largestResult)));
  }

  /** True when the call took the actor down before, alone, and more than once. Costs a hash only after such a death. */
  refuses(call: Suspect): boolean {
    return this.#deathsByCall.size > 0 && (this.#deathsByCall.get(call.fingerprint()) ?? 0) >= DEATHS;
  }

  started(): void {
    this.#startFailures = 0;
  }

  /** A call ended without harm, with a result of so many bytes. */
  succeeded(bytes: number, now: () => number): void {
    if (this.#carefulFor > 0) this.#carefulFor--;
    if (bytes <= SMALL_BYTES || bytes < this.#largestResult / 2) return;
    this.#largestResult = Math.max(this.#largestResult, bytes);
    this.#largestAt = now();
  }

  /** A thread never became live. True when the actor gives up. */
  failedToStart(): boolean {
    return ++this.#startFailures >= LIMITS.startTries;
  }

  /** The calls that were in flight when a thread died may be why. */
  suspect({ stuck, openCalls }: Pick<Death, 'stuck'> & { openCalls: readonly Suspect[] }): void {
    this.#carefulFor = CAREFUL_CALLS;
    // If the thread stopped reacting, a call past its deadline is the cause, not later ones.
    const inFlight = stuck ? openCalls.filter((call) => call.settled) : openCalls;
    const [only] = inFlight;
    if (!only || inFlight.length > 1) return;
    const key = only.fingerprint();
    const deaths = (this.#deathsByCall.get(key) ?? 0) + 1;
    this.#deathsByCall.delete(key);
    this.#deathsByCall.set(key, deaths);
    if (this.#deathsByCall.size > LIMITS.crashingCalls)
      this.#deathsByCall.delete(this.#deathsByCall.keys().next().value as string);
  }

  /** How long to wait before the next thread, in milliseconds; null when there were too many deaths at `now`. */
  died(now: number): number | null {
    return this.#deaths.exited(now);
  }

  /** It harmed other apps. True when that was once too often. */
  harmed(now: number): boolean {
    return this.#harm.exited(now) === null;
  }

  /** Begins anew after a new version or a restart by hand: everything may be different. */
  reset(): void {
    this.#deaths.reset();
    this.#harm.reset();
    this.#startFailures = 0;
    this.#carefulFor = 0;
    this.#deathsByCall.clear();
    this.#largestResult = 0;
  }
}
