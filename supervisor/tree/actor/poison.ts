/**
 * Remembers which calls took an actor down, so that one bad row cannot keep an app in a crash loop. Pure.
 *
 * With many calls in flight a death does not say whose fault it was. After one the actor is careful: it runs one call at a
 * time, so that the next death names its call. A call that took the actor down twice, alone, is refused.
 */
import { LIMITS } from '../../../protocol/limits.ts';

/** Calls that must end well, one at a time, before the actor stops being careful. */
const CAREFUL_CALLS = 32;
const DEATHS = 2;

export class PoisonMemory {
  #deaths = new Map<string, number>();
  #carefulFor = 0;

  get careful(): boolean {
    return this.#carefulFor > 0;
  }

  /** True when this call is refused. Costs a hash only for an app that has had a death. */
  refuses(call: { fingerprint(): string }): boolean {
    return this.#deaths.size > 0 && (this.#deaths.get(call.fingerprint()) ?? 0) >= DEATHS;
  }

  /** The actor died while these calls were in flight. */
  died(inFlight: readonly { fingerprint(): string }[]): void {
    this.#carefulFor = CAREFUL_CALLS;
    const [only] = inFlight;
    if (!only || inFlight.length > 1) return;
    const key = only.fingerprint();
    const deaths = (this.#deaths.get(key) ?? 0) + 1;
    this.#deaths.delete(key);
    this.#deaths.set(key, deaths);
    if (this.#deaths.size > LIMITS.poisonCalls) {
      for (const oldest of this.#deaths.keys()) {
        this.#deaths.delete(oldest);
        break;
      }
    }
  }

  /** A call ended without harm. */
  survived(): void {
    if (this.#carefulFor > 0) this.#carefulFor--;
  }

  /** A new version, or a restart by hand: everything may be different. */
  forget(): void {
    this.#deaths.clear();
    this.#carefulFor = 0;
  }
}
