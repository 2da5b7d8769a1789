/** Keeps what was acknowledged last of something that changes, and what was asked for since without an answer. */

/** `refused`: the answer says that nothing was changed. */
export type Outcome = 'done' | 'refused' | 'unknown';

/** Either of the two may be found. */
export class Subject<T> {
  readonly name: string;
  acknowledged: T;
  #open: T[] = [];

  constructor(name: string, initial: T) {
    this.name = name;
    this.acknowledged = initial;
  }

  async set(value: T, change: Outcome | Promise<Outcome>): Promise<Outcome> {
    this.#open.push(value);
    const outcome = await change;
    if (outcome === 'done') this.acknowledged = value;
    if (outcome === 'done') this.#open = [];
    // Only this try: an earlier one for the same, whose answer was lost, may be why it was refused.
    if (outcome === 'refused') this.#open.splice(this.#open.lastIndexOf(value), 1);
    return outcome;
  }

  /** A sentence when `found` is neither. What was found once does not go back to what was before it. */
  see(found: T): string[] {
    const at = this.#open.indexOf(found);
    const right = found === this.acknowledged || at >= 0;
    const unanswered = this.#open.length > 0 ? `, unanswered ${this.#open.join(', ')}` : '';
    const text = `${this.name} is ${String(found)}; acknowledged was ${String(this.acknowledged)}${unanswered}.`;
    this.acknowledged = found;
    this.#open = this.#open.slice(at + 1);
    return right ? [] : [text];
  }

  /** The same where nothing can be under way any more: what was found is what counts from now on. */
  settle(found: T): string[] {
    const faults = this.see(found);
    this.#open = [];
    return faults;
  }
}
