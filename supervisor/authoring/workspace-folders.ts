/** Changes the folders of apps in workspaces together with the workspaces' records, so that both agree after a crash. */
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Logger } from 'pino';
import { bucketOfPart } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, isChosenId, unknownWorkspace, workspacePart } from '../../protocol/ids.ts';
import type { UpdateAppResult } from '../../protocol/wire/git-jobs.ts';
import { type Registry, unknownApp } from '../../storage/apps/registry.ts';
import {
  createWorkspace,
  fingerprint,
  isReplacementThere,
  listWorkspaces,
  readWorkspace,
  replaceFolder,
  stagingFolder,
  type WorkspaceApp,
  type WorkspaceRecord,
  writeWorkspace,
} from '../../storage/authoring/workspace-records.ts';
import type { WorkspaceDirectory } from '../../storage/cluster/workspace-directory.ts';
import { isFolder } from '../../storage/files/atomic-file.ts';
import type { CodeStorePaths, WorkspacePaths } from '../../storage/layout.ts';
import type { PublishedFiles, WorkspaceCopy } from '../deployments/change.ts';
import type { Git } from '../deployments/store/git-operations.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { SerialByKey } from '../serial.ts';

/** What nodes of a cluster have in common of workspaces. */
export type SharedWorkspaces = {
  directory: WorkspaceDirectory;
  /** Resolves when the others would find the files of a part, or find none any more. Both reject with `STORAGE_UNAVAILABLE`. */
  store(part: string): Promise<void>;
  remove(part: string): Promise<void>;
};

export type WorkspaceFoldersOptions = {
  store: CodeStorePaths;
  /** Null for a gateway of its own. */
  shared: SharedWorkspaces | null;
  git: Git;
  jobs: Jobs;
  registry: Registry;
  log: Logger;
};

/** Errors that another try has too: the workspace is closed or damaged, or its files were edited. */
const FINAL: ReadonlySet<string> = new Set(['UNKNOWN_SESSION', 'SESSION_DAMAGED', 'CONFLICT']);

/** The caller makes one change at a time to an app of a workspace. */
export class WorkspaceFolders {
  readonly #options: WorkspaceFoldersOptions;
  /** The records, by workspace. */
  readonly #serial = new SerialByKey();
  /** In a cluster: what is here. */
  #parts: Promise<Map<string, number>> | null = null;
  /** Changes that could not be written to a workspace's record, by `<workspace>/<app>`. */
  readonly #unwritten = new Map<string, WorkspaceApp>();

  constructor(options: WorkspaceFoldersOptions) {
    this.#options = options;
  }

  /** Its folder, taken from `main` when it is not there. */
  async checkedOut(id: string, app: string): Promise<string> {
    const { store, git } = this.#options;
    const workspace = this.pathsOf(id, app);
    checkAppId(app);
    const record = await this.record(id, app);
    const known = record.apps[app];
    // Only when the disk refused it: the start ends everything else.
    if (known?.from !== undefined && (await isReplacementThere(store, known.from)))
      await replaceFolder(store, [this.folderOf(id, app), app], join(store.workspacesDir, known.from));
    // The folder of one that was taken may have been removed by hand.
    if (known !== undefined && (await isFolder(workspace.app(app)))) return workspace.app(app);
    // Before the files: when the app is removed meanwhile, they are those of an app that is gone.
    const live = this.#live(app);
    await this.replace(id, app, async (staged) => {
      const { commit } = await git('checkout', { app, from: 'main', to: staged, durable: true });
      if (commit === null) throw live.since === undefined ? unknownApp(app) : neverActive(app);
      return { base: commit, ...live };
    });
    return workspace.app(app);
  }

  /** The commit that the app's files came from; null when they came from none, or from an app that was removed since. */
  async baseOf(id: string, app: string): Promise<string | null> {
    return this.#baseOf(app, await this.#entry(id, app));
  }

  /** The app as its publication uses it. */
  async copyOf(id: string, app: string): Promise<WorkspaceCopy> {
    await this.checkedOut(id, app);
    return { id, folder: this.pathsOf(id, app).app(app), base: await this.baseOf(id, app) };
  }

