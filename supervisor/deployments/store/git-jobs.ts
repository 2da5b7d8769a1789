/** The repository of the git store as the supervisor sees it: every operation is a job. */
import type { GitOperation, GitOperations } from '../../../protocol/git-jobs.ts';
import type { Jobs } from '../../jobs/jobs.ts';

type Without<T> = Omit<T, 'repository'>;

export type GitRepository = {
  [O in GitOperation]: (job: Without<GitOperations[O]['job']>) => Promise<GitOperations[O]['result']>;
};

/** Operations reject with `STORE_DAMAGED`, `CONFLICT`, `UNKNOWN_VERSION`, `STORAGE_FULL` and the errors of archives. */
export function gitRepository(jobs: Pick<Jobs, 'git'>, repository: string): GitRepository {
  const client =
    <O extends GitOperation>(operation: O) =>
    (job: Without<GitOperations[O]['job']>): Promise<GitOperations[O]['result']> =>
      jobs.git(operation, { ...job, repository } as GitOperations[O]['job']);
  return {
    openRepository: client('openRepository'),
    commitApp: client('commitApp'),
    commitTree: client('commitTree'),
    settle: client('settle'),
    tagOnly: client('tagOnly'),
    listVersions: client('listVersions'),
    nextNumber: client('nextNumber'),
    retire: client('retire'),
    checkout: client('checkout'),
    treeOf: client('treeOf'),
    readBlob: client('readBlob'),
    mergeApp: client('mergeApp'),
    updateApp: client('updateApp'),
    diffApp: client('diffApp'),
    branch: client('branch'),
    branches: client('branches'),
    exportBundle: client('exportBundle'),
    importBundle: client('importBundle'),
    packLoose: client('packLoose'),
  };
}
