/** Takes the files of a version in: checks them, and prepares what serving them needs (decisions, sections 2 and 7). */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { MintedSecret } from '../../protocol/automation.ts';
import { versionId } from '../../protocol/ids.ts';
import type { CheckJob, CheckResult, IngestJob, IngestResult } from '../../protocol/jobs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type {
  ActionDefinition,
  Manifest,
  QueryDefinition,
  QuerySummary,
  VersionSummary,
} from '../../protocol/manifest.ts';
import { flatAutomations } from '../../protocol/rules/automation-issues.ts';
import { checkManifest, manifestIssue } from '../../protocol/rules/manifest-check.ts';
import { namesInSync } from '../../storage/atomic-file.ts';
import { crashPoint } from '../../storage/crash-point.ts';
import { VersionPaths } from '../../storage/layout.ts';
import { syncTree } from '../../storage/sync-tree.ts';
import { type CheckedAutomation, checkAutomations, isReusable, prepareAutomations } from './automations.ts';
import type { ExtractedFile } from './extract.ts';
import { writeNewFile } from './files.ts';
import { checkMigrations, checkUnchanged, type LiveMigration, migrationsIn } from './migrations.ts';
import { checkSources, commitFiles, gatherFiles } from './source.ts';
import { prepareStatic, type StaticOptions } from './static.ts';
import { compileValidators, validatorsLike } from './validators.ts';

/** Stages the version in `staging/code` and `staging/prepared`. One that is refused leaves nothing: the folder is removed. */
export async function ingest(job: IngestJob): Promise<IngestResult> {
  const staged = new VersionPaths(join(job.staging, 'code'), join(job.staging, 'prepared'));
  try {
    // Of a process that died while it did the same.
    for (const dir of [staged.code, staged.prepared]) rmSync(dir, { recursive: true, force: true });
    const files = await gatherFiles(job, staged.code);
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
  const paths = readdirSync(job.code, { recursive: true, encoding: 'utf8' });
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
): Promise<{ staged: VersionSummary; minted: MintedSecret[]; commit: string | null }> {
  const { app, uploadedAt } = job;
  const id = job.commit?.versionId ?? versionId(uploadedAt, sha256);
  const { summary, manifest, automations } = prepareFiles({ app, versionId: id, uploadedAt, sha256, files }, staged, {
    owner: { app },
    compressed: true,
    before: active,
  });
  // A version that is brought back is as it was published, whatever the data has had since.
  if (active !== null && !('tag' in job.source)) {
    const paths = files.map((file) => file.path);
    checkUnchanged(paths, (path) => readFileSync(join(staged.code, path)), migrationsOf(active.code));
  }
  if ('session' in job.source) await checkSources(staged.code, manifest, automations);
  // From here on files are rewritten that the repository keeps as their author wrote them.
  const commit = await commitFiles(job, staged.code, manifest);
  crashPoint('ingest.committed');
  const minted = await prepareAutomations(automations, staged, active);
  crashPoint('ingest.prepared');
  await syncTree(staged.code);
  await syncTree(staged.prepared);
  crashPoint('ingest.synced');
  return { staged: summary, minted, commit };
}

/** Nothing where the files of the version are gone: they are brought back when it is next needed. */
function migrationsOf(code: string): LiveMigration[] {
  const names = namesInSync(join(code, 'migrations'));
  return migrationsIn(names.map((name) => `migrations/${name}`)).map((path) => ({
    path,
    text: readFileSync(join(code, path)),
  }));
}

/** What a version is made of; `uploadedAt` in milliseconds since the epoch. */
export type VersionContent = {
  app: string;
  versionId: string;
  uploadedAt: number;
  sha256: string;
  files: ExtractedFile[];
};

/** Checks the files in `staged.code` and writes `staged.prepared`. Throws the errors of manifests, migrations and automations. */
export function prepareFiles(
  { app, versionId, uploadedAt, sha256, files }: VersionContent,
  staged: VersionPaths,
  preparation: StaticOptions,
): { summary: VersionSummary; manifest: Manifest; automations: CheckedAutomation[] } {
  const paths = files.map((file) => file.path);
  const text = readManifest(staged.code, paths);
  const manifest = checkManifest(text, app);
  checkHandlerFiles(manifest, paths);
  const migrations = checkMigrations(paths, (path) => readFileSync(join(staged.code, path)));
  const automations = checkAutomations(paths, staged.code, uploadedAt);
  const flat = flatAutomations(paths);
  const validators = validatorsLike(validatorsOf(preparation.before), manifest, automations);

  const summary: VersionSummary = {
    versionId,
    sha256,
    manifestSha256: hashOf(text),
    uploadedAt,
    files: files.length,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    name: manifest.name,
    version: manifest.version,
    ...(manifest.description === undefined ? {} : { description: manifest.description }),
    kind: manifest.kind ?? 'app',
    queries: manifest.queries.map(summarize),
    actions: manifest.actions.map(summarizeAction),
    knobs: manifest.knobs ?? [],
    ...(manifest.uses === undefined || manifest.uses.length === 0 ? {} : { uses: manifest.uses }),
    ...(manifest.network === undefined ? {} : { network: manifest.network }),
    migrations,
    automations: automations.length,
    ...(flat.length === 0 ? {} : { flatAutomations: flat.slice(0, LIMITS.automations) }),
  };
  writeNewFile(staged.validators, validators);
  writeNewFile(staged.static, JSON.stringify(prepareStatic(files, staged, preparation)));
  writeNewFile(staged.summary, JSON.stringify(summary));
  return { summary, manifest, automations };
}

/** The text of `validators.js`; null when it cannot be read. */
function validatorsOf(version: VersionPaths | null): string | null {
  try {
    return version === null ? null : readFileSync(version.validators, 'utf8');
  } catch {
    // It is only a shortcut: whatever is wrong with it, they are compiled.
    return null;
  }
}

/** sha256 over the sorted names and the bytes of the files: the same for every way to pack them. */
export function contentHash(files: ExtractedFile[]): string {
  const hash = createHash('sha256');
  for (const { path, sha256 } of files) hash.update(`${path}\0${sha256}\n`);
  return hash.digest('hex');
}

function readManifest(code: string, paths: string[]): string {
  if (paths.includes('app.json')) return readFileSync(join(code, 'app.json'), 'utf8');
  const top = paths[0]?.split('/')[0];
  const isWrapped = paths.includes(`${top}/app.json`) && paths.every((path) => path.startsWith(`${top}/`));
  const hint = isWrapped ? `; everything is in the folder "${top}": pack what is in it, not the folder itself` : '';
  throw manifestIssue('', `is missing at the top${hint}`, 'required');
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
