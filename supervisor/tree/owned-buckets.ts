/** Tells the writers which buckets of a log of pages they may write, and says when they are done with the others. */
import { Kind, type OwnedBucket } from '../../protocol/wire/frames.ts';
import type { Child } from './child.ts';

/** Writers that may still have something of what the frame of this turn left out. */
type Waiting = { turn: number; left: Set<Child>; done(): void };

export class OwnedBuckets {
  /** For the start of a writer. */
  buckets: OwnedBucket[] = [];
  #turn = 0;
  #waiting: Waiting[] = [];

  /** All that the node owns from now on. Resolves when none of these writers has anything of other buckets. */
  change(buckets: OwnedBucket[], writers: readonly Child[]): Promise<void> {
    this.buckets = buckets;
    const turn = ++this.#turn;
    const left = new Set(writers.filter(({ state }) => state === 'running'));
    for (const writer of left) this.#tell(writer);
    if (left.size === 0) return Promise.resolve();
    return new Promise((done) => this.#waiting.push({ turn, left, done }));
  }

  /** It was started with what was owned then. */
  ready(writer: Child): void {
    if (this.#turn > 0) this.#tell(writer);
  }

  released(writer: Child, turn: number): void {
    this.#remove(writer, turn);
  }

  /** What it had under way goes no further. */
  ended(writer: Child): void {
    this.#remove(writer, Number.POSITIVE_INFINITY);
  }

  #tell(writer: Child): void {
    writer.send([Kind.owned, this.#turn, this.buckets]);
  }

  #remove(writer: Child, turn: number): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      if (waiting.turn <= turn) waiting.left.delete(writer);
      if (waiting.left.size === 0) waiting.done();
      return waiting.left.size > 0;
    });
  }
}
