/** Has the files of a version checked and put aside for its installation, and makes anew what was prepared of a stored one. */
import { mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { MintedSecret } from '../../protocol/automations/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { uploadTime } from '../../protocol/ids.ts';
import type { VersionNote, VersionSummary } from '../../protocol/manifest.ts';
import type { VersionFolders, VersionSource } from '../../protocol/wire/jobs.ts';
import type { AppState } from '../../storage/apps/registry.ts';
import { installPrepared, isIntact, isPrepared, listVersions, readVersion } from '../../storage/apps/versions.ts';
import { type AppPaths, VersionPaths } from '../../storage/layout.ts';
import { type ChangeOptions, type PublishedFiles, stagingFolder, type WorkspaceCopy } from './change.ts';
import { noteOf, unknownVersion } from './store/code-store.ts';

/** Errors of jobs that say nothing about the files. */
const NOT_OF_THE_CODE: ReadonlySet<string> = new Set(['OVERLOADED', 'STORAGE_FULL', 'INTERNAL']);

/** An uploaded file, a workspace, or the tag of a version that the store has. */
export type PublicationSource = Exclude<VersionSource, { workspace: string }> | { workspace: WorkspaceCopy };

export type StagedVersion = {
  version: VersionSummary;
  /** The files that are to be installed; null when they are on disk. */
  files: VersionPaths | null;
  /** The version's commit on the git store; null without one. */
  commit: string | null;
  minted: MintedSecret[];
  /** What a workspace sent, once it is committed. */
  sent: Required<PublishedFiles> | null;
};

type Order = { source: PublicationSource; note?: VersionNote | undefined; staging: string };

/**
 * `state` is the app before; null when it is not registered. Rejects with the errors of archives, merges, manifests, handlers and
 * automations, `UNKNOWN_VERSION`, `STORE_DAMAGED`.
 */
export async function stageVersion(
  options: ChangeOptions,
  id: string,
  state: AppState | null,
  order: Order,
): Promise<StagedVersion> {
  const { source } = order;
  const app = options.layout.app(id);
  const onDisk = 'tag' in source && state !== null ? await readVersion(app, source.tag) : null;
  if (onDisk === null || !(await isUsable(options, id, onDisk))) return ingest(options, id, state, order);
  return ofStored((await readVersion(app, onDisk.versionId)) ?? onDisk);
}

function ofStored(version: VersionSummary): StagedVersion {
  return { version, files: null, commit: null, minted: [], sent: null };
}

/** Whether a version on the disk can serve, after a repair of what was prepared of it. */
async function isUsable(options: ChangeOptions, id: string, { versionId }: VersionSummary): Promise<boolean> {
  if (await isPrepared(options.layout.app(id), versionId)) return true;
  if (await prepareAnew(options, id, versionId)) return true;
  if (options.store.keepsDiscarded) return false;
  const advice = 'Upload it again, or activate another one.';
  throw new SvcError('STORE_DAMAGED', `The files of the version ${versionId} are damaged. ${advice}`);
}

async function ingest(
  options: ChangeOptions,
  id: string,
  state: AppState | null,
  order: Order,
): Promise<StagedVersion> {
  const { layout, store, jobs } = options;
  const { source, staging } = order;
  const app = layout.app(id);
  const stored = state === null || 'tag' in source ? [] : await listVersions(app);
  // Content whose copy on disk was edited since is stored anew: the upload is what mends it.
  const intact = await Promise.all(stored.map((version) => isIntact(app, version)));
  const known = 'archive' in source || 'folder' in source ? stored.filter((_, at) => intact[at]) : [];
  await store.refresh();
  const { uploadedAt, note } = await originOf(options, id, stored, order);
  await mkdir(staging, { recursive: true, mode: 0o700 });
  const result = await jobs.ingest({
    source:
      'workspace' in source
        ? { workspace: source.workspace.folder, base: source.workspace.base, anew: state === null }
        : source,
    commit: store.commitOrder(note.message ?? null),
    app: id,
    note,
    staging,
    uploadedAt,
    known: known.map(({ versionId, sha256 }) => ({ versionId, sha256, ...foldersOf(app, versionId) })),
    active: state?.active ? foldersOf(app, state.active.versionId) : null,
  });
  if ('known' in result) return ofStored(known.find(({ versionId }) => versionId === result.known) as VersionSummary);
  const { staged: version, minted, commit, sent } = result;
  const files = new VersionPaths(join(staging, 'code'), join(staging, 'prepared'));
  return { version, files, commit, minted, sent: sent === null || commit === null ? null : { commit, ...sent } };
}

/** A time later than every version on disk, or what the tag says. Rejects with `UNKNOWN_VERSION`. */
async function originOf(
  { store, now }: ChangeOptions,
  id: string,
  stored: VersionSummary[],
  { source, note = {} }: Order,
): Promise<{ uploadedAt: number; note: VersionNote }> {
  if (!('tag' in source)) return { uploadedAt: Math.max(now(), (stored[0]?.uploadedAt ?? 0) + 1), note };
  const tagged = await store.find(id, source.tag);
  if (tagged === null) throw unknownVersion(id, source.tag);
  return { uploadedAt: tagged.uploadedAt, note: noteOf(tagged) };
}

function foldersOf(app: AppPaths, versionId: string): VersionFolders {
  const { code, prepared } = app.version(versionId);
  return { code, prepared };
}

/**
 * Makes anew what was prepared of a stored version; false when its code cannot be prepared, which is logged. Rejects when it could
 * not be tried.
 */
export async function prepareAnew(
  options: Omit<ChangeOptions, 'now'>,
  id: string,
  versionId: string,
): Promise<boolean> {
  const { layout, store, jobs, log } = options;
  const app = layout.app(id);
  const staging = stagingFolder(layout);
  const to = join(staging, 'prepared');
  try {
    await mkdir(staging, { recursive: true, mode: 0o700 });
    // On the git store it is a link, which jobs do not follow.
    const code = await realpath(app.version(versionId).code);
    const at = uploadTime(versionId);
    // A damaged repository keeps no version from being prepared.
    const tagged = at === null ? await store.find(id, versionId).catch(() => null) : null;
    const uploadedAt = at ?? tagged?.uploadedAt ?? Math.floor((await stat(code)).mtimeMs);
    const note = noteOf(tagged ?? (await readVersion(app, versionId)) ?? {});
    await jobs.prepareAgain({ app: id, versionId, code, to, uploadedAt, sha256: tagged?.sha256 || null, note });
    await installPrepared(app, versionId, to);
    return true;
  } catch (error) {
    if (!(error instanceof SvcError) || NOT_OF_THE_CODE.has(error.code)) throw error;
    log.error({ app: id, version: versionId, err: error }, 'What is derived from a version could not be made anew.');
    return false;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}
