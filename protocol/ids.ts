/** Grammars of the names that callers choose (decisions, section 1). */
import { SvcError } from './errors.ts';

const APP_ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const VERSION_ID = /^v_\d{8}T\d{9}Z_[0-9a-f]{6}$/;

export function isAppId(id: string): boolean {
  return APP_ID.test(id);
}

/** Throws `RESERVED_ID` or `INVALID_ID`. */
export function checkAppId(id: string): void {
  if (id.startsWith('_')) {
    throw new SvcError(
      'RESERVED_ID',
      `The app id "${id.slice(0, 80)}" starts with an underscore; those ids belong to the gateway.`,
    );
  }
  if (!APP_ID.test(id)) {
    throw new SvcError(
      'INVALID_ID',
      `The app id "${id.slice(0, 80)}" is not valid: use 1 to 63 of a-z, 0-9, "-" and "_", starting with a letter or digit.`,
    );
  }
}

export function isVersionId(id: string): boolean {
  return VERSION_ID.test(id);
}

/** `v_<YYYYMMDDTHHMMSSmmmZ>_<sha[:6]>`, for a time in milliseconds and a sha256 in hex. */
export function versionId(at: number, sha256: string): string {
  return `v_${new Date(at).toISOString().replace(/[-:.]/g, '')}_${sha256.slice(0, 6)}`;
}
