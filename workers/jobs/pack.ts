/** Packs one part of a backup. */
import type { PackJob, PackResult } from '../../protocol/jobs.ts';
import { BackupWorkspace, packManifest, packSources } from '../../storage/backup/pack.ts';
import { checkCancelled } from './control.ts';

/** Throws `OVERLOADED` when it was cancelled, and `STORAGE_FULL`, `BACKUP_TOO_LARGE` or `INVALID_BACKUP`. */
export async function pack({ workspace, work }: PackJob): Promise<PackResult> {
  const files = new BackupWorkspace(workspace);
  if ('finish' in work) return { files: 1, bytes: await packManifest(files, work.finish) };
  return packSources(files, work.sources, checkCancelled);
}
