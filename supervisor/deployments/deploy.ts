/**
 * Uploads, publishes, activates and removes apps, and answers for the registry's routes (specification, "Uploads" and
 * "Activation").
 */
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { AppRecord, UploadAnswer, VersionRecord } from '../../protocol/answer-types.ts';
import { type InputIssue, isDiskFull, SvcError } from '../../protocol/errors.ts';
import { checkAppId, versionTag } from '../../protocol/ids.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { listIntents, readVersionIntent } from '../../storage/apps/journal.ts';
import { type AppState, unknownApp } from '../../storage/apps/registry.ts';
import { removeTrashed } from '../../storage/apps/trash.ts';
import { readVersion } from '../../storage/apps/versions.ts';
import { exists } from '../../storage/files/atomic-file.ts';
import { VersionPaths } from '../../storage/layout.ts';
import { SerialByKey } from '../serial.ts';
import { copyAside } from './activation.ts';
import { type ChangeOptions, type FollowWorkspace, pruneKeys, stagingFolder, type WorkspaceCopy } from './change.ts';
import {
  type ActivationResult,
  type AdoptionResult,
  activated,
  adopted,
  type PublishResult,
  published,
  recordOf,
  uploaded,
} from './deployed.ts';
import { Manifests } from './manifests.ts';
import { Publication, type PublicationOrder } from './publication.ts';
import { recover, recoverAll, recoverListed } from './recovery.ts';
import { forgetCode, type RestoreResult, removeApp, restoreApp, trashedOf, unknownTrash } from './removal.ts';
import { prepareAnew } from './stage-version.ts';
import { noteOf, unknownVersion, type VersionPage } from './store/code-store.ts';
import { type Addresses, WebhookClaims } from './webhook-claims.ts';

type DeploymentsOptions = Omit<ChangeOptions, 'now' | 'claims' | 'follow'> & {
  addresses: Addresses;
  now?(): number;
};

/** `maker` is the id of the person who publishes, who then manages an app that is new; `by` the name that the version shows. */
export type PublishOptions = {
  message?: string | null;
  origin?: string;
  maker?: string | null;
  by?: string | null;
};

/** `origin` is where the gateway is reached, for the addresses of webhooks, such as `http://127.0.0.1:8787`. */
type UploadOptions = PublishOptions & {
  activate?: boolean;
  /** Refuses with `WOULD_REPLACE` when another version than this one is live. */
  ifLive?: string | undefined;
  /** Called when all of the archive is there; what it throws refuses the upload. */
  received?(): void;
};

type PlaceOptions = PublishOptions & Pick<UploadOptions, 'activate'> & { isNew?: boolean };

export class Deployments {
  readonly claims: WebhookClaims;
  readonly #options: ChangeOptions;
  readonly #serial = new SerialByKey();
  readonly #manifests: Manifests;
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #records = new WeakMap<AppState, AppRecord>();

  constructor({ addresses, ...options }: DeploymentsOptions) {
    this.claims = new WebhookClaims(addresses);
    this.#options = { now: Date.now, claims: this.claims, follow: async () => false, ...options };
    this.#manifests = new Manifests(options.layout);
  }

  /** Before any app is served. */
  open(): Promise<void> {
    return this.#options.store.open();
  }

