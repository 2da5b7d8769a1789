/** Sends jobs to the threads of the jobs process (workers/jobs): work that costs CPU or disk, or reads untrusted input. */
import { basename, dirname } from 'node:path';
import { type ErrorCode, errorFromBody, type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { Kind } from '../../protocol/wire/frames.ts';
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
  JobPool,
  LayOutJob,
  LayOutResult,
  OutputJob,
  PackJob,
  PackResult,
  PrepareJob,
  SeedJob,
  SeedResult,
  SnapshotJob,
  SnapshotResult,
  TileJob,
  VerifyJob,
  VerifyResult,
  WorkspaceFilesJob,
  WorkspaceFilesResult,
} from '../../protocol/wire/jobs.ts';
import type { Tracing } from '../tracing/tracing.ts';
import type { Child, ChildEvents } from '../tree/child.ts';
import { ChildClient, type Failure } from '../tree/child-client.ts';
import { Flushes } from './flushes.ts';
import { settledCopy } from './settled-copy.ts';

const ANSWER = shape({
  anyOf: [
    object({ ok: { const: true } }),
    object({ ok: { const: false }, error: object({ code: text }) }),
    object({ failed: text }),
  ],
});

type JobsOptions = {
  /** The process, which is started with the first job: `Tree.jobsChild`. */
  createChild(events: ChildEvents): Child;
  /** The folders that jobs may write: what is flushed for them is in these. */
  writable: string[];
  /** For the log: a job failed by a fault of ours. */
  onFault(what: string): void;
  /** As `TreeCallbacks.unsettled`. */
  unsettled?(app: string): Promise<void> | null;
  tracing?: Tracing | null;
  jobMs?: number;
  waitMs?: number;
  now?(): number;
};

/** How a job is run; by default once, in the pool `work`, for `jobMs`, after it waited for at most `waitMs`. */
type Terms = {
  subject: keyof typeof SUBJECTS;
  /** Whom it is done for, see `Queued`. */
  party: string | null;
  pool?: JobPool;
  ms?: number;
  waitMs?: number;
  /** Done twice it leaves what it leaves when it is done once. */
  repeatable?: boolean;
  signal?: AbortSignal | undefined;
};

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
  'writeObjects',
  'takeObjects',
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
  readonly #client: ChildClient;
  readonly #options: Required<Omit<JobsOptions, 'createChild' | 'writable'>>;

  constructor({
    createChild,
    writable,
    onFault,
    unsettled = () => null,
    tracing = null,
    jobMs = LIMITS.jobMs,
    waitMs = LIMITS.jobWaitMs,
    now = () => performance.now(),
  }: JobsOptions) {
    this.#options = { onFault, unsettled, tracing, jobMs, waitMs, now };
    this.#client = new ChildClient({
      title: 'The jobs process',
      createChild,
      limits: QUEUE,
      idleMs: (pool) => (pool === 'drafts' ? LIMITS.draftIdleMs : LIMITS.jobIdleMs),
      soleQuestionIsCause: true,
      now,
    });
    const flushes = new Flushes(writable);
    this.#client.on('flush', ([, id, path], child) => {
      const { pid } = child;
      void flushes.flush(path).then((fault) => {
        // The next process counts from the start again.
        if (child.pid === pid) child.send([Kind.flushed, id, fault]);
      });
    });
    this.#client.on('jobDone', ([, id, answer]) => {
      if (!ANSWER.holds(answer)) {
        this.#client.answer(id, new SvcError('INTERNAL', 'A job of the gateway got a malformed answer.'));
        throw new Error('The jobs process sent a malformed answer.');
      }
      this.#client.answer(id, answer);
    });
  }

  /** Checks and stages an uploaded archive. Rejects with the archive's or manifest's error. */
  ingest(job: IngestJob): Promise<IngestResult> {
    return this.#run('ingest', job, { subject: 'upload', party: job.app, repeatable: true });
  }

  /** Checks the files of a workspace as `ingest` does, with the same errors, and keeps nothing. Resolves with the warnings. */
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
  checkOutput(job: OutputJob): Promise<void> {
    return this.#run('checkOutput', job, { subject: 'output', party: job.app, repeatable: true });
  }

  /** Reads or writes the files of an app in a workspace. Rejects with the errors of archives, `NOT_FOUND`, `PRECONDITION_FAILED`. */
  workspaceFiles<W extends WorkspaceFilesJob['work']>(
    job: WorkspaceFilesJob & { work: W },
  ): Promise<WorkspaceFilesResult[W]> {
    const repeatable = job.work === 'list' || job.work === 'read' || job.work === 'diff';
    return this.#run('workspaceFiles', job, { subject: 'files', party: basename(job.folder), repeatable });
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
  appData(job: DataJob & { extract: object }): Promise<{ userVersion: number }>;
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

  /**
   * Copies data for a draft or another app: of `app`, which may be written meanwhile, or where that is null of a copy. Rejects in a
   * cluster with `STORAGE_UNAVAILABLE` where the log of pages does not get what the copy has.
   */
  seed(job: SeedJob, app: string | null): Promise<SeedResult> {
    const party = basename(dirname(job.from));
    const copy = (): Promise<SeedResult> =>
      this.#run('seed', job, { subject: 'seed', party, ms: LIMITS.draftSeedMs, repeatable: true });
    return app === null ? copy() : settledCopy(job.from, () => this.#options.unsettled(app), copy);
  }

  /** Ends the process; jobs under way reject, and so do later ones. */
  async close(): Promise<void> {
    await this.#client.close(LIMITS.terminateMs);
  }

  async #run<T>(name: JobName, job: object, terms: Terms): Promise<T> {
    const { jobMs, waitMs, now, tracing } = this.#options;
    const { subject, party, pool = 'work', ms = jobMs, repeatable = false, signal } = terms;
    const mostMs = ms + (terms.waitMs ?? waitMs);
    /** When it has to have ended, waiting and a second start included. */
    const deadline = now() + mostMs;
    const span = tracing?.current?.child(`job ${name}`);
    try {
      const asked = this.#client.ask<JobAnswer<unknown> | JobFailure>({
        pool,
        party,
        frame: (id) => [Kind.job, id, name, pool, Math.max(1, Math.min(ms, Math.ceil(deadline - now()))), job],
        failed: (why, _reason, cause) => failure(subject, why, cause),
        repeats: () => repeatable,
        // One that runs is ended by its process, which is told how long it has.
        waitMs: mostMs,
        signal,
      });
      return this.#valueOf(name, subject, await asked.answer) as T;
    } catch (error) {
      span?.fail(error instanceof SvcError ? error.code : 'INTERNAL');
      throw error;
    } finally {
      span?.end();
    }
  }

  #valueOf(name: JobName, subject: Terms['subject'], answer: JobAnswer<unknown> | JobFailure): unknown {
    if (!('failed' in answer)) {
      if (answer.ok) return answer.value;
      throw errorFromBody(answer.error);
    }
    if (answer.failed !== 'fault') throw tooMuch(subject, answer.failed);
    this.#options.onFault(`a job (${name}) failed: ${answer.detail}`);
    throw new SvcError('INTERNAL', 'A job of the gateway failed; see the log.');
  }
}

