/**
 * A shape says what a value must look like, as a JSON Schema, and finds the first fault of a value in words. The schemas are
 * walked: code that Ajv compiles of them would be fifteen times as large, and the supervisor loads it at each start.
 */
import { type ErrorCode, SvcError } from '../errors.ts';
import { FORMATS } from './formats.ts';
import type { Of, Schema, Type } from './schema.ts';

/** Where a value is wrong, such as `git.args[0]` (empty: the value itself), and what must stand there. */
export type Fault = { path: string; wanted: string };
/** Without words, those of the schema around it are told. */
type Found = { path: string; wanted: string | null };

const HERE: Found = { path: '', wanted: null };
/** Of a name that nobody knows. */
const SHOWN_CHARS = 100;

const TYPES: Record<Type, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  integer: Number.isInteger,
  number: Number.isFinite,
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  object: isRecord,
  array: Array.isArray,
};
const patterns = new Map<string, RegExp>();

export class Shape<T> {
  readonly schema: Schema;

  constructor(schema: Schema) {
    this.schema = schema;
  }

  holds(value: unknown): value is T {
    return faultOf(this.schema, value) === null;
  }

  /**
   * What has this shape in a value: without members, entries and items that have another or that the shape does not name, and with
   * texts cut. Null where a member that must be there has another.
   */
  part(value: unknown): T | null {
    return (partOf(this.schema, value) as T | undefined) ?? null;
  }

  /** The first fault; null for a value of this shape. */
  fault(value: unknown): Fault | null {
    const found = faultOf(this.schema, value);
    return found === null ? null : { path: found.path, wanted: found.wanted ?? 'valid' };
  }

  /** The value. Throws the error of this code for its first fault; `whole` is what the value itself is called. */
  checked(value: unknown, code: ErrorCode, whole: string): T {
    const fault = this.fault(value);
    if (fault === null) return value as T;
    throw new SvcError(code, inWords(fault, whole), fault.path === '' ? {} : { path: fault.path });
  }
}

/** A fault as a sentence; `whole` is what the value itself is called. */
export function inWords({ path, wanted }: Fault, whole: string): string {
  return `${path === '' ? whole : `"${path}"`} must be ${wanted}.`;
}

export type ValueOf<S> = S extends Shape<infer T> ? T : never;

