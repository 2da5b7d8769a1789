/** Backs up a running gateway: job threads pack app by app, while calls go on. */
import { randomUUID } from 'node:crypto';
import { mkdir, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DATA_FORMAT } from '../../protocol/data-format.ts';
import { SvcError } from '../../protocol/errors.ts';
import { joinSignals } from '../../protocol/signals.ts';
import type { BackupSource, PackJob, VerifyResult } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import type { BackupSchedule } from '../../storage/backup/kept.ts';
import { makeBackup } from '../../storage/backup/make-backup.ts';
import { BackupWorkspace } from '../../storage/backup/pack.ts';
import type { Layout } from '../../storage/layout.ts';
import { type Config, defaultConfig } from '../config.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { Jobs } from '../jobs/jobs.ts';

type BackupsOptions = {
  layout: Layout;
  config: Config;
  svcVersion: string;
  registry: Registry;
  deployments: Deployments;
  jobs: Jobs;
  /** The one in force, for the configuration in the backup. */
  schedule: () => BackupSchedule | null;
};

type Use<T> = (archive: string, signal: AbortSignal) => Promise<T>;

export class Backups {
  readonly #options: BackupsOptions;
  readonly #stopping = new AbortController();
  #underWay: Promise<unknown> | null = null;

  constructor(options: BackupsOptions) {
    this.#options = options;
  }

  /**
   * Makes a backup and gives its file to `use`. When that is done, or the signal aborts, the backup is removed. Rejects with `CONFLICT` while another one is under way, and with `STORAGE_FULL` or `BACKUP_TOO_LARGE`.
   */
  async make<T>(signal: AbortSignal, use: Use<T>): Promise<T> {
    if (this.#underWay !== null)
      throw new SvcError('CONFLICT', 'A backup is already running; try again when it is done.');
    const joined = joinSignals([signal, this.#stopping.signal]);
    const work = this.#make(joined.signal, use);
    this.#underWay = work.catch(() => {});
    try {
      return await work;
    } finally {
      joined.release();
      this.#underWay = null;
    }
  }

  /** As `make`, once the one that is under way is done. */
  async makeNext<T>(signal: AbortSignal, use: Use<T>): Promise<T> {
    while (this.#underWay !== null) await this.#underWay;
    return this.make(signal, use);
  }

  /** Reads a backup anywhere, as a restore would. Rejects with `INVALID_BACKUP` and as `make` does. */
  async verify(file: string, signal: AbortSignal): Promise<VerifyResult & { bytes: number }> {
    const { size } = await stat(file);
    const verified = await this.#reaching(file, (workspace) => this.#options.jobs.verifyBackup({ workspace }, signal));
    return { ...verified, bytes: size };
  }

  /** A job reaches it by a link in a folder of its own. */
  async #reaching<T>(file: string, work: (workspace: string) => Promise<T>): Promise<T> {
    const folder = join(this.#options.layout.tmpDir, `backup-${randomUUID()}`);
    try {
      await mkdir(folder, { mode: 0o700 });
      await symlink(file, new BackupWorkspace(folder).archive);
      return await work(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Verifies a backup anywhere, and puts the data of an app that it has at `to`: how many migrations it has had. */
  extractData(app: string, file: string, to: string): Promise<number> {
    return this.#reaching(file, async (workspace) => {
      const { userVersion } = await this.#options.jobs.appData({ extract: { workspace, app, to } });
      return userVersion;
    });
  }

  /** Cancels the one that is under way; resolves when its files are gone. */
  async stop(): Promise<void> {
    this.#stopping.abort(new SvcError('OVERLOADED', 'The gateway is stopping; the backup was cancelled.'));
    await this.#underWay;
  }

  async #make<T>(signal: AbortSignal, use: Use<T>): Promise<T> {
    const { layout, config, svcVersion, registry, deployments, jobs, schedule } = this.#options;
    const folder = join(layout.tmpDir, `backup-${randomUUID()}`);
    try {
      signal.throwIfAborted();
      await mkdir(folder, { mode: 0o700 });
      await makeBackup({
        layout,
        config: configText({ ...config, backups: schedule() }),
        svcVersion,
        takenAt: Date.now(),
        dataFormat: DATA_FORMAT,
        apps: [...registry.ids()],
        hold: async (app, work) => {
          // Another node has it by now, and its backup.
          if (registry.refusalOf(app) !== null) return null;
          if (registry.has(app)) await deployments.checkData(app);
          return deployments.hold(app, work);
        },
        makerOf: (app) => registry.makerOf(app),
        lostData: (app) => {
          const damage = registry.damages.of(app);
          return damage?.lost ? damage.what : null;
        },
        pack: async (work) => {
          signal.throwIfAborted();
          // The job looks at it between two chunks; a thread that is ended in the middle would still be writing when we clean up.
          return jobs.pack({ workspace: folder, work: await this.#within(folder, work) }, signal);
        },
      });
      signal.throwIfAborted();
      return await use(new BackupWorkspace(folder).archive, signal);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** The data directory itself is closed to jobs: the files in it are reached by links. */
  async #within(folder: string, work: PackJob['work']): Promise<PackJob['work']> {
    if ('finish' in work) return work;
    const { dataDir } = this.#options.layout;
    const sources = work.sources.map(async (source): Promise<BackupSource> => {
      if (source.kind === 'text' || dirname(source.from) !== dataDir) return source;
      const link = join(folder, basename(source.from));
      await symlink(source.from, link);
      return { ...source, from: link };
    });
    return { sources: await Promise.all(sources) };
  }
}

/** Settings that also apply on another machine: a file for `svc serve --config`. */
function configText(config: Config): string {
  const defaults: Record<string, unknown> = defaultConfig('');
  // In the backup the git store lies in its usual place.
  const place = config.appsStoreRoot === null ? {} : { appsStoreRoot: 'code-store' };
  const set = Object.entries({ ...config, ...place }).filter(
    ([key, value]) => key !== 'dataDir' && key !== 'appsDir' && JSON.stringify(value) !== JSON.stringify(defaults[key]),
  );
  return `${JSON.stringify(Object.fromEntries(set), null, 2)}\n`;
}
