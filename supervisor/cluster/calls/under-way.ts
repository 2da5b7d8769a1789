/** Counts what is under way in each bucket, and says when it has ended: until then the node keeps what the bucket has. */
import { BUCKETS } from '../../../protocol/buckets.ts';

export class UnderWay {
  /** By bucket. A map would change with each request. */
  readonly #counts = new Uint32Array(BUCKETS);
  readonly #waiting = new Map<number, (() => void)[]>();

  /** Something begins that goes on until the function that this returns is called; later calls of that do nothing. */
  begin(bucket: number): () => void {
    this.#counts[bucket] = this.#count(bucket) + 1;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#end(bucket);
    };
  }

  /** Resolves when nothing of the bucket is under way; null where that is so. */
  ended(bucket: number): Promise<void> | null {
    if (this.#count(bucket) === 0) return null;
    return new Promise<void>((resolve) => {
      this.#waiting.set(bucket, [...(this.#waiting.get(bucket) ?? []), resolve]);
    });
  }

  #end(bucket: number): void {
    const left = this.#count(bucket) - 1;
    this.#counts[bucket] = left;
    const waiting = left > 0 ? undefined : this.#waiting.get(bucket);
    if (waiting === undefined) return;
    this.#waiting.delete(bucket);
    for (const resolve of waiting) resolve();
  }

  #count(bucket: number): number {
    return this.#counts[bucket] as number;
  }
}
