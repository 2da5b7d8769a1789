/** What a fault campaign is, and what it says of itself. */
import type { StartOptions, TestGateway } from '../../testing/gateway.ts';
import type { Random } from '../../testing/random.ts';
import { percentile } from '../statistics.ts';

export type CampaignContext = {
  random: Random;
  /** How far to go: `full` is what the documents state, `smoke` what CI runs. */
  extent: 'full' | 'smoke';
  /** Rounds asked for on the command line; null for the campaign's own number. */
  rounds: number | null;
  /** Only operations whose name has this text; null for all. For campaigns that have operations. */
  only: string | null;
  report: Report;
  /** A new empty folder, removed at the end of a run without violations and kept otherwise. */
  newFolder(): string;
  /** A gateway in a folder of its own, which is not started yet. It ends with the campaign, if not before. */
  newGateway(options?: StartOptions, folder?: string): TestGateway;
  progress(text: string): void;
};

export type Campaign = {
  name: string;
  /** The question it answers, in one sentence. */
  question: string;
  /** Why this machine cannot run it; null when it can. */
  whyNot?(): string | null;
  run(context: CampaignContext): Promise<void>;
};

export class Report {
  /** What must not be and was: each a sentence that names the round. Empty when the campaign passed. */
  readonly violations: string[] = [];
  /** Parts that this machine could not run, with what is missing. In CI each counts as a violation. */
  readonly skipped: string[] = [];
  /** Text, a count, or times in milliseconds. */
  readonly #figures = new Map<string, string | number | number[]>();

  violated(where: string, what: string | string[]): void {
    for (const one of [what].flat()) this.violations.push(`${where}: ${one}`);
  }

  figure(name: string, value: string | number): void {
    this.#figures.set(name, value);
  }

  add(name: string, count = 1): void {
    this.#figures.set(name, Number(this.#figures.get(name) ?? 0) + count);
  }

  addAll(name: string, counts: Map<string, number>): void {
    for (const [outcome, count] of counts) this.add(`${name}: ${outcome}`, count);
  }

  /** One measurement of `name`, in milliseconds. */
  measured(name: string, ms: number): void {
    this.#figures.set(name, [...((this.#figures.get(name) as number[] | undefined) ?? []), ms]);
  }

  /** What was done how often, and what was measured while it was; one row each. */
  get figures(): { name: string; value: string }[] {
    return [...this.#figures].map(([name, value]) => ({
      name,
      value: Array.isArray(value) ? spread(value) : String(value),
    }));
  }
}

/** Of times in milliseconds. */
function spread(times: number[]): string {
  const at = (share: number) => percentile(times, share).toFixed(0);
  return `median ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms, of ${times.length}`;
}
