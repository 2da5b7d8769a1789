/** Types of the jobs: their arguments, their answers and how they fail. */
import type { MintedSecret } from '../automations/automation.ts';
import type { ErrorBody } from '../errors.ts';
import type { VersionNote, VersionSummary } from '../manifest.ts';
import type { GitFile, GitFileDiff, SentFiles } from './git-jobs.ts';

/** Where the files of a version come from. */
export type VersionSource =
  /** An uploaded file. */
  | { archive: string }
  /** A folder with the files, which are copied. */
  | { folder: string }
  /** Files of a workspace, merged onto main from `base`; `anew` publishes them even when nothing changed. */
  | { workspace: string; base: string | null; anew: boolean }
  /** The tag of a version that is restored as published, or that was `imported` with the tag. */
  | { tag: string; imported?: true };

/** For the git store: where to commit, the author, and the message (null: the version's name). */
export type CommitOrder = {
  repository: string;
  author: { name: string; email: string };
  message: string | null;
};

/** Checks the files of a version and prepares it: `staging/code` and `staging/prepared`. */
export type IngestJob = {
  source: VersionSource;
  /** Null on the tarball backend. The author's files are committed before anything is written into them. */
  commit: CommitOrder | null;
  app: string;
  note?: VersionNote;
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

/**
 * The staged version with the secrets of its new webhooks, or the id of the known one that has the same content. `commit` holds
 * the files on the git store; `sent` describes those of a workspace.
 */
export type IngestResult =
  | { staged: VersionSummary; minted: MintedSecret[]; commit: string | null; sent: SentFiles | null }
  | { known: string };

/** Prepares the stored `code` of a version anew, into the folder `to`, which is replaced. */
export type PrepareJob = {
  app: string;
  versionId: string;
  code: string;
  to: string;
  /** Milliseconds since the epoch. */
  uploadedAt: number;
  /** The hash of what was uploaded; null when it is not known: that of the stored files is taken. */
  sha256: string | null;
  note?: VersionNote;
};

/** Checks a stored version again, whose `app.json` was changed by hand. */
export type CheckJob = { code: string; app: string };
/** sha256 of the `app.json` that was found valid. */
export type CheckResult = { manifestSha256: string };

/** Checks the output of a fire, as JSON text (null for none), by the version's `validators.js`. */
export type OutputJob = { app: string; validators: string; automation: string; output: string | null };

/** A part of a data directory that is damaged, by its path in a backup, with what SQLite or the gateway says of it. */
export type DamagedPart = { path: string; integrity: string };

/**
 * `takenAt` is ISO 8601, the time at which the backup was begun; `dataFormat` that of the data directory; `lost` what should have been
 * there, and was not: absent where nothing was.
 */
export type BackupHead = {
  format: number;
  svcVersion: string;
  takenAt: string;
  dataFormat: number;
  lost?: DamagedPart[];
};

/** One thing to pack, from where it lies to its path in the backup; nothing if it is missing. `files`: a file, or everything below a folder. */
export type BackupSource =
  | { kind: 'database' | 'files'; path: string; from: string }
  | { kind: 'text'; path: string; text: string };

/** Packs a part of a backup in the folder of `workspace`; `finish` packs the manifest instead, and with it the end. */
export type PackJob = {
  workspace: string;
  work: { sources: BackupSource[] } | { finish: BackupHead };
};
/** Verifies the finished archive of a workspace as a restore would. */
export type VerifyJob = { workspace: string };
/** What was damaged or lost already when the backup was taken. */
export type VerifyResult = { damaged: DamagedPart[] };

/**
 * For the repair of an app's data: looks whether a database is whole, or verifies the backup of a workspace and puts the data of an
 * app that it has at `to`, a new file.
 */
export type DataJob = { check: string } | { extract: { workspace: string; app: string; to: string } };
/** What SQLite says of the one, `ok` for a whole one; the number of migrations that the other has had. */
export type DataResult = { integrity: string } | { userVersion: number };
/** How much it added: files and bytes of their content; for `finish`, the archive's own size. */
export type PackResult = { files: number; bytes: number };

/** Errors cross the thread as data. */
export type JobAnswer<T> = { ok: true; value: T } | { ok: false; error: ErrorBody };

/** The jobs of a thread, by the names of its functions. */
export type JobName =
  | 'ingest'
  | 'review'
  | 'check'
  | 'prepareAgain'
  | 'checkOutput'
  | 'workspaceFiles'
  | 'layOut'
  | 'drawTile'
  | 'pack'
  | 'verifyBackup'
  | 'appData'
  | 'git'
  | 'snapshot'
  | 'seed';

/** Where a job runs: edits of drafts do not wait for uploads, and neither waits for backups and bundles. */
export type JobPool = 'work' | 'drafts' | 'long';

/**
 * Why a job ended without an answer: its time limit, the memory of its thread or of the process, or a fault that `detail`
 * describes for the log.
 */
export type JobFailure = { failed: 'time' | 'memory' | 'fault'; detail: string };

/** The one line of JSON that the jobs process reads from its standard input. When its input ends the process ends. */
export type JobsBootstrap = {
  supervisorSocket: string;
  ticket: string;
  /** The module of its threads, `dist/job.cjs`. */
  thread: string;
  /** Heap of one thread, and all memory of the process, in MiB. */
  threadMemoryMb: number;
  memoryMb: number;
};

/** A migration of a draft: its file's name in `migrations/`, and sha256 of its bytes in hex. */
export type DraftMigration = { name: string; sha256: string };

/** A worktree at one moment, copied and prepared like a version. */
export type Snapshot = {
  summary: VersionSummary;
  /** In order. */
  migrations: DraftMigration[];
};

/** Copies and prepares the files of an app in a workspace. */
export type SnapshotJob = {
  app: string;
  workspace: string;
  /** The app's folder in the workspace's worktree. Other programs may write to it meanwhile. */
  folder: string;
  /**
   * The draft's own folder, which gets `versions/` and `prepared/`; everything there except this snapshot and `previous` is
   * removed.
   */
  draft: string;
  /** Milliseconds since the epoch; becomes part of the snapshot's id. */
  at: number;
  previous: Snapshot | null;
};

/** Null when the files are those of `previous`. */
export type SnapshotResult = Snapshot | null;

/** Copies an app's current data to a draft and replaces the draft's own, which no process may have open. */
export type SeedJob = { from: string; to: string };

/** SQLite's `user_version` of the copy; 0 when there was nothing to copy. */
export type SeedResult = { userVersion: number };

/** The conditions of a request: the sent values of `If-Match` and `If-None-Match`. */
export type FileConditions = { ifMatch?: string; ifNoneMatch?: string };

/** `folder` is the app's folder in the workspace's worktree. */
export type WorkspaceFilesJob =
  | { work: 'list'; folder: string }
  | { work: 'read'; folder: string; path: string }
  | { work: 'put'; folder: string; path: string; bytes: Uint8Array; conditions: FileConditions }
  | { work: 'putAll'; folder: string; archive: string; unpackTo: string }
  | { work: 'delete'; folder: string; path: string; conditions: FileConditions }
  /** A gzipped tar archive of all files, `to` a new file. */
  | { work: 'archive'; folder: string; to: string }
  /** The changes from the files in `before` to those in `folder`; null means no files. */
  | { work: 'diff'; folder: string; before: string | null; app: string };

export type WorkspaceFilesResult = {
  list: GitFile[];
  read: GitFile & { bytes: Uint8Array };
  /** `created` when the file is new. */
  put: { file: GitFile; created: boolean };
  /** Files of the archive. */
  putAll: GitFile[];
  delete: { path: string };
  archive: { files: number };
  diff: GitFileDiff[];
};

/** Puts the files of a new app into the empty folder `to`. */
export type LayOutJob = {
  /**
   * A folder of an app; the blank one, whose words are filled in; an archive of a template; an archive that somebody sent, whose app may
   * lie in a folder; or a stored version, whose automations are as they were uploaded, or with `asNew` off and without addresses.
   */
  source:
    | { template: string }
    | { blank: string }
    | { archive: string }
    | { sent: string }
    | { version: VersionFolders; asNew: boolean };
  to: string;
  id: string;
  /** Null: the template's name. */
  name: string | null;
};

/** Draws an icon, one of `DRAWN_ICONS`, of an app whose icon is its initial. */
export type TileJob = { app: string; name: string };

/** The app's name, and its files. */
export type LayOutResult = { name: string; files: number };
