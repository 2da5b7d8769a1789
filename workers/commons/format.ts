/**
 * Formats what app code writes to its console, as Node does. That runs code of the thread on values of the app: so it gets copies of plain
 * data, and any other value moves the app.
 */
import { across } from './crossing.ts';
import type { Given } from './given.ts';
import { leave } from './leaving.ts';

declare const given: Given;

/** Node shows less of what is nested more deeply, and of longer lists. */
const DEPTH = 6;
const MEMBERS = 10_000;

// App code could replace them.
const { create, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, keys, prototype: ObjectPrototype } = Object;
const { ownKeys } = Reflect;
const { isArray, prototype: ArrayPrototype } = Array;
const OwnError = Error;
const ERRORS: ReadonlySet<unknown> = new Set(
  [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map(({ prototype }) => prototype),
);
const NAME = /^[A-Za-z_]\w*$/;

/** As `util.format`. */
export function format(...values: unknown[]): string {
  const left = { members: MEMBERS };
  const shown = values.map((value) => (value instanceof OwnError ? errorText(value) : plain(value, DEPTH, left)));
  // A text that stands for an error has no places to fill.
  if (typeof values[0] === 'string') return nodesFormat(shown);
  return shown.map((one) => (typeof one === 'string' ? one : nodesFormat([one]))).join(' ');
}

function nodesFormat(values: unknown[]): string {
  return across(() => given.format(values));
}

function refuse(): never {
  return leave('globals', 'console, with more than plain data');
}

function plain(value: unknown, depth: number, left: { members: number }): unknown {
  if (typeof value === 'function') refuse();
  if (typeof value !== 'object' || value === null) return value;
  const prototype = getPrototypeOf(value) as object | null;
  const list = isArray(value);
  if (depth === 0 || !isPlain(prototype, list)) refuse();
  const copy: object = list ? [] : create(prototype);
  let next = 0;
  for (const key of ownKeys(value)) {
    if (list && key === 'length') continue;
    // A list without gaps, and no more than a list.
    if (typeof key !== 'string' || (list && key !== String(next++)) || left.members-- === 0) refuse();
    const found = getOwnPropertyDescriptor(value, key);
    if (found?.enumerable !== true || !('value' in found)) refuse();
    defineProperty(copy, key, { ...found, value: plain(found.value, depth - 1, left) });
  }
  if (list && next !== value.length) refuse();
  return copy;
}

function isPlain(prototype: object | null, list: boolean): boolean {
  return list ? prototype === ArrayPrototype : prototype === null || prototype === ObjectPrototype;
}

/** Name, message and frames, and what else the error has, such as a code. */
function errorText(error: Error): string {
  const { name } = error;
  const stack = String(error.stack);
  const isOurs = keys(error).every((key) => key === 'code');
  if (!isUsualError(error, name) || !isOurs || 'cause' in error || !stack.startsWith(name) || !/\n +at /.test(stack))
    refuse();
  const { code } = error as { code?: unknown };
  return code === undefined ? stack : `${stack} {\n  code: ${nodesFormat(['%O', plain(code, 1, { members: 0 })])}\n}`;
}

/** Of a class of the language, or of one of ours that adds a code to it. */
function isUsualError(error: Error, name: string): boolean {
  const prototype = getPrototypeOf(error) as Error;
  return (
    NAME.test(name) &&
    (ERRORS.has(prototype) || ERRORS.has(getPrototypeOf(prototype))) &&
    prototype.constructor.name === name
  );
}
