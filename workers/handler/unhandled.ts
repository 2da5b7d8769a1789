/** Knows which rejections nobody handles, so that a call fails when one of its writes did and its handler did not see it. */

// App code could replace them.
const startImmediate = setImmediate;

/** What failed: an error may pass through promises of the handler, so it counts and not the promise, unless it is a primitive. */
export type Failed = { error: unknown; promise: Promise<unknown> };

/** Error, or promise → how many promises were rejected with it that nobody handles. */
const unhandled = new WeakMap<object, number>();
const keys = new WeakMap<Promise<unknown>, object>();

/** For Node's event `unhandledRejection`. */
export function becameUnhandled(error: unknown, promise: Promise<unknown>): void {
  const key = keyOf({ error, promise });
  keys.set(promise, key);
  unhandled.set(key, (unhandled.get(key) ?? 0) + 1);
}

/** For Node's event `rejectionHandled`: somebody handles it after all. */
export function becameHandled(promise: Promise<unknown>): void {
  const key = keys.get(promise);
  if (key !== undefined) unhandled.set(key, (unhandled.get(key) ?? 0) - 1);
}

/** The first of them that nobody handles. Node tells of a rejection when all that follows from it in its turn has run. */
export async function firstUnhandled(failures: readonly Failed[]): Promise<Failed | undefined> {
  await new Promise<void>((resolve) => startImmediate(resolve));
  return failures.find((failed) => (unhandled.get(keyOf(failed)) ?? 0) > 0);
}

function keyOf({ error, promise }: Failed): object {
  return typeof error === 'object' && error !== null ? error : promise;
}
