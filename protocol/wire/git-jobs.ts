/** Types of the jobs on the repository of the git store: their arguments and answers (specification, "Stores of code"). */
import type { FILE_DIFF } from '../routes/apps/publications.ts';
import type { Of } from '../shapes/schema.ts';

/** The author of a commit; `commitAuthor` of the configuration. */
export type GitAuthor = { name: string; email: string };

/** `repository` is the path of the bare repository; ids of objects are 40 hex digits. */
type OnRepository = { repository: string };
type OnApp = OnRepository & { app: string };
/** `at` is the time of the commit in milliseconds since 1970. */
type Signed = { author: GitAuthor; at: number };

/** `main`, a commit's id, or the name of a tag (`<app>/v<n>`). */
export type GitRevision = string;

/**
 * `parent` is `main` as it was read. `unchanged`: `main` has the same files already, no commit was made, and `commit` is
 * `main` itself. `tree` is the id of the app's folder, null without one.
 */
export type CommitResult = { commit: string; parent: string; tree: string | null; unchanged: boolean };

/** The content of a version's tag beside its number; `message` is for people, `listVersions` returns `info`. */
export type GitTag = { name: string; message: string; info?: GitVersionInfo };
/** Stored in the message of the tag as a line `svc: {json}`. */
export type GitVersionInfo = {
  sha256: string;
  version: string;
  uploadedAt: string;
  files: number;
  bytes: number;
  /** The name of the person or program that published it, where it is known. */
  by?: string;
};

export type GitVersion = {
  /** `<app>/v<n>`. */
  tag: string;
  number: number;
  commit: string;
  /** Without the line that holds `info`. */
  message: string;
  /** The commit's message without the line that names the version. */
  commitMessage: string;
  /** When it was tagged, in milliseconds. */
  at: number;
  /** Null for a tag that was made by hand. */
  info: GitVersionInfo | null;
};
/** Newest first; `total` counts all that the app has. */
export type ListVersionsResult = { versions: GitVersion[]; total: number };

/** `sha` is the id of the file's content as git counts it. */
export type GitFile = { path: string; size: number; sha: string };

/** `commit` is null, and nothing is written, when the revision has no such app. */
export type CheckoutResult = { commit: string | null; files: GitFile[] };
/** Sorted by path. */
export type TreeOfResult = { commit: string; files: GitFile[] | null };

/** Three-way: the app's tree at `base` (null: it had none), at `main`, and the files in `folder`; into the empty folder `to`. */
export type MergeAppJob = OnApp & { base: string | null; folder: string; to: string };
/**
 * `changed`: the result differs from `main`. `main` is the commit that was merged onto. `added` and `lacking`: sorted paths of the
 * result that `main` lacks, and that the folder lacks. `unresolved`: files of the folder in which the marks of an update
 * are left. `sent`: what the folder held.
 */
export type MergeAppResult =
  | { conflicts: string[] }
  | { unresolved: string[] }
  | { changed: boolean; main: string; added: string[]; lacking: string[]; sent: SentFiles };

/** What a workspace sent: the fingerprint of its files, and whether exactly these files are published. */
export type SentFiles = { files: string; same: boolean };
/**
 * Sorted paths. `merged`: files of the folder that changed or went. `conflicts`: texts with both sides between marks, and other
 * files, which stay as the folder has them.
 */
export type UpdateAppResult = { main: string; merged: string[]; conflicts: string[] };

/** Null for `folder` removes the app; `since` is the commit that the folder was taken from, null when it came from none. */
export type DiffAppJob = OnApp & { folder: string | null; against: GitRevision; since: string | null };
/** `path` is inside the app. `patch` is as `git apply` takes it, with the path inside the repository. */
export type GitFileDiff = Of<typeof FILE_DIFF>;
/** A list of the manifest on both sides; null where there is none. */
export type ListChange = { before: string[] | null; after: string[] | null };
/**
 * `base` is the commit that was compared with. `edited`: the folder differs from what it was taken from; `behind`: the commit
 * does, so that the difference has what others changed, in reverse. `network` and `uses` are the manifest's lists of hosts, and of
 * apps whose tools its pages may call, `public` what visitors may use, where they are not the same on both sides.
 */
