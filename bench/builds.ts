/** `bench ab`: two builds under the same load in the same run, a round of one and a round of the other. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UsageError } from './command.ts';
import { BUILD_ROUNDS, ROUNDS } from './compare.ts';
import type { Context, Scenario } from './context.ts';
import type { LoadMeasurement, SideResult } from './measurements.ts';
import { table } from './report-tables.ts';
import { beyondNoise, formatInterval, type Interval } from './statistics.ts';

/** Each round is as long as beside references. */
const TIMES_SECONDS = BUILD_ROUNDS.full / ROUNDS;

/** Throws `UsageError` when a folder holds no build. */
export async function compareBuilds(
  context: Context,
  dirA: string,
  dirB: string,
  scenarios: Scenario[],
): Promise<LoadMeasurement[]> {
  for (const dir of [dirA, dirB]) {
    if (!existsSync(join(dir, 'dist/index.js')))
      throw new UsageError(`${dir} has no build; run "node scripts/build.mjs" there.`);
  }
  const options = { ...context.options, seconds: context.options.seconds * TIMES_SECONDS };
  const measurements: LoadMeasurement[] = [];
  for (const { name, ab } of scenarios) {
    context.progress(name);
    if (ab) measurements.push(...(await ab({ ...context, options }, { A: resolve(dirA), B: resolve(dirB) })));
  }
  return measurements;
}

/** A Markdown table. */
export function buildsTable(measurements: LoadMeasurement[]): string {
  type Compared = { load: LoadMeasurement; a: SideResult; b: SideResult; ratio: Interval };
  const both = (of: (side: SideResult) => number, digits: number) => (row: Compared) =>
    `${of(row.a).toFixed(digits)} → ${of(row.b).toFixed(digits)}`;
  const columns = {
    Scenario: ({ load }: Compared) => load.scenario,
    'In flight': ({ load }: Compared) => String(load.connections),
    'A/s': ({ a }: Compared) => a.requestsPerSecond.toFixed(0),
    'B/s': ({ b }: Compared) => b.requestsPerSecond.toFixed(0),
    'B of A': ({ ratio }: Compared) => formatInterval(ratio),
    'p50 ms': both(({ p50 }) => p50, 2),
    'p99 ms': both(({ p99 }) => p99, 2),
    'CPU µs': both(cpuOfServer, 1),
    'Beyond noise': ({ ratio }: Compared) =>
      beyondNoise(ratio) ? (ratio.estimate > 1 ? 'B is faster' : 'B is slower') : 'no',
  };
  const rows = measurements.map((load) => {
    const { A: a, B: b } = load.sides as { A: SideResult; B: SideResult };
    return { load, a, b, ratio: load.ratios.A as Interval };
  });
  return table(columns, rows);
}

/** Of all processes of the gateway, not of the load generators. */
function cpuOfServer({ cpu }: SideResult): number {
  return Object.entries(cpu).reduce((sum, [name, used]) => (name === 'load' ? sum : sum + used), 0);
}
