import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ratioChart } from './charts.ts';
import type { LoadMeasurement } from './measurements.ts';

const READ: LoadMeasurement = {
  kind: 'load',
  scenario: 'read',
  question: '',
  durability: null,
  connections: 64,
  sides: {},
  ratios: { 'bare edge': { estimate: 0.4, low: 0.3, high: 0.5 } },
  rowsPerCommit: null,
};

test('the chart has a title, a unit, its references and a row for each load, and nothing that is no number', () => {
  const svg = ratioChart([READ, { ...READ, scenario: 'alone', ratios: {} }]) ?? '';
  for (const text of ['a multiple of each reference', 'logarithmic', 'read, 64 in flight', 'bare edge'])
    assert.ok(svg.includes(text), `it shows "${text}"`);
  assert.doesNotMatch(svg, /alone|NaN|undefined|Infinity/);
  assert.match(svg, /^<svg [^>]*><style>@media \(prefers-color-scheme: dark\)/);
});

test('a run without references has no chart', () => {
  assert.equal(ratioChart([{ ...READ, ratios: {} }]), null);
});
