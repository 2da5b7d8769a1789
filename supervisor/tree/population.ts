/** The actors of one kind, by key, and their places: those that run apps, or those that fire automations. */
import type { Actor } from './actor/actor.ts';
import { Admission } from './actor/admission.ts';

export type PopulationOptions = {
  /** How many may have a thread. */
  places: number;
  /** How many of one app, by default all. */
  share?: number;
  /** How long a thread may have nothing to do. */
  idleMs: number;
};

export class Population {
  readonly #admission: Admission<Actor>;
  readonly #idleMs: number;
  readonly #actors = new Map<string, Actor>();

  constructor({ places, share = places, idleMs }: PopulationOptions) {
    this.#admission = new Admission(places, share);
    this.#idleMs = idleMs;
  }

  get all(): Actor[] {
    return [...this.#actors.values()];
  }

  get(key: string): Actor | undefined {
    return this.#actors.get(key);
  }

  add(actor: Actor): Actor {
    this.#actors.set(actor.key, actor);
    return actor;
  }

  delete(actor: Actor): void {
    this.#actors.delete(actor.key);
    this.#admission.leave(actor);
  }

  admit(actor: Actor): boolean {
    return this.#admission.admit(actor);
  }

  rested(actor: Actor): void {
    this.#admission.rested(actor);
  }

  /** A thread ended: who waits for a place may have it. */
  next(): void {
    this.#admission.next();
  }

  /** Called now and then: ends the threads that have had nothing to do for too long, and lets others have their turn. */
  tidy(now: number): void {
    this.#admission.restIdle(now - this.#idleMs);
    this.#admission.rotate();
  }
}
