/**
 * Runs drafts, the apps of workspaces, beside the live apps. Each has its own files, tools, data, change stream, log and settings
 * (specification, "Drafts").
 */
import { rm } from 'node:fs/promises';
import { movedError } from '../../protocol/errors.ts';
import { draftKey, isAppId, isChosenId, unknownWorkspace, workspacePart } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { unknownApp } from '../../storage/apps/registry.ts';
import { sweepTemporary } from '../../storage/apps/trash.ts';
import { exists, namesIn } from '../../storage/files/atomic-file.ts';
import { WatchBudget } from '../../storage/files/folder-watch.ts';
import { Manifests } from '../deployments/manifests.ts';
import { isMoved, type Moved, type Scope, type Scopes } from '../dispatch/scope.ts';
import { stoppingError } from '../tree/actor/call-errors.ts';
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
    options.source.onEdited((workspace, app) => this.#drafts.get(draftKey(workspace, app))?.edit());
    options.source.onClosed((workspace) => this.close(workspace));
    this.#tidying = setInterval(() => this.#tidy(), LIMITS.draftTidyMs).unref();
  }

  /** Before drafts take calls: removes what is kept of workspaces that are gone, and what a crash left of copying data. */
  async arrive({ apps, workspaces }: Moved): Promise<void> {
    const { source, layout } = this.#options;
    const there = new Set(await source.found());
    for (const workspace of await this.#kept('')) {
      const isServed = workspaces.includes(workspace);
      // A crash may have come between the end of a workspace and that of its drafts.
      if (isServed && !there.has(workspace)) await this.close(workspace);
      else
        for (const app of await this.#kept(workspace))
          if (isServed || apps.includes(app) || workspaces.includes(workspacePart(workspace, app)))
            await sweepTemporary(layout.app(draftKey(workspace, app)).dir);
    }
  }

  /** Ends the drafts of these apps and workspaces, and forgets them: another node goes on with them. Calls in flight get `drainMs`. */
  async release(moved: Moved, drainMs: number): Promise<void> {
    for (const [key, opening] of this.#opening) if (isMoved(moved, key)) await opening.catch(() => {});
    const { tree, sql, idempotency, logs } = this.#options;
    const drafts = [...this.#drafts].filter(([key]) => isMoved(moved, key));
    await Promise.all(
      drafts.map(async ([key, draft]) => {
        draft.end(movedError());
        await Promise.all([tree.release(key, drainMs), sql.settled(key)]);
        await idempotency.settled(key);
        await this.#end(key, draft);
        await logs.release(key);
      }),
    );
  }

  /** Rejects with `UNKNOWN_SESSION` or `UNKNOWN_APP`, and with `STORAGE_UNAVAILABLE` while another node has it. */
  async draft(workspace: string, app: string): Promise<Draft> {
    const key = draftKey(workspace, app);
    const refusal = this.#options.refusalOf(key);
    if (refusal !== null) throw refusal;
    const known = this.#drafts.get(key);
    if (known) return known;
    const opening = this.#opening.get(key) ?? this.#open(workspace, app).finally(() => this.#opening.delete(key));
    this.#opening.set(key, opening);
    return await opening;
  }

  /** The drafts of a workspace, by the ids of their apps. */
  in(workspace: string): Scopes {
    return { of: (app) => this.#scopeOf(workspace, app), ids: () => this.#options.source.apps(workspace) };
  }

  /** Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`, the draft's fault, or `MIGRATION_FAILED`. */
  async resetData(workspace: string, app: string): Promise<FittedData> {
    const draft = await this.draft(workspace, app);
    const brought = await draft.resetData();
    this.#options.changes.reset(draft.key);
    return brought;
  }

  /** Ends the drafts of a workspace that is gone, and removes what is kept of them. Never rejects. */
  async close(workspace: string): Promise<void> {
    const { layout, log } = this.#options;
    try {
      const prefix = draftKey(workspace, '');
      const apps = new Set(await this.#kept(workspace));
      for (const [key, opening] of this.#opening) {
        if (!key.startsWith(prefix)) continue;
        apps.add(key.slice(prefix.length));
        await opening.catch(() => {});
      }
      // One may have been opened since the folder was read.
      for (const key of this.#drafts.keys()) if (key.startsWith(prefix)) apps.add(key.slice(prefix.length));
      await Promise.all([...apps].map((app) => this.#close(draftKey(workspace, app), workspace)));
      await rm(layout.drafts(workspace), { recursive: true, force: true });
    } catch (error) {
      log.warn({ workspace, err: error }, 'The rest of a closed workspace could not be removed.');
    }
  }

  /** The gateway stops: ends all checks. */
  async stop(): Promise<void> {
    clearInterval(this.#tidying);
    for (const draft of this.#drafts.values()) draft.end(stoppingError());
  }

  #scopeOf(workspace: string, app: string): Scope {
    const key = draftKey(workspace, app);
    const opened = () => this.draft(workspace, app);
    return {
      app,
      workspace,
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

  async #open(workspace: string, app: string): Promise<Draft> {
    const { source, refusalOf } = this.#options;
    if (!isChosenId(workspace) || !(await source.has(workspace))) throw unknownWorkspace(workspace);
    if (!isAppId(app)) throw unknownApp(app);
    await source.folder(workspace, app);
    const draft = new Draft(this.#options, workspace, app, this.budget);
    await draft.open();
    const moved = refusalOf(draft.key);
    if (moved !== null) throw moved;
    this.#drafts.set(draft.key, draft);
    return draft;
  }

  async #close(key: string, workspace: string): Promise<void> {
    const { tree, logs, idempotency, layout, databases } = this.#options;
    const draft = this.#drafts.get(key);
    draft?.end(unknownWorkspace(workspace));
    await tree.remove(key, unknownWorkspace(workspace));
    await this.#end(key, draft);
    // In a cluster one that nobody has opened here has data too.
    if (draft === undefined && (await exists(layout.app(key).data))) await databases.detach(key, null);
    await logs.close(key);
    await idempotency.forget(key);
  }

  /** After its last call, whose event would be remembered for ever. */
  async #end(key: string, draft: Draft | undefined): Promise<void> {
    const { changes, pages, secrets, blobs } = this.#options;
    this.#drafts.delete(key);
    await blobs.release(key);
    await draft?.close();
    changes.closeApp(key);
    pages.forget(key);
    await secrets.forget(key);
  }

  /** Names in the folder of the drafts: the apps of a workspace, or the workspaces when it is empty. */
  async #kept(workspace: string): Promise<string[]> {
    return await namesIn(this.#options.layout.drafts(workspace));
  }

  #tidy(): void {
    const before = performance.now() - LIMITS.draftIdleMs;
    for (const draft of this.#drafts.values()) {
      if (draft.lastUsed < before && !this.#options.changes.watched(draft.key)) draft.stopWatching();
    }
  }
}
