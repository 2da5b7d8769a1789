/**
 * Gives a realm its `URLSearchParams`. The list belongs to the realm; the thread reads and writes its text. What Node refuses, the app
 * does again in a thread, which says why.
 */
import { across } from '../crossing.ts';
import { leave } from '../leaving.ts';
import type { NodeWeb } from './node-web.ts';
import { asWebClass } from './realm-class.ts';

/** Of ES2024, which Node 20 has. */
type WellFormed = { toWellFormed(): string };

type Pair = [name: string, value: string];

/** What a URL needs of its parameters. */
export type OwnedParams = {
  readonly params: object;
  /** The query of the URL is another one. */
  reset(text: string): void;
};

type Made = {
  URLSearchParams: new (init?: unknown) => object;
  /** Those of a URL, which hears of each change. */
  owned(text: string, changed: (text: string) => void): OwnedParams;
};

// App code could replace them.
const { create, getPrototypeOf } = Object;
const { apply, getOwnPropertyDescriptor, ownKeys } = Reflect;

export function makeSearchParams({ URLSearchParams: NodeParams }: Pick<NodeWeb, 'URLSearchParams'>): Made {
  const refuse = (): never => leave('globals', 'URLSearchParams, with what it refuses');
  const text = (value: unknown): string => (`${value as string}` as unknown as WellFormed).toWellFormed();
  const needs = (given: readonly unknown[], needed: number): void => {
    if (given.length < needed) refuse();
  };

  /** What null means depends on Node's version. */
  const parsed = (query: string | null): Pair[] =>
    across(() => {
      const pairs: Pair[] = [];
      const found = new NodeParams(query as string).entries();
      for (let next = found.next(); next.done !== true; next = found.next()) pairs.push([next.value[0], next.value[1]]);
      return pairs;
    });

  const written = (pairs: readonly Pair[]): string =>
    across(() => {
      const params = new NodeParams();
      for (let at = 0; at < pairs.length; at++) params.append((pairs[at] as Pair)[0], (pairs[at] as Pair)[1]);
      return params.toString();
    });

  const pairOf = (pair: unknown): Pair => {
    if ((typeof pair !== 'object' && typeof pair !== 'function') || pair === null) return refuse();
    if (typeof (pair as Iterable<unknown>)[Symbol.iterator] !== 'function') return refuse();
    const both = [...(pair as Iterable<unknown>)];
    return both.length === 2 ? [text(both[0]), text(both[1])] : refuse();
  };

  const pairsOf = (list: Iterable<unknown>): Pair[] => {
    if (typeof list[Symbol.iterator] !== 'function') return refuse();
    const pairs: Pair[] = [];
    for (const pair of list) pairs.push(pairOf(pair));
    return pairs;
  };

  const membersOf = (record: object): Pair[] => {
    const pairs = new Map<string, string>();
    for (const key of ownKeys(record)) {
      if (getOwnPropertyDescriptor(record, key)?.enumerable !== true) continue;
      if (typeof key === 'symbol') return refuse();
      pairs.set(text(key), text((record as Record<string, unknown>)[key]));
    }
    return [...pairs];
  };

  const pairsIn = (init: unknown): Pair[] => {
    if (init === undefined) return [];
    if (init === null) return parsed(init);
    if (typeof init !== 'object' && typeof init !== 'function') return parsed(text(init));
    const iterator = (init as Partial<Iterable<unknown>>)[Symbol.iterator];
    return iterator === undefined || iterator === null ? membersOf(init) : pairsOf(init as Iterable<unknown>);
  };

  let changing: ((text: string) => void) | null = null;
  let resetting: (params: object, query: string) => void = () => {};

  class URLSearchParams {
    #pairs: Pair[];
    readonly #changed: ((text: string) => void) | null;

    static {
      resetting = (params, query) => {
        (params as URLSearchParams).#pairs = parsed(query);
      };
    }

    constructor(init: unknown = undefined) {
      this.#changed = changing;
      changing = null;
      this.#pairs = pairsIn(init);
    }

    get size(): number {
      return this.#pairs.length;
    }

    append(...given: unknown[]): void {
      needs(given, 2);
      const [name, value] = given;
      this.#pairs.push([text(name), text(value)]);
      this.#tell();
    }

    delete(...given: unknown[]): void {
      needs(given, 1);
      const [name, value] = given;
      const matches = this.#matching(name, value);
      this.#pairs = this.#pairs.filter((pair) => !matches(pair));
      this.#tell();
    }

    get(...given: unknown[]): string | null {
      needs(given, 1);
      const [name] = given;
      return this.#pairs.find(this.#matching(name, undefined))?.[1] ?? null;
    }

    getAll(...given: unknown[]): string[] {
      needs(given, 1);
      const [name] = given;
      return this.#pairs.filter(this.#matching(name, undefined)).map((pair) => pair[1]);
    }

    has(...given: unknown[]): boolean {
      needs(given, 1);
      const [name, value] = given;
      return this.#pairs.some(this.#matching(name, value));
    }

    set(...given: unknown[]): void {
      needs(given, 2);
      const [name, value] = given;
      const [own, to] = [text(name), text(value)];
      const first = this.#pairs.find((pair) => pair[0] === own);
      if (first === undefined) this.#pairs.push([own, to]);
      else {
        first[1] = to;
        this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== own);
      }
      this.#tell();
    }

    sort(): void {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#tell();
    }

    entries(): object {
      return this.#iterator(([name, value]) => [name, value]);
    }

    forEach(callback: unknown, thisArg: unknown = undefined): void {
      if (typeof callback !== 'function') refuse();
      for (let at = 0; at < this.#pairs.length; at++) {
        const [name, value] = this.#pairs[at] as Pair;
        apply(callback as () => void, thisArg, [value, name, this]);
      }
    }

    keys(): object {
      return this.#iterator(([name]) => name);
    }

    values(): object {
      return this.#iterator(([, value]) => value);
    }

    toString(): string {
      return written(this.#pairs);
    }

    #matching(name: unknown, value: unknown): (pair: Pair) => boolean {
      const own = text(name);
      const wanted = value === undefined ? undefined : text(value);
      return (pair) => pair[0] === own && (wanted === undefined || pair[1] === wanted);
    }

    #tell(): void {
      this.#changed?.(written(this.#pairs));
    }

    /** What changes while it runs is seen. */
    #iterator(show: (pair: Pair) => unknown): object {
      const iterator = create(ITERATOR) as object;
      let at = 0;
      steps.set(iterator, () => {
        const pair = this.#pairs[at++];
        return pair === undefined ? { value: undefined, done: true } : { value: show(pair), done: false };
      });
      return iterator;
    }
  }

  const steps = new WeakMap<object, () => IteratorResult<unknown>>();
  const ITERATOR = create(getPrototypeOf(getPrototypeOf([][Symbol.iterator]())) as object, {
    next: {
      value(this: object) {
        return (steps.get(this) ?? refuse)();
      },
      writable: true,
      enumerable: true,
      configurable: true,
    },
    [Symbol.toStringTag]: { value: 'URLSearchParams Iterator', configurable: true },
  }) as object;

  asWebClass(URLSearchParams, 'URLSearchParams');
  const { value: entries } = getOwnPropertyDescriptor(URLSearchParams.prototype, 'entries') as PropertyDescriptor;
  Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, {
    value: entries,
    writable: true,
    configurable: true,
  });
  Object.freeze(ITERATOR);
  return {
    URLSearchParams,
    owned: (query, changed) => {
      changing = changed;
      const params = new URLSearchParams(query);
      return { params, reset: (next) => resetting(params, next) };
    },
  };
}
