/** Lists the faults that keep a draft from being published, or from running as its files are. */
import { ERROR_CODES, type InputIssue, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FINDING } from '../../protocol/routes/authoring/workspaces-rows.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import type { Drafts } from '../drafts/drafts.ts';
import type { Workspaces } from './workspaces.ts';

/** Something that is wrong with the draft. `path` is a file, or a member of the one that the code is about. */
export type DraftFinding = Of<typeof FINDING>;
/** `warnings` refuse nothing: their `path` is a file. */
export type DraftCheck = { app: string; findings: DraftFinding[]; warnings: InputIssue[] };

/** Codes of what is wrong with files; with any other the check has failed itself. */
const FINDINGS: ReadonlySet<string> = new Set([
  ...[
    'INVALID_MANIFEST',
    'INVALID_HANDLER',
    'INVALID_PAGE',
    'INVALID_AUTOMATION',
    'INVALID_MIGRATION',
    'MERGE_CONFLICT',
  ],
  'MIGRATION_FAILED',
  ...Object.keys(ERROR_CODES).filter((code) => code.startsWith('ARCHIVE_')),
]);

type Parts = { workspaces: Pick<Workspaces, 'review'>; drafts: Pick<Drafts, 'draft'> };

/**
 * What a publication would be refused for, and what keeps the draft from being called: its migrations run on its own copy of the
 * data. Rejects with `UNKNOWN_SESSION` and the like, but for no fault of the files.
 */
export async function checkDraft({ workspaces, drafts }: Parts, workspace: string, app: string): Promise<DraftCheck> {
  let warnings: InputIssue[] = [];
  const [refused, broken] = await Promise.all([
    findingsFrom(async () => {
      warnings = await workspaces.review(workspace, app);
    }),
    findingsFrom(async () => (await drafts.draft(workspace, app)).get()),
  ]);
  // Most faults are found by both.
  const more = broken.filter(({ message }) => !refused.some((one) => one.message === message));
  return { app, findings: [...refused, ...more].slice(0, LIMITS.inputIssues), warnings };
}

async function findingsFrom(work: () => Promise<unknown>): Promise<DraftFinding[]> {
  try {
    await work();
    return [];
  } catch (error) {
    if (!(error instanceof SvcError) || !FINDINGS.has(error.code)) throw error;
    return findingsOf(error);
  }
}

function findingsOf({ code, message, path = '', issues, files }: SvcError): DraftFinding[] {
  if (issues !== undefined && issues.length > 0) return issues.map((issue) => ({ code, ...issue }));
  const keyword = code === 'MERGE_CONFLICT' ? 'conflict' : 'file';
  return (files ?? [path]).map((file) => ({ code, path: file, message, keyword }));
}
