/** One job on the repository, by the name of its operation. */
import type { GitJob, GitOperations } from '../../../protocol/git-jobs.ts';
import * as operations from './operations.ts';

type Handlers = {
  [O in keyof GitOperations]: (job: GitOperations[O]['job']) => Promise<GitOperations[O]['result']>;
};

/** The merge, the diffs and the bundles bring their packages, and are loaded on use. */
const HANDLERS: Handlers = {
  ...operations,
  mergeApp: async (job) => (await import('./merge.ts')).mergeApp(job),
  updateApp: async (job) => (await import('./merge.ts')).updateApp(job),
  diffApp: async (job) => (await import('./diff.ts')).diffApp(job),
  exportBundle: async (job) => (await import('./bundle.ts')).exportBundle(job),
  importBundle: async (job) => (await import('./bundle.ts')).importBundle(job),
};

export function runGit(job: GitJob): Promise<GitOperations[keyof GitOperations]['result']> {
  const handler = HANDLERS[job.operation] as (job: GitJob) => Promise<GitOperations[keyof GitOperations]['result']>;
  return handler(job);
}
