/**
 * Puts a version of an app into place and makes it live, step by step (specification, "Activation"; docs/architecture.md, "From
 * draft to live"). An upload, a publication from a workspace, an import and an activation are all publications. The caller runs one
 * at a time for each app.
 */
import { rm } from 'node:fs/promises';
import { signingKeys } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { VersionNote, VersionSummary } from '../../protocol/manifest.ts';
import { removeIntent, type VersionIntent, writeIntent } from '../../storage/apps/journal.ts';
import type { AppState } from '../../storage/apps/registry.ts';
import { purgeApp } from '../../storage/apps/trash.ts';
import { listVersions } from '../../storage/apps/versions.ts';
import { addWebhookKeys } from '../../storage/automations/automation-files.ts';
import { mkdirDurable } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import { activateVersion, migrationsDone, UnknownOutcome } from './activation.ts';
import { type ChangeOptions, pruneKeys, releaseApp, stagingFolder, tryAfterChange } from './change.ts';
import { clearFolder, followed, recover } from './recovery.ts';
import { type PublicationSource, type StagedVersion, stageVersion } from './stage-version.ts';

export type PublicationOrder = {
  source: PublicationSource;
  /** False: the version is only stored. */
  activate: boolean;
  note?: VersionNote;
  /** Refuses to take the place of another live version than this one. */
  ifLive?: string | undefined;
  /** The id of the person who publishes, for an app that is new; absent for none. */
  maker?: string | null;
  /** A folder for the files on their way, which is removed. */
  staging?: string;
};

/**
 * `words` and `where` are those of the table in docs/architecture.md; `failed` is logged for a failure that is not rolled back.
 */
type Step = { words: string; where: string; failed?: string; run(publication: Publication): Promise<void> };

export class Publication {
  static readonly steps: readonly Step[] = [
    {
      words:
        "Merge the workspace's files with `main` on their base, check manifest, handlers, automations and schemas, commit",
      where: 'jobs',
      run: async (it) => {
        await it.#stage();
        it.#checkReplaced();
        await it.#claimWebhooks();
      },
    },
    {
      words: 'Note the intention in `journal/<id>.json`: app, version, commit, migrations, workspace',
      where: 'supervisor',
      run: (it) => it.#begin(),
    },
    {
      words: 'Put the files into `worktrees/main/<commit>/apps/<id>`, link `versions/v<n>` to them',
      where: 'supervisor',
      run: (it) => it.#install(),
    },
    {
      words: 'Activate: copy the data aside, migrate in one transaction, flip the pointer',
      where: 'writer, supervisor',
      run: (it) => it.#activate(),
    },
    {
      words:
        'Make the tag and move `main` under one short lock, merging what other apps published meanwhile; note its commit in `active-main`',
      where: 'jobs, supervisor',
      failed: 'The code store could not note what is live; it will when the app is changed next.',
      run: (it) => it.#settle(),
    },
    {
      words: 'Send calls to the new version, remove old versions from the disk',
      where: 'supervisor',
      run: (it) => it.#serve(),
    },
    {
      words: 'Give the workspace the published files and their commit as its base',
      where: 'supervisor',
      run: (it) => it.#follow(),
    },
    {
      words: 'Remove the intention',
      where: 'supervisor',
      run: (it) => it.#end(),
    },
  ];

  migrationsApplied: number[] = [];
  pruned: string[] = [];
  readonly #options: ChangeOptions;
  readonly #id: string;
  readonly #order: PublicationOrder;
  readonly #app: AppPaths;
  readonly #staging: string;
  /** The app before; null when it is not registered. */
  #state: AppState | null = null;
  #staged!: StagedVersion;
  #now = 0;
  /** What the journal has; null when nothing becomes another. */
  #intent: VersionIntent | null = null;
  /** The migrations that the data has had. */
  #done = 0;
  /** Undoes the steps, in order. */
  readonly #undo: (() => Promise<void>)[] = [];
  /** From here on no step is undone. */
  #isFinal = false;
  /** Something is left to do, or to find out: the intention stays. */
  #isOpen = false;

  constructor(options: ChangeOptions, id: string, order: PublicationOrder) {
    this.#options = options;
    this.#id = id;
    this.#order = order;
    this.#app = options.layout.app(id);
    this.#staging = order.staging ?? stagingFolder(options.layout);
  }

