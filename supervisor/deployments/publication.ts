/**
 * Puts a version of an app into place and makes it live, step by step, and repairs what a crash left between two steps
 * (specification, "Versioning"; docs/architecture.md, "From draft to live"). An upload, a publication from a session, an import
 * and an activation are all publications. The caller runs one at a time for each app.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { type MintedSecret, signingKeys } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { uploadTime } from '../../protocol/ids.ts';
import type { VersionNote, VersionSummary } from '../../protocol/manifest.ts';
import type { VersionFolders, VersionSource } from '../../protocol/wire/jobs.ts';
import type { ChangeUnderWay } from '../../storage/apps/code-store.ts';
import type { AppState, Registry } from '../../storage/apps/registry.ts';
import { moveToTrash, purgeApp } from '../../storage/apps/trash.ts';
import {
  installPrepared,
  isIntact,
  isPrepared,
  listVersions,
  readPending,
  readVersion,
  writeIncoming,
} from '../../storage/apps/versions.ts';
import { addWebhookKeys, pruneWebhookKeys } from '../../storage/automations/automations.ts';
import {
  exists,
  mkdirDurable,
  removeDurable,
  renameDurable,
  writeFileAtomic,
} from '../../storage/files/atomic-file.ts';
import { AppPaths, type Layout, VersionPaths } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import type { Apps } from '../dispatch/apps.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { activateVersion, settlePointer } from './activation.ts';
import { type CodeStore, noteOf, unknownVersion } from './store/code-store.ts';
import type { WebhookClaims } from './webhook-claims.ts';

export type PublicationOptions = {
  layout: Layout;
  registry: Registry;
  store: CodeStore;
  jobs: Pick<Jobs, 'ingest' | 'review' | 'prepareAgain'>;
  databases: Pick<Databases, 'userVersion' | 'migrate' | 'makeDurable' | 'close'>;
  apps: Pick<Apps, 'swap' | 'versionsAtWork' | 'stop' | 'forget' | 'regain'>;
  claims: WebhookClaims;
  /** Versions kept on disk for each app; the active one always is. */
  versionRetention: number;
  log: Pick<Logger, 'info' | 'error'>;
  now(): number;
};

/** Errors of jobs that say nothing about the files. */
const NOT_OF_THE_CODE: ReadonlySet<string> = new Set(['OVERLOADED', 'STORAGE_FULL', 'INTERNAL']);

type PrepareOptions = Pick<PublicationOptions, 'layout' | 'store' | 'log'> & { jobs: Pick<Jobs, 'prepareAgain'> };

/** The commit that may become live, the fingerprint of the files that a session sent, and whether the commit has the very same. */
export type PublishedFiles = { commit: string; files: string; same?: boolean };

/** The copy of an app that a session has, as its publication uses it. */
export type SessionCopy = {
  folder: string;
  /** The commit that the files were taken from; null when the app was not on `main` then. */
  base: string | null;
  /** A note of `note` that a crash left. */
  noted: PublishedFiles | null;
  /** Durable when it resolves. */
  note(publishing: { commit: string; files: string }): Promise<void>;
  /** The noted version did not become live. */
  drop(): Promise<void>;
  /** Takes the published files and their commit as the base of what is edited next. Never rejects. */
  follow(published: PublishedFiles): Promise<void>;
};

