/** Lists the faults for which publishing a draft would be refused. */
import { ERROR_CODES, type ErrorCode, type InputIssue, SvcError } from '../../protocol/errors.ts';

/** Something that keeps the app from being published. `path` is a file, or a member of the one that the code is about. */
export type DraftFinding = InputIssue & { code: ErrorCode };
export type DraftCheck = { app: string; findings: DraftFinding[] };

/** Codes of what is wrong with files; with any other the check has failed itself. */
const FINDINGS: ReadonlySet<string> = new Set([
  ...['INVALID_MANIFEST', 'INVALID_HANDLER', 'INVALID_AUTOMATION', 'INVALID_MIGRATION', 'MERGE_CONFLICT'],
  ...Object.keys(ERROR_CODES).filter((code) => code.startsWith('ARCHIVE_')),
]);

/** `review` rejects as a publication would. */
export async function checkDraft(app: string, review: () => Promise<void>): Promise<DraftCheck> {
  try {
    await review();
    return { app, findings: [] };
  } catch (error) {
    if (!(error instanceof SvcError) || !FINDINGS.has(error.code)) throw error;
    return { app, findings: findingsOf(error) };
  }
}

function findingsOf({ code, message, path = '', issues, files }: SvcError): DraftFinding[] {
  if (issues !== undefined && issues.length > 0) return issues.map((issue) => ({ code, ...issue }));
  const keyword = code === 'MERGE_CONFLICT' ? 'conflict' : 'file';
  return (files ?? [path]).map((file) => ({ code, path: file, message, keyword }));
}
