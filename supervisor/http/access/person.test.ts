import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftKey } from '../../../protocol/ids.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import { demand, may } from './grants.ts';
import { accountCallers, hostPerson, type Person, personOf } from './person.ts';

const ALL: Capability[] = ['page', 'read', 'write', 'stream', 'settings', 'chat', 'manage', 'make', 'admin'];
const VIEWER: Capability[] = ['page', 'read', 'stream'];
const EDITOR: Capability[] = ['page', 'read', 'write', 'stream', 'chat'];
const DEFINED: Capability[] = ['page', 'read', 'write', 'stream'];
const MANAGER = ALL.filter((capability) => capability !== 'admin');
const DRAFT = draftKey('s1', 'todos');

/** The registered apps, and who made them. */
const MAKERS: Record<string, string | null> = { todos: null, notes: 'eve', own: 'ann' };
const makerOf = (app: string) => MAKERS[app];
const personWith = (role: Person['role'], apps?: object): Person =>
  ({ id: 'ann', name: 'Ann', role, ...(apps && { apps }) }) as Person;

/** What each may of some apps, a draft, an app that is not there, and all apps. Everything that is not listed is refused. */
const TABLE: [who: string, person: Person, may: Record<string, Capability[]>][] = [
  [
    'an owner',
    personWith('owner', { todos: 'viewer' }),
    { todos: ALL, notes: ALL, own: ALL, [DRAFT]: ALL, new: ALL, none: ALL },
  ],
  ['an author', personWith('author'), { own: MANAGER, new: MANAGER, none: ['manage', 'make'] }],
  [
    'an author with whom an app is shared',
    personWith('author', { todos: 'viewer' }),
    { todos: VIEWER, own: MANAGER, new: MANAGER, none: ['manage', 'make'] },
  ],
  ['a member', personWith('member'), {}],
  ['a member who made an app as an author', personWith('member', {}), {}],
  ['a viewer', personWith('member', { todos: 'viewer' }), { todos: VIEWER }],
  ['an editor', personWith('member', { todos: 'editor' }), { todos: EDITOR }],
  ['a manager', personWith('member', { todos: 'manager' }), { todos: MANAGER, [DRAFT]: MANAGER, none: ['manage'] }],
  ['a role of the app, which the dispatcher judges', personWith('member', { todos: 'cook' }), { todos: DEFINED }],
  ['a role that is none', personWith('member', { todos: ['manager'], notes: 7 }), {}],
  ['what every object has', personWith('member', Object.create({ todos: 'manager' })), {}],
];

for (const [who, person, allowed] of TABLE) {
  test(`what ${who} may`, () => {
    const caller = hostPerson(person, makerOf);
    for (const app of ['todos', 'notes', 'own', DRAFT, 'new', 'none']) {
      const key = app === 'none' ? null : app;
      const given = ALL.filter((capability) => may(caller, capability, key));
      assert.deepEqual(given, allowed[app] ?? [], `${who}, ${app}`);
      for (const capability of ALL.filter((one) => !given.includes(one)))
        assert.throws(() => demand(caller, capability, key), { code: 'FORBIDDEN' });
    }
  });
}

test('a refusal says what role somebody has', () => {
  const caller = hostPerson(personWith('member', { todos: 'viewer', notes: 7, own: 'cook' }), makerOf);
  assert.match(caller.refusal('todos'), /role in "todos" is viewer/);
  assert.match(caller.refusal('notes'), /role in "notes" is no text/);
  assert.match(caller.refusal('own'), /role in "own" is cook, and this needs more/);
  assert.match(caller.refusal('new'), /"new" is not shared with you/);
  assert.match(caller.refusal(null), /An owner of the gateway can/);
});

test('a host that also authorizes takes rights away, and gives none', () => {
  const reads = (capability: Capability) => capability === 'read' || capability === 'admin';
  const owner = hostPerson(personWith('owner'), makerOf, reads);
  const viewer = hostPerson(personWith('member', { todos: 'viewer' }), makerOf, reads);
  assert.deepEqual(
    ALL.filter((one) => may(owner, one, 'todos')),
    ['read', 'admin'],
  );
  assert.deepEqual(
    ALL.filter((one) => may(viewer, one, 'todos')),
    ['read'],
  );
});

