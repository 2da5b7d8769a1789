/** Defines the error of an operation on a database. */
import type { ErrorBody } from '../errors.ts';

/**
 * A failed operation. `code` is SQLite's (`SQLITE_CONSTRAINT_UNIQUE`, …), `MIGRATION_FAILED` (the file is in `path`),
 * `WRITER_LOST` (the connection ended, the outcome is unknown) or `WRITER_UNAVAILABLE` (nothing was run).
 */
export class DbError extends Error {
  readonly code: string;
  readonly path?: string;

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = 'DbError';
    this.code = body.code;
    if (body.path !== undefined) this.path = body.path;
  }
}
