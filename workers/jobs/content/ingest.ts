/** Gathers, checks, commits and prepares the files of a version (specification, "Uploads" and "Publication"). */
import { createHash } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { automationFile, isAutomationFile } from '../../../protocol/automations/automation.ts';
import { contentHash } from '../../../protocol/content-hash.ts';
import { type InputIssue, SvcError } from '../../../protocol/errors.ts';
import { versionId, versionTag } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest, VersionSummary } from '../../../protocol/manifest.ts';
import { isTypeScript } from '../../../protocol/rules/handler-imports.ts';
import { checkManifest } from '../../../protocol/rules/manifest-check.ts';
import { nearMisses } from '../../../protocol/rules/near-misses.ts';
import type { CommonsFinding } from '../../../protocol/wire/commons.ts';
import type { SentFiles } from '../../../protocol/wire/git-jobs.ts';
import type {
  CheckJob,
  CheckResult,
  CommitOrder,
  IngestJob,
  IngestResult,
  PrepareJob,
} from '../../../protocol/wire/jobs.ts';
import { namesInSync, syncTree } from '../../../storage/files/atomic-file.ts';
import { listTreeSync, pathOf } from '../../../storage/files/list-tree.ts';
import { VersionPaths } from '../../../storage/layout.ts';
import { compileValidators } from '../compile-validators.ts';
import { type ErasedModules, inspectHandlers, writeErased } from '../handlers.ts';
import { checkAddedMigrations, checkUnchanged, type LiveMigration, migrationsIn } from '../migrations.ts';
import {
  type CheckedFiles,
  checkFiles,
  checkHandlerFiles,
  hashText,
  prepareFiles,
  readManifest,
  type VersionContent,
} from '../prepare-files.ts';
import { isReusable, noteUploaded, prepareAutomations } from '../uploaded-automations.ts';
import { hashed, readFolder } from './app-files.ts';
import { extractArchive } from './archive.ts';
import { drawIcons, NO_ICONS } from './drawn-icons.ts';
import type { ExtractedFile } from './extracted.ts';
import { copyFiles, makeFolder, writeNewFile } from './files.ts';
import { type BuiltPage, buildPage } from './page-bundle.ts';

/** Stages the version in `staging/code` and `staging/prepared`. One that is refused leaves nothing: the folder is removed. */
export async function ingest(job: IngestJob): Promise<IngestResult> {
  const staged = new VersionPaths(join(job.staging, 'code'), join(job.staging, 'prepared'));
  try {
    // Left by a process that died during the same work.
    for (const dir of [staged.code, staged.prepared]) rmSync(dir, { recursive: true, force: true });
    const gathered = await gatherFiles(job, staged.code);
    const { files } = gathered;
    const sha256 = contentHash(files);
    const active = job.active === null ? null : new VersionPaths(job.active.code, job.active.prepared);
    const known = await findKnown(job, sha256, files, staged, active);
    return known === null ? await prepare(job, sha256, gathered, staged, active) : { known };
  } catch (error) {
    rmSync(job.staging, { recursive: true, force: true });
    throw error;
  }
}

/** Checks a workspace's files as their publication would and throws its error; keeps no files. Answers with the warnings. */
export async function review(job: IngestJob): Promise<InputIssue[]> {
  const staged = new VersionPaths(join(job.staging, 'code'), join(job.staging, 'prepared'));
  try {
    // Left by a process that died during the same work.
    for (const dir of [staged.code, staged.prepared]) rmSync(dir, { recursive: true, force: true });
    const { files } = await gatherFiles(job, staged.code);
    const active = job.active === null ? null : new VersionPaths(job.active.code, job.active.prepared);
    const { app, uploadedAt } = job;
    const sha256 = contentHash(files);
    const content = { app, versionId: versionId(uploadedAt, sha256), uploadedAt, sha256, files };
    const { checked, warnings, built } = await checkContent(job, content, staged, active);
    const preparation = { owner: { app }, compressed: false, before: active, icons: NO_ICONS, built };
    return prepareFiles(content, { ...checked, warnings }, staged, preparation).warnings ?? [];
  } finally {
    rmSync(job.staging, { recursive: true, force: true });
  }
}

/** Id of the stored version with the same content as the upload, whose files are still those. */
async function findKnown(
  job: IngestJob,
  sha256: string,
  files: ExtractedFile[],
  staged: VersionPaths,
  active: VersionPaths | null,
): Promise<string | null> {
  const paths = files.map((file) => file.path);
  for (const version of job.known) {
    if (version.sha256 !== sha256 || !hasFiles(version.code, files)) continue;
    if (await isReusable(new VersionPaths(version.code, version.prepared), staged, active, paths))
      return version.versionId;
  }
  return null;
}

/** Whether a stored version has these files undamaged. Those of automations are rewritten when they are stored. */
function hasFiles(code: string, files: ExtractedFile[]): boolean {
  return files.every(({ path, sha256 }) => {
    if (isAutomationFile(path)) return true;
    try {
      return (
        createHash('sha256')
          .update(readFileSync(join(code, path)))
          .digest('hex') === sha256
      );
    } catch {
      return false;
    }
  });
}

