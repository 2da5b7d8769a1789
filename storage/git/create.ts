/** Creates the bare repository, whole or not at all. */
import { mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { exists, mkdirDurable, renameDurable, writeFileAtomic } from '../atomic-file.ts';
import { syncTree } from '../sync-tree.ts';
import type { Signature } from './commit.ts';
import { damaged } from './object.ts';
import { MAIN } from './refs.ts';
import { Repository } from './repository.ts';

const HEAD = `ref: ${MAIN}\n`;
const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n';

/** The commit of `main`. A repository without any branch or tag gets its root commit. Rejects with `STORE_DAMAGED`. */
export async function openRepository(path: string, by: Signature): Promise<string> {
  if (!(await exists(path))) await create(path);
  try {
    const repository = new Repository(path);
    if (!repository.refs.any()) await makeRoot(repository, by);
    const main = repository.main();
    await repository.commit(main);
    await mend(path);
    return main;
  } catch (error) {
    if (!(await exists(join(path, 'HEAD')))) throw damaged('it has no HEAD', error);
    throw error;
  }
}

/** Without these two files git does not take the folder for a repository. What they say is always the same. */
async function mend(path: string): Promise<void> {
  for (const [name, content] of Object.entries({ HEAD, config: CONFIG })) {
    const file = join(path, name);
    const { size } = await stat(file).catch(() => ({ size: 0 }));
    if (size === 0) await writeFileAtomic(file, content);
  }
}

async function create(path: string): Promise<void> {
  await mkdirDurable(dirname(path));
  const making = join(dirname(path), `.${basename(path)}.tmp`);
  await rm(making, { recursive: true, force: true });
  for (const folder of ['objects/info', 'objects/pack', 'refs/heads', 'refs/tags']) {
    await mkdir(join(making, folder), { recursive: true, mode: 0o700 });
  }
  await writeFile(join(making, 'HEAD'), HEAD, { mode: 0o600 });
  await writeFile(join(making, 'config'), CONFIG, { mode: 0o600 });
  await syncTree(making);
  await renameDurable(making, path);
}

async function makeRoot(repository: Repository, by: Signature): Promise<void> {
  const tree = await repository.objects.put('tree', Buffer.alloc(0));
  const root = await repository.putCommit({ ...by, tree, parents: [], message: 'Begin' });
  await repository.objects.sync();
  await repository.refs.set(MAIN, root, null);
}
