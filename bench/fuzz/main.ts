/** `npm run fuzz`: throws generated input at the gateway's parts. A failure is made small, and printed with what replays it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc, { type RunDetails } from 'fast-check';
import { chosen, parseWords, runCommand, wholeNumber } from '../command.ts';
import type { Check, Target } from './target.ts';
import { archives } from './targets/archives.ts';
import { automations } from './targets/automations.ts';
import { bodies } from './targets/bodies.ts';
import { frames } from './targets/frames.ts';
import { links } from './targets/links.ts';
import { manifests } from './targets/manifests.ts';
import { requests } from './targets/requests.ts';
import { schemaCode } from './targets/schema-code.ts';
import { schemas } from './targets/schemas.ts';
import { webhooks } from './targets/webhooks.ts';

const LARGEST = 2 ** 31 - 1;
/** What a smoke run tries of the inputs, and the least. */
const SMOKE_SHARE = 1 / 200;
const SMOKE_LEAST = 3;
const TARGETS: Target[] = [
  frames,
  links,
  manifests,
  automations,
  webhooks,
  archives,
  requests,
  bodies,
  schemas,
  schemaCode,
];

const HELP = `npm run fuzz -- [target …] [options]

  --runs N     inputs for each check
  --seconds N  ends each check after this time, at the number of inputs reached by then
  --seed N     replays the inputs of an earlier run (printed at its start)
  --path P     replays one failing input, with the seed and target of its report
  --smoke      few inputs, as CI runs it

Targets:
${TARGETS.map(({ name, claim }) => `  ${name.padEnd(12)}${claim}\n`).join('')}`;

function parse(args: string[]) {
  const { values, flags, positionals } = parseWords(args, {
    runs: 'string',
    seconds: 'string',
    seed: 'string',
    path: 'string',
    smoke: 'boolean',
  });
  return {
    targets: chosen('target', TARGETS, positionals),
    runs: wholeNumber('--runs', values.runs, 1, LARGEST),
    seconds: wholeNumber('--seconds', values.seconds, 1, LARGEST),
    seed: wholeNumber('--seed', values.seed, -LARGEST - 1, LARGEST) ?? Date.now() | 0,
    path: values.path,
    smoke: flags.smoke ?? false,
  };
}

type Options = ReturnType<typeof parse>;

async function main(args: string[]): Promise<number> {
  const options = parse(args);
  process.stdout.write(`seed ${options.seed}\n`);
  const folder = mkdtempSync(join(tmpdir(), 'svc-fuzz-'));
  let failed = 0;
  try {
    for (const target of options.targets) failed += await run(target, options, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.stdout.write(failed === 0 ? 'No check failed.\n' : `${failed} failed.\n`);
  return failed === 0 ? 0 : 1;
}

/** Answers how many of the target's checks failed. */
async function run(target: Target, options: Options, folder: string): Promise<number> {
  const ends: (() => unknown)[] = [];
  const newFolder = () => mkdtempSync(join(folder, `${target.name}-`));
  let failed = 0;
  try {
    for (const check of await target.open({ newFolder, atEnd: (end) => ends.push(end) })) {
      const startedAt = performance.now();
      const { outcome, inputs } = await examine(check, options);
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      process.stdout.write(`${target.name}: ${check.name}: ${inputs} inputs, ${seconds} s\n`);
      if (!outcome.failed) continue;
      failed++;
      process.stdout.write(`${await report(target, outcome)}\n`);
    }
  } finally {
    // Every one of them, also where another fails.
    for (const ended of await Promise.allSettled(ends.reverse().map(async (end) => end()))) {
      if (ended.status === 'fulfilled') continue;
      failed++;
      process.stdout.write(`${target.name} did not end: ${(ended.reason as Error).stack}\n`);
    }
  }
  return failed;
}

/**
 * Runs one check; `inputs` counts what was tried. Under the clock it goes in small lots, each with a seed of its own and run
 * to its end: fast-check's own time limit leaves an input under way, which gets into the next one's way.
 */
async function examine(
  { property, runs }: Check,
  { runs: asked, seconds, seed, path, smoke }: Options,
): Promise<{ outcome: RunDetails<unknown>; inputs: number }> {
  const few = Math.max(SMOKE_LEAST, Math.ceil(runs * SMOKE_SHARE));
  const most = asked ?? (smoke ? few : runs);
  const endsAt = seconds === null ? Number.POSITIVE_INFINITY : performance.now() + seconds * 1000;
  const lot = seconds === null ? most : Math.ceil(few / 10);
  let inputs = 0;
  for (let n = 0; ; n++) {
    const numRuns = Math.min(lot, most - inputs);
    const replay = path === undefined ? {} : { path, endOnFailure: true };
    const outcome = await fc.check(property, { seed: (seed + n) | 0, numRuns, ...replay });
    inputs += outcome.numRuns;
    if (outcome.failed || inputs >= most || performance.now() >= endsAt) return { outcome, inputs };
  }
}

async function report(target: Target, outcome: RunDetails<unknown>): Promise<string> {
  const why = (outcome.errorInstance as Error | null)?.stack ?? String(outcome.errorInstance);
  const again = `npm run fuzz -- ${target.name} --seed ${outcome.seed} --path ${outcome.counterexamplePath}`;
  // An input may nest too deeply to be shown.
  const shown = await fc.asyncDefaultReportMessage(outcome).catch((error: Error) => error.message);
  return `${shown}\nWhy: ${why}\nAgain: ${again}`;
}

process.exitCode = await runCommand(HELP, main);