/** Makes anew what was prepared of a stored version; its code, whose webhooks have their addresses, stays as it is. */
export async function prepareAgain({ app, versionId, code, to, uploadedAt, sha256, note }: PrepareJob): Promise<void> {
  const staged = new VersionPaths(code, to);
  try {
    rmSync(to, { recursive: true, force: true });
    const files = readFolder(code).map(hashed);
    const content = { app, versionId, uploadedAt, sha256: sha256 ?? contentHash(files), files, note };
    const checked = checkFiles(content, code);
    const icons = await drawIcons(code, files);
    const built = await buildPage(code, files, checked.manifest);
    const paths = files.map(({ path }) => path);
    const erased = paths.some(isTypeScript) ? (await inspectHandlers({ code, paths, ...checked })).erased : new Map();
    const commons = await findCommons(code, checked, paths, erased);
    const preparation = { owner: { app }, compressed: true, before: null, icons, built };
    prepareFiles(content, { ...checked, commons }, staged, preparation);
    await writeErased(erased, staged);
    noteUploaded(checked.automations, staged);
    listPrepared(staged);
    await syncTree(to);
  } catch (error) {
    rmSync(to, { recursive: true, force: true });
    throw error;
  }
}

/** As `commonsScript`, whose parser is large. */
async function findCommons(
  code: string,
  { manifest }: CheckedFiles,
  paths: string[],
  erased: ErasedModules,
): Promise<CommonsFinding> {
  const { commonsScript } = await import('../commons-script.ts');
  return commonsScript(code, manifest, paths, erased);
}

/** Writes the list by which damage is noticed. */
function listPrepared({ prepared, summary, preparedList }: VersionPaths): void {
  const files: Record<string, [bytes: number, sha256: string]> = Object.create(null);
  for (const entry of listTreeSync(prepared)) {
    const path = pathOf(entry);
    if (!entry.isFile() || path === summary) continue;
    const bytes = readFileSync(path);
    const name = relative(prepared, path).split(sep).join('/');
    files[name] = [bytes.length, createHash('sha256').update(bytes).digest('hex')];
  }
  writeNewFile(preparedList, JSON.stringify(files));
}

/** Checks the `app.json` of a stored version as an upload of it would be checked now. */
export async function check(job: CheckJob): Promise<CheckResult> {
  const paths = listTreeSync(job.code).map((entry) => relative(job.code, pathOf(entry)));
  const text = readManifest(job.code, paths);
  const manifest = checkManifest(text, job.app);
  checkHandlerFiles(manifest, paths);
  compileValidators(manifest);
  return { manifestSha256: hashText(text) };
}

async function prepare(
  job: IngestJob,
  sha256: string,
  { files, sent, ...gathered }: Gathered,
  staged: VersionPaths,
  active: VersionPaths | null,
): Promise<Extract<IngestResult, { staged: VersionSummary }>> {
  const { app, uploadedAt } = job;
  const id = await nameVersion(job, sha256);
  const content = { app, versionId: id, uploadedAt, sha256, files, note: job.note };
  const { checked, warnings, erased, built } = await checkContent(job, content, staged, active);
  const { manifest, automations } = checked;
  const icons = await drawIcons(staged.code, files);
  const preparation = { owner: { app }, compressed: true, before: active, icons, built };
  const paths = files.map(({ path }) => path);
  const commons = await findCommons(staged.code, checked, paths, erased);
  const summary = prepareFiles(content, { ...checked, warnings, commons }, staged, preparation);
  await writeErased(erased, staged);
  // The repository keeps the author's files; from here on they are rewritten.
  const commit = gathered.commit ?? (await commitFiles(job, id, staged.code, manifest));
  const minted = await prepareAutomations(automations, staged, active);
  listPrepared(staged);
  await syncTree(staged.code);
  await syncTree(staged.prepared);
  return { staged: summary, minted, commit, sent };
}

/** Findings of the gates in the files, and the page as it is built. Throws those that refuse the version. */
async function checkContent(
  job: IngestJob,
  content: VersionContent,
  { code }: VersionPaths,
  active: VersionPaths | null,
): Promise<{ checked: CheckedFiles; warnings: InputIssue[]; erased: ErasedModules; built: BuiltPage }> {
  const checked = checkFiles(content, code);
  const paths = content.files.map((file) => file.path);
  // A restored version stays as it was published, even if newer migrations ran since.
  if (active !== null && !('tag' in job.source))
    checkUnchanged(paths, (path) => readFileSync(join(code, path)), migrationsOf(active.code));
  const sources = await checkSources(job, { code, paths, ...checked });
  return { checked, ...sources, built: await buildPage(code, content.files, checked.manifest) };
}

/** Empty when the files of the version are gone: they are restored when next needed. */
function migrationsOf(code: string): LiveMigration[] {
  const names = namesInSync(join(code, 'migrations'));
  return migrationsIn(names.map((name) => `migrations/${name}`)).map((path) => ({
    path,
    text: readFileSync(join(code, path)),
  }));
}

