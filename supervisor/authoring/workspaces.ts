/**
 * Opens, edits, publishes and closes draft workspaces: each has its own copy of the apps that it changes, as plain files
 * (specification, "Workspaces"). Operations on one app in one workspace run one after the other. In a cluster each node has the parts
 * of workspaces whose apps it owns.
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { bucketOfPart } from '../../protocol/buckets.ts';
import { type InputIssue, movedError, SvcError } from '../../protocol/errors.ts';
import { checkAppId, isChosenId, parseWorkspacePart, unknownWorkspace, versionNumber } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { WORKSPACE_DIFF, WORKSPACE_ROW } from '../../protocol/routes/authoring/workspaces-rows.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import type { DiffAppResult, GitAuthor, GitFile } from '../../protocol/wire/git-jobs.ts';
import type { FileConditions, WorkspaceFilesResult } from '../../protocol/wire/jobs.ts';
import {
  appFolders,
  createWorkspace,
  isWorkspace,
  listWorkspaces,
  removeAutomation,
  removeWorkspace,
  replaceFolder,
  stagingFolder,
  sweepUnfinished,
  sweepWorkspaces,
  touchedAt,
} from '../../storage/authoring/workspace-records.ts';
import type { WorkspaceWithApps } from '../../storage/cluster/workspace-directory.ts';
import { HEADS, Refs } from '../../storage/git/refs.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';
import type { FollowWorkspace } from '../deployments/change.ts';
import type { Deployments, PublishOptions } from '../deployments/deploy.ts';
import type { PublishResult } from '../deployments/deployed.ts';
import { unknownVersion } from '../deployments/store/code-store.ts';
import { SerialByKey, UnderWay } from '../serial.ts';
import {
  BRANCHES,
  branchOf,
  type SharedWorkspaces,
  WorkspaceFolders,
  type WorkspaceFoldersOptions,
} from './workspace-folders.ts';

type WorkspacesOptions = WorkspaceFoldersOptions & {
  /** The folder of the draft of an app. */
  draftsOf(workspace: string, app: string): string;
  author: GitAuthor;
  deployments: Deployments;
  now?(): number;
};

/** How often it is looked whether the other nodes have taken away what they had of a closed workspace. */
const CLOSED_LOOKS = 30;

/** Names of workspaces that were opened without one, by their number. */
const UNNAMED = /^Draft (\d{1,9})$/;

export type WorkspaceRow = Of<typeof WORKSPACE_ROW>;

/** Replaces all files of an automation, or none: `fill` writes them into an empty folder, durably; null removes them. */
export type ReplaceAutomation = (automation: string, fill: ((folder: string) => Promise<void>) | null) => Promise<void>;

export type WorkspaceDiff = Of<typeof WORKSPACE_DIFF>;

type AppDiff = DiffAppResult & { app: string };

/** `before` is the workspace that ends the page before this one. */
type Page = { limit: number; before: string | null; isShown: (row: WorkspaceRow) => boolean };

export class Workspaces {
  readonly #options: Required<WorkspacesOptions>;
  readonly #folders: WorkspaceFolders;
  readonly #serial = new SerialByKey();
  readonly #editedListeners: ((sessionId: string, app: string) => void)[] = [];
  readonly #closedListeners: ((sessionId: string) => Promise<void>)[] = [];
  readonly #publishingListeners: ((sessionId: string) => Promise<void>)[] = [];
  /** Operations, by the id of the workspace. */
  readonly #underWay = new UnderWay();
  /** Workspaces that accept no new operation. */
  readonly #closing = new Set<string>();
  /** The same, for those that another node has, gets or gives. In a cluster these are parts. */
  readonly #away = new Set<string>();
  readonly #sweeping: NodeJS.Timeout | undefined;
  #swept: Promise<void> = Promise.resolve();

