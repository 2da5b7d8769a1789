/**
 * Keeps one app of a workspace: the newest snapshot of its worktree or the fault in it, and its data.
 *
 *   edited ─refresh→ whole (a snapshot serves) or faulty (the worktree cannot be prepared)
 *   whole ─first call→ its data is copied and migrated → callable, or a migration failed
 */
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { draftVersion } from '../../protocol/http/origins.ts';
import { draftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Snapshot } from '../../protocol/wire/jobs.ts';
import { exists, isMissing, mkdirDurable } from '../../storage/files/atomic-file.ts';
import { FolderWatch, type WatchBudget } from '../../storage/files/folder-watch.ts';
import type { AppPaths, Layout } from '../../storage/layout.ts';
import type { AppLogs } from '../../storage/logs/app-log.ts';
import { readSettings, writeSettings } from '../../storage/settings.ts';
import type { Workspaces } from '../authoring/workspaces.ts';
import type { Blobs } from '../blobs.ts';
import type { Databases } from '../databases.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Idempotency } from '../dispatch/idempotency.ts';
import { type App, callableApp } from '../dispatch/scope.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Pages, PageVersion } from '../pages/pages.ts';
import type { Commits } from '../results/commits.ts';
import type { Secrets } from '../secrets.ts';
import { SerialByKey } from '../serial.ts';
import type { SqlProcesses } from '../sql/sql-processes.ts';
import type { Tree } from '../tree/tree.ts';
import { DraftData, type FittedData } from './draft-data.ts';
import { PageReports } from './page-reports.ts';

/** Errors that are not about the files: the next request tries again. */
const PASSING = new Set([
  'UNKNOWN_SESSION',
  'UNKNOWN_APP',
  'STORAGE_FULL',
  'STORAGE_UNAVAILABLE',
  'OVERLOADED',
  'INTERNAL',
  'STORE_DAMAGED',
]);

/** How often the folder may go while it is looked at. */
const FOLDER_TRIES = 3;

export type DraftsOptions = {
  source: Workspaces;
  layout: Layout;
  tree: Tree;
  databases: Databases;
  commits: Commits;
  changes: ChangeStreams;
  pages: Pages;
  logs: AppLogs;
  idempotency: Idempotency;
  secrets: Secrets;
  blobs: Blobs;
  sql: Pick<SqlProcesses, 'settled'>;
  /** Why a draft takes no calls here; null where it does, or is none. */
  refusalOf(key: string): SvcError | null;
  log: Logger;
  jobs: Jobs;
};

export class Draft {
  readonly key: string;
  readonly app: string;
  /** Reports to and from its open pages. */
  readonly reports: PageReports;
  /** When it was last asked for anything, on the clock of `performance.now`. */
  lastUsed = performance.now();
  readonly #options: DraftsOptions;
  readonly #workspace: string;
  readonly #paths: AppPaths;
  readonly #live: AppPaths;
  readonly #data: DraftData;
  readonly #watch: FolderWatch;
  readonly #serial = new SerialByKey();
  #snapshot: Snapshot | null = null;
  #fault: SvcError | null = null;
  #migrationFault: SvcError | null = null;
  /** Files may have changed since the snapshot was taken. */
  #edited = true;
  #refreshing: Promise<void> | null = null;
  /** The snapshot that the data was made for. */
  #dataOf: Snapshot | null = null;
  #callable: App | null = null;
  #settling: NodeJS.Timeout | undefined;
  /** It is unused, for long or so far. */
  #isUnused = true;
  /** What calls are told once it ends: then it gets no new actor. */
  #over: SvcError | null = null;