  /** Runs every step. When it rejects, nothing has changed, or the next use of the app finishes what its migrations began. */
  async run(): Promise<this> {
    try {
      this.#state = await recover(this.#options, this.#id);
      for (const { run, words, failed = words } of Publication.steps) {
        if (!this.#isFinal) await run(this);
        else if (!(await this.#afterwards(failed, () => run(this)))) this.#isOpen = true;
      }
    } catch (error) {
      await this.#takeBack();
      throw error;
    } finally {
      await rm(this.#staging, { recursive: true, force: true });
    }
    return this;
  }

  /** Only puts the files of a version, which are gone, into place again, for a repair; false when that cannot be done. Never rejects. */
  async restoreFiles(): Promise<boolean> {
    try {
      await this.#stage();
      await this.#install();
      return true;
    } catch (error) {
      const isUnknown = error instanceof SvcError && error.code === 'UNKNOWN_VERSION';
      if (!isUnknown) this.#options.log.error({ app: this.#id, err: error }, 'A version could not be brought back.');
      return false;
    } finally {
      await rm(this.#staging, { recursive: true, force: true }).catch(() => {});
    }
  }

  get version(): VersionSummary {
    return this.#staged.version;
  }

  /** The version's commit on the git store; null without one. */
  get commit(): string | null {
    return this.#staged.commit;
  }

  get minted(): StagedVersion['minted'] {
    return this.#staged.minted;
  }

  /** The version that served before. */
  get previous(): VersionSummary | null {
    return this.#state?.active ?? null;
  }

  /** The version that this one takes the place of; null for none. */
  get replaced(): VersionSummary | null {
    return this.#isMove ? this.previous : null;
  }

  /** The content equals that of a version on disk, which is used instead. */
  get isDuplicate(): boolean {
    return this.#staged.files === null;
  }

  /** The version is new: neither on disk nor in the store. */
  get #isNew(): boolean {
    return !this.isDuplicate && !('tag' in this.#order.source);
  }

  /** Another version is live afterwards. */
  get #isMove(): boolean {
    return this.#order.activate && this.previous?.versionId !== this.version.versionId;
  }

  async #stage(): Promise<void> {
    const { source, note } = this.#order;
    const order = { source, note, staging: this.#staging };
    this.#staged = await stageVersion(this.#options, this.#id, this.#state, order);
    this.#now = this.#options.now();
  }

  #checkReplaced(): void {
    const { ifLive } = this.#order;
    const { replaced } = this;
    if (ifLive === undefined || replaced === null || replaced.versionId === ifLive) return;
    const { versionId, uploadedAt, by } = replaced;
    const since = `published ${new Date(uploadedAt).toISOString()}${by === undefined ? '' : ` by ${by}`}`;
    const message = `Live is ${versionId}, ${since}, and not ${ifLive.slice(0, 80)}: it would be replaced.`;
    throw new SvcError('WOULD_REPLACE', message, { path: 'ifLive' });
  }

  async #claimWebhooks(): Promise<void> {
    if (this.version.automations === 0) return;
    const files = this.#staged.files ?? this.#app.version(this.version.versionId);
    await this.#options.claims.claim(this.#id, files);
  }

  async #begin(): Promise<void> {
    const { layout, registry } = this.#options;
    // Its migrations would run on a new database, in the place of the one that is lost.
    if (this.#order.activate && this.previous !== null) await registry.checkData(this.#id);
    if (!this.#isNew && !this.#isMove) return;
    this.#intent = await this.#intended();
    if (this.#intent.commit !== null) await this.#options.store.share(this.#id, this.#intent.commit);
    if (this.#state === null) await clearFolder(this.#options, this.#id);
    // Undone last: until then it says what is to go.
    this.#undo.push(() => removeIntent(layout, this.#id));
    await writeIntent(layout, this.#id, this.#intent);
    if (this.#state === null) await this.#makeFolder();
  }

  async #intended(): Promise<VersionIntent> {
    const { store, databases } = this.#options;
    const { activate, source } = this.#order;
    const { versionId, migrations } = this.version;
    if (activate && this.#state !== null)
      this.#done = await migrationsDone(this.#id, this.#app, this.version, databases);
    const isActivation = !this.#isNew;
    const { sent } = this.#staged;
    return {
      kind: isActivation ? 'activate' : activate ? 'publish' : 'store',
      versionId,
      commit: isActivation ? await store.commitActivation(this.#id, versionId) : this.commit,
      migrations: activate && this.#done < migrations ? migrations : null,
      ...('workspace' in source && sent !== null && { session: { id: source.workspace.id, files: sent.files } }),
    };
  }

  /** The folder of a new app: a crash before the app is registered leaves it, and the intention with it. */
  async #makeFolder(): Promise<void> {
    const { layout, apps, databases } = this.#options;
    // In a workspace it was an app before, and goes on as one if this fails.
    const chats = { keepsChats: 'workspace' in this.#order.source };
    await apps.forget(this.#id, chats);
    this.#undo.push(async () => {
      await apps.stop(this.#id, chats);
      await databases.detach(this.#id, null);
      await purgeApp(layout, this.#id);
    });
    await mkdirDurable(this.#app.dir);
  }

  async #install(): Promise<void> {
    const { store } = this.#options;
    const { versionId } = this.version;
    const { files, commit, minted } = this.#staged;
    const isRegistered = this.#state !== null;
    if (files === null) return;
    this.#undo.push(async () => {
      // The code of a new app may lie outside of its folder.
      if (isRegistered || store.keepsDiscarded) await store.discard(this.#id, versionId);
      if (isRegistered) await pruneKeys(this.#options, this.#id);
    });
    // Before the version: one that is there has the keys of its webhooks.
    await addWebhookKeys(this.#app, signingKeys(minted));
    await store.install(this.#id, versionId, files, commit);
  }

  async #activate(): Promise<void> {
    const { registry, share } = this.#options;
    const { activate } = this.#order;
    // What is in the data another node must find explained.
    if (this.#intent !== null && this.#intent.migrations !== null) await share(this.#id);
    if (this.#isMove) this.migrationsApplied = await this.#movePointer();
    if (this.#state === null) {
      if (!activate) this.#undo.push(() => registry.deregister(this.#id));
      await registry.register(this.#id, this.#order.maker);
    }
    this.#isFinal = activate;
  }

  /** If that is interrupted, the app is repaired. */
  async #movePointer(): Promise<number[]> {
    const { databases, log } = this.#options;
    const tools = { databases, releaseApp: () => releaseApp(this.#options, this.#id), log };
    try {
      const moved = await activateVersion(this.#id, this.#app, this.version, this.#done, tools, this.#now);
      this.#isOpen = !moved.isSettled;
      return moved.applied;
    } catch (error) {
      if (!(error instanceof UnknownOutcome)) throw error;
      this.#isOpen = true;
      await this.#afterwards('An app could not be repaired.', () => this.#repair());
      throw error.cause;
    }
  }

  /** The version that the data belongs to serves, although the publication failed. */
  async #repair(): Promise<void> {
    const { registry, apps } = this.#options;
    registry.forget(this.#id);
    if (this.#state === null) return;
    const { active } = await registry.state(this.#id);
    if (active !== null && active.versionId !== this.previous?.versionId) await apps.swap(this.#id, active);
  }

  async #settle(): Promise<void> {
    const { store, share } = this.#options;
    try {
      // The names of versions are seen by all nodes: what is live must be known before.
      if (this.#intent !== null) await share(this.#id);
      if (this.#intent !== null) await store.settle(this.#id, this.#intent);
    } catch (error) {
      // The job may have died after it made the tag, which is all that a version needs that is only stored.
      if (this.#isFinal || (await store.find(this.#id, this.version.versionId)) === null) throw error;
    }
    this.#isFinal = true;
  }

  async #serve(): Promise<void> {
    const { registry, apps, store } = this.#options;
    if (this.#isMove) {
      registry.setActive(this.#id, this.version, this.#now);
      const failed = 'The calls of an app could not be moved to its new version.';
      await this.#afterwards(failed, () => apps.swap(this.#id, this.version));
    }
    // An activation adds no version, but it may have fetched one.
    if (!('tag' in this.#order.source) || store.keepsDiscarded) await this.#prune();
  }

  /** The newest versions stay, and so do the live one, the one before it, this one, and those in which something still runs. */
  async #prune(): Promise<void> {
    const { store, apps, versionRetention } = this.#options;
    const versions = (await listVersions(this.#app)).map(({ versionId }) => versionId);
    const needed = new Set([...apps.versionsAtWork(this.#id), this.version.versionId, this.previous?.versionId]);
    const kept = new Set(versions.filter((versionId) => needed.has(versionId)));
    for (const versionId of versions) if (kept.size < versionRetention) kept.add(versionId);
    const pruned = versions.filter((versionId) => !kept.has(versionId));
    for (const versionId of pruned)
      await this.#afterwards('An old version could not be removed.', () => store.discard(this.#id, versionId));
    await pruneKeys(this.#options, this.#id);
    if (!store.keepsDiscarded) this.pruned = pruned;
  }

  async #follow(): Promise<void> {
    if (this.#intent === null) return;
    if (!(await followed(this.#options.follow, this.#id, this.#intent, this.#staged.sent?.same))) this.#isOpen = true;
  }

  async #end(): Promise<void> {
    const { layout, share } = this.#options;
    if (this.#intent !== null && !this.#isOpen) await removeIntent(layout, this.#id);
    await share(this.#id);
  }

  #afterwards(message: string, work: () => Promise<void>): Promise<boolean> {
    return tryAfterChange(this.#options, this.#id, message, work);
  }

  /** Unless the migrations may be in the data: the activation is then finished when the app is next needed. */
  async #takeBack(): Promise<void> {
    if (this.#state !== null && this.#isOpen) return;
    for (const undo of this.#undo.reverse()) await undo();
  }
}
