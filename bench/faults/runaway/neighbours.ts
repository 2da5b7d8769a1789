/** The well-behaved apps in the same host: steady reads and writes, and what their callers notice. */
import { Client, Counts, outcomeOf } from '../../../testing/clients.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { Load } from '../../../testing/write-ledger.ts';
import { percentile } from '../../statistics.ts';

const READERS = 2;
const WRITERS = 2;
/** Between two reads of one reader: the load shall be steady, not all that the machine can do. */
const READ_EVERY_MS = 10;

/** What neighbours noticed in one phase. Times in milliseconds. */
export type Noticed = {
  reads: number;
  p50: number;
  p99: number;
  /** The longest time without an answer to a read, and without an acknowledged write. */
  readGap: number;
  writes: number;
  writeGap: number;
  /** How often each outcome other than success came, by `read` or `write` and its code. */
  failures: Counts;
};

export class Neighbours extends Client {
  readonly #phase: string;
  readonly load: Load;
  readonly #latencies: number[] = [];
  readonly #failures = new Counts();
  #lastRead = performance.now();
  #readGap = 0;
  #lastWrite = performance.now();
  #writeGap = 0;
  readonly #watch: NodeJS.Timeout;

  /** Starts at once; `phase` sets its writes apart from those of other phases. */
  constructor(gateway: TestGateway, apps: string[], phase: string) {
    super(gateway);
    this.#phase = phase;
    this.load = new Load(gateway, { apps, clients: WRITERS, prefix: phase });
    for (let id = 0; id < READERS; id++)
      this.repeat(
        (n) => this.#read(apps[(id + n) % apps.length] as string, n),
        () => READ_EVERY_MS,
      );
    let seen = 0;
    this.#watch = setInterval(() => {
      const now = performance.now();
      if (this.load.acknowledged.length > seen) this.#lastWrite = now;
      seen = this.load.acknowledged.length;
      this.#writeGap = Math.max(this.#writeGap, now - this.#lastWrite);
    }, READ_EVERY_MS);
  }

  /** Stops them; what they noticed. */
  async leave(): Promise<Noticed> {
    await Promise.all([this.load.stop(), this.stop()]);
    clearInterval(this.#watch);
    for (const [outcome, count] of this.load.outcomes)
      if (outcome !== '201') this.#failures.set(`write ${outcome}`, count);
    return {
      reads: this.#latencies.length,
      p50: percentile(this.#latencies, 0.5),
      p99: percentile(this.#latencies, 0.99),
      readGap: this.#readGap,
      writes: this.load.acknowledged.length,
      writeGap: this.#writeGap,
      failures: this.#failures,
    };
  }

  async #read(app: string, n: number): Promise<void> {
    const startedAt = performance.now();
    const call = this.gateway.read(app, 'get', { key: `${this.#phase}-0-${n}` });
    const outcome = outcomeOf(await this.answered(`A read of ${app}`, call));
    const now = performance.now();
    if (outcome !== '200') {
      this.#failures.count(`read ${outcome}`);
      return;
    }
    this.#latencies.push(now - startedAt);
    this.#readGap = Math.max(this.#readGap, now - this.#lastRead);
    this.#lastRead = now;
  }
}