test('handlers see the role in their app, and an owner as such', () => {
  const member = hostPerson({ ...personWith('member', { todos: 'editor' }), email: 'ann@example.org' }, makerOf);
  assert.deepEqual(member.shown('todos'), {
    kind: 'person',
    name: 'Ann',
    user: { id: 'ann', name: 'Ann', email: 'ann@example.org', role: 'editor' },
  });
  assert.equal(hostPerson(personWith('owner'), makerOf).shown('todos').user?.role, 'owner');
  assert.equal(hostPerson(personWith('author'), makerOf).shown('own').user?.role, 'manager');
  const { user, roles } = hostPerson(personWith('member', { todos: 'cook' }), makerOf).shown('todos');
  assert.deepEqual([user?.role, roles], ['cook', ['cook']]);
});

test('people are told apart by their ids in limits and idempotency keys', () => {
  const [ann, other] = [{}, { id: 'bob' }].map((more) => hostPerson({ ...personWith('member'), ...more }, makerOf));
  assert.notEqual(ann?.client, other?.client);
  assert.notEqual(ann?.identity, other?.identity);
});

test('what a host says of a person is checked, and only what it is about is taken', () => {
  const good = { id: 'ann', name: 'Ann', role: 'member' };
  for (const nobody of [null, undefined]) assert.equal(personOf(nobody), null);
  assert.deepEqual(personOf({ ...good, password: 'secret', email: null, apps: null }), good);
  const apps = { todos: 'viewer' };
  const person = personOf({ ...good, apps });
  apps.todos = 'manager';
  assert.deepEqual(person?.apps, { todos: 'viewer' });
  const long = 'x'.repeat(501);
  const bad: [answer: unknown, words: RegExp][] = [
    [true, /must be an object/],
    ['ann', /must be an object/],
    [Promise.reject(new Error('later')), /must be there at once/],
    [{}, /"id"/],
    [{ ...good, id: 7 }, /"id"/],
    [{ ...good, id: '' }, /"id"/],
    [{ ...good, id: 'a\nb' }, /"id"/],
    [{ ...good, id: long }, /"id"/],
    [{ ...good, name: '' }, /"name"/],
    [{ ...good, email: {} }, /"email"/],
    [{ ...good, role: 'admin' }, /"role" must be one of owner, author, member/],
    [{ ...good, role: undefined }, /"role"/],
    [{ ...good, apps: ['todos'] }, /"apps"/],
    [{ ...good, apps: 'todos' }, /"apps"/],
  ];
  for (const [answer, words] of bad) assert.throws(() => personOf(answer), { code: 'INTERNAL', message: words });
});

test('a person who signed in may do no more than the page where they are, and nothing once they are signed out', () => {
  const owner = hostPerson(personWith('owner'), makerOf);
  const member = hostPerson(personWith('member', { todos: 'editor', notes: 'viewer' }), makerOf);
  const at = (known: typeof owner, reach: Parameters<typeof accountCallers>[1], keyless = false) =>
    accountCallers({ now: () => known, clock: () => 0 }, reach, keyless)(0) as typeof owner;
  const allowed = (caller: typeof owner, app: string | null) => ALL.filter((one) => may(caller, one, app));
  assert.deepEqual(allowed(at(owner, 'console'), 'todos'), ALL);
  assert.deepEqual(allowed(at(member, 'console'), 'todos'), EDITOR);
  // The page of an app acts for nobody elsewhere, and manages nothing.
  assert.deepEqual(allowed(at(owner, { app: 'todos' }), 'notes'), []);
  assert.deepEqual(allowed(at(owner, { app: 'todos' }), 'todos'), [...EDITOR.slice(0, 4), 'settings', 'chat']);
  assert.deepEqual(allowed(at(member, { app: 'notes' }), 'notes'), VIEWER);
  assert.deepEqual(allowed(at(owner, 'shared'), null).includes('admin'), false);
  // The cookie alone opens pages.
  assert.deepEqual(allowed(at(owner, 'console', true), 'todos'), ['page']);
  assert.deepEqual(allowed(at(member, { app: 'own' }, true), 'own'), []);

  let known: typeof member | null = member;
  const callers = accountCallers({ now: () => known, clock: () => 0 }, 'console', false);
  const caller = callers(0) as typeof member;
  assert.deepEqual([caller.ended, may(caller, 'write', 'todos')], [false, true]);
  known = hostPerson(personWith('member', { todos: 'viewer' }), makerOf);
  assert.deepEqual([caller.ended, may(caller, 'write', 'todos')], [false, false]);
  assert.match(caller.refusal('todos'), /role in "todos" is viewer/);
  known = null;
  assert.deepEqual([caller.ended, may(caller, 'page', 'todos')], [true, false]);
  assert.match(caller.refusal('todos'), /ended/);
  assert.equal(callers(0), null);
});
