/** Well-behaved clients beside those that misbehave: steady reads and writes of ledgers, and what they notice. */
import { Agent } from 'node:http';
import { appOf } from '../../testing/apps.ts';
import { Client, Counts, outcomeOf } from '../../testing/clients.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import type { AppFiles } from '../../testing/published.ts';
import { Load } from '../../testing/write-ledger.ts';
import { percentile } from '../statistics.ts';

const READERS = 2;
const WRITERS = 2;
/** Between two calls of one client: they are there to notice, not to load. */
const PAUSE_MS = 10;

/** In milliseconds. A gap is the longest time without an answer to a read, or without an acknowledged write. */
export type Noticed = { reads: number[]; readGap: number; writes: number; writeGap: number };

const nothing = (): Noticed => ({ reads: [], readGap: 0, writes: 0, writeGap: 0 });

export class Neighbours extends Client {
  readonly load: Load;
  /** How often each outcome other than success came, by `read` or `write` and its code. */
  readonly failures = new Counts();
  readonly #phase: string;
  readonly #watch: NodeJS.Timeout;
  /** The longest time in which one call had no answer; of writes once they have stopped. */
  slowestMs = 0;
  #noticed = nothing();
  #lastRead = performance.now();
  #lastWrite = performance.now();

  /** Starts at once; `phase` sets its writes apart from those of others on the same data. */
  constructor(gateway: TestGateway, apps: string[], phase: string) {
    super(gateway);
    this.#phase = phase;
    this.load = new Load(gateway, { apps, clients: WRITERS, prefix: phase, pauseMs: PAUSE_MS });
    for (let id = 0; id < READERS; id++) {
      // The odd ones are fresh clients each time, as the next visitor would be.
      const agent = id % 2 === 0 ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
      this.repeat((n) => this.#read(apps[(id + n) % apps.length] as string, n, agent), PAUSE_MS);
    }
    let seen = 0;
    this.#watch = setInterval(() => {
      const more = this.load.acknowledged.length - seen;
      seen += more;
      this.#noticed.writes += more;
      const now = performance.now();
      if (more > 0) this.#lastWrite = now;
      this.#noticed.writeGap = Math.max(this.#noticed.writeGap, now - this.#lastWrite);
    }, PAUSE_MS);
  }

  /** What they noticed since this was last asked. */
  take(): Noticed {
    const noticed = this.#noticed;
    this.#noticed = nothing();
    return noticed;
  }

  override async stop(): Promise<void> {
    await Promise.all([this.load.stop(), super.stop()]);
    clearInterval(this.#watch);
    for (const { sentAt, answeredAt } of this.load.sent.values())
      this.slowestMs = Math.max(this.slowestMs, answeredAt - sentAt);
    for (const [outcome, count] of this.load.outcomes)
      if (outcome !== '201') this.failures.set(`write ${outcome}`, count);
    this.violations.push(...this.load.violations);
  }

  async #read(app: string, n: number, agent: Agent | false): Promise<void> {
    const startedAt = performance.now();
    const call = this.gateway.read(app, 'get', { key: `${this.#phase}-0-${n}` }, { agent });
    const outcome = outcomeOf(await this.answered(`A read of ${app}`, call));
    const now = performance.now();
    this.slowestMs = Math.max(this.slowestMs, now - startedAt);
    if (outcome !== '200') {
      this.failures.count(`read ${outcome}`);
      return;
    }
    this.#noticed.reads.push(now - startedAt);
    this.#noticed.readGap = Math.max(this.#noticed.readGap, now - this.#lastRead);
    this.#lastRead = now;
  }
}

const QUIET_MS = 400;

/** An app of a `QuietNeighbours`. */
export const quietApp = (id: string): AppFiles => appOf(id, { queries: { twice: '({ input }) => 2 * input.n' } });

/** Reads apps so seldom that they stay in the commons: each answer is right. */
export class QuietNeighbours extends Client {
  slowestMs = 0;

  /** Starts at once. */
  constructor(gateway: TestGateway, apps: string[]) {
    super(gateway);
    this.repeat((n) => this.#read(apps[n % apps.length] as string, n), QUIET_MS);
  }

  async #read(app: string, n: number): Promise<void> {
    const startedAt = performance.now();
    const answer = await this.answered(`A read of ${app}`, this.gateway.read(app, 'twice', { n }));
    this.slowestMs = Math.max(this.slowestMs, performance.now() - startedAt);
    if (answer !== null && answer.json.data !== 2 * n)
      this.violations.push(`${app} answered ${answer.text.slice(0, 200)}`);
  }
}

export function describe({ reads, readGap, writes, writeGap }: Noticed): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
  const [p50, p99] = [percentile(reads, 0.5), percentile(reads, 0.99)].map(ms);
  return `${reads.length} reads, p50 ${p50}, p99 ${p99}, longest gap ${ms(readGap)}; ${writes} writes, longest gap ${ms(writeGap)}`;
}
