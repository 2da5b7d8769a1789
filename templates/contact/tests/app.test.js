import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

const MESSAGE = { name: 'Ada', email: 'ada@example.org', message: 'Hello!' };

test('a message is unread until it is marked, and leaves the inbox for the archive', async (t) => {
  const app = await harness(t);
  await app.action('send', MESSAGE);
  const [{ id, readAt }] = (await app.query('inbox')).messages;
  assert.equal(readAt, null);
  assert.notEqual((await app.action('mark', { id, read: true })).readAt, null);
  await app.action('mark', { id, archived: true });
  assert.deepEqual((await app.query('inbox')).messages, []);
  assert.equal((await app.query('inbox', { show: 'archived' })).messages.length, 1);
  await app.action('remove', { id });
  await assert.rejects(app.action('mark', { id, read: false }), { code: 'UNKNOWN_MESSAGE' });
});

test('a form of another site posts to the inbox, once for each id', async (t) => {
  const app = await harness(t);
  await app.webhook('inbox', new URLSearchParams(MESSAGE).toString());
  for (let i = 0; i < 2; i++) await app.webhook('inbox', { ...MESSAGE, id: 'm-1' });
  assert.equal((await app.query('inbox')).messages.length, 2);
});

test('posts that are refused are noted', async (t) => {
  const app = await harness(t);
  await assert.rejects(app.webhook('inbox', { ...MESSAGE, email: 'nobody' }), { code: 'HANDLER_ERROR' });
  const [{ reason }] = await app.query('refused');
  assert.equal(reason, 'The field “email” is not an e-mail address.');
  await app.action('clearRefused');
  assert.deepEqual(await app.query('refused'), []);
});
