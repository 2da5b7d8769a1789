// Runs every *.test.ts with node:test; arguments narrow it to files whose path contains one of them.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = process.argv.slice(2);
const folders = ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'bench', 'test'];

const files = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)))
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))
  .sort();
if (files.length === 0) {
  console.error(`No test file matches ${wanted.join(', ')}.`);
  process.exit(2);
}
// A file that hangs fails by itself, long before whoever waits for it gives up.
const fileTimeoutMs = 8 * 60 * 1000;
const run = spawnSync(
  process.execPath,
  ['--import', 'tsx', '--test', '--test-reporter=spec', `--test-timeout=${fileTimeoutMs}`, ...files],
  { cwd: root, stdio: 'inherit' },
);
process.exit(run.status ?? 1);
