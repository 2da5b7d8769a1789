/** Has an upload checked and staged by a job thread, beside what is stored of its app. */
import type { MintedSecret } from '../protocol/automation.ts';
import type { IngestJob, IngestResult, VersionFolders } from '../protocol/jobs.ts';
import type { VersionSummary } from '../protocol/manifest.ts';
import type { AppPaths } from '../storage/layout.ts';
import { isIntact } from '../storage/versions.ts';

export type UploadJobs = { ingest(job: IngestJob): Promise<IngestResult> };

/** `duplicate` when the version is a stored one, with which the upload has its content in common. */
export type StagedUpload = { version: VersionSummary; duplicate: boolean; minted: MintedSecret[] };

/** `stored` are the app's versions, newest first; `active` is the one of them that serves. Rejects as the job does. */
export async function stageUpload(
  jobs: UploadJobs,
  app: AppPaths,
  upload: Pick<IngestJob, 'archive' | 'app' | 'staging' | 'uploadedAt'>,
  stored: VersionSummary[],
  active: VersionSummary | null,
): Promise<StagedUpload> {
  // Content whose copy on disk was edited since is stored anew: the upload is what mends it.
  const intact = await Promise.all(stored.map((version) => isIntact(app, version)));
  const known = stored.filter((_, at) => intact[at]);
  const result = await jobs.ingest({
    ...upload,
    known: known.map((version) => ({
      versionId: version.versionId,
      sha256: version.sha256,
      ...foldersOf(app, version),
    })),
    active: active === null ? null : foldersOf(app, active),
  });
  if ('staged' in result) return { version: result.staged, duplicate: false, minted: result.minted };
  const version = known.find(({ versionId }) => versionId === result.known) as VersionSummary;
  return { version, duplicate: true, minted: [] };
}

function foldersOf(app: AppPaths, { versionId }: VersionSummary): VersionFolders {
  const { code, prepared } = app.version(versionId);
  return { code, prepared };
}
