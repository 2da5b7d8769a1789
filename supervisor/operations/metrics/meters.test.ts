import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noUsage } from '../../../protocol/automations/runs.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { type Collected, partsOf, samplesOf, type Value } from './families.ts';
import { CALL_BUCKETS_MS, Meters, OTHER } from './meters.ts';

test('the first apps have separate labels, the others share one', () => {
  const meters = new Meters(2);
  const [a, b] = [meters.of('a'), meters.of('b')];
  assert.notEqual(a, b);
  assert.equal(meters.of('a'), a);
  meters.of('c').keptHits++;
  meters.of('d').called(meters.of('d').queries, 3, 0);
  assert.deepEqual(
    meters.used().map(([app]) => app),
    ['a', 'b', 'c', 'd'],
  );
  const others = () => meters.all.at(-1)?.[1];
  assert.deepEqual([others()?.keptHits, others()?.queries.ok, others()?.buckets[3]], [1, 1, 1]);
  meters.forget('c');
  assert.equal(others()?.keptHits, 1, 'counts never go back');
  assert.deepEqual(
    meters.all.map(([label]) => label),
    ['a', 'b', OTHER],
  );
  assert.deepEqual(
    ['a', 'c'].map((app) => meters.labelOf(app)),
    ['a', OTHER],
  );
  meters.forget('a');
  assert.equal(meters.labelOf('a'), OTHER);
  meters.of('e');
  assert.equal(meters.labelOf('e'), 'e', 'an app that was removed makes room');
});

test('an app that is called like the others, and drafts, have no place', () => {
  const meters = new Meters(2);
  meters.of(OTHER).keptHits++;
  assert.equal(meters.all.at(-1)?.[1].keptHits, 1);
  meters.of(draftKey('s1', 'a')).restarts++;
  assert.deepEqual(
    meters.all.map(([label, { restarts }]) => [label, restarts]),
    [[OTHER, 0]],
  );
});

test('calls are counted by how they ended, and how long they took', () => {
  const meter = new Meters().of('a');
  meter.called(meter.queries, 0.5, 0);
  meter.called(meter.queries, 0.6, 400);
  meter.called(meter.actions, 1e6, 503);
  assert.deepEqual(meter.queries, { ok: 1, refused: 1, failed: 0 });
  assert.deepEqual(meter.actions, { ok: 0, refused: 0, failed: 1 });
  assert.deepEqual([meter.buckets[0], meter.buckets[1], meter.buckets[CALL_BUCKETS_MS.length]], [1, 1, 1]);
  assert.equal(meter.callMs, 1_000_001.1);
});

test('apps beyond the limit of meters are counted together', () => {
  const meters = new Meters(1, 2);
  assert.notEqual(meters.of('a'), meters.of('b'));
  assert.equal(meters.of('c'), meters.of('d'));
  meters.of('c').ran({ state: 'ok', usage: noUsage() });
  assert.deepEqual([...(meters.all.at(-1)?.[1].runs ?? [])], [['ok', 1]]);
});

test('runs add up by state, with what agents used', () => {
  const meter = new Meters().of('a');
  meter.ran({ state: 'ok', usage: { ...noUsage(), inputTokens: 10, costUsd: 0.5 } });
  meter.ran({ state: 'ok', usage: { ...noUsage(), outputTokens: 3 } });
  assert.deepEqual([...meter.runs], [['ok', 2]]);
  assert.deepEqual([meter.inputTokens, meter.outputTokens, meter.costUsd], [10, 3, 0.5]);
});

test('a distribution is printed as buckets that add up', () => {
  const samples = samplesOf('x', [{ labels: { app: 'a' }, bounds: [1, 2], counts: [3, 0, 4], sum: 9.5 }]);
  const shown = samples.map(({ metricName, labels, value }) => [metricName, labels.le, value]);
  assert.deepEqual(shown, [
    ['x_bucket', '1', 3],
    ['x_bucket', '2', 3],
    ['x_bucket', '+Inf', 7],
    ['x_sum', undefined, 9.5],
    ['x_count', undefined, 7],
  ]);
});

test('printing in parts gives everything, in order', () => {
  const values = Array.from({ length: 7 }, (_, i): Value => [{ app: String(i) }, i]);
  const distribution = { labels: {}, bounds: [1, 2], counts: [3, 0, 4], sum: 9.5 };
  const sizes = (collected: Collected, lines: number) => [...partsOf(collected, lines)].map(({ length }) => length);
  assert.deepEqual([...partsOf(values, 3)].flat(), values);
  assert.deepEqual(sizes(values, 3), [3, 3, 1]);
  assert.deepEqual(sizes(values, 7), [7]);
  assert.deepEqual(sizes([distribution, distribution, distribution], 12), [2, 1]);
  assert.deepEqual(sizes([distribution, distribution], 1), [1, 1]);
  assert.deepEqual(sizes([], 3), [0]);
});
