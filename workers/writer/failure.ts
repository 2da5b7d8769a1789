/** Failed operations as the data that the asker gets. */
import type { ErrorBody } from '../../protocol/errors.ts';

/** SQL that is refused, or a value over a limit, in the same shape as SQLite's own errors. */
export class StatementError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Errors that better-sqlite3 throws without a code are about the parameters. */
export function describeFailure(error: unknown): ErrorBody {
  const { code, message, path } = error as { code?: unknown; message: string; path?: unknown };
  const body: ErrorBody = { code: typeof code === 'string' ? code : 'SQLITE_MISUSE', message };
  if (typeof path === 'string') body.path = path;
  return body;
}
