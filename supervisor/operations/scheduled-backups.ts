/** Makes backups on schedule, verifies them, keeps them in a folder, and removes the oldest (specification, "Backups"). */

import { rm } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import type { Logger } from 'pino';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { DEFAULTS } from '../../protocol/limits.ts';
import type { BackupFile, BackupStatus } from '../../protocol/routes/operations/backups-rows.ts';
import { joinSignals } from '../../protocol/signals.ts';
import type { DamagedPart } from '../../protocol/wire/jobs.ts';
import {
  type BackupRecord,
  type BackupSchedule,
  checkFolder,
  freeName,
  listBackups,
  moveBackupBeside,
  nameBackup,
  pruneBackups,
  readBackupRecord,
  removeUnfinished,
  writeBackupRecord,
} from '../../storage/backup/kept.ts';
import { exists } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import type { InternalAutomation, Scheduler } from '../automations/schedule/scheduler.ts';
import type { ConfiguredSchedule } from './backup-schedule.ts';
import type { Backups } from './backups.ts';

export type ScheduledBackupsOptions = {
  layout: Layout;
  /** The schedule of the configuration file, which no command changes. */
  configured: ConfiguredSchedule | null;
  backups: Backups;
  /** That of the automations: the schedule is one of them, which no catalog lists. */
  scheduler: Pick<Scheduler<InternalAutomation>, 'reconcile' | 'nextRunAt'>;
  /** Milliseconds since the epoch. */
  now: () => number;
  /** One was made, or failed: `failure` says why, else it is null. */
  onMade?(failure: string | null): void;
  log: Logger;
};

/** No app has such an id. */
const REF = '_backup';

type Keeping = { folder: string; takenAt: number; keep: number };
type Made = { file: string; bytes: number; damaged: string | null };

export class ScheduledBackups {
  readonly #options: ScheduledBackupsOptions;
  readonly #stopping = new AbortController();
  #record: BackupRecord | null = null;
  #working: Promise<void> | null = null;
  /** The latest scheduled time that came since the start, which the one under way deals with; 0 before the first. */
  #dueUntil = 0;
  #failures = 0;

  constructor(options: ScheduledBackupsOptions) {
    this.#options = options;
  }

