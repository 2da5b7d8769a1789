// Runs every *.test.ts with node:test; arguments narrow it to files whose path contains one of them, an absolute path is run
// wherever it is. `--quick` and `--versions` run a part of them (scripts/tests/selection.mjs). With `--record` the seconds that each
// file took are stored for the next runs, with `--coverage` the lines of the product that ran are counted.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { processesOf } from './tests/batches.mjs';
import { buildTests } from './tests/build.mjs';
import { Progress } from './tests/progress.mjs';
import { PARTS, select } from './tests/selection.mjs';
import { temporaryFolder } from './tests/temporary.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const recorded = join(root, 'scripts/tests/seconds.json');
const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const words = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const known = ['--record', '--coverage', ...Object.keys(PARTS)];
const unknown = options.find((option) => !known.includes(option));
if (unknown !== undefined) {
  console.error(`There is no option ${unknown}; there are ${known.join(', ')}.`);
  process.exit(2);
}
const part = options.find((option) => option in PARTS);
const folders = [
  'protocol',
  'storage',
  'workers',
  'supervisor',
  'cli',
  'console',
  'bench',
  'test',
  'testing',
  'hosts/desktop/src',
  'hosts/openclaw/src',
];
const all = folders
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)))
  .filter((path) => path.endsWith('.test.ts'));

mkdirSync(join(root, 'dist-tests'), { recursive: true });
const builds = mkdtempSync(join(root, 'dist-tests/run-'));
process.env.TMPDIR = temporaryFolder();
const notes = mkdtempSync(join(tmpdir(), 'svc-test-run-'));
process.on('exit', () => {
  for (const folder of [builds, notes]) rmSync(folder, { recursive: true, force: true });
});

const absolute = words.filter(isAbsolute).map((path) => relative(root, path));
const named = words.length === 0 ? all : all.filter((file) => words.some((word) => file.includes(word)));
const candidates = [...named, ...absolute];
const built = new Map((await buildTests(root, candidates, builds)).map((one) => [one.source, one]));
const files = select(candidates, {
  part,
  leftOut: (process.env.SVC_TEST_LEAVE_OUT ?? '').split(','),
  about: (file) => built.get(file),
});
if (files.length === 0) {
  console.error(`No test file matches ${words.join(', ')}.`);
  process.exit(2);
}

// What takes longest begins first, so that no core is idle at the end; what was never measured may take longest.
const seconds = JSON.parse(readFileSync(recorded, 'utf8'));
const secondsOf = (file) => seconds[file] ?? Number.POSITIVE_INFINITY;
const weight = ({ sources }) => sources.reduce((sum, file) => sum + secondsOf(file), 0);
const size = ({ sources: [file] }) => statSync(join(root, file)).size;
const processes = processesOf(
  files.map((file) => built.get(file)),
  root,
  builds,
  // A file is measured in a process of its own.
  options.includes('--record') ? () => Number.POSITIVE_INFINITY : secondsOf,
).sort((a, b) => weight(b) - weight(a) || size(b) - size(a));

const sourceOf = new Map(files.map((file) => [built.get(file).built, file]));
const sourcesOf = new Map(processes.map(({ runs, sources }) => [runs, sources]));
/**
 * The source of a test; Node 24 names that itself, by the source map. A file that shares a process is a suite of that name there; what
 * ends the process is said of all of them.
 */
function fileOf({ file: path = '', name }) {
  const sources = sourcesOf.get(path) ?? [];
  return sourceOf.get(path) ?? ((sources.includes(name) ? name : sources.join(', ')) || relative(root, path));
}

// Two cores are busy with four files: each waits for part of its time. CI has fewer where another run is beside this one.
const concurrency = Number(process.env.SVC_TEST_AT_A_TIME ?? 4);
// A file that hangs fails by itself, before whoever waits for it gives up. The longest take ten minutes on a slow machine.
const timeout = 30 * 60 * 1000;

process.env.SVC_TEST_TIMES = join(notes, 'times');
process.env.SVC_TEST_PUBLISHED = join(notes, 'published');
mkdirSync(process.env.SVC_TEST_PUBLISHED);
const coverage = options.includes('--coverage') ? await import('./tests/coverage.mjs') : null;
if (coverage) {
  coverage.unlinkMaps(root);
  process.env.NODE_V8_COVERAGE = join(notes, 'coverage');
}

/** Seconds for which the cores of this machine worked so far, for whatever program. */
const worked = () =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000;
const workedBefore = worked();

