// Runs every *.test.ts with node:test; arguments narrow it to files whose path contains one of them, an absolute path is run
// wherever it is. With `--record` the seconds that each file took are stored for the next runs, with `--coverage` the lines of
// the product that ran are counted.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const recorded = join(root, 'scripts/test-seconds.json');
const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const unknown = options.find((option) => option !== '--record' && option !== '--coverage');
if (unknown !== undefined) {
  console.error(`There is no option ${unknown}; there are --record and --coverage.`);
  process.exit(2);
}
const folders = ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'bench', 'test', 'testing'];

const files = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(root, folder, name)))
  .filter((path) => path.endsWith('.test.ts'))
  .filter((path) => wanted.length === 0 || wanted.some((part) => path.slice(root.length + 1).includes(part)))
  .concat(wanted.filter(isAbsolute));
if (files.length === 0) {
  console.error(`No test file matches ${wanted.join(', ')}.`);
  process.exit(2);
}

// What takes longest begins first, so that no core is idle at the end; what was never measured may take longest.
const seconds = JSON.parse(readFileSync(recorded, 'utf8'));
const weight = (path) => seconds[relative(root, path)] ?? Number.POSITIVE_INFINITY;
files.sort((a, b) => weight(b) - weight(a) || statSync(b).size - statSync(a).size);

// One more than there are cores: they keep all cores busy, and more would only make every test slower.
const concurrency = availableParallelism() + 1;
// A file that hangs fails by itself, long before whoever waits for it gives up.
const timeout = 15 * 60 * 1000;

const notes = mkdtempSync(join(tmpdir(), 'svc-test-run-'));
process.env.SVC_TEST_TIMES = join(notes, 'times');
const coverage = options.includes('--coverage') ? await import('./coverage.mjs') : null;
if (coverage) {
  coverage.unlinkMaps(root);
  process.env.NODE_V8_COVERAGE = join(notes, 'coverage');
}

// Each process that starts would read these certificates, which takes longer than the rest of its start; no test needs them.
delete process.env.NODE_EXTRA_CA_CERTS;

// The processes of the files are started with the options of this one.
process.execArgv.push('--import', 'tsx/esm', '--import', pathToFileURL(join(root, 'scripts/test-time.mjs')).href);
process.chdir(root);
const events = run({ files, concurrency, timeout });
const skipped = [];
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
events.on('test:pass', ({ name, skip }) => {
  if (skip !== undefined) skipped.push(skip === true || skip === '' ? name : `${name}: ${skip}`);
});
const totals = [];
events.on('test:diagnostic', ({ message, nesting }) => {
  if (nesting === 0 && /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) \d/.test(message))
    totals.push(message);
});
await pipeline(events, new spec(), process.stdout, { end: false });

// There everything is installed that a test needs: one that is skipped shows that something is missing.
if (process.env.CI === 'true' && skipped.length > 0) {
  process.exitCode = 1;
  console.error(`${skipped.length} skipped, which in CI is a failure:\n${skipped.map((one) => `  ${one}`).join('\n')}`);
}
const times = new Map(
  readFileSync(process.env.SVC_TEST_TIMES, { encoding: 'utf8', flag: 'a+' })
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .map(([path, took]) => [relative(root, path), took]),
);
const slowest = [...times].sort((a, b) => b[1] - a[1]).slice(0, 12);
console.log(
  `The slowest files:\n${slowest.map(([path, took]) => `${took.toFixed(1).padStart(8)} s  ${path}`).join('\n')}`,
);
if (options.includes('--record')) {
  const all = Object.entries({ ...seconds, ...Object.fromEntries(times) })
    .filter(([path]) => files.includes(join(root, path)) || wanted.length > 0)
    .map(([path, took]) => [path, Math.round(took * 10) / 10])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(recorded, `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`);
}
coverage?.report(root, process.env.NODE_V8_COVERAGE);
rmSync(notes, { recursive: true, force: true });
// Once more, for it is looked for at the end.
console.log(totals.map((line) => `ℹ ${line}`).join('\n'));
