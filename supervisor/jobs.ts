/** The pool of job threads. It holds no thread while there is nothing to do. */
import type { Piscina } from 'piscina';
import { type ErrorCode, errorFromBody, SvcError } from '../protocol/errors.ts';
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

export type JobsOptions = {
  /** The module of the job threads, `dist/job.js`. */
  file: string;
  jobMs?: number;
  memoryMb?: number;
};

export class Jobs {
  readonly #file: string;
  readonly #jobMs: number;
  readonly #memoryMb: number;
  #pool: Promise<Piscina> | undefined;
  /** Why the last pool was given up. */
  #failure: unknown;

  constructor({ file, jobMs = LIMITS.jobMs, memoryMb = LIMITS.jobMemoryMb }: JobsOptions) {
    this.#file = file;
    this.#jobMs = jobMs;
    this.#memoryMb = memoryMb;
  }

  /** Checks and stages an uploaded archive. Rejects with the archive's or manifest's error. */
  ingest(job: IngestJob): Promise<IngestResult> {
    return this.#run('ingest', job, UPLOAD, this.#jobMs);
  }

  /** Checks the manifest of a stored version again. Rejects with `INVALID_MANIFEST`. */
  check(job: CheckJob): Promise<CheckResult> {
    return this.#run('check', job, UPLOAD, this.#jobMs);
  }

  /** Packs a part of a backup. Rejects with the job's own error. */
  pack(job: PackJob): Promise<PackResult> {
    return this.#run('pack', job, BACKUP, LIMITS.backupPartMs);
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

  async #run<T>(name: string, job: IngestJob | CheckJob | PackJob, subject: Subject, jobMs: number): Promise<T> {
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
      maxThreads: LIMITS.jobThreads,
      maxQueue: LIMITS.jobQueue,
      idleTimeout: LIMITS.jobIdleMs,
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
const BACKUP: Subject = { code: 'BACKUP_TOO_LARGE', work: 'Packing an app', advice: 'its data or code is too large' };

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
