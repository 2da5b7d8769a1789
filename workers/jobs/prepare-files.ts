/**
 * Checks the files of a version or draft, and prepares them for serving (specification, "Members of the manifest" and
 * "Uploads").
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { flatAutomations } from '../../protocol/automations/automation.ts';
import type { InputIssue } from '../../protocol/errors.ts';
import { LIST_ICON } from '../../protocol/http/icons.ts';
import { blockedAddresses } from '../../protocol/http/mcp-app.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type {
  ActionDefinition,
  Manifest,
  QueryDefinition,
  QuerySummary,
  VersionNote,
  VersionSummary,
} from '../../protocol/manifest.ts';
import { checkManifest, manifestIssue } from '../../protocol/rules/manifest-check.ts';
import type { CommonsFinding } from '../../protocol/wire/commons.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import { validatorsLike } from './compile-validators.ts';
import type { ExtractedFile } from './content/extracted.ts';
import { writeNewFile } from './content/files.ts';
import { prepareStatic, type StaticOptions } from './content/static.ts';
import { writePage } from './mcp-page/page-document.ts';
import { checkMigrations } from './migrations.ts';
import { type CheckedAutomation, checkAutomations } from './uploaded-automations.ts';

/** What a version is made of; `uploadedAt` in milliseconds since the epoch. */
export type VersionContent = {
  app: string;
  versionId: string;
  uploadedAt: number;
  sha256: string;
  files: ExtractedFile[];
  note?: VersionNote | undefined;
};

/** Findings in valid files. */
export type CheckedFiles = {
  manifestSha256: string;
  manifest: Manifest;
  migrations: number;
  automations: CheckedAutomation[];
  warnings?: InputIssue[];
  /** Absent where nothing runs in the commons. */
  commons?: CommonsFinding;
};

/** Throws the errors of manifests, migrations and automations for the files in `code`; handlers are checked apart. */
export function checkFiles({ app, uploadedAt, files }: VersionContent, code: string): CheckedFiles {
  const paths = files.map((file) => file.path);
  const text = readManifest(code, paths);
  const manifest = checkManifest(text, app);
  checkHandlerFiles(manifest, paths);
  const migrations = checkMigrations(paths, (path) => readFileSync(join(code, path)));
  const automations = checkAutomations(paths, code, uploadedAt);
  return { manifestSha256: hashText(text), manifest, migrations, automations };
}

/** Writes `staged.prepared`. Throws the errors of schemas and pages. */
export function prepareFiles(
  { versionId, uploadedAt, sha256, files, note }: VersionContent,
  { manifestSha256, manifest, migrations, automations, warnings = [], commons }: CheckedFiles,
  staged: VersionPaths,
  preparation: StaticOptions,
): VersionSummary {
  const flat = flatAutomations(files.map((file) => file.path));
  const validators = validatorsLike(validatorsOf(preparation.before), manifest, automations);
  const statics = prepareStatic(files, staged, preparation);
  const page = writePage(
    files.map((file) => file.path),
    manifest,
    staged,
    preparation.built.files,
  );
  const { icons, built } = preparation;
  const found = [...icons.warnings, ...built.warnings, ...warnings, ...blockedAddresses(page)];
  const findings = found.slice(0, LIMITS.inputIssues);

  const summary: VersionSummary = {
    versionId,
    sha256,
    manifestSha256,
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
    ...(manifest.public === true && { public: true as const }),
    ...(manifest.uses === undefined || manifest.uses.length === 0 ? {} : { uses: manifest.uses }),
    ...(manifest.roles === undefined || Object.keys(manifest.roles).length === 0 ? {} : { roles: manifest.roles }),
    ...(manifest.network === undefined ? {} : { network: manifest.network }),
    ...(manifest.blobQuotaMb === undefined ? {} : { blobQuotaMb: manifest.blobQuotaMb }),
    ...(manifest.cache === false ? { cache: false } : {}),
    ...(commons === undefined ? {} : { commons: 'script' in commons ? (true as const) : commons }),
    migrations,
    automations: automations.length,
    ...(flat.length === 0 ? {} : { flatAutomations: flat.slice(0, LIMITS.automations) }),
    ...(findings.length === 0 ? {} : { warnings: findings }),
    ...(page === undefined ? {} : { page }),
    ...(Object.hasOwn(statics, LIST_ICON) && { icon: true as const }),
    ...note,
  };
  writeNewFile(staged.validators, validators);
  if (commons !== undefined && 'script' in commons) writeNewFile(staged.commons, JSON.stringify(commons.script));
  writeNewFile(staged.static, JSON.stringify(statics));
  writeNewFile(staged.summary, JSON.stringify(summary));
  return summary;
}

/** The text of `validators.js`; null when it cannot be read. */
function validatorsOf(version: VersionPaths | null): string | null {
  try {
    return version === null ? null : readFileSync(version.validators, 'utf8');
  } catch {
    // Only a shortcut: after any error they are compiled.
    return null;
  }
}

export function readManifest(code: string, paths: string[]): string {
  if (paths.includes('app.json')) return readFileSync(join(code, 'app.json'), 'utf8');
  const top = paths[0]?.split('/')[0];
  const isWrapped = paths.includes(`${top}/app.json`) && paths.every((path) => path.startsWith(`${top}/`));
  const hint = isWrapped ? `; everything is in the folder "${top}": pack what is in it, not the folder itself` : '';
  throw manifestIssue('', `is missing at the top${hint}`, 'required');
}

export function checkHandlerFiles(manifest: Manifest, paths: string[]): void {
  const present = new Set(paths);
  for (const list of ['queries', 'actions'] as const) {
    for (const [i, { name }] of manifest[list].entries()) {
      const file = `${list}/${name}.js`;
      if (!present.has(file) && !present.has(`${list}/${name}.ts`))
        throw manifestIssue(`${list}[${i}].name`, `is "${name}", but there is no file ${file}`, 'file');
    }
  }
}

function summarize({ name, description, timeoutMs, refreshSeconds, public: isPublic }: QueryDefinition): QuerySummary {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(isPublic === true && { public: true as const }),
    ...(refreshSeconds === undefined ? {} : { refreshSeconds }),
  };
}

function summarizeAction(action: ActionDefinition): VersionSummary['actions'][number] {
  const { refreshSeconds: _, ...common } = action;
  const { confirmation, writes = [] } = action;
  return {
    ...summarize(common),
    ...(confirmation === undefined ? {} : { confirmation }),
    writes: [...new Set(writes)],
  };
}

export function hashText(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
