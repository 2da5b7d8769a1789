/** The version of this package. */
import { readFileSync } from 'node:fs';

/** Read when asked for: few commands show it. */
export function packageVersion(): string {
  // The same address from the source folder and from the bundle in `dist/`.
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