  constructor(options: WorkspacesOptions) {
    this.#options = { now: Date.now, ...options };
    this.#folders = new WorkspaceFolders(options);
    const { shared } = options;
    if (shared === null) return;
    this.#sweeping = setInterval(() => {
      this.#swept = this.#swept.then(() => this.#sweepClosed(shared));
    }, LIMITS.workspacesClosedPollMs).unref();
  }

  /** The gateway stops. */
  async stop(): Promise<void> {
    clearInterval(this.#sweeping);
    await this.#swept;
  }

  /** All that are here, whether they are served or not: in a cluster parts. */
  found(): Promise<string[]> {
    return listWorkspaces(this.#options.store);
  }

  /**
   * Finishes or removes what a crash interrupted in these workspaces, once it is known what is live; `serve` must follow. Logs errors
   * of the repository.
   */
  async arrive(ids: readonly string[]): Promise<void> {
    const { store, deployments, shared } = this.#options;
    this.refuse(ids);
    if (shared !== null) for (const id of ids) (await this.#folders.parts()).set(id, bucketOfPart(id));
    await sweepWorkspaces(store, ids);
    const follow: FollowWorkspace = async (id, app, published) => {
      const isDone = await this.#folders.follow(id, app, published);
      await this.share(id, app).catch(() => {}); // another owner follows again
      return isDone;
    };
    deployments.followWorkspaces(follow);
    await deployments.catchUp(async (id, app, work) => {
      const folder = this.#folders.folderOf(id, app);
      if (ids.includes(folder) || !this.#away.has(folder)) await this.#serial.run(`${id}/${app}`, work);
    }, follow);
  }

  /** Takes operations on these. */
  serve(ids: readonly string[]): void {
    for (const id of ids) this.#away.delete(id);
  }

  /** What is here at the start is served: removes what nobody finishes any more, and repairs the branches. Logs errors of the repository. */
  async tidy(): Promise<void> {
    const { store, git, log, shared } = this.#options;
    await sweepUnfinished(store);
    if (shared !== null) return;
    const branches: Record<string, string> = {};
    for (const id of await listWorkspaces(store)) {
      try {
        branches[id] = (await this.#folders.record(id)).base;
      } catch (error) {
        log.warn({ workspace: id, err: error }, 'A workspace cannot be read.');
      }
    }
    try {
      // Mostly they are as they should be: then no process is started for them.
      if (!new Refs(store.repository).has(HEADS + BRANCHES, branches))
        await git('branches', { prefix: BRANCHES, branches });
    } catch (error) {
      log.warn({ err: error }, 'The branches of the workspaces could not be repaired.');
    }
  }

  /** Takes no more operations on these: another node goes on with them. */
  refuse(ids: readonly string[]): void {
    for (const id of ids) this.#away.add(id);
  }

  /** Resolves when no operation on the workspace is under way; it was refused. */
  async release(id: string): Promise<void> {
    const { workspace, app } = parseWorkspacePart(id) ?? { workspace: id, app: null };
    await this.#underWay.settled(workspace);
    this.#folders.forget(workspace, app);
  }

  /** `STORAGE_UNAVAILABLE` for a workspace that takes no operations on the app here; null for others. */
  refusalOf(id: string, app: string): SvcError | null {
    return this.#away.has(this.#folders.folderOf(id, app)) ? movedError() : null;
  }

  /** In a cluster: resolves when the other nodes would find what the workspace has of the app. Rejects with `STORAGE_UNAVAILABLE`. */
  async share(id: string, app: string): Promise<void> {
    await this.#options.shared?.store(this.#folders.folderOf(id, app));
  }

  /** In a cluster: the parts in a bucket that are here, whoever owns it. */
  async partsIn(bucket: number): Promise<string[]> {
    return [...(await this.#folders.parts())].flatMap(([part, its]) => (its === bucket ? part : []));
  }

  /** In a cluster, once a bucket came: takes away parts that nobody has any more; `there` are those that came. */
  async clear(bucket: number, there: readonly string[]): Promise<void> {
    for (const part of await this.partsIn(bucket)) {
      if (there.includes(part)) continue;
      const { workspace = '', app = '' } = parseWorkspacePart(part) ?? {};
      await this.#removeFolder(part);
      await rm(this.#options.draftsOf(workspace, app), { recursive: true, force: true });
    }
  }

  async #removeFolder(folder: string): Promise<void> {
    if (await isWorkspace(this.#options.store, folder)) await removeWorkspace(this.#options.store, folder);
    (await this.#folders.parts()).delete(folder);
  }

  /** Called after an app's files were changed through these methods. */
  onEdited(listener: (sessionId: string, app: string) => void): void {
    this.#editedListeners.push(listener);
  }

  /** Called when a workspace is about to be removed, which waits for their promises. */
  onClosed(listener: (sessionId: string) => Promise<void>): void {
    this.#closedListeners.push(listener);
  }

  /** Called before an app of a workspace is published, which waits for their promises. */
  onPublishing(listener: (sessionId: string) => Promise<void>): void {
    this.#publishingListeners.push(listener);
  }

  /**
   * Rejects with `INVALID_ID`, or `CONFLICT` when the id is taken or there are too many workspaces. One that is `unfinished` does
   * not outlive the gateway until `keep` is called. Without id and name it gets a number for a name.
   */
  async create(
    given?: string,
    { unfinished = false, name }: { unfinished?: boolean; name?: string | undefined } = {},
  ): Promise<{ sessionId: string; name: string; base: string }> {
    const id = given ?? `s${randomBytes(8).toString('hex')}`;
    if (!isChosenId(id)) {
      throw new SvcError(
        'INVALID_ID',
        'A workspace id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
        { path: 'sessionId' },
      );
    }
    const { store, git, now, shared } = this.#options;
    this.#demandHere(id);
    if ((await this.#ids()).length >= LIMITS.workspaces) {
      throw new SvcError('CONFLICT', `There are already ${LIMITS.workspaces} workspaces; delete unused ones.`);
    }
    const base = await this.#main();
    const closing = () =>
      new SvcError('CONFLICT', `The workspace "${id}" is being closed; try again.`, { path: 'sessionId' });
    if (this.#closing.has(id)) throw closing();
    const more = unfinished ? { unfinished } : {};
    const make = async (called: string | undefined): Promise<boolean> => {
      if (shared === null) {
        const record = { createdAt: now(), base, ...(called === undefined ? {} : { name: called }), apps: {}, ...more };
        return createWorkspace(store, id, record);
      }
      const added = await shared.directory.add({ id, name: called ?? null, base, createdAt: now(), unfinished });
      if (added === 'closing') throw closing();
      return added === 'added';
    };
    const open = async (called: string | undefined): Promise<string> => {
      if (await make(called)) return called ?? id;
      throw new SvcError('CONFLICT', `A workspace "${id}" already exists.`, { path: 'sessionId' });
    };
    // One after the other, so that no two get the same number.
    const numbered = () => this.#serial.run('', async () => open(await this.#nextName()));
    const shown = given === undefined && name === undefined ? await numbered() : await open(lineOf(name ?? ''));
    try {
      await git('branch', { name: branchOf(id), to: base });
    } catch (error) {
      if (shared === null) await removeWorkspace(store, id);
      else await shared.directory.close(id);
      throw error;
    }
    return { sessionId: id, name: shown, base };
  }

  /** Of the open ones with a number the largest, and one more. */
  async #nextName(): Promise<string> {
    let last = 0;
    for (const { name } of await this.list()) last = Math.max(last, Number(UNNAMED.exec(name)?.[1] ?? 0));
    return `Draft ${last + 1}`;
  }

  /** Rejects with `UNKNOWN_SESSION`, `SESSION_DAMAGED`. */
  async rename(id: string, name: string): Promise<{ sessionId: string; name: string }> {
    const line = lineOf(name) ?? id;
    await this.#within(id, () => this.#folders.rename(id, line));
    return { sessionId: id, name: line };
  }

  /** The commit of `main`. Rejects with `STORE_DAMAGED`. */
  async #main(): Promise<string> {
    const { git, author, now } = this.#options;
    return (await git('openRepository', { author, at: now(), existing: true })).main;
  }

  /** The work that an unfinished workspace was opened for is done, and its caller will hear of it. Rejects with `UNKNOWN_SESSION`. */
  async keep(id: string): Promise<void> {
    await this.#within(id, () => this.#folders.keep(id));
  }

  /** At most `limit` of them, those that follow `before` in the list. Rejects with `UNKNOWN_SESSION` when it is not open. */
  async page({ limit, before, isShown }: Page): Promise<WorkspaceRow[]> {
    const rows = (await this.list()).filter(isShown);
    const at = before === null ? 0 : rows.findIndex(({ sessionId }) => sessionId === before) + 1;
    if (before !== null && at === 0) throw unknownWorkspace(before);
    return rows.slice(at, at + limit);
  }

  /** The open ones, newest first; those whose record is damaged say so. */
  async list(): Promise<WorkspaceRow[]> {
    const { log, shared } = this.#options;
    const rows: WorkspaceRow[] = (await shared?.directory.all())?.map(rowOf) ?? [];
    for (const sessionId of shared === null ? await this.#ids() : []) {
      try {
        rows.push(await this.#row(sessionId));
      } catch (error) {
        const isGone = error instanceof SvcError && error.code === 'UNKNOWN_SESSION';
        if (!isGone) log.warn({ workspace: sessionId, err: error }, 'A workspace cannot be read.');
      }
    }
    // The record of a damaged one does not say when it was opened.
    const age = ({ createdAt, touchedAt }: WorkspaceRow): number => createdAt ?? touchedAt;
    return rows.sort((a, b) => age(b) - age(a) || (a.sessionId < b.sessionId ? -1 : 1));
  }

  async #row(sessionId: string): Promise<WorkspaceRow> {
    const workspace = this.#options.store.workspace(sessionId);
    try {
      const { name = sessionId, base, createdAt, apps } = await this.#folders.record(sessionId);
      return {
        sessionId,
        name,
        base,
        createdAt,
        touchedAt: await touchedAt(workspace),
        apps: Object.keys(apps).sort(),
      };
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'SESSION_DAMAGED') throw error;
      const known = { touchedAt: await touchedAt(workspace), apps: await appFolders(workspace) };
      return { sessionId, name: sessionId, base: null, createdAt: null, ...known, damaged: error.message };
    }
  }

  /** With its drafts. What is under way in it ends first. Rejects with `UNKNOWN_SESSION`. */
  async remove(id: string): Promise<void> {
    const { git, log, shared } = this.#options;
    if (!(await this.has(id)) || this.#closing.has(id)) throw unknownWorkspace(id);
    this.#closing.add(id);
    try {
      if (shared !== null && !(await shared.directory.close(id))) throw unknownWorkspace(id);
      await this.#takeAway(id);
      for (let waits = 0; shared !== null && waits < CLOSED_LOOKS && (await shared.directory.hasParts(id)); waits++)
        await wait(LIMITS.workspacesClosedPollMs / 10);
      // It is closed even if its name stays, which the next workspace of this id takes over.
      await git('branch', { name: branchOf(id), to: null }).catch((error: unknown) => {
        log.warn({ workspace: id, err: error }, 'The branch of a closed workspace could not be removed.');
      });
    } finally {
      this.#closing.delete(id);
    }
  }

  /** Takes away what is here of a workspace that is closed. */
  async #takeAway(id: string): Promise<void> {
    const { shared } = this.#options;
    await this.#underWay.settled(id);
    const folders = shared === null ? [id] : await this.#partsOf(id);
    for (const folder of folders) await this.#removeFolder(folder);
    this.#folders.forget(id);
    for (const listener of this.#closedListeners) await listener(id);
    for (const folder of folders) if (!this.#away.has(folder)) await shared?.remove(folder);
  }

  async #partsOf(id: string): Promise<string[]> {
    return [...(await this.#folders.parts()).keys()].filter((part) => parseWorkspacePart(part)?.workspace === id);
  }

  /** What is closed at any node is here no more. */
  async #sweepClosed({ directory }: SharedWorkspaces): Promise<void> {
    try {
      for (const id of await directory.closed()) {
        if (this.#closing.has(id) || (await this.#partsOf(id)).every((part) => this.#away.has(part))) continue;
        this.#closing.add(id);
        await this.#takeAway(id).finally(() => this.#closing.delete(id));
      }
    } catch (error) {
      // The next look does it.
      this.#options.log.warn({ err: error }, 'What was closed of workspaces could not be taken away yet.');
    }
  }

  /** Rejects with `STORAGE_UNAVAILABLE` while another node has it. */
  async has(id: string): Promise<boolean> {
    this.#demandHere(id);
    const { store, shared } = this.#options;
    if (this.#closing.has(id)) return false;
    return shared === null ? isWorkspace(store, id) : (await shared.directory.find(id)) !== null;
  }

  /** The apps that were taken into the workspace, sorted. Rejects with `UNKNOWN_SESSION`. */
  async apps(id: string): Promise<string[]> {
    this.#demandHere(id);
    const { shared } = this.#options;
    if (shared !== null) {
      const [row] = await shared.directory.all(id);
      if (row === undefined) throw unknownWorkspace(id);
      return row.apps;
    }
    return Object.keys((await this.#folders.record(id)).apps).sort();
  }

  /** The workspaces that have the app, the newest first. */
  async holders(app: string): Promise<string[]> {
    return (await this.list()).filter(({ apps }) => apps.includes(app)).map(({ sessionId }) => sessionId);
  }

  /** Where the app's files are, taken into the workspace on first use. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`. */
  async folder(id: string, app: string): Promise<string> {
    await this.#exclusively(id, app, () => this.#folders.checkedOut(id, app));
    return this.pathOf(id, app);
  }

  /** Where an app that was taken into the workspace is, for a look that does not wait for what is done to it. */
  pathOf(id: string, app: string): string {
    return this.#folders.pathsOf(id, app).app(app);
  }

  async files(id: string, app: string): Promise<GitFile[]> {
    return this.#options.jobs.workspaceFiles({ work: 'list', folder: await this.folder(id, app) });
  }

  async readFile(id: string, app: string, path: string): Promise<WorkspaceFilesResult['read']> {
    return this.#options.jobs.workspaceFiles({ work: 'read', folder: await this.folder(id, app), path });
  }

  async putFile(
    id: string,
    app: string,
    path: string,
    bytes: Uint8Array,
    conditions: FileConditions,
  ): Promise<WorkspaceFilesResult['put']> {
    return this.edit(id, app, (folder) =>
      this.#options.jobs.workspaceFiles({ work: 'put', folder, path, bytes, conditions }),
    );
  }

  /** Puts all files of a gzipped tar archive, or none. `received` is called once `body` is there, and may throw. */
  async putFiles(id: string, app: string, body: Readable, received: () => void): Promise<GitFile[]> {
    // It may fail before it is read, and an error without a listener would end the process.
    body.on('error', () => {});
    this.#demandHere(id, app);
    checkAppId(app);
    await this.#folders.record(id, app);
    const { store, jobs } = this.#options;
    return withUpload(store, body, (archive, unpackTo) => {
      received();
      return this.edit(id, app, (folder) => jobs.workspaceFiles({ work: 'putAll', folder, archive, unpackTo }));
    });
  }

  async deleteFile(id: string, app: string, path: string, conditions: FileConditions): Promise<{ path: string }> {
    return this.edit(id, app, (folder) =>
      this.#options.jobs.workspaceFiles({ work: 'delete', folder, path, conditions }),
    );
  }

  /** Runs `work` on the app's folder while nothing else changes it, then reports the edit. */
  async edit<T>(id: string, app: string, work: (folder: string, replace: ReplaceAutomation) => Promise<T>): Promise<T> {
    const { store } = this.#options;
    const inFolder = this.#folders.folderOf(id, app);
    const replace: ReplaceAutomation = async (automation, fill) => {
      if (fill === null) return removeAutomation(store, inFolder, app, automation);
      const staged = await stagingFolder(store);
      try {
        await fill(staged);
        await replaceFolder(store, [inFolder, app, automation], staged);
      } finally {
        await rm(staged, { recursive: true, force: true });
      }
    };
    const result = await this.#exclusively(id, app, async () => work(await this.#folders.checkedOut(id, app), replace));
    this.#tellEdited(id, app);
    await this.share(id, app);
    return result;
  }

  /**
   * Puts a new app into the workspace; `fill` writes its files into an empty folder, which is removed when that rejects.
   * Rejects with `CONFLICT` when the workspace or `main` has an app of this id.
   */
  async add(id: string, app: string, fill: (folder: string) => Promise<void>): Promise<void> {
    checkAppId(app);
    const { git } = this.#options;
    await this.#exclusively(id, app, async () => {
      const record = await this.#folders.record(id, app);
      const taken = record.apps[app] !== undefined || (await git('treeOf', { app, from: 'main' })).files !== null;
      if (taken) throw new SvcError('CONFLICT', `An app "${app}" already exists; choose another id.`, { path: 'id' });
      await this.#folders.replace(id, app, async (staged) => {
        await fill(staged);
        return { base: null };
      });
    });
    this.#tellEdited(id, app);
    await this.share(id, app);
  }

  /**
   * Takes what was published of the app since into the workspace's files, as the way out of a `MERGE_CONFLICT`: lines that both
   * changed are kept both, between marks. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`.
   */
  async update(id: string, app: string): Promise<{ base: string; merged: string[]; conflicts: string[] }> {
    const { main, merged, conflicts } = await this.#exclusively(id, app, () => this.#folders.update(id, app));
    if (merged.length + conflicts.length > 0) this.#tellEdited(id, app);
    await this.share(id, app);
    return { base: main, merged, conflicts };
  }

  /** The version that the workspace's files of the app came from; null where it is not known. Rejects as `folder` does. */
  async baseVersion(id: string, app: string): Promise<string | null> {
    return this.#exclusively(id, app, async () => {
      await this.#folders.checkedOut(id, app);
      return this.#folders.versionOf(id, app);
    });
  }

  /**
   * Publishing merges the workspace's files of the app from this version on: for a folder that replaces them all and came from it.
   * Answers the version that counts, a later one where the workspace published the folder's files since. Rejects as `folder` does,
   * and with `UNKNOWN_VERSION`.
   */
  async setBase(
    id: string,
    app: string,
    { version, folder }: { version: string; folder: string | undefined },
  ): Promise<string> {
    const counted = await this.#exclusively(id, app, async () => {
      await this.#folders.checkedOut(id, app);
      const number = versionNumber(app, version);
      const job = { app, limit: 1, before: (number ?? 0) + 1 };
      const [found] = (await this.#options.git('listVersions', job)).versions;
      if (number === null || found?.number !== number) throw unknownVersion(app, version);
      return this.#folders.setBase(id, app, { version, folder, commit: found.commit });
    });
    await this.share(id, app);
    return counted;
  }

  /** The workspace's changes against `main`, in all its apps or in one. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`. */
  async diff(id: string, app: string | null): Promise<WorkspaceDiff> {
    const { base, head, apps } = await this.#compare(id, app);
    const files = apps.flatMap(({ app: one, files }) => files.map((file) => ({ app: one, ...file })));
    const behind = apps.filter((one) => one.behind).map(({ app: one }) => one);
    const changes = (member: 'network' | 'uses' | 'public') =>
      apps.flatMap((one) => (one[member] ? [{ app: one.app, ...one[member] }] : []));
    const reach = { network: changes('network'), uses: changes('uses'), public: changes('public') };
    return { base, head, files, behind, ...reach };
  }

  async #compare(id: string, app: string | null): Promise<{ base: string; head: string; apps: AppDiff[] }> {
    const { git } = this.#options;
    return this.#within(id, async () => {
      const all = app === null ? await this.#appsHere(id) : [app];
      if (app !== null) await this.#exclusively(id, app, () => this.#folders.checkedOut(id, app));
      const base = await this.#main();
      const apps: AppDiff[] = [];
      for (const one of all) {
        const since = await this.#folders.baseOf(id, one);
        const job = { app: one, since, folder: this.pathOf(id, one), against: 'main' };
        apps.push({ app: one, ...(await git('diffApp', job)) });
      }
      return { base, head: await this.#headOf(id), apps };
    });
  }

  /**
   * Publishes one app of the workspace; without `app`, the only one that it changes. Rejects as publishing does (specification,
   * "Publication"), and leaves the workspace unchanged.
   */
  async publish(
    id: string,
    { app = null, ...options }: PublishOptions & { app?: string | null },
  ): Promise<PublishResult> {
    for (const listener of this.#publishingListeners) await listener(id);
    const one = app ?? (await this.#onlyChanged(id));
    const published = await this.#exclusively(id, one, async () => {
      const workspace = await this.#folders.copyOf(id, one);
      return this.#options.deployments.publish(one, { workspace, ...options });
    });
    this.#tellEdited(id, one);
    await this.share(id, one);
    return published;
  }

  /** Resolves with warnings. Rejects with the error with which publishing an app would be refused now. Runs no migrations. */
  async review(id: string, app: string): Promise<InputIssue[]> {
    const copy = await this.#exclusively(id, app, () => this.#folders.copyOf(id, app));
    // Whoever edits meanwhile does not wait; he asks again.
    return await this.#within(id, () => this.#options.deployments.review(app, copy));
  }

  /** Those that are served here, sorted. */
  async #appsHere(id: string): Promise<string[]> {
    const apps = await this.apps(id);
    if (this.#options.shared === null) return apps;
    const parts = new Set(await this.#partsOf(id));
    return apps.filter((app) => {
      const part = this.#folders.folderOf(id, app);
      return parts.has(part) && !this.#away.has(part);
    });
  }

  async #headOf(id: string): Promise<string> {
    const { shared } = this.#options;
    const { base } = shared === null ? await this.#folders.record(id) : ((await shared.directory.find(id)) ?? {});
    if (base === undefined) throw unknownWorkspace(id);
    return base;
  }

  async #onlyChanged(id: string): Promise<string> {
    const taken = await this.apps(id);
    // Other nodes may have them.
    if (this.#options.shared !== null && taken.length > 1) throw severalApps('has', taken);
    const { apps } = await this.#compare(id, null);
    const changed = apps.filter(({ edited, files }) => edited && files.length > 0).map(({ app }) => app);
    const [only] = changed;
    if (only === undefined) throw new SvcError('NO_CHANGES', 'The workspace has no changes to publish.');
    if (changed.length === 1) return only;
    throw severalApps('changes', changed);
  }

  #exclusively<T>(id: string, app: string, work: () => Promise<T>): Promise<T> {
    return this.#within(id, () => this.#serial.run(`${id}/${app}`, work), app);
  }

  /** The workspace stays until the work has ended. Rejects with `UNKNOWN_SESSION` when it is being closed. */
  async #within<T>(id: string, work: () => Promise<T>, app = ''): Promise<T> {
    if (this.#closing.has(id)) throw unknownWorkspace(id);
    this.#demandHere(id, app);
    return this.#underWay.run(id, work);
  }

  /** The open ones that are served: in a cluster, by any node. */
  async #ids(): Promise<string[]> {
    const { shared } = this.#options;
    if (shared !== null) return (await shared.directory.all()).map(({ id }) => id);
    return (await this.found()).filter((id) => !this.#away.has(id));
  }

  #demandHere(id: string, app = ''): void {
    const refusal = this.refusalOf(id, app);
    if (refusal !== null) throw refusal;
  }

  #tellEdited(id: string, app: string): void {
    for (const listener of this.#editedListeners) listener(id, app);
  }
}

function rowOf({ id, name, base, createdAt, touchedAt, apps }: WorkspaceWithApps): WorkspaceRow {
  return { sessionId: id, name: name ?? id, base, createdAt, touchedAt, apps };
}

function severalApps(does: string, apps: string[]): SvcError {
  const message = `The workspace ${does} several apps; name the one to publish: ${apps.join(', ')}.`;
  return new SvcError('BAD_REQUEST', message, { path: 'app' });
}

/** A name on one line; undefined for an empty one. */
function lineOf(name: string): string | undefined {
  const line = name.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  return line === '' ? undefined : line.slice(0, LIMITS.workspaceNameChars);
}

/**
 * Receives an archive into a folder on the workspace's file system, so that its files are moved, not copied. `work` gets where the
 * archive is, and a name beside it for the folder that it is unpacked to. Both are gone when it has ended.
 */
async function withUpload<T>(
  store: CodeStorePaths,
  body: Readable,
  work: (archive: string, unpackTo: string) => Promise<T>,
): Promise<T> {
  const staged = await stagingFolder(store);
  const archive = join(staged, 'upload.tgz');
  try {
    if (body.errored) throw body.errored;
    await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
    return await work(archive, join(staged, 'files'));
  } finally {
    await rm(staged, { recursive: true, force: true });
  }
}
