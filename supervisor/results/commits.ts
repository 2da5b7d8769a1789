/**
 * Tracks the commits of each app's data. Gets notes of commits from the writers, reads the state of the database itself, and
 * tells watchers what each commit wrote, before the write is acknowledged (specification, "Kept results").
 */
import { LIMITS } from '../../protocol/limits.ts';
import { StateReader } from '../../storage/wal-index.ts';
import { CommitHistory, type Written } from './commit-history.ts';

export type { Written } from './commit-history.ts';

export type CommitsOptions = {
  /** The database of an app or draft. */
  file(app: string): string;
  /** Everything of an app may have changed, not only its data; told before the watchers. */
  onChanged?(app: string): void;
  onForgotten?(app: string): void;
  /** Milliseconds that only grow. */
  now?: () => number;
  reader?: (file: string) => Pick<StateReader, 'read' | 'close'>;
};

/** `unexplained` is a state that the history does not lead to. `lostSince` is when any such state was seen first. */
type Known = {
  history: CommitHistory;
  reader: Pick<StateReader, 'read' | 'close'>;
  unexplained: Uint8Array | null;
  unexplainedSince: number;
  lostSince: number | null;
  /** The state was unreadable at a query: commits since then are unknown. */
  missed: boolean;
};

export class Commits {
  readonly #options: Required<CommitsOptions>;
  readonly #watchers = new Map<string, Set<(written: Written) => void>>();
  /** The one that was opened first comes first. */
  readonly #known = new Map<string, Known>();
  #turn = 0;
  #turnEnds = false;
  #looking: NodeJS.Timeout | undefined;

  constructor(options: CommitsOptions) {
    this.#options = {
      onChanged: () => {},
      onForgotten: () => {},
      now: performance.now.bind(performance),
      reader: (of) => new StateReader(of),
      ...options,
    };
  }

  /**
   * `app` is an app's id or a draft's key. The listener must not throw. Answers a function that ends the watch. What another process
   * commits is told within `LIMITS.commitLookMs`.
   */
  watch(app: string, listener: (written: Written) => void): () => void {
    // Later commits differ from the state with which the history begins.
    if (!this.#watchers.has(app)) this.upToDate(app);
    const watchers = this.#watchers.get(app) ?? new Set();
    this.#watchers.set(app, watchers);
    watchers.add(listener);
    this.#looking ??= setInterval(() => this.#look(), LIMITS.commitLookMs).unref();
    return () => {
      watchers.delete(listener);
      if (watchers.size === 0 && this.#watchers.get(app) === watchers) this.#watchers.delete(app);
      if (this.#watchers.size > 0) return;
      clearInterval(this.#looking);
      this.#looking = undefined;
    };
  }

  /** A writer tells of a commit, see the frame. */
  committed(app: string, before: Uint8Array | null, after: Uint8Array | null, tables: readonly string[] | null): void {
    const known = this.#known.get(app);
    // The state read in this turn may be the earlier one.
    this.#turn++;
    if (known !== undefined) this.#tell(app, known.history.committed(before, after, tables));
    else this.#tell(app, tables === null ? 'all' : new Set(tables));
  }

  /**
   * A caller gets its write's answer: its next read may come in the same turn of the event loop when very many sockets are
   * ready.
   */
  acknowledging(): void {
    this.#turn++;
  }

  /** Anything may have changed: there is another version, other data, or a writer that died. */
  changed(app: string): void {
    this.acknowledging();
    this.#known.get(app)?.history.adopt(null);
    this.#options.onChanged(app);
    this.#tell(app, 'all');
  }

  /** The history of an app's data when it leads to the state that the data has now; null when that is not known. */
  upToDate(app: string): CommitHistory | null {
    const known = this.#known.get(app) ?? this.#open(app);
    const { history, reader } = known;
    const state = reader.read(this.#currentTurn());
    if (state === null) {
      known.missed = true;
      return null;
    }
    if (!history.leadsTo(state)) {
      // The note of the commit may be on its way; if it does not come, another process has written.
      if (!history.isNew && !this.#isUnexplainedForLong(known, state)) return null;
      const isNews = !history.isNew || known.missed;
      history.adopt(state);
      if (isNews) this.#tell(app, 'all');
    }
    known.missed = false;
    known.unexplained = null;
    known.lostSince = null;
    return history;
  }

  /** See `CommitHistory.schema`. Also where the state cannot be told: a thread has to know of every change that its app's history knows of. */
  schemaOf(app: string): number {
    this.upToDate(app);
    return this.#known.get(app)?.history.schema ?? 0;
  }

  /** The app is gone, or its files are not used any more. */
  forget(app: string): void {
    this.#known.get(app)?.reader.close();
    this.#known.delete(app);
    this.#options.onChanged(app);
    this.#options.onForgotten(app);
  }

  close(): void {
    clearInterval(this.#looking);
    for (const app of [...this.#known.keys()]) this.forget(app);
  }

  #isUnexplainedForLong(known: Known, state: Uint8Array): boolean {
    const now = this.#options.now();
    if (known.unexplained !== null && Buffer.compare(known.unexplained, state) === 0)
      return now - known.unexplainedSince >= LIMITS.strangeStateMs;
    known.unexplained = Uint8Array.from(state);
    known.unexplainedSince = now;
    // Another process may write without a pause.
    known.lostSince ??= now;
    return now - known.lostSince >= LIMITS.commitLookMs;
  }

  #open(app: string): Known {
    if (this.#known.size >= LIMITS.histories) this.#forgetOldest();
    const reader = this.#options.reader(this.#options.file(app));
    // A watcher from before the history's beginning may have missed a commit.
    const missed = this.#watchers.has(app);
    const known = {
      history: new CommitHistory(),
      reader,
      unexplained: null,
      unexplainedSince: 0,
      lostSince: null,
      missed,
    };
    this.#known.set(app, known);
    return known;
  }

  /** Watchers would miss commits until the history begins again. */
  #forgetOldest(): void {
    for (const app of this.#known.keys()) {
      if (this.#watchers.has(app)) continue;
      this.forget(app);
      return;
    }
  }

  /** A process that sends no notes may have written meanwhile. */
  #look(): void {
    for (const app of this.#watchers.keys()) this.upToDate(app);
  }

  #tell(app: string, written: Written): void {
    for (const listener of [...(this.#watchers.get(app) ?? [])]) listener(written);
  }

  #currentTurn(): number {
    if (!this.#turnEnds) {
      this.#turnEnds = true;
      setImmediate(() => {
        this.#turnEnds = false;
        this.#turn++;
      });
    }
    return this.#turn;
  }
}
