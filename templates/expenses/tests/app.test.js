import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('a month has its total, and what was spent of each budget', async (t) => {
  const app = await harness(t);
  const { id: category } = await app.action('addCategory', { name: 'Tea', budget: 1000 });
  await app.action('add', { cents: 450, day: '2025-12-31', category });
  await app.action('add', { cents: 700, day: '2026-01-01', category, note: ' Green ' });
  await app.action('add', { cents: 500, day: '2026-01-31', category });
  const month = await app.query('month', { month: '2026-01' });
  assert.deepEqual([month.total, month.count, month.previousTotal], [1200, 2, 450]);
  const [{ name, spent, budget }] = month.categories;
  assert.deepEqual([name, spent, budget], ['Tea', 1200, 1000]);
  const { expenses } = await app.query('list', { month: '2026-01', search: 'green' });
  assert.deepEqual(
    expenses.map(({ cents }) => cents),
    [700],
  );
});

test('names of categories are taken once, and a category with expenses stays', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('addCategory', { name: 'Tea' });
  await assert.rejects(app.action('addCategory', { name: 'Tea' }), { status: 409 });
  await app.action('add', { cents: 100, day: '2026-01-01', category: id });
  await assert.rejects(app.action('removeCategory', { id }), { status: 409 });
  await assert.rejects(app.action('add', { cents: 100, day: '2026-01-01', category: 999 }), { status: 404 });
});

test('on the first of a month, the one before is summed up', async (t) => {
  const app = await harness(t, { now: '2026-01-20T12:00' });
  const { id: category } = await app.action('addCategory', { name: 'Tea', budget: 1000 });
  await app.action('add', { cents: 1250, day: '2026-01-20', category });
  await app.clock.advanceTo('2026-02-02T12:00');
  const [{ month, text }] = await app.query('summaries');
  assert.deepEqual(
    [month, text],
    ['2026-01', '12.50 in 1 expense. Most went to Tea: 12.50. Tea is 2.50 over its budget.'],
  );
});

test('an expense is of who wrote it down, or of another one, and the month is even among them', async (t) => {
  const app = await harness(t);
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob')];
  const add = (who, cents, day, more) => who.action('add', { cents, day, category: 1, ...more });
  const [of, month] = ['2026-02-03', '2026-02'];
  assert.equal((await add(app, 999, of)).payer, null);
  const { id, payer } = await add(ada, 1001, of);
  assert.equal(payer, ada.id);
  assert.deepEqual(await app.query('people', { month }), [
    { id: ada.id, name: 'Ada', paid: 1001, shares: true, balance: 0 },
  ]);
  await assert.rejects(add(ada, 1, of, { payer: bob.id }), { code: 'UNKNOWN_PERSON' });
  await add(bob, 500, '2026-01-31');
  assert.deepEqual(
    (await ada.query('people', { month })).map(({ name, paid, balance }) => [name, paid, balance]),
    [
      ['Ada', 1001, 500],
      ['Bob', 0, -500],
    ],
  );
  await ada.action('update', { id, payer: bob.id, note: 'Bread' });
  await ada.action('update', { id, note: 'Cheese' });
  const { expenses } = await bob.query('list', { month });
  assert.deepEqual(
    expenses.map((expense) => [expense.note, expense.payer]),
    [
      ['Cheese', bob.id],
      ['', null],
    ],
  );
  assert.equal((await app.action('update', { id, payer: null })).payer, null);
  assert.deepEqual(
    (await app.query('people', { month: '2027-02' })).map(({ shares }) => shares),
    [false, false],
  );
});
