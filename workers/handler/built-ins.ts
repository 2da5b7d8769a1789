/**
 * Closes the built-ins that app code shares with ours in its thread: what is on `globalThis` cannot be replaced, and its classes
 * cannot be changed. Whoever could put a function of their own in the place of `Map.prototype.set` or `Array.prototype.push`, or
 * a `path` on `Object.prototype`, would be handed the sockets of Node's HTTP client or of ours, or decide where they lead.
 *
 * Left open is what code changes for good reasons, and through which nothing of ours passes: the methods that `Object.prototype`
 * has, errors (`this.name = …`), dates, numbers' helpers, and `RegExp.prototype`, whose methods get ten times as slow.
 */
const OPEN = new Set(
  (
    'Date Math Intl Temporal Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError ' +
    'SuppressedError DOMException console globalThis global'
  ).split(' '),
);

// Taken before app code runs.
const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, preventExtensions } = Object;
const { apply, ownKeys } = Reflect;
const TypedArray = getPrototypeOf(Uint8Array) as typeof Uint8Array;
/** Of `Object.prototype` only the names are fixed, at the end. */
const LEFT = new Set<unknown>([Object.prototype, RegExp.prototype]);

/** Prototypes that have no global name. */
const HIDDEN = [
  [][Symbol.iterator](),
  new Map().keys(),
  new Set().keys(),
  ''[Symbol.iterator](),
  'a'.matchAll(/a/g),
  (function* () {})(),
  (async function* () {})(),
  async () => {},
  function* () {},
  async function* () {},
  new Uint8Array(0),
];

/** Called once, before app code, when every other global is gone; `names` are those that are left. */
export function closeBuiltIns(names: readonly string[]): void {
  for (const hidden of HIDDEN) {
    for (
      let proto = getPrototypeOf(hidden);
      proto !== null && proto !== Object.prototype;
      proto = getPrototypeOf(proto)
    )
      close(proto);
  }
  for (const name of names) closeGlobal(name);
  preventExtensions(Object.prototype);
}

function closeGlobal(name: string): void {
  const found = getOwnPropertyDescriptor(globalThis, name);
  if (found === undefined || !found.configurable) return;
  if (found.get === undefined) {
    fix(name, found.value);
    return;
  }
  // Node loads what is behind some names when they are first used.
  const load = found.get;
  defineProperty(globalThis, name, {
    configurable: true,
    enumerable: found.enumerable ?? false,
    get: () => {
      const value: unknown = apply(load, globalThis, []);
      fix(name, value);
      return value;
    },
  });
}

function fix(name: string, value: unknown): void {
  const open = OPEN.has(name);
  if (!open) closeClass(value);
  // A name that is left open can be given another value.
  defineProperty(globalThis, name, { value, writable: open, configurable: open });
}

/** A class that app code gets to see: nothing of it can be changed. */
export function closeClass(value: unknown): void {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return;
  close(value);
  const { prototype } = value as { prototype?: unknown };
  if ((typeof prototype === 'object' && prototype !== null) || typeof prototype === 'function') close(prototype);
}

function close(value: object): void {
  if (LEFT.has(value)) return;
  if (value === TypedArray.prototype || value instanceof TypedArray) closeTypedArray(value);
  else freeze(value);
}

/**
 * A frozen prototype makes every write of a byte by its index some 70 times as slow in V8, as does a changed `constructor`
 * every `subarray`. So the members are fixed one by one, but for `constructor`, which Node's buffers do not ask.
 */
function closeTypedArray(prototype: object): void {
  for (const key of ownKeys(prototype)) {
    if (key === 'constructor') continue;
    const isValue = getOwnPropertyDescriptor(prototype, key)?.get === undefined;
    defineProperty(prototype, key, { configurable: false, ...(isValue && { writable: false }) });
  }
  preventExtensions(prototype);
  // V8 makes an object fast again that becomes a prototype.
  create(prototype);
}