/** The subject of a job, for errors about too much time or memory and about a full queue. */
type Subject = [code: ErrorCode, work: string, advice: string, many: string];

const SUBJECTS = {
  upload: ['INVALID_ARCHIVE', 'Checking the upload', 'make it or its schemas simpler', 'uploads and publications'],
  output: ['HANDLER_ERROR', 'Checking the output of a run', 'make it or its schema simpler', 'outputs of runs'],
  files: [
    'ARCHIVE_TOO_LARGE',
    'Reading the files of a workspace',
    'make them fewer',
    'reads and changes of the files of workspaces',
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

function tooMuch(subject: Terms['subject'], what: 'time' | 'memory'): SvcError {
  const [code, work, advice] = SUBJECTS[subject];
  return new SvcError(code, `${work} took too ${what === 'time' ? 'long' : 'much memory'}; ${advice}.`);
}

function failure(subject: Terms['subject'], why: Failure, cause: unknown): SvcError {
  const [, work, , many] = SUBJECTS[subject];
  switch (why) {
    case 'stopping':
      return new SvcError('OVERLOADED', 'The gateway stops.');
    case 'full':
      return overloaded(`Too many ${many} wait already; try again.`, 5);
    case 'down':
      return overloaded('The process that does such work does not stay up; the log says why. Try again later.', 30);
    case 'waited':
      return overloaded(`${work} waited for too long; try again.`, 30);
    case 'cancelled':
      return overloaded(`${work} was cancelled.`);
    case 'too-large':
      return new SvcError('INTERNAL', 'A job of the gateway is too large to be sent.', { cause });
    case 'memory':
      return tooMuch(subject, 'memory');
    default:
      return overloaded(`${work} was interrupted: its process ended. Check whether it was done, then try again.`);
  }
}

function overloaded(message: string, seconds = 1): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': String(seconds) } });
}
