/**
 * `bench compare`: what two runs differ by, and which of it is more than their rounds differ among themselves. Rates and
 * latencies of two runs only compare on a machine that was as quiet both times; the ratios to the bare edge of the same run
 * stand more.
 */
import type { Fact, LoadMeasurement, Measurement, RoundResult } from './measurements.ts';
import type { Report } from './report.ts';
import { number, table } from './report-tables.ts';
import { beyondNoise, factorBetween, type Interval, median } from './statistics.ts';

const OWN = 'gateway';
const REFERENCE = 'bare edge';

/** A metric of one scenario on one side: a value for each round. */
type Series = { scenario: string; connections: string; metric: string; values: number[] };

export type Difference = {
  scenario: string;
  connections: string;
  metric: string;
  a: number;
  b: number;
  factor: Interval;
};

/** A Markdown table. Each side may be several reports, whose rounds are taken together. */
export function compareReports(a: Report[], b: Report[]): string {
  const found = differences(seriesOf(a), seriesOf(b));
  if (found.length === 0) return 'The two have no scenario in common.\n';
  const rows = found.map(({ scenario, connections, metric, a: before, b: after, factor }) => [
    scenario,
    connections,
    metric,
    number(before),
    number(after),
    change(factor),
    verdict(factor),
  ]);
  return `${table(['Scenario', 'In flight', 'What', 'A', 'B', 'Change', 'Beyond noise'], rows)}\n`;
}

/** What both sides measured. */
export function differences(a: Series[], b: Series[]): Difference[] {
  return a.flatMap((before) => {
    const after = b.find((one) => keyOf(one) === keyOf(before));
    if (!after) return [];
    const { scenario, connections, metric } = before;
    const factor = factorBetween(before.values, after.values);
    return [{ scenario, connections, metric, a: median(before.values), b: median(after.values), factor }];
  });
}

/** The series of some reports, those of the same metric joined. */
export function seriesOf(reports: Report[]): Series[] {
  const joined = new Map<string, Series>();
  for (const one of reports.flatMap(({ measurements }) => measurements.flatMap(seriesOfMeasurement))) {
    const known = joined.get(keyOf(one));
    if (known) known.values.push(...one.values);
    else joined.set(keyOf(one), one);
  }
  return [...joined.values()];
}

function seriesOfMeasurement(one: Measurement): Series[] {
  if (one.kind === 'load') return seriesOfLoad(one);
  return one.kind === 'fact' ? seriesOfFact(one) : [];
}

function seriesOfLoad({ scenario, connections, sides }: LoadMeasurement): Series[] {
  const own = sides[OWN]?.rounds;
  if (!own) return [];
  const series = (metric: string, values: number[]): Series => ({
    scenario,
    connections: String(connections),
    metric,
    values,
  });
  const reference = sides[REFERENCE]?.rounds;
  const ratios = reference
    ? [
        series(
          'of the bare edge',
          own.map((round, i) => rate(round) / rate(reference[i] as RoundResult)),
        ),
      ]
    : [];
  return [
    ...ratios,
    series('requests/s', own.map(rate)),
    series(
      'p50 ms',
      own.map(({ p50 }) => p50),
    ),
    series(
      'p99 ms',
      own.map(({ p99 }) => p99),
    ),
  ];
}

/** One value a run. */
function seriesOfFact({ scenario, name, unit, value }: Fact): Series[] {
  return [{ scenario, connections: '', metric: `${name}, ${unit}`, values: [value] }];
}

function rate({ requestsPerSecond }: RoundResult): number {
  return requestsPerSecond;
}

function keyOf({ scenario, connections, metric }: Series): string {
  return `${scenario}/${connections}/${metric}`;
}

/** "+4 % (−1 to +9)"; without the ends where too few rounds were taken for them. */
function change({ estimate, low, high }: Interval): string {
  const percent = (factor: number): string => {
    const value = Math.round((factor - 1) * 100);
    return value < 0 ? `−${-value}` : `+${value}`;
  };
  return Number.isFinite(high)
    ? `${percent(estimate)} % (${percent(low)} to ${percent(high)})`
    : `${percent(estimate)} %`;
}

function verdict(factor: Interval): string {
  if (!Number.isFinite(factor.high)) return 'too few rounds';
  return beyondNoise(factor) ? 'yes' : 'no';
}
