import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftKey } from '../../../protocol/ids.ts';
import { ADMIN, type Caller, demand, ExpiringCaller, HostCaller } from './access.ts';
import type { Capability } from './grants.ts';

const ALL: Capability[] = ['page', 'read', 'write', 'stream', 'settings', 'chat', 'manage', 'make', 'admin'];
const OF_PAGES: Capability[] = ['page', 'read', 'write', 'stream', 'settings', 'chat'];
const DRAFT = draftKey('s1', 'todos');

/** Who, and what they may of each app; everything that is not listed is refused. */
const TABLE: [who: string, caller: Caller, may: Record<string, Capability[]>][] = [
  ['the token', ADMIN, { todos: ALL, notes: ALL, [DRAFT]: ALL, none: ALL }],
  [
    "the console's cookie",
    new ExpiringCaller('console', 1, () => true),
    { todos: ALL, notes: ALL, [DRAFT]: ALL, none: ALL },
  ],
  ["an app's cookie", new ExpiringCaller({ app: 'todos' }, 1, () => true), { todos: OF_PAGES }],
  ["a draft's cookie", new ExpiringCaller({ app: 'todos', session: 's1' }, 1, () => true), { [DRAFT]: OF_PAGES }],
  [
    'a shared cookie',
    new ExpiringCaller('shared', 1, () => true),
    { todos: OF_PAGES, notes: OF_PAGES, [DRAFT]: OF_PAGES, none: OF_PAGES },
  ],
];

for (const [who, caller, allowed] of TABLE) {
  test(`what ${who} may`, () => {
    for (const app of ['todos', 'notes', DRAFT, draftKey('s2', 'todos'), 'none']) {
      if (app === draftKey('s2', 'todos') && who !== "a draft's cookie") continue;
      const key = app === 'none' ? null : app;
      const may = ALL.filter((capability) => caller.may(capability, key));
      assert.deepEqual(may, allowed[app] ?? [], `${who}, ${app}`);
      for (const capability of ALL) {
        if (may.includes(capability)) demand(caller, capability, key);
        else assert.throws(() => demand(caller, capability, key), { code: 'FORBIDDEN', status: 403 });
      }
    }
  });
}

test("a page's refusal says how its author gets further", () => {
  const page = new ExpiringCaller({ app: 'todos' }, 1, () => true);
  assert.match(page.refusal('notes'), /name it under "uses" in the app\.json of "todos"/);
  assert.doesNotMatch(page.refusal('todos'), /uses"/);
});

test('a host is asked with the request’s need, and only true admits it', () => {
  const asked: unknown[] = [];
  const request = { method: 'GET', path: '/svc/todos/', query: '', header: () => undefined, raw: null };
  const answers: unknown[] = [true, false, undefined, 1];
  const caller = new HostCaller(request, (from, need) => {
    asked.push(from, need);
    return answers.shift() as boolean;
  });
  assert.deepEqual(
    [1, 2, 3, 4].map(() => caller.may('page', 'todos')),
    [true, false, false, false],
  );
  assert.deepEqual(asked.slice(0, 2), [request, { app: 'todos', capability: 'page' }]);
});

test('limits of one client distinguish only tokens, sign-ins and the administrator', () => {
  const grant = { id: 'tok_1', name: 'zapier', apps: null, tools: 'all', expiresAt: null } as const;
  const session = (signIn: string, app: string) => new ExpiringCaller({ app }, 1, () => true, signIn);
  const clients = [ADMIN, new ExpiringCaller(grant, null, () => true), session('a', 'todos'), session('b', 'todos')];
  assert.equal(new Set(clients.map(({ client }) => client)).size, clients.length);
  assert.equal(session('a', 'notes').client, session('a', 'todos').client);
});

test('a session that ended during a request is checked again', () => {
  let isGood = true;
  const grant = { id: 'tok_1', name: 'zapier', apps: null, tools: 'all', expiresAt: null } as const;
  const callers = [
    new ExpiringCaller('console', 1, () => isGood),
    new ExpiringCaller({ app: 'todos' }, 1, () => isGood),
    new ExpiringCaller('shared', 1, () => isGood),
    new ExpiringCaller(grant, null, () => isGood),
  ];
  for (const caller of callers) assert.ok(caller.may('read', 'todos'));
  isGood = false;
  for (const caller of callers) {
    assert.throws(() => demand(caller, 'read', 'todos'), { code: 'FORBIDDEN', message: /has ended meanwhile/ });
  }
});
