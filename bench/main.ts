/** `npm run bench`: runs the scenarios against the built daemon and writes a report. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Context, Scenario } from './context.ts';
import { Daemon } from './daemon.ts';
import { Generators } from './load/generators.ts';
import { describeMachine } from './machine.ts';
import type { Measurement } from './measurements.ts';
import { HELP, OptionError, type Options, parseOptions } from './options.ts';
import { createReport, toMarkdown, writeReport } from './report.ts';
import { changesScenario } from './scenarios/changes.ts';
import { memoryScenario } from './scenarios/memory.ts';
import { coldScenario, readyScenario } from './scenarios/start.ts';
import { staticScenario } from './scenarios/static.ts';
import { toolScenarios } from './scenarios/tools.ts';
import { ROOT } from './servers.ts';

const SCENARIOS: Scenario[] = [
  ...toolScenarios,
  staticScenario,
  changesScenario,
  coldScenario,
  readyScenario,
  memoryScenario,
];
const RESULTS = join(ROOT, 'bench/results');

async function main(args: string[]): Promise<number> {
  let options: Options;
  try {
    options = parseOptions(
      args,
      SCENARIOS.map(({ name }) => name),
    );
  } catch (error) {
    if (!(error instanceof OptionError)) throw error;
    process.stderr.write(`${error.message}\n\n${HELP}`);
    return 2;
  }
  if (options.help) {
    process.stdout.write(
      `${HELP}\nScenarios:\n${SCENARIOS.map(({ name, summary }) => `  ${name.padEnd(10)}${summary}\n`).join('')}`,
    );
    return 0;
  }
  const takenAt = new Date().toISOString();
  const workDir = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  const generators = new Generators();
  try {
    const profileDir = options.cpuProf ? join(RESULTS, 'profiles') : undefined;
    if (profileDir !== undefined) mkdirSync(profileDir, { recursive: true });
    const context: Context = {
      options,
      config: { edge: options.edge, durability: options.durability },
      generators,
      newFolder: () => mkdtempSync(join(workDir, 'data-')),
      profileDir,
      progress: (text) => process.stderr.write(`${text}\n`),
    };
    const machine = describeMachine(workDir);
    const { version, edge, hosts } = await lookAtDaemon(context);
    const settings = {
      edge,
      durability: options.durability,
      handlerHosts: hosts,
      loadGenerators: generators.count,
      seconds: options.seconds,
    };
    const measurements: Measurement[] = [];
    for (const scenario of SCENARIOS.filter(({ name }) => options.scenarios.includes(name))) {
      context.progress(`${scenario.name}: ${scenario.summary}`);
      measurements.push(...(await scenario.run(context)));
    }
    const report = createReport({ takenAt, version, machine, settings }, measurements);
    const file = writeReport(report, RESULTS);
    process.stdout.write(`\n${toMarkdown(report)}\nWritten to ${relative(ROOT, file)} and .json beside it.\n`);
    return measurements.some(hasFailures) ? 1 : 0;
  } finally {
    await generators.close();
    rmSync(workDir, { recursive: true, force: true });
  }
}

function hasFailures(one: Measurement): boolean {
  return one.kind === 'comparison' && one.gateway.failed + one.bare.failed > 0;
}

/** What the daemon says of itself under this configuration. */
async function lookAtDaemon({ config, newFolder }: Context): Promise<{ version: string; edge: string; hosts: number }> {
  const daemon = await Daemon.start({ dataDir: newFolder(), config });
  try {
    const { version, edge, processes } = await daemon.status();
    return { version, edge: edge ?? 'none', hosts: processes.filter(({ role }) => role === 'host').length };
  } finally {
    await daemon.stop();
  }
}

process.exitCode = await main(process.argv.slice(2));