  /**
   * The files become those that were published, so that the next edit is one of them. What was edited since stays. False: it is worth
   * another try. Never rejects.
   */
  async follow(id: string, app: string, { commit, files, same }: PublishedFiles): Promise<boolean> {
    const { git, jobs, log, shared } = this.#options;
    const entry = { base: commit, ...this.#live(app) };
    const folder = this.pathsOf(id, app).app(app);
    try {
      const { said } = await this.#entry(id, app);
      // The author's next change must not be in conflict with this one.
      if (same ?? fingerprint((await git('treeOf', { app, from: commit })).files ?? []) === files) {
        // Known to this gateway even when there is no room to write it down.
        const kept = { ...entry, ...(said !== undefined && { said }) };
        this.#unwritten.set(`${id}/${app}`, kept);
        await this.#remember(id, app, kept, commit);
      } else {
        if (fingerprint(await jobs.workspaceFiles({ work: 'list', folder })) !== files)
          throw new SvcError('CONFLICT', 'Its files were edited while it was published.');
        const checkout = async (to: string) => {
          await git('checkout', { app, from: commit, to, durable: true });
          return entry;
        };
        await this.replace(id, app, checkout, commit);
      }
      await shared?.directory.published(id, commit);
      await git('branch', { name: branchOf(id), to: commit });
      return true;
    } catch (error) {
      // The app is published. The workspace's files are older, and merge with it like any other change.
      log.warn({ workspace: id, app, err: error }, 'A workspace could not be updated after its publication.');
      return error instanceof SvcError && FINAL.has(error.code);
    }
  }

  /** The version that the files came from; null where it is not known, and for an app that was made in the workspace. */
  async versionOf(id: string, app: string): Promise<string | null> {
    const entry = await this.#entry(id, app);
    return this.#baseOf(app, entry) === null ? null : (entry.version ?? null);
  }

  /**
   * Counts the files from this version on, which a folder says that its files came from. Returns a later version where the workspace
   * has published the files of this folder since it said so; `folder` is any name of it.
   */
  async setBase(
    id: string,
    app: string,
    { version, folder, commit }: { version: string; folder: string | undefined; commit: string },
  ): Promise<string> {
    const { said, ...entry } = await this.#entry(id, app);
    const saying = (known: string) => (folder === undefined ? {} : { said: `${known} ${folder}` });
    const isKnown = said !== undefined && said === saying(version).said && this.#baseOf(app, entry) !== null;
    const counted = isKnown ? (entry.version ?? version) : version;
    const next = isKnown ? entry : { ...entry, ...this.#live(app), base: commit, version };
    await this.#remember(id, app, { ...next, ...saying(counted) });
    return counted;
  }

  #baseOf(app: string, { base, since }: WorkspaceApp): string | null {
    return since === undefined || since === this.#options.registry.registeredAt(app) ? base : null;
  }

  /** The record of an app in the workspace. Rejects with `UNKNOWN_SESSION`. */
  async #entry(id: string, app: string): Promise<WorkspaceApp> {
    const record = await this.record(id, app);
    return this.#unwritten.get(`${id}/${app}`) ?? record.apps[app] ?? { base: null };
  }

