/** Orders questions to child processes: one app never gets all places, running or waiting, and apps take turns. Pure. */

export type Queued = {
  /** Each pool has its own threads, see `QueueLimits`. */
  pool: string;
  /** Whom it is done for, an app as a rule; null for the gateway itself, which is bound by the threads alone. */
  party: string | null;
  /** Runs alone: it may have caused the end of its last process. */
  alone: boolean;
};

/** How many run at a time, by pool, and how many may wait. */
export type QueueLimits = { threads: Record<string, number>; waiting: number };

export class FairQueue<J extends Queued> {
  readonly #limits: QueueLimits;
  #waiting: J[] = [];
  readonly #running = new Set<J>();
  /** When a party that waits last had a job started, as a count of starts. */
  readonly #turns = new Map<string | null, number>();
  #starts = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get running(): ReadonlySet<J> {
    return this.#running;
  }

  get waiting(): readonly J[] {
    return this.#waiting;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#running.size === 0;
  }

  /** False when there is no place for it. */
  add(job: J): boolean {
    const { waiting } = this.#limits;
    if (this.#waiting.length >= waiting) return false;
    if (job.party !== null && count(this.#waiting, (one) => one.party === job.party) >= half(waiting)) return false;
    this.#waiting.push(job);
    return true;
  }

  /** Puts jobs that were under way back in front of all others, each to run `alone` if that is so. */
  putBack(jobs: J[], alone: boolean): void {
    for (const job of jobs) {
      job.alone = alone;
      this.#running.delete(job);
    }
    this.#waiting = [...jobs, ...this.#waiting];
  }

  /** The job that starts now; null when none may. */
  next(): J | null {
    const running = [...this.#running];
    if (running.some(({ alone }) => alone)) return null;
    const [first] = this.#waiting;
    if (first?.alone) return running.length === 0 ? this.#begin(first) : null;
    let chosen: J | null = null;
    for (const job of this.#waiting) {
      if (!this.#mayStart(job, running)) continue;
      if (chosen === null || this.#turn(job) < this.#turn(chosen)) chosen = job;
    }
    return chosen === null ? null : this.#begin(chosen);
  }

  /** It ended, or was cancelled. */
  remove(job: J): void {
    this.#running.delete(job);
    this.#waiting = this.#waiting.filter((one) => one !== job);
    if (!this.#waiting.some(({ party }) => party === job.party)) this.#turns.delete(job.party);
  }

  #mayStart(job: J, running: J[]): boolean {
    const mine = running.filter(({ pool }) => pool === job.pool);
    const threads = this.#limits.threads[job.pool] ?? 0;
    if (mine.length >= threads) return false;
    return job.party === null || count(mine, ({ party }) => party === job.party) < half(threads);
  }

  #turn({ party }: J): number {
    return this.#turns.get(party) ?? 0;
  }

  #begin(job: J): J {
    this.#waiting = this.#waiting.filter((one) => one !== job);
    this.#running.add(job);
    this.#turns.set(job.party, ++this.#starts);
    return job;
  }
}

function half(places: number): number {
  return Math.max(1, Math.floor(places / 2));
}

function count<T>(items: readonly T[], is: (item: T) => boolean): number {
  return items.filter(is).length;
}