export function shape<const S extends Schema>(schema: S): Shape<Of<S>> {
  return new Shape(schema);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function faultOf(schema: Schema, value: unknown): Found | null {
  const found = ownFault(schema, value);
  return found?.wanted === null && schema.wanted !== undefined ? { path: '', wanted: schema.wanted } : found;
}

function partOf(schema: Schema, value: unknown): unknown {
  const { anyOf, properties, required = [], propertyNames = {}, additionalProperties: others } = schema;
  const { items, maxItems, cut } = schema;
  if (anyOf !== undefined && isRecord(value)) {
    const meant = anyOf.find((one) => isMeant(one, value));
    return meant && partOf(meant, value);
  }
  if (properties !== undefined && isRecord(value)) {
    const parts = Object.entries(properties).map(([name, inner]) => [name, partOf(inner, value[name])]);
    const part = Object.fromEntries(parts.filter(([, inner]) => inner !== undefined));
    return required.every((name) => Object.hasOwn(part, name)) ? part : undefined;
  }
  if (others && isRecord(value)) {
    const named = Object.entries(value).filter(([name]) => faultOf(propertyNames, name) === null);
    const parts = named.map(([name, inner]) => [name, partOf(others, inner)]);
    return Object.fromEntries(parts.filter(([, inner]) => inner !== undefined));
  }
  if (items !== undefined && Array.isArray(value))
    return value.slice(0, maxItems).flatMap((item) => partOf(items, item) ?? []);
  const whole = typeof value === 'string' && cut !== undefined ? value.slice(0, cut) : value;
  return faultOf(schema, whole) === null ? whole : undefined;
}

function ownFault(schema: Schema, value: unknown): Found | null {
  const { type, enum: values, anyOf } = schema;
  if (type !== undefined && !isOf(type, value)) return HERE;
  if (values !== undefined && !values.includes(value)) return HERE;
  if (schema.const !== undefined && value !== schema.const) return HERE;
  if (anyOf !== undefined) return faultOfAny(anyOf, value);
  if (typeof value === 'string') return isRight(schema, value) ? null : HERE;
  if (typeof value === 'number')
    return value >= (schema.minimum ?? value) && value <= (schema.maximum ?? value) ? null : HERE;
  if (Array.isArray(value)) return faultOfItems(schema, value);
  return isRecord(value) ? faultOfMembers(schema, value) : null;
}

function isOf(type: NonNullable<Schema['type']>, value: unknown): boolean {
  return typeof type === 'string' ? TYPES[type](value) : type.some((one) => TYPES[one](value));
}

function isRight(schema: Schema, text: string): boolean {
  const { minLength, maxLength, pattern, format } = schema;
  if (minLength !== undefined && text.length < minLength) return false;
  if (maxLength !== undefined && text.length > maxLength) return false;
  return (pattern === undefined || patternOf(pattern).test(text)) && (format === undefined || FORMATS[format](text));
}

function patternOf(source: string): RegExp {
  const known = patterns.get(source) ?? new RegExp(source, 'u');
  patterns.set(source, known);
  return known;
}

/** The one that the value is meant for tells its own fault. */
function faultOfAny(anyOf: readonly Schema[], value: unknown): Found | null {
  const meant = isRecord(value) ? anyOf.filter((one) => isMeant(one, value)) : [];
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return faultOf(only, value);
  return anyOf.some((one) => faultOf(one, value) === null) ? null : HERE;
}

function isMeant({ required = [], properties = {} }: Schema, value: Record<string, unknown>): boolean {
  const [name = ''] = required;
  const { const: only, enum: values } = properties[name] ?? {};
  if (only !== undefined) return value[name] === only;
  return values === undefined ? value[name] !== undefined : values.includes(value[name]);
}

function faultOfItems({ minItems = 0, maxItems, prefixItems, items = {} }: Schema, list: unknown[]): Found | null {
  if (list.length < minItems || list.length > (maxItems ?? list.length)) return HERE;
  for (let i = 0; i < list.length; i++) {
    const fault = faultOf(prefixItems?.[i] ?? items, list[i]);
    if (fault !== null) return within(`[${i}]`, fault);
  }
  return null;
}

function faultOfMembers(schema: Schema, value: Record<string, unknown>): Found | null {
  const { properties = {}, required = [], additionalProperties: others } = schema;
  const missing = required.find((name) => value[name] === undefined);
  if (missing !== undefined) return within(missing, { path: '', wanted: properties[missing]?.wanted ?? null });
  for (const [name, inner] of Object.entries(properties)) {
    const fault = value[name] === undefined ? null : faultOf(inner, value[name]);
    if (fault !== null) return within(name, fault);
  }
  return others === undefined ? null : faultOfOthers(schema, value);
}

function faultOfOthers(schema: Schema, value: Record<string, unknown>): Found | null {
  const { properties = {}, propertyNames = {}, additionalProperties: others = {} } = schema;
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined || Object.hasOwn(properties, name)) continue;
    const shown = name.slice(0, SHOWN_CHARS);
    if (others === false) return { path: shown, wanted: `one of ${Object.keys(properties).join(', ')}` };
    const fault = faultOf(propertyNames, name) ?? faultOf(others, member);
    if (fault !== null) return within(shown, fault);
  }
  return null;
}

function within(name: string, { path, wanted }: Found): Found {
  if (wanted === null) return HERE;
  return { path: path === '' || path.startsWith('[') ? name + path : `${name}.${path}`, wanted };
}
