// Run by `svc test <this folder>`: each test has the app with data, a clock and a network of its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('the newest note is listed first, until it is removed', async (t) => {
  const app = await harness(t);
  await app.action('add', { text: 'Milk' });
  const { id, createdAt } = await app.action('add', { text: 'Bread' });
  assert.deepEqual(await app.query('list', { limit: 1 }), [{ id, text: 'Bread', createdAt }]);

  await app.action('remove', { id });
  const notes = await app.query('list');
  assert.deepEqual(
    notes.map(({ text }) => text),
    ['Milk'],
  );
});

test('a note without text is refused, and one that is gone is not removed again', async (t) => {
  const app = await harness(t);
  await assert.rejects(app.action('add', { text: '' }), { code: 'INVALID_INPUT' });
  await assert.rejects(app.action('remove', { id: 1 }), { status: 404, message: 'There is no note 1.' });
});
