/** `bench ab`: two builds under the same load in the same run, a round of one and a round of the other. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UsageError } from './command.ts';
import { gatewayUnder, measure, startDaemon } from './compare.ts';
import type { Context, Scenario } from './context.ts';
import type { Daemon } from './daemon.ts';
import type { LoadMeasurement, SideResult } from './measurements.ts';
import { table } from './report-tables.ts';
import { beyondNoise, formatInterval } from './statistics.ts';
import type { Workload } from './workload.ts';

/** More than beside references: what two builds differ by is often small. */
const ROUNDS = 12;
/** Rounds as long as theirs. */
const TIMES_SECONDS = 2;

/** A Markdown table. Throws `UsageError` when a folder holds no build. */
export async function compareBuilds(
  context: Context,
  dirA: string,
  dirB: string,
  scenarios: Scenario[],
): Promise<string> {
  for (const dir of [dirA, dirB]) {
    if (!existsSync(join(dir, 'dist/cli.js')))
      throw new UsageError(`${dir} has no build; run "node scripts/build.mjs" there.`);
  }
  const options = { ...context.options, seconds: context.options.seconds * TIMES_SECONDS };
  const measurements: LoadMeasurement[] = [];
  for (const { name, workload } of scenarios) {
    context.progress(name);
    if (workload) {
      const load = workload(options.smoke);
      measurements.push(...(await compareUnder({ ...context, options }, resolve(dirA), resolve(dirB), load)));
    }
  }
  return `A is ${dirA}, B is ${dirB}.\n\n${buildsTable(measurements)}\n`;
}

async function compareUnder(context: Context, dirA: string, dirB: string, load: Workload): Promise<LoadMeasurement[]> {
  const daemons: Daemon[] = [];
  try {
    for (const root of [dirB, dirA]) daemons.push(await startDaemon(context, load, { root }));
    const contenders = daemons.map((daemon, i) => gatewayUnder(i === 0 ? 'B' : 'A', daemon, context, load));
    return await measure(context, load, contenders, ROUNDS);
  } finally {
    for (const daemon of daemons) await daemon.stop();
  }
}

export function buildsTable(measurements: LoadMeasurement[]): string {
  const header = ['Scenario', 'In flight', 'A/s', 'B/s', 'B of A', 'p50 ms', 'p99 ms', 'CPU µs', 'Beyond noise'];
  const rows = measurements.map(({ scenario, connections, sides, ratios }) => {
    const { A: a, B: b } = sides as { A: SideResult; B: SideResult };
    const ratio = ratios.A ?? { estimate: Number.NaN, low: 0, high: Number.POSITIVE_INFINITY };
    const both = (of: (side: SideResult) => number, digits: number): string =>
      `${of(a).toFixed(digits)} → ${of(b).toFixed(digits)}`;
    return [
      scenario,
      String(connections),
      a.requestsPerSecond.toFixed(0),
      b.requestsPerSecond.toFixed(0),
      formatInterval(ratio),
      both(({ p50 }) => p50, 2),
      both(({ p99 }) => p99, 2),
      both(cpuOfServer, 1),
      beyondNoise(ratio) ? (ratio.estimate > 1 ? 'B is faster' : 'B is slower') : 'no',
    ];
  });
  return table(header, rows);
}

/** Of all processes of the gateway, not of the load generators. */
function cpuOfServer({ cpu }: SideResult): number {
  return Object.entries(cpu).reduce((sum, [name, used]) => (name === 'load' ? sum : sum + used), 0);
}
