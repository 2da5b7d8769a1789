// Runs everything there is, before a release: `npm run test:all`. A part that passed is noted in .ci/parts.json with its commit, and runs
// again only if something that it covers has changed since, so that a run which was ended goes on where it was. Hours on two cores.
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasChanged, KINDS, LIST, readList, writeList } from './parts.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const logs = join(root, 'bench/results/test-all');

const PRODUCT = [
  'protocol',
  'storage',
  'workers',
  'supervisor',
  'cli',
  'console',
  'bin',
  'schemas',
  'package-lock.json',
  'scripts',
];
const TESTS = [...PRODUCT, 'test', 'testing', 'templates', 'examples', 'docs', 'README.md', 'deploy'];
const node = (...args) => [process.execPath, '--import', 'tsx', ...args];

/** Each part: its name, its command, and the paths whose change makes it old. */
const PARTS = [
  ...['20', '22', '24', '26'].map((version) => ({
    name: `suite on Node ${version}`,
    command: [process.execPath, 'scripts/nodes.mjs', version],
    covers: [...TESTS, 'bench'],
  })),
  { name: 'coverage', command: [process.execPath, 'scripts/test.mjs', '--coverage'], covers: TESTS },
  ...KINDS.find(({ kind }) => kind === 'campaign').parts.map((name) => ({
    name: `campaign ${name}`,
    command: node('bench/faults/main.ts', name),
    covers: [...PRODUCT, 'bench/faults', 'testing'],
  })),
  { name: 'mutations', command: node('bench/mutate/main.ts'), covers: [...TESTS, 'bench/mutate'] },
  {
    name: 'installs',
    command: ['npm', 'run', 'test:installs'],
    covers: [...PRODUCT, 'deploy', 'templates', 'testing/installs.ts'],
  },
  {
    name: 'more agents',
    command: ['npm', 'run', 'agents:all'],
    covers: [...PRODUCT, 'testing'],
  },
];

const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
const words = process.argv.slice(2);
const isList = words.length === 1 && words[0] === '--list';
const unknown = isList ? undefined : words.find((word) => !PARTS.some(({ name }) => name.includes(word)));
if (unknown !== undefined) {
  console.error(`No part is named ${unknown}. npm run test:all -- --list names them, and says when each last passed.`);
  process.exit(2);
}
if (!isList && git('status', '--porcelain', '--', '.', `:!${LIST}`) !== '') {
  console.error('The tree has changes that are not committed. Commit them first: a part is noted for a commit.');
  process.exit(2);
}

/** Since when it holds; null if it never passed, or something that it covers has changed since. */
function passedAt({ name, covers }) {
  const { commit, date } = readList().whole[name] ?? {};
  return commit === undefined || hasChanged(commit, covers) ? null : `${date}, ${commit.slice(0, 8)}`;
}

/** Whether it passed; what it says goes to a file. */
function runPart({ name, command: [program, ...args] }) {
  const log = join(logs, `${name.replaceAll(' ', '-')}.log`);
  const began = performance.now();
  const output = openSync(log, 'w');
  console.log(`${name}: running, see ${relative(root, log)}`);
  const { status } = spawnSync(program, args, {
    cwd: root,
    // Where this is set a test that cannot run fails; it is never skipped.
    env: { ...process.env, CI: 'true' },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  if (status !== 0) {
    console.log(`${name}: FAILED after ${minutes} min\n${readFileSync(log, 'utf8').slice(-2000)}`);
    return false;
  }
  const list = readList();
  list.whole[name] = { commit: git('rev-parse', 'HEAD'), date: new Date().toISOString().slice(0, 10) };
  writeList(list);
  console.log(`${name}: passed in ${minutes} min`);
  return true;
}

const wanted = PARTS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
if (!isList) {
  mkdirSync(logs, { recursive: true });
  execFileSync('npm', ['ci', '--prefix', 'scripts/agents'], { cwd: root, stdio: 'ignore' });
  execFileSync('npm', ['ci', '--ignore-scripts', '--prefix', 'scripts/openclaw'], { cwd: root, stdio: 'ignore' });
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
  for (const part of wanted) if (passedAt(part) === null) runPart(part);
}

const rows = PARTS.map((part) => ({ name: part.name, passed: passedAt(part) }));
for (const { name, passed } of rows) console.log(`${name.padEnd(22)}${passed ?? 'not since its last change'}`);
const old = rows.filter(({ passed }) => passed === null);
console.log(
  old.length === 0
    ? `Good to release. Commit ${LIST}.`
    : `Not good to release: ${old.length} of ${rows.length} parts have not passed since what they cover changed.`,
);
process.exitCode = old.length === 0 ? 0 : 1;
