/** The numbers of a run as JSON and as Markdown tables. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkExpectations } from './expectations.ts';
import type { Machine } from './machine.ts';
import type { Comparison, Expectation, Fact, Measurement, SideResult } from './measurements.ts';

export type Report = {
  takenAt: string;
  version: string;
  machine: Machine;
  /** Of the gateway under load. */
  settings: { edge: string; durability: string; handlerHosts: number; loadGenerators: number; seconds: number };
  expectations: Expectation[];
  measurements: Measurement[];
};

const MiB = 2 ** 20;

export function createReport(head: Omit<Report, 'expectations' | 'measurements'>, measurements: Measurement[]): Report {
  return { ...head, expectations: checkExpectations(measurements), measurements };
}

/** Writes `<time>.json` and `<time>.md` into `folder`; returns the path of the latter. */
export function writeReport(report: Report, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const base = join(folder, report.takenAt.replaceAll(/[:.]/g, '-'));
  writeFileSync(`${base}.json`, `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(`${base}.md`, toMarkdown(report));
  return `${base}.md`;
}

export function toMarkdown(report: Report): string {
  const { machine, settings, measurements, expectations } = report;
  const comparisons = measurements.filter((one): one is Comparison => one.kind === 'comparison');
  const facts = measurements.filter((one): one is Fact => one.kind === 'fact');
  const parts = [
    `# svc-gateway ${report.version}, ${report.takenAt}`,
    [
      `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.kernel}; Node ${machine.node}.`,
      `Data on ${machine.fileSystem}, fsync of 4 KiB ${machine.fsyncMs.toFixed(2)} ms; load average before the run ${machine.loadAverage.toFixed(1)}.`,
      `Edge ${settings.edge}, durability ${settings.durability}, handler hosts ${settings.handlerHosts};`,
      `load generators ${settings.loadGenerators} on the same machine, ${settings.seconds} s a side.`,
    ].join('\n'),
  ];
  if (comparisons.length > 0)
    parts.push('## Load', loadTable(comparisons), '## CPU time per request, µs', cpuTable(comparisons));
  if (facts.length > 0) {
    const rows = facts.map(({ name, value, unit, detail }) => [name, `${number(value)} ${unit}`, detail]);
    parts.push('## Starting and memory', table(['What', 'Value', 'How'], rows));
  }
  if (expectations.length > 0) {
    const rows = expectations.map(({ text, expected, measured, met }) => [
      text,
      expected,
      measured,
      met ? 'yes' : 'no',
    ]);
    parts.push('## Expectations', table(['What', 'Expected', 'Measured', 'Met'], rows));
  }
  return `${parts.join('\n\n')}\n`;
}

function loadTable(comparisons: Comparison[]): string {
  const header = [
    'Scenario',
    'Conn.',
    'Server',
    'Requests/s',
    'Of bare',
    'p50 ms',
    'p99 ms',
    'p99.9 ms',
    'Memory MiB',
    'Rows/commit',
    'Failed',
  ];
  const row = (comparison: Comparison, server: string, side: SideResult, ratio: string, rows: string): string[] => [
    comparison.scenario,
    String(comparison.connections),
    server,
    String(Math.round(side.requestsPerSecond)),
    ratio,
    ...[side.p50, side.p99, side.p999].map((ms) => ms.toFixed(2)),
    (side.memory / MiB).toFixed(0),
    rows,
    String(side.failed),
  ];
  const rows = comparisons.flatMap((comparison) => [
    row(
      comparison,
      'gateway',
      comparison.gateway,
      comparison.ratio.toFixed(2),
      comparison.rowsPerCommit?.toFixed(1) ?? '',
    ),
    row(comparison, 'bare edge', comparison.bare, '', ''),
  ]);
  return table(header, rows);
}

function cpuTable(comparisons: Comparison[]): string {
  const names = [
    ...new Set(comparisons.flatMap(({ gateway, bare }) => [...Object.keys(gateway.cpu), ...Object.keys(bare.cpu)])),
  ];
  const processes = [...names.filter((name) => name !== 'load'), 'load'];
  const row = (comparison: Comparison, server: string, { cpu }: SideResult): string[] => [
    comparison.scenario,
    String(comparison.connections),
    server,
    ...processes.map((name) => cpu[name]?.toFixed(1) ?? ''),
  ];
  const rows = comparisons.flatMap((comparison) => [
    row(comparison, 'gateway', comparison.gateway),
    row(comparison, 'bare edge', comparison.bare),
  ]);
  return table(['Scenario', 'Conn.', 'Server', ...processes], rows);
}

function number(value: number): string {
  return value.toFixed(value < 100 ? 2 : 0);
}

/** Columns as wide as their widest cell, so that it reads well in a terminal too. */
function table(header: string[], rows: string[][]): string {
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] as string).length)));
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] as number)).join(' | ')} |`;
  return [line(header), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
