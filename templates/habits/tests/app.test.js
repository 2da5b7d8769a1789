import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('days in a row make a streak', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('add', { name: 'Read', goal: 7 });
  for (const day of ['2026-01-03', '2026-01-04', '2026-01-05', '2026-01-05'])
    await app.action('check', { id, day, done: true });
  const span = { from: '2026-01-01', to: '2026-01-07', today: '2026-01-05' };
  const [habit] = await app.query('board', span);
  assert.deepEqual([habit.days.length, habit.streak], [3, 3]);
  await app.action('check', { id, day: '2026-01-04', done: false });
  assert.equal((await app.query('board', span))[0].streak, 1);
});

test('a habit that was put away keeps its checks, and one that was removed loses them', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('add', { name: 'Read' });
  await app.action('check', { id, day: '2026-01-05', done: true });
  await app.action('update', { id, archived: true });
  const span = { from: '2026-01-01', to: '2026-01-07', today: '2026-01-05' };
  assert.deepEqual(await app.query('board', span), []);
  assert.deepEqual((await app.query('board', { ...span, archived: true }))[0].days, ['2026-01-05']);
  assert.equal((await app.action('remove', { id })).checks, 1);
  await assert.rejects(app.action('check', { id, day: '2026-01-05', done: true }), { status: 404 });
});

test('every night the day that ended is noted', async (t) => {
  const app = await harness(t, { now: '2026-01-05T20:00' });
  const { id } = await app.action('add', { name: 'Read' });
  await app.action('add', { name: 'Walk' });
  await app.action('check', { id, day: '2026-01-05', done: true });
  await app.clock.advance('12h');
  const [{ day, habits, done }] = await app.query('history');
  assert.deepEqual([day, habits, done], ['2026-01-05', 2, 1]);
});
