import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Capability } from '../../protocol/routes/row.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { definedRolesIn, may, roleIn } from '../http/access/grants.ts';
import type { Account } from './records.ts';
import { Records } from './records.ts';
import { Sharing } from './sharing.ts';

const ADA: Account = {
  ...{ id: 'p_1', name: 'Ada', email: null, isVouched: false, role: 'member', disabled: false },
  ...{ createdAt: 0, lastSeenAt: null, password: null },
};

async function setUp() {
  const clock = { now: 1000 };
  const batches: unknown[] = [];
  const db = { exec: async () => {}, batch: async (all: unknown) => void batches.push(all) } as unknown as DbClient;
  const records = await Records.open({ db, file: '/none', log: { warn: assert.fail } as never });
  const sharing = new Sharing({ records, makerOf: () => null, now: () => clock.now });
  await records.change(() => ({ changes: [['put', 'person', ADA]], gives: null }));
  const can = (capability: Capability, app: string) => may(sharing.knownOf(ADA), capability, app);
  const give = (role: string, to: Parameters<typeof sharing.share>[0]['to'], expiresAt: number | null = null) =>
    sharing.share({ app: 'todos', role, to, expiresAt, by: null });
  return { clock, records, sharing, can, give, batches };
}

test('the strongest of what reaches a person counts: by themselves, by a group, and by everyone', async () => {
  const { sharing, can, give } = await setUp();
  const own = await give('viewer', { person: 'p_1' });
  assert.deepEqual([can('read', 'todos'), can('write', 'todos'), can('read', 'notes')], [true, false, false]);
  const { id: group } = await sharing.makeGroup('Family', ['p_1', 'p_1']);
  const shared = await give('manager', { group });
  await give('editor', { everyone: true });
  assert.equal(can('manage', 'todos'), true);
  await sharing.unshare('todos', shared.id, () => {});
  assert.deepEqual([can('manage', 'todos'), can('write', 'todos')], [false, true]);
  await give('viewer', { everyone: true });
  assert.deepEqual([can('write', 'todos'), can('read', 'todos')], [false, true]);
  await sharing.unshare('todos', own.id, () => {});
  assert.equal(can('read', 'todos'), true);
});

test('what was given until a time ends then, without anything being asked again', async () => {
  const { clock, sharing, give } = await setUp();
  await give('editor', { person: 'p_1' }, 2000);
  await give('viewer', { everyone: true });
  const known = sharing.knownOf(ADA);
  assert.deepEqual([may(known, 'write', 'todos'), roleIn(known.grants, 'todos')], [true, 'editor']);
  clock.now = 2000;
  assert.deepEqual([may(known, 'write', 'todos'), roleIn(known.grants, 'todos')], [false, 'viewer']);
  // What is over makes room.
  await give('viewer', { group: (await sharing.makeGroup('Family', [])).id });
  assert.equal(sharing.of('todos').length, 2);
});

test('a role of the app gives its page, and calls for the dispatcher to judge, beside what else a person has', async () => {
  const { sharing, can, give } = await setUp();
  await give('cook', { person: 'p_1' });
  const roles = () => definedRolesIn(sharing.knownOf(ADA).grants, 'todos');
  assert.deepEqual([can('page', 'todos'), can('write', 'todos'), can('chat', 'todos')], [true, true, false]);
  assert.deepEqual([roles(), roleIn(sharing.knownOf(ADA).grants, 'todos')], [['cook'], null]);
  await give('viewer', { everyone: true });
  assert.deepEqual([roles(), roleIn(sharing.knownOf(ADA).grants, 'todos')], [['cook'], 'viewer']);
});

test('an invitation never weakens what somebody has for good', async () => {
  const { sharing, give } = await setUp();
  const given = { app: 'todos', to: { person: 'p_1' }, expiresAt: null, by: null };
  await give('editor', { person: 'p_1' });
  assert.deepEqual(sharing.raises({ ...given, role: 'viewer' }), []);
  assert.equal(sharing.raises({ ...given, role: 'manager' }).length, 1);
});

test('a change that cannot be stored does not hold', async () => {
  const { records, sharing, can, give } = await setUp();
  await give('viewer', { person: 'p_1' });
  const failing = () => {
    throw new Error('the disk is full');
  };
  await assert.rejects(records.change(failing), /full/);
  await assert.rejects(
    sharing.unshare('notes', 'none', () => {}),
    { code: 'UNKNOWN_SHARE' },
  );
  const refuse = () => {
    throw new Error('not permitted');
  };
  const [share] = sharing.of('todos');
  await assert.rejects(sharing.unshare('todos', share?.id ?? '', refuse), /not permitted/);
  assert.equal(can('read', 'todos'), true);
});

test('who is removed is in no group any more, and what was shared with them is gone', async () => {
  const { records, sharing, give } = await setUp();
  await give('viewer', { person: 'p_1' });
  await sharing.makeGroup('Family', ['p_1']);
  await records.change(() => ({ changes: sharing.forgets('p_1'), gives: null }));
  assert.deepEqual([sharing.of('todos'), sharing.groups().map(({ members }) => members)], [[], [[]]]);
});
