/** Moves the names of the repository to a commit that was made before: its tag, and `main`. */
import type { GitTag } from '../../protocol/git-jobs.ts';
import type { Signature } from './commit.ts';
import { MAIN } from './refs.ts';
import type { Repository } from './repository.ts';
import { nameTag, putTag } from './versions.ts';

/**
 * Tags the commit and brings it to `main`: as it is, or merged when another app was published meanwhile. Resolves with the
 * commit of `main`, all durable; done twice, the second time changes nothing. The caller lets no two run at a time.
 */
export async function settle(
  repository: Repository,
  { app, commit, tag, by }: { app: string; commit: string; tag: GitTag | null; by: Signature },
): Promise<string> {
  const tagId = tag === null ? null : await putTag(repository, commit, tag, by);
  const main = repository.main();
  const next = await onMain(repository, { main, app, commit, title: tag?.name ?? app, by });
  await repository.objects.sync();
  if (tag !== null && tagId !== null) await nameTag(repository, tag.name, tagId);
  if (next !== main) await repository.refs.set(MAIN, next, main);
  return next;
}

/** Only the tag: a version that `main` does not have. */
export async function tagOnly(repository: Repository, commit: string, tag: GitTag, by: Signature): Promise<void> {
  const id = await putTag(repository, commit, tag, by);
  await repository.objects.sync();
  if (id !== null) await nameTag(repository, tag.name, id);
}

/** The commit that `main` moves to: itself when the app is there as it shall be, however it came to be. */
async function onMain(
  repository: Repository,
  { main, app, commit, title, by }: { main: string; app: string; commit: string; title: string; by: Signature },
): Promise<string> {
  if (main === commit) return main;
  if ((await repository.commit(commit)).parents.includes(main)) return commit;
  const tree = await repository.appTree(commit, app);
  if ((await repository.appTree(main, app)) === tree) return main;
  return repository.putCommit({
    ...by,
    tree: await repository.treeWithApp(main, app, tree),
    parents: [main, commit],
    message: `Merge ${title}`,
  });
}
