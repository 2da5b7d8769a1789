/** Removes folders that have become empty. */
import { rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Removes the folder `path`, relative to `folder`, and those above it below `folder`, as long as they are empty. */
export function removeEmpty(folder: string, path: string): void {
  for (let at = path; at !== '.'; at = dirname(at)) {
    try {
      rmdirSync(join(folder, at));
    } catch {
      // It is not empty.
      return;
    }
  }
}
