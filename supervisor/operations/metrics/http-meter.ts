/** Counts answers to HTTP requests, and how long they took, by kind of route and class of status. */
import type { Distribution } from './families.ts';

/** Kinds of routes; `none`: the address has no route, or the request was refused before that was known. */
export const ROUTE_KINDS = ['none', 'api', 'call', 'file', 'mcp', 'page', 'stream', 'webhook'] as const;
type RouteKind = (typeof ROUTE_KINDS)[number];

/** Upper bounds of the buckets, in milliseconds; a last bucket has what is longer. */
const BUCKETS_MS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000] as const;
const BOUNDS = BUCKETS_MS.map((ms) => ms / 1000);
const BUCKETS = BUCKETS_MS.length + 1;
/** By the hundreds of a status. */
const CLASSES = 6;

/** By the address of a route, as in the table. */
const KINDS: readonly [kind: RouteKind, path: RegExp][] = [
  ['call', /\/_tool\//],
  ['file', /\/_blobs(?:$|\/)/],
  ['mcp', /\/_mcp(?:$|\/)/],
  ['stream', /\/(?:_changes|_live|_events|events)$/],
  ['webhook', /^\/_svc-hook/],
  ['page', /^\/svc\/(?:_draft\/:sid\/)?(?::id\/\*)?$/],
];

export function routeKind(path: string): RouteKind {
  return KINDS.find(([, pattern]) => pattern.test(path))?.[0] ?? 'api';
}

export class HttpMeter {
  readonly #buckets = new Float64Array(ROUTE_KINDS.length * CLASSES * BUCKETS);
  readonly #ms = new Float64Array(ROUTE_KINDS.length * CLASSES);

  /** `kind` is a place in `ROUTE_KINDS`; `ms` is the time until the answer began. */
  answered(kind: number, status: number, ms: number): void {
    let bucket = 0;
    while (bucket < BUCKETS_MS.length && ms > (BUCKETS_MS[bucket] as number)) bucket++;
    const at = kind * CLASSES + Math.trunc(status / 100);
    (this.#buckets[at * BUCKETS + bucket] as number)++;
    (this.#ms[at] as number) += ms;
  }

  /** Answers of a class of status, of all kinds of routes. */
  total(hundreds: number): number {
    let total = 0;
    for (let kind = 0; kind < ROUTE_KINDS.length; kind++) {
      for (const count of this.#countsOf(kind * CLASSES + hundreds)) total += count;
    }
    return total;
  }

  /** Those that there were. */
  get distributions(): Distribution[] {
    return ROUTE_KINDS.flatMap((route, kind) =>
      [2, 3, 4, 5].flatMap((hundreds): Distribution[] => {
        const at = kind * CLASSES + hundreds;
        const counts = this.#countsOf(at);
        if (counts.every((count) => count === 0)) return [];
        const labels = { route, status: `${hundreds}xx` };
        return [{ labels, bounds: BOUNDS, counts, sum: (this.#ms[at] as number) / 1000 }];
      }),
    );
  }

  #countsOf(at: number): Float64Array {
    return this.#buckets.subarray(at * BUCKETS, (at + 1) * BUCKETS);
  }
}
