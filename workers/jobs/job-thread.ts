/** Runs jobs in a thread: piscina calls the exported functions by name. Entry of dist/job.cjs. */
import { readFileSync } from 'node:fs';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import type { GitJob } from '../../protocol/wire/git-jobs.ts';
import type {
  DataJob,
  DataResult,
  JobAnswer,
  LayOutJob,
  OutputJob,
  PackJob,
  TileJob,
  VerifyJob,
  WorkspaceFilesJob,
} from '../../protocol/wire/jobs.ts';
import { flushElsewhere } from '../../storage/files/flush.ts';
import { loadValidators } from '../handler/load-validators.ts';
import { checkOutput as checkAgainst } from '../handler/validators.ts';
import * as jobs from './content/ingest.ts';
import { beginJob, checkCancelled, timeLimited } from './control.ts';
import { makeSnapshot, seed as seedDraft } from './draft-job.ts';
import { flushesOfThread } from './flush-relay.ts';

flushElsewhere(flushesOfThread());

/** A function of the thread: it takes a job, and the memory by which the process watches it. A fault of our own rejects, with its stack for the log. */
function answers<J, R>(work: (job: J) => R | Promise<R>) {
  return async ({ job, memory }: { job: J; memory: SharedArrayBuffer }): Promise<JobAnswer<R>> => {
    beginJob(memory);
    try {
      return { ok: true, value: await work(job) };
    } catch (error) {
      if (error instanceof SvcError) return { ok: false, error: error.toBody() };
      if (!isDiskFull(error)) throw error;
      return { ok: false, error: new SvcError('STORAGE_FULL', 'The disk is full; nothing was changed.').toBody() };
    }
  };
}

export const ingest = answers(jobs.ingest);
export const review = answers(jobs.review);
export const check = answers(jobs.check);
export const prepareAgain = answers(jobs.prepareAgain);
export const snapshot = answers(makeSnapshot);
export const seed = answers(seedDraft);

/**
 * Checks the output of an embedding host's fire against the automation's `outputSchema`, as an actor's thread does. Fails with
 * `HANDLER_ERROR` and the first failing value in `path`.
 */
export const checkOutput = answers(({ validators, automation, output }: OutputJob) =>
  timeLimited((about) => {
    about(new SvcError('HANDLER_ERROR', 'Checking the output took too long; make it or its schema simpler.'));
    const { automations } = loadValidators(readFileSync(validators, 'utf8'));
    checkAgainst(automations, automation, () => (output === null ? undefined : JSON.parse(output)));
  }),
);

// The rest is loaded on use: uploads do not need it.

/** Fails with `OVERLOADED` when it was cancelled, and `STORAGE_FULL`, `BACKUP_TOO_LARGE` or `INVALID_BACKUP`. */
export const pack = answers(async ({ workspace, work }: PackJob) => {
  const { BackupWorkspace, packPart } = await import('../../storage/backup/pack.ts');
  return packPart(new BackupWorkspace(workspace), work, checkCancelled);
});

/** Fails as `pack` does. */
export const verifyBackup = answers(async ({ workspace }: VerifyJob) => {
  const { BackupWorkspace } = await import('../../storage/backup/pack.ts');
  const reading = await import('../../storage/backup/read-backup.ts');
  const { archive, databaseCopy } = new BackupWorkspace(workspace);
  const { damagedIn } = await import('../../storage/backup/format.ts');
  return { damaged: damagedIn(await reading.verifyBackup(archive, databaseCopy, checkCancelled)) };
});

/** Fails as `pack` does, and with `NOT_FOUND` for a backup without the app's data. */
export const appData = answers(async (job: DataJob): Promise<DataResult> => {
  if ('check' in job)
    return { integrity: (await import('../../storage/backup/backup-database.ts')).quickCheck(job.check) };
  const { BackupWorkspace } = await import('../../storage/backup/pack.ts');
  const { extractData } = await import('../../storage/backup/read-backup.ts');
  const { workspace, app, to } = job.extract;
  return extractData(new BackupWorkspace(workspace).archive, app, to, checkCancelled);
});

export const workspaceFiles = answers(async (job: WorkspaceFilesJob) =>
  (await import('./workspace-files-job.ts')).workspaceFiles(job),
);
export const drawTile = answers(async (job: TileJob) => (await import('./content/drawn-icons.ts')).drawTile(job));
export const layOut = answers(async (job: LayOutJob) => (await import('./lay-out.ts')).layOut(job));
export const git = answers(async (job: GitJob) => (await import('./git/operations.ts')).runGit(job));
