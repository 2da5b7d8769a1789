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

test('a card is assigned to people who have done something here, and to nobody else', async (t) => {
  const app = await harness(t);
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob')];
  await app.action('addBoard', { name: 'House' });
  assert.deepEqual(await app.query('people'), []);
  const { id, assignee } = await ada.action('addCard', { column: 1, title: 'Paint', assignee: ada.id });
  assert.equal(assignee, ada.id);
  await assert.rejects(app.action('updateCard', { id, assignee: bob.id }), { code: 'UNKNOWN_PERSON' });
  await bob.action('updateCard', { id, assignee: bob.id });
  await app.action('updateCard', { id, title: 'Paint the wall' });
  const [{ cards }] = (await app.query('board', { id: 1 })).columns;
  assert.deepEqual([cards[0].title, cards[0].assignee], ['Paint the wall', bob.id]);
  assert.deepEqual(await app.query('people'), [
    { id: ada.id, name: 'Ada' },
    { id: bob.id, name: 'Bob' },
  ]);
  assert.equal((await ada.action('updateCard', { id, assignee: null })).assignee, null);
});
