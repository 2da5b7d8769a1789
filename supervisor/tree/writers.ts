/**
 * The SQLite writers: the one for all databases, and one for each app that kept it busy with a statement that did not end, so that
 * it happens to that app alone the next time. A database changes its writer while the old one is down, and stays with the new
 * one; a writer refuses those that are not its own.
 */
import type { SessionBegun } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Child, ChildSpec } from './child.ts';
import type { WriterPlace } from './specifications.ts';

export type WritersOptions = {
  specification(place: WriterPlace): ChildSpec;
  /** `app` is null for the writer of all. */
  create(spec: ChildSpec, app: string | null): Child;
  socket(name: string): string;
  /** Milliseconds that only grow. */
  now(): number;
};

type Own = { app: string; child: Child; socket: string };

export class Writers {
  readonly main: Child;
  readonly #options: WritersOptions;
  readonly #mainSocket: string;
  /** By the file of the database. */
  readonly #own = new Map<string, Own>();
  readonly #handover: Handover;
  #names = 0;
  #ended = false;

  constructor(options: WritersOptions) {
    this.#options = options;
    this.#mainSocket = options.socket('writer');
    this.#handover = new Handover(options.now);
    const spec = options.specification({
      name: 'writer',
      socket: this.#mainSocket,
      only: null,
      elsewhere: () => [...this.#own.keys()],
      begun: () => this.#handover.known(),
    });
    this.main = options.create(spec, null);
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
    if (!own) return this.#mainSocket;
    if (own.child.state === 'stopped') this.#start(own.child);
    else if (own.child.state === 'stopping') void own.child.stop(LIMITS.drainMs).then(() => this.#start(own.child));
    return own.socket;
  }

  /** Has the next start of the common writer do what this one had not begun. `begun` is what it reported. */
  handOver(begun: SessionBegun[] | null): void {
    this.#handover.stuck(begun);
  }

  /** The common writer is down. What it had begun is not known, unless it was said before. */
  mainEnded(): void {
    this.#handover.ended();
  }

  /**
   * Gives the database a writer of its own, to be called before the common one is killed. False when too many have one.
   */
  isolate(app: string, file: string): boolean {
    if (this.#own.has(file)) return true;
    if ([...this.#own.values()].filter(({ child }) => child.pid !== null).length >= LIMITS.ownWriters) return false;
    const name = `writer-${++this.#names}`;
    const socket = this.#options.socket(name);
    const place: WriterPlace = { name, socket, only: file, elsewhere: () => [], begun: () => null };
    const child = this.#options.create(this.#options.specification(place), app);
    this.#own.set(file, { app, child, socket });
    child.start();
    return true;
  }

  /** Stops the writers of apps that are gone. Their databases stay theirs, should the apps come back. */
  tidy(isThere: (app: string) => boolean): void {
    for (const { app, child } of this.#own.values()) {
      if (child.state === 'running' && !isThere(app)) void child.stop(LIMITS.drainMs);
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
  readonly #now: () => number;
  /** Of the writers that were stuck lately; a client asks soon, or never. */
  #left: { at: number; sessions: SessionBegun[] }[] = [];
  /** One ended without having said it. */
  #unknownAt = Number.NEGATIVE_INFINITY;
  #expected = false;

  constructor(now: () => number) {
    this.#now = now;
  }

  stuck(sessions: SessionBegun[] | null): void {
    this.#expected = sessions !== null;
    if (sessions !== null) this.#left.push({ at: this.#now(), sessions });
  }

  ended(): void {
    if (!this.#expected) this.#unknownAt = this.#now();
    this.#expected = false;
  }

  known(): SessionBegun[] | null {
    const since = this.#now() - LIMITS.handoverMs;
    if (this.#unknownAt > since) return null;
    this.#left = this.#left.filter(({ at }) => at > since);
    return this.#left.flatMap(({ sessions }) => sessions);
  }
}
