/** Packs one part of a backup. */
import { SvcError } from '../../protocol/errors.ts';
import type { PackJob, PackResult } from '../../protocol/jobs.ts';
import { BackupWorkspace, packManifest, packSources } from '../../storage/backup/pack.ts';

/** Throws `OVERLOADED` when it was cancelled, and `STORAGE_FULL`, `BACKUP_TOO_LARGE` or `INVALID_BACKUP`. */
export async function pack({ workspace, work, cancelled }: PackJob): Promise<PackResult> {
  const files = new BackupWorkspace(workspace);
  if ('finish' in work) return { files: 1, bytes: await packManifest(files, work.finish) };
  return packSources(files, work.sources, () => {
    if (Atomics.load(cancelled, 0) !== 0) throw new SvcError('OVERLOADED', 'The backup was cancelled.');
  });
}
