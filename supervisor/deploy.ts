/**
 * Deployments: uploads, activations and removals of apps (specification, "Registry"; decisions, section 2). One at a time
 * for each app. What is refused or fails leaves nothing on disk and changes nothing.
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { type MintedWebhook, mintedWebhook, signingKeys } from '../protocol/automation.ts';
import { isDiskFull, SvcError } from '../protocol/errors.ts';
import { checkAppId } from '../protocol/ids.ts';
import type { Manifest, VersionSummary } from '../protocol/manifest.ts';
import { exists, writeFileAtomic } from '../storage/atomic-file.ts';
import { addWebhookKeys, pruneWebhookKeys } from '../storage/automations.ts';
import { crashPoint } from '../storage/crash-point.ts';
import { type Layout, VersionPaths } from '../storage/layout.ts';
import { type Registry, unknownApp } from '../storage/registry.ts';
import { moveToTrash, purgeApp } from '../storage/trash.ts';
import {
  installVersion,
  listVersions,
  readPending,
  readVersion,
  removeVersion,
  writeIncoming,
} from '../storage/versions.ts';
import { type ActivationDatabases, activateVersion } from './activation.ts';
import { clearFolder, makeFolder, removeMarks, undoVersion } from './app-folder.ts';
import { type AppRecord, appRecord, type VersionRecord, versionRecord } from './app-record.ts';
import { Manifests } from './manifests.ts';
import { SerialByKey } from './serial.ts';
import { stageUpload, type UploadJobs } from './stage-upload.ts';

export type DeploymentsOptions = {
  layout: Layout;
  registry: Registry;
  jobs: UploadJobs;
  databases: ActivationDatabases & {
    /** Lets go of the app's file. */
    close(app: string): Promise<void>;
  };
  actors: {
    /** New calls go to this version; calls under way end on the old one. */
    swap(app: string, active: VersionSummary): Promise<void> | void;
    /** No call of the app runs any more once it resolves. */
    stop(app: string): Promise<void>;
    /** What the gateway keeps of an app beside its folder goes: its runs, and what was answered under idempotency keys. */
    forget(app: string): Promise<void>;
  };
  /** Versions kept for each app; the active one always is. */
  versionRetention: number;
  log: Pick<Logger, 'info' | 'error'>;
  now?(): number;
};

export type UploadResult = {
  id: string;
  versionId: string;
  activeVersion: string | null;
  sha256: string;
  files: number;
  bytes: number;
  deduplicated: boolean;
  migrationsApplied: number[];
  pruned: string[];
  /** Those that were minted, with their secrets: nothing else ever says them. */
  webhooks: MintedWebhook[];
};

/** `origin` is where the gateway is reached, for the addresses of webhooks, such as `http://127.0.0.1:8787`. */
export type UploadOptions = { activate?: boolean; origin?: string };

