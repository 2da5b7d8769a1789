/**
 * Samples each app's meter once a minute, for the curves of the last hour (specification, "Metrics and traces"). A call costs
 * nothing extra: a minute is the difference between two samples of the meter.
 */
import { stat } from 'node:fs/promises';
import type { ActivityPoint } from '../../protocol/answer-types.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { AppPaths } from '../../storage/layout.ts';
import { CALL_BUCKETS_MS, type Meter, type Meters } from './metrics/meters.ts';

type ActivitySources = {
  meters: Meters;
  /** Bytes of the app's database; null without one. */
  dataBytes(app: string): Promise<number | null>;
  /** Change streams of the app, and its subscriptions to live queries. */
  subscribers(app: string): number;
  now?: () => number;
};

/** A sample of a meter. */
type Totals = { calls: number; refused: number; failed: number; kept: number; buckets: Float64Array };

/** The size of the data is filled in later. */
type Point = ActivityPoint & { dataBytes: number | null };
type Series = { totals: Totals; points: Point[] };

export class Activity {
  readonly #sources: ActivitySources;
  readonly #now: () => number;
  readonly #series = new Map<string, Series>();
  #minuteFrom: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(sources: ActivitySources) {
    this.#sources = sources;
    this.#now = sources.now ?? Date.now;
    this.#minuteFrom = this.#now();
  }

  start(): void {
    this.#timer = setInterval(() => void this.sample(), LIMITS.activityMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Ends the minute for all apps; drops those without use for an hour. */
  async sample(): Promise<void> {
    const at = this.#minuteFrom;
    this.#minuteFrom = this.#now();
    const closing = this.#sources.meters.used().map(([app, meter]) => {
      const series = this.#series.get(app) ?? { totals: NOTHING, points: [] };
      this.#series.set(app, series);
      const totals = totalsAt(meter);
      const point = pointOf(at, series.totals, totals, this.#sources.subscribers(app));
      series.totals = totals;
      series.points.push(point);
      if (series.points.length >= LIMITS.activityPoints) series.points.shift();
      return [app, point] as const;
    });
    const used = new Set(closing.map(([app]) => app));
    for (const app of this.#series.keys()) if (!used.has(app)) this.#series.delete(app);
    // One after the other: a gateway may have a thousand apps, and no request waits for this.
    for (const [app, point] of closing) {
      const { points = [] } = this.#series.get(app) ?? {};
      const isQuiet = point.calls === 0 && points.length > 1;
      point.dataBytes = isQuiet ? (points.at(-2)?.dataBytes ?? null) : await this.#sources.dataBytes(app);
    }
  }

  /** The last hour of an app, oldest first, up to now; the minute that goes on is the last. */
  async of(app: string): Promise<ActivityPoint[]> {
    const series = this.#series.get(app);
    const [, meter] = this.#sources.meters.used().find(([id]) => id === app) ?? [];
    const totals = meter === undefined ? NOTHING : totalsAt(meter);
    const subscribers = this.#sources.subscribers(app);
    const current = pointOf(this.#minuteFrom, series?.totals ?? NOTHING, totals, subscribers);
    current.dataBytes = await this.#sources.dataBytes(app);
    return [...(series?.points ?? []), current];
  }
}

const NOTHING: Totals = {
  calls: 0,
  refused: 0,
  failed: 0,
  kept: 0,
  buckets: new Float64Array(CALL_BUCKETS_MS.length + 1),
};

function totalsAt({ queries, actions, keptHits, buckets }: Meter): Totals {
  const refused = queries.refused + actions.refused;
  const failed = queries.failed + actions.failed;
  const calls = queries.ok + actions.ok + refused + failed + keptHits;
  return { calls, refused, failed, kept: keptHits, buckets: buckets.slice() };
}

function pointOf(at: number, before: Totals, after: Totals, subscribers: number): Point {
  const counts = after.buckets.map((count, index) => count - (before.buckets[index] as number));
  return {
    at,
    calls: after.calls - before.calls,
    refused: after.refused - before.refused,
    failed: after.failed - before.failed,
    kept: after.kept - before.kept,
    p50: quantile(counts, 0.5),
    p99: quantile(counts, 0.99),
    dataBytes: null,
    subscribers,
  };
}

/** As if the calls of a bucket were spread evenly over it; of the last bucket, which has no end, its beginning. */
export function quantile(counts: ArrayLike<number>, share: number): number | null {
  const all = Array.from(counts).reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let left = all * share;
  let from = 0;
  for (const [index, to] of CALL_BUCKETS_MS.entries()) {
    const count = counts[index] as number;
    if (count > 0 && left <= count) return Math.round((from + ((to - from) * left) / count) * 100) / 100;
    left -= count;
    from = to;
  }
  return from;
}

/** Bytes of an app's database and of what is not in its file yet; null without one. */
export async function dataBytes({ data }: AppPaths): Promise<number | null> {
  const sizes = await Promise.all(
    [data, `${data}-wal`].map((file) =>
      stat(file).then(
        ({ size }) => size,
        () => null,
      ),
    ),
  );
  return sizes[0] === null ? null : sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}
