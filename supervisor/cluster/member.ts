/**
 * Decides what a node of a cluster does: whether it may believe that it owns its buckets, which it claims, and which it hands
 * over (specification, "Cluster: nodes and buckets"). Asks nothing and reads no clock, so that a simulation runs the same code.
 * Times are milliseconds of a clock that only goes forward.
 */
import { LIMITS } from '../../protocol/limits.ts';
import type { Epoch, Gift, Look, NodeRow, Owned } from './directory.ts';
import { Lease, SeenLeases } from './lease.ts';
import { place } from './placement.ts';

/**
 * `release` and `give` are buckets to hand over, those that the node still serves and those that it does not. `isMoving`:
 * something that is the node's, or is to be, changes its owner soon. `term` names the membership in which this was decided.
 */
export type Decision = { claim: Epoch[]; release: number[]; give: Gift[]; isMoving: boolean; term: number };

export class Member {
  /** Whether it gives away what it has and gets nothing new, as long as there is another node for it. */
  draining = false;
  /** Whether it drains because it ends: then what nobody else takes belongs to nobody. */
  leaving = false;
  readonly #name: string;
  readonly #lease = new Lease();
  readonly #others = new SeenLeases();
  #nodes: readonly NodeRow[] = [];
  #buckets: Owned[] = [];
  /** The sum of their epochs; -1 when none are known. */
  #known = -1;
  /** When the last change of owners that this node asked for was answered: a look that was sent earlier may not show it. */
  #changedAt = Number.NEGATIVE_INFINITY;
  readonly #mine = new Map<number, number>();
  /** Where each bucket goes that is being handed over: what changes meanwhile does not call it back. */
  readonly #leaving = new Map<number, string | null>();
  /** Grows with each end of a lease: what was asked before does not count after it. */
  #term = 0;
  #placed: { key: string; owners: readonly (string | null)[] } = { key: '', owners: [] };
  /** The placement for which nothing was left to do. */
  #settled: readonly (string | null)[] | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  get nodes(): readonly NodeRow[] {
    return this.#nodes;
  }

  /** When the lease may end, unless it is renewed. */
  get leaseUntil(): number {
    return this.#lease.until;
  }

  /** The sum of the epochs that are known; -1 when none are. */
  get known(): number {
    return this.#known;
  }

  /** Who owns a bucket as far as this node knows; null for nobody. */
  ownerOf(bucket: number): Owned {
    return this.#buckets[bucket] ?? { owner: null, epoch: 0 };
  }

  /** The epoch of a bucket that this node may serve now; null for any other bucket. */
  epochOf(bucket: number, now: number): number | null {
    return this.#lease.holds(now) ? (this.#mine.get(bucket) ?? null) : null;
  }

  holds(now: number): boolean {
    return this.#lease.holds(now);
  }

  /** Whether nothing belongs to it in the directory. False while it knows nothing. */
  get isEmpty(): boolean {
    return this.#buckets.length > 0 && this.#buckets.every(({ owner }) => owner !== this.#name);
  }

  /** What it owns, by bucket. */
  get mine(): ReadonlyMap<number, number> {
    return this.#mine;
  }

  /**
   * The directory took it in, by a question that was sent then. What an earlier run owned is not its own before it claimed it.
   */
  joined(sentAt: number): void {
    this.#lease.begin(sentAt);
  }

  /** Takes the answer to a look. Answers the buckets that it lost: all of them when the lease may have ended before. */
  looked(look: Look, sentAt: number, now: number): number[] {
    if (!look.isRenewed || !this.#lease.renew(sentAt, now)) return this.end();
    // The answer shows the node's own lease as it was before.
    this.#nodes = look.nodes.map((node) =>
      node.name === this.#name ? { ...node, isLive: true, draining: this.draining } : node,
    );
    const marked = look.nodes.map(({ name, instance, leaseUntil, isLive }) => ({
      name,
      mark: `${instance} ${leaseUntil}`,
      isLive,
    }));
    this.#others.see(marked, now);
    if (look.buckets === null || sentAt < this.#changedAt) return [];
    this.#buckets = look.buckets;
    this.#count();
    return this.#forget(([bucket, epoch]) => this.ownerOf(bucket).epoch !== epoch);
  }

  /** Says what to ask the directory for. Nothing while the lease may have ended. */
  decide(now: number): Decision {
    const decision: Decision = { claim: [], release: [], give: [], isMoving: false, term: this.#term };
    const wanted = this.#lease.holds(now) ? this.#placement() : null;
    // Most renewals find that nothing is left to do.
    if (wanted === null || wanted === this.#settled) return decision;
    this.#decide(decision, wanted, now);
    this.#settled = decision.isMoving ? null : wanted;
    return decision;
  }

  #decide(decision: Decision, wanted: readonly (string | null)[], now: number): void {
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      const { owner, epoch } = this.#buckets[bucket] as Owned;
      const to = wanted[bucket] ?? null;
      if (to !== this.#name && owner !== this.#name) continue; // it has nothing to do with it
      const isMine = this.#mine.has(bucket);
      if (to === this.#name && isMine) continue;
      decision.isMoving = true;
      if (to === this.#name) {
        if (this.#isFree(owner, now)) decision.claim.push({ bucket, epoch });
      } else if (decision.release.length + decision.give.length < LIMITS.bucketsMoved) {
        this.#leaving.set(bucket, to);
        if (isMine) decision.release.push(bucket);
        else decision.give.push({ bucket, epoch, to });
      }
    }
  }

  /** The directory gave it these. Answers those that it now owns: none if its lease may have ended meanwhile. */
  claimed(buckets: readonly Epoch[], { term }: Decision, now: number): Epoch[] {
    if (term !== this.#term || !this.#lease.holds(now)) return [];
    this.#change(buckets, () => this.#name, now);
    for (const { bucket, epoch } of buckets) this.#mine.set(bucket, epoch);
    return [...buckets];
  }

  /** It stopped serving this bucket, to hand it over. False if it did not own it any more. */
  released(bucket: number): boolean {
    return this.#mine.delete(bucket);
  }

  /** The directory handed these over. */
  gave(buckets: readonly Epoch[], { give, term }: Decision, now: number): void {
    if (term !== this.#term) return;
    const receivers = new Map(give.map(({ bucket, to }) => [bucket, to]));
    this.#change(buckets, (bucket) => receivers.get(bucket) ?? null, now);
  }

  /** The lease has ended, or may have. Answers what it owned. What it knows of the others still says whom to ask. */
  end(): number[] {
    this.#lease.end();
    this.#term++;
    return this.#forget(() => true);
  }

  #placement(): readonly (string | null)[] {
    const able = this.#nodes.filter(({ isLive, draining }) => isLive && !draining).map(({ name }) => name);
    if (able.length === 0 && !this.leaving) able.push(this.#name);
    // The sum tells whether an owner changed.
    const key = JSON.stringify([this.known, able]);
    if (this.#placed.key !== key) {
      for (const bucket of this.#leaving.keys())
        if (this.ownerOf(bucket).owner !== this.#name) this.#leaving.delete(bucket);
      const owners = this.#buckets.map(({ owner }, bucket) => this.#leaving.get(bucket) ?? owner);
      this.#placed = { key, owners: place(owners, able) };
    }
    return this.#placed.owners;
  }

  #isFree(owner: string | null, now: number): boolean {
    return owner === null || owner === this.#name || this.#others.isOver(owner, now);
  }

  #change(buckets: readonly Epoch[], ownerOf: (bucket: number) => string | null, now: number): void {
    this.#changedAt = now;
    for (const { bucket, epoch } of buckets) this.#buckets[bucket] = { owner: ownerOf(bucket), epoch };
    this.#count();
  }

  #count(): void {
    this.#known = this.#buckets.length === 0 ? -1 : this.#buckets.reduce((sum, { epoch }) => sum + epoch, 0);
  }

  #forget(isOver: (entry: [bucket: number, epoch: number]) => boolean): number[] {
    this.#settled = null;
    const over = [...this.#mine].filter(isOver).map(([bucket]) => bucket);
    for (const bucket of over) this.#mine.delete(bucket);
    return over;
  }
}
