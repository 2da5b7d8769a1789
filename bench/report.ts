/** The numbers of a run as JSON and as Markdown tables, with a chart beside them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ratioChart } from './charts.ts';
import { checkExpectations } from './expectations.ts';
import type { Machine } from './machine.ts';
import type { Expectation, Fact, LoadMeasurement, Measurement } from './measurements.ts';
import { cpuTable, loadTable, number, table } from './report-tables.ts';

export type Report = {
  takenAt: string;
  version: string;
  machine: Machine;
  /** Of the gateway under load. */
  settings: { edge: string; handlerHosts: number; loadGenerators: number; seconds: number; smoke: boolean };
  expectations: Expectation[];
  measurements: Measurement[];
};

const FACTS = {
  Scenario: ({ scenario }: Fact) => scenario,
  What: ({ name }: Fact) => name,
  Value: ({ value, unit }: Fact) => `${number(value)} ${unit}`,
  How: ({ detail }: Fact) => detail,
};
const EXPECTATIONS = {
  What: ({ text }: Expectation) => text,
  Expected: ({ expected }: Expectation) => expected,
  Measured: ({ measured }: Expectation) => measured,
  Met: ({ met }: Expectation) => (met ? 'yes' : 'no'),
};

export function createReport(head: Omit<Report, 'expectations' | 'measurements'>, measurements: Measurement[]): Report {
  return { ...head, expectations: head.settings.smoke ? [] : checkExpectations(measurements), measurements };
}

/** Writes `<time>.json`, `<time>.md` and the chart into `folder`; returns the path of the Markdown. */
export function writeReport(report: Report, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const base = join(folder, report.takenAt.replaceAll(/[:.]/g, '-'));
  const chart = ratioChart(loadsOf(report));
  if (chart !== null) writeFileSync(`${base}-ratios.svg`, chart);
  writeFileSync(`${base}.json`, `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(`${base}.md`, toMarkdown(report, chart === null ? null : `${basename(base)}-ratios.svg`));
  return `${base}.md`;
}

/** `chart`: the name of its file. */
export function toMarkdown(report: Report, chart: string | null = null): string {
  const { machine, settings, measurements, expectations } = report;
  const loads = loadsOf(report);
  const facts = measurements.filter((one): one is Fact => one.kind === 'fact');
  const parts = [
    `# svc-gateway ${report.version}, ${report.takenAt}`,
    [
      `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.kernel}; Node ${machine.node}.`,
      `Data on ${machine.fileSystem}, fsync of 4 KiB ${machine.fsyncMs.toFixed(2)} ms; load average before the run ${machine.loadAverage.toFixed(1)}.`,
      `Edge ${settings.edge}, handler hosts ${settings.handlerHosts}; load generators ${settings.loadGenerators} on the same machine,`,
      `${settings.seconds} s for each contender.`,
      ...(settings.smoke ? ['A smoke run: too short and too small for its numbers to mean anything.'] : []),
    ].join('\n'),
  ];
  if (expectations.length > 0) parts.push('## Expectations', table(EXPECTATIONS, expectations));
  if (loads.length > 0) {
    const scenarios = [...new Set(loads.map(({ scenario }) => scenario))];
    parts.push('## Load', ...scenarios.map((name) => loadSection(loads.filter(({ scenario }) => scenario === name))));
    parts.push('## CPU time per request, µs', cpuTable(loads));
  }
  if (facts.length > 0) parts.push('## Starting, memory and neighbours', table(FACTS, facts));
  if (chart !== null) parts.push(`![The gateway's rate as a multiple of each reference's](${chart})`);
  return `${parts.join('\n\n')}\n`;
}

function loadsOf({ measurements }: Report): LoadMeasurement[] {
  return measurements.filter((one) => one.kind === 'load');
}

function loadSection(loads: LoadMeasurement[]): string {
  const { scenario, durability } = loads[0] as LoadMeasurement;
  const questions = loads.map(({ question }) => question).join('\n');
  const durable = durability === null ? 'Nothing is written.' : `Durability ${durability}.`;
  return [`### ${scenario}`, `${questions}\n${durable}`, loadTable(loads)].join('\n\n');
}
