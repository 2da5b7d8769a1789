/** Makes new apps of archives, of addresses and of other apps, and gives an app another manifest; on both stores alike. */
import { createWriteStream } from 'node:fs';
import { copyFile, mkdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { UploadAnswer } from '../../protocol/answer-types.ts';
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, freeName } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { joinSignals } from '../../protocol/signals.ts';
import type { VersionFolders } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { readCurrent, readVersion } from '../../storage/apps/versions.ts';
import { exists, namesIn } from '../../storage/files/atomic-file.ts';
import { type AppPaths, Layout } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import { stagingFolder } from '../deployments/change.ts';
import type { Deployments, PublishOptions } from '../deployments/deploy.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { WebClient } from '../web-client.ts';
import { type AppChange, changeApp } from './app-edits.ts';

/** The apps of a cluster, as one of its nodes has them. */
export type AppsOfCluster = {
  /** Whether this node serves it. */
  serves(app: string): boolean;
  /**
   * Makes the files of an app, as they are stored, in a data directory of their own; with `data` also its database. Rejects with
   * `UNKNOWN_APP` and `STORAGE_UNAVAILABLE`.
   */
  copyApp(app: string, to: Layout, wanted: { data: boolean }): Promise<void>;
};

type NewAppsOptions = {
  layout: Layout;
  /** Null for a gateway of its own. */
  cluster: AppsOfCluster | null;
  registry: Registry;
  deployments: Deployments;
  jobs: Jobs;
  databases: Pick<Databases, 'settle'>;
  web: WebClient;
};

/** `name` null: as the files say. `origin` is where the gateway is reached, `maker` and `by` say who asks. */
type Wanted = Pick<PublishOptions, 'maker' | 'by'> & { id: string; name: string | null; origin: string };

/** The version that serves. */
type Live = { folders: VersionFolders; versionName: string };

export class NewApps {
  readonly #options: NewAppsOptions;

  constructor(options: NewAppsOptions) {
    this.#options = options;
  }

