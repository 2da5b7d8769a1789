/** What the rounds of a campaign gave, summed up as the figures of its report. */
import type { Figure } from './campaign.ts';
import type { Crowd } from './crowd.ts';

export class Tally {
  readonly violations: string[] = [];
  readonly #counts = new Map<string, number>();
  readonly #times = new Map<string, number[]>();

  add(name: string, count: number): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + count);
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

function spread(times: number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (part: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number).toFixed(0);
  return `median ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms, of ${sorted.length}`;
}