export class Deployments {
  readonly #options: Required<DeploymentsOptions>;
  readonly #serial = new SerialByKey();
  readonly #manifests: Manifests;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(options: DeploymentsOptions) {
    this.#options = { now: Date.now, ...options };
    this.#manifests = new Manifests(options.layout);
  }

  /** Every app, sorted by id. */
  async records(): Promise<AppRecord[]> {
    return (await this.#options.registry.states()).map(appRecord);
  }

  /** Rejects with `UNKNOWN_APP`. */
  async record(id: string): Promise<AppRecord> {
    return appRecord(await this.#options.registry.state(id));
  }

  /** The `app.json` of the active version; null when there is none. Rejects with `UNKNOWN_APP`. */
  async manifest(id: string): Promise<Manifest | null> {
    const { active } = await this.#options.registry.state(id);
    if (active === null) return null;
    return this.#manifests.get(id, active.versionId);
  }

  /** Newest first. Rejects with `UNKNOWN_APP`. */
  async versions(id: string): Promise<VersionRecord[]> {
    const { active } = await this.#options.registry.state(id);
    return (await listVersions(this.#options.layout.app(id))).map((summary) => versionRecord(summary, active));
  }

  /**
   * Stores a gzipped tar archive as a version and activates it unless told otherwise; registers the app if it is new.
   * Rejects with the errors of archives, manifests and migrations, and with those of `body`.
   */
  async upload(
    id: string,
    body: Readable,
    { activate = true, origin = '' }: UploadOptions = {},
  ): Promise<UploadResult> {
    const staging = join(this.#options.layout.tmpDir, `upload-${randomUUID()}`);
    const archive = join(staging, 'upload.tgz');
    // It may fail before anybody reads it, and an error that nobody listens to would end the process.
    body.on('error', () => {});
    return this.#changing(async () => {
      try {
        checkAppId(id);
        await mkdir(staging, { mode: 0o700 });
        crashPoint('upload.staging-made');
        if (body.errored) throw body.errored;
        await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
        crashPoint('upload.received');
        return await this.#serial.run(id, () => this.#store(id, archive, staging, activate, origin));
      } finally {
        body.destroy();
        await rm(staging, { recursive: true, force: true });
        crashPoint('upload.staging-removed');
      }
    });
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION` or `MIGRATION_FAILED`. */
  activate(
    id: string,
    versionId: string,
  ): Promise<{ id: string; activeVersion: string; previousVersion: string | null }> {
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        const { active } = await this.#options.registry.state(id);
        const version = await this.#version(id, versionId);
        const now = this.#options.now();
        // One that an upload could not remove would take its version along later.
        await removeMarks(this.#options.layout.app(id));
        await this.#makeActive(id, version, now);
        crashPoint('activate.active');
        await this.#swap(id, version, active, now);
        return { id, activeVersion: versionId, previousVersion: active?.versionId ?? null };
      }),
    );
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION` or `VERSION_ACTIVE`. */
  deleteVersion(id: string, versionId: string): Promise<{ id: string; versionId: string; deleted: true }> {
    const { layout, registry } = this.#options;
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        const { active } = await registry.state(id);
        await this.#version(id, versionId);
        if (active?.versionId === versionId) {
          throw new SvcError('VERSION_ACTIVE', `The version ${versionId} is active; activate another one first.`);
        }
        await removeVersion(layout.app(id), versionId, layout.tmpDir);
        await this.#pruneKeys(id);
        return { id, versionId, deleted: true } as const;
      }),
    );
  }

  /** Its data goes with it: to the trash, or at once when `purge` is set. Rejects with `UNKNOWN_APP`. */
  remove(id: string, { purge = false }: { purge?: boolean } = {}): Promise<{ id: string; deleted: true }> {
    const { registry, layout, now } = this.#options;
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        if (!registry.has(id)) throw unknownApp(id);
        const app = layout.app(id);
        if (!purge) await removeMarks(app);
        else if (await exists(app.dir)) await writeFileAtomic(app.disposable, '');
        crashPoint('remove.marked');
        try {
          // First of all no new call may find the app and start it again.
          await registry.deregister(id);
        } catch (error) {
          await removeMarks(app);
          throw error;
        }
        crashPoint('remove.deregistered');
        try {
          await this.#letGo(id);
          crashPoint('remove.let-go');
          if (purge) await purgeApp(layout, id);
          else await moveToTrash(layout, id, now());
        } catch (error) {
          throw this.#notCleared(id, error);
        }
        // After the folder: a crash here leaves only what the first upload of an app of this name removes as well.
        await this.#afterwards(id, 'The history of an app that was removed is still there.', () =>
          this.#options.actors.forget(id),
        );
        crashPoint('remove.done');
        return { id, deleted: true } as const;
      }),
    );
  }

  /**
   * Runs `work` while no deployment of the app is under way; answers when the app was registered, in milliseconds since the
   * epoch, or null, without running it, when there is no such app.
   */
  hold(id: string, work: () => Promise<void>): Promise<number | null> {
    const { registry } = this.#options;
    return this.#serial.run(id, async () => {
      if (!registry.has(id)) return null;
      const { registeredAt } = await registry.state(id);
      await work();
      return registeredAt;
    });
  }

  /** Resolves when what is under way now has ended, well or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #store(id: string, archive: string, staging: string, activate: boolean, origin: string): Promise<UploadResult> {
    const { layout, registry, jobs } = this.#options;
    const isNew = !registry.has(id);
    const previous = isNew ? null : (await registry.state(id)).active;
    const app = layout.app(id);
    const stored = isNew ? [] : await listVersions(app);
    const uploadedAt = Math.max(this.#options.now(), (stored[0]?.uploadedAt ?? 0) + 1);
    const upload = { archive, app: id, staging, uploadedAt };
    const { version, duplicate, minted } = await stageUpload(jobs, app, upload, stored, previous);
    crashPoint('upload.staged');
    const now = this.#options.now();

    let migrationsApplied: number[] = [];
    try {
      if (isNew) {
        await this.#clearLeftovers(id);
        await this.#options.actors.forget(id);
        await makeFolder(app, join(staging, 'app'));
      }
      crashPoint('upload.cleared');
      if (!duplicate) {
        if (activate && !isNew) await writeIncoming(app, version.versionId);
        crashPoint('upload.announced');
        // Before the version: one that is there has the keys of its webhooks.
        await addWebhookKeys(app, signingKeys(minted));
        crashPoint('upload.keys-kept');
        await installVersion(
          app,
          version.versionId,
          new VersionPaths(join(staging, 'code'), join(staging, 'prepared')),
        );
      }
      crashPoint('upload.stored');
      if (activate) migrationsApplied = await this.#makeActive(id, version, now);
      crashPoint('upload.activated');
      if (isNew) await registry.register(id);
      crashPoint('upload.registered');
    } catch (error) {
      crashPoint('upload.refused');
      if (isNew) await this.#undoFirst(id);
      else if (!duplicate) {
        await undoVersion(layout, id, version.versionId);
        await this.#pruneKeys(id);
      }
      throw error;
    }
    await this.#afterwards(id, 'The mark of an upload could not be removed.', () => removeMarks(app));
    if (activate) await this.#swap(id, version, previous, now);
    const { versionId, sha256, files, bytes } = version;
    const active = activate ? version : previous;
    crashPoint('upload.swapped');
    const pruned = await this.#prune(id, [active?.versionId, versionId, previous?.versionId]);
    crashPoint('upload.pruned');
    this.#options.log.info({ app: id, version: versionId, activated: activate }, 'Uploaded.');
    return {
      id,
      versionId,
      activeVersion: active?.versionId ?? null,
      sha256,
      files,
      bytes,
      deduplicated: duplicate,
      migrationsApplied,
      pruned,
      webhooks: minted.map((secret) => mintedWebhook(id, secret, origin)),
    };
  }

  /** Moves the pointer. When that is cut off halfway, what is known of the app is forgotten, so that it will be repaired. */
  async #makeActive(id: string, version: VersionSummary, now: number): Promise<number[]> {
    const { layout, registry, databases } = this.#options;
    if (registry.loaded(id)?.active?.versionId === version.versionId) return [];
    try {
      return await activateVersion(id, layout.app(id), version, databases, now);
    } catch (error) {
      if ((await readPending(layout.app(id))) !== null) registry.forget(id);
      throw error;
    }
  }

  async #swap(id: string, version: VersionSummary, previous: VersionSummary | null, now: number): Promise<void> {
    const { registry, actors } = this.#options;
    if (previous?.versionId === version.versionId) return;
    registry.setActive(id, version, now);
    await this.#afterwards(id, 'The calls of an app could not be moved to its new version.', async () =>
      actors.swap(id, version),
    );
  }

  /** The newest versions stay, and those in `needed`: one that was active until now may still be at work. */
  async #prune(id: string, needed: (string | undefined)[]): Promise<string[]> {
    const { layout, versionRetention } = this.#options;
    const versions = (await listVersions(layout.app(id))).map(({ versionId }) => versionId);
    const kept = new Set(versions.filter((versionId) => needed.includes(versionId)));
    for (const versionId of versions) if (kept.size < versionRetention) kept.add(versionId);
    const pruned = versions.filter((versionId) => !kept.has(versionId));
    for (const versionId of pruned) {
      await this.#afterwards(id, 'An old version could not be removed.', () =>
        removeVersion(layout.app(id), versionId, layout.tmpDir),
      );
    }
    await this.#pruneKeys(id);
    return pruned;
  }

  async #pruneKeys(id: string): Promise<void> {
    await this.#afterwards(id, 'Old keys of webhooks could not be removed.', () =>
      pruneWebhookKeys(this.#options.layout.app(id)),
    );
  }

  /** What follows an activation cannot take it back. */
  async #afterwards(app: string, message: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.log.error({ app, err: error }, message);
    }
  }

  async #version(id: string, versionId: string): Promise<VersionSummary> {
    const version = await readVersion(this.#options.layout.app(id), versionId);
    if (version === null)
      throw new SvcError('UNKNOWN_VERSION', `The app "${id}" has no version "${versionId.slice(0, 80)}".`);
    return version;
  }

  async #clearLeftovers(id: string): Promise<void> {
    const { layout, now } = this.#options;
    if (!(await exists(layout.app(id).dir))) return;
    await this.#letGo(id);
    await clearFolder(layout, id, now());
  }

  /** The app is gone all the same, so that this must not read as if nothing had been changed. */
  #notCleared(id: string, error: unknown): SvcError {
    this.#options.log.error({ app: id, err: error }, 'An app was removed, but its folder is still there.');
    return new SvcError(
      'INTERNAL',
      `The app "${id}" is registered no more, but its files could not be moved away. The next upload of "${id}" does that.`,
      { cause: error },
    );
  }

  async #undoFirst(id: string): Promise<void> {
    await this.#letGo(id);
    await purgeApp(this.#options.layout, id);
  }

  async #letGo(id: string): Promise<void> {
    await this.#options.actors.stop(id);
    await this.#options.databases.close(id);
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
