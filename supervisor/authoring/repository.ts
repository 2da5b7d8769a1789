/** What sessions ask of the repository, as its operations answer it. */
import { SvcError } from '../../protocol/errors.ts';
import type { GitAuthor } from '../../protocol/git-jobs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { exists } from '../../storage/atomic-file.ts';
import type { GitRepository } from '../deployments/store/git-jobs.ts';
import type { SessionRepository } from './session-folders.ts';

type Asked = Pick<
  GitRepository,
  'openRepository' | 'checkout' | 'treeOf' | 'updateApp' | 'diffApp' | 'listVersions' | 'branch' | 'branches'
>;

/** `path` is the repository's. */
export function sessionRepository(git: Asked, path: string, author: GitAuthor, now: () => number): SessionRepository {
  return {
    main: async () => {
      // A new one in its place would give the numbers of versions a second time.
      if (!(await exists(path)))
        throw new SvcError('STORE_DAMAGED', 'The git repository is missing; restore it from a clone or a backup.');
      return (await git.openRepository({ author, at: now() })).main;
    },
    checkout: (app, from, to) => git.checkout({ app, from, to, durable: true }),
    files: (app, from) => git.treeOf({ app, from }),
    update: (app, base, folder, to) => git.updateApp({ app, base, folder, to }),
    diff: (app, since, folder) => git.diffApp({ app, since, folder, against: 'main' }),
    isPublished: async (app, commit) => {
      const { versions } = await git.listVersions({ app, limit: LIMITS.versionsListed, before: null });
      return versions.some((version) => version.commit === commit);
    },
    branch: async (name, to) => {
      await git.branch({ name, to });
    },
    branches: async (prefix, branches) => {
      await git.branches({ prefix, branches: Object.fromEntries(branches) });
    },
  };
}
