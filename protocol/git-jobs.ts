/** What the supervisor asks of the job threads about the repository of the git store, and what they answer (decisions, section 7). */

/** Who a commit is by; `commitAuthor` of the configuration. */
export type GitAuthor = { name: string; email: string };

/** `repository` is the path of the bare repository; ids of objects are 40 hex digits. */
type OnRepository = { repository: string };
type OnApp = OnRepository & { app: string };
/** `at` is the time of the commit in milliseconds since 1970. */
type Signed = { author: GitAuthor; at: number };

/** `main`, a commit's id, or the name of a tag (`<app>/v<n>`). */
export type GitRevision = string;

export type OpenRepositoryJob = OnRepository & Signed;
/** The commit of `main`. */
export type MainResult = { main: string };

/**
 * `folder` holds the app's files as they shall be; null removes the app. With `always` a commit is made even when `main` has the
 * same files: it is another version all the same.
 */
export type CommitAppJob = OnApp & Signed & { folder: string | null; message: string; always?: boolean };
/** The app's tree as another commit or tag has it: how a rollback is made. */
export type CommitTreeJob = OnApp & Signed & { from: GitRevision; message: string };
/**
 * `parent` is `main` as it was read. `unchanged`: `main` has the same files already, no commit was made, and `commit` is
 * `main` itself. `tree` is the id of the app's folder, null without one.
 */
export type CommitResult = { commit: string; parent: string; tree: string | null; unchanged: boolean };

/** What a version's tag says beside its number; `message` is for people, `info` comes back from `listVersions`. */
export type GitTag = { name: string; message: string; info?: GitVersionInfo };
/** Stored in the message of the tag as a line `svc: {json}`. */
export type GitVersionInfo = { sha256: string; version: string; uploadedAt: string; files: number; bytes: number };

export type SettleJob = OnApp & Signed & { commit: string; tag: GitTag | null };
/** Tags a commit that `main` need not contain. */
export type TagOnlyJob = OnRepository & Signed & { commit: string; tag: GitTag };

/** Newest first; only those with a smaller number than `before`. */
export type ListVersionsJob = OnApp & { limit: number; before: number | null };
export type GitVersion = {
  /** `<app>/v<n>`. */
  tag: string;
  number: number;
  commit: string;
  /** Without the line that holds `info`. */
  message: string;
  /** When it was tagged, in milliseconds. */
  at: number;
  /** Null for a tag that somebody else made. */
  info: GitVersionInfo | null;
};
/** `total` counts all that the app has. */
export type ListVersionsResult = { versions: GitVersion[]; total: number };

export type NextNumberJob = OnApp;
export type NextNumberResult = { number: number };

/** One version's tag, or with null all of the app. */
export type RetireJob = OnApp & { tag: string | null };
export type RetireResult = { retired: string[] };

/** `sha` is the id of the file's content as git counts it. */
export type GitFile = { path: string; size: number; sha: string };

/** `to` is an empty or missing folder. What is written there is durable only with `durable`. */
export type CheckoutJob = OnApp & { from: GitRevision; to: string; durable?: boolean };
/** `commit` is null, and nothing is written, when the revision has no such app. */
export type CheckoutResult = { commit: string | null; files: GitFile[] };

export type TreeOfJob = OnApp & { from: GitRevision };
/** Sorted by path. */
export type TreeOfResult = { commit: string; files: GitFile[] | null };

export type ReadBlobJob = OnRepository & { sha: string };
export type ReadBlobResult = { content: Uint8Array };

/** Three-way: the app's tree at `base` (null: it had none), at `main`, and the files in `folder`; into the empty folder `to`. */
export type MergeAppJob = OnApp & { base: string | null; folder: string; to: string };
/**
 * `changed`: the result is not what `main` has. `main` is the commit that was merged onto. `added` and `lacking`: sorted paths of
 * the result that `main` has not, and that the folder has not. `unresolved`: files of the folder in which the marks of an update
 * are left.
 */
export type MergeAppResult =
  | { conflicts: string[] }
  | { unresolved: string[] }
  | { changed: boolean; main: string; added: string[]; lacking: string[] };

