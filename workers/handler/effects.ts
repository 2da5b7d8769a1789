/**
 * Counts the effects in this thread whose outcome varies: reading the clock, random numbers, timers, the network, secrets. If
 * the count moves during a query, its result may depend on more than input and data. Effects of other calls meanwhile count
 * too.
 */

// Taken before app code runs.
const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;

let count = 0;
const counted = new WeakSet<object>();

/** Effects so far; NaN, which equals no number, once some cannot be counted. */
export function effects(): number {
  return count;
}

/** Counts an effect. */
export function effect(): void {
  count++;
}

/** From now on, effects may happen uncounted. */
export function uncountable(): void {
  count = Number.NaN;
}

/**
 * Replaces the clock, random numbers and timers by counting ones. Called once, before app code and before globals are closed.
 */
export function countGlobals(): void {
  countLanguage();
  countUses(getPrototypeOf(performance) as object);
  countUses(globalThis, ['setTimeout', 'setInterval', 'setImmediate']);
  countUses(AbortSignal, ['timeout']);
  countUses(URL, ['createObjectURL']);
  countUses(Atomics, ['wait', 'waitAsync']);
  countUses(Event.prototype, ['timeStamp']);
  countUses(WeakRef.prototype, ['deref']);
  countUses(FinalizationRegistry.prototype, ['register']);
}

/** The same for what belongs to the language. */
export function countLanguage(): void {
  countDate();
  countUses(Math, ['random']);
  countFormats(Intl.DateTimeFormat.prototype);
  const { Temporal } = globalThis as { Temporal?: { Now: object } };
  if (Temporal !== undefined) countUses(Temporal.Now);
}

/** The same for a global that Node loads on first use; returns its value. */
export function countLoaded(name: string, value: unknown): void {
  const { prototype } = value as { prototype?: object };
  if (name === 'crypto') {
    const { subtle } = value as { subtle: object };
    countUses(getPrototypeOf(value as object) as object);
    countUses(getPrototypeOf(subtle) as object);
  } else if ((name === 'Crypto' || name === 'SubtleCrypto') && prototype !== undefined) countUses(prototype);
  else if (name === 'File' && prototype !== undefined) countUses(prototype, ['lastModified']);
  // The text of a form has a random boundary.
  else if ((name === 'Request' || name === 'Response') && prototype !== undefined) countUses(prototype);
}

/** Counts each call of these methods and each read of these accessors; by default all of them, and of other values too. */
function countUses(owner: object, given?: readonly PropertyKey[]): void {
  const names = given ?? ownKeys(owner);
  if (counted.has(owner)) return;
  counted.add(owner);
  for (const name of names) {
    const found = getOwnPropertyDescriptor(owner, name);
    if (found?.configurable !== true || name === 'constructor') continue;
    const { get, value } = found as { get?: (this: unknown) => unknown; value?: unknown };
    if (get !== undefined) {
      defineProperty(owner, name, {
        ...found,
        get() {
          count++;
          return apply(get, this, []) as unknown;
        },
      });
    } else if (typeof value === 'function') {
      const counting = new Proxy(value as (...given: unknown[]) => unknown, {
        apply(method, self, args) {
          count++;
          return apply(method, self, args) as unknown;
        },
      });
      defineProperty(owner, name, { ...found, value: counting });
    } else if (given === undefined && typeof name === 'string') {
      // Such as `performance.nodeTiming`, whose times are read from an object that a module may keep.
      if (typeof value === 'object' && value !== null) countUses(value);
      const { enumerable = false } = found;
      const get = (): unknown => {
        count++;
        return value;
      };
      defineProperty(owner, name, { configurable: true, enumerable, get });
    }
  }
}

function countDate(): void {
  countUses(Date, ['now']);
  const CountingDate = new Proxy(Date, {
    construct(date, given, as) {
      if (given.length === 0) count++;
      return construct(date, given, as) as object;
    },
    apply(date) {
      count++;
      return apply(date as () => string, undefined, []);
    },
  });
  defineProperty(Date.prototype, 'constructor', { value: CountingDate, writable: true, configurable: true });
  defineProperty(globalThis, 'Date', { value: CountingDate, writable: true, configurable: true });
}

/** Without a date, a format shows the current one. */
function countFormats(prototype: Intl.DateTimeFormat): void {
  const format = getOwnPropertyDescriptor(prototype, 'format')?.get as (this: unknown) => (date?: Date) => string;
  const bound = new WeakMap<object, (date?: Date) => string>();
  defineProperty(prototype, 'format', {
    configurable: true,
    get() {
      const plain = apply(format, this, []) as (date?: Date) => string;
      const known = bound.get(plain);
      if (known !== undefined) return known;
      const counting = (date?: Date): string => {
        if (date === undefined) count++;
        return plain(date);
      };
      bound.set(plain, counting);
      return counting;
    },
  });
  const { formatToParts } = prototype;
  defineProperty(prototype, 'formatToParts', {
    value(this: Intl.DateTimeFormat, date?: Date) {
      if (date === undefined) count++;
      return apply(formatToParts, this, [date]);
    },
    writable: true,
    configurable: true,
  });
}
