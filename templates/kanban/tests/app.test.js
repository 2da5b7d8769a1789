import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

/** The titles of the cards, column by column. */
async function cardsOf(app, id) {
  const { columns } = await app.query('board', { id });
  return Object.fromEntries(columns.map(({ name, cards }) => [name, cards.map(({ title }) => title)]));
}

test('cards are moved within a column and to another', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('addBoard', { name: 'House' });
  const [todo, doing] = (await app.query('board', { id })).columns;
  const [paint, clean, cook] = await Promise.all(
    ['Paint', 'Clean', 'Cook'].map((title) => app.action('addCard', { column: todo.id, title })),
  );
  await app.action('moveCard', { id: cook.id, column: todo.id, before: paint.id });
  await app.action('moveCard', { id: clean.id, column: doing.id, before: null });
  assert.deepEqual(await cardsOf(app, id), { 'To do': ['Cook', 'Paint'], Doing: ['Clean'], Done: [] });
});

test('a board goes with its columns and cards', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('addBoard', { name: 'House' });
  const { id: column } = await app.action('addColumn', { board: id, name: 'Later' });
  await app.action('addCard', { column, title: 'Paint' });
  const [{ cards }] = await app.query('boards');
  assert.equal(cards, 1);
  await app.action('removeBoard', { id });
  assert.equal(await app.query('board', { id }), null);
  assert.deepEqual(await app.sql('SELECT id FROM cards'), []);
  await assert.rejects(app.action('addCard', { column, title: 'Paint' }), { status: 404 });
});
