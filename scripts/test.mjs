// Runs every *.test.ts with node:test; arguments narrow it to files whose path contains one of them.
import { readdirSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = process.argv.slice(2);
const folders = ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'bench', 'test', 'testing'];

const files = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(root, folder, name)))
  .filter((path) => path.endsWith('.test.ts'))
  .filter((path) => wanted.length === 0 || wanted.some((part) => path.slice(root.length + 1).includes(part)));
if (files.length === 0) {
  console.error(`No test file matches ${wanted.join(', ')}.`);
  process.exit(2);
}

// What takes longest begins first, so that no core is idle at the end: tests of the whole, and of them those with most in them.
const wholes = /\.e2e\.test\.ts$|\/test\//;
const weight = new Map(files.map((path) => [path, statSync(path).size * (wholes.test(path) ? 100 : 1)]));
files.sort((a, b) => weight.get(b) - weight.get(a));

// By default node:test leaves a core to itself, which does nothing here but wait.
const concurrency = availableParallelism();
// A file that hangs fails by itself, long before whoever waits for it gives up.
const timeout = 8 * 60 * 1000;

// The processes of the files are started with the options of this one.
process.execArgv.push('--import', 'tsx/esm');
process.chdir(root);
const events = run({ files, concurrency, timeout });
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
await pipeline(events, new spec(), process.stdout, { end: false });