/** The same merge the other way: `to` is the folder with what `main` has of the app since `base`, durable. */
export type UpdateAppJob = MergeAppJob;
/**
 * Sorted paths. `merged`: files of the folder that are other ones now, or gone. `conflicts`: texts that hold both sides between
 * marks, and what stays as the folder has it.
 */
export type UpdateAppResult = { main: string; merged: string[]; conflicts: string[] };

/** `folder` null: the app is removed. */
/** `since` is the commit that the folder was taken from; null when it came from none. */
export type DiffAppJob = OnApp & { folder: string | null; against: GitRevision; since: string | null };
export type GitFileDiff = {
  /** Inside the app. */
  path: string;
  status: 'added' | 'modified' | 'deleted';
  /** Lines; 0 for binary files. */
  additions: number;
  deletions: number;
  /** As `git apply` takes it, with the path inside the repository; empty for binary files and what is over the limit. */
  patch: string;
  binary?: true;
  /** The patch was left out: all patches together would be too large. */
  truncated?: true;
};
/** A list of the manifest on both sides; null where there is none. */
export type ListChange = { before: string[] | null; after: string[] | null };

/**
 * `base` is the commit that was compared with. `edited`: the folder differs from what it was taken from; `behind`: the commit
 * does, so that the difference has what others changed, in reverse.
 */
export type DiffAppResult = {
  base: string;
  edited: boolean;
  behind: boolean;
  files: GitFileDiff[];
  /** The manifest's list of hosts, where it is not the same on both sides. */
  network?: ListChange;
  /** The manifest's list of apps whose tools its pages may call, likewise. */
  uses?: ListChange;
};

/** Creates or moves the branch; null removes it. */
export type BranchJob = OnRepository & { name: string; to: string | null };
/** Makes `branches`, name after the prefix → commit, all that there are below the prefix, which ends with a slash. */
export type BranchesJob = OnRepository & { prefix: string; branches: Record<string, string> };

export type ExportBundleJob = OnRepository & { to: string };
export type ExportBundleResult = { main: string; tags: number; objects: number; bytes: number };
/** The bundle's `main` and tags become those of a repository that has nothing but its root commit yet. */
export type ImportBundleJob = OnRepository & { from: string };
/** `apps` are those on `main`, each with the newest tag that has the same files; null when none has. */
export type ImportBundleResult = { main: string; tags: number; apps: { id: string; tag: string | null }[] };

/** One step of tidying up; it is to be asked for again as long as it did anything. */
export type PackLooseJob = OnRepository;
/** Loose objects that are left, those that went into a pack, and the packs that became one. */
export type PackLooseResult = { loose: number; packed: number; joined: number };

/** Every operation by its name: what it takes and what it answers. */
export type GitOperations = {
  openRepository: { job: OpenRepositoryJob; result: MainResult };
  commitApp: { job: CommitAppJob; result: CommitResult };
  commitTree: { job: CommitTreeJob; result: CommitResult };
  settle: { job: SettleJob; result: MainResult };
  tagOnly: { job: TagOnlyJob; result: MainResult };
  listVersions: { job: ListVersionsJob; result: ListVersionsResult };
  nextNumber: { job: NextNumberJob; result: NextNumberResult };
  retire: { job: RetireJob; result: RetireResult };
  checkout: { job: CheckoutJob; result: CheckoutResult };
  treeOf: { job: TreeOfJob; result: TreeOfResult };
  readBlob: { job: ReadBlobJob; result: ReadBlobResult };
  mergeApp: { job: MergeAppJob; result: MergeAppResult };
  updateApp: { job: UpdateAppJob; result: UpdateAppResult };
  diffApp: { job: DiffAppJob; result: DiffAppResult };
  branch: { job: BranchJob; result: MainResult };
  branches: { job: BranchesJob; result: MainResult };
  exportBundle: { job: ExportBundleJob; result: ExportBundleResult };
  importBundle: { job: ImportBundleJob; result: ImportBundleResult };
  packLoose: { job: PackLooseJob; result: PackLooseResult };
};

export type GitOperation = keyof GitOperations;
export type GitJob = { [O in GitOperation]: { operation: O } & GitOperations[O]['job'] }[GitOperation];