export type PublicationOrder = {
  /** An uploaded file, a session, or the tag of a version that the store has. */
  source: Exclude<VersionSource, { session: string }> | { session: SessionCopy };
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

const NOT_SETTLED = 'The code store could not note what is live; it will when the app is changed next.';

export class Publication {
  static readonly steps: readonly Step[] = [
    {
      words:
        "Merge the session's files with `main` on their base, check manifest, handlers, automations and schemas, commit",
      where: 'jobs',
      run: async (it) => {
        await it.#check();
        it.#checkReplaced();
        await it.#claimWebhooks();
      },
    },
    {
      words: "Note the commit in the session's record",
      where: 'supervisor',
      run: (it) => it.#noteInSession(),
    },
    {
      words: 'Note the intention in `publishing/<id>.json`: app, version, commit',
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
      words: 'Make the tag and move `main` under one short lock, merging what other apps published meanwhile',
      where: 'jobs',
      failed: NOT_SETTLED,
      run: (it) => it.#settle(),
    },
    {
      words: 'Note the commit in `active-main`, remove the intention',
      where: 'supervisor',
      failed: NOT_SETTLED,
      run: (it) => it.#finish(),
    },
    {
      words: 'Send calls to the new version, remove old versions from the disk',
      where: 'supervisor',
      run: (it) => it.#serve(),
    },
    {
      words: 'Give the session the published files and their commit as its base',
      where: 'supervisor',
      run: (it) => it.#follow(),
    },
  ];

  version!: VersionSummary;
  /** The version's commit on the git store; null without one. */
  commit: string | null = null;
  minted: MintedSecret[] = [];
  migrationsApplied: number[] = [];
  pruned: string[] = [];
  readonly #options: PublicationOptions;
  readonly #id: string;
  readonly #order: PublicationOrder;
  readonly #app: AppPaths;
  readonly #staging: string;
  /** The app before; null when it is not registered. */
  #state: AppState | null = null;
  /** Undoes the steps, in order. */
  readonly #undo: (() => Promise<void>)[] = [];
  /** From here on no step is undone. */
  #isFinal = false;
  /** The files that are to be installed; null when they are on disk. */
  #staged: VersionPaths | null = null;
  #sent: Required<PublishedFiles> | null = null;
  #now = 0;
  #isSettled = false;
  /** The addresses of its webhooks are kept for it until it is live or dropped. */
  #endClaims = (): void => {};

  constructor(options: PublicationOptions, id: string, order: PublicationOrder) {
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
        if (this.#isFinal) await this.#afterwards(failed, () => run(this));
        else await run(this);
      }
    } catch (error) {
      await this.#takeBack();
      throw error;
    } finally {
      this.#endClaims();
      await rm(this.#staging, { recursive: true, force: true });
    }
    return this;
  }

  /** Only puts the files of a version, which are gone, into place again, for a repair; false when that cannot be done. Never rejects. */
  async bringBack(): Promise<boolean> {
    try {
      await this.#check();
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

  /** The version that served before. */
  get previous(): VersionSummary | null {
    return this.#state?.active ?? null;
  }

  /** The content equals that of a version on disk, which is used instead. */
  get isDuplicate(): boolean {
    return this.#staged === null;
  }

  /** The version is new: neither on disk nor in the store. */
  get #isNew(): boolean {
    return this.#staged !== null && !('tag' in this.#order.source);
  }

  async #check(): Promise<void> {
    const { source } = this.#order;
    const onDisk = 'tag' in source && this.#state !== null ? await readVersion(this.#app, source.tag) : null;
    if (onDisk === null || !(await this.#isUsable(onDisk))) await this.#ingest();
    else this.version = (await readVersion(this.#app, onDisk.versionId)) ?? onDisk;
    this.#now = this.#options.now();
  }

  /** The version that this one takes the place of; null for none. */
  get replaced(): VersionSummary | null {
    const { previous } = this;
    return this.#order.activate && previous?.versionId !== this.version.versionId ? previous : null;
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
    const files = this.#staged ?? this.#app.version(this.version.versionId);
    this.#endClaims = await this.#options.claims.claim(this.#id, files);
  }

  /** Whether a version on the disk can serve, after a repair of what was prepared of it. */
  async #isUsable({ versionId }: VersionSummary): Promise<boolean> {
    if (await isPrepared(this.#app, versionId)) return true;
    if (await prepareAnew(this.#options, this.#id, versionId)) return true;
    if (this.#options.store.keepsDiscarded) return false;
    const advice = 'Upload it again, or activate another one.';
    throw new SvcError('STORE_DAMAGED', `The files of the version ${versionId} are damaged. ${advice}`);
  }

  async #ingest(): Promise<void> {
    const { store, jobs } = this.#options;
    const { source } = this.#order;
    const stored = this.#state === null || 'tag' in source ? [] : await listVersions(this.#app);
    // Content whose copy on disk was edited since is stored anew: the upload is what mends it.
    const intact = await Promise.all(stored.map((version) => isIntact(this.#app, version)));
    const known = 'archive' in source || 'folder' in source ? stored.filter((_, at) => intact[at]) : [];
    const { uploadedAt, note } = await this.#origin(stored);
    await mkdir(this.#staging, { recursive: true, mode: 0o700 });
    const result = await jobs.ingest({
      source: 'session' in source ? this.#fromSession(source.session) : source,
      commit: store.commitOrder(note.message ?? null),
      app: this.#id,
      note,
      staging: this.#staging,
      uploadedAt,
      known: known.map(({ versionId, sha256 }) => ({ versionId, sha256, ...this.#foldersOf(versionId) })),
      active: this.previous === null ? null : this.#foldersOf(this.previous.versionId),
    });
    if ('known' in result) {
      this.version = known.find(({ versionId }) => versionId === result.known) as VersionSummary;
      return;
    }
    const { staged, minted, commit, sent } = result;
    this.version = staged;
    this.commit = commit;
    this.minted = minted;
    this.#staged = new VersionPaths(join(this.#staging, 'code'), join(this.#staging, 'prepared'));
    if (sent !== null && commit !== null) this.#sent = { commit, ...sent };
  }

  #fromSession({ folder, base }: SessionCopy): VersionSource {
    return { session: folder, base, anew: this.#state === null };
  }

  /** A time later than every version on disk, or what the tag says. Rejects with `UNKNOWN_VERSION`. */
  async #origin(stored: VersionSummary[]): Promise<{ uploadedAt: number; note: VersionNote }> {
    const { store, now } = this.#options;
    const { source, note = {} } = this.#order;
    if (!('tag' in source)) return { uploadedAt: Math.max(now(), (stored[0]?.uploadedAt ?? 0) + 1), note };
    const tagged = await store.find(this.#id, source.tag);
    if (tagged === null) throw unknownVersion(this.#id, source.tag);
    return { uploadedAt: tagged.uploadedAt, note: noteOf(tagged) };
  }

  #foldersOf(versionId: string): VersionFolders {
    const { code, prepared } = this.#app.version(versionId);
    return { code, prepared };
  }

  async #noteInSession(): Promise<void> {
    const { source } = this.#order;
    if (!('session' in source) || this.#sent === null) return;
    const { commit, files } = this.#sent;
    await source.session.note({ commit, files });
    this.#undo.push(() => source.session.drop().catch(() => {}));
  }

  async #begin(): Promise<void> {
    const { store } = this.#options;
    const { activate } = this.#order;
    const { versionId } = this.version;
    if (this.#state === null) await this.#makeFolder();
    // A mark that an upload could not remove would take its version along later.
    else if (!this.#isNew) await removeMarks(this.#app);
    this.#undo.push(() => store.abandon(this.#id));
    if (this.#isNew)
      await store.begin(this.#id, { kind: activate ? 'publish' : 'store', versionId, commit: this.commit });
    else if (activate && this.previous?.versionId !== versionId)
      await store.begin(this.#id, { kind: 'activate', versionId });
  }

  /** The folder of a new app, marked as one that no app uses: a crash before the app is registered leaves it with the mark. */
  async #makeFolder(): Promise<void> {
    const { layout, apps } = this.#options;
    await clearLeftovers(this.#options, this.#id);
    // In a session it was an app before, and goes on as one if this fails.
    const talk = { keepsTalk: 'session' in this.#order.source };
    await apps.forget(this.#id, talk);
    this.#undo.push(async () => {
      await letGo(this.#options, this.#id, talk);
      await purgeApp(layout, this.#id);
    });
    const { dir, disposable } = new AppPaths(join(this.#staging, 'app'));
    await mkdirDurable(dir);
    await writeFileAtomic(disposable, '');
    await renameDurable(dir, this.#app.dir);
  }

  async #install(): Promise<void> {
    const { store } = this.#options;
    const { versionId } = this.version;
    const isRegistered = this.#state !== null;
    if (this.#staged === null) return;
    this.#undo.push(async () => {
      // The code of a new app may lie outside of its folder.
      if (isRegistered || store.keepsDiscarded) await store.discard(this.#id, versionId);
      if (!isRegistered) return;
      await removeMarks(this.#app);
      await pruneKeys(this.#options, this.#id);
    });
    if (this.#isNew && this.#order.activate && isRegistered) await writeIncoming(this.#app, versionId);
    // Before the version: one that is there has the keys of its webhooks.
    await addWebhookKeys(this.#app, signingKeys(this.minted));
    await store.install(this.#id, versionId, this.#staged, this.commit);
  }

  async #activate(): Promise<void> {
    const { registry } = this.#options;
    const { activate } = this.#order;
    if (activate) this.migrationsApplied = await this.#movePointer();
    if (this.#state === null) {
      if (!activate) this.#undo.push(() => registry.deregister(this.#id));
      await registry.register(this.#id, this.#order.maker);
    }
    this.#isFinal = activate;
  }

  /** If that is interrupted, the app is repaired. */
  async #movePointer(): Promise<number[]> {
    const { registry, databases, log } = this.#options;
    // Its migrations would run on a new database, in the place of the one that is lost.
    if (this.previous !== null) await registry.checkData(this.#id);
    if (registry.loaded(this.#id)?.active?.versionId === this.version.versionId) return [];
    const tools = { databases, letGo: () => letGo(this.#options, this.#id), log };
    if (this.previous !== null) {
      const pointer = { activeVersion: this.previous.versionId, activatedAt: this.#state?.updatedAt ?? this.#now };
      await settlePointer(this.#id, this.#app, pointer, tools);
    }
    try {
      return await activateVersion(this.#id, this.#app, this.version, tools, this.#now);
    } catch (error) {
      if (await this.#isPending()) await this.#afterwards('An app could not be repaired.', () => this.#repair());
      throw error;
    }
  }

  /** Whether the migrations may be in the data. */
  async #isPending(): Promise<boolean> {
    const pending = await readPending(this.#app);
    return pending !== null && pending.versionId === this.version?.versionId;
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
    const { store } = this.#options;
    try {
      this.#isSettled = await store.settle(this.#id);
    } catch (error) {
      // The job may have died after it made the tag, which is all that a version needs that is only stored.
      if (this.#isFinal || (await store.find(this.#id, this.version.versionId)) === null) throw error;
      this.#isSettled = true;
    }
    this.#isFinal = true;
  }

  async #finish(): Promise<void> {
    if (this.#isSettled) await this.#options.store.finish(this.#id);
  }

  async #serve(): Promise<void> {
    const { registry, apps, store } = this.#options;
    await this.#afterwards('The mark of an upload could not be removed.', () => removeMarks(this.#app));
    if (this.#order.activate && this.previous?.versionId !== this.version.versionId) {
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
    const { source } = this.#order;
    if ('session' in source && this.#sent !== null) await source.session.follow(this.#sent);
  }

  #afterwards(message: string, work: () => Promise<void>): Promise<void> {
    return afterwards(this.#options, this.#id, message, work);
  }

  /** Unless the migrations may be in the data: the activation is then finished when the app is next needed. */
  async #takeBack(): Promise<void> {
    if (this.#state !== null && (await this.#isPending())) return;
    for (const undo of this.#undo.reverse()) await undo();
  }
}

/**
 * Makes anew what was prepared of a stored version; false when its code cannot be prepared, which is logged. Rejects when it could
 * not be tried.
 */
export async function prepareAnew(options: PrepareOptions, id: string, versionId: string): Promise<boolean> {
  const { layout, store, jobs, log } = options;
  const app = layout.app(id);
  const staging = stagingFolder(layout);
  const to = join(staging, 'prepared');
  try {
    await mkdir(staging, { recursive: true, mode: 0o700 });
    // On the git store it is a link, which jobs do not follow.
    const code = await realpath(app.version(versionId).code);
    const at = uploadTime(versionId);
    // A damaged repository keeps no version from being prepared.
    const tagged = at === null ? await store.find(id, versionId).catch(() => null) : null;
    const uploadedAt = at ?? tagged?.uploadedAt ?? Math.floor((await stat(code)).mtimeMs);
    const note = noteOf(tagged ?? (await readVersion(app, versionId)) ?? {});
    await jobs.prepareAgain({ app: id, versionId, code, to, uploadedAt, sha256: tagged?.sha256 || null, note });
    await installPrepared(app, versionId, to);
    return true;
  } catch (error) {
    if (!(error instanceof SvcError) || NOT_OF_THE_CODE.has(error.code)) throw error;
    log.error({ app: id, version: versionId, err: error }, 'What is derived from a version could not be made anew.');
    return false;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/**
 * After a crash: finishes the change of an app if the repaired app has its version; else drops it. Returns the app; null when
 * it is not registered.
 */
export async function recover(options: PublicationOptions, id: string): Promise<AppState | null> {
  const { layout, registry, store } = options;
  const state = registry.has(id) ? await registry.state(id) : null;
  const change = await store.underWay(id, state?.active ?? null);
  if (change === null) return state;
  if (await hasHappened(change, state, layout.app(id))) await conclude(store, id);
  else await store.abandon(id);
  return state;
}

async function hasHappened(change: ChangeUnderWay, state: AppState | null, app: AppPaths): Promise<boolean> {
  if (change.kind === 'remove' || state === null) return change.kind === 'remove' && state === null;
  if (change.kind === 'store') return (await readVersion(app, change.versionId)) !== null;
  return state.active?.versionId === change.versionId;
}

/** The same for the session that the change came from, once the app has recovered. */
export async function recoverSession(
  { registry, store }: { registry: Pick<Registry, 'loaded'>; store: CodeStore },
  id: string,
  session: SessionCopy,
): Promise<void> {
  if (session.noted === null) return;
  if (await store.isVersion(id, session.noted.commit)) await session.follow(session.noted);
  // Else it never happened, or it is not decided yet.
  else if ((await store.underWay(id, registry.loaded(id)?.active ?? null)) === null) await session.drop();
}

/** The change is complete. */
export async function conclude(store: CodeStore, id: string): Promise<void> {
  if (await store.settle(id)) await store.finish(id);
}

/** For what follows a change and cannot take it back: a failure is logged. */
export async function afterwards(
  { log }: Pick<PublicationOptions, 'log'>,
  app: string,
  message: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    log.error({ app, err: error }, message);
  }
}

/** The folder of an app that is not registered was left by a crash in a first upload, which marks it, or in a removal. */
export async function clearLeftovers(options: PublicationOptions, id: string): Promise<void> {
  const { layout, now } = options;
  const app = layout.app(id);
  if (!(await exists(app.dir))) return;
  await letGo(options, id);
  if (await exists(app.disposable)) await purgeApp(layout, id);
  else await moveToTrash(layout, id, now());
}

/** No call of the app runs, and no process has its files open. */
export async function letGo(
  { apps, databases }: PublicationOptions,
  id: string,
  talk: { keepsTalk?: boolean } = {},
): Promise<void> {
  await apps.stop(id, talk);
  await databases.close(id);
}

export async function pruneKeys(options: PublicationOptions, id: string): Promise<void> {
  await afterwards(options, id, 'Old keys of webhooks could not be removed.', () =>
    pruneWebhookKeys(options.layout.app(id)),
  );
}

/** The app and its versions stay unchanged. */
export async function removeMarks(app: AppPaths): Promise<void> {
  for (const mark of [app.incoming, app.disposable]) if (await exists(mark)) await removeDurable(mark);
}

export function stagingFolder({ tmpDir }: Layout): string {
  return join(tmpDir, `publication-${randomUUID()}`);
}