  /** Finishes or undoes what was cut off of changes of these apps, registered or not, before they take calls. */
  serve(apps: ReadonlySet<string>): Promise<void> {
    return recoverAll(this.#options, apps, (app, work) => this.#serial.run(app, work));
  }

  /** Resolves when no change of the app is under way; the registry refuses later ones. */
  async release(app: string): Promise<void> {
    await this.#serial.run(app, async () => {});
  }

  /** Removes from the store what no version uses, once the apps are served that are here at the start. */
  tidy(): Promise<void> {
    return this.#options.store.tidy();
  }

  /** From now on workspaces get with `follow` what they publish. */
  followWorkspaces(follow: FollowWorkspace): void {
    this.#options.follow = follow;
  }

  /** Gives workspaces what they published before they, or the app, came here. `within` runs work while nobody edits the files of an app there. */
  async catchUp(
    within: (workspace: string, app: string, work: () => Promise<void>) => Promise<void>,
    follow: FollowWorkspace,
  ): Promise<void> {
    const { layout, registry } = this.#options;
    for (const app of await listIntents(layout)) {
      if (registry.isElsewhere(app)) continue;
      const workspace = (await readVersionIntent(layout, app))?.session?.id;
      // In the order of a publication: first the workspace's turn, then the app's.
      const work = () => recoverListed(this.#options, [app], (id, recovery) => this.#serial.run(id, recovery), follow);
      if (workspace !== undefined) await within(workspace, app, work);
    }
  }

  /** These apps, by default every one, sorted by id. The record of an app that has not changed is the same object. */
  async records(ids?: readonly string[]): Promise<AppRecord[]> {
    return (await this.#options.registry.states(ids)).map((state) => this.#recordOf(state));
  }

  /** Rejects with `UNKNOWN_APP`. */
  async record(id: string): Promise<AppRecord> {
    return this.#recordOf(await this.#options.registry.state(id));
  }

  /** The `app.json` of the active version; null when there is none. Rejects with `UNKNOWN_APP`. */
  async manifest(id: string): Promise<Manifest | null> {
    const { active } = await this.#options.registry.state(id);
    return active === null ? null : this.#manifests.get(id, active.versionId);
  }

  /** Newest first. Rejects with `UNKNOWN_APP`, and on the git store with `STORE_DAMAGED`. */
  async versions(id: string, page: VersionPage = {}): Promise<VersionRecord[]> {
    const { active } = await this.#options.registry.state(id);
    return this.#options.store.list(id, active, page);
  }

  /**
   * Stores a gzipped tar archive as a version and activates it unless told otherwise; registers the app if it is new.
   * Rejects with the errors of archives, manifests and migrations, and with those of `body`.
   */
  async upload(
    id: string,
    body: Readable,
    { activate = true, origin = '', received, maker = null, ifLive, ...said }: UploadOptions = {},
  ): Promise<UploadAnswer> {
    // It may fail before it is read, and an error without a listener would end the process.
    body.on('error', () => {});
    const staging = stagingFolder(this.#options.layout);
    const archive = join(staging, 'upload.tgz');
    return this.#changing(async () => {
      try {
        checkAppId(id);
        await mkdir(staging, { mode: 0o700 });
        if (body.errored) throw body.errored;
        await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
        received?.();
        const order = { source: { archive }, activate, maker, staging, ifLive, note: noteOf(said) };
        return uploaded(id, await this.#inTurn(id, () => this.#publish(id, order)), activate, origin);
      } finally {
        body.destroy();
        await rm(staging, { recursive: true, force: true });
      }
    });
  }

  /**
   * Makes the files that `fill` writes into a folder, which is missing, a version as `upload` does. With `isNew` it rejects with
   * `CONFLICT` where there is an app of this id.
   */
  place(
    id: string,
    fill: (folder: string) => Promise<void>,
    { activate = true, origin = '', maker = null, isNew = false, ...said }: PlaceOptions = {},
  ): Promise<UploadAnswer> {
    const staging = stagingFolder(this.#options.layout);
    const folder = join(staging, 'laid-out');
    return this.#changingApp(id, async () => {
      try {
        checkAppId(id);
        if (isNew && this.#options.registry.has(id))
          throw new SvcError('CONFLICT', `An app "${id}" already exists; choose another id.`, { path: 'id' });
        await mkdir(staging, { mode: 0o700 });
        await fill(folder);
        const order = { source: { folder }, activate, maker, staging, note: noteOf(said) };
        return uploaded(id, await this.#publish(id, order), activate, origin);
      } finally {
        await rm(staging, { recursive: true, force: true });
      }
    });
  }

  /**
   * Merges a workspace's files of an app onto what is live and makes the result the live version; registers the app if it is new.
   * Rejects with `NO_GIT_STORE`, `NO_CHANGES`, `MERGE_CONFLICT`, `STORE_DAMAGED`, and the errors of manifests, handlers,
   * automations and migrations: then the live version and the workspace's files are unchanged.
   */
  publish(
    id: string,
    { workspace, origin = '', maker = null, ...said }: PublishOptions & { workspace: WorkspaceCopy },
  ): Promise<PublishResult> {
    return this.#changingApp(id, async () => {
      checkAppId(id);
      if (this.#options.store.backend !== 'git')
        throw new SvcError(
          'NO_GIT_STORE',
          'Publishing needs the git store: stop the gateway, then svc convert --store git.',
        );
      const order = { source: { workspace }, activate: true, maker, note: noteOf(said) };
      return published(id, await this.#publish(id, order), origin);
    });
  }

  /**
   * Resolves with the warnings of a publication. Rejects with the error with which `publish` would refuse the workspace's files, but
   * never with `NO_CHANGES`; runs no migrations and stores nothing.
   */
  async review(id: string, { folder, base }: Pick<WorkspaceCopy, 'folder' | 'base'>): Promise<InputIssue[]> {
    const { registry, layout, store, jobs, claims, now } = this.#options;
    const active = registry.has(id) ? (await registry.state(id)).active : null;
    const live = active === null ? null : layout.app(id).version(active.versionId);
    const staging = stagingFolder(layout);
    try {
      await mkdir(staging, { mode: 0o700 });
      await store.refresh();
      const warnings = await jobs.review({
        source: { workspace: folder, base, anew: true },
        commit: store.commitOrder(null),
        app: id,
        staging,
        uploadedAt: now(),
        known: [],
        active: live && { code: live.code, prepared: live.prepared },
      });
      await claims.check(id, new VersionPaths(folder, ''));
      return warnings;
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION`, `MIGRATION_FAILED`, and on the git store with `STORE_DAMAGED`. */
  activate(id: string, versionId: string, { origin = '' }: { origin?: string } = {}): Promise<ActivationResult> {
    return this.#changingApp(id, () => this.#activate(id, versionId, origin));
  }

  /**
   * Activates an older version: its number or id, or without either the one before the live one. The data stays as it is.
   * Rejects as `activate` does, and with `NO_ACTIVE_VERSION`.
   */
  rollback(
    id: string,
    version: number | string | null,
    { origin = '' }: { origin?: string } = {},
  ): Promise<ActivationResult> {
    return this.#changingApp(id, async () => {
      const named = version === null ? await this.#versionBefore(id) : versionNamed(id, version);
      return this.#activate(id, named, origin);
    });
  }

  /**
   * Registers an app that was imported into the git store, with one of its versions live. Rejects with `CONFLICT`,
   * `UNKNOWN_VERSION`, and the errors of manifests, handlers, automations and migrations.
   */
  registerImported(id: string, versionId: string, origin: string): Promise<AdoptionResult> {
    return this.#changingApp(id, async () => {
      if (this.#options.registry.has(id)) throw new SvcError('CONFLICT', `There is an app "${id}" already.`);
      const source = { tag: versionId, imported: true } as const;
      return adopted(id, await this.#publish(id, { source, activate: true }), origin);
    });
  }

  /** Takes an app that is in the store and not registered out of it, with its versions: its id can then be taken by another. */
  discardUnregistered(id: string): Promise<void> {
    return this.#changingApp(id, async () => {
      if (!this.#options.registry.has(id)) await forgetCode(this.#options, id);
    });
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION` or `VERSION_ACTIVE`. */
  deleteVersion(id: string, versionId: string): Promise<{ id: string; versionId: string; deleted: true }> {
    const { layout, store } = this.#options;
    return this.#changingApp(id, async () => {
      const state = await recover(this.#options, id);
      if (state === null) throw unknownApp(id);
      const found = (await readVersion(layout.app(id), versionId)) ?? (await store.find(id, versionId));
      if (found === null) throw unknownVersion(id, versionId);
      if (state.active?.versionId === versionId)
        throw new SvcError('VERSION_ACTIVE', `The version ${versionId} is active; activate another one first.`);
      await store.delete(id, versionId);
      await pruneKeys(this.#options, id);
      return { id, versionId, deleted: true };
    });
  }

  /** Its data goes with it: to the trash, or at once when `purge` is set. Rejects with `UNKNOWN_APP`. */
  remove(id: string, { purge = false }: { purge?: boolean } = {}): Promise<{ id: string; deleted: true }> {
    return this.#changingApp(id, async () => {
      await removeApp(this.#options, id, purge);
      return { id, deleted: true };
    });
  }

  /** `id` is that of a removed app in the trash. Rejects with `UNKNOWN_TRASH`, `CONFLICT`, and on the git store with `STORE_DAMAGED`. */
  restore(id: string): Promise<RestoreResult> {
    const trashed = trashedOf(id);
    return this.#changingApp(trashed.app, () => restoreApp(this.#options, trashed));
  }

  /** Removes a removed app for good. Rejects with `UNKNOWN_TRASH`. */
  removeTrashed(id: string): Promise<{ id: string; deleted: true }> {
    const { app } = trashedOf(id);
    return this.#changingApp(app, async () => {
      const { layout, databases } = this.#options;
      if (!(await removeTrashed(layout, id))) throw unknownTrash(id);
      await databases.purge(id);
      return { id, deleted: true };
    });
  }

  /**
   * Runs `work` while no deployment of the app is under way; answers when the app was registered, in milliseconds since the
   * epoch, or null, without running it, when there is no such app.
   */
  hold(id: string, work: () => Promise<void>): Promise<number | null> {
    const { registry } = this.#options;
    return this.#inTurn(id, async () => {
      if (!registry.has(id)) return null;
      const { registeredAt } = await registry.state(id);
      await work();
      return registeredAt;
    });
  }

  /** Checks whether the data of an app is lost, or its file is not the one that the writer has open; the registry has what is found. */
  async checkData(id: string): Promise<void> {
    const { registry, databases, apps, layout, log } = this.#options;
    try {
      await registry.checkData(id);
      // The writer looks at a file that it has open when somebody connects; without a thread none has.
      if (apps.versionsAtWork(id).size > 0 && (await exists(layout.app(id).data))) await databases.userVersion(id);
    } catch (error) {
      if (registry.damages.of(id) === null)
        log.error({ app: id, err: error }, 'The data of an app could not be looked at.');
    }
  }

  /** Copies the app's data aside; the copy's name in `backups/`, or null where there is no data. Rejects with `UNKNOWN_APP` and `STORE_DAMAGED`. */
  copyAside(id: string): Promise<string | null> {
    const { registry, layout, databases, now } = this.#options;
    return this.#inTurn(id, async () => {
      if (!registry.has(id)) throw unknownApp(id);
      await registry.checkData(id);
      return copyAside(id, layout.app(id), databases, now());
    });
  }

  /** For the repair of an app: makes anew what was prepared of a version; false when its code cannot be prepared. */
  prepareAnew(id: string, versionId: string): Promise<boolean> {
    return prepareAnew(this.#options, id, versionId);
  }

  /** For the repair of an app: restores a version whose files are gone, and returns whether it is back. Never rejects. */
  restoreFiles(id: string, versionId: string): Promise<boolean> {
    return new Publication(this.#options, id, { source: { tag: versionId }, activate: false }).restoreFiles();
  }

  /** Resolves when what is under way now has ended, well or not, and no work is left in the background. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#underWay, this.#options.store.close()]);
  }

  async #publish(id: string, order: PublicationOrder): Promise<Publication> {
    const publication = await new Publication(this.#options, id, order).run();
    const { versionId } = publication.version;
    this.#options.log.info({ app: id, version: versionId, activated: order.activate }, 'Published a version.');
    return publication;
  }

  async #activate(id: string, versionId: string, origin: string): Promise<ActivationResult> {
    const { registry, layout, databases } = this.#options;
    if (!registry.has(id)) throw unknownApp(id);
    const publication = await this.#publish(id, { source: { tag: versionId }, activate: true });
    const done = (await exists(layout.app(id).data)) ? await databases.userVersion(id) : 0;
    return activated(id, publication, done, origin);
  }

  #recordOf(state: AppState): AppRecord {
    const record = this.#records.get(state) ?? recordOf(state, this.#options.store.backend);
    this.#records.set(state, record);
    return record;
  }

  async #versionBefore(id: string): Promise<string> {
    const { registry, store } = this.#options;
    const { active } = await registry.state(id);
    if (active === null) throw new SvcError('NO_ACTIVE_VERSION', `"${id}" has no active version to go back from.`);
    const [before] = await store.list(id, active, { limit: 1, before: active.versionId });
    if (before === undefined) throw new SvcError('UNKNOWN_VERSION', `No older version of "${id}" is kept.`);
    return before.versionId;
  }

  #changingApp<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#changing(() => this.#inTurn(id, work));
  }

  /** One at a time for each app. Rejects with `STORAGE_UNAVAILABLE` while another node has it. */
  #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#serial.run(id, async () => {
      const refusal = this.#options.registry.refusalOf(id);
      if (refusal !== null) throw refusal;
      try {
        return await work();
      } finally {
        await this.claims.settle(id);
      }
    });
  }

  async #changing<T>(work: () => Promise<T>): Promise<T> {
    const change = work();
    this.#underWay.add(change);
    try {
      return await change;
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      throw new SvcError('STORAGE_FULL', 'The disk is full; nothing was changed.', { cause: error });
    } finally {
      this.#underWay.delete(change);
    }
  }
}

/** `3` and `v3` are the tag `<id>/v3`. */
function versionNamed(id: string, version: number | string): string {
  const number = /^v?(\d{1,9})$/.exec(String(version))?.[1];
  return number === undefined ? String(version) : versionTag(id, Number(number));
}
