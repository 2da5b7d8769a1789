/** Latencies in buckets whose width grows with the value: any percentile within 1 %, in constant memory. */

/** 64 buckets for each doubling. */
const SUB_BITS = 6;
const SUB_BUCKETS = 1 << SUB_BITS;
const MAX_MICROS = 2 ** 31 - 1;

/** Bucket numbers with their counts, without the empty ones: how a histogram travels between processes. */
export type HistogramCounts = [bucket: number, count: number][];

export class Histogram {
  readonly #counts = new Uint32Array(bucketOf(MAX_MICROS) + 1);
  #total = 0;

  get total(): number {
    return this.#total;
  }

  record(micros: number): void {
    const bucket = bucketOf(Math.min(Math.max(Math.round(micros), 0), MAX_MICROS));
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#total++;
  }

  add(counts: HistogramCounts): void {
    for (const [bucket, count] of counts) {
      this.#counts[bucket] = (this.#counts[bucket] as number) + count;
      this.#total += count;
    }
  }

  /** The microseconds within which `share` (0 to 1) of the values lie; 0 when there are none. */
  percentile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.#total));
    let seen = 0;
    for (const [bucket, count] of this.#counts.entries()) {
      seen += count;
      if (seen >= rank) return middleOf(bucket);
    }
    return 0;
  }

  counts(): HistogramCounts {
    return [...this.#counts.entries()].filter(([, count]) => count > 0);
  }
}

function bucketOf(micros: number): number {
  const shift = Math.max(0, 31 - Math.clz32(micros) - SUB_BITS);
  return shift * SUB_BUCKETS + (micros >>> shift);
}

function middleOf(bucket: number): number {
  const shift = Math.max(0, Math.floor(bucket / SUB_BUCKETS) - 1);
  const width = 2 ** shift;
  return (bucket - shift * SUB_BUCKETS) * width + (width - 1) / 2;
}
