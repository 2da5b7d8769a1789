/** Has a version checked and staged by a job thread, beside what is stored of its app. */
import { join } from 'node:path';
import type { CommitOrder, IngestJob, IngestResult, VersionFolders } from '../../../protocol/jobs.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import { type AppPaths, VersionPaths } from '../../../storage/layout.ts';
import { isIntact } from '../../../storage/versions.ts';
import type { Staged, StageRequest } from './code-store.ts';

export type StageJobs = { ingest(job: IngestJob): Promise<IngestResult> };

/** Rejects as the job does. */
export async function stageVersion(
  jobs: StageJobs,
  id: string,
  app: AppPaths,
  { source, staging, uploadedAt, stored, active }: StageRequest,
  commit: CommitOrder | null,
): Promise<Staged> {
  // Content whose copy on disk was edited since is stored anew: the upload is what mends it.
  const candidates = 'archive' in source ? stored : [];
  const intact = await Promise.all(candidates.map((version) => isIntact(app, version)));
  const known = candidates.filter((_, at) => intact[at]);
  const result = await jobs.ingest({
    source,
    commit,
    app: id,
    staging,
    uploadedAt,
    known: known.map((version) => ({
      versionId: version.versionId,
      sha256: version.sha256,
      ...foldersOf(app, version),
    })),
    active: active === null ? null : foldersOf(app, active),
  });
  if ('known' in result) {
    const version = known.find(({ versionId }) => versionId === result.known) as VersionSummary;
    return { version, staged: null, minted: [], commit: null };
  }
  const staged = new VersionPaths(join(staging, 'code'), join(staging, 'prepared'));
  return { version: result.staged, staged, minted: result.minted, commit: result.commit };
}

function foldersOf(app: AppPaths, { versionId }: VersionSummary): VersionFolders {
  const { code, prepared } = app.version(versionId);
  return { code, prepared };
}
