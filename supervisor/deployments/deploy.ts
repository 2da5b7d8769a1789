import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { AppRecord, UploadAnswer, VersionRecord } from '../../protocol/answers.ts';
import { type MintedWebhook, mintedWebhook } from '../../protocol/automation.ts';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { checkAppId, versionNumber, versionTag } from '../../protocol/ids.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { exists, writeFileAtomic } from '../../storage/atomic-file.ts';
import { crashPoint } from '../../storage/crash-point.ts';
import { type AppState, unknownApp } from '../../storage/registry.ts';
import { moveToTrash, purgeApp } from '../../storage/trash.ts';
import { readVersion } from '../../storage/versions.ts';
import { SerialByKey } from '../serial.ts';
import { removeMarks } from './app-folder.ts';
import { appRecord, type VersionPage } from './app-record.ts';
import type {
  ActivationResult,
  DeploymentsOptions,
  PublishOptions,
  PublishResult,
  UploadOptions,
} from './deployment.ts';
import { Manifests } from './manifests.ts';
import { Releases, unknownVersion } from './releases.ts';

export class Deployments {
  readonly #options: Required<DeploymentsOptions>;
  readonly #releases: Releases;
  readonly #serial = new SerialByKey();
  readonly #manifests: Manifests;
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #records = new WeakMap<AppState, AppRecord>();

  constructor(options: DeploymentsOptions) {
    this.#options = { now: Date.now, ...options };
    this.#releases = new Releases(this.#options);
    this.#manifests = new Manifests(options.layout);
  }

  /** Puts right what was cut off. Before anything is served. What fails is logged, and tried again when the app is changed. */
  async open(): Promise<void> {
    const { store } = this.#options;
    const message = 'A change of an app that was cut off could not be put right yet.';
    for (const id of await store.open()) {
      await this.#releases.afterwards(id, message, async () => void (await this.#releases.current(id)));
    }
    await store.tidy();
  }

