/** Hashes the content of a version: names and bytes of its files, however they were packed. */
import { createHash } from 'node:crypto';

/** sha256 in hex over the files, sorted by path; `sha256` is that of each, in hex. */
export function contentHash(files: readonly { path: string; sha256: string }[]): string {
  const hash = createHash('sha256');
  for (const { path, sha256 } of files) hash.update(`${path}\0${sha256}\n`);
  return hash.digest('hex');
}
