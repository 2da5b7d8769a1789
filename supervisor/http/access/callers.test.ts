import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftKey } from '../../../protocol/ids.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import { ADMIN, allowedByHost, hostCaller, NOBODY, sessionCaller, tokenCaller } from './callers.ts';
import { type Caller, demand, may } from './grants.ts';

const ALL: Capability[] = ['page', 'read', 'write', 'stream', 'settings', 'chat', 'manage', 'make', 'admin'];
const OF_PAGES: Capability[] = ['page', 'read', 'write', 'stream', 'settings', 'chat'];
const SIGN_IN = { id: 'a', expiresAt: 1 };
const TOKEN = { id: 'tok_1', name: 'zapier', apps: null, tools: 'all', expiresAt: null } as const;
const DRAFT = draftKey('s1', 'todos');

/** Callers, and what they may of each app. Everything that is not listed is refused. */
const TABLE: [who: string, caller: Caller, may: Record<string, Capability[]>][] = [
  ['the token', ADMIN, { todos: ALL, notes: ALL, [DRAFT]: ALL, none: ALL }],
  [
    "the console's cookie",
    sessionCaller('console', SIGN_IN, () => true),
    { todos: ALL, notes: ALL, [DRAFT]: ALL, none: ALL },
  ],
  ["an app's cookie", sessionCaller({ app: 'todos' }, SIGN_IN, () => true), { todos: OF_PAGES }],
  ["a draft's cookie", sessionCaller({ app: 'todos', workspace: 's1' }, SIGN_IN, () => true), { [DRAFT]: OF_PAGES }],
  [
    'a shared cookie',
    sessionCaller('shared', SIGN_IN, () => true),
    { todos: OF_PAGES, notes: OF_PAGES, [DRAFT]: OF_PAGES, none: OF_PAGES },
  ],
  [
    "the console's cookie alone",
    sessionCaller('console', SIGN_IN, () => true, true),
    { todos: ['page'], notes: ['page'], [DRAFT]: ['page'], none: ['page'] },
  ],
  ["an app's cookie alone", sessionCaller({ app: 'todos' }, SIGN_IN, () => true, true), { todos: ['page'] }],
  ['a cookie that has ended', sessionCaller('console', SIGN_IN, () => false), {}],
  ['a token that has ended', tokenCaller(TOKEN, () => false), {}],
  ['a token of another app', tokenCaller({ ...TOKEN, apps: ['other'] }, () => true), {}],
  ['nobody', NOBODY, {}],
];

for (const [who, caller, allowed] of TABLE) {
  test(`what ${who} may`, () => {
    for (const app of ['todos', 'notes', DRAFT, draftKey('s2', 'todos'), 'none']) {
      if (app === draftKey('s2', 'todos') && who !== "a draft's cookie") continue;
      const key = app === 'none' ? null : app;
      const given = ALL.filter((capability) => may(caller, capability, key));
      assert.deepEqual(given, allowed[app] ?? [], `${who}, ${app}`);
      for (const capability of ALL) {
        if (given.includes(capability)) demand(caller, capability, key);
        else assert.throws(() => demand(caller, capability, key), { code: 'FORBIDDEN', status: 403 });
      }
    }
  });
}

test("a page's refusal says how its author gets further", () => {
  const page = sessionCaller({ app: 'todos' }, SIGN_IN, () => true);
  assert.match(page.refusal('notes'), /name it under "uses" in the app\.json of "todos"/);
  assert.doesNotMatch(page.refusal('todos'), /uses"/);
});

test('a host is asked with the request’s need, and only true admits it', () => {
  const asked: unknown[] = [];
  const request = { method: 'GET', path: '/svc/todos/', query: '', header: () => undefined, raw: null };
  const answers: unknown[] = [true, false, undefined, 1];
  const decide = (from: unknown, need: unknown): boolean => {
    asked.push(from, need);
    return answers.shift() as boolean;
  };
  const caller = hostCaller(allowedByHost(decide, request));
  assert.deepEqual(
    [1, 2, 3, 4].map(() => may(caller, 'page', 'todos')),
    [true, false, false, false],
  );
  assert.deepEqual(asked.slice(0, 2), [request, { app: 'todos', capability: 'page' }]);
});

test('limits of one client distinguish only tokens, sign-ins and the administrator', () => {
  const session = (signIn: string, app: string) => sessionCaller({ app }, { ...SIGN_IN, id: signIn }, () => true);
  const clients = [ADMIN, tokenCaller(TOKEN, () => true), session('a', 'todos'), session('b', 'todos')];
  assert.equal(new Set(clients.map(({ client }) => client)).size, clients.length);
  assert.equal(session('a', 'notes').client, session('a', 'todos').client);
});

test('a session that ended during a request is checked again', () => {
  let isGood = true;
  const callers = [
    sessionCaller('console', SIGN_IN, () => isGood),
    sessionCaller({ app: 'todos' }, SIGN_IN, () => isGood),
    sessionCaller('shared', SIGN_IN, () => isGood),
    tokenCaller(TOKEN, () => isGood),
  ];
  for (const caller of callers) assert.ok(may(caller, 'read', 'todos'));
  isGood = false;
  for (const caller of callers) {
    assert.throws(() => demand(caller, 'read', 'todos'), { code: 'FORBIDDEN', message: /has ended meanwhile/ });
  }
});
