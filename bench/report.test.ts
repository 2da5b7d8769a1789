import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fact, LoadMeasurement, SideResult } from './measurements.ts';
import { createReport, toMarkdown } from './report.ts';

const HEAD = {
  takenAt: '2026-01-02T03:04:05.678Z',
  version: '1.2.3',
  machine: {
    cpu: 'A CPU',
    cores: 2,
    memoryGiB: 8,
    kernel: 'Linux 6',
    node: 'v20',
    fileSystem: 'ext4',
    fsyncMs: 0.5,
    loadAverage: 0,
  },
  settings: { edge: 'uws', handlerHosts: 1, loadGenerators: 1, seconds: 5, smoke: false },
};
const SIDE: SideResult = {
  rounds: [{ requestsPerSecond: 1000, p50: 1, p99: 2 }],
  requestsPerSecond: 1000,
  p50: 1,
  p99: 2,
  p999: 3,
  worst: 4,
  requests: 5000,
  events: 0,
  failed: 0,
  cpu: { supervisor: 30, load: 10 },
  memory: 100 * 2 ** 20,
  fsyncsPerSecond: 120,
  eventLoop: { p99: 5, max: 9 },
  delivery: null,
};
const READ: LoadMeasurement = {
  kind: 'load',
  scenario: 'read',
  question: 'How many reads a second at 64 in flight?',
  durability: null,
  connections: 64,
  sides: {
    gateway: SIDE,
    'bare edge': { ...SIDE, requestsPerSecond: 2000, cpu: { 'bare edge': 20, load: 11 }, eventLoop: null },
  },
  ratios: { 'bare edge': { estimate: 0.5, low: 0.45, high: 0.55 } },
  rowsPerCommit: null,
};
const COLD: Fact = {
  kind: 'fact',
  scenario: 'cold',
  name: 'first answer of a cold actor, of node -e 0',
  value: 1.7,
  unit: '×',
  detail: 'median of 9 runs',
};

test('expectations are held against what was measured, and only that', () => {
  const { expectations } = createReport(HEAD, [READ, COLD]);
  assert.deepEqual(
    expectations.map(({ measured, expected, met }) => ({ measured, expected, met })),
    [
      { measured: '0.50', expected: '≥ 0.5', met: true },
      { measured: '1.70', expected: '≤ 1.5', met: false },
    ],
  );
});

test('the Markdown has a row for each server, and a column for each process', () => {
  const markdown = toMarkdown(createReport(HEAD, [READ, COLD]));
  for (const line of [
    /^How many reads a second at 64 in flight\?$/m,
    /^\| 64 +\| gateway +\| 1000 +\| +\| 1\.00 +\| 2\.00 +\| 3\.00 +\| 4\.00 +\| 0 +\| 5\.0 \/ 9\.0 +\| 120 +\| +\| 100 /m,
    /^\| 64 +\| bare edge +\| 2000 +\| 0\.50 \(0\.45 to 0\.55\) /m,
    /^\| Scenario \| In flight \| Server +\| supervisor \| bare edge \| load \|$/m,
    /^\| cold +\| first answer of a cold actor, of node -e 0 \| 1\.70 × \| median of 9 runs \|$/m,
  ]) {
    assert.match(markdown, line);
  }
});
