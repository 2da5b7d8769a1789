/** Counts what is under way in each bucket, and says when it has ended: until then the node keeps what the bucket has. */
export class UnderWay {
  readonly #counts = new Map<number, number>();
  readonly #waiting = new Map<number, (() => void)[]>();

  /** Something begins that goes on until the function that this returns is called; later calls of that do nothing. */
  begin(bucket: number): () => void {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + 1);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#end(bucket);
    };
  }

  /** Resolves when nothing of the bucket is under way. */
  async ended(bucket: number): Promise<void> {
    if (!this.#counts.has(bucket)) return;
    await new Promise<void>((resolve) => {
      this.#waiting.set(bucket, [...(this.#waiting.get(bucket) ?? []), resolve]);
    });
  }

  #end(bucket: number): void {
    const count = (this.#counts.get(bucket) ?? 0) - 1;
    if (count > 0) {
      this.#counts.set(bucket, count);
      return;
    }
    this.#counts.delete(bucket);
    for (const resolve of this.#waiting.get(bucket) ?? []) resolve();
    this.#waiting.delete(bucket);
  }
}