  /** For the record of an app that is taken now: which of those that may come to have its id it is, and its live version. */
  #live(app: string): Pick<WorkspaceApp, 'since' | 'version'> {
    const { registry } = this.#options;
    const since = registry.registeredAt(app);
    const version = registry.loaded(app)?.active?.versionId;
    return { ...(since !== null && { since }), ...(version !== undefined && { version }) };
  }

  /** Takes what `main` has of the app into the workspace. The way out of a `MERGE_CONFLICT`. */
  async update(id: string, app: string): Promise<UpdateAppResult> {
    const folder = await this.checkedOut(id, app);
    const base = await this.baseOf(id, app);
    const live = this.#live(app);
    return this.replace(id, app, async (to) => {
      const result = await this.#options.git('updateApp', { app, base, folder, to });
      return { ...result, ...live, base: result.main, same: result.merged.length + result.conflicts.length === 0 };
    });
  }

  /** The workspace is closed, or another node has its part of the app. */
  forget(id: string, app: string | null = null): void {
    for (const key of this.#unwritten.keys())
      if (app === null ? key.startsWith(`${id}/`) : key === `${id}/${app}`) this.#unwritten.delete(key);
  }

  /**
   * Lets `fill` write the app's files durably into an empty folder, which then replaces the app's, together with the new
   * `base`: both, or neither. With `same` the files stay. Leaves no files when it rejects.
   */
  async replace<T extends Pick<WorkspaceApp, 'base' | 'since' | 'version'> & { same?: boolean }>(
    id: string,
    app: string,
    fill: (staged: string) => Promise<T>,
    head?: string,
  ): Promise<T> {
    const { store } = this.#options;
    const staged = await stagingFolder(store);
    let result: T;
    try {
      result = await fill(staged);
      const { base, since, version, same = false } = result;
      const entry = { base, ...(since !== undefined && { since }), ...(version !== undefined && { version }) };
      // The record first: after a crash it says that the folder replaces the old one.
      const before = await this.#remember(id, app, { ...entry, ...(same ? {} : { from: basename(staged) }) }, head);
      if (!same) await this.#put(id, app, staged, before);
    } catch (error) {
      const { apps = {} } = (await readWorkspace(this.pathsOf(id, app)).catch(() => null)) ?? {};
      // As long as the record names it, it is the app's.
      if (apps[app]?.from !== basename(staged)) await rm(staged, { recursive: true, force: true });
      throw error;
    }
    await rm(staged, { recursive: true, force: true });
    return result;
  }

  async #put(id: string, app: string, staged: string, before: WorkspaceRecord): Promise<void> {
    try {
      await replaceFolder(this.#options.store, [this.folderOf(id, app), app], staged);
    } catch (error) {
      await this.#remember(id, app, before.apps[app], before.base);
      throw error;
    }
  }

  /** One record is written at a time. Returns the previous record; without `entry` the app is removed from it. */
  async #remember(id: string, app: string, entry: WorkspaceApp | undefined, head?: string): Promise<WorkspaceRecord> {
    return this.#serial.run(id, async () => {
      const record = await this.record(id, app);
      const { [app]: _, ...others } = record.apps;
      await writeWorkspace(this.pathsOf(id, app), {
        ...record,
        base: head ?? record.base,
        apps: { ...others, ...(entry === undefined ? {} : { [app]: entry }) },
      });
      this.#unwritten.delete(`${id}/${app}`);
      return record;
    });
  }

  /** The name of the folder that has what the workspace has of an app: in a cluster a part, else that of the workspace. */
  folderOf(id: string, app: string): string {
    return this.#options.shared === null ? id : workspacePart(id, app);
  }

  pathsOf(id: string, app: string): WorkspacePaths {
    return this.#options.store.workspace(this.folderOf(id, app));
  }

  /** Rejects with `UNKNOWN_SESSION`, `SESSION_DAMAGED`. */
  async rename(id: string, name: string): Promise<void> {
    const { shared } = this.#options;
    if (shared !== null) return demand(id, await shared.directory.rename(id, name));
    await this.#serial.run(id, async () => {
      await writeWorkspace(this.pathsOf(id, ''), { ...(await this.record(id)), name });
    });
  }

  /** An unfinished workspace is one that stays. Rejects with `UNKNOWN_SESSION`. */
  async keep(id: string): Promise<void> {
    const { shared } = this.#options;
    if (shared !== null) return demand(id, await shared.directory.keep(id));
    await this.#serial.run(id, async () => {
      const { unfinished, ...record } = await this.record(id);
      if (unfinished) await writeWorkspace(this.pathsOf(id, ''), record);
    });
  }

  /** In a cluster what it has of the app, which begins here where the workspace is open. Rejects with `UNKNOWN_SESSION`, `SESSION_DAMAGED`. */
  async record(id: string, app = ''): Promise<WorkspaceRecord> {
    const record = isChosenId(id)
      ? ((await readWorkspace(this.pathsOf(id, app))) ?? (await this.#begin(id, app)))
      : null;
    if (record === null) throw unknownWorkspace(id);
    return record;
  }

  /** In a cluster: the parts that are here, whoever owns their apps, and their buckets. */
  parts(): Promise<Map<string, number>> {
    this.#parts ??= listWorkspaces(this.#options.store).then(
      (found) => new Map(found.map((part) => [part, bucketOfPart(part)])),
    );
    return this.#parts;
  }

  async #begin(id: string, app: string): Promise<WorkspaceRecord | null> {
    const { shared, store } = this.#options;
    const known = await shared?.directory.find(id);
    if (known === undefined || known === null) return null;
    const { base, createdAt } = known;
    const part = this.folderOf(id, app);
    (await this.parts()).set(part, bucketOfPart(part));
    await createWorkspace(store, part, { createdAt, base, apps: {} });
    return readWorkspace(this.pathsOf(id, app));
  }
}

function demand(id: string, isOpen: boolean): void {
  if (!isOpen) throw unknownWorkspace(id);
}

/** Below it each workspace has a branch. */
export const BRANCHES = 'sessions/';

export function branchOf(id: string): string {
  return BRANCHES + id;
}

/** It has versions, but none is live, so that `main` does not have it. */
function neverActive(app: string): SvcError {
  return new SvcError(
    'NO_ACTIVE_VERSION',
    `No version of "${app}" is active, so the workspace has no files. Activate one first: svc versions ${app}, then svc activate ${app} <version>.`,
  );
}
