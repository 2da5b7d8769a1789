import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('a day is written, found by its words, and gone with its text', async (t) => {
  const app = await harness(t);
  const day = '2026-01-05';
  await app.action('save', { day, text: 'Tea in the Café, and cake.' });
  assert.equal((await app.query('entry', { day })).words, 6);
  const [{ excerpt }] = await app.query('search', { text: 'cafe' });
  assert.deepEqual(
    excerpt.filter(({ found }) => found).map(({ text }) => text),
    ['Café'],
  );
  await app.action('save', { day, text: ' ' });
  assert.deepEqual(await app.query('search', { text: 'tea' }), []);
  await assert.rejects(app.action('remove', { day }), { status: 404 });
});

test('a text that was changed elsewhere is not overwritten', async (t) => {
  const app = await harness(t);
  const day = '2026-01-05';
  const { updatedAt: seen } = await app.action('save', { day, text: 'One.' });
  await app.action('save', { day, text: 'Two.', seen });
  await assert.rejects(app.action('save', { day, text: 'Three.', seen }), (error) => {
    assert.deepEqual([error.code, error.body.entry.text], ['CHANGED', 'Two.']);
    return true;
  });
});

test('on Sunday evening the week is reviewed, with memories of earlier years', async (t) => {
  const app = await harness(t, { now: '2026-01-09T12:00' });
  await app.action('save', { day: '2026-01-08', text: 'Three more words.' });
  await app.action('save', { day: '2025-01-08', text: 'A year ago.' });
  await app.clock.advance('3d');
  const [{ day, days, words, memories }] = await app.query('reviews');
  assert.deepEqual([day, days, words, memories], ['2026-01-11', 1, 3, 1]);
});
