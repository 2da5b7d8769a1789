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

test('everybody has pages of their own, in every query and action', async (t) => {
  const app = await harness(t, { now: '2026-01-08T12:00' });
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob')];
  const day = '2026-01-08';
  await app.action('save', { day, text: 'Of the administrator: cake.' });
  await ada.action('save', { day, text: 'Secret cake of Ada.' });
  await ada.action('save', { day: '2025-01-08', text: 'Cake, a year ago.' });
  await app.clock.advance('5d');

  const seen = async (who) => ({
    entry: (await who.query('entry', { day })).text,
    list: (await who.query('list')).map(({ beginning }) => beginning),
    calendar: await who.query('calendar', { from: '2025-01-01', to: '2026-12-31' }),
    search: (await who.query('search', { text: 'cake' })).length,
    onThisDay: (await who.query('onThisDay', { day })).length,
    stats: await who.query('stats', { today: day }),
    reviews: (await who.query('reviews')).map(({ words, memories }) => [words, memories]),
  });
  assert.deepEqual(await seen(bob), {
    ...{ entry: '', list: [], calendar: [], search: 0, onThisDay: 0 },
    ...{ stats: { days: 0, words: 0, streak: 0 }, reviews: [] },
  });
  assert.deepEqual(await seen(app), {
    ...{ entry: 'Of the administrator: cake.', list: ['Of the administrator: cake.'] },
    ...{ calendar: [{ day, words: 4 }], search: 1, onThisDay: 0 },
    ...{ stats: { days: 1, words: 4, streak: 1 }, reviews: [[4, 0]] },
  });
  assert.deepEqual(await seen(ada), {
    ...{ entry: 'Secret cake of Ada.', list: ['Secret cake of Ada.', 'Cake, a year ago.'] },
    ...{
      calendar: [
        { day: '2025-01-08', words: 4 },
        { day, words: 4 },
      ],
      search: 2,
      onThisDay: 1,
    },
    ...{ stats: { days: 2, words: 8, streak: 1 }, reviews: [[4, 1]] },
  });

  for (const member of ['person', 'owner', 'user']) {
    await assert.rejects(bob.query('entry', { day, [member]: ada.id }), { code: 'INVALID_INPUT' });
    await assert.rejects(bob.action('remove', { day, [member]: ada.id }), { code: 'INVALID_INPUT' });
  }
  await assert.rejects(bob.action('remove', { day }), { status: 404 });
  await bob.action('review', { day, madeAt: 1 });
  assert.deepEqual(await app.sql('SELECT DISTINCT person FROM weeks WHERE day = ?', [day]), [{ person: bob.id }]);
  await bob.action('save', { day, text: 'Mine.', seen: 0 });
  assert.equal((await ada.query('entry', { day })).text, 'Secret cake of Ada.');
});
