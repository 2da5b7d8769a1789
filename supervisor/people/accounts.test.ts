/** Who follows a session sees at once what becomes of its person. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { may } from '../http/access/grants.ts';
import type { Known } from '../http/access/person.ts';
import { Accounts } from './accounts.ts';
import type { Ways } from './ways.ts';

const BROWSER = { address: '192.0.2.1', device: 'Firefox', before: undefined };

async function setUp() {
  const stored: unknown[] = [];
  const db = { exec: async () => {}, batch: async (all: unknown) => void stored.push(all) } as unknown as DbClient;
  const ways = { passkeys: true, passwords: true, providers: new Map(), proxy: null } as unknown as Ways;
  const accounts = await Accounts.open({ db, file: '/none', log: { warn: assert.fail } as never }, () => null, ways);
  const { code } = await accounts.invitations.make({
    ...{ name: null, email: null, role: 'member', grants: [], person: null, by: null, inviter: null },
    ...{ uses: 1, expiresInDays: 1 },
  });
  const guest = { name: 'Ada', email: 'ada@example.org', password: 'hash', passkey: null, signedIn: null };
  const { account: ada, signIn } = await accounts.invitations.accept(code, guest, BROWSER);
  return { accounts, ada, session: signIn };
}

test('who follows a session sees at once what its person is given, and loses', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1000 });
  const { accounts, ada, session } = await setUp();
  const { people, sharing } = accounts;
  const { id: group } = await sharing.makeGroup('Family', []);
  const following = accounts.following(session);
  const can = () => {
    const known = following();
    return known === null ? null : may(known, 'write', 'todos');
  };
  assert.equal(can(), false);
  assert.equal(following(), following());
  const { id: share } = await sharing.share({ app: 'todos', role: 'editor', to: { group }, expiresAt: null, by: null });
  assert.equal(can(), false);
  await sharing.changeGroup(group, { members: [ada.id] });
  assert.equal(can(), true);
  await sharing.unshare('todos', share, () => {});
  assert.equal(can(), false);
  await people.update(ada.id, { role: 'owner' });
  assert.equal(can(), true);
  await people.update(ada.id, { disabled: true });
  assert.equal(can(), null);
});

test('a session that ends, by itself or not, is followed no further', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1000 });
  const { accounts, ada, session } = await setUp();
  const second = await accounts.people.begin(ada, BROWSER, 'hash');
  const [one, other] = [session, second].map((signIn) => {
    const following = accounts.following(signIn);
    return () => following(Date.now());
  }) as [() => Known | null, () => Known | null];
  assert.deepEqual([one()?.person.id, other()?.person.id], [ada.id, ada.id]);
  await accounts.end(session.id);
  assert.deepEqual([one(), other()?.person.id], [null, ada.id]);
  t.mock.timers.setTime(1000 + LIMITS.personSessionMs - 1);
  accounts.people.used(second.id);
  t.mock.timers.setTime(1000 + LIMITS.personSessionMs);
  assert.equal(other()?.person.id, ada.id);
  t.mock.timers.setTime(1000 + 2 * LIMITS.personSessionMs);
  assert.equal(other(), null);
});
