/**
 * Puts one version of an app into place and makes it the active one (specification, "Versioning"; decisions, sections 2 and 7).
 * What is refused or fails leaves nothing on disk and changes nothing. The caller sees to it that an app has one at a time.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type MintedSecret, type MintedWebhook, mintedWebhook, signingKeys } from '../../protocol/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { VersionSource } from '../../protocol/jobs.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { exists } from '../../storage/atomic-file.ts';
import { addWebhookKeys, pruneWebhookKeys } from '../../storage/automations.ts';
import { crashPoint } from '../../storage/crash-point.ts';
import type { AppState } from '../../storage/registry.ts';
import { purgeApp } from '../../storage/trash.ts';
import { listVersions, readPending, readVersion, writeIncoming } from '../../storage/versions.ts';
import { activateVersion } from './activation.ts';
import { clearFolder, makeFolder, removeMarks } from './app-folder.ts';
import type { ActivationResult, DeploymentsOptions } from './deployment.ts';
import type { Staged } from './store/code-store.ts';

/** What is to be stored, in a staging folder that its caller made and removes. */
export type ReleaseRequest = {
  source: VersionSource;
  staging: string;
  activate: boolean;
  message?: string | undefined;
  committed?: ((commit: string) => Promise<void>) | undefined;
};

export type Release = {
  version: VersionSummary;
  /** What serves now. */
  active: VersionSummary | null;
  duplicate: boolean;
  commit: string | null;
  minted: MintedSecret[];
  migrationsApplied: number[];
  pruned: string[];
};

export class Releases {
  readonly #options: Required<DeploymentsOptions>;

  constructor(options: Required<DeploymentsOptions>) {
    this.#options = options;
  }

  /** The app as it stands once everything that was cut off is put right; null when it is not registered. */
  async current(id: string): Promise<AppState | null> {
    const { registry, store } = this.#options;
    const state = registry.has(id) ? await registry.state(id) : null;
    await store.recover(id, state);
    return state;
  }

