import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('open todos come first, the newest above, and those that are done below', async (t) => {
  const app = await harness(t);
  const milk = await app.action('add', { title: '  Milk ' });
  await app.action('add', { title: 'Bread' });
  await app.action('update', { id: milk.id, done: true });
  const todos = await app.query('list');
  assert.deepEqual(
    todos.map(({ title }) => title),
    ['Bread', 'Milk'],
  );
  assert.deepEqual(await app.query('stats'), { total: 2, open: 1, done: 1 });
  assert.deepEqual(await app.query('list', { filter: 'open' }), todos.slice(0, 1));
  assert.deepEqual(await app.query('list', { filter: 'done' }), todos.slice(1));

  assert.deepEqual(await app.action('remove', { done: true }), { removed: 1 });
  await assert.rejects(app.action('update', { id: milk.id, done: false }), { status: 404 });
});

test('a todo needs a title', async (t) => {
  const app = await harness(t);
  await assert.rejects(app.action('add', { title: ' ' }), { code: 'INVALID_INPUT', path: '/title' });
});

test('every evening a digest is written', async (t) => {
  const app = await harness(t, { now: '2026-01-05T09:00' });
  await app.action('add', { title: 'Milk' });
  await app.clock.advance('2d');
  const digests = await app.query('digests');
  assert.deepEqual(
    digests.map(({ open, done, oldest }) => [open, done, oldest]),
    [
      [1, 0, 'Milk'],
      [1, 0, 'Milk'],
    ],
  );
});

test('what is posted to the inbox becomes a todo', async (t) => {
  const app = await harness(t);
  await app.webhook('inbox', 'Call Ada');
  await app.webhook('inbox', { title: 'Call Grace' });
  await assert.rejects(app.webhook('inbox', {}), { message: /Post a line of text/ });
  const todos = await app.query('list');
  assert.deepEqual(
    todos.map(({ title }) => title),
    ['Call Grace', 'Call Ada'],
  );
});

test('a todo says who added it and who ticked it off', async (t) => {
  const app = await harness(t);
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob')];
  const { id, addedBy } = await ada.action('add', { title: 'Milk' });
  assert.equal(addedBy, 'Ada');
  const by = async () => (await app.query('list')).map((todo) => [todo.addedBy, todo.doneBy]);
  await bob.action('update', { id, done: true });
  await ada.action('update', { id, done: true });
  assert.deepEqual(await by(), [['Ada', 'Bob']]);
  await ada.action('update', { id, done: false });
  assert.deepEqual(await by(), [['Ada', null]]);
  await app.action('update', { id, done: true, title: 'Oat milk' });
  assert.deepEqual(await by(), [['Ada', null]]);
});
