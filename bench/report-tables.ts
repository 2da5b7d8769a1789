/** The tables of load scenarios, and the writer of every table. */
import type { LoadMeasurement, SideResult } from './measurements.ts';
import { formatInterval } from './statistics.ts';

const MiB = 2 ** 20;

/** What stands below each header. */
type Columns<T> = Record<string, (item: T) => string>;
type Row = { load: LoadMeasurement; name: string; side: SideResult; first: boolean };

function rowsOf(loads: LoadMeasurement[]): Row[] {
  return loads.flatMap((load) =>
    Object.entries(load.sides).map(([name, side], i) => ({ load, name, side, first: i === 0 })),
  );
}

const WHOSE: Columns<Row> = { 'In flight': ({ load }) => String(load.connections), Server: ({ name }) => name };
const LOAD: Columns<Row> = {
  ...WHOSE,
  'Requests/s': ({ side }) => number(side.requestsPerSecond),
  Ratio: ({ load, name }) => (load.ratios[name] ? formatInterval(load.ratios[name]) : ''),
  'p50 ms': ({ side }) => side.p50.toFixed(2),
  'p99 ms': ({ side }) => side.p99.toFixed(2),
  'p99.9 ms': ({ side }) => side.p999.toFixed(2),
  'Worst ms': ({ side }) => side.worst.toFixed(2),
  Failed: ({ side }) => String(side.failed),
  'Loop p99 / max ms': ({ side: { eventLoop } }) =>
    eventLoop === null ? '' : `${eventLoop.p99.toFixed(1)} / ${eventLoop.max.toFixed(1)}`,
  'Fsyncs/s': ({ side }) => (side.fsyncsPerSecond === null ? '' : number(side.fsyncsPerSecond)),
  'Rows/commit': ({ load, first }) => (first ? (load.rowsPerCommit?.toFixed(1) ?? '') : ''),
  'Memory MiB': ({ side }) => (side.memory / MiB).toFixed(0),
};
/** The time from the commit, as its caller sees it, to the last subscriber. */
const DELIVERY: Columns<Row> = {
  'To last event, p50 ms': ({ side }) => side.delivery?.p50.toFixed(2) ?? '',
  'To last event, p99 ms': ({ side }) => side.delivery?.p99.toFixed(2) ?? '',
  'To last event, worst ms': ({ side }) => side.delivery?.worst.toFixed(2) ?? '',
};

/** One scenario: how fast, how late, at what cost. */
export function loadTable(loads: LoadMeasurement[]): string {
  const rows = rowsOf(loads);
  return table(rows.some(({ side }) => side.delivery !== null) ? { ...LOAD, ...DELIVERY } : LOAD, rows);
}

export function cpuTable(loads: LoadMeasurement[]): string {
  const rows = rowsOf(loads);
  const names = new Set(rows.flatMap(({ side }) => Object.keys(side.cpu)));
  const processes = [...[...names].filter((name) => name !== 'load'), 'load'];
  const used = processes.map((name) => [name, ({ side }: Row) => side.cpu[name]?.toFixed(1) ?? ''] as const);
  return table({ Scenario: ({ load }) => load.scenario, ...WHOSE, ...Object.fromEntries(used) }, rows);
}

export function number(value: number): string {
  return value.toFixed(Math.abs(value) < 100 ? 2 : 0);
}

/** Columns as wide as their widest cell, so that it reads well in a terminal too. */
export function table<T>(columns: Columns<T>, items: T[]): string {
  const header = Object.keys(columns);
  const rows = items.map((item) => Object.values(columns).map((cell) => cell(item)));
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] as string).length)));
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] as number)).join(' | ')} |`;
  return [line(header), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join('\n');
}
