/** The tables of load scenarios. */
import type { LoadMeasurement, SideResult } from './measurements.ts';
import { formatInterval } from './statistics.ts';

const MiB = 2 ** 20;

type Row = { load: LoadMeasurement; name: string; side: SideResult; first: boolean };

function rowsOf(loads: LoadMeasurement[]): Row[] {
  return loads.flatMap((load) =>
    Object.entries(load.sides).map(([name, side], i) => ({ load, name, side, first: i === 0 })),
  );
}

/** One scenario: how fast, how late, at what cost. */
export function loadTable(loads: LoadMeasurement[]): string {
  const header = [
    'In flight',
    'Server',
    'Requests/s',
    'Ratio',
    'p50 ms',
    'p99 ms',
    'p99.9 ms',
    'Worst ms',
    'Failed',
    'Loop p99 / max ms',
    'Fsyncs/s',
    'Rows/commit',
    'Memory MiB',
  ];
  const rows = rowsOf(loads).map(({ load, name, side, first }) => [
    String(load.connections),
    name,
    number(side.requestsPerSecond),
    load.ratios[name] ? formatInterval(load.ratios[name]) : '',
    ...[side.p50, side.p99, side.p999, side.worst].map((ms) => ms.toFixed(2)),
    String(side.failed),
    side.eventLoop === null ? '' : `${side.eventLoop.p99.toFixed(1)} / ${side.eventLoop.max.toFixed(1)}`,
    side.fsyncsPerSecond === null ? '' : number(side.fsyncsPerSecond),
    first ? (load.rowsPerCommit?.toFixed(1) ?? '') : '',
    (side.memory / MiB).toFixed(0),
  ]);
  return table(header, rows);
}

/** The time from the commit, as its caller sees it, to the last subscriber. */
export function deliveryTable(loads: LoadMeasurement[]): string {
  const rows = rowsOf(loads).flatMap(({ load, name, side }) =>
    side.delivery === null
      ? []
      : [
          [
            String(load.connections),
            name,
            ...[side.delivery.p50, side.delivery.p99, side.delivery.worst].map((ms) => ms.toFixed(2)),
          ],
        ],
  );
  return table(['In flight', 'Server', 'Answer to last event, p50 ms', 'p99 ms', 'Worst ms'], rows);
}

export function cpuTable(loads: LoadMeasurement[]): string {
  const rows = rowsOf(loads);
  const names = new Set(rows.flatMap(({ side }) => Object.keys(side.cpu)));
  const processes = [...[...names].filter((name) => name !== 'load'), 'load'];
  return table(
    ['Scenario', 'In flight', 'Server', ...processes],
    rows.map(({ load, name, side }) => [
      load.scenario,
      String(load.connections),
      name,
      ...processes.map((process) => side.cpu[process]?.toFixed(1) ?? ''),
    ]),
  );
}

export function number(value: number): string {
  return value.toFixed(Math.abs(value) < 100 ? 2 : 0);
}

/** Columns as wide as their widest cell, so that it reads well in a terminal too. */
export function table(header: string[], rows: string[][]): string {
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] as string).length)));
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] as number)).join(' | ')} |`;
  return [line(header), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