  /** Reads what was made by now. Called before the scheduler starts, so that a time that was missed meanwhile is made up, once. */
  async open(): Promise<void> {
    const { layout, now, log } = this.#options;
    this.#record = await readBackupRecord(layout.backupRecord, () =>
      log.warn('backups.json is damaged: a schedule that was set by a command has to be set again.'),
    );
    await removeUnfinished(this.#record.files);
    const { schedule } = this;
    if (schedule !== null) {
      await this.#checkFolder(schedule).catch((error: Error) =>
        log.warn(`Backups on schedule will fail: ${error.message}`),
      );
      // A schedule that never fired has missed nothing; from now on it may.
      this.#record.doneUntil ??= now();
      await this.#save();
    }
    this.#watch();
  }

  /** The one that is in force, as the configuration has it. */
  get schedule(): BackupSchedule | null {
    const { configured } = this.#options;
    if (configured === null) return this.#record?.schedule ?? null;
    return { ...DEFAULTS.backups, ...configured };
  }

  status(): BackupStatus {
    const { schedule } = this;
    const { lastSuccess, lastFailure, failing } = this.#known();
    const state = failing ? 'failed' : lastSuccess !== null ? 'ok' : 'waiting';
    return {
      state: schedule === null ? 'off' : state,
      running: this.#working !== null,
      schedule: schedule && {
        ...schedule,
        dir: this.#folder(schedule),
        setBy: this.#options.configured === null ? 'command' : 'configuration',
      },
      nextAt: this.#options.scheduler.nextRunAt(REF),
      lastSuccess,
      lastFailure,
      failures: this.#failures,
    };
  }

  /** The good ones that were made and are still there, and the last damaged one, newest first. */
  files(): Promise<BackupFile[]> {
    const { files, damagedFile } = this.#known();
    return listBackups([...files, ...(damagedFile === null ? [] : [damagedFile])]);
  }

  /** Begins one now, as if its time had come; without a schedule where one would be kept by default. Throws `CONFLICT` while one is made. */
  makeNow(): void {
    if (this.#working !== null) throw new SvcError('CONFLICT', 'A backup is being made already; see when it is done.');
    this.#begin(this.schedule ?? { cron: '', ...DEFAULTS.backups });
  }

  /** Reads one of `files` again, as a restore would. Rejects with `NOT_FOUND` and `INVALID_BACKUP`. */
  async verify(name: string, signal: AbortSignal): Promise<BackupFile> {
    const found = await this.#kept(name);
    if (found === undefined) throw noBackup(name);
    const joined = joinSignals([signal, this.#stopping.signal]);
    try {
      const { damaged } = await this.#options.backups.verify(found.file, joined.signal);
      return { ...found, damaged: damaged.length > 0 };
    } finally {
      joined.release();
    }
  }

  /** The path of a backup on this machine: one of `files` by its name, or another by its absolute path. Rejects with `NOT_FOUND`. */
  async fileOf(named: string): Promise<string> {
    const file = (await this.#kept(named))?.file ?? named;
    if (!isAbsolute(file) || !(await exists(file))) throw noBackup(named);
    return file;
  }

  async #kept(name: string): Promise<BackupFile | undefined> {
    return (await this.files()).find((file) => file.name === name);
  }

  /** Null ends it. Rejects with `CONFLICT` where the configuration has one, `BACKUP_FOLDER`, and `STORAGE_FULL`. */
  async set(schedule: BackupSchedule | null): Promise<void> {
    if (this.#options.configured !== null)
      throw new SvcError(
        'CONFLICT',
        'The configuration file has "backups". Change it there, and start the gateway again.',
      );
    const record = this.#known();
    if (schedule !== null) await this.#checkFolder(schedule, true);
    await writeBackupRecord(this.#options.layout.backupRecord, { ...record, schedule });
    record.schedule = schedule;
    this.#watch();
    await this.#save();
  }

  /** Aborts a backup under way, which the next start makes up. Resolves when its files are gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#options.scheduler.reconcile(REF, []);
    await this.#options.backups.stop();
    await this.#working;
  }

  #watch(): void {
    const { schedule } = this;
    const automations = schedule === null ? [] : [this.#automation(schedule)];
    this.#options.scheduler.reconcile(REF, automations);
  }

  #automation({ cron }: BackupSchedule): InternalAutomation {
    return {
      ref: REF,
      manifest: { enabled: true, triggers: [{ kind: 'cron', expr: cron, catchUp: true }] },
      internal: {
        fire: (scheduledAt) => this.#fire(scheduledAt),
        lastFired: async () => this.#known().doneUntil,
        watchedFrom: (at) => {
          this.#known().doneUntil = at;
        },
      },
    };
  }

  /** One at a time: the running backup also counts for a time that comes meanwhile. */
  #fire(scheduledAt: number): void {
    this.#dueUntil = scheduledAt;
    const { schedule } = this;
    if (schedule === null || this.#working !== null) return;
    this.#begin(schedule);
  }

  #begin(schedule: BackupSchedule): void {
    this.#working = this.#make(schedule).then((failure) => {
      this.#working = null;
      // Last: whoever hears of it may begin another one at once.
      if (failure !== undefined) this.#options.onMade?.(failure);
    });
  }

  /** Resolves with why it failed, null for a good one, undefined for one that a stop ended. Never rejects. */
  async #make(schedule: BackupSchedule): Promise<string | null | undefined> {
    const { now, log } = this.#options;
    const record = this.#known();
    const startedAt = now();
    let failure: string | null = null;
    try {
      const { file, bytes, damaged } = await this.#makeFile(schedule, startedAt);
      const at = now();
      if (damaged !== null) throw new SvcError('INVALID_BACKUP', damaged);
      record.lastSuccess = { at, file, bytes, ms: at - startedAt };
      record.failing = false;
      log.info({ file, bytes, ms: at - startedAt }, 'A backup was made and verified.');
    } catch (error) {
      // The next start makes it up.
      if (this.#stopping.signal.aborted) return undefined;
      this.#failures++;
      const isKnown = error instanceof SvcError;
      failure = isKnown ? error.message : `${String(error)}. The log of the gateway has the details.`;
      record.lastFailure = { at: now(), message: failure };
      record.failing = true;
      log.error(isKnown ? { code: error.code } : { err: error }, `A backup on schedule failed: ${failure}`);
    }
    if (this.#dueUntil > 0) record.doneUntil = this.#dueUntil;
    await this.#save();
    return failure;
  }

  /** `damaged` says of what, in words; null for a good one. */
  async #makeFile(schedule: BackupSchedule, takenAt: number): Promise<Made> {
    const folder = this.#folder(schedule);
    await this.#checkFolder(schedule);
    let isTaken = false;
    // A backup that is being downloaded goes first.
    const making = this.#options.backups.makeNext(this.#stopping.signal, (archive, signal) => {
      isTaken = true;
      return this.#keep(archive, { folder, takenAt, keep: schedule.keep }, signal);
    });
    return making.catch((error: unknown) => {
      throw isTaken ? error : this.#explain(error);
    });
  }

  /** Verifies the archive in its folder before it gets its name. One that is damaged replaces the last such one; the good ones stay. */
  async #keep(archive: string, { folder, takenAt, keep }: Keeping, signal: AbortSignal): Promise<Made> {
    const record = this.#known();
    const good = await freeName(folder, takenAt, false);
    // Noted first: what a crash leaves under its name is found again.
    record.files = [...record.files, good];
    await this.#write();
    const arrived = await moveBackupBeside(archive, good, signal);
    try {
      const { bytes, damaged } = await this.#options.backups.verify(arrived, signal).catch((error: unknown) => {
        throw this.#explain(error);
      });
      if (damaged.length === 0) {
        await nameBackup(arrived, good);
        record.files = await pruneBackups(record.files, keep);
        return { file: good, bytes, damaged: null };
      }
      const file = await freeName(folder, takenAt, true);
      const last = record.damagedFile;
      record.damagedFile = file;
      await this.#write();
      await nameBackup(arrived, file);
      record.files = record.files.filter((other) => other !== good);
      if (last !== null) await pruneBackups([last], 0);
      const older = await listBackups(record.files);
      return { file, bytes, damaged: damageOf(damaged, file, older.length) };
    } catch (error) {
      await rm(arrived, { force: true }).catch(() => {});
      throw error;
    }
  }

  /** For failures in the folder for temporary files, not in that for backups. */
  #explain(error: unknown): unknown {
    const isFull = isDiskFull(error) || (error instanceof SvcError && error.code === 'STORAGE_FULL');
    if (!isFull) return error;
    const { tmpDir } = this.#options.layout;
    const message = `There is no room to make a backup: in ${tmpDir} it takes as much as the archive and a copy of the largest database. Free some space there.`;
    return new SvcError('STORAGE_FULL', message, { cause: error });
  }

  /** A folder that was used before and is gone is not made again, unless it is named now. */
  async #checkFolder(schedule: BackupSchedule, isNamed = false): Promise<void> {
    const record = this.#known();
    const folder = this.#folder(schedule);
    await checkFolder(folder, isNamed || record.folder !== folder);
    record.folder = folder;
  }

  #folder({ dir }: BackupSchedule): string {
    return isAbsolute(dir) ? dir : resolve(this.#options.layout.dataDir, dir);
  }

  #known(): BackupRecord {
    if (this.#record === null) throw new Error('Backups on schedule were not opened.');
    return this.#record;
  }

  #write(): Promise<void> {
    return writeBackupRecord(this.#options.layout.backupRecord, this.#known());
  }

  /** On a full disk it is kept in memory only. */
  async #save(): Promise<void> {
    await this.#write().catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'What is known of backups on schedule could not be written.'),
    );
  }
}

function noBackup(named: string): SvcError {
  return new SvcError('NOT_FOUND', `There is no backup "${named.slice(0, 200)}" on the machine of the gateway.`);
}

function damageOf(damaged: DamagedPart[], file: string, older: number): string {
  const which = damaged.map(({ path, integrity }) => `${path} (${integrity})`).join(', ');
  const app = damaged.map(({ path }) => /^apps\/([^/]+)\/data\.sqlite$/.exec(path)?.[1]).find((id) => id !== undefined);
  const command = app === undefined ? '' : `: svc repair ${app} --restore <backup>`;
  const others =
    older === 0
      ? 'there is no older good one.'
      : `older ones were kept. Restore one of them to look at what it had${command || '.'}`;
  return `A database is damaged: ${which}. The backup with it is ${file}; ${others}`;
}
