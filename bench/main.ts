/** `npm run bench`: runs the scenarios, or compares two builds. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { buildsTable, compareBuilds } from './builds.ts';
import { runCommand, UsageError } from './command.ts';
import { type Context, withDaemon } from './context.ts';
import { Generators } from './load/generators.ts';
import { describeMachine } from './machine.ts';
import type { Measurement } from './measurements.ts';
import { HELP, type Options, parseOptions } from './options.ts';
import { createReport, toMarkdown, writeReport } from './report.ts';
import { number } from './report-tables.ts';
import { SCENARIOS } from './scenarios/all.ts';
import { ROOT } from './servers.ts';

const RESULTS = join(ROOT, 'bench/results');

async function main(args: string[]): Promise<number> {
  const [command, ...rest] = args;
  if (command === 'ab') return runBuilds(rest);
  return runScenarios(args);
}

async function runScenarios(args: string[]): Promise<number> {
  const { scenarios, ...options } = parseOptions(args, SCENARIOS);
  const takenAt = new Date().toISOString();
  return withContext(options, async (context, workDir) => {
    const machine = describeMachine(workDir);
    const { version, edge, hosts } = await lookAtDaemon(context);
    const settings = {
      edge,
      handlerHosts: hosts,
      loadGenerators: context.generators.count,
      seconds: options.seconds,
      smoke: options.smoke,
    };
    const measurements: Measurement[] = [];
    for (const scenario of scenarios) {
      context.progress(`${scenario.name}: ${scenario.question.replace('{n}', 'n')}`);
      for (const found of await scenario.run(context)) {
        if (found.kind === 'fact') context.progress(`  ${found.name}: ${number(found.value)} ${found.unit}`);
        measurements.push({ scenario: scenario.name, ...found });
      }
    }
    const report = createReport({ takenAt, version, machine, settings }, measurements);
    const file = writeReport(report, RESULTS);
    process.stdout.write(
      `\n${toMarkdown(report)}\nWritten to ${relative(ROOT, file)}, with .json and chart beside it.\n`,
    );
    return measurements.some(hasFailures) ? 1 : 0;
  });
}

/** `ab dirA dirB [scenario …]`. */
async function runBuilds([dirA, dirB, ...rest]: string[]): Promise<number> {
  if (dirA === undefined || dirB === undefined) throw new UsageError('ab takes the folders of two built checkouts.');
  const comparable = SCENARIOS.filter(({ ab }) => ab);
  const { scenarios, ...options } = parseOptions(rest, comparable);
  return withContext(options, async (context) => {
    const measurements = await compareBuilds(context, dirA, dirB, scenarios);
    process.stdout.write(`\nA is ${dirA}, B is ${dirB}.\n\n${buildsTable(measurements)}\n`);
    return measurements.some(hasFailures) ? 1 : 0;
  });
}

async function withContext(
  options: Options,
  work: (context: Context, workDir: string) => Promise<number>,
): Promise<number> {
  const workDir = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  const generators = new Generators();
  const remove = (): void => rmSync(workDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  process.once('exit', remove);
  try {
    const profileDir = options.cpuProf ? join(RESULTS, 'profiles') : undefined;
    if (profileDir !== undefined) mkdirSync(profileDir, { recursive: true });
    const context: Context = {
      options,
      config: { edge: options.edge },
      generators,
      newFolder: () => mkdtempSync(join(workDir, 'data-')),
      profileDir,
      progress: (text) => process.stderr.write(`${text}\n`),
    };
    return await work(context, workDir);
  } finally {
    await generators.close();
    process.off('exit', remove);
    remove();
  }
}

function hasFailures(one: Measurement): boolean {
  return one.kind === 'load' && Object.values(one.sides).some(({ failed }) => failed > 0);
}

/** What the daemon says of itself under this configuration. */
async function lookAtDaemon(context: Context): Promise<{ version: string; edge: string; hosts: number }> {
  return withDaemon(context, async (daemon) => {
    const { version, edge, processes } = await daemon.status();
    return { version, edge: edge ?? 'none', hosts: processes.filter(({ role }) => role === 'host').length };
  });
}

// Ends the servers and removes the folders of the run, too.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
const lines = SCENARIOS.map(({ name, question }) => `  ${name.padEnd(14)}${question.replace('{n}', 'n')}\n`);
process.exitCode = await runCommand(`${HELP}\nScenarios:\n${lines.join('')}`, main);
