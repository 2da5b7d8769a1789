/** Has operations on the repository of the git store done by jobs. */
import type { GitOperation, GitOperations } from '../../../protocol/wire/git-jobs.ts';
import type { Jobs } from '../../jobs/jobs.ts';

/** One operation on the repository, done by a job. Rejects with `STORE_DAMAGED`, `STORAGE_FULL` and the operation's errors. */
export type Git = <O extends GitOperation>(
  operation: O,
  job: Omit<GitOperations[O]['job'], 'repository'>,
) => Promise<GitOperations[O]['result']>;

export function gitOn(jobs: Jobs, repository: string): Git {
  return (operation, job) => jobs.git(operation, { ...job, repository } as GitOperations[typeof operation]['job']);
}
