/** What the supervisor asks of its job threads, and what they answer. */
import type { MintedSecret } from './automation.ts';
import type { BackupHead, BackupSource } from './backup.ts';
import type { ErrorBody } from './errors.ts';
import type { VersionSummary } from './manifest.ts';

/** Where the files of a version come from. */
export type VersionSource =
  /** An uploaded file. */
  | { archive: string }
  /**
   * The app's files in a session, merged onto main; `base` is the commit that they were taken from. With `anew` it is published
   * though nothing of it was changed: the app is not live.
   */
  | { session: string; base: string | null; anew: boolean }
  /** The tag of a version that is brought back as it was published. */
  | { tag: string };

/** The git store's part of it: the version's tag, and what its commit says. */
export type CommitOrder = {
  repository: string;
  author: { name: string; email: string };
  versionId: string;
  /** Null: the version's name. */
  message: string | null;
};

/** Checks the files of a version and prepares it: `staging/code` and `staging/prepared`. */
export type IngestJob = {
  source: VersionSource;
  /** Null on the tarball backend. The author's files are committed before anything is written into them. */
  commit: CommitOrder | null;
  app: string;
  /** An existing folder, which is removed when the version is refused. */
  staging: string;
  /** Time of the upload in milliseconds, which becomes part of the version's id. */
  uploadedAt: number;
  /** The versions that are stored, newest first: content that is there already is not prepared again. */
  known: (VersionFolders & { versionId: string; sha256: string })[];
  /** The active version, whose addresses of webhooks and whose switches the new one takes over; null when there is none. */
  active: VersionFolders | null;
};

/** Where a version's code lies, and what was prepared from it. */
export type VersionFolders = { code: string; prepared: string };

/** The staged version with the secrets of its new webhooks, or the id of the known one that has the same content. */
export type IngestResult =
  | { staged: VersionSummary; minted: MintedSecret[]; commit: string | null }
  | { known: string };

/** Checks a stored version again, whose `app.json` was changed by hand. */
export type CheckJob = { code: string; app: string };
/** sha256 of the `app.json` that was found valid. */
export type CheckResult = { manifestSha256: string };

/** Judges the output of a fire, as JSON text (null for none), by the version's `validators.js`. */
export type OutputJob = { app: string; validators: string; automation: string; output: string | null };

/** Packs a part of a backup in the folder of `workspace`; `finish` packs the manifest instead, and with it the end. */
export type PackJob = {
  workspace: string;
  work: { sources: BackupSource[] } | { finish: BackupHead };
};
/** How much it added: files and bytes of their content; for `finish`, the archive's own size. */
export type PackResult = { files: number; bytes: number };

/** Errors cross the thread as data. */
export type JobAnswer<T> = { ok: true; value: T } | { ok: false; error: ErrorBody };

/** What a thread can be asked for; the names of its functions. */
export type JobName =
  | 'ingest'
  | 'check'
  | 'judgeOutput'
  | 'sessionFiles'
  | 'layOut'
  | 'pack'
  | 'git'
  | 'snapshot'
  | 'seed';

/**
 * Where a job runs. Drafts have a thread of their own, kept while they are edited, so that an edit waits for no upload; and
 * so have backups and bundles, which may take long.
 */
export type JobPool = 'work' | 'drafts' | 'long';

/** Why a job has no answer of its own: its time, its thread's or the process's memory, or a fault, which `detail` describes for the log. */
export type JobFailure = { failed: 'time' | 'memory' | 'fault'; detail: string };

/** The one line of JSON that the jobs process reads from its standard input. When its input ends the process ends. */
export type JobsBootstrap = {
  supervisorSocket: string;
  ticket: string;
  /** The module of its threads, `dist/job.js`. */
  thread: string;
  /** Heap of one thread, and all memory of the process, in MiB. */
  threadMemoryMb: number;
  memoryMb: number;
};
