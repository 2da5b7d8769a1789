/**
 * `npm run mutate`: puts one seeded fault after the other into a copy of the tree, runs the tests that should find it, and prints
 * the score. Exit code 1 below `LEAST`, 2 when the list of faults is not true: a text that is gone, a test that fails by itself.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../../testing/random.ts';
import { parseWords, runCommand, wholeNumber } from '../command.ts';
import { table } from '../report-tables.ts';
import { ROOT } from '../servers.ts';
import { FAULTS, type Fault, ListError, putInto } from './faults.ts';

const LEAST = 0.95;
/** For one test file, such as rounds of a campaign on a busy machine. One that hangs has found nothing. */
const TEST_MS = 600_000;
/** A build on a busy machine. */
const BUILD_MS = 300_000;

const HELP = `npm run mutate [-- options]

  --only TEXT  faults whose name or file has this text
  --count N    so many of them, chosen by the seed
  --seed N     the choice of an earlier run (printed at its start)
`;

/** How the tests took a fault: `by` is the test that found it. */
type Outcome = { fault: Fault; by: string | null; note: string };

/** `output` is TAP; `code` is null for what was ended at its limit. */
type Ended = { code: number | null; output: string };

async function main(args: string[]): Promise<number> {
  const { values } = parseWords(args, { only: 'string', count: 'string', seed: 'string' });
  const seed = wholeNumber('--seed', values.seed, 0) ?? Date.now() >>> 0;
  const matching = FAULTS.filter(({ name, file }) => `${name} ${file}`.includes(values.only ?? ''));
  const count = wholeNumber('--count', values.count, 1);
  const faults = count === null ? matching : new Random(seed).shuffled(matching).slice(0, count);
  if (faults.length === 0) throw new ListError('No fault matches.');
  process.stderr.write(`seed ${seed}: ${faults.length} of ${FAULTS.length} faults\n`);

  const tree = mkdtempSync(join(tmpdir(), 'svc-mutate-'));
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      end();
      rmSync(tree, { recursive: true, force: true });
      process.exit(130);
    });
  try {
    copyTree(tree);
    const outcomes = await judge(tree, faults);
    const columns = {
      Fault: ({ fault }: Outcome) => fault.name,
      File: ({ fault }: Outcome) => fault.file,
      'Found by': ({ by, note }: Outcome) => by ?? `NOT FOUND${note}`,
    };
    const found = outcomes.filter(({ by }) => by !== null).length;
    const score = found / outcomes.length;
    process.stdout.write(`${table(columns, outcomes)}\n\n`);
    for (const { fault, by } of outcomes)
      if (by === null) process.stdout.write(`Not found: ${fault.name}. ${fault.why}\n`);
    process.stdout.write(`${found} of ${outcomes.length} faults found: ${(score * 100).toFixed(1)} %\n`);
    return score < LEAST ? 1 : 0;
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}

/** What git knows and does not ignore, as it is now, and the packages, linked if they can be: processes may read below the tree only. */
function copyTree(tree: string): void {
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  for (const name of new Set(stdout.toString().split('\0'))) {
    if (name !== '') cpSync(join(ROOT, name), join(tree, name), { recursive: true, verbatimSymlinks: true });
  }
  const isCopied = ['-al', '-a'].some((how) => {
    rmSync(join(tree, 'node_modules'), { recursive: true, force: true });
    return spawnSync('cp', [how, join(ROOT, 'node_modules'), tree]).status === 0;
  });
  if (!isCopied) throw new Error('node_modules cannot be copied.');
}

async function judge(tree: string, faults: Fault[]): Promise<Outcome[]> {
  // What is wrong with the list is said before anything takes time.
  const sources = faults.map((fault) => [fault, readFileSync(join(tree, fault.file), 'utf8')] as const);
  const broken = sources.map(([fault, source]) => putInto(source, fault));
  await build(tree, 'without a fault');
  process.stderr.write('the tests without a fault …\n');
  const sound = new Set<string>();
  for (const { tests, named } of faults) {
    for (const test of tests) {
      const key = `${test} ${named}`;
      if (sound.has(key)) continue;
      const ended = await runTest(tree, test, named);
      if (ended.code !== 0 || !/^# pass [1-9]/m.test(ended.output))
        throw new ListError(`${test} does not pass without a fault:\n${ended.output.slice(-3000)}`);
      sound.add(key);
    }
  }
  const outcomes: Outcome[] = [];
  for (const [i, [fault, source]] of sources.entries()) {
    writeFileSync(join(tree, fault.file), broken[i] as string);
    await build(tree, fault.name);
    const outcome = await find(tree, fault);
    outcomes.push(outcome);
    writeFileSync(join(tree, fault.file), source);
    process.stderr.write(`${i + 1}/${sources.length} ${fault.name}: ${outcome.by ?? `NOT FOUND${outcome.note}`}\n`);
  }
  return outcomes;
}

async function find(tree: string, fault: Fault): Promise<Outcome> {
  let note = '';
  for (const test of fault.tests) {
    const { code, output } = await runTest(tree, test, fault.named);
    if (code === null) note = `; ${test} hung`;
    // The innermost test that failed: TAP says it first.
    else if (code !== 0) return { fault, by: /^ *not ok \d+ - (.*)$/m.exec(output)?.[1] ?? test, note };
  }
  return { fault, by: null, note };
}

async function build(tree: string, fault: string): Promise<void> {
  const { code, output } = await ended(tree, ['scripts/build.mjs'], BUILD_MS);
  if (code !== 0) throw new ListError(`The tree does not build, ${fault}:\n${output}`);
}

function runTest(tree: string, test: string, named: string | undefined): Promise<Ended> {
  const pattern = named === undefined ? [] : ['--test-name-pattern', named];
  return ended(tree, ['--import', 'tsx/esm', '--test', '--test-reporter', 'tap', ...pattern, test], TEST_MS);
}

/** Ends the program that runs in the tree, and what it started. */
let end = (): void => {};

/** Runs `node` in the tree. At the limit it is ended, and what it started with it. */
function ended(tree: string, args: string[], ms: number): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: tree, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const chunks: Buffer[] = [];
    let late = false;
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    end = () => void process.kill(-(child.pid as number), 'SIGKILL');
    const timer = setTimeout(() => {
      late = true;
      end();
      // Something that left the group may hold the other end.
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
    }, ms);
    child.on('close', (code) => {
      clearTimeout(timer);
      end = () => {};
      resolve({ code: late ? null : (code ?? 1), output: Buffer.concat(chunks).toString() });
    });
  });
}

process.exitCode = await runCommand(HELP, main).catch((error: Error) => {
  process.stderr.write(`${error instanceof ListError ? error.message : error.stack}\n`);
  return 2;
});
