/**
 * Deployments: uploads, activations and removals of apps (specification, "Registry"; decisions, section 2). One at a time
 * for each app. What is refused or fails leaves nothing on disk and changes nothing.
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { isDiskFull, SvcError } from '../protocol/errors.ts';
import { checkAppId } from '../protocol/ids.ts';
import type { IngestJob, IngestResult } from '../protocol/jobs.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { Manifest, VersionSummary } from '../protocol/manifest.ts';
import {
  exists,
  isMissing,
  mkdirDurable,
  removeDurable,
  renameDurable,
  writeFileAtomic,
} from '../storage/atomic-file.ts';
import { crashPoint } from '../storage/crash-point.ts';
import { AppPaths, type Layout, VersionPaths } from '../storage/layout.ts';
import { type Registry, unknownApp } from '../storage/registry.ts';
import { moveToTrash, purgeApp } from '../storage/trash.ts';
import {
  installVersion,
  isIntact,
  listVersions,
  readPending,
  readVersion,
  removeVersion,
  writeIncoming,
} from '../storage/versions.ts';
import { type ActivationDatabases, activateVersion } from './activation.ts';
import { type AppRecord, appRecord, type VersionRecord, versionRecord } from './app-record.ts';
import { ReadCache } from './read-cache.ts';
import { SerialByKey } from './serial.ts';

export type DeploymentsOptions = {
  layout: Layout;
  registry: Registry;
  jobs: { ingest(job: IngestJob): Promise<IngestResult> };
  databases: ActivationDatabases & {
    /** Lets go of the app's file. */
    close(app: string): Promise<void>;
  };
  actors: {
    /** New calls go to this version; calls under way end on the old one. */
    swap(app: string, active: VersionSummary): Promise<void> | void;
    /** No call of the app runs any more once it resolves. */
    stop(app: string): Promise<void>;
    /** What was answered under idempotency keys is not replayed to a later app of this name. */
    forget(app: string): Promise<void>;
  };
  /** Versions kept for each app; the active one always is. */
  versionRetention: number;
  log: Pick<Logger, 'info' | 'error'>;
  now?(): number;
};

/** Filled by automations once they are provisioned. */
export type MintedWebhook = { webhookId: string; secret: string; automationId: string; ownerApp: string; url: string };

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
  webhooks: MintedWebhook[];
};

/** A manifest and how long its text was. */
type ManifestText = { manifest: Manifest; chars: number };

export class Deployments {
  readonly #options: Required<DeploymentsOptions>;
  readonly #serial = new SerialByKey();
  readonly #manifests = new ReadCache<ManifestText>(LIMITS.manifestCacheChars, ({ chars }) => chars);
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(options: DeploymentsOptions) {
    this.#options = { now: Date.now, ...options };
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
    const { versionId } = active;
    // A version's files never change, and its id is never given again.
    const { manifest } = await this.#manifests.get(`${id}/${versionId}`, () => this.#readManifest(id, versionId));
    return manifest;
  }

  async #readManifest(id: string, versionId: string): Promise<ManifestText> {
    try {
      const text = await readFile(this.#options.layout.app(id).version(versionId).manifest, 'utf8');
      const value = JSON.parse(text) as Partial<Manifest>;
      return { manifest: { queries: [], actions: [], ...value } as Manifest, chars: text.length };
    } catch (error) {
      if (!(error instanceof SyntaxError) && !isMissing(error)) throw error;
      throw new SvcError('INVALID_MANIFEST', `The app.json of "${id}" cannot be read; upload the app again.`, {
        status: 500,
        cause: error,
      });
    }
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
  async upload(id: string, body: Readable, { activate = true }: { activate?: boolean } = {}): Promise<UploadResult> {
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
        return await this.#serial.run(id, () => this.#store(id, archive, staging, activate));
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

  async #store(id: string, archive: string, staging: string, activate: boolean): Promise<UploadResult> {
    const { layout, registry, jobs } = this.#options;
    const isNew = !registry.has(id);
    const previous = isNew ? null : (await registry.state(id)).active;
    const app = layout.app(id);
    const stored = isNew ? [] : await listVersions(app);
    const uploadedAt = Math.max(this.#options.now(), (stored[0]?.uploadedAt ?? 0) + 1);
    // Content whose copy on disk was edited since is stored anew: the upload is what mends it.
    const intact = await Promise.all(stored.map((version) => isIntact(app, version)));
    const known = stored.filter((_, at) => intact[at]).map(({ sha256 }) => sha256);
    const ingested = await jobs.ingest({ archive, app: id, staging, uploadedAt, known });
    crashPoint('upload.staged');
    const duplicate =
      'known' in ingested ? stored.find(({ sha256 }, at) => intact[at] && sha256 === ingested.known) : undefined;
    const now = this.#options.now();
    const version = 'staged' in ingested ? ingested.staged : (duplicate as VersionSummary);

    let migrationsApplied: number[] = [];
    try {
      if (isNew) {
        await this.#clearLeftovers(id);
        await this.#options.actors.forget(id);
        await this.#makeFolder(app, join(staging, 'app'));
      }
      crashPoint('upload.cleared');
      if (duplicate === undefined) {
        if (activate && !isNew) await writeIncoming(app, version.versionId);
        crashPoint('upload.announced');
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
      else if (duplicate === undefined) await this.#undoVersion(id, version.versionId);
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
      deduplicated: duplicate !== undefined,
      migrationsApplied,
      pruned,
      webhooks: [],
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
    return pruned;
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

  /** A folder of an app that is not registered was left by a crash, in a first upload or a removal. */
  async #clearLeftovers(id: string): Promise<void> {
    const { layout, now } = this.#options;
    const { dir, disposable } = layout.app(id);
    if (!(await exists(dir))) return;
    await this.#letGo(id);
    // A first upload or a purge that was cut off marked it as holding nothing that anybody wants back.
    if (await exists(disposable)) await purgeApp(layout, id);
    else await moveToTrash(layout, id, now());
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

  /** Unless the version's migrations may have been committed: its activation is then finished when the app is next needed. */
  async #undoVersion(id: string, versionId: string): Promise<void> {
    const { layout } = this.#options;
    const app = layout.app(id);
    if ((await readPending(app)) !== null) return;
    await removeVersion(app, versionId, layout.tmpDir);
    crashPoint('upload.undone');
    await removeMarks(app);
  }

  /** The folder of a new app, which a crash before it is registered leaves marked as nobody's: there with the mark, or not. */
  async #makeFolder(app: AppPaths, staged: string): Promise<void> {
    const { dir, disposable } = new AppPaths(staged);
    await mkdirDurable(dir);
    await writeFileAtomic(disposable, '');
    await renameDurable(dir, app.dir);
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

/** The app and its versions stay as they are, whatever was under way. */
async function removeMarks(app: AppPaths): Promise<void> {
  for (const mark of [app.incoming, app.disposable]) if (await exists(mark)) await removeDurable(mark);
}
