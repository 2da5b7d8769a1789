/** The repository as a file, and back. */
import { statSync } from 'node:fs';
import type {
  ExportBundleJob,
  ExportBundleResult,
  ImportBundleJob,
  ImportBundleResult,
} from '../../../protocol/git-jobs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { readBundle, writeBundle } from '../../../storage/git/bundle.ts';
import { Repository } from '../../../storage/git/repository.ts';
import { listVersions } from '../../../storage/git/versions.ts';

export async function exportBundle({ to, ...job }: ExportBundleJob): Promise<ExportBundleResult> {
  const written = await writeBundle(new Repository(job.repository), to);
  return { ...written, bytes: statSync(to).size };
}

export async function importBundle({ from, ...job }: ImportBundleJob): Promise<ImportBundleResult> {
  const read = await readBundle(new Repository(job.repository), job.repository, from);
  // Opened again: its names and objects are others now.
  const repository = new Repository(job.repository);
  const apps: ImportBundleResult['apps'] = [];
  for (const id of await repository.appIds(read.main))
    apps.push({ id, tag: await tagOnMain(repository, read.main, id) });
  return { ...read, apps };
}

async function tagOnMain(repository: Repository, main: string, app: string): Promise<string | null> {
  const tree = await repository.appTree(main, app);
  const { versions } = await listVersions(repository, app, { limit: LIMITS.listRowsMax, before: null });
  for (const { tag, commit } of versions) if ((await repository.appTree(commit, app)) === tree) return tag;
  return null;
}
