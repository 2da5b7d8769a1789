/** What is left on the disk after a fault. */
import { readdirSync } from 'node:fs';
import { Layout } from '../../storage/layout.ts';

/** What an upload or a write left behind that was refused or cut off, of apps that have been used since. */
export function leftovers(dataDir: string): string[] {
  const { tmpDir, appsDir } = new Layout(dataDir);
  const staged = readdirSync(tmpDir).map((name) => `tmp/${name}`);
  const half = readdirSync(appsDir, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tmp$/.test(name));
  return [...staged, ...half].map((name) => `${name} was left behind.`);
}
