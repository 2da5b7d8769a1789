/**
 * Numbers the changes of people and their rights, and gives them to the nodes that ask their owner. Each node keeps one, so that the
 * numbers go on when it becomes the owner, and the others need not read all again.
 */
import { LIMITS } from '../../../protocol/limits.ts';

/** The name of the rows that changed, and a change; without that they are to be read again. */
export type Told = readonly [rows: string, change?: unknown];

/** Up to which change a node knows all, as the owner numbers them in an epoch of its bucket. */
export type Place = { readonly epoch: number; readonly number: number };

export class Journal {
  /** Of the last change. */
  #place: Place;
  /** Where the epoch before ended, as far as this node knew: who knew more then may know what nobody stored. */
  #before: Place | null = null;
  #told: Told[] = [];
  readonly #waiting = new Set<() => void>();

  /** Nothing is known of what came before the place. */
  constructor(place: Place) {
    this.#place = place;
  }

  get place(): Place {
    return this.#place;
  }

  /** Its node owns the database from now on. */
  begin(epoch: number): void {
    this.#before = this.#place;
    this.#place = { epoch, number: this.#place.number };
  }

  /** A change at its own node. */
  add(told: readonly Told[]): void {
    const { epoch, number } = this.#place;
    this.#append(told, { epoch, number: number + told.length });
    for (const end of this.#waiting) end();
  }

  /** What the owner told from this place up to another one. */
  follow(told: readonly Told[], place: Place): void {
    if (place.epoch !== this.#place.epoch) this.#before = null;
    this.#append(told, place);
  }

  /** What came after a place, the first of it, and up to where that is; null for a place after which something may be missing. */
  since({ epoch, number }: Place): { told: Told[]; place: Place } | null {
    const isKnown = epoch === this.#place.epoch || (epoch === this.#before?.epoch && number <= this.#before.number);
    const behind = this.#place.number - number;
    if (!isKnown || behind < 0 || behind > this.#told.length) return null;
    const from = this.#told.length - behind;
    const told = this.#told.slice(from, from + LIMITS.identityChangesAtOnce);
    return { told, place: { epoch: this.#place.epoch, number: number + told.length } };
  }

  /** Resolves when there is something after a place, and after `ms` at the latest. */
  async after({ epoch, number }: Place, ms: number): Promise<void> {
    if (epoch !== this.#place.epoch || number !== this.#place.number) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#waiting.add(end);
    });
  }

  #append(told: readonly Told[], place: Place): void {
    for (const one of told) this.#told.push(one);
    this.#place = place;
    // Half of them go at once, so that it costs little.
    if (this.#told.length > 2 * LIMITS.identityChanges) this.#told = this.#told.slice(-LIMITS.identityChanges);
  }
}