  constructor(options: DraftsOptions, workspace: string, app: string, budget: WatchBudget) {
    const { layout, tree } = options;
    this.key = draftKey(workspace, app);
    this.app = app;
    this.#options = options;
    this.#workspace = workspace;
    this.#paths = layout.app(this.key);
    this.#live = layout.app(app);
    this.#data = new DraftData({
      ...options,
      key: this.key,
      draft: this.#paths,
      live: this.#live,
      release: () => tree.remove(this.key, new SvcError('CONFLICT', 'The draft is copying the live data; try again.')),
      share: () => options.source.share(workspace, app),
      say: (level, message) => this.#say(level, message),
    });
    this.#watch = new FolderWatch(budget, () => this.#filesChanged());
    this.reports = new PageReports({ ...options, key: this.key, app });
  }

  /** Its folder; settings begin as those of live, secrets without values. */
  async open(): Promise<void> {
    await this.#options.secrets.load(this.key);
    if (await exists(this.#paths.settings)) return;
    await mkdirDurable(this.#paths.dir);
    await writeSettings(this.#paths, await readSettings(this.#live));
  }

  /** Why the worktree as it is cannot be run or served. As of the last `refreshed`. */
  get fault(): SvcError | null {
    return this.#fault;
  }

  /** Names what is served now, for pages to tell whether they show it. */
  get version(): string {
    if (this.#fault === null) return this.#snapshot === null ? '' : draftVersion(this.#snapshot.summary.sha256);
    return draftVersion(createHash('sha256').update(JSON.stringify(this.#fault.toBody())).digest('hex'));
  }

  /** The newest snapshot, whose tools are called. Throws the fault. */
  get snapshot(): Snapshot {
    if (this.#fault !== null) throw this.#fault;
    if (this.#snapshot === null) throw new Error('The draft was not refreshed.');
    return this.#snapshot;
  }

  /** The summary of the draft as it is. While it has a fault, that of before; null if there was none since the gateway started. */
  async lastSummary(): Promise<VersionSummary | null> {
    await this.refreshed();
    return this.#snapshot?.summary ?? null;
  }

  get files(): PageVersion {
    return { id: this.key, app: this.#paths, summary: this.snapshot.summary };
  }

  /** Resolves when the snapshot, or the fault, includes all edits until now. Rejects with `UNKNOWN_SESSION` and the like. */
  async refreshed(): Promise<void> {
    this.lastUsed = performance.now();
    this.#isUnused = false;
    if (!this.#edited && this.#watch.complete) await this.#watch.caughtUp();
    // One that is under way and was not told of an edit since began after the last one: it has all of them when it ends.
    if (this.#edited || !this.#watch.complete) {
      this.#edited = true;
      this.#refreshing ??= this.#serial.run(this.key, () => this.#refresh());
    }
    await this.#refreshing;
  }

  /** The app to call, with all edits until now. Rejects with its fault. */
  async get(): Promise<App> {
    await this.refreshed();
    return await this.#serial.run(this.key, async () => {
      if (this.#over) throw this.#over;
      const { snapshot } = this;
      if (this.#dataOf !== snapshot) {
        await this.#prepareData(snapshot, (migrations, dir) => this.#data.fitTo(migrations, dir));
      }
      if (this.#migrationFault !== null) throw this.#migrationFault;
      this.#callable ??= callableApp(
        this.#options.tree,
        { id: this.app, key: this.key, active: snapshot.summary },
        () => {
          // It may have ended since the app was looked up.
          if (this.#over) throw this.#over;
          return snapshot.summary;
        },
      );
      return this.#callable;
    });
  }

  /**
   * Resets its data to a fresh copy of the live data, with all migrations, and removes its own files. Rejects with its fault,
   * or `MIGRATION_FAILED`.
   */
  async resetData(): Promise<FittedData> {
    await this.refreshed();
    return await this.#serial.run(this.key, async () => {
      const { snapshot } = this;
      const brought = await this.#prepareData(snapshot, (migrations, dir) => this.#data.reset(migrations, dir));
      await this.#options.blobs.reset(this.key);
      return brought;
    });
  }

  /** Its files were changed. */
  edit(): void {
    this.#edited = true;
    clearTimeout(this.#settling);
    if (!this.#isUnused) this.#refreshSoon();
  }

  /** Stops watching the files of a draft that is not in use, until it is used again. */
  stopWatching(): void {
    this.#isUnused = true;
    this.#watch.stop();
  }

  /** Takes no more calls, which are told `refusal`: its workspace is being closed, another node has it, or the gateway stops. */
  end(refusal: SvcError): void {
    this.#over = refusal;
    clearTimeout(this.#settling);
    this.#watch.close();
    this.reports.close();
  }

  /** Resolves when no work of it is under way and no file is open; its folder can then be removed. After `end`. */
  async close(): Promise<void> {
    await this.#serial.run(this.key, () => this.#data.close());
    this.#options.commits.forget(this.key);
  }

  /** Programs write a file in several steps, and several files: they are looked at when that has ended, or sooner by a request. */
  #filesChanged(): void {
    this.#edited = true;
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#refreshSoon(), LIMITS.draftSettleMs);
  }

  #refreshSoon(): void {
    if (this.#over || !this.#edited) return;
    this.#refreshing ??= this.#serial.run(this.key, () => this.#refresh());
    this.#refreshing.catch((error: unknown) => {
      if (!this.#over) this.#warn(error);
    });
  }

  async #refresh(): Promise<void> {
    try {
      for (let tries = FOLDER_TRIES; this.#edited && !this.#over; ) {
        await this.#look().catch((error: unknown) => {
          // A publication puts the workspace's files in place by moving the whole folder.
          if (!isMissing(error) || --tries === 0) throw error;
        });
      }
    } finally {
      this.#refreshing = null;
    }
  }

  /** Looks at the files once. What changes meanwhile is for the next time. */
  async #look(): Promise<void> {
    const before = { snapshot: this.#snapshot, version: this.version };
    try {
      const folder = await this.#options.source.folder(this.#workspace, this.app);
      this.#edited = false;
      const [followed, taken] = await Promise.allSettled([this.#watch.follow(folder), this.#take(folder)]);
      if (followed.status === 'rejected') throw followed.reason;
      // There are new folders: what happened in them between reading and watching was not told.
      if (followed.value) this.#edited = true;
      if (taken.status === 'rejected') throw taken.reason;
      this.#fault = null;
    } catch (error) {
      if (!(error instanceof SvcError) || PASSING.has(error.code)) {
        this.#edited = true;
        throw error;
      }
      this.#fault = error;
    }
    if (this.#over || this.version === before.version) return;
    this.#callable = null;
    this.reports.forget();
    if (this.#fault !== null) this.#say('error', `${this.#fault.code}: ${this.#fault.message}`);
    // Pages load again while the new code starts: their calls wait for it.
    this.#options.changes.reload(this.key);
    if (this.#fault === null && this.#snapshot !== before.snapshot) await this.#serve(this.snapshot, before.snapshot);
  }

  async #take(folder: string): Promise<void> {
    const place = { app: this.app, workspace: this.#workspace, folder, draft: this.#paths.dir };
    const job = { ...place, at: Date.now(), previous: this.#snapshot };
    this.#snapshot = (await this.#options.jobs.snapshot(job)) ?? this.#snapshot;
  }

  async #serve(snapshot: Snapshot, before: Snapshot | null): Promise<void> {
    // Once it has data, that follows at once, so that the new code never meets the old tables.
    if (this.#dataOf !== null) {
      await this.#prepareData(snapshot, (migrations, dir) => this.#data.fitTo(migrations, dir)).catch(
        (error: unknown) => {
          // The next call tries again, and hears of it.
          if (error !== this.#migrationFault) this.#warn(error);
        },
      );
    }
    const { tree, pages, commits } = this.#options;
    if (before) pages.forget(this.key, before.summary.versionId);
    await tree.existing(this.key)?.swap(snapshot.summary);
    commits.changed(this.key);
  }

  async #prepareData(
    snapshot: Snapshot,
    work: (migrations: Snapshot['migrations'], migrationsDir: string) => Promise<FittedData>,
  ): Promise<FittedData> {
    this.#callable = null;
    this.#migrationFault = null;
    this.#dataOf = null;
    try {
      const { migrationsDir } = this.#paths.version(snapshot.summary.versionId);
      const brought = await work(snapshot.migrations, migrationsDir);
      this.#dataOf = snapshot;
      if (brought.seeded) this.#options.commits.changed(this.key);
      return brought;
    } catch (error) {
      if (error instanceof SvcError && error.code === 'MIGRATION_FAILED') {
        // The same files would fail again.
        this.#migrationFault = error;
        this.#dataOf = snapshot;
        this.#say('error', `${error.code}: ${error.message}`);
      }
      throw error;
    }
  }

  /** A failure while no caller waited. */
  #warn(error: unknown): void {
    // The workspace is being closed, or another node gets it.
    if (error instanceof SvcError && (error.code === 'UNKNOWN_SESSION' || error.code === 'STORAGE_UNAVAILABLE')) return;
    const what = { workspace: this.#workspace, app: this.app, err: error };
    this.#options.log.warn(what, 'A draft could not follow its files.');
  }

  #say(level: 'info' | 'warn' | 'error', message: string): void {
    const versionId = this.#snapshot?.summary.versionId ?? null;
    const ts = new Date().toISOString();
    this.#options.logs.append(
      this.key,
      JSON.stringify({ ts, level, app: this.app, versionId, tool: null, traceId: null, msg: message }),
    );
  }
}