  /** Stores a version, and makes it active when that is asked; registers the app if it is new. */
  async add(id: string, { source, staging, activate, message, committed }: ReleaseRequest): Promise<Release> {
    const { layout, registry, store } = this.#options;
    const state = await this.current(id);
    const previous = state?.active ?? null;
    const app = layout.app(id);
    const stored = state === null ? [] : await listVersions(app);
    const uploadedAt = Math.max(this.#options.now(), (stored[0]?.uploadedAt ?? 0) + 1);
    const staged = await store.stage(id, { source, staging, uploadedAt, stored, active: previous, message });
    const { version, minted, commit } = staged;
    crashPoint('upload.staged');
    if (commit !== null) await committed?.(commit);
    const now = this.#options.now();

    let migrationsApplied: number[] = [];
    try {
      if (state === null) {
        await this.clearLeftovers(id);
        await this.#options.actors.forget(id);
        await makeFolder(app, join(staging, 'app'));
      }
      crashPoint('upload.cleared');
      if (staged.staged !== null) await this.#install(id, staged, activate, state !== null);
      else if (activate) await this.#beginActivation(id, version, previous);
      crashPoint('upload.stored');
      if (activate) migrationsApplied = await this.#makeActive(id, version, now);
      crashPoint('upload.activated');
      if (state === null) await registry.register(id);
      crashPoint('upload.registered');
      if (!activate) await store.finish(id);
    } catch (error) {
      crashPoint('upload.refused');
      if (state === null) await this.#undoFirst(id, staged);
      else await this.#undo(id, staged);
      throw error;
    }
    await this.afterwards(id, 'The mark of an upload could not be removed.', () => removeMarks(app));
    if (activate) await this.#goLive(id, version, previous, now);
    const active = activate ? version : previous;
    crashPoint('upload.swapped');
    const there = staged.staged === null ? stored : [version, ...stored];
    const pruned = await this.#prune(id, there, [active?.versionId, version.versionId, previous?.versionId]);
    crashPoint('upload.pruned');
    this.#options.log.info({ app: id, version: version.versionId, activated: activate }, 'Stored a version.');
    return { version, active, duplicate: staged.staged === null, commit, minted, migrationsApplied, pruned };
  }

  /** Makes a version that exists the active one; rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION` or `MIGRATION_FAILED`. */
  async activate(id: string, versionId: string, origin: string): Promise<ActivationResult> {
    const { layout, databases } = this.#options;
    const app = layout.app(id);
    const previous = (await this.registered(id)).active;
    // One that an upload could not remove would take its version along later.
    await removeMarks(app);
    const brought = await this.#onDisk(id, versionId, previous);
    const { version, minted } = brought;
    const now = this.#options.now();
    try {
      await this.#beginActivation(id, version, previous);
      await this.#makeActive(id, version, now);
    } catch (error) {
      if ((await readPending(app)) === null) await this.#options.store.abandon(id);
      throw error;
    }
    crashPoint('activate.active');
    await this.#goLive(id, version, previous, now);
    if (this.#options.store.keepsDiscarded)
      await this.#prune(id, await listVersions(app), [versionId, previous?.versionId]);
    const done = (await exists(app.data)) ? await databases.userVersion(id) : 0;
    const ahead = Math.max(0, done - version.migrations);
    return {
      id,
      activeVersion: versionId,
      previousVersion: previous?.versionId ?? null,
      migrationsAhead: Array.from({ length: ahead }, (_, at) => version.migrations + 1 + at),
      webhooks: minted.map((secret) => mintedWebhook(id, secret, origin)),
    };
  }

  /** Registers an app that the store has and the gateway does not, with this version live. Rejects with `CONFLICT`. */
  async adopt(id: string, versionId: string, origin: string): Promise<MintedWebhook[]> {
    const { layout, registry, store, actors } = this.#options;
    if ((await this.current(id)) !== null) throw new SvcError('CONFLICT', `There is an app "${id}" already.`);
    const known = await store.find(id, versionId);
    if (known === null) throw unknownVersion(id, versionId);
    const app = layout.app(id);
    const now = this.#options.now();
    return this.staging('adopt', async (staging) => {
      const request = { source: { tag: versionId }, staging, uploadedAt: known.uploadedAt, stored: [], active: null };
      const staged = await store.stage(id, request);
      try {
        await this.clearLeftovers(id);
        await actors.forget(id);
        await makeFolder(app, join(staging, 'app'));
        await addWebhookKeys(app, signingKeys(staged.minted));
        await store.install(id, staged);
        await this.#makeActive(id, staged.version, now);
        await registry.register(id);
      } catch (error) {
        await this.#undoFirst(id, staged);
        throw error;
      }
      await this.afterwards(id, 'The mark of a new app could not be removed.', () => removeMarks(app));
      await this.#goLive(id, staged.version, null, now);
      return staged.minted.map((secret) => mintedWebhook(id, secret, origin));
    });
  }

  /** As `current`; rejects with `UNKNOWN_APP`. */
  async registered(id: string): Promise<AppState> {
    return (await this.current(id)) ?? this.#options.registry.state(id);
  }

  /** Fetches a version whose files are gone; false when that cannot be done. Never rejects. */
  async bringBack(id: string, versionId: string): Promise<boolean> {
    try {
      return (await this.#fetch(id, versionId, null)) !== null;
    } catch (error) {
      this.#options.log.error({ app: id, version: versionId, err: error }, 'A version could not be brought back.');
      return false;
    }
  }

  async pruneKeys(id: string): Promise<void> {
    await this.afterwards(id, 'Old keys of webhooks could not be removed.', () =>
      pruneWebhookKeys(this.#options.layout.app(id)),
    );
  }

  /** What follows a change cannot take it back. */
  async afterwards(app: string, message: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.log.error({ app, err: error }, message);
    }
  }

  /** No call of the app runs, and nothing has its files open. */
  async letGo(id: string): Promise<void> {
    await this.#options.actors.stop(id);
    await this.#options.databases.close(id);
  }

  async clearLeftovers(id: string): Promise<void> {
    const { layout, now } = this.#options;
    if (!(await exists(layout.app(id).dir))) return;
    await this.letGo(id);
    await clearFolder(layout, id, now());
  }

  async #install(id: string, staged: Staged, activate: boolean, isRegistered: boolean): Promise<void> {
    const { layout, store } = this.#options;
    const app = layout.app(id);
    await store.begin(id, { kind: activate ? 'publish' : 'store', staged });
    if (activate && isRegistered) await writeIncoming(app, staged.version.versionId);
    crashPoint('upload.announced');
    // Before the version: one that is there has the keys of its webhooks.
    await addWebhookKeys(app, signingKeys(staged.minted));
    crashPoint('upload.keys-kept');
    await store.install(id, staged);
  }

  /** The version, which is fetched when it is not on disk any more. */
  async #onDisk(
    id: string,
    versionId: string,
    active: VersionSummary | null,
  ): Promise<{ version: VersionSummary; minted: MintedSecret[] }> {
    const version = await readVersion(this.#options.layout.app(id), versionId);
    if (version !== null) return { version, minted: [] };
    const fetched = await this.#fetch(id, versionId, active);
    if (fetched === null) throw unknownVersion(id, versionId);
    return fetched;
  }

  /** Null when the store has no such version. */
  async #fetch(id: string, versionId: string, active: VersionSummary | null): Promise<Staged | null> {
    const { layout, store } = this.#options;
    const app = layout.app(id);
    const known = await store.find(id, versionId);
    if (known === null) return null;
    return this.staging('activate', async (staging) => {
      const request = { source: { tag: versionId }, staging, uploadedAt: known.uploadedAt, stored: [], active };
      const staged = await store.stage(id, request);
      await addWebhookKeys(app, signingKeys(staged.minted));
      await store.install(id, staged);
      return staged;
    });
  }

  /** Runs `work` with a folder of its own below `tmp`, which is gone afterwards. */
  async staging<T>(name: string, work: (staging: string) => Promise<T>): Promise<T> {
    const staging = join(this.#options.layout.tmpDir, `${name}-${randomUUID()}`);
    try {
      await mkdir(staging, { mode: 0o700 });
      crashPoint('upload.staging-made');
      return await work(staging);
    } finally {
      await rm(staging, { recursive: true, force: true });
      crashPoint('upload.staging-removed');
    }
  }

  async #beginActivation(id: string, { versionId }: VersionSummary, active: VersionSummary | null): Promise<void> {
    if (active?.versionId !== versionId) await this.#options.store.begin(id, { kind: 'activate', versionId });
  }

  /** Moves the pointer. When that is cut off halfway, what is known of the app is forgotten, so that it will be repaired. */
  async #makeActive(id: string, version: VersionSummary, now: number): Promise<number[]> {
    const { layout, registry, databases } = this.#options;
    if (registry.loaded(id)?.active?.versionId === version.versionId) return [];
    try {
      const tools = { databases, letGo: (app: string) => this.letGo(app) };
      return await activateVersion(id, layout.app(id), version, tools, now);
    } catch (error) {
      if ((await readPending(layout.app(id))) !== null) registry.forget(id);
      throw error;
    }
  }

