import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

const LUNCH = { question: ' Lunch? ', options: ['Pizza', 'Noodles', 'Soup'] };

/** What everybody sees of the votes: `Pizza 1, Noodles 0`. */
const shown = ({ options }) => options.map(({ text, votes }) => `${text} ${votes}`).join(', ');

test('each person has one vote, and may change it and take it back', async (t) => {
  const app = await harness(t);
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob', { role: 'voter' })];
  const { id: poll, question, options, madeBy, several } = await ada.action('add', LUNCH);
  assert.deepEqual([question, madeBy, several], ['Lunch?', 'Ada', false]);
  const [pizza, noodles] = options.map(({ id }) => id);
  await Promise.all([pizza, noodles, pizza, noodles].map((id) => bob.action('vote', { poll, options: [id] })));
  const after = await bob.action('vote', { poll, options: [noodles, noodles] });
  assert.deepEqual([shown(after), after.voters], ['Pizza 0, Noodles 1, Soup 0', 1]);
  assert.equal(shown(await ada.action('vote', { poll, options: [pizza] })), 'Pizza 1, Noodles 1, Soup 0');
  const mine = async (who) =>
    (await who.query('poll', { id: poll })).options.flatMap(({ mine: is, text }) => (is ? text : []));
  assert.deepEqual([await mine(ada), await mine(bob), await mine(app)], [['Pizza'], ['Noodles'], []]);
  assert.equal(shown(await bob.action('vote', { poll, options: [] })), 'Pizza 1, Noodles 0, Soup 0');
  await assert.rejects(bob.action('vote', { poll, options: [pizza, noodles] }), { code: 'ONE_CHOICE' });
  await assert.rejects(bob.action('vote', { poll, options: [99] }), { code: 'UNKNOWN_OPTION' });
  await assert.rejects(bob.action('vote', { poll: 99, options: [] }), { status: 404 });
});

test('only people vote; who has no account looks, and makes polls as the administrator', async (t) => {
  const app = await harness(t);
  const { id, options, madeBy, manages } = await app.action('add', LUNCH);
  assert.deepEqual([madeBy, manages], [null, true]);
  const vote = { poll: id, options: [options[0].id] };
  await assert.rejects(app.action('vote', vote), { status: 403, code: 'UNAUTHENTICATED', message: /^Sign in to vote/ });
  const viewer = await app.person('Vera', { role: 'viewer' });
  assert.equal((await viewer.query('list')).length, 1);
  await assert.rejects(viewer.action('vote', vote), { code: 'FORBIDDEN' });
});

test('names are shown where votes are named, and nowhere else', async (t) => {
  const app = await harness(t);
  const ada = await app.person('Ada');
  const named = await app.action('add', { ...LUNCH, named: true, several: true });
  const [pizza, , soup] = named.options.map(({ id }) => id);
  const { options } = await ada.action('vote', { poll: named.id, options: [pizza, soup] });
  assert.deepEqual(
    options.map(({ names }) => names),
    [['Ada'], [], ['Ada']],
  );
  const secret = await app.action('add', LUNCH);
  await ada.action('vote', { poll: secret.id, options: [secret.options[0].id] });
  const text = JSON.stringify(await app.query('poll', { id: secret.id }));
  assert.ok(!text.includes('Ada') && !text.includes(ada.id), text);
  assert.deepEqual(await app.sql('SELECT name FROM votes WHERE poll = ?', [secret.id]), [{ name: null }]);
});

test('who made a poll, or manages the app, closes and removes it; a voter makes none', async (t) => {
  const app = await harness(t);
  const [ada, bob] = [await app.person('Ada'), await app.person('Bob')];
  const [mara, vic] = [await app.person('Mara', { role: 'manager' }), await app.person('Vic', { role: 'voter' })];
  const { id } = await ada.action('add', LUNCH);
  for (const action of ['close', 'remove']) {
    await assert.rejects(bob.action(action, { id }), { status: 403, code: 'NOT_YOURS' });
    await assert.rejects(vic.action(action, { id }), { code: 'FORBIDDEN' });
  }
  await assert.rejects(vic.action('add', LUNCH), { code: 'FORBIDDEN' });
  assert.deepEqual(
    await Promise.all([ada, bob, mara, vic, app].map(async (who) => (await who.query('poll', { id })).manages)),
    [true, false, true, false, true],
  );
  const { open, options } = await ada.action('close', { id });
  assert.equal(open, false);
  await assert.rejects(bob.action('vote', { poll: id, options: [options[0].id] }), { status: 409, code: 'CLOSED' });
  await mara.action('remove', { id });
  assert.equal(await app.query('poll', { id }), null);
  assert.deepEqual(await app.sql('SELECT id FROM options'), []);
});

test('a poll closes when its time has come', async (t) => {
  const app = await harness(t, { now: '2026-01-05T09:00Z' });
  const ada = await app.person('Ada');
  const poll = await app.action('add', { ...LUNCH, closesAt: Date.parse('2026-01-05T12:00Z') });
  const vote = { poll: poll.id, options: [poll.options[0].id] };
  await ada.action('vote', vote);
  await app.clock.advance('3h');
  await assert.rejects(ada.action('vote', vote), { code: 'CLOSED' });
  const [{ open, closedAt }] = await app.query('list');
  assert.deepEqual([open, closedAt], [false, null]);
  await assert.rejects(app.action('add', { ...LUNCH, closesAt: app.clock.now }), { code: 'PAST' });
  await assert.rejects(app.action('add', { ...LUNCH, options: ['Pizza', ' pizza'] }), { code: 'SAME_OPTION' });
});
