/** Starts a gateway in phases; ends what they made in reverse order, when it stops and when a later phase fails. */
import type { Logger } from 'pino';

/** How something ends; what it has under way may take `drainMs`. */
type End = (drainMs: number) => unknown;

export class Phases {
  readonly #log: Logger;
  readonly #onPhase: (name: string) => void;
  readonly #ends: { phase: string; end: End }[] = [];
  #phase = '';
  #ending: Promise<void> | null = null;

  /** `onPhase` is called as a phase begins; what it throws fails the start. For tests. */
  constructor(log: Logger, onPhase: (name: string) => void = () => {}) {
    this.#log = log;
    this.#onPhase = onPhase;
  }

  /** Throws where a stop came meanwhile. */
  begin(name: string): void {
    if (this.#ending !== null) throw new Error('The gateway was stopped while it started.');
    this.#phase = name;
    this.#onPhase(name);
  }

  /** Says how what the phase has just made ends: at once, so that a failure in the next line leaves nothing. */
  ends(end: End): void {
    this.#ends.push({ phase: this.#phase, end });
    // A stop came first.
    if (this.#ending !== null) this.#ending = this.#ending.then(() => this.#endAll(0));
  }

  /** Takes every end, the last one first, also after one that fails. Never rejects; later calls wait for the first one. */
  end(drainMs: number): Promise<void> {
    this.#ending ??= this.#endAll(drainMs);
    return this.#ending;
  }

  async #endAll(drainMs: number): Promise<void> {
    for (let last = this.#ends.pop(); last !== undefined; last = this.#ends.pop()) {
      try {
        await last.end(drainMs);
      } catch (error) {
        this.#log.error({ err: error, phase: last.phase }, 'A part of the gateway could not be stopped cleanly.');
      }
    }
  }
}
