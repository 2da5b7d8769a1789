/**
 * Counts what ran in this thread whose outcome is not the same each time: a look at the clock, chance, timers, the network, secrets.
 * A query during which the count moved is no function of its input and the data alone. What another call did meanwhile counts too.
 */

// Taken before app code runs.
const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;

let count = 0;
const counted = new WeakSet<object>();

/** How often something happened so far; NaN, which is no number's equal, once something cannot be counted. */
export function effects(): number {
  return count;
}

/** Something happened. */
export function effect(): void {
  count++;
}

/** From now on something may happen without being counted. */
export function uncountable(): void {
  count = Number.NaN;
}

/** Replaces the clock, chance and timers by ones that count. Called once, before app code and before globals are closed. */
export function countGlobals(): void {
  countDate();
  countUses(Math, ['random']);
  countUses(getPrototypeOf(performance) as object);
  countUses(globalThis, ['setTimeout', 'setInterval', 'setImmediate']);
  countUses(AbortSignal, ['timeout']);
  countUses(URL, ['createObjectURL']);
  countUses(Atomics, ['wait', 'waitAsync']);
  countUses(Event.prototype, ['timeStamp']);
  countUses(WeakRef.prototype, ['deref']);
  countUses(FinalizationRegistry.prototype, ['register']);
  countFormats(Intl.DateTimeFormat.prototype);
  const { Temporal } = globalThis as { Temporal?: { Now: object } };
  if (Temporal !== undefined) countUses(Temporal.Now);
}

/** The same for what Node loads when it is first used: the value that the global of this name has. */
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

/** Each call of these methods, and each look at these accessors, counts; by default all of them. */
function countUses(owner: object, names: readonly PropertyKey[] = ownKeys(owner)): void {
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
        apply(method, self, given) {
          count++;
          return apply(method, self, given) as unknown;
        },
      });
      defineProperty(owner, name, { ...found, value: counting });
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

/** Without a date, a format shows the present one. */
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
