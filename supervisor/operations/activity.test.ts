import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Activity, quantile } from './activity.ts';
import { CALL_BUCKETS_MS, Meters } from './metrics/meters.ts';

function scripted() {
  const meters = new Meters();
  const state = { now: 0, bytes: 4096, followers: 0 };
  const activity = new Activity({
    meters,
    dataBytes: async () => state.bytes,
    subscribers: () => state.followers,
    now: () => state.now,
  });
  const minute = async () => {
    state.now += LIMITS.activityMs;
    await activity.sample();
  };
  return { meters, state, activity, minute };
}

test('a point counts its minute, and the last one is still running', async () => {
  const { meters, state, activity, minute } = scripted();
  const meter = meters.of('a');
  meter.called(meter.queries, 0.6, 0);
  meter.called(meter.actions, 30, 409);
  meter.keptHits++;
  state.followers = 2;
  await minute();
  meter.called(meter.queries, 400, 500);
  state.bytes = 8192;
  const [first, last, ...none] = await activity.of('a');
  assert.deepEqual(none, []);
  const { p50, p99, ...counts } = first ?? assert.fail();
  assert.deepEqual(counts, { at: 0, calls: 3, refused: 1, failed: 0, kept: 1, dataBytes: 4096, subscribers: 2 });
  assert.ok((p50 as number) <= 1 && (p99 as number) > 25 && (p99 as number) <= 50);
  assert.equal(last?.at, LIMITS.activityMs);
  assert.deepEqual([last?.calls, last?.failed, last?.kept, last?.dataBytes], [1, 1, 0, 8192]);
  assert.deepEqual(
    (await activity.of('a')).map(({ calls }) => calls),
    [3, 1],
    'looking changes nothing',
  );
});

test('an hour is kept; an unused app has only the running minute', async () => {
  const { meters, activity, minute } = scripted();
  meters.of('a');
  for (let i = 0; i < 90; i++) await minute();
  const points = await activity.of('a');
  assert.equal(points.length, LIMITS.activityPoints);
  assert.equal(points[0]?.at, 31 * LIMITS.activityMs);
  const [only, ...none] = await activity.of('unused');
  assert.deepEqual([only?.calls, only?.p50, none], [0, null, []]);
  meters.forget('a');
  await minute();
  assert.equal((await activity.of('a')).length, 1, 'a removed app has left nothing');
});

test('quantiles are within the bucket of the call', () => {
  const counts = new Float64Array(CALL_BUCKETS_MS.length + 1);
  assert.equal(quantile(counts, 0.5), null);
  counts[2] = 10; // over 1, up to 2.5 ms
  counts[CALL_BUCKETS_MS.length] = 1;
  assert.equal(quantile(counts, 0.5), 1.83);
  assert.equal(quantile(counts, 0.99), CALL_BUCKETS_MS.at(-1));
});