  /** Every app, sorted by id. Of an app that has not changed, the record is the same object. */
  async records(): Promise<AppRecord[]> {
    return (await this.#options.registry.states()).map((state) => this.#recordOf(state));
  }

  /** Rejects with `UNKNOWN_APP`. */
  async record(id: string): Promise<AppRecord> {
    return this.#recordOf(await this.#options.registry.state(id));
  }

  /** The `app.json` of the active version; null when there is none. Rejects with `UNKNOWN_APP`. */
  async manifest(id: string): Promise<Manifest | null> {
    const { active } = await this.#options.registry.state(id);
    if (active === null) return null;
    return this.#manifests.get(id, active.versionId);
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
    { activate = true, origin = '', received }: UploadOptions = {},
  ): Promise<UploadAnswer> {
    // It may fail before anybody reads it, and an error that nobody listens to would end the process.
    body.on('error', () => {});
    return this.#changing(async () => {
      try {
        checkAppId(id);
        return await this.#releases.staging('upload', async (staging) => {
          const archive = join(staging, 'upload.tgz');
          if (body.errored) throw body.errored;
          await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
          crashPoint('upload.received');
          received?.();
          const request = { source: { archive }, staging, activate };
          const release = await this.#serial.run(id, () => this.#releases.add(id, request));
          const { versionId, sha256, files, bytes, network, uses } = release.version;
          return {
            id,
            versionId,
            activeVersion: release.active?.versionId ?? null,
            sha256,
            files,
            bytes,
            deduplicated: release.duplicate,
            migrationsApplied: release.migrationsApplied,
            pruned: release.pruned,
            ...(network === undefined ? {} : { network }),
            ...(uses === undefined ? {} : { uses }),
            webhooks: release.minted.map((secret) => mintedWebhook(id, secret, origin)),
          };
        });
      } finally {
        body.destroy();
      }
    });
  }

  /**
   * Merges a session's files of an app onto what is live and makes the result the live version; registers the app if it is new.
   * Rejects with `NO_GIT_STORE`, `NO_CHANGES`, `MERGE_CONFLICT`, `STORE_DAMAGED`, and the errors of manifests, handlers,
   * automations and migrations: then nothing is live that was not, and the session's files are never written.
   */
  publish(id: string, { folder, base, message, committed, origin = '' }: PublishOptions): Promise<PublishResult> {
    const { registry } = this.#options;
    return this.#changing(async () => {
      checkAppId(id);
      if (this.#options.store.backend !== 'git')
        throw new SvcError('NO_GIT_STORE', 'Publishing needs the git store: svc serve --store git.');
      return this.#releases.staging('publish', async (staging) => {
        const release = await this.#serial.run(id, () => {
          const source = { session: folder, base, anew: !registry.has(id) };
          return this.#releases.add(id, { source, staging, activate: true, message, committed });
        });
        const { versionId: tag, network, uses } = release.version;
        return {
          id,
          version: versionNumber(id, tag) as number,
          tag,
          sha: release.commit as string,
          migrationsApplied: release.migrationsApplied,
          ...(network === undefined ? {} : { network }),
          ...(uses === undefined ? {} : { uses }),
          webhooks: release.minted.map((secret) => mintedWebhook(id, secret, origin)),
        };
      });
    });
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION`, `MIGRATION_FAILED`, and on the git store with `STORE_DAMAGED`. */
  activate(id: string, versionId: string, { origin = '' }: { origin?: string } = {}): Promise<ActivationResult> {
    return this.#changing(() => this.#serial.run(id, () => this.#releases.activate(id, versionId, origin)));
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
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        const named = version === null ? await this.#versionBefore(id) : versionNamed(id, version);
        return this.#releases.activate(id, named, origin);
      }),
    );
  }

  /**
   * Registers an app that was imported into the git store, with one of its versions live. Rejects with `CONFLICT`,
   * `UNKNOWN_VERSION`, and the errors of manifests, automations and migrations.
   */
  adopt(id: string, versionId: string, origin: string): Promise<{ webhooks: MintedWebhook[] }> {
    return this.#changing(() =>
      this.#serial.run(id, async () => ({ webhooks: await this.#releases.adopt(id, versionId, origin) })),
    );
  }

  /** Takes an app that is in the store and not registered out of it, with its versions: its id can then be taken by another. */
  forgo(id: string): Promise<void> {
    const { registry, store } = this.#options;
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        if (registry.has(id)) return;
        await store.begin(id, { kind: 'remove' });
        await store.finish(id);
      }),
    );
  }

  /** Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION` or `VERSION_ACTIVE`. */
  deleteVersion(id: string, versionId: string): Promise<{ id: string; versionId: string; deleted: true }> {
    const { layout, store } = this.#options;
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        const { active } = await this.#releases.registered(id);
        const found = (await readVersion(layout.app(id), versionId)) ?? (await store.find(id, versionId));
        if (found === null) throw unknownVersion(id, versionId);
        if (active?.versionId === versionId) {
          throw new SvcError('VERSION_ACTIVE', `The version ${versionId} is active; activate another one first.`);
        }
        await store.delete(id, versionId);
        await this.#releases.pruneKeys(id);
        return { id, versionId, deleted: true } as const;
      }),
    );
  }

  /** Its data goes with it: to the trash, or at once when `purge` is set. Rejects with `UNKNOWN_APP`. */
  remove(id: string, { purge = false }: { purge?: boolean } = {}): Promise<{ id: string; deleted: true }> {
    const { registry, layout, now, store } = this.#options;
    const releases = this.#releases;
    return this.#changing(() =>
      this.#serial.run(id, async () => {
        if (!registry.has(id)) throw unknownApp(id);
        const app = layout.app(id);
        await store.begin(id, { kind: 'remove' });
        if (!purge) await removeMarks(app);
        else if (await exists(app.dir)) await writeFileAtomic(app.disposable, '');
        crashPoint('remove.marked');
        try {
          // First of all no new call may find the app and start it again.
          await registry.deregister(id);
        } catch (error) {
          await removeMarks(app);
          await store.abandon(id);
          throw error;
        }
        crashPoint('remove.deregistered');
        try {
          await releases.letGo(id);
          crashPoint('remove.let-go');
          if (purge) await purgeApp(layout, id);
          else await moveToTrash(layout, id, now());
        } catch (error) {
          throw this.#notCleared(id, error);
        }
        // After the folder: a crash here leaves only what the first upload of an app of this name removes as well.
        await releases.afterwards(id, 'The history of an app that was removed is still there.', () =>
          this.#options.actors.forget(id),
        );
        await releases.afterwards(id, 'The code of an app that was removed is still on main.', () => store.finish(id));
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

  /** For the repair of an app: whether a version whose files are gone is in its place again. Never rejects. */
  bringBack(id: string, versionId: string): Promise<boolean> {
    return this.#releases.bringBack(id, versionId);
  }

  /** Resolves when what is under way now has ended, well or not, and nothing is done in the background any more. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#underWay, this.#options.store.close()]);
  }

  #recordOf(state: AppState): AppRecord {
    const record = this.#records.get(state) ?? appRecord(state, this.#options.store.backend);
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

  /** The app is gone all the same, so that this must not read as if nothing had been changed. */
  #notCleared(id: string, error: unknown): SvcError {
    this.#options.log.error({ app: id, err: error }, 'An app was removed, but its folder is still there.');
    return new SvcError(
      'INTERNAL',
      `The app "${id}" is registered no more, but its files could not be moved away. The next upload of "${id}" does that.`,
      { cause: error },
    );
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
