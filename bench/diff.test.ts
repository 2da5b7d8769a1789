import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareReports, differences, seriesOf } from './diff.ts';
import type { Measurement, SideResult } from './measurements.ts';
import type { Report } from './report.ts';

function side(rates: number[]): SideResult {
  return {
    rounds: rates.map((requestsPerSecond) => ({ requestsPerSecond, p50: 1, p99: 2 })),
    requestsPerSecond: rates[0] as number,
    p50: 1,
    p99: 2,
    p999: 3,
    worst: 4,
    requests: 100,
    events: 0,
    failed: 0,
    cpu: {},
    memory: 0,
    fsyncsPerSecond: null,
    eventLoop: null,
    delivery: null,
  };
}

function report(gateway: number[], bare: number[], more: Measurement[] = []): Report {
  const load: Measurement = {
    kind: 'load',
    scenario: 'read',
    question: '',
    durability: null,
    connections: 64,
    sides: { gateway: side(gateway), 'bare edge': side(bare) },
    ratios: {},
    rowsPerCommit: null,
  };
  return { measurements: [load, ...more] } as unknown as Report;
}

const READY: Measurement = {
  kind: 'fact',
  scenario: 'ready',
  name: 'daemon ready',
  value: 100,
  unit: 'ms',
  detail: '',
};

test('a machine that was twice as fast the second time changes rates, not ratios', () => {
  const a = report([100, 102, 98, 101, 99, 100], [200, 204, 196, 202, 198, 200]);
  const b = report([200, 204, 196, 202, 198, 200], [400, 408, 392, 404, 396, 400]);
  const found = differences(seriesOf([a]), seriesOf([b]));
  const factorOf = (metric: string): number | undefined => found.find((one) => one.metric === metric)?.factor.estimate;
  assert.equal(factorOf('requests/s'), 2);
  assert.equal(factorOf('of the bare edge'), 1);
  const table = compareReports([a], [b]);
  assert.match(table, /^\| read +\| 64 +\| requests\/s +\| 100 +\| 200 +\| \+100 % \(\+9\d to \+10\d\) \| yes +\|$/m);
  assert.match(table, /^\| read +\| 64 +\| of the bare edge \| 0\.50 +\| 0\.50 +\| \+0 % \(\+0 to \+0\) +\| no +\|$/m);
});

test('one value a run is shown, but no verdict is given on it', () => {
  const reports = [report([1], [1], [READY]), report([1], [1], [{ ...READY, value: 110 }])] as const;
  assert.match(
    compareReports([reports[0]], [reports[1]]),
    /^\| ready +\| +\| daemon ready, ms +\| 100 +\| 110 +\| \+10 % +\| too few rounds +\|$/m,
  );
});

test('the rounds of several runs of one side count together', () => {
  const slow = report([100, 101], [200, 200]);
  const fast = report([120, 121], [200, 200]);
  const [first] = differences(seriesOf([slow, slow]), seriesOf([fast, fast]));
  assert.equal(first?.metric, 'of the bare edge');
  assert.ok(first && first.factor.low > 1, 'four rounds of each side are enough for a verdict');
});

test('runs that share no scenario say so', () => {
  assert.match(
    compareReports([report([1], [1])], [{ measurements: [READY] } as unknown as Report]),
    /no scenario in common/,
  );
});
