/** Turns a handler's return value into a status and JSON bytes (specification, "Results of handlers"). */
import { randomUUID } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Row } from '../../protocol/wire/frames.ts';

/** `body` is JSON text; of an action's envelope it is the `body` member alone. */
export type Answer = { status: number; body: Buffer };

const MIN_STATUS = 200;
const MAX_STATUS = 599;

/** The value's name in messages, and the advice when it is too large. */
type Subject = { name: string; advice: string };

const RESULT: Subject = { name: 'The result', advice: ' (maxResultBytes); return less, or page it' };

/** Bounds the search of a result for single values that are too large; it must be cheap. */
const LOOK_DEPTH = 2;
const LOOK_MEMBERS = 16;

const { parse, stringify } = JSON;
const { isView } = ArrayBuffer;
const { isArray } = Array;
const { hasOwn } = Object;
const { apply } = Reflect;
const tagOf = Object.prototype.toString;
const NULL = Buffer.from('null');
const NO_ROWS = Buffer.from('[]');
const NOTHING = Buffer.alloc(0);
const base64 = Buffer.prototype.toString;
const toText = Buffer.prototype.toString;
const bufferToJson = Buffer.prototype.toJSON;

/** True while a result is turned into JSON. Otherwise JSON.stringify follows the language's rules, for app code. */
let encoding = false;

/**
 * Teaches JSON.stringify the rules for results: a replacer function would cost several times the encoding itself. Called once per
 * thread, or context of the commons, before app code. There app code has no `Buffer`.
 */
export function installJsonRules(hasBuffers = true): void {
  // Without it JSON.stringify throws; in app code it now does not, which is harmless.
  define(BigInt.prototype, function (this: bigint) {
    const number = Number(this);
    return Number.isSafeInteger(number) ? number : String(this);
  });
  define(Uint8Array.prototype, function (this: Uint8Array) {
    return encoding ? base64.call(Buffer.from(this.buffer, this.byteOffset, this.byteLength), 'base64') : this;
  });
  if (!hasBuffers) return;
  define(Buffer.prototype, function (this: Buffer) {
    return encoding ? base64.call(this, 'base64') : bufferToJson.call(this);
  });
}

function define<T extends object>(prototype: T, toJSON: (this: never) => unknown): void {
  Object.defineProperty(prototype, 'toJSON', {
    value: toJSON,
    enumerable: false,
    writable: false,
    configurable: false,
  });
}

/** Bytes of a value that is rows of `db.json()`; null for every other value. */
let bytesOf: (value: unknown) => Buffer | null;
/** The rows of `json`, as handlers see them. */
export let rowsJsonOf: (json: Buffer) => RowsJson;

/** Placeholder for rows inside other JSON; no text of an app can equal it. */
const PART = `rows of db.json ${randomUUID()}`;
const PART_JSON = stringify(PART);
/** Rows inside the value that is being encoded, in order; null when rows are parsed instead. */
let parts: Buffer[] | null = null;

/** The value of `db.json()`: rows as JSON, which becomes the answer without parsing. */
export class RowsJson {
  #json: Buffer = NO_ROWS;

