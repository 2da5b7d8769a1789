/**
 * Tells when a lease is over, for the node that has it and for those that wait for its end. Both count on clocks of their own
 * that only go forward (`performance.now`), so that no clock that is set, the database's included, makes two nodes owners of
 * one bucket (specification, "Cluster: nodes and buckets").
 */
import { LIMITS } from '../../protocol/limits.ts';

/** What a node may believe about its own lease. Times are milliseconds of its own clock. */
export class Lease {
  #until = Number.NEGATIVE_INFINITY;

  /** A new lease, which the database gave after a question that was sent then. */
  begin(sentAt: number): void {
    this.#until = believedUntil(sentAt);
  }

  /** False if the answer came when the lease may have been over: others may have taken what it was for. */
  renew(sentAt: number, now: number): boolean {
    if (!this.holds(now)) return false;
    this.#until = Math.max(this.#until, believedUntil(sentAt));
    return true;
  }

  end(): void {
    this.#until = Number.NEGATIVE_INFINITY;
  }

  holds(now: number): boolean {
    return now < this.#until;
  }

  get until(): number {
    return this.#until;
  }
}

/** The database may have written the lease as soon as the question was sent. */
function believedUntil(sentAt: number): number {
  return sentAt + LIMITS.nodeLeaseMs - LIMITS.nodeLeaseMarginMs;
}

/** A lease of another node as the database tells it: `mark` changes with each renewal, `isLive` is by the database's clock. */
export type SeenLease = { name: string; mark: string; isLive: boolean };

/**
 * The leases of other nodes. One is over when the database says so and it was not renewed for a whole lease since this node saw
 * it. The database's clock alone is not enough: it may be set, or be that of another machine after a failover.
 */
export class SeenLeases {
  #seen = new Map<string, SeenLease & { since: number }>();

  /** All leases of an answer that came at `now`. */
  see(leases: readonly SeenLease[], now: number): void {
    this.#seen = new Map(
      leases.map((lease) => {
        const known = this.#seen.get(lease.name);
        return [lease.name, { ...lease, since: known?.mark === lease.mark ? known.since : now }];
      }),
    );
  }

  /** True for a node that is not listed: it has left. */
  isOver(name: string, now: number): boolean {
    const lease = this.#seen.get(name);
    return lease === undefined || (!lease.isLive && now - lease.since >= LIMITS.nodeLeaseMs);
  }
}
