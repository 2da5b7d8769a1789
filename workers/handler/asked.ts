/** A promise that knows whether it is awaited, for the operations of a transaction. */

/** `await` calls `then` of a promise whose class is not Promise. */
export class Asked<T> extends Promise<T> {
  awaited = false;
  /** It failed before it was awaited. */
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