/** Files sorted by path; the commit that has them already, and what a workspace sent. */
type Gathered = { files: ExtractedFile[]; commit: string | null; sent: SentFiles | null };

/**
 * Writes the files into the new folder `code`. Throws `MERGE_CONFLICT`, `NO_CHANGES`, and `INVALID_MIGRATION` for one whose
 * number was published meanwhile.
 */
async function gatherFiles({ source, commit, app }: IngestJob, code: string): Promise<Gathered> {
  if ('archive' in source) return { files: await extractArchive(source.archive, code), commit: null, sent: null };
  if ('folder' in source) {
    makeFolder(code);
    copyFiles(source.folder, code);
    return { files: readFolder(code).map(hashed), commit: null, sent: null };
  }
  const { repository } = ordered(commit);
  makeFolder(code);
  if ('tag' in source) {
    const { git } = await import('../git/operations.ts');
    const { commit } = await git.checkout({ repository, from: source.tag, app, to: code });
    return { files: readFolder(code).map(hashed), commit, sent: null };
  }
  const { mergeApp } = await import('../git/merge.ts');
  const merged = await mergeApp({ repository, app, base: source.base, folder: source.workspace, to: code });
  if ('unresolved' in merged) throw unresolved(app, merged.unresolved);
  if ('conflicts' in merged) throw mergeConflict(app, merged.conflicts);
  if (!merged.changed && !source.anew) throw new SvcError('NO_CHANGES', `The workspace changes nothing of "${app}".`);
  const files = readFolder(code).map(hashed);
  checkAddedMigrations(
    files.map(({ path }) => path),
    merged,
  );
  return { files, commit: null, sent: merged.sent };
}

/**
 * Applies the handler rules. Any finding refuses a publication, which every upload to the git store is. Other versions are
 * refused only for files that cannot be loaded; other findings are returned, with what is probably mistyped, up to
 * `LIMITS.inputIssues`. A restored version passed before. Throws `INVALID_HANDLER`.
 */
async function checkSources(
  { source, commit }: IngestJob,
  version: CheckedFiles & { code: string; paths: string[] },
): Promise<{ warnings: InputIssue[]; erased: ErasedModules }> {
  const isKnown = 'tag' in source && !source.imported;
  if (isKnown && !version.paths.some(isTypeScript)) return { warnings: [], erased: new Map() };
  const { found, unused, erased } = await inspectHandlers(version);
  if (isKnown) return { warnings: [], erased };
  const { invalidHandler, keepsFromLoading } = await import('../../../protocol/rules/gates/check-handlers.ts');
  const isPublication = commit !== null && !('tag' in source);
  const refused = isPublication ? found : found.filter(keepsFromLoading);
  if (refused.length > 0) throw invalidHandler(refused);
  const { code, paths, automations } = version;
  const mistyped = [
    ...nearMisses('app.json', readManifest(code, paths)),
    ...automations.flatMap(({ id, text }) => nearMisses(automationFile(id), text)),
  ];
  return { warnings: [...found, ...mistyped, ...unused].slice(0, LIMITS.inputIssues), erased };
}

/**
 * The tag of the version: the app's next, or its own if it is restored. On the tarball backend its time and content name it.
 */
async function nameVersion({ source, commit, app, uploadedAt }: IngestJob, sha256: string): Promise<string> {
  if ('tag' in source) return source.tag;
  if (commit === null) return versionId(uploadedAt, sha256);
  const { git } = await import('../git/operations.ts');
  return versionTag(app, (await git.nextNumber({ repository: commit.repository, app })).number);
}

/** The commit that holds the files, which no ref names yet; null on the tarball backend. */
async function commitFiles(
  { commit, app, uploadedAt: at }: IngestJob,
  versionId: string,
  code: string,
  manifest: Manifest,
): Promise<string | null> {
  if (commit === null) return null;
  const { git } = await import('../git/operations.ts');
  const { repository, author, message } = commit;
  // With the tag's name in it, the commit differs from an earlier one with the same files.
  const text = `${message ?? `${manifest.name} ${manifest.version}`}\n\nVersion: ${versionId}\n`;
  const order = { repository, app, folder: code, message: text, author, at, always: true };
  return (await git.commitApp(order)).commit;
}

function mergeConflict(app: string, files: string[]): SvcError {
  const message = `The workspace and what was published of "${app}" meanwhile change the same lines of ${named(files)}.`;
  const advice = 'Update the app in the workspace, resolve the marked lines, then publish again.';
  return new SvcError('MERGE_CONFLICT', `${message} ${advice}`, { files });
}

function unresolved(app: string, files: string[]): SvcError {
  const message = `Both sides of a conflict are still marked in ${named(files)} of "${app}".`;
  const advice = 'Choose between the marks, then publish again.';
  return new SvcError('MERGE_CONFLICT', `${message} ${advice}`, { files, path: files[0] ?? '' });
}

function named(files: string[]): string {
  return files.length === 1 ? (files[0] ?? '') : `${files.length} files`;
}

function ordered(commit: CommitOrder | null): CommitOrder {
  if (commit === null) throw new Error('Only the git store has workspaces and tags.');
  return commit;
}
