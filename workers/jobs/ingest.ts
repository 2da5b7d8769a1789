/** Takes an uploaded archive in: unpacks and checks it, and prepares what serving it needs (decisions, section 2). */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { MintedSecret } from '../../protocol/automation.ts';
import { versionId } from '../../protocol/ids.ts';
import type { CheckJob, CheckResult, IngestJob, IngestResult } from '../../protocol/jobs.ts';
import type {
  ActionDefinition,
  Manifest,
  QueryDefinition,
  QuerySummary,
  VersionSummary,
} from '../../protocol/manifest.ts';
import { checkManifest, manifestIssue } from '../../protocol/manifest-check.ts';
import { crashPoint } from '../../storage/crash-point.ts';
import { VersionPaths } from '../../storage/layout.ts';
import { syncTree } from '../../storage/sync-tree.ts';
import { checkAutomations, isReusable, prepareAutomations } from './automations.ts';
import { type ExtractedFile, extractArchive } from './extract.ts';
import { writeNewFile } from './files.ts';
import { checkMigrations } from './migrations.ts';
import { prepareStatic } from './static.ts';
import { compileValidators } from './validators.ts';

/** Stages the version in `staging/code` and `staging/prepared`. A refused archive leaves nothing: the folder is removed. */
export async function ingest(job: IngestJob): Promise<IngestResult> {
  const staged = new VersionPaths(join(job.staging, 'code'), join(job.staging, 'prepared'));
  try {
    const files = await extractArchive(job.archive, staged.code);
    crashPoint('ingest.unpacked');
    const sha256 = contentHash(files);
    const active = job.active === null ? null : new VersionPaths(job.active.code, job.active.prepared);
    const known = await findKnown(job, sha256, files, staged, active);
    return known === null ? await prepare(job, sha256, files, staged, active) : { known };
  } catch (error) {
    rmSync(job.staging, { recursive: true, force: true });
    throw error;
  }
}

/** Id of the stored version that the upload is one with. */
async function findKnown(
  job: IngestJob,
  sha256: string,
  files: ExtractedFile[],
  staged: VersionPaths,
  active: VersionPaths | null,
): Promise<string | null> {
  const paths = files.map((file) => file.path);
  for (const version of job.known) {
    if (version.sha256 !== sha256) continue;
    if (await isReusable(new VersionPaths(version.code, version.prepared), staged, active, paths))
      return version.versionId;
  }
  return null;
}

/** Judges the `app.json` of a stored version as an upload of it would be judged now. */
export async function check(job: CheckJob): Promise<CheckResult> {
  const paths = readdirSync(job.code, { recursive: true, encoding: 'utf8' }).map((path) => path.replaceAll('\\', '/'));
  const text = readManifest(job.code, paths);
  const manifest = checkManifest(text, job.app);
  checkHandlerFiles(manifest, paths);
  compileValidators(manifest);
  return { manifestSha256: hashOf(text) };
}

async function prepare(
  job: IngestJob,
  sha256: string,
  files: ExtractedFile[],
  staged: VersionPaths,
  active: VersionPaths | null,
): Promise<{ staged: VersionSummary; minted: MintedSecret[] }> {
  const paths = files.map((file) => file.path);
  const text = readManifest(staged.code, paths);
  const manifest = checkManifest(text, job.app);
  checkHandlerFiles(manifest, paths);
  const migrations = checkMigrations(paths, (path) => readFileSync(join(staged.code, path)));
  const automations = checkAutomations(paths, staged.code, job.uploadedAt);
  const validators = compileValidators(manifest, automations);

  const summary: VersionSummary = {
    versionId: versionId(job.uploadedAt, sha256),
    sha256,
    manifestSha256: hashOf(text),
    uploadedAt: job.uploadedAt,
    files: files.length,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    name: manifest.name,
    version: manifest.version,
    ...(manifest.description === undefined ? {} : { description: manifest.description }),
    kind: manifest.kind ?? 'app',
    queries: manifest.queries.map(summarize),
    actions: manifest.actions.map(summarizeAction),
    knobs: manifest.knobs ?? [],
    migrations,
    automations: automations.length,
  };
  writeNewFile(staged.validators, validators);
  writeNewFile(staged.static, JSON.stringify(prepareStatic(job.app, files, staged)));
  writeNewFile(staged.summary, JSON.stringify(summary));
  const minted = await prepareAutomations(automations, staged, active);
  crashPoint('ingest.prepared');
  syncTree(staged.code);
  syncTree(staged.prepared);
  crashPoint('ingest.synced');
  return { staged: summary, minted };
}

/** sha256 over the sorted names and the bytes of the files: the same for every way to pack them. */
function contentHash(files: ExtractedFile[]): string {
  const hash = createHash('sha256');
  for (const { path, sha256 } of files) hash.update(`${path}\0${sha256}\n`);
  return hash.digest('hex');
}

function readManifest(code: string, paths: string[]): string {
  if (paths.includes('app.json')) return readFileSync(join(code, 'app.json'), 'utf8');
  const top = paths[0]?.split('/')[0];
  const isWrapped = paths.includes(`${top}/app.json`) && paths.every((path) => path.startsWith(`${top}/`));
  const hint = isWrapped ? `; everything is in the folder "${top}": pack what is in it, not the folder itself` : '';
  throw manifestIssue('', `is missing at the top of the archive${hint}`, 'required');
}

function checkHandlerFiles(manifest: Manifest, paths: string[]): void {
  const present = new Set(paths);
  for (const list of ['queries', 'actions'] as const) {
    for (const [i, { name }] of manifest[list].entries()) {
      const file = `${list}/${name}.js`;
      if (!present.has(file))
        throw manifestIssue(`${list}[${i}].name`, `is "${name}", but there is no file ${file}`, 'file');
    }
  }
}

function summarize({ name, description, timeoutMs }: QueryDefinition): QuerySummary {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
}

function summarizeAction(action: ActionDefinition): VersionSummary['actions'][number] {
  const { confirmation, writes = [] } = action;
  return { ...summarize(action), ...(confirmation === undefined ? {} : { confirmation }), writes };
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
