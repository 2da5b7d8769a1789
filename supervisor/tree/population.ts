/**
 * Keeps the actors of one kind (apps, drafts or automations) by key, and decides which have a thread: at most `places`, and at
 * most `share` of one app. The least used idle actor makes room, so that a rare app does not push out a busy one. Others wait
 * in order of arrival; an actor that is never idle gives up its place after its turn. Pure.
 */
import { LIMITS } from '../../protocol/limits.ts';

/** An actor, as far as its place is concerned. */
export type Tenant = {
  readonly key: string;
  /** Whose share it counts in. */
  readonly app: string;
  /** It has a thread, or is about to have one. */
  readonly occupied: boolean;
  /** Live, and no caller waits for it. */
  readonly evictable: boolean;
  readonly waiting: boolean;
  /** Milliseconds, by any clock that all share. */
  readonly lastUsed: number;
  /** How much it is used, as `useAfter` counts. */
  readonly use: number;
  /** Ends the thread of one that is `evictable`. */
  evict(reason: 'idle' | 'evicted'): void;
  /** Ends the thread after the calls in flight; those in the mailbox stay there. False when it has no live one. */
  yield(): boolean;
  /** Asks for admission if it still wants it. */
  proceed(): void;
};

/**
 * How much an actor is used, after one more call at `now`: higher is more, and two can be compared at any time. Each call counts
 * half as much after every `useHalfLifeMs`; as that goes for all alike, the logarithm of the sum needs no update in between.
 */
export function useAfter(use: number, now: number): number {
  const at = now / LIMITS.useHalfLifeMs;
  return Math.log2(2 ** (use - at) + 1) + at;
}

/** The use of an actor that was never used. */
export const NEVER_USED = Number.NEGATIVE_INFINITY;

type PopulationOptions = {
  /** How many may have a thread. */
  places: number;
  /** How many of one app, by default all. */
  share?: number;
  /** How long a thread may be idle, in milliseconds. */
  idleMs: number;
  /** How many calls may wait for one actor. */
  mailboxLimit: number;
  /** Calls that an actor works on at a time. Where it is 1, calls never overlap, not even on an older and a newer thread. */
  concurrency: number;
};

export class Population<T extends Tenant> {
  readonly options: PopulationOptions;
  readonly #share: number;
  readonly #actors = new Map<string, T>();
  /** In the order in which they got their places. */
  readonly #placed = new Set<T>();
  readonly #waiting = new Set<T>();

  constructor(options: PopulationOptions) {
    this.options = options;
    this.#share = options.share ?? options.places;
  }

  get all(): T[] {
    return [...this.#actors.values()];
  }

  get(key: string): T | undefined {
    return this.#actors.get(key);
  }

  add(actor: T): T {
    this.#actors.set(actor.key, actor);
    return actor;
  }

  delete(actor: T): void {
    this.#actors.delete(actor.key);
    this.leave(actor);
  }

  /** It gives its place up, or its wait for one. */
  leave(actor: T): void {
    this.#placed.delete(actor);
    this.#waiting.delete(actor);
  }

  /** False when there is no room; `proceed` is called when there is. */
  admit(actor: T): boolean {
    for (const other of this.#placed) if (!other.occupied) this.#placed.delete(other);
    const shareTaken = this.#hasShareTaken(actor.app);
    if ((shareTaken || this.#isFull) && !this.#evict(shareTaken ? actor.app : null)) {
      this.#waiting.add(actor);
      return false;
    }
    this.#waiting.delete(actor);
    this.#placed.add(actor);
    return true;
  }

  /** There may be room: those who wait get it, one after the other. */
  next(): void {
    for (const actor of this.#waiting) {
      actor.proceed();
      if (!actor.waiting) this.#waiting.delete(actor);
      // An actor that waits for its app's share does not block others.
      else if (this.#isFull) return;
    }
  }

  /** The actor is idle now. */
  becameEvictable(actor: T): void {
    for (const other of this.#waiting) {
      if (other.app !== actor.app && this.#hasShareTaken(other.app)) continue;
      actor.evict('evicted');
      this.next();
      return;
    }
  }

  /**
   * Called at intervals: ends threads that have been idle for too long and, while others wait, the turn of the actor that has
   * had its place longest.
   */
  tidy(now: number): void {
    const since = now - this.options.idleMs;
    for (const actor of this.#placed) if (actor.evictable && actor.lastUsed < since) actor.evict('idle');
    this.next();
    if (this.#waiting.size === 0) return;
    for (const actor of this.#placed) {
      if (!actor.yield()) continue;
      this.next();
      actor.proceed();
      return;
    }
  }

  get #isFull(): boolean {
    return this.#placed.size >= this.options.places;
  }

  #hasShareTaken(app: string): boolean {
    if (this.#share >= this.options.places) return false;
    let taken = 0;
    for (const other of this.#placed) if (other.app === app && other.occupied) taken++;
    return taken >= this.#share;
  }

  /** Ends the thread of the actor that is used least of those that rest; `app` limits the choice to that app's actors. */
  #evict(app: string | null): boolean {
    let leastUsed: T | null = null;
    for (const other of this.#placed) {
      // First what costs least: there may be thousands.
      if (leastUsed !== null && other.use >= leastUsed.use) continue;
      if (other.evictable && (app === null || other.app === app)) leastUsed = other;
    }
    if (leastUsed === null) return false;
    leastUsed.evict('evicted');
    this.#placed.delete(leastUsed);
    return true;
  }
}
