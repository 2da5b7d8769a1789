/** What readers of archives have in common: the files that they write, and the error for what is no archive. */
import { SvcError } from '../../../protocol/errors.ts';

/** `path` is relative with `/`. */
export type ExtractedFile = { path: string; bytes: number; sha256: string };

export function notAnArchive(reason: string, cause?: unknown): SvcError {
  return new SvcError(
    'INVALID_ARCHIVE',
    `The upload is not a whole archive, .tar.gz or .zip: ${reason.replace(/\.$/, '')}.`,
    {
      cause,
    },
  );
}
