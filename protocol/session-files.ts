/** What the supervisor asks a job thread about the files of an app in a session (decisions, section 7). */
import type { GitFile } from './git-jobs.ts';

/** The conditions of a request: the values of `If-Match` and `If-None-Match`, as they were sent. */
export type FileConditions = { ifMatch?: string; ifNoneMatch?: string };

/** `folder` is the app's folder in the session's worktree. */
export type SessionFilesJob =
  | { work: 'list'; folder: string }
  | { work: 'read'; folder: string; path: string }
  | { work: 'put'; folder: string; path: string; bytes: Uint8Array; conditions: FileConditions }
  | { work: 'delete'; folder: string; path: string; conditions: FileConditions };

export type SessionFilesResult = {
  list: GitFile[];
  read: GitFile & { bytes: Uint8Array };
  /** `created` when there was no such file before. */
  put: { file: GitFile; created: boolean };
  delete: { path: string };
};
