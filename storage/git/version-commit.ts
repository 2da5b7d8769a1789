/** Makes the commit of a version: `main` with one app replaced. No name is moved to it. */
import type { CommitResult } from '../../protocol/git-jobs.ts';
import type { Signature } from './commit.ts';
import type { Repository } from './repository.ts';

export type VersionCommit = {
  main: string;
  app: string;
  tree: string | null;
  message: string;
  by: Signature;
  always?: boolean;
};

/** `tree` is the app's, null to remove it; what `main` has already is committed with `always` only. All objects are durable when it resolves. */
export async function commitTree(
  repository: Repository,
  { main, app, tree, message, by, always = false }: VersionCommit,
): Promise<CommitResult> {
  const unchanged = !always && (await repository.appTree(main, app)) === tree;
  const commit = unchanged
    ? main
    : await repository.putCommit({
        ...by,
        tree: await repository.treeWithApp(main, app, tree),
        parents: [main],
        message,
      });
  await repository.objects.sync();
  return { commit, parent: main, tree, unchanged };
}
