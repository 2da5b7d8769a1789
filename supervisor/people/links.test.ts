import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { may } from '../http/access/grants.ts';
import { guestCaller } from '../http/access/guest.ts';
import { Links } from './links.ts';
import type { People } from './people.ts';
import { type Account, Records } from './records.ts';
import { Sharing } from './sharing.ts';

const ADA: Account = {
  ...{ id: 'p_1', name: 'Ada', email: null, isVouched: false, role: 'member', disabled: false },
  ...{ createdAt: 0, lastSeenAt: null, password: null },
};

async function setUp() {
  const clock = { now: 1_000_000 };
  const batches: unknown[] = [];
  const db = { exec: async () => {}, batch: async (all: unknown) => void batches.push(all) } as unknown as DbClient;
  const records = await Records.open({ db, file: '/none', log: { warn: assert.fail } as never });
  const now = () => clock.now;
  const sharing = new Sharing({ records, makerOf: () => null, now });
  const people = { find: (id: string) => records.person.get(id) } as People;
  const links = new Links({ records, people, sharing, now });
  const make = (expiresAt: number | null, role = 'editor', maker: string | null = null) =>
    links.make({ app: 'todos', role, by: null, maker, expiresAt });
  return { clock, batches, records, sharing, links, make };
}

test('a link and what came of it end when it expires; of the code the digest is kept', async () => {
  const { clock, batches, links, make } = await setUp();
  const { share, code } = await make(clock.now + 500);
  assert.ok(!JSON.stringify(batches).includes(code));
  const link = links.withCode(code);
  const signIn = links.begin(link);
  assert.equal(signIn.expiresAt, share.expiresAt);
  const guest = guestCaller(signIn, () => links.of(signIn.id), { app: 'todos' }, false);
  assert.ok(guest !== null && may(guest, 'write', 'todos') && !guest.ended);
  clock.now += 500;
  assert.deepEqual([may(guest, 'write', 'todos'), guest.ended, links.of(signIn.id)], [false, true, null]);
  assert.throws(() => links.withCode(code), { code: 'LINK_ENDED' });
  assert.throws(() => links.withCode(''), { code: 'LINK_ENDED' });
});

test('a link ends when its maker, who manages the app for a time, does so no more', async () => {
  const { clock, records, sharing, links, make } = await setUp();
  await records.change(() => ({ changes: [['put', 'person', ADA]], gives: null }));
  const { share, code } = await make(null, 'viewer', ADA.id);
  assert.throws(() => links.withCode(code), { code: 'LINK_ENDED' });
  const ends = clock.now + 500;
  await sharing.share({ app: 'todos', role: 'manager', to: { person: ADA.id }, expiresAt: ends, by: null });
  const { id } = links.begin(links.withCode(code));
  assert.equal(links.of(id)?.expiresAt, ends);
  await sharing.share({ app: 'todos', role: 'manager', to: { everyone: true }, expiresAt: null, by: null });
  assert.equal(links.of(id)?.expiresAt, null);
  await sharing.share({ app: 'todos', role: 'viewer', to: { everyone: true }, expiresAt: null, by: null });
  clock.now = ends;
  assert.deepEqual([links.of(id), share.expiresAt], [null, null]);
});

test('a session lasts as long as a browser keeps it, and two of one link are not the same', async () => {
  const { clock, links, make } = await setUp();
  const { share } = await make(null);
  const [one, two] = [links.begin(share), links.begin(share)];
  assert.equal(one.expiresAt, clock.now + LIMITS.personCookieMs);
  assert.ok(one.id !== two.id && links.isGuests(one));
  assert.equal(links.of(one.id)?.id, share.id);
});

test('when it was opened is stored once a minute, and the first time is told', async () => {
  const { clock, batches, sharing, links, make } = await setUp();
  const { share } = await make(null);
  const before = batches.length;
  assert.deepEqual(await Promise.all([links.noteOpened(share), links.noteOpened(share)]), [true, false]);
  clock.now += LIMITS.useNoteMs - 1;
  assert.equal(await links.noteOpened(share), false);
  assert.equal(batches.length - before, 2);
  clock.now += 1;
  assert.equal(await links.noteOpened(share), false);
  assert.equal(sharing.of('todos')[0]?.openedAt, clock.now);
  await sharing.unshare('todos', share.id, () => {});
  assert.equal(await links.noteOpened(share), false);
  assert.deepEqual(sharing.of('todos'), []);
});

test('a guest has no more than the role of the link, in its app alone, and nothing once that is another one', async () => {
  const { links, make } = await setUp();
  const { share } = await make(null, 'viewer');
  let role = 'viewer';
  const signIn = links.begin(share);
  const guest = guestCaller(signIn, () => ({ ...share, role }), { app: 'todos' }, false);
  assert.ok(guest !== null);
  const all = ['page', 'read', 'stream', 'write', 'settings', 'chat', 'manage', 'make', 'admin'] as const;
  const has = (app: string | null) => all.filter((right) => may(guest, right, app));
  assert.deepEqual(
    [has('todos'), has('notes'), has(null), has('_drafts/s1/todos')],
    [['page', 'read', 'stream'], [], [], []],
  );
  assert.equal(guest.ended, false);
  role = 'editor';
  assert.deepEqual([has('todos'), guest.ended], [[], true]);
});
