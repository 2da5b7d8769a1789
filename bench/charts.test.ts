import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawCharts } from './charts.ts';
import type { LoadMeasurement, MemoryCourse, SideResult } from './measurements.ts';

const SIDE: SideResult = {
  rounds: [],
  requestsPerSecond: 0,
  p50: 0.4,
  p99: 2,
  p999: 3,
  worst: 40,
  requests: 0,
  events: 0,
  failed: 0,
  cpu: { supervisor: 30, 'host-1': 20, load: 10 },
  memory: 0,
  fsyncsPerSecond: null,
  eventLoop: null,
  delivery: null,
};
const READ: LoadMeasurement = {
  kind: 'load',
  scenario: 'read',
  question: '',
  durability: null,
  connections: 64,
  sides: { gateway: SIDE, 'bare edge': { ...SIDE, cpu: { 'bare edge': 9 } } },
  ratios: { 'bare edge': { estimate: 0.4, low: 0.3, high: 0.5 } },
  rowsPerCommit: null,
};
const COURSE: MemoryCourse = {
  kind: 'memory',
  scenario: 'mixed',
  samples: [0, 1, 2].map((at) => ({ at, pss: { supervisor: 60e6, writer: 20e6 } })),
};

test('there is a chart of each kind, with title, unit and what it shows, and nothing that is no number', () => {
  const charts = drawCharts([READ, COURSE]);
  assert.deepEqual(
    charts.map(({ name }) => name),
    ['ratios', 'latencies', 'cpu', 'memory'],
  );
  const shown: Record<string, string[]> = {
    ratios: ['logarithmic', 'read, 64 in flight', 'bare edge'],
    latencies: ['milliseconds', 'p99.9', 'worst'],
    cpu: ['µs of CPU a request', 'supervisor', 'host-1'],
    memory: ['MiB (PSS)', 'seconds', 'writer'],
  };
  for (const { name, title, svg } of charts) {
    for (const text of [title, ...(shown[name] as string[])]) assert.ok(svg.includes(text), `${name} shows "${text}"`);
    assert.doesNotMatch(svg, /NaN|undefined|Infinity/);
    assert.match(svg, /^<svg [^>]*><style>@media \(prefers-color-scheme: dark\)/);
  }
});

test('a value of 0 has no place on a logarithmic axis, and a run without loads has no charts of them', () => {
  const [, latencies] = drawCharts([{ ...READ, sides: { gateway: { ...SIDE, p50: 0 } } }]);
  assert.doesNotMatch(latencies?.svg ?? '', />p50</);
  assert.deepEqual(drawCharts([]), []);
});
