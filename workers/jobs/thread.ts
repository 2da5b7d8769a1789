/** The job thread: what costs CPU or disk on behalf of the supervisor. piscina calls the exported functions by name. Entry of dist/job.js. */
import type { SeedJob, SeedResult, SnapshotJob, SnapshotResult } from '../../protocol/drafts.ts';
import { type ErrorBody, isDiskFull, SvcError } from '../../protocol/errors.ts';
import type { GitJob, GitOperation, GitOperations } from '../../protocol/git-jobs.ts';
import type {
  CheckJob,
  CheckResult,
  IngestJob,
  IngestResult,
  JobAnswer,
  OutputJob,
  PackJob,
  PackResult,
} from '../../protocol/jobs.ts';
import type { SessionFilesJob, SessionFilesResult } from '../../protocol/session-files.ts';
import type { LayOutJob, LayOutResult } from '../../protocol/templates.ts';
import { beginJob, type JobMemory } from './control.ts';
import { takeSnapshot } from './draft.ts';
import * as jobs from './ingest.ts';

/** A job, and the memory by which the process watches it. */
type Order<T> = { job: T; memory: JobMemory };

export function ingest({ job, memory }: Order<IngestJob>): Promise<JobAnswer<IngestResult>> {
  return answer(memory, () => jobs.ingest(job));
}

export function check({ job, memory }: Order<CheckJob>): Promise<JobAnswer<CheckResult>> {
  return answer(memory, () => jobs.check(job));
}

export function judgeOutput({ job, memory }: Order<OutputJob>): Promise<JobAnswer<void>> {
  return answer(memory, async () => (await import('./output.ts')).judgeOutput(job));
}

/** Loaded on use: it brings SQLite into the thread. */
export function pack({ job, memory }: Order<PackJob>): Promise<JobAnswer<PackResult>> {
  return answer(memory, async () => (await import('./pack.ts')).pack(job));
}

/** Loaded on use: uploads have no need of it. */
export function sessionFiles({
  job,
  memory,
}: Order<SessionFilesJob>): Promise<JobAnswer<SessionFilesResult[SessionFilesJob['work']]>> {
  return answer(memory, async () => (await import('./session-files.ts')).sessionFiles(job));
}

/** Loaded on use likewise. */
export function layOut({ job, memory }: Order<LayOutJob>): Promise<JobAnswer<LayOutResult>> {
  return answer(memory, async () => (await import('./lay-out.ts')).layOut(job));
}

/** Loaded on use: uploads need none of it. */
export function git({ job, memory }: Order<GitJob>): Promise<JobAnswer<GitOperations[GitOperation]['result']>> {
  return answer(memory, async () => (await import('./git/run-operation.ts')).runGit(job));
}

export function snapshot({ job, memory }: Order<SnapshotJob>): Promise<JobAnswer<SnapshotResult>> {
  return answer(memory, async () => takeSnapshot(job));
}

/** Loaded on use: it brings SQLite into the thread. */
export function seed({ job, memory }: Order<SeedJob>): Promise<JobAnswer<SeedResult>> {
  return answer(memory, async () => (await import('./seed.ts')).seed(job));
}

/** A fault of our own rejects, with its stack for the log. */
async function answer<T>(memory: JobMemory, work: () => Promise<T>): Promise<JobAnswer<T>> {
  beginJob(memory);
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    const body = errorBody(error);
    if (body === null) throw error;
    return { ok: false, error: body };
  }
}

function errorBody(error: unknown): ErrorBody | null {
  if (error instanceof SvcError) return error.toBody();
  if (isDiskFull(error)) return new SvcError('STORAGE_FULL', 'The disk is full; nothing was changed.').toBody();
  return null;
}
