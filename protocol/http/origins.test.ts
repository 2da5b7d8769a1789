import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appLabel, appOfLabel, draftLabel, draftOfLabel, ownerOfPath, pageHost, pagePath } from './origins.ts';

const LONG = 'a'.repeat(63);
const STAND_IN = /^a-[0-9a-f]{12}$/;

test('an id that is a host label is its own', () => {
  for (const id of ['todos', '7', 'my-app', LONG]) {
    assert.equal(appLabel(id), id);
    assert.equal(appOfLabel(id), id);
  }
});

test('an id that is not a host label, or has another meaning as one, gets a hashed label', () => {
  const ids = ['my_app', 'todos-', 'xn--bcher-kva', 'a--b', 'draft', 'a-0123456789ab', 'Session', `${LONG}a`];
  for (const id of ids) {
    assert.match(appLabel(id), STAND_IN, id);
    assert.equal(appOfLabel(appLabel(id)), null, id);
  }
  assert.equal(new Set(ids.map(appLabel)).size, ids.length);
});

test('the label of a draft names workspace and app, or stands in for them', () => {
  assert.equal(draftLabel('s1', 'todos'), 's1--todos');
  assert.deepEqual(draftOfLabel('s1--todos'), { workspace: 's1', app: 'todos' });
  assert.match(draftLabel('S1', 'todos'), /^a-[0-9a-f]{12}--todos$/);
  assert.match(draftLabel('a--b', 'c'), /^a-[0-9a-f]{12}--c$/);
  assert.match(draftLabel('s1', LONG), /^a-[0-9a-f]{12}--a-[0-9a-f]{12}$/);
  for (const label of ['todos', 'a--b--c', 's1--a-0123456789ab', '--todos', 's1--', 's1--my_app']) {
    assert.equal(draftOfLabel(label), null, label);
  }
});

test('a page has one host and one path', () => {
  assert.equal(pageHost({ app: 'todos' }), 'todos');
  assert.equal(pageHost({ app: 'todos', workspace: 's1' }), 's1--todos.draft');
  assert.equal(pagePath({ app: 'todos', workspace: 's1' }), '/svc/_draft/s1/todos');
  const cases: [string, unknown][] = [
    ['/svc/todos', { app: 'todos' }],
    ['/svc/todos/a/b.js', { app: 'todos' }],
    ['/svc/_draft/s1/todos/', { app: 'todos', workspace: 's1' }],
    ['/svc/', null],
    ['/svc/_apps', null],
    ['/svc/_draft/s1/_tool/svc_read', null],
    ['/svcx/todos/', null],
    ['/todos/', null],
  ];
  for (const [path, owner] of cases) assert.deepEqual(ownerOfPath(path), owner, path);
});