  static {
    bytesOf = (value) => (typeof value === 'object' && value !== null && #json in value ? value.#json : null);
    rowsJsonOf = (json) => {
      const rows = new RowsJson();
      rows.#json = json;
      return rows;
    };
  }

  /** The JSON text. */
  toString(): string {
    return toText.call(this.#json);
  }

  toJSON(): unknown {
    if (parts === null) return parse(this.toString());
    parts.push(this.#json);
    return PART;
  }
}

/** The JSON of rows as they become a result. */
export function rowsToJson(rows: Row[]): Buffer {
  encoding = true;
  try {
    return Buffer.from(stringify(rows));
  } finally {
    encoding = false;
  }
}

/** A query's value, verbatim. Throws `HANDLER_ERROR` for what JSON cannot say and for more than `maxBytes`. */
export function queryAnswer(value: unknown, maxBytes: number): Answer {
  return { status: 200, body: toJsonBytes(value, maxBytes) };
}

/** An action's value: the envelope `{ status?, body }`, or the body itself. Throws `HANDLER_ERROR` as for a query. */
export function actionAnswer(value: unknown, maxBytes: number): Answer {
  if (!isEnvelope(value)) return { status: 200, body: toJsonBytes(value, maxBytes) };
  const { status = 200 } = value;
  if (!Number.isInteger(status) || (status as number) < MIN_STATUS || (status as number) > MAX_STATUS) {
    throw new SvcError('HANDLER_ERROR', `The action's status must be an integer from ${MIN_STATUS} to ${MAX_STATUS}.`);
  }
  return { status: status as number, body: toJsonBytes(value.body, maxBytes) };
}

function isEnvelope(value: unknown): value is { status?: unknown; body?: unknown } {
  if (typeof value !== 'object' || value === null || !isPlain(value)) return false;
  if (Object.hasOwn(value, 'body')) return true;
  return typeof (value as { status?: unknown }).status === 'number' && Object.keys(value).length === 1;
}

/** An object as a literal makes it, not an array or an instance of a class. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/**
 * The JSON text of a value; `null` for undefined. Throws `HANDLER_ERROR` for values that JSON lacks and for more than
 * `maxBytes`. With `readParts`, rows inside the value are parsed and encoded again.
 */
export function toJsonBytes(value: unknown, maxBytes: number, subject: Subject = RESULT, readParts = false): Buffer {
  if (value === undefined) return NULL;
  const rows = bytesOf(value);
  if (rows !== null) {
    if (rows.length > maxBytes) throw tooLarge(subject, maxBytes);
    return rows;
  }
  let text: string | undefined;
  const embedded: Buffer[] = [];
  encoding = true;
  parts = readParts ? null : embedded;
  try {
    if (holdsTooMuch(value, maxBytes, LOOK_DEPTH)) throw tooLarge(subject, maxBytes);
    text = stringify(value);
    const lost = lostIn(value);
    if (lost !== null) throw unsendable(subject, lost);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const why = error instanceof Error ? (error.message.split('\n', 1)[0] as string) : 'its toJSON threw';
    throw unsendable(subject, why);
  } finally {
    encoding = false;
    parts = null;
  }
  if (text === undefined) return NULL;
  // The text is never longer than its bytes, so that a result far over the limit is not copied first.
  if (text.length > maxBytes) throw tooLarge(subject, maxBytes);
  const body = embedded.length === 0 ? Buffer.from(text) : withParts(text, embedded);
  // A method of the value turned its rows into text.
  if (body === null) return toJsonBytes(value, maxBytes, subject, true);
  if (body.length > maxBytes) throw tooLarge(subject, maxBytes);
  return body;
}

/** The text as bytes, with the rows in the places that stand for them; null when there are not as many places. */
function withParts(text: string, rows: Buffer[]): Buffer | null {
  const pieces = text.split(PART_JSON);
  if (pieces.length !== rows.length + 1) return null;
  return Buffer.concat(pieces.flatMap((piece, i) => [Buffer.from(piece), rows[i] ?? NOTHING]));
}

/**
 * Whether a single text or buffer near the top of the value is over the limit. Copying it takes one large allocation, which on a
 * full heap ends the process; any other value grows in steps, which end only the thread.
 */
function holdsTooMuch(value: unknown, maxBytes: number, depth: number): boolean {
  if (typeof value === 'string') return value.length > maxBytes;
  if (typeof value !== 'object' || value === null) return false;
  if (isView(value)) return value.byteLength > maxBytes;
  if (depth === 0) return false;
  let left = LOOK_MEMBERS;
  for (const key in value) {
    if (left-- === 0) break;
    if (holdsTooMuch((value as Record<string, unknown>)[key], maxBytes, depth - 1)) return true;
  }
  return false;
}

function tooLarge({ name, advice }: Subject, maxBytes: number): SvcError {
  return new SvcError('HANDLER_ERROR', `${name} is over the limit of ${maxBytes} bytes${advice}.`);
}

/** A value's place (a JSON Pointer) and a description of it. */
type Lost = { path: string; what: string };

/** Types that JSON can express, by `Object.prototype.toString`. */
const SAID = new Set(['Object', 'Array', 'Number', 'String', 'Boolean', 'BigInt', 'Arguments', 'Module']);

/** The first thing in a value that JSON.stringify silently drops, or turns into an empty object; null when there is none. */
function lostIn(value: unknown): Lost | null {
  if (typeof value === 'symbol') return { path: '', what: 'a symbol' };
  if (typeof value === 'function') return hasToJson(value) ? null : { path: '', what: 'a function' };
  if (typeof value !== 'object' || value === null) return null;
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const member: unknown = value[i];
      const lost = isSimple(member) ? null : lostIn(member);
      if (lost !== null) return { path: `/${i}${lost.path}`, what: lost.what };
    }
    return null;
  }
  if (hasToJson(value)) return null;
  if (!isPlain(value)) {
    const kind = apply(tagOf, value, []).slice('[object '.length, -1);
    if (!SAID.has(kind)) return { path: '', what: `${/^[AEIOU]/.test(kind) ? 'an' : 'a'} ${kind}` };
  }
  for (const key in value) {
    const member = (value as Record<string, unknown>)[key];
    const lost = isSimple(member) || !hasOwn(value, key) ? null : lostIn(member);
    if (lost !== null) return { path: `/${escaped(key)}${lost.path}`, what: lost.what };
  }
  return null;
}

function isSimple(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null;
}

function hasToJson(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

/** A member's name in a JSON Pointer. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function unsendable({ name }: Subject, why: string | Lost): SvcError {
  const says = `${name} cannot be sent as JSON:`;
  if (typeof why === 'string') return new SvcError('HANDLER_ERROR', `${says} ${why}.`);
  const path = why.path.slice(0, LIMITS.textChars);
  const where = path === '' ? `it is ${why.what}` : `it contains ${why.what} at ${path}`;
  return new SvcError('HANDLER_ERROR', `${says} ${where}.`, { path });
}
