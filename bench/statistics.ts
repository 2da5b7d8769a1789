/** Medians, and how far repeated rounds let them be trusted. All of it is exact and by rank: no distribution is assumed. */

/** An estimate and the ends of its interval, which holds the true value in at least `CONFIDENCE` of the cases. */
export type Interval = { estimate: number; low: number; high: number };

export const CONFIDENCE = 0.95;

/** The middle value; between the two middle ones of an even count. NaN of nothing. */
export function median(values: number[]): number {
  const sorted = ascending(values);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle] as number;
  return ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** The smallest of the values that `share` (0 to 1) of them do not exceed. NaN of nothing. */
export function percentile(values: number[], share: number): number {
  return ascending(values)[Math.max(0, Math.ceil(share * values.length) - 1)] ?? Number.NaN;
}

/** The rise of `y` for each unit of `x` (Theil–Sen): the median of the slopes between all pairs, which outliers do not move. */
export function slope(points: { x: number; y: number }[]): number {
  return median(
    points.flatMap((one, i) =>
      points
        .slice(i + 1)
        .filter(({ x }) => x !== one.x)
        .map((other) => (other.y - one.y) / (other.x - one.x)),
    ),
  );
}

/**
 * The middle of quotients of neighbouring rounds of one run: the Hodges–Lehmann estimate, with the interval of Wilcoxon's
 * signed-rank test. With fewer than six its ends are 0 and infinity.
 */
export function middleFactor(quotients: number[]): Interval {
  const means = quotients.flatMap((one, i) => quotients.slice(i).map((other) => Math.sqrt(one * other)));
  return intervalOf(means, signedRankCounts(quotients.length));
}

/** Whether the interval of a factor leaves 1 out. */
export function beyondNoise({ low, high }: Interval): boolean {
  return low > 1 || high < 1;
}

/** "0.41 (0.38 to 0.44)"; without the ends where there were too few rounds for them. */
export function formatInterval({ estimate, low, high }: Interval): string {
  return Number.isFinite(high)
    ? `${estimate.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`
    : estimate.toFixed(2);
}

/** `counts[u]` is how often the test's statistic is `u` if nothing differs; it says how many values to cut off at each end. */
function intervalOf(values: number[], counts: number[]): Interval {
  const sorted = ascending(values);
  const total = counts.reduce((sum, count) => sum + count, 0);
  let cut = 0;
  let tail = counts[0] as number;
  while (tail <= ((1 - CONFIDENCE) / 2) * total) {
    cut++;
    tail += counts[cut] as number;
  }
  const low = cut === 0 ? 0 : (sorted[cut - 1] as number);
  const high = cut === 0 ? Number.POSITIVE_INFINITY : (sorted[sorted.length - cut] as number);
  return { estimate: median(values), low, high };
}

/** Wilcoxon: the number of subsets of the ranks 1 to n with each sum. */
function signedRankCounts(n: number): number[] {
  let counts = [1];
  for (let rank = 1; rank <= n; rank++) {
    const next = [...counts, ...new Array<number>(rank).fill(0)];
    for (const [sum, count] of counts.entries()) next[sum + rank] = (next[sum + rank] as number) + count;
    counts = next;
  }
  return counts;
}

function ascending(values: number[]): Float64Array {
  return Float64Array.from(values).sort();
}
