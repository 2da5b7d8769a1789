/**
 * Gives a realm its `structuredClone`: Node's makes objects of the thread. Plain data, dates, maps, sets and bytes are copied here; other
 * values move the app.
 */
import { leave } from '../leaving.ts';
import type { NodeWeb } from './node-web.ts';
import { bytesOf, typedArrayName } from './text-coding.ts';

type Types = NodeWeb['types'];

// App code could replace them.
const { defineProperty, getPrototypeOf, keys, prototype: ObjectPrototype } = Object;
const { isArray } = Array;
const { apply } = Reflect;
const { getTime } = Date.prototype;

const refuse = (): never => leave('globals', 'structuredClone, with more than plain data, dates, maps, sets and bytes');

export function makeStructuredClone(types: Types): (...given: unknown[]) => unknown {
  const structuredClone = (...given: unknown[]): unknown => {
    if (given.length === 0 || given[1] !== undefined) refuse();
    return clone(given[0], new Map());
  };

  function clone(value: unknown, seen: Map<object, unknown>): unknown {
    if (typeof value === 'symbol' || typeof value === 'function') return refuse();
    if (typeof value !== 'object' || value === null) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    if (types.isProxy(value)) return refuse();
    return isArray(value) ? members(value, new Array(value.length), seen) : object(value, seen);
  }

  function object(value: object, seen: Map<object, unknown>): unknown {
    if (types.isDate(value)) return kept(value, new Date(apply(getTime, value, [])), seen);
    if (types.isMap(value)) return map(value as Map<unknown, unknown>, seen);
    if (types.isSet(value)) return set(value as Set<unknown>, seen);
    if (types.isArrayBuffer(value) || ArrayBuffer.isView(value)) return bytes(value as ArrayBuffer, seen);
    const prototype: unknown = getPrototypeOf(value);
    return prototype === ObjectPrototype || prototype === null ? members(value, {}, seen) : refuse();
  }

  function kept<T>(value: object, copy: T, seen: Map<object, unknown>): T {
    seen.set(value, copy);
    return copy;
  }

  function members<T extends object>(value: object, copy: T, seen: Map<object, unknown>): T {
    kept(value, copy, seen);
    for (const key of keys(value)) {
      // A getter may have deleted it.
      if (!Object.hasOwn(value, key)) continue;
      const member = clone((value as Record<string, unknown>)[key], seen);
      defineProperty(copy, key, { value: member, writable: true, enumerable: true, configurable: true });
    }
    return copy;
  }

  function map(value: Map<unknown, unknown>, seen: Map<object, unknown>): Map<unknown, unknown> {
    const copy = kept(value, new Map<unknown, unknown>(), seen);
    const pairs: [unknown, unknown][] = [];
    apply(Map.prototype.forEach, value, [(member: unknown, key: unknown) => pairs.push([key, member])]);
    for (const [key, member] of pairs) copy.set(clone(key, seen), clone(member, seen));
    return copy;
  }

  function set(value: Set<unknown>, seen: Map<object, unknown>): Set<unknown> {
    const copy = kept(value, new Set<unknown>(), seen);
    const all: unknown[] = [];
    apply(Set.prototype.forEach, value, [(member: unknown) => all.push(member)]);
    for (const member of all) copy.add(clone(member, seen));
    return copy;
  }

  /** A buffer, or a view of one: all of it is copied, once. */
  function bytes(value: ArrayBuffer | ArrayBufferView, seen: Map<object, unknown>): unknown {
    const own = bytesOf(value);
    if (own === null || !types.isArrayBuffer(own.buffer)) return refuse();
    const { buffer, byteOffset, byteLength } = own;
    if ((buffer as { resizable?: boolean }).resizable === true || (buffer as { detached?: boolean }).detached === true)
      return refuse();
    let copy = seen.get(buffer) as ArrayBuffer | undefined;
    if (copy === undefined) {
      copy = kept(buffer, new ArrayBuffer(buffer.byteLength), seen);
      new Uint8Array(copy).set(new Uint8Array(buffer));
    }
    if (!ArrayBuffer.isView(value)) return copy;
    const name = typedArrayName(value);
    if (name === undefined) return kept(value, new DataView(copy, byteOffset, byteLength), seen);
    const Class = (globalThis as unknown as Record<string, Uint8ArrayConstructor>)[name] ?? refuse();
    return kept(value, new Class(copy, byteOffset, byteLength / Class.BYTES_PER_ELEMENT), seen);
  }

  return structuredClone;
}
