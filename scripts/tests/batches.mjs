// Gives the processes of a run their test files: short ones share a process, whose start, with the modules that they share, takes
// longer than they do.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The seconds of a file that shares a process, and of all files of that process. */
const SHORT = 3;
const ALL_SHORT = 10;
/** A file that changes or looks at what all files of its process have. */
const NEEDS_OWN = /\bprocess\.(?:chdir|umask)\(|createRequire\([^)]*\)\.cache\b/;

/**
 * The processes of `files`, which are as `buildTests` returns them: what each runs, which is written to `folder`, and its sources.
 * `secondsOf` tells how long a source took, Infinity for one that was never measured.
 */
export function processesOf(files, root, folder, secondsOf) {
  const isShort = ({ source, startsServers }) =>
    !startsServers && secondsOf(source) <= SHORT && !NEEDS_OWN.test(readFileSync(join(root, source), 'utf8'));
  const short = files.filter(isShort).sort((a, b) => (a.source < b.source ? -1 : 1));
  const batches = [];
  let left = 0;
  for (const file of short) {
    const seconds = secondsOf(file.source);
    if (left < seconds) {
      batches.push([]);
      left = ALL_SHORT;
    }
    batches.at(-1).push(file);
    left -= seconds;
  }
  const alone = files.filter((file) => !short.includes(file)).map((file) => [file]);
  return [...batches, ...alone].map((batch, i) => ({
    runs: batch.length === 1 ? batch[0].built : writeBatch(batch, join(folder, `batch-${i}.test.js`)),
    sources: batch.map(({ source }) => source),
  }));
}

/** Each file is a suite, so that its hooks are for its own tests. */
function writeBatch(batch, path) {
  const suites = batch.map(
    ({ source, built }) =>
      `describe(${JSON.stringify(source)}, async () => void (await import(${JSON.stringify(built)})));`,
  );
  writeFileSync(path, ["import { describe } from 'node:test';", ...suites, ''].join('\n'));
  return path;
}