/** What the processes that have ended noted: path, seconds and processor seconds. */
const ended = () =>
  readFileSync(process.env.SVC_TEST_TIMES, { encoding: 'utf8', flag: 'a+' })
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .map(([path, took, used]) => ({ sources: sourcesOf.get(path), took, used }));

// Each process that starts would read these certificates, which takes longer than the rest of its start; only npm needs them.
if (process.env.NODE_EXTRA_CA_CERTS) process.env.SVC_TEST_CERTIFICATES = process.env.NODE_EXTRA_CA_CERTS;
delete process.env.NODE_EXTRA_CA_CERTS;

// The processes of the files are started with the options of this one.
process.execArgv.push('--enable-source-maps', '--import', pathToFileURL(join(root, 'scripts/tests/times.mjs')).href);
process.chdir(root);
const events = run({ files: processes.map(({ runs }) => runs), concurrency, timeout });
const progress = new Progress(files.length, () => ended().flatMap(({ sources }) => sources).length);
const skipped = [];
events.on('test:fail', (test) => {
  if (test.todo !== undefined && test.todo !== false) return;
  process.exitCode = 1;
  if (failedItself(test)) progress.failed(fileOf(test));
});
events.on('test:pass', ({ name, skip }) => {
  if (skip !== undefined) skipped.push(skip === true || skip === '' ? name : `${name}: ${skip}`);
});
const totals = [];
events.on('test:diagnostic', ({ message, nesting }) => {
  if (nesting === 0 && /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) \d/.test(message))
    totals.push(message);
});
/** A suite fails with its tests, each of which is said. */
function failedItself({ details }) {
  return details.error.failureType !== 'subtestsFailed';
}
/** Of many files only what failed is of interest, with what its process wrote to its standard error. */
const isBrief = files.length > 20;
const written = new Map();
async function* briefly(source) {
  for await (const { type, data } of source) {
    if (type === 'test:stderr') written.set(data.file, (written.get(data.file) ?? '') + data.message);
    if (type !== 'test:fail' || !failedItself(data)) continue;
    progress.clear();
    yield `✖ ${fileOf(data)}: ${data.name}\n${inspect(data.details.error.cause ?? data.details.error)}\n`;
  }
}
await pipeline(events, isBrief ? briefly : new spec(), process.stdout, { end: false });
progress.end();
for (const [path, text] of isBrief ? written : [])
  if ((sourcesOf.get(path) ?? [fileOf({ file: path })]).some((file) => progress.failures.has(file)))
    console.log(`${fileOf({ file: path })} wrote:\n${text.slice(-4000)}`);
if (progress.failures.size > 0) console.log(`Failed: ${[...progress.failures].join(', ')}`);

// There everything is installed that a test needs: one that is skipped shows that something is missing.
if (process.env.CI === 'true' && skipped.length > 0) {
  process.exitCode = 1;
  console.error(`${skipped.length} skipped, which in CI is a failure:\n${skipped.map((one) => `  ${one}`).join('\n')}`);
}
const times = ended();
const sum = (some) => some.reduce((total, { used }) => total + used, 0).toFixed(0);
const slowest = times.sort((a, b) => b.took - a.took).slice(0, 12);
const rows = slowest.map(
  ({ sources: [file, ...others], took, used }) =>
    `${took.toFixed(1).padStart(8)} s  ${used.toFixed(1).padStart(6)} s  ${file}${others.length === 0 ? '' : ` and ${others.length} others`}`,
);
console.log(`The slowest files, with their processor time:\n${rows.join('\n')}`);
const browsers = times.filter(({ sources: [file] }) => file.startsWith('test/browser/'));
const pure = times.filter(({ sources: [file] }) => built.get(file).startsServers === false);
console.log(
  `Processor time: ${sum(times)} s, of it ${sum(browsers)} s with a browser and ${sum(pure)} s without a gateway or PostgreSQL.`,
);
// Nobody waits for the processes that draw a browser's pages, which take as long again as all that is counted with a browser.
console.log(
  `All programs on this machine used ${(worked() - workedBefore).toFixed(0)} s meanwhile, pages of browsers too.`,
);
if (options.includes('--record')) {
  const taken = Object.fromEntries(times.map(({ sources: [file], took }) => [file, Math.round(took * 10) / 10]));
  const kept = Object.entries({ ...seconds, ...taken })
    .filter(([file]) => all.includes(file))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(recorded, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
}
coverage?.report(root, process.env.NODE_V8_COVERAGE);
// Once more, for it is looked for at the end.
console.log(totals.map((line) => `ℹ ${line}`).join('\n'));
