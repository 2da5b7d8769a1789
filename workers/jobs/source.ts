/** Where the files of a version come from, and their way into the repository (decisions, sections 2 and 7). */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import type { CommitOrder, IngestJob } from '../../protocol/jobs.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import { ArchiveRules } from './archive-rules.ts';
import type { CheckedAutomation } from './automations.ts';
import { type ExtractedFile, extractArchive } from './extract.ts';
import { makeFolder } from './files.ts';
import { readSource } from './handler-source.ts';
import { checkAddedMigrations } from './migrations.ts';

/**
 * Writes the files into the new folder `code`; answers them, sorted by path. Throws `MERGE_CONFLICT`, `NO_CHANGES`, and
 * `INVALID_MIGRATION` for one whose number was published meanwhile.
 */
export async function gatherFiles({ source, commit, app }: IngestJob, code: string): Promise<ExtractedFile[]> {
  if ('archive' in source) return extractArchive(source.archive, code);
  const { repository } = ordered(commit);
  makeFolder(code);
  if ('tag' in source) {
    const { checkout } = await import('./git/operations.ts');
    await checkout({ repository, from: source.tag, app, to: code });
    return listFiles(code);
  }
  const { mergeApp } = await import('./git/merge.ts');
  const merged = await mergeApp({ repository, app, base: source.base, folder: source.session, to: code });
  if ('unresolved' in merged) throw unresolved(app, merged.unresolved);
  if ('conflicts' in merged) throw mergeConflict(app, merged.conflicts);
  if (!merged.changed && !source.anew) throw new SvcError('NO_CHANGES', `The session changes nothing of "${app}".`);
  const files = listFiles(code);
  checkAddedMigrations(
    files.map(({ path }) => path),
    merged,
  );
  return files;
}

/** What uploads need not pass: the handlers parse, and keep the rules for handlers. Throws `INVALID_HANDLER`. */
export async function checkSources(code: string, manifest: Manifest, automations: CheckedAutomation[]): Promise<void> {
  const { checkHandlers } = await import('../../protocol/rules/gates/check-handlers.ts');
  checkHandlers(
    (file) => readSource(code, file),
    manifest,
    automations.map(({ id }) => id),
  );
}

/** The commit that holds the files, of which no ref says anything yet; null where nothing is to be committed. */
export async function commitFiles(job: IngestJob, code: string, manifest: Manifest): Promise<string | null> {
  const { commit, app, source } = job;
  if (commit === null || 'tag' in source) return null;
  const { commitApp } = await import('./git/operations.ts');
  const { repository, author, versionId, message } = commit;
  // The tag's name makes it another commit than that of an earlier version with the same files.
  const text = `${message ?? `${manifest.name} ${manifest.version}`}\n\nVersion: ${versionId}\n`;
  const order = { repository, app, folder: code, message: text, author, at: job.uploadedAt, always: true };
  const made = await commitApp(order);
  return made.commit;
}

function listFiles(code: string): ExtractedFile[] {
  const rules = new ArchiveRules('The app');
  const entries = readdirSync(code, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory());
  const files = entries.map((entry): ExtractedFile => {
    const whole = join(entry.parentPath, entry.name);
    const bytes = readFileSync(whole);
    const path = whole.slice(code.length + 1);
    rules.admit({ path, type: 'File', size: bytes.length });
    return { path, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  });
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function mergeConflict(app: string, files: string[]): SvcError {
  const message = `The session and what was published of "${app}" meanwhile change the same lines of ${named(files)}.`;
  const advice = 'Update the app in the session, resolve the marked lines, then publish again.';
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
  if (commit === null) throw new Error('Only the git store has sessions and tags.');
  return commit;
}