  /** The pointer says it: now the store and everything that runs follow. */
  async #goLive(id: string, version: VersionSummary, previous: VersionSummary | null, now: number): Promise<void> {
    const { registry, actors, store } = this.#options;
    if (previous?.versionId === version.versionId) return;
    await this.afterwards(id, 'The code store could not note what is live; it will when the app is changed next.', () =>
      store.finish(id),
    );
    registry.setActive(id, version, now);
    await this.afterwards(id, 'The calls of an app could not be moved to its new version.', async () =>
      actors.swap(id, version),
    );
  }

  /** Of those that are there, newest first, the newest stay, those in `needed`, and those in which something still runs. */
  async #prune(id: string, there: VersionSummary[], needed: (string | undefined)[]): Promise<string[]> {
    const { store, actors, versionRetention } = this.#options;
    const versions = there.map(({ versionId }) => versionId);
    const atWork = actors.versionsAtWork(id);
    const kept = new Set(versions.filter((versionId) => needed.includes(versionId) || atWork.has(versionId)));
    for (const versionId of versions) if (kept.size < versionRetention) kept.add(versionId);
    const pruned = versions.filter((versionId) => !kept.has(versionId));
    for (const versionId of pruned) {
      await this.afterwards(id, 'An old version could not be removed.', () => store.discard(id, versionId));
    }
    await this.pruneKeys(id);
    return store.keepsDiscarded ? [] : pruned;
  }

  /**
   * Takes a version that did not become active back. Unless its migrations may have been committed: its activation is then
   * finished when the app is next needed.
   */
  async #undo(id: string, { version, staged }: Staged): Promise<void> {
    const { layout, store } = this.#options;
    const app = layout.app(id);
    if ((await readPending(app)) !== null) return;
    if (staged !== null) await store.discard(id, version.versionId);
    crashPoint('upload.undone');
    await removeMarks(app);
    await store.abandon(id);
    await this.pruneKeys(id);
  }

  async #undoFirst(id: string, { version }: Staged): Promise<void> {
    const { layout, store } = this.#options;
    await this.letGo(id);
    // Its code may lie outside of the app's folder.
    if (store.keepsDiscarded) await store.discard(id, version.versionId);
    await purgeApp(layout, id);
    await store.abandon(id);
  }
}

export function unknownVersion(id: string, versionId: string): SvcError {
  return new SvcError('UNKNOWN_VERSION', `The app "${id}" has no version "${versionId.slice(0, 80)}".`);
}
