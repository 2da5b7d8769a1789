/**
 * Restricts `globalThis` for app code to the language, the web's data types and timers; nothing reaches the machine
 * (specification, "Globals of handlers"). Handlers are trusted code; this keeps them on the documented path.
 *
 * The remaining globals cannot be replaced, nor their classes changed. App code with its own `Map.prototype.set` or
 * `Array.prototype.push`, or a `path` on `Object.prototype`, could get the sockets of Node's HTTP client or ours, or redirect
 * them. Still open is what app code changes for good reasons and our code does not depend on: the methods of
 * `Object.prototype`, errors (`this.name = …`), dates, numbers' helpers, and `RegExp.prototype`, which gets ten times as slow.
 */
import { countLoaded } from './effects.ts';

const ECMASCRIPT =
  'AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date ' +
  'DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array ' +
  'Int32Array Int8Array Intl Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp ' +
  'Set SharedArrayBuffer String SuppressedError Symbol SyntaxError Temporal TypeError URIError Uint16Array Uint32Array ' +
  'Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet decodeURI decodeURIComponent encodeURI encodeURIComponent escape ' +
  'eval globalThis isFinite isNaN parseFloat parseInt undefined unescape';

const WEB =
  'AbortController AbortSignal Blob Buffer ByteLengthQueuingStrategy CompressionStream CountQueuingStrategy Crypto CryptoKey ' +
  'CustomEvent DOMException DecompressionStream Event EventTarget File FormData Headers ReadableByteStreamController ' +
  'ReadableStream ReadableStreamBYOBReader ReadableStreamBYOBRequest ReadableStreamDefaultController ' +
  'ReadableStreamDefaultReader Request Response SubtleCrypto TextDecoder TextDecoderStream TextEncoder TextEncoderStream ' +
  'TransformStream TransformStreamDefaultController URL URLPattern URLSearchParams WebAssembly WritableStream ' +
  'WritableStreamDefaultController WritableStreamDefaultWriter atob btoa clearImmediate clearInterval clearTimeout console ' +
  'crypto performance queueMicrotask setImmediate setInterval setTimeout structuredClone';

// Node's own fetch looks at `global`, which is another name for `globalThis`.
const ALLOWED = new Set(`${ECMASCRIPT} ${WEB} global`.split(' '));

/** From Node 22 on, Node assigns the `constructor` of those that it makes itself, such as the bodies of responses. */
const STREAMS = new Set(['ReadableStream', 'TransformStream', 'WritableStream']);

/** Names that app code may reassign. */
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
/** `Object.prototype` only gets fixed names, at the end. */
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

/**
 * Removes every other global, replaces `console`, and closes the rest and the classes of ours that app code sees. `lazy` are globals
 * that are made when they are first used; whose effects are to be counted, they count. Called once, before app code.
 */
export function closeGlobals(
  console: object,
  ours: readonly unknown[],
  lazy: ReadonlyMap<string, () => unknown>,
): void {
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (ALLOWED.has(name) || Reflect.deleteProperty(globalThis, name)) continue;
    // V8's `gc`, which a thread has that starts while another one measures its memory, can only be set to undefined.
    Reflect.defineProperty(globalThis, name, { value: undefined, writable: false });
  }
  defineProperty(globalThis, 'console', { value: console, writable: true, configurable: true });
  for (const hidden of HIDDEN) {
    for (
      let proto = getPrototypeOf(hidden);
      proto !== null && proto !== Object.prototype;
      proto = getPrototypeOf(proto)
    )
      close(proto);
  }
  for (const name of ALLOWED) {
    const make = lazy.get(name);
    if (make !== undefined) closeWhenUsed(name, make);
    else closeGlobal(name);
  }
  preventExtensions(Object.prototype);
  for (const one of ours) closeClass(one);
}

function closeGlobal(name: string): void {
  const found = getOwnPropertyDescriptor(globalThis, name);
  if (found === undefined || !found.configurable) return;
  if (found.get === undefined) {
    countLoaded(name, found.value);
    fix(name, found.value);
    return;
  }
  // Node loads some globals on first use.
  const load = found.get;
  closeWhenUsed(name, () => {
    const value: unknown = apply(load, globalThis, []);
    countLoaded(name, value);
    return value;
  });
}

function closeWhenUsed(name: string, load: () => unknown): void {
  // From Node 22 on, only this does not load the global.
  Reflect.deleteProperty(globalThis, name);
  defineProperty(globalThis, name, {
    configurable: true,
    enumerable: false,
    get: () => {
      const value = load();
      fix(name, value);
      return value;
    },
  });
}

function fix(name: string, value: unknown): void {
  const open = OPEN.has(name);
  if (STREAMS.has(name)) keepConstructor((value as { prototype: object }).prototype);
  if (!open) closeClass(value);
  defineProperty(globalThis, name, { value, writable: open, configurable: open });
}

/** The prototype of a class whose objects may be assigned a `constructor`, which one that is frozen would refuse. */
function keepConstructor(prototype: object): void {
  const own = prototype.constructor;
  defineProperty(prototype, 'constructor', {
    get: () => own,
    set(this: object, value: unknown) {
      if (this !== prototype) defineProperty(this, 'constructor', { value, writable: true, configurable: true });
    },
  });
}

function closeClass(value: unknown): void {
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
 * In V8, a frozen prototype makes every write of a byte by its index some 70 times as slow, and a changed `constructor` every
 * `subarray`. So the members are fixed one by one, except `constructor`, which Node's buffers do not use.
 */
function closeTypedArray(prototype: object): void {
  for (const key of ownKeys(prototype)) {
    if (key === 'constructor') continue;
    const isValue = getOwnPropertyDescriptor(prototype, key)?.get === undefined;
    defineProperty(prototype, key, { configurable: false, ...(isValue && { writable: false }) });
  }
  preventExtensions(prototype);
  // V8 makes an object fast again when it becomes a prototype.
  create(prototype);
}
