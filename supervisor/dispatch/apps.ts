/**
 * Finds the live app of a call, its actor and its files, in memory after the first use (specification, "Dispatcher"). Starts
 * versions and removes apps in all parts that hold live apps, in the right order.
 */
import { rm } from 'node:fs/promises';
import type { AppRecord } from '../../protocol/answer-types.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Manifest, VersionSummary } from '../../protocol/manifest.ts';
import { damagedData } from '../../storage/apps/app-data.ts';
import type { AppState, Registry } from '../../storage/apps/registry.ts';
import { isIntact, readVersion } from '../../storage/apps/versions.ts';
import type { Layout } from '../../storage/layout.ts';
import type { AppLogs } from '../../storage/logs/app-log.ts';
import type { Blobs } from '../blobs.ts';
import type { ProgramTokens } from '../http/access/program-tokens.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Pages, PageVersion } from '../pages/pages.ts';
import type { Accounts } from '../people/accounts.ts';
import type { Commits } from '../results/commits.ts';
import type { Secrets } from '../secrets.ts';
import type { SqlProcesses } from '../sql/sql-processes.ts';
import type { Tree } from '../tree/tree.ts';
import type { AtOwner, WorkForApp } from './at-owner.ts';
import type { ChangeStreams } from './change-streams.ts';
import type { Idempotency } from './idempotency.ts';
import { type App, callableApp, type Scope, type Scopes } from './scope.ts';

export type AppsOptions = {
  layout: Layout;
  registry: Registry;
  tree: Tree;
  jobs: Jobs;
  commits: Commits;
  changes: ChangeStreams;
  pages: Pages;
  logs: AppLogs;
  programTokens: ProgramTokens;
  accounts: Accounts;
  idempotency: Idempotency;
  secrets: Secrets;
  blobs: Blobs;
  sql: SqlProcesses;
  notices: { forget(app: string): void };
  atOwner: AtOwner;
};

/** Parts that are made after the apps, because they need them. */
type LaterParts = {
  deployments: { manifest(id: string): Promise<Manifest | null> };
  automations: {
    catalog: { load(app: string): Promise<unknown> };
    runs: { forgetApp(app: string): Promise<void> };
    removed(app: string): Promise<void>;
  };
  chat: {
    removed(app: string): Promise<void>;
    forgetApp(app: string, chats?: { keepsChats?: boolean }): Promise<void>;
    forgetRows(app: string): Promise<unknown>;
  };
};

export class Apps implements Scopes {
  readonly #options: AppsOptions;
  readonly #ready = new Map<string, App>();
  readonly #loading = new Map<string, Promise<App>>();
  /** Whose data is being replaced, with the answer to calls meanwhile. */
  readonly #halted = new Map<string, SvcError>();
  readonly #pages = new Map<string, PageVersion>();
  readonly #uses: WorkForApp<null, readonly string[]>;

  #later!: LaterParts;

  constructor(options: AppsOptions) {
    this.#options = options;
    // A page calls another app where that is, which need not be where its own app is.
    this.#uses = options.atOwner('uses', { repeats: true }, async (app) => (await this.#state(app)).active?.uses ?? []);
  }

  /** Call it before any other method. */
  connect(parts: LaterParts): void {
    this.#later = parts;
  }

  /** The app; at once when it was used before. Throws or rejects with `UNKNOWN_APP`, `NO_ACTIVE_VERSION`, `INVALID_MANIFEST`, `STORE_DAMAGED`. */
  get(id: string): App | Promise<App> {
    const app = this.#ready.get(id);
    if (app) return app;
    this.#options.registry.demand(id);
    let loading = this.#loading.get(id);
    if (!loading) {
      loading = this.#load(id).finally(() => this.#loading.delete(id));
      this.#loading.set(id, loading);
    }
    return loading;
  }

