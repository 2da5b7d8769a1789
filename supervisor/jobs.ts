/** The pool of job threads. It holds no thread while there is nothing to do. */
import type { Piscina } from 'piscina';
import type { SeedJob, SeedResult, SnapshotJob, SnapshotResult } from '../protocol/drafts.ts';
import { type ErrorCode, errorFromBody, SvcError } from '../protocol/errors.ts';
import type { GitOperation, GitOperations } from '../protocol/git-jobs.ts';
import type {
  CheckJob,
  CheckResult,
  IngestJob,
  IngestResult,
  JobAnswer,
  PackJob,
  PackResult,
} from '../protocol/jobs.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { SessionFilesJob, SessionFilesResult } from '../protocol/session-files.ts';
import type { LayOutJob, LayOutResult } from '../protocol/templates.ts';

export type JobsOptions = {
  /** The module of the job threads, `dist/job.js`. */
  file: string;
  jobMs?: number;
  memoryMb?: number;
  /** Threads at most, and how long one without work is kept. */
  threads?: number;
  idleMs?: number;
};

export class Jobs {
  readonly #file: string;
  readonly #jobMs: number;
  readonly #memoryMb: number;
  readonly #threads: number;
  readonly #idleMs: number;
  #pool: Promise<Piscina> | undefined;
  /** Why the last pool was given up. */
  #failure: unknown;

  constructor({
    file,
    jobMs = LIMITS.jobMs,
    memoryMb = LIMITS.jobMemoryMb,
    threads = LIMITS.jobThreads,
    idleMs = LIMITS.jobIdleMs,
  }: JobsOptions) {
    this.#file = file;
    this.#jobMs = jobMs;
    this.#memoryMb = memoryMb;
    this.#threads = threads;
    this.#idleMs = idleMs;
  }

  /** Checks and stages an uploaded archive. Rejects with the archive's or manifest's error. */
  ingest(job: IngestJob): Promise<IngestResult> {
    return this.#run('ingest', job, UPLOAD, this.#jobMs);
  }

  /** Checks the manifest of a stored version again. Rejects with `INVALID_MANIFEST`. */
  check(job: CheckJob): Promise<CheckResult> {
    return this.#run('check', job, UPLOAD, this.#jobMs);
  }

  /** Reads or writes the files of an app in a session. Rejects with the errors of archives, `NOT_FOUND`, `PRECONDITION_FAILED`. */
  sessionFiles<W extends SessionFilesJob['work']>(job: SessionFilesJob & { work: W }): Promise<SessionFilesResult[W]> {
    return this.#run('sessionFiles', job, FILES, this.#jobMs);
  }

  /** Puts the files of a new app into a folder. */
  layOut(job: LayOutJob): Promise<LayOutResult> {
    return this.#run('layOut', job, FILES, this.#jobMs);
  }

  /** Packs a part of a backup. Rejects with the job's own error. */
  pack(job: PackJob): Promise<PackResult> {
    return this.#run('pack', job, BACKUP, LIMITS.backupPartMs);
  }

  /** Does an operation on the repository of the git store. Rejects with its error. */
  git<O extends GitOperation>(operation: O, job: GitOperations[O]['job']): Promise<GitOperations[O]['result']> {
    const jobMs = operation.endsWith('Bundle') ? LIMITS.backupPartMs : this.#jobMs;
    return this.#run('git', { operation, ...job }, GIT, jobMs);
  }

  /** Copies and prepares the files of a draft. Rejects with what an upload of them would be refused with. */
  snapshot(job: SnapshotJob): Promise<SnapshotResult> {
    return this.#run('snapshot', job, DRAFT, this.#jobMs);
  }

  /** Copies live data for a draft. */
  seed(job: SeedJob): Promise<SeedResult> {
    return this.#run('seed', job, SEED, LIMITS.draftSeedMs);
  }

  /** Job threads that live now. */
  async threads(): Promise<number> {
    return this.#pool === undefined ? 0 : (await this.#pool).threads.length;
  }

  /** Ends every thread; jobs under way reject. */
  async close(): Promise<void> {
    const pool = await this.#pool;
    await pool?.destroy();
  }

  async #run<T>(name: string, job: object, subject: Subject, jobMs: number): Promise<T> {
    this.#pool ??= this.#start();
    const started = this.#pool;
    const pool = await started;
    const signal = AbortSignal.timeout(jobMs);
    let answer: JobAnswer<T>;
    try {
      answer = (await pool.run(job, { name, signal })) as JobAnswer<T>;
    } catch (error) {
      throw jobError(this.#pool === started ? error : this.#failure, subject, signal.aborted);
    }
    if (!answer.ok) throw errorFromBody(answer.error);
    return answer.value;
  }

  /** piscina is loaded with the first job: most starts of a gateway have none. */
  async #start(): Promise<Piscina> {
    const { Piscina } = await import('piscina');
    const pool = new Piscina({
      filename: this.#file,
      minThreads: 0,
      maxThreads: this.#threads,
      maxQueue: LIMITS.jobQueue,
      idleTimeout: this.#idleMs,
      resourceLimits: { maxOldGenerationSizeMb: this.#memoryMb },
    });
    // A thread failed without a job, as one does whose module cannot be loaded: piscina would let the jobs wait for ever.
    pool.on('error', (error: unknown) => {
      this.#pool = undefined;
      this.#failure = error;
      void pool.destroy();
    });
    return pool;
  }
}

/** What a job is about, for the errors of the thread that does it. */
type Subject = { code: ErrorCode; work: string; advice: string };

const UPLOAD: Subject = {
  code: 'INVALID_ARCHIVE',
  work: 'Checking the upload',
  advice: 'make it or its schemas simpler',
};
const FILES: Subject = { code: 'ARCHIVE_TOO_LARGE', work: 'Reading the files of a session', advice: 'make them fewer' };
const DRAFT: Subject = {
  code: 'ARCHIVE_TOO_LARGE',
  work: 'Preparing the draft',
  advice: 'make its files fewer or its schemas simpler',
};
const SEED: Subject = {
  code: 'OVERLOADED',
  work: 'Copying the live data',
  advice: 'try again when the gateway has less to do',
};
const BACKUP: Subject = { code: 'BACKUP_TOO_LARGE', work: 'Packing an app', advice: 'its data or code is too large' };
const GIT: Subject = { code: 'OVERLOADED', work: 'Working on the git repository', advice: 'try again' };

/** A thread that died takes its own job with it, and no other. */
function jobError(error: unknown, { code, work, advice }: Subject, timedOut: boolean): SvcError {
  if (timedOut) return new SvcError(code, `${work} took too long; ${advice}.`);
  const { code: found, message } = error as { code?: unknown; message?: string };
  if (found === 'ERR_WORKER_OUT_OF_MEMORY') return new SvcError(code, `${work} took too much memory; ${advice}.`);
  if (message === 'Task queue is at limit') {
    return new SvcError('OVERLOADED', 'Too many uploads are being checked; try again.', {
      headers: { 'retry-after': '5' },
    });
  }
  return new SvcError('INTERNAL', 'A job of the gateway failed; the log has the details.', { cause: error });
}