  /** Of an archive, .tar.gz or .zip. `received` is called once `body` is there, and may throw. Rejects with `CONFLICT`, and as an upload does. */
  async fromArchive(body: Readable, wanted: Wanted, received: () => void): Promise<UploadAnswer> {
    // It may fail before it is read, and an error without a listener would end the process.
    body.on('error', () => {});
    checkAppId(wanted.id);
    return this.#inFolder(async (folder) => {
      const archive = join(folder, 'sent');
      if (body.errored) throw body.errored;
      await pipeline(body, createWriteStream(archive, { flags: 'wx', mode: 0o600 }));
      received();
      return this.#place(archive, wanted);
    });
  }

  /** Of an archive at an address of the web. Rejects as `WebClient.open` and `fromArchive` do. */
  async fromAddress(url: string, wanted: Wanted): Promise<UploadAnswer> {
    const { web } = this.#options;
    checkAppId(wanted.id);
    return this.#inFolder(async (folder) => {
      const archive = join(folder, 'sent');
      const { signal, release } = joinSignals([], LIMITS.appFetchMs);
      try {
        const response = await web.open(url, signal);
        await pipeline(response, limited(LIMITS.uploadBodyBytes), createWriteStream(archive, { mode: 0o600 }), {
          signal,
        });
      } catch (error) {
        if (error instanceof SvcError) throw error;
        const why = signal.aborted ? 'it took too long' : (error as Error).message;
        throw new SvcError('FETCH_FAILED', `The address cannot be fetched: ${why}.`, { path: 'url', cause: error });
      } finally {
        release();
      }
      return this.#place(archive, wanted);
    });
  }

  /**
   * Like the app `from`, with its code; with `data` also its database, files and settings. Automations are off, and webhooks have
   * addresses of their own; secrets, tokens and history stay with the other app.
   */
  async duplicate(from: string, wanted: Wanted, { data }: { data: boolean }): Promise<UploadAnswer> {
    const { layout, registry, cluster } = this.#options;
    checkAppId(wanted.id);
    if (cluster === null || cluster.serves(from)) {
      const live = await this.#live(from);
      if (data) await registry.checkData(from);
      return this.#duplicate({ app: from, paths: layout.app(from) }, live, wanted, data);
    }
    return this.#inFolder(async (folder) => {
      const copied = new Layout(folder, undefined, 'code-store');
      await cluster.copyApp(from, copied, { data });
      const app = copied.app(from);
      const current = await readCurrent(app);
      const active = current === null || current === 'damaged' ? null : await readVersion(app, current.activeVersion);
      return this.#duplicate({ app: null, paths: app }, await liveOf(from, app, active), wanted, data);
    });
  }

  /** `app` is null where its files are a copy. */
  async #duplicate(
    from: { app: string | null; paths: AppPaths },
    { folders, versionName }: Live,
    { id, name, ...asked }: Wanted,
    data: boolean,
  ): Promise<UploadAnswer> {
    const { layout, registry, deployments, jobs, databases } = this.#options;
    const names = new Set((await registry.states()).map(({ id: one, active }) => active?.name ?? one));
    const called = name ?? freeName(versionName, (candidate) => names.has(candidate));
    const fill = async (to: string) =>
      void (await jobs.layOut({ source: { version: folders, asNew: true }, to, id, name: called }));
    // With data it is live once it has them: a crash before that leaves an app that is not published.
    const placed = await deployments.place(id, fill, { ...asked, isNew: true, activate: !data });
    if (!data) return placed;
    try {
      await deployments.hold(id, async () => {
        if ((await registry.state(id)).active !== null)
          throw new SvcError('CONFLICT', `Somebody published "${id}" before it had its data; try again.`);
        await jobs.seed({ from: from.paths.data, to: layout.app(id).data }, from.app);
        await databases.settle(id);
        await copyKept(from.paths, layout.app(id));
      });
      const { webhooks } = await deployments.activate(id, placed.versionId, { origin: asked.origin });
      return { ...placed, activeVersion: placed.versionId, webhooks: [...placed.webhooks, ...webhooks] };
    } catch (error) {
      await deployments.remove(id, { purge: true });
      throw error;
    }
  }

  /** Stores the live version with these changes as a new one, which is live then. */
  async change(app: string, change: AppChange, asked: PublishOptions): Promise<UploadAnswer> {
    const { deployments, jobs } = this.#options;
    const { folders, versionName } = await this.#live(app);
    const source = { version: folders, asNew: false };
    return deployments.place(
      app,
      async (to) => {
        await jobs.layOut({ source, to, id: app, name: versionName });
        await changeApp(to, change);
      },
      asked,
    );
  }

  async #live(app: string): Promise<Live> {
    const { layout, registry } = this.#options;
    return liveOf(app, layout.app(app), (await registry.state(app)).active);
  }

  #place(archive: string, { id, name, ...asked }: Wanted): Promise<UploadAnswer> {
    const { deployments, jobs } = this.#options;
    const fill = async (to: string) => void (await jobs.layOut({ source: { sent: archive }, to, id, name }));
    return deployments.place(id, fill, { ...asked, isNew: true });
  }

  async #inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
    const folder = stagingFolder(this.#options.layout);
    await mkdir(folder, { mode: 0o700 });
    try {
      return await work(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

async function liveOf(app: string, paths: AppPaths, active: VersionSummary | null): Promise<Live> {
  if (active === null) throw new SvcError('NO_ACTIVE_VERSION', `"${app}" has no active version; activate one first.`);
  const { code, prepared } = paths.version(active.versionId);
  // On the git store it is a link, which jobs do not follow.
  return { folders: { code: await realpath(code), prepared }, versionName: active.name };
}

/** What lies beside the database and belongs to the data. Files are named by their content, so half a copy is whole for what it has. */
async function copyKept(from: AppPaths, to: AppPaths): Promise<void> {
  if (await exists(from.settings)) await copyFile(from.settings, to.settings);
  const names = await namesIn(from.blobsDir);
  if (names.length > 0) await mkdir(to.blobsDir, { recursive: true, mode: 0o700 });
  for (const name of names) await copyFile(join(from.blobsDir, name), join(to.blobsDir, name));
}

/** Ends with an error once more than `most` bytes have come. */
function limited(most: number): Transform {
  let size = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      if (size > most)
        done(new SvcError('ARCHIVE_TOO_LARGE', `The address has more than ${most} bytes.`, { path: 'url' }));
      else done(null, chunk);
    },
  });
}
