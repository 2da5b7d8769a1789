/**
 * Calls functions of the thread from a realm. What those throw is an object of the thread, even a stack overflow that an app brings about:
 * an error of the realm takes its place.
 */

/** As better-sqlite3's. */
export class SqliteError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}
Object.defineProperty(SqliteError.prototype, 'name', { value: 'SqliteError', writable: true, configurable: true });

// App code could replace them.
const { assign } = Object;
const OwnError = Error;
const CLASSES = new Map<unknown, ErrorConstructor>(
  [TypeError, RangeError, SyntaxError].map((Class) => [Class.name, Class as ErrorConstructor]),
);

export function across<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw ownError(error as { name?: unknown; message?: unknown; code?: unknown } | null);
  }
}

/** The function, with `across` around its calls. */
export function guarded<F extends (...given: never[]) => unknown>(call: F): F {
  return ((...given: never[]) => across(() => call(...given))) as F;
}

function ownError(error: { name?: unknown; message?: unknown; code?: unknown } | null): Error {
  const { name, message, code } = error ?? {};
  if (name === 'SqliteError') return new SqliteError(String(message), String(code));
  const own = new (CLASSES.get(name) ?? OwnError)(String(message));
  return code === undefined ? own : assign(own, { code });
}
