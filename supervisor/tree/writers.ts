/**
 * Runs the SQLite writers: a shared one, and one for each app whose statement took long, so that it blocks only that app. A database
 * changes its writer while the old one is down; a writer refuses other databases.
 */

import { LIMITS } from '../../protocol/limits.ts';
import type { ConnectionProgress, EarlierClients } from '../../protocol/wire/frames.ts';
import type { Child, ChildSpec } from './child.ts';
import { OwnedBuckets } from './owned-buckets.ts';
import type { Specifications } from './specifications.ts';

/** Idle since `quietAt`: it has still done as many `statements` as then, and no migration is under way. */
type OwnWriter = { app: string; child: Child; statements: number; quietAt: number };

/** No statement is under way, for none takes so long. */
const EVICTED_AFTER_MS = 2 * LIMITS.writerStuckMs;

export class Writers {
  readonly main: Child;
  readonly #specifications: Specifications;
  readonly #create: (spec: ChildSpec, app: string | null) => Child;
  /** By the file of the database. */
  readonly #own = new Map<string, OwnWriter>();
  readonly #now: () => number;
  /** False with a log of pages, which takes the groups of one process of a node. */
  readonly #mayIsolate: boolean;
  readonly handover: Handover;
  /** Of a log of pages. */
  readonly owned = new OwnedBuckets();
  #names = 0;
  #ended = false;

  /** `create` makes the process of the common writer, or of an app's. `now` in milliseconds that only grow. Without
   * `mayIsolate` no app gets one of its own. */
  constructor(
    specifications: Specifications,
    create: (spec: ChildSpec, app: string | null) => Child,
    now: () => number = () => performance.now(),
    mayIsolate = true,
  ) {
    this.#mayIsolate = mayIsolate;
    this.#specifications = specifications;
    this.#create = create;
    this.#now = now;
    this.handover = new Handover(now);
    const spec = specifications.writer({
      name: 'writer',
      only: null,
      elsewhere: () =>
        Object.fromEntries([...this.#own].map(([file, { child }]) => [file, specifications.socket(child.name)])),
      before: () => this.handover.forNextWriter(),
      owned: () => this.owned.buckets,
    });
    this.main = create(spec, null);
  }

  get all(): Child[] {
    return [this.main, ...[...this.#own.values()].map(({ child }) => child)];
  }

  find(name: string): Child | undefined {
    return this.all.find((child) => child.name === name);
  }

  /** Where all databases are reached: the shared writer knows the ones that others have. One that was ended for want of work starts again. */
  socketOf(file: string): string {
    const own = this.#own.get(file);
    if (own?.child.state === 'stopped') this.#start(own);
    else if (own?.child.state === 'stopping') void own.child.stop(LIMITS.drainMs).then(() => this.#start(own));
    return this.#specifications.socket('writer');
  }

  /** Whether `isolate` would find a place for one more. */
  get hasRoom(): boolean {
    return this.#mayIsolate && !this.#ended && (this.#own.size < LIMITS.ownWriters || this.#idle() !== undefined);
  }

  /** Why `isolate` finds none. */
  get whyNoRoom(): string {
    return this.#mayIsolate
      ? 'too many apps already have a separate writer'
      : 'the apps of a node of a cluster share one';
  }

  /** Gives the database a separate writer; call it before the common one is killed. False when too many have one. */
  isolate(app: string, file: string): boolean {
    if (this.#own.has(file)) return true;
    if (!this.hasRoom) return false;
    const idle = this.#own.size < LIMITS.ownWriters ? undefined : this.#idle();
    if (idle !== undefined) {
      const [idleFile, { child }] = idle;
      this.#own.delete(idleFile);
      child.destroy();
      // What it was asked in the last moment.
      this.handover.progressLost();
    }
    const name = `writer-${++this.#names}`;
    let before: EarlierClients | null = this.handover.forNextWriter();
    const spec = this.#specifications.writer({
      name,
      only: file,
      elsewhere: () => ({}),
      before: () => {
        const known = before ?? UNKNOWN;
        before = null;
        return known;
      },
      owned: () => this.owned.buckets,
    });
    const child = this.#create(spec, app);
    this.#own.set(file, { app, child, statements: 0, quietAt: this.#now() });
    child.start();
    return true;
  }

  /**
   * Stops the writers of apps that were removed a while ago: an app that is uploaded again at once would meet a writer that
   * accepts nothing. The assignment stays, in case the app comes back.
   */
  tidy(isThere: (app: string) => boolean): void {
    for (const own of this.#own.values()) {
      const { statements = 0, migrations = 0 } = own.child.stats?.counters ?? {};
      if (statements !== own.statements || migrations > 0) Object.assign(own, { statements, quietAt: this.#now() });
      if (!isThere(own.app) && this.#isIdle(own, LIMITS.ownWriterIdleMs) && own.child.state === 'running')
        void own.child.stop(LIMITS.drainMs);
    }
  }

  #idle(): [string, OwnWriter] | undefined {
    return [...this.#own]
      .filter(([, own]) => this.#isIdle(own, EVICTED_AFTER_MS))
      .sort(([, a], [, b]) => a.quietAt - b.quietAt)[0];
  }

  async stop(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.all.map((child) => child.stop(LIMITS.drainMs)));
  }

  destroy(): void {
    this.#ended = true;
    for (const child of this.all) child.destroy();
  }

  #isIdle({ quietAt }: OwnWriter, forMs: number): boolean {
    return this.#now() - quietAt > forMs;
  }

  #start(own: OwnWriter): void {
    if (this.#ended || !this.all.includes(own.child)) return;
    own.quietAt = this.#now();
    own.child.start();
  }
}

const UNKNOWN: EarlierClients = { progress: [], isPartial: true };

/** Keeps how far the clients of earlier writers had come, for the next writer that starts. */
class Handover {
  /** Reports of recently stuck writers; a client reconnects soon, or never. */
  #left: { at: number; progress: ConnectionProgress[] }[] = [];
  /** When a writer last ended without telling how far its clients had come. */
  #unknownAt = Number.NEGATIVE_INFINITY;
  #expected = false;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The common writer is to be replaced, and said how far its clients had come. Null when it did not know. */
  writerStuck(progress: ConnectionProgress[] | null): void {
    this.#expected = progress !== null;
    if (progress !== null) this.#left.push({ at: this.#now(), progress });
  }

  /** The common writer is down. How far its clients had come is not known, unless it said so before. */
  writerEnded(): void {
    if (!this.#expected) this.progressLost();
    this.#expected = false;
  }

  /** A writer ended, and how far its clients had come is not known. */
  progressLost(): void {
    this.#unknownAt = this.#now();
  }

  forNextWriter(): EarlierClients {
    const since = this.#now() - LIMITS.handoverMs;
    this.#left = this.#left.filter(({ at }) => at > since);
    return { progress: this.#left.flatMap(({ progress }) => progress), isPartial: this.#unknownAt > since };
  }
}
