/** Defines a metric: its name, its meaning, and how a scrape collects its values. */

export type Labels = Readonly<Record<string, string>>;

/** One value, as `prom-client` prints it; labels of `sharedLabels` come last. */
export type Sample = { labels: Labels; sharedLabels?: Labels; value: number; metricName?: string };

/** A value with its labels. */
export type Value = readonly [labels: Labels, value: number];

/** `counts` has one more than `bounds`, for what is above the last bound; not added up. */
export type Distribution = {
  labels: Labels;
  bounds: readonly number[];
  counts: ArrayLike<number>;
  sum: number;
};

/** Values of a histogram are distributions. */
export type Family = {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  collect(): Collected | Promise<Collected>;
};
export type Collected = readonly Value[] | readonly Distribution[];

/** The collected samples, in order, in parts of about this many lines; at least one part. */
export function* partsOf(collected: Collected, lines: number): Generator<Collected> {
  const [first] = collected;
  const each = first !== undefined && 'bounds' in first ? first.bounds.length + 3 : 1;
  const step = Math.max(1, Math.floor(lines / each));
  for (let from = 0; from === 0 || from < collected.length; from += step) yield collected.slice(from, from + step);
}

export function samplesOf(name: string, collected: Collected): Sample[] {
  return collected.flatMap((one) =>
    'bounds' in one ? bucketsOf(name, one) : [{ labels: one[0] as Labels, value: one[1] as number }],
  );
}

function bucketsOf(name: string, { labels, bounds, counts, sum }: Distribution): Sample[] {
  const samples: Sample[] = [];
  let count = 0;
  for (let i = 0; i <= bounds.length; i++) {
    count += counts[i] as number;
    const le = i < bounds.length ? String(bounds[i]) : '+Inf';
    samples.push({ metricName: `${name}_bucket`, labels: { le }, sharedLabels: labels, value: count });
  }
  samples.push(
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  );
  return samples;
}
