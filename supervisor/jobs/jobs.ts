/**
 * Sends jobs to the threads of the jobs process (workers/jobs): work that costs CPU or disk, or reads untrusted input. Keeps
 * the waiting and running jobs, and repeats or fails them when the process dies.
 */
import { basename, dirname } from 'node:path';
import { type ErrorCode, errorFromBody, type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import type { GitOperation, GitOperations } from '../../protocol/wire/git-jobs.ts';
import type {
  CheckJob,
  CheckResult,
  DataJob,
  DataResult,
  IngestJob,
  IngestResult,
  JobAnswer,
  JobFailure,
  JobName,
  LayOutJob,
  LayOutResult,
  OutputJob,
  PackJob,
  PackResult,
  PrepareJob,
  SeedJob,
  SeedResult,
  SessionFilesJob,
  SessionFilesResult,
  SnapshotJob,
  SnapshotResult,
  TileJob,
  VerifyJob,
  VerifyResult,
} from '../../protocol/wire/jobs.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { type Child, type ChildEvents, OUT_OF_MEMORY } from '../tree/child.ts';
import { Flushes } from './flushes.ts';
import { JobQueue, type QueuedJob } from './job-queue.ts';

type JobsOptions = {
  /** The process, which is started with the first job: `Tree.jobsChild`. */
  createChild(events: ChildEvents): Child;
  /** The folders that jobs may write: what is flushed for them is in these. */
  writable: string[];
  /** For the log: a job failed by a fault of ours. */
  onFault(what: string): void;
  tracing?: Pick<Tracing, 'current'> | null;
  jobMs?: number;
  waitMs?: number;
  now?(): number;
};

type Job = QueuedJob & {
  id: number;
  name: JobName;
  job: object;
  ms: number;
  /** When it has to have ended, waiting and a second start included; by `now`. */
  deadline: number;
  subject: keyof typeof SUBJECTS;
  /** Done twice it leaves what it leaves when it is done once. */
  repeatable: boolean;
  resolve(value: unknown): void;
  reject(error: SvcError): void;
};

/** How a job is run; by default once, in the pool `work`, for `jobMs`, after it waited for at most `waitMs`. */
type Terms = Pick<Job, 'subject' | 'party'> &
  Partial<Pick<Job, 'pool' | 'ms' | 'repeatable'>> & { waitMs?: number; signal?: AbortSignal | undefined };

/** The one thread for these is held for hours by others of them. */
const LONG = { pool: 'long', waitMs: LIMITS.backupVerifyMs } as const;

const QUEUE = {
  threads: { work: LIMITS.jobThreads, drafts: LIMITS.jobThreadsOfDrafts, long: LIMITS.jobThreadsForLong },
  waiting: LIMITS.jobQueue,
};

/** Reads, what is named by its content, and moves of names that say what they move from. */
const REPEATABLE = new Set<GitOperation>([
  'openRepository',
  'packLoose',
  'commitApp',
  'commitTree',
  'settle',
  'tagOnly',
  'retire',
  'listVersions',
  'treeOf',
  'diffApp',
  'branch',
  'branches',
]);

export class Jobs {
  readonly #child: Child;
  readonly #options: Required<Omit<JobsOptions, 'createChild' | 'writable'>>;
  readonly #flushes: Flushes;
  readonly #queue = new JobQueue<Job>(QUEUE);
  #nextId = 0;
  /** Until then the process is kept without work. */
  #keepUntil = 0;
  #resting: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({
    createChild,
    writable,
    onFault,
    tracing = null,
    jobMs = LIMITS.jobMs,
    waitMs = LIMITS.jobWaitMs,
    now = () => performance.now(),
  }: JobsOptions) {
    this.#options = { onFault, tracing, jobMs, waitMs, now };
    this.#flushes = new Flushes(writable);
    this.#child = createChild({
      onReady: () => this.#pump(),
      onFrame: (frame) => this.#onFrame(frame),
      onExit: (reason) => this.#onExit(reason),
    });
  }

  /** Checks and stages an uploaded archive. Rejects with the archive's or manifest's error. */
  ingest(job: IngestJob): Promise<IngestResult> {
    return this.#run('ingest', job, { subject: 'upload', party: job.app, repeatable: true });
  }

  /** Checks the files of a session as `ingest` does, with the same errors, and keeps nothing. Resolves with the warnings. */
  review(job: IngestJob): Promise<InputIssue[]> {
    return this.#run('review', job, { subject: 'upload', party: job.app, repeatable: true });
  }

  /** Prepares a stored version anew. Rejects with what an upload of its files would be refused with. */
  prepareAgain(job: PrepareJob): Promise<void> {
    return this.#run('prepareAgain', job, { subject: 'upload', party: job.app, repeatable: true });
  }

  /** Checks the manifest of a stored version again. Rejects with `INVALID_MANIFEST`. */
  check(job: CheckJob): Promise<CheckResult> {
    return this.#run('check', job, { subject: 'upload', party: job.app, repeatable: true });
  }

  /** Rejects with `HANDLER_ERROR` for an output that its automation's schema does not take. */
  judgeOutput(job: OutputJob): Promise<void> {
    return this.#run('judgeOutput', job, { subject: 'output', party: job.app, repeatable: true });
  }

  /** Reads or writes the files of an app in a session. Rejects with the errors of archives, `NOT_FOUND`, `PRECONDITION_FAILED`. */
  sessionFiles<W extends SessionFilesJob['work']>(job: SessionFilesJob & { work: W }): Promise<SessionFilesResult[W]> {
    const repeatable = job.work === 'list' || job.work === 'read' || job.work === 'diff';
    return this.#run('sessionFiles', job, { subject: 'files', party: basename(job.folder), repeatable });
  }

  /** Puts the files of a new app into a folder. */
  layOut(job: LayOutJob): Promise<LayOutResult> {
    return this.#run('layOut', job, { subject: 'files', party: job.id });
  }

  /** Draws an icon as a PNG. */
  drawTile(job: TileJob): Promise<Uint8Array> {
    return this.#run('drawTile', job, { subject: 'icon', party: job.app, repeatable: true });
  }

  /** Packs a part of a backup. Rejects with the job's own error, soon after `signal` aborts with `OVERLOADED`. */
  pack(job: PackJob, signal?: AbortSignal): Promise<PackResult> {
    return this.#run('pack', job, { subject: 'backup', party: null, ...LONG, ms: LIMITS.backupPartMs, signal });
  }

  /** Reads a finished backup as a restore would. Rejects as `pack` does, and with `INVALID_BACKUP`. */
  verifyBackup(job: VerifyJob, signal?: AbortSignal): Promise<VerifyResult> {
    const ms = LIMITS.backupVerifyMs;
    return this.#run('verifyBackup', job, { subject: 'backup', party: null, ...LONG, ms, signal });
  }

  /** Looks at the data of an app, or takes it from a backup. Rejects as `pack` does, with `INVALID_BACKUP` and `NOT_FOUND`. */
  appData(job: DataJob & { check: string }): Promise<{ integrity: string }>;
  appData(job: DataJob & { take: object }): Promise<{ userVersion: number }>;
  appData(job: DataJob): Promise<DataResult> {
    return this.#run('appData', job, { subject: 'backup', party: null, pool: 'long', ms: LIMITS.backupVerifyMs });
  }

  /** Does an operation on the repository of the git store. Rejects with its error. */
  git<O extends GitOperation>(operation: O, job: GitOperations[O]['job']): Promise<GitOperations[O]['result']> {
    const party = 'app' in job ? job.app : null;
    const order = { operation, ...job };
    if (operation.endsWith('Bundle'))
      return this.#run('git', order, { subject: 'bundle', party, ...LONG, ms: LIMITS.gitBundleMs });
    // Packing is not urgent: no publication waits for its thread.
    const pool = operation === 'packLoose' ? LONG : null;
    return this.#run('git', order, { subject: 'git', party, ...pool, repeatable: REPEATABLE.has(operation) });
  }

  /** Copies and prepares the files of a draft. Rejects with what an upload of them would be refused with. */
  snapshot(job: SnapshotJob): Promise<SnapshotResult> {
    return this.#run('snapshot', job, { subject: 'draft', party: job.app, pool: 'drafts', repeatable: true });
  }

  /** Copies live data for a draft. */
  seed(job: SeedJob): Promise<SeedResult> {
    const party = basename(dirname(job.from));
    return this.#run('seed', job, { subject: 'seed', party, ms: LIMITS.draftSeedMs, repeatable: true });
  }

  /** Ends the process; jobs under way reject, and so do later ones. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#resting);
    for (const job of this.#all()) this.#reject(job, stopping());
    await this.#child.stop(LIMITS.terminateMs);
  }

  async #run<T>(name: JobName, job: object, { signal, ...terms }: Terms): Promise<T> {
    if (this.#closed) throw stopping();
    const id = ++this.#nextId;
    const cancel = () => {
      const waits = this.#queue.waiting.find((one) => one.id === id);
      if (waits) this.#reject(waits, cancelled(terms.subject));
      else this.#child.send([Kind.cancel, id, 'cancelled']);
    };
    if (signal?.aborted) throw cancelled(terms.subject);
    if (!this.#child.wake()) throw down();
    const span = this.#options.tracing?.current?.child(`job ${name}`);
    const { jobMs, waitMs, now } = this.#options;
    const ms = terms.ms ?? jobMs;
    const mostMs = ms + (terms.waitMs ?? waitMs);
    let expiring: NodeJS.Timeout | undefined;
    try {
      return await new Promise<T>((resolve, reject) => {
        const defaults = { pool: 'work', repeatable: false, alone: false } as const;
        const settle = { resolve: resolve as (value: unknown) => void, reject };
        const order = { ...defaults, ...terms, id, name, job, ms, deadline: now() + mostMs, ...settle };
        expiring = setTimeout(() => this.#expire(id), mostMs);
        if (!this.#queue.add(order)) {
          reject(overloaded(`Too many ${SUBJECTS[terms.subject][3]} wait already; try again.`, 5));
          return;
        }
        signal?.addEventListener('abort', cancel, { once: true });
        this.#pump();
      });
    } catch (error) {
      span?.fail(error instanceof SvcError ? error.code : 'INTERNAL');
      throw error;
    } finally {
      span?.end();
      clearTimeout(expiring);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** One that runs is ended by its process, which was told how long it has. */
  #expire(id: number): void {
    const job = this.#queue.waiting.find((one) => one.id === id);
    if (job === undefined) return;
    this.#reject(job, overloaded(`${SUBJECTS[job.subject][1]} waited for too long; try again.`, 30));
    this.#pump();
  }

  #all(): Job[] {
    return [...this.#queue.running, ...this.#queue.waiting];
  }

  #pump(): void {
    const child = this.#child;
    if (child.state === 'stopped' && !this.#closed && !this.#queue.isEmpty) child.start();
    if (child.state !== 'running') return;
    for (let job = this.#queue.next(); job !== null; job = this.#queue.next()) this.#send(child, job);
    if (this.#queue.isEmpty) this.#rest();
  }

  #send(child: Child, job: Job): void {
    const ms = Math.max(1, Math.min(job.ms, Math.ceil(job.deadline - this.#options.now())));
    try {
      child.send([Kind.job, job.id, job.name, job.pool, ms, job.job]);
    } catch (error) {
      this.#reject(job, new SvcError('INTERNAL', 'A job of the gateway is too large to be sent.', { cause: error }));
    }
  }

  /** Without work the process ends after a while. */
  #rest(): void {
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => {
      if (this.#queue.isEmpty && this.#child.state === 'running') void this.#child.stop(LIMITS.terminateMs);
    }, this.#keepUntil - this.#options.now()).unref();
  }

  /** Throws for a frame that this process may not send; its connection is then closed. */
  #onFrame(frame: Frame): void {
    if (frame[0] === Kind.flush) {
      this.#flush(frame);
      return;
    }
    if (frame[0] !== Kind.jobDone) throw new Error(`The jobs process may not send frames of kind ${frame[0]}.`);
    const [, id, answer] = frame;
    const job = [...this.#queue.running].find((one) => one.id === id);
    if (!job) return;
    this.#queue.remove(job);
    const idleMs = job.pool === 'drafts' ? LIMITS.draftIdleMs : LIMITS.jobIdleMs;
    this.#keepUntil = Math.max(this.#keepUntil, this.#options.now() + idleMs);
    try {
      settle(job, answer, this.#options.onFault);
    } catch (error) {
      job.reject(new SvcError('INTERNAL', 'A job of the gateway got a malformed answer.'));
      throw error;
    }
    this.#pump();
  }

  #flush([, id, path]: FrameOf<'flush'>): void {
    const { pid } = this.#child;
    void this.#flushes.flush(path).then((fault) => {
      // The next process counts from the start again.
      if (this.#child.pid === pid) this.#child.send([Kind.flushed, id, fault]);
    });
  }

  #onExit(reason: string): void {
    const hit = [...this.#queue.running];
    const isMemory = reason.includes(OUT_OF_MEMORY);
    const again: Job[] = [];
    for (const job of hit) {
      // A job that ran alone used the memory itself.
      if (isMemory && hit.length === 1) this.#reject(job, tooMuch(job.subject, 'memory'));
      else if (job.repeatable && !job.alone) again.push(job);
      else {
        const [, work] = SUBJECTS[job.subject];
        const advice = 'its process ended. Check whether it was done, then try again.';
        this.#reject(job, overloaded(`${work} was interrupted: ${advice}`));
      }
    }
    this.#queue.again(again);
    // Where the culprit is known, the death is not the process's own.
    if (hit.length === 1 && !this.#closed) this.#child.revive();
    if (this.#child.state === 'failed') for (const job of this.#all()) this.#reject(job, down());
    this.#pump();
  }

  #reject(job: Job, error: SvcError): void {
    this.#queue.remove(job);
    job.reject(error);
  }
}

function settle(
  { name, subject, resolve, reject }: Job,
  answer: JobAnswer<unknown> | JobFailure,
  onFault: (what: string) => void,
): void {
  if (!('failed' in answer)) {
    if (answer.ok) resolve(answer.value);
    else reject(errorFromBody(answer.error));
  } else if (answer.failed !== 'fault') reject(tooMuch(subject, answer.failed));
  else {
    onFault(`a job (${name}) failed: ${answer.detail}`);
    reject(new SvcError('INTERNAL', 'A job of the gateway failed; see the log.'));
  }
}

/** The subject of a job, for errors about too much time or memory and about a full queue. */
type Subject = [code: ErrorCode, work: string, advice: string, many: string];

const SUBJECTS = {
  upload: ['INVALID_ARCHIVE', 'Checking the upload', 'make it or its schemas simpler', 'uploads and publications'],
  output: ['HANDLER_ERROR', 'Checking the output of a run', 'make it or its schema simpler', 'outputs of runs'],
  files: [
    'ARCHIVE_TOO_LARGE',
    'Reading the files of a session',
    'make them fewer',
    'reads and changes of the files of sessions',
  ],
  draft: [
    'ARCHIVE_TOO_LARGE',
    'Preparing the draft',
    'make its files fewer or its schemas simpler',
    'drafts to be prepared',
  ],
  icon: ['OVERLOADED', 'Drawing an icon', 'try again', 'icons to be drawn'],
  seed: ['OVERLOADED', 'Copying the live data', 'try again when the gateway has less to do', 'copies of live data'],
  backup: ['BACKUP_TOO_LARGE', 'Packing an app', 'its data or code is too large', 'backups'],
  bundle: ['BACKUP_TOO_LARGE', 'Reading or writing the git bundle', 'it is too large', 'git bundles'],
  git: ['OVERLOADED', 'Working on the git repository', 'try again', 'operations on the git repository'],
} satisfies Record<string, Subject>;

function tooMuch(subject: Job['subject'], what: 'time' | 'memory'): SvcError {
  const [code, work, advice] = SUBJECTS[subject];
  return new SvcError(code, `${work} took too ${what === 'time' ? 'long' : 'much memory'}; ${advice}.`);
}

function cancelled(subject: Job['subject']): SvcError {
  return overloaded(`${SUBJECTS[subject][1]} was cancelled.`);
}

function down(): SvcError {
  return overloaded('The process that does such work does not stay up; the log says why. Try again later.', 30);
}

function stopping(): SvcError {
  return new SvcError('OVERLOADED', 'The gateway stops.');
}

function overloaded(message: string, seconds = 1): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': String(seconds) } });
}
