/** A promise that knows whether somebody waits for it: what a transaction asked of the writer. */

/** `await` takes a promise of another class than Promise by its `then`. */
export class Asked<T> extends Promise<T> {
  awaited = false;
  /** It failed before anybody waited for it. */
  failed = false;

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.awaited = true;
    return super.then(onFulfilled, onRejected);
  }
}
