/** What a fault campaign is, and what it says of itself. */
import { Counts } from '../../testing/clients.ts';
import type { Random } from '../../testing/random.ts';
import { percentile } from '../statistics.ts';
import type { Crowd } from './crowd.ts';

export type CampaignContext = {
  random: Random;
  /** How far to go: `full` is what the documents state, `smoke` what CI runs. */
  extent: 'full' | 'smoke';
  /** Rounds asked for on the command line; null for the campaign's own number. */
  rounds: number | null;
  /** Only operations whose name has this text; null for all. For campaigns that have operations. */
  only: string | null;
  /** A new empty folder, removed at the end of a run without violations and kept otherwise. */
  newFolder(): string;
  progress(text: string): void;
};

export type Figure = { name: string; value: string };

export type CampaignReport = {
  /** What was done how often, and what was measured while it was; one row each. */
  figures: Figure[];
  /** What must not be and was: each a sentence that names the round. Empty when the campaign passed. */
  violations: string[];
  /** Parts that this machine could not run, with what is missing. In CI each counts as a violation. */
  skipped: string[];
};

export type Campaign = {
  name: string;
  /** The question it answers, in one sentence. */
  question: string;
  run(context: CampaignContext): Promise<CampaignReport>;
};

export class Tally {
  readonly violations: string[] = [];
  readonly #counts = new Counts();
  readonly #times = new Map<string, number[]>();

  add(name: string, count: number): void {
    this.#counts.count(name, count);
  }

  /** One measurement of `name`, in milliseconds. */
  measured(name: string, ms: number): void {
    const times = this.#times.get(name) ?? [];
    times.push(ms);
    this.#times.set(name, times);
  }

  violated(where: string, what: string[]): void {
    for (const one of what) this.violations.push(`${where}: ${one}`);
  }

  /** What a crowd that has left did and was answered. */
  addCrowd({ load, retriers, readers, events }: Crowd, lost: number): void {
    this.add('acknowledged writes', load.acknowledged.length + retriers.acknowledged.length);
    this.add('acknowledged writes that were lost', lost);
    for (const [outcome, count] of load.outcomes) if (outcome !== '201') this.add(`writes: ${outcome}`, count);
    this.add('calls repeated with their idempotency key', retriers.repeats);
    this.add('of them answered from the record', retriers.replayed);
    for (const [outcome, count] of retriers.outcomes) this.add(`writes with an idempotency key: ${outcome}`, count);
    this.add('reads', readers.reads);
    this.add('of them answered with a kept result', readers.hits);
    this.add('reads answered with an error', readers.failed.length);
    this.add('events on the steady change streams', events);
  }

  figures(): Figure[] {
    return [
      ...[...this.#times].map(([name, times]) => ({ name, value: spread(times) })),
      ...[...this.#counts].map(([name, count]) => ({ name, value: String(count) })),
    ];
  }
}

/** Of times in milliseconds. */
export function spread(times: number[]): string {
  const at = (share: number) => percentile(times, share).toFixed(0);
  return `median ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms, of ${times.length}`;
}