  of(app: string): Scope {
    const active = async () => (await this.#state(app)).active;
    return {
      app,
      workspace: undefined,
      key: app,
      exists: async () => void (await active()),
      get: () => this.get(app),
      code: async () => {
        const { active: version } = await this.get(app);
        const manifest = await this.manifest(app);
        if (manifest === null) throw noActiveVersion(app);
        return { version, manifest, fault: null };
      },
      pageVersion: async () => (await active())?.versionId ?? null,
      // Its pages are those of its users, who see no faults.
      greet: () => {},
      uses: () => this.#uses(app, null),
    };
  }

  async ids(): Promise<readonly string[]> {
    return this.#options.registry.ids();
  }

  /** Null when no version is active. Rejects with `INVALID_MANIFEST`. */
  manifest(id: string): Promise<Manifest | null> {
    return this.#later.deployments.manifest(id);
  }

  /** Whether visitors may open the page of an app. Rejects with `STORAGE_UNAVAILABLE` while another node has it. */
  async hasPublicPage(id: string): Promise<boolean> {
    const { registry } = this.#options;
    const refusal = registry.refusalOf(id);
    if (refusal !== null) throw refusal;
    const state = await registry.state(id).catch(() => null);
    return state?.active?.public === true;
  }

  /** False where it is known at once that visitors may not. */
  mayHavePublicPage(id: string): boolean {
    const { registry } = this.#options;
    const loaded = registry.loaded(id);
    return loaded ? loaded.active?.public === true : registry.has(id);
  }

  /** The files of the active version. Rejects as `get` does, without the manifest. */
  async activePage(id: string): Promise<PageVersion> {
    const { active } = await this.#state(id);
    if (!active) throw noActiveVersion(id);
    let page = this.#pages.get(id);
    if (page?.summary !== active) {
      page = { id, app: this.#options.layout.app(id), summary: active };
      this.#pages.set(id, page);
    }
    return page;
  }

  /** The files of one retained version; null when there is none of this id. */
  async retainedPage(id: string, versionId: string): Promise<PageVersion | null> {
    await this.#state(id);
    const app = this.#options.layout.app(id);
    const summary = await readVersion(app, versionId);
    return summary === null ? null : { id, app, summary };
  }

  /** Takes no more calls for an app, whose data is known to be lost. */
  dataLost(id: string): void {
    this.#ready.delete(id);
  }

  /** Makes a version the one that serves. Resolves when calls go to it. */
  async swap(id: string, active: VersionSummary): Promise<void> {
    const { tree, changes, commits } = this.#options;
    // First what a run may do, then its code: no run has the code of this version with the permissions of the one before.
    await this.#later.automations.catalog.load(id);
    this.#ready.delete(id);
    tree.swapFires(id, active);
    await tree.apps.get(id)?.swap(active);
    commits.changed(id);
    changes.reload(id);
  }

  versionsAtWork(id: string): ReadonlySet<string> {
    return this.#options.tree.versionsAtWork(id);
  }

  /** Replaces the threads of an app and its automations, and lifts their quarantines. Throws as `App.actor` does. */
  restart(app: App): void {
    app.actor().restart();
    this.#options.commits.changed(app.key);
    this.#options.tree.restartFires(app.id);
  }

  /** Ends everything that an app does: its runs first, then its calls, then what follows it. `keepsChats` as for `forget`. */
  async stop(id: string, { keepsChats = false }: { keepsChats?: boolean } = {}): Promise<void> {
    const { tree, logs } = this.#options;
    const { automations, chat } = this.#later;
    await Promise.all([automations.removed(id), keepsChats ? undefined : chat.removed(id)]);
    this.refuse(id);
    await Promise.all([tree.remove(id), tree.removeFires(id)]);
    tree.meters.forget(id);
    await this.#end(id);
    await logs.close(id);
  }

  /** No call finds an app without the registry, which refuses it. */
  refuse(id: string): void {
    this.#ready.delete(id);
    this.#pages.delete(id);
  }

  /** Ends the calls of an app within `drainMs`, and what follows it, and forgets it: another node goes on with it. It was refused, and its runs have ended. */
  async release(id: string, drainMs: number): Promise<void> {
    const { tree, logs, blobs, idempotency, sql } = this.#options;
    await Promise.all([tree.release(id, drainMs), sql.settled(id)]);
    // The answers of these calls are stored under their keys.
    await Promise.all([idempotency.settled(id), blobs.release(id)]);
    await this.#end(id);
    await logs.release(id);
  }

  /** Ends what follows an app, after its last call: the event of that would be remembered for ever. */
  async #end(id: string): Promise<void> {
    const { changes, commits, pages, layout } = this.#options;
    await rm(layout.agentFolders(id), { recursive: true, force: true });
    commits.forget(id);
    changes.closeApp(id);
    pages.forget(id);
  }

  /** Replaces the data of an app: runs `work` while no thread of it runs, and no call comes to it. */
  async whileStopped<T>(id: string, work: () => Promise<T>): Promise<T> {
    const { tree } = this.#options;
    const refusal = new SvcError('CONFLICT', `The data of "${id}" is being repaired; try again.`);
    this.#halted.set(id, refusal);
    this.#ready.delete(id);
    try {
      await Promise.all([tree.remove(id, refusal), tree.removeFires(id)]);
      return await work();
    } finally {
      this.#halted.delete(id);
    }
  }

  /**
   * Removes what is remembered of an app that was removed for good. `keepsChats`: but for its conversations and their runs, since it
   * goes on as the draft of a workspace.
   */
  async forget(id: string, { keepsChats = false }: { keepsChats?: boolean } = {}): Promise<void> {
    const { programTokens, accounts, idempotency, secrets, blobs, notices } = this.#options;
    blobs.forget(id);
    notices.forget(id);
    await secrets.forget(id);
    await programTokens.forgetApp(id);
    await accounts.forgetApp(id);
    await idempotency.forget(id);
    if (!keepsChats) await this.#later.automations.runs.forgetApp(id);
    await this.#later.chat.forgetApp(id, { keepsChats });
  }

  /** An app of this id begins in a workspace: what was said and done about an earlier one is not about it. */
  async forgetChats(id: string): Promise<void> {
    await this.#later.automations.runs.forgetApp(id);
    await this.#later.chat.forgetRows(id);
  }

  /** Loads what a restored app needs before it serves. Its folder is back in place. */
  async loadRestored(id: string): Promise<void> {
    await this.#options.secrets.load(id);
  }

  /** A registry record with the status that only the process tree knows, and with what is wrong with the app's data. */
  withStatus(record: AppRecord): AppRecord {
    const damage = this.#options.registry.damages.of(record.id);
    if (damage !== null) return { ...record, status: 'damaged', damage: damagedData(record.id, damage).message };
    const state = this.#options.tree.apps.get(record.id)?.state;
    return state === 'quarantined' || state === 'failed_to_start' ? { ...record, status: 'quarantined' } : record;
  }

  /** Why an app takes no calls until it is restarted or gets another version; null where it does. */
  outOfService(id: string): SvcError | null {
    const actor = this.#options.tree.apps.get(id);
    return actor === undefined || actor.givenUp === null ? null : actor.refusal;
  }

  async #load(id: string): Promise<App> {
    const { active } = await this.#options.registry.state(id);
    if (!active) throw noActiveVersion(id);
    const damage = this.#options.registry.damages.of(id);
    if (damage?.lost) throw damagedData(id, damage);
    await this.#recheck(id, active);
    const halted = this.#halted.get(id);
    if (halted) throw halted;
    const { registry } = this.#options;
    // It may have been removed or given away meanwhile.
    registry.demand(id);
    const app = callableApp(this.#options.tree, { id, key: id, active }, () => {
      registry.demand(id);
      // A new version may have been activated since.
      return registry.loaded(id)?.active ?? active;
    });
    // A version may have been activated meanwhile: then the next call loads again.
    if (registry.loaded(id)?.active === active) this.#ready.set(id, app);
    return app;
  }

  /** Rejects with `UNKNOWN_APP`, and with `STORAGE_UNAVAILABLE` for an app that takes no calls here. */
  #state(id: string): Promise<AppState> {
    const { registry } = this.#options;
    registry.demand(id);
    return registry.state(id);
  }

  /** A manifest that was edited by hand since it was checked is checked again: through the dispatcher its fault is ours. */
  async #recheck(id: string, active: VersionSummary): Promise<void> {
    const paths = this.#options.layout.app(id);
    if (await isIntact(paths, active)) return;
    try {
      await this.#options.jobs.check({ app: id, code: paths.version(active.versionId).code });
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'INVALID_MANIFEST') throw error;
      const { message, path } = error;
      throw new SvcError('INVALID_MANIFEST', message, { status: 500, ...(path === undefined ? {} : { path }) });
    }
  }
}

export function noActiveVersion(id: string): SvcError {
  return new SvcError('NO_ACTIVE_VERSION', `"${id}" has no active version; upload or activate one.`);
}
