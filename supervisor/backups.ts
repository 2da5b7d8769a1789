/** Backups of a gateway that runs: made by job threads, app by app, while everybody goes on working. */
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { SvcError } from '../protocol/errors.ts';
import type { PackJob, PackResult } from '../protocol/jobs.ts';
import { BackupWorkspace } from '../storage/backup/pack.ts';
import { takeBackup } from '../storage/backup/take.ts';
import type { Layout } from '../storage/layout.ts';
import { type Config, defaultConfig } from './config.ts';

export type BackupsOptions = {
  layout: Layout;
  config: Config;
  svcVersion: string;
  /** Ids of the apps that are registered. */
  apps(): readonly string[];
  /** As in `BackupPlan`. */
  hold(app: string, work: () => Promise<void>): Promise<number | null>;
  pack(job: PackJob): Promise<PackResult>;
  now?(): number;
};

export class Backups {
  readonly #options: BackupsOptions;
  readonly #stopping = new AbortController();
  #underWay: Promise<unknown> | null = null;

  constructor(options: BackupsOptions) {
    this.#options = options;
  }

  /**
   * Makes a backup and gives its file to `use`; when that is done, or the signal says that nobody wants it any more, nothing
   * of it is left. Rejects with `CONFLICT` while another one is under way, and with `STORAGE_FULL` or `BACKUP_TOO_LARGE`.
   */
  async take(signal: AbortSignal, use: (archive: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#underWay !== null)
      throw new SvcError('CONFLICT', 'A backup is being made already; try again when it is done.');
    const work = this.#take(AbortSignal.any([signal, this.#stopping.signal]), use);
    this.#underWay = work.catch(() => {});
    try {
      await work;
    } finally {
      this.#underWay = null;
    }
  }

  /** Ends the one that is under way; resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#stopping.abort(new SvcError('OVERLOADED', 'The gateway is stopping; the backup was given up.'));
    await this.#underWay;
  }

  async #take(signal: AbortSignal, use: (archive: string, signal: AbortSignal) => Promise<void>): Promise<void> {
    const { layout, config, svcVersion, apps, hold, pack, now = Date.now } = this.#options;
    const folder = join(layout.tmpDir, `backup-${randomUUID()}`);
    // The job looks at it between two chunks; a thread that is ended in the middle would still be writing when we clean up.
    const cancelled = new Int32Array(new SharedArrayBuffer(4));
    const cancel = () => Atomics.store(cancelled, 0, 1);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      signal.throwIfAborted();
      await mkdir(folder, { mode: 0o700 });
      await takeBackup({
        layout,
        config: configText(config),
        svcVersion,
        takenAt: now(),
        apps: [...apps()],
        hold,
        pack: async (work) => {
          signal.throwIfAborted();
          return pack({ workspace: folder, work, cancelled });
        },
      });
      signal.throwIfAborted();
      await use(new BackupWorkspace(folder).archive, signal);
    } finally {
      signal.removeEventListener('abort', cancel);
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** What was set, and would be set the same on another machine: a file for `svc serve --config`. */
function configText(config: Config): string {
  const defaults: Record<string, unknown> = defaultConfig('');
  // In the backup the git store lies in its usual place.
  const place = config.appsStoreRoot === null ? {} : { appsStoreRoot: 'code-store' };
  const set = Object.entries({ ...config, ...place }).filter(
    ([key, value]) => key !== 'dataDir' && key !== 'appsDir' && JSON.stringify(value) !== JSON.stringify(defaults[key]),
  );
  return `${JSON.stringify(Object.fromEntries(set), null, 2)}\n`;
}
