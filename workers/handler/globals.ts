/**
 * What app code finds on `globalThis`: the language, the web's data types, timers, and nothing that reaches the machine
 * (specification, "Handler worker surface"). Handlers are trusted code; this keeps them on the documented path.
 */

import { SvcError } from '../../protocol/errors.ts';
import { DbError } from '../../protocol/wire/db-client.ts';
import { StatementError } from '../writer/failure.ts';
import { AskError } from './ask-client.ts';
import { closeBuiltIns, closeClass } from './built-ins.ts';
import { EgressError, loadHttpClient } from './http-client.ts';

/** Of ours, as app code catches them. */
const ERRORS = [SvcError, DbError, StatementError, AskError, EgressError];

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

/** Of Node's HTTP client: it is loaded with the first of them that is used. */
const OF_HTTP_CLIENT = ['FormData', 'Headers', 'Request', 'Response'];

/**
 * Removes every global that is not on the list, puts `console` in the place of Node's, and closes what is left. Called once, before
 * app code.
 */
export function closeGlobals(console: object): void {
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (ALLOWED.has(name) || Reflect.deleteProperty(globalThis, name)) continue;
    // V8's own `gc`, which the host has it make, can only be emptied.
    Reflect.defineProperty(globalThis, name, { value: undefined, writable: false });
  }
  Object.defineProperty(globalThis, 'console', { value: console, writable: true, configurable: true });
  for (const name of OF_HTTP_CLIENT) loadFirst(name);
  closeBuiltIns([...ALLOWED]);
  for (const thrown of ERRORS) closeClass(thrown);
}

function loadFirst(name: string): void {
  const found = Object.getOwnPropertyDescriptor(globalThis, name);
  const load = found?.get;
  if (load === undefined) return;
  Object.defineProperty(globalThis, name, {
    ...found,
    get: () => {
      loadHttpClient();
      return Reflect.apply(load, globalThis, []);
    },
  });
}
