/**
 * Stands in for the directory of a cluster in a simulation: the same compare-and-set, at once, on a clock that the simulation
 * sets.
 */
import { BUCKETS } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Epoch, Gift, Look, Owned } from '../../supervisor/cluster/directory.ts';

type Row = { leaseUntil: number; draining: boolean };

export class ModelDirectory {
  /** Questions since the start, and the buckets that changed their owner. */
  questions = 0;
  moved = 0;
  readonly buckets: Owned[] = Array.from({ length: BUCKETS }, () => ({ owner: null, epoch: 0 }));
  readonly #nodes = new Map<string, Row>();
  readonly #now: () => number;

  /** `now`: milliseconds of the database's clock. */
  constructor(now: () => number) {
    this.#now = now;
  }

  join(name: string): void {
    this.questions++;
    this.#nodes.set(name, { leaseUntil: this.#now() + LIMITS.nodeLeaseMs, draining: false });
  }

  look(name: string, draining: boolean, known: number): Look {
    this.questions++;
    const before = [...this.#nodes].sort(([a], [b]) => (a < b ? -1 : 1));
    const nodes = before.map(([node, row]) => ({
      name: node,
      instance: node,
      address: `http://${node}.example`,
      version: '1.0.0',
      started: '',
      leaseUntil: `${row.leaseUntil}`,
      draining: row.draining,
      isLive: row.leaseUntil > this.#now(),
    }));
    const row = this.#nodes.get(name);
    if (row !== undefined) Object.assign(row, { leaseUntil: this.#now() + LIMITS.nodeLeaseMs, draining });
    const sum = this.buckets.reduce((all, { epoch }) => all + epoch, 0);
    const buckets = sum === known ? null : this.buckets.map((owned) => ({ ...owned }));
    return { isRenewed: row !== undefined, nodes, buckets };
  }

  claim(name: string, wanted: readonly Epoch[]): Epoch[] {
    this.questions++;
    if (!this.#nodes.has(name)) return [];
    return this.#change(
      wanted,
      (owner) => owner === null || owner === name || !this.#isLive(owner),
      () => name,
    );
  }

  give(name: string, gifts: readonly Gift[]): Epoch[] {
    this.questions++;
    return this.#change(
      gifts,
      (owner) => owner === name,
      ({ to }) => to,
    );
  }

  #isLive(name: string): boolean {
    return (this.#nodes.get(name)?.leaseUntil ?? Number.NEGATIVE_INFINITY) > this.#now();
  }

  #change<E extends Epoch>(
    wanted: readonly E[],
    may: (owner: string | null) => boolean,
    to: (one: E) => string | null,
  ): Epoch[] {
    return wanted.flatMap((one) => {
      const owned = this.buckets[one.bucket] as Owned;
      if (owned.epoch !== one.epoch || !may(owned.owner)) return [];
      if (owned.owner !== to(one)) this.moved++;
      owned.owner = to(one);
      owned.epoch++;
      return [{ bucket: one.bucket, epoch: owned.epoch }];
    });
  }
}
