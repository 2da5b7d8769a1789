/** Keeps the threads of one actor: the serving one, a newer version's that is starting, and those that drain. */

import { LIMITS } from '../../../protocol/limits.ts';
import type { RetireReason } from '../../../protocol/wire/frames.ts';
import type { Call } from './call.ts';
import type { Generation } from './generation.ts';

export class Generations {
  /** The thread that calls go to, started or not. */
  current: Generation | null = null;
  readonly #now: () => number;
  #next: { generation: Generation; done: () => void } | null = null;
  readonly #retiring = new Set<Generation>();
  #onEmpty: (() => void)[] = [];

  /** `now` is the clock of the calls' deadlines. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** The newer version's thread, until it has taken over. */
  get next(): Generation | null {
    return this.#next?.generation ?? null;
  }

  get all(): Generation[] {
    return [this.current, ...this.#retiring, this.next].filter((generation) => generation !== null);
  }

  /** A caller waits for a call that is in flight on one of them. */
  get working(): boolean {
    for (const generation of this.all) for (const call of generation.inFlight.values()) if (!call.settled) return true;
    return false;
  }

  /** How many calls still run in the commons, although the actor has left them. */
  get leftInCommons(): number {
    let count = 0;
    for (const { commons, inFlight } of this.#retiring) if (commons !== null) count += inFlight.size;
    return count;
  }

  /** The thread on which the call is in flight. */
  holder(call: Call): Generation | null {
    return this.all.find((generation) => generation.inFlight.get(call.id) === call) ?? null;
  }

  /** Resolves when `generation` has taken over, or when it is clear that it does not. */
  await(generation: Generation): Promise<void> {
    return new Promise((done) => {
      this.#next = { generation, done };
    });
  }

  /** The newer version's thread takes over, started or not. Answers it, or null when there is none. */
  promote(): Generation | null {
    const next = this.#next;
    if (!next) return null;
    this.#next = null;
    this.retire('superseded');
    this.current = next.generation;
    next.done();
    return next.generation;
  }

  abortNext(): void {
    const next = this.#next;
    if (!next) return;
    this.#next = null;
    this.#retire(next.generation, 'superseded', 0);
    next.done();
  }

  /**
   * Takes the current thread out of service. Calls in flight may use up the time they were given, and at least have the
   * usual limit, unless `drainMs` is set.
   */
  retire(reason: RetireReason, drainMs?: number): void {
    const generation = this.current;
    this.current = null;
    if (generation) this.#retire(generation, reason, drainMs ?? this.#timeNeeded(generation));
  }

  /** The thread is gone. Answers whether that was intended. */
  gone(generation: Generation): boolean {
    const intended = this.#retiring.delete(generation);
    if (this.current === generation) this.current = null;
    if (this.#retiring.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    return intended;
  }

  /** Resolves when no thread drains. */
  async drained(): Promise<void> {
    if (this.#retiring.size > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
  }

  #retire(generation: Generation, reason: RetireReason, drainMs: number): void {
    this.#retiring.add(generation);
    generation.retire(reason, drainMs);
  }

  #timeNeeded(generation: Generation): number {
    let last = 0;
    for (const call of generation.inFlight.values()) if (!call.settled) last = Math.max(last, call.deadline);
    return Math.max(LIMITS.drainMs, last - this.#now() + LIMITS.cancelGraceMs);
  }
}
