/**
 * Which actors may have a thread: at most `limit`, and at most `share` of one app. The one that rests and was used longest ago makes room; the others wait
 * in the order in which they came, and an actor that never rests gives up its place after its turn. Pure.
 */

/** An actor, as far as its place is concerned. */
export type Tenant = {
  /** Whose share it counts in. */
  readonly app: string;
  /** It has a thread, or is about to have one. */
  readonly occupied: boolean;
  /** Live, and nobody waits for a call of it. */
  readonly rested: boolean;
  readonly waiting: boolean;
  /** Milliseconds, by any clock that all share. */
  readonly lastUsed: number;
  /** Ends the thread of one that is `rested`. */
  rest(reason: 'idle' | 'evicted'): void;
  /** Ends the thread after the calls in flight; those in the mailbox stay there. False when it has no live one. */
  yield(): boolean;
  /** Asks for admission if it still wants it. */
  proceed(): void;
};

export class Admission<T extends Tenant> {
  readonly #limit: number;
  readonly #share: number;
  /** In the order in which they got their places. */
  readonly #placed = new Set<T>();
  readonly #waiting = new Set<T>();

  constructor(limit: number, share = limit) {
    this.#limit = limit;
    this.#share = share;
  }

  /** False when there is no room; `proceed` is called when there is. */
  admit(tenant: T): boolean {
    for (const other of this.#placed) if (!other.occupied) this.#placed.delete(other);
    const shareTaken = this.#hasShareTaken(tenant.app);
    if ((shareTaken || this.#placed.size >= this.#limit) && !this.#evict(shareTaken ? tenant.app : null)) {
      this.#waiting.add(tenant);
      return false;
    }
    this.#waiting.delete(tenant);
    this.#placed.add(tenant);
    return true;
  }

  /** There may be room: those who wait get it, one after the other. */
  next(): void {
    for (const tenant of this.#waiting) {
      tenant.proceed();
      if (!tenant.waiting) this.#waiting.delete(tenant);
      // One that waits for a place of its own app's share keeps nobody else waiting.
      else if (this.#placed.size >= this.#limit) return;
    }
  }

  /** The tenant has nothing to do now. */
  rested(tenant: T): void {
    for (const other of this.#waiting) {
      if (other.app !== tenant.app && this.#hasShareTaken(other.app)) continue;
      tenant.rest('evicted');
      this.next();
      return;
    }
  }

  /** Ends the threads that nobody has used since `since`. */
  restIdle(since: number): void {
    for (const tenant of this.#placed) if (tenant.rested && tenant.lastUsed < since) tenant.rest('idle');
  }

  /** Called now and then: the turn of whoever has had a place longest is over if others wait. */
  rotate(): void {
    this.next();
    if (this.#waiting.size === 0) return;
    for (const tenant of this.#placed) {
      if (!tenant.yield()) continue;
      this.next();
      tenant.proceed();
      return;
    }
  }

  /** The tenant goes away. */
  leave(tenant: T): void {
    this.#placed.delete(tenant);
    this.#waiting.delete(tenant);
  }

  #hasShareTaken(app: string): boolean {
    if (this.#share >= this.#limit) return false;
    let taken = 0;
    for (const other of this.#placed) if (other.app === app && other.occupied) taken++;
    return taken >= this.#share;
  }

  /** Of one app, or of any. */
  #evict(app: string | null): boolean {
    let oldest: T | null = null;
    for (const other of this.#placed) {
      if (!other.rested || (app !== null && other.app !== app)) continue;
      if (oldest === null || other.lastUsed < oldest.lastUsed) oldest = other;
    }
    if (oldest === null) return false;
    oldest.rest('evicted');
    this.#placed.delete(oldest);
    return true;
  }
}