export type DiffAppResult = {
  base: string;
  edited: boolean;
  behind: boolean;
  files: GitFileDiff[];
  network?: ListChange;
  uses?: ListChange;
  public?: ListChange;
};

/** `apps` are those on `main`, each with the newest tag that has the same files; null when none has. */
export type ImportBundleResult = { main: string; tags: number; apps: { id: string; tag: string | null }[] };
/** Loose objects that are left, those that went into a pack, and the packs that became one. */
export type PackLooseResult = { loose: number; packed: number; joined: number };

/** Every operation by name: its arguments and its answer. `main` in an answer is the commit of `main`. */
export type GitOperations = {
  /** With `existing` it was made before, and none is made in its place. */
  openRepository: { job: OnRepository & Signed & { existing?: boolean }; result: { main: string } };
  /**
   * `folder` holds the app's files as they are to be; null removes the app. With `always` a commit is made even when `main` has
   * the same files: it is still a new version.
   */
  commitApp: {
    job: OnApp & Signed & { folder: string | null; message: string; always?: boolean };
    result: CommitResult;
  };
  /** Commits the app's tree of another commit or tag: a rollback. */
  commitTree: { job: OnApp & Signed & { from: GitRevision; message: string }; result: CommitResult };
  settle: { job: OnApp & Signed & { commit: string; tag: GitTag | null }; result: { main: string } };
  /** Tags a commit that `main` need not contain. */
  tagOnly: { job: OnRepository & Signed & { commit: string; tag: GitTag }; result: undefined };
  /** Only those with a smaller number than `before`. */
  listVersions: { job: OnApp & { limit: number; before: number | null }; result: ListVersionsResult };
  nextNumber: { job: OnApp; result: { number: number } };
  /** One version's tag, or with null all of the app. */
  retire: { job: OnApp & { tag: string | null }; result: { retired: string[] } };
  /** Ascending. */
  versionNumbers: { job: OnApp; result: { numbers: number[] } };
  /** Makes these numbers of retired tags versions again; answers the tags that there are of them. */
  revive: { job: OnApp & { numbers: number[] }; result: { revived: string[] } };
  /** `to` is an empty or missing folder. What is written there is durable only with `durable`. */
  checkout: { job: OnApp & { from: GitRevision; to: string; durable?: boolean }; result: CheckoutResult };
  treeOf: { job: OnApp & { from: GitRevision }; result: TreeOfResult };
  mergeApp: { job: MergeAppJob; result: MergeAppResult };
  /** The same merge the other way: `to` is the folder with what `main` has of the app since `base`, durable. */
  updateApp: { job: MergeAppJob; result: UpdateAppResult };
  diffApp: { job: DiffAppJob; result: DiffAppResult };
  /** Creates or moves the branch; null removes it. */
  branch: { job: OnRepository & { name: string; to: string | null }; result: undefined };
  /** Makes `branches`, name after the prefix → commit, all that there are below the prefix, which ends with a slash. */
  branches: { job: OnRepository & { prefix: string; branches: Record<string, string> }; result: undefined };
  exportBundle: {
    job: OnRepository & { to: string };
    result: { main: string; tags: number; objects: number; bytes: number };
  };
  /** The bundle's `main` and tags become those of a repository that has only its root commit. */
  importBundle: { job: OnRepository & { from: string }; result: ImportBundleResult };
  /** Writes what these have that the known ones do not to the file `to`, as `storage/git/transfer.ts` says. */
  writeObjects: { job: OnRepository & { tips: string[]; known: string[]; to: string }; result: { ids: string[] } };
  /** Takes the objects of such a file. */
  takeObjects: { job: OnRepository & { from: string }; result: { taken: number } };
  /** One step of packing; call it again while it did anything. */
  packLoose: { job: OnRepository; result: PackLooseResult };
};

export type GitOperation = keyof GitOperations;
export type GitJob = { [O in GitOperation]: { operation: O } & GitOperations[O]['job'] }[GitOperation];
