/**
 * Runs drafts, the apps of sessions, beside the live apps. Each has its own files, tools, data, change stream, log and settings
 * (specification, "Drafts").
 */
import { rm } from 'node:fs/promises';
import { draftKey, isAppId, isSessionId, unknownSession } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { unknownApp } from '../../storage/apps/registry.ts';
import { sweepTemporary } from '../../storage/apps/trash.ts';
import { namesIn } from '../../storage/files/atomic-file.ts';
import { WatchBudget } from '../../storage/files/folder-watch.ts';
import { Manifests } from '../deployments/manifests.ts';
import type { Scope, Scopes } from '../dispatch/scope.ts';
import { Draft, type DraftsOptions } from './draft.ts';
import type { FittedData } from './draft-data.ts';

export class Drafts {
  readonly #options: DraftsOptions;
  readonly #manifests: Manifests;
  /** Budget of watched folders. */
  readonly budget = new WatchBudget();
  /** By key. */
  readonly #drafts = new Map<string, Draft>();
  readonly #opening = new Map<string, Promise<Draft>>();
  readonly #tidying: NodeJS.Timeout;

  constructor(options: DraftsOptions) {
    this.#options = options;
    this.#manifests = new Manifests(options.layout);
    options.source.onEdited((session, app) => this.#drafts.get(draftKey(session, app))?.edit());
    options.source.onClosed((session) => this.close(session));
    this.#tidying = setInterval(() => this.#tidy(), LIMITS.draftTidyMs).unref();
  }

  /** Removes what is kept of sessions that are gone, and what a crash left of copying data. */
  async open(): Promise<void> {
    const { source, layout } = this.#options;
    for (const session of await this.#kept('')) {
      if (!(await source.has(session))) await this.close(session);
      else for (const app of await this.#kept(session)) await sweepTemporary(layout.app(draftKey(session, app)).dir);
    }
  }

  /** Rejects with `UNKNOWN_SESSION` or `UNKNOWN_APP`. */
  async draft(session: string, app: string): Promise<Draft> {
    const key = draftKey(session, app);
    const known = this.#drafts.get(key);
    if (known) return known;
    const opening = this.#opening.get(key) ?? this.#open(session, app).finally(() => this.#opening.delete(key));
    this.#opening.set(key, opening);
    return await opening;
  }

  /** The drafts of a session, by the ids of their apps. */
  in(session: string): Scopes {
    return { of: (app) => this.#scopeOf(session, app), ids: () => this.#options.source.apps(session) };
  }

  /** Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`, the draft's fault, or `MIGRATION_FAILED`. */
  async resetData(session: string, app: string): Promise<FittedData> {
    const draft = await this.draft(session, app);
    const brought = await draft.resetData();
    this.#options.changes.reset(draft.key);
    return brought;
  }

  /** Ends the drafts of a session that is gone, and removes what is kept of them. Never rejects. */
  async close(session: string): Promise<void> {
    const { layout, log } = this.#options;
    try {
      const prefix = draftKey(session, '');
      const apps = new Set(await this.#kept(session));
      for (const [key, opening] of this.#opening) {
        if (!key.startsWith(prefix)) continue;
        apps.add(key.slice(prefix.length));
        await opening.catch(() => {});
      }
      // One may have been opened since the folder was read.
      for (const key of this.#drafts.keys()) if (key.startsWith(prefix)) apps.add(key.slice(prefix.length));
      await Promise.all([...apps].map((app) => this.#close(draftKey(session, app), session)));
      await rm(layout.drafts(session), { recursive: true, force: true });
    } catch (error) {
      log.warn({ session, err: error }, 'The rest of a closed session could not be removed.');
    }
  }

  /** The gateway stops: ends all checks. */
  async stop(): Promise<void> {
    clearInterval(this.#tidying);
    for (const draft of this.#drafts.values()) draft.abandon();
  }

  #scopeOf(session: string, app: string): Scope {
    const key = draftKey(session, app);
    const opened = () => this.draft(session, app);
    return {
      app,
      session,
      key,
      exists: async () => void (await opened()),
      get: async () => await (await opened()).get(),
      code: async () => {
        const draft = await opened();
        const version = await draft.lastSummary();
        const manifest = version && (await this.#manifests.get(key, version.versionId));
        return { version, manifest, fault: draft.fault };
      },
      pageVersion: async () => {
        const draft = await opened();
        await draft.refreshed();
        return draft.version;
      },
      greet: () => this.#drafts.get(key)?.reports.greet(),
      uses: async () => [],
    };
  }

  async #open(session: string, app: string): Promise<Draft> {
    const { source } = this.#options;
    if (!isSessionId(session) || !(await source.has(session))) throw unknownSession(session);
    if (!isAppId(app)) throw unknownApp(app);
    await source.folder(session, app);
    const draft = new Draft(this.#options, session, app, this.budget);
    await draft.open();
    this.#drafts.set(draft.key, draft);
    return draft;
  }

  async #close(key: string, session: string): Promise<void> {
    const { tree, changes, pages, logs, idempotency, secrets, blobs } = this.#options;
    const draft = this.#drafts.get(key);
    this.#drafts.delete(key);
    if (draft) draft.isOpen = false;
    await tree.remove(key, unknownSession(session));
    await draft?.close();
    // After its last call, whose event would be remembered for ever.
    changes.closeApp(key);
    pages.forget(key);
    await logs.close(key);
    await idempotency.forget(key);
    await secrets.forget(key);
    blobs.forget(key);
  }

  /** Names in the folder of the drafts: the apps of a session, or the sessions when it is empty. */
  async #kept(session: string): Promise<string[]> {
    return await namesIn(this.#options.layout.drafts(session));
  }

  #tidy(): void {
    const before = performance.now() - LIMITS.draftIdleMs;
    for (const draft of this.#drafts.values()) {
      if (draft.lastUsed < before && !this.#options.changes.watched(draft.key)) draft.stopWatching();
    }
  }
}
