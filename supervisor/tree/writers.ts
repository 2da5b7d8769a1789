/**
 * Runs the SQLite writers: a shared one, and one for each app whose statement did not end, so that next time it blocks only
 * that app. A database changes its writer while the old one is down, and keeps the new one; a writer refuses other databases.
 */

import { LIMITS } from '../../protocol/limits.ts';
import type { SessionBegun } from '../../protocol/wire/frames.ts';
import type { Child, ChildSpec } from './child.ts';
import type { Specifications } from './specifications.ts';

export class Writers {
  readonly main: Child;
  readonly #specifications: Specifications;
  readonly #create: (spec: ChildSpec, app: string | null) => Child;
  /** By the file of the database. */
  readonly #own = new Map<string, { app: string; child: Child; goneAt: number | null }>();
  readonly handover = new Handover();
  #names = 0;
  #ended = false;

  /** `create` makes the process of the common writer, or of an app's. */
  constructor(specifications: Specifications, create: (spec: ChildSpec, app: string | null) => Child) {
    this.#specifications = specifications;
    this.#create = create;
    const spec = specifications.writer({
      name: 'writer',
      only: null,
      elsewhere: () => [...this.#own.keys()],
      begun: () => this.handover.known(),
    });
    this.main = create(spec, null);
  }

  get all(): Child[] {
    return [this.main, ...[...this.#own.values()].map(({ child }) => child)];
  }

  find(name: string): Child | undefined {
    return this.all.find((child) => child.name === name);
  }

  /** Where the writer of that database is reached. One that was stopped for want of work starts again. */
  socketOf(file: string): string {
    const own = this.#own.get(file);
    if (!own) return this.#specifications.socket('writer');
    if (own.child.state === 'stopped') this.#start(own.child);
    else if (own.child.state === 'stopping') void own.child.stop(LIMITS.drainMs).then(() => this.#start(own.child));
    return this.#specifications.socket(own.child.name);
  }

  /** Gives the database a separate writer; call it before the common one is killed. False when too many have one. */
  isolate(app: string, file: string): boolean {
    if (this.#own.has(file)) return true;
    if ([...this.#own.values()].filter(({ child }) => child.pid !== null).length >= LIMITS.ownWriters) return false;
    const name = `writer-${++this.#names}`;
    const spec = this.#specifications.writer({ name, only: file, elsewhere: () => [], begun: () => null });
    const child = this.#create(spec, app);
    this.#own.set(file, { app, child, goneAt: null });
    child.start();
    return true;
  }

  /**
   * Stops the writers of apps that were removed a while ago: an app that is uploaded again at once would meet a writer that
   * accepts nothing. The assignment stays, in case the app comes back.
   */
  tidy(isThere: (app: string) => boolean): void {
    const now = performance.now();
    for (const own of this.#own.values()) {
      if (isThere(own.app)) own.goneAt = null;
      else own.goneAt ??= now;
      const isIdle = own.goneAt !== null && now - own.goneAt > LIMITS.ownWriterIdleMs;
      if (isIdle && own.child.state === 'running') void own.child.stop(LIMITS.drainMs);
    }
  }

  async stop(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.all.map((child) => child.stop(LIMITS.drainMs)));
  }

  destroy(): void {
    this.#ended = true;
    for (const child of this.all) child.destroy();
  }

  #start(child: Child): void {
    if (!this.#ended) child.start();
  }
}

/** How far the clients of the writers before this one had come: what `Writers.main` is told when it starts. */
class Handover {
  /** Reports of recently stuck writers; a client reconnects soon, or never. */
  #left: { at: number; sessions: SessionBegun[] }[] = [];
  /** When a writer last ended without telling how far its clients had come. */
  #unknownAt = Number.NEGATIVE_INFINITY;
  #expected = false;

  /** The common writer is to be replaced, and said how far its clients had come. Null when it did not know. */
  stuck(sessions: SessionBegun[] | null): void {
    this.#expected = sessions !== null;
    if (sessions !== null) this.#left.push({ at: performance.now(), sessions });
  }

  /** The common writer is down. How far its clients had come is not known, unless it said so before. */
  ended(): void {
    if (!this.#expected) this.#unknownAt = performance.now();
    this.#expected = false;
  }

  known(): SessionBegun[] | null {
    const since = performance.now() - LIMITS.handoverMs;
    if (this.#unknownAt > since) return null;
    this.#left = this.#left.filter(({ at }) => at > since);
    return this.#left.flatMap(({ sessions }) => sessions);
  }
}
