import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RouteRow } from '../../protocol/routes/row.ts';
import { allRoutes } from '../routes/all.ts';
import { serveRaw } from '../routes/serve-row.ts';
import type { Services } from '../services.ts';
import { type Route, Router } from './router.ts';

const route = (method: Route['method'], path: string): Route => ({
  method,
  path,
  needs: 'admin',
  handle: () => {},
  kind: 0,
});
const router = new Router([
  route('GET', '/svc/_apps'),
  route('GET', '/svc/_apps/:id'),
  route('DELETE', '/svc/_apps/:id'),
  route('POST', '/svc/_apps/:id/upload'),
  route('GET', '/svc/:id/_changes'),
  route('GET', '/svc/:id/*'),
]);

for (const [method, path, expected, params] of [
  ['GET', '/svc/_apps', '/svc/_apps', {}],
  ['HEAD', '/svc/_apps', '/svc/_apps', {}],
  ['GET', '/svc/_apps/todos', '/svc/_apps/:id', { id: 'todos' }],
  ['POST', '/svc/_apps/todos/upload', '/svc/_apps/:id/upload', { id: 'todos' }],
  ['GET', '/svc/_apps/a%20b', '/svc/_apps/:id', { id: 'a b' }],
  ['GET', '/svc/todos/_changes', '/svc/:id/_changes', { id: 'todos' }],
  ['GET', '/svc/todos', '/svc/:id/*', { id: 'todos', '*': '' }],
  ['GET', '/svc/todos/', '/svc/:id/*', { id: 'todos', '*': '/' }],
  ['GET', '/svc/todos/a/b%2Fc.js', '/svc/:id/*', { id: 'todos', '*': '/a/b%2Fc.js' }],
] as const) {
  test(`${method} ${path} is ${expected}`, () => {
    const match = router.match(method, path);
    assert.ok('route' in match, 'error' in match ? match.error.message : '');
    assert.equal(match.route.path, expected);
    assert.deepEqual(match.params, params);
  });
}

for (const [method, path, code, allow] of [
  ['POST', '/svc/_apps', 'METHOD_NOT_ALLOWED', 'GET, HEAD, OPTIONS'],
  ['PUT', '/svc/_apps/todos', 'METHOD_NOT_ALLOWED', 'GET, HEAD, DELETE, OPTIONS'],
  ['POST', '/svc/todos/app.js', 'METHOD_NOT_ALLOWED', 'GET, HEAD, OPTIONS'],
  ['GET', '/svc/_apps/todos/upload', 'METHOD_NOT_ALLOWED', 'POST, OPTIONS'],
  ['GET', '/svc/_apps/%zz', 'BAD_REQUEST', undefined],
  ['GET', '/svcx/todos/', 'NOT_FOUND', undefined],
  ['GET', '/', 'NOT_FOUND', undefined],
  ['GET', '//', 'NOT_FOUND', undefined],
] as const) {
  test(`${method} ${path} is ${code}`, () => {
    const match = router.match(method, path);
    assert.ok('error' in match);
    assert.equal(match.error.code, code);
    assert.equal(match.error.headers?.allow, allow);
  });
}

test('a prefix is claimed by whole segments only', () => {
  for (const path of [
    '/svc',
    '/svc/',
    '/svc/todos',
    '/_svc-user/id',
    '/_svc-hook/a',
    '/_svc-conversations/apps/a/sessions',
  ]) {
    assert.ok(router.claims(path), path);
  }
  for (const path of ['/svcx', '/', '/_svc-userx/id', '/_svc-hookx', '//svc']) assert.ok(!router.claims(path), path);
});

test('a wrong method is reported without a token where every method of the address is open', () => {
  const mixed = new Router([
    { ...route('POST', '/open'), needs: 'anyone' },
    { ...route('POST', '/mixed'), needs: 'anyone' },
    route('PUT', '/mixed'),
  ]);
  for (const [path, open] of [
    ['/open', true],
    ['/mixed', false],
  ] as const) {
    const match = mixed.match('GET', path);
    assert.ok('error' in match, path);
    assert.equal(match.open, open, path);
  }
});

for (const [what, first, second, message] of [
  ['names one place differently', '/svc/:id/_live', '/svc/:app/_changes', /\/svc\/:app\/_changes: .* :id, not :app/],
  ['names the same address differently', '/svc/_apps/:id', '/svc/_apps/:app', /:id, not :app/],
  ['is there twice', '/svc/_apps', '/svc/_apps', /two routes GET \/svc\/_apps/],
  ['is there twice with a parameter', '/svc/:id', '/svc/:id', /two routes/],
  ['is there twice with a rest', '/svc/*', '/svc/*', /two routes/],
] as const)
  test(`a table in which a route ${what} is not taken`, () => {
    assert.throws(() => new Router([route('GET', first), route('GET', second)]), message);
  });

test('a route for drafts too is at both addresses, and visitors use only that of the live app', () => {
  const handle = () => {};
  const file: RouteRow = {
    method: 'GET',
    path: '/svc/:id/_blobs/:sha256',
    needs: 'read',
    title: 'Read a file',
    does: '',
    answer: {},
    isFile: true,
    visitors: 'page',
    drafts: true,
  };
  assert.deepEqual(
    serveRaw(file, handle).map(({ path, needs, isFile, visitors, handle: own }) => [
      path,
      needs,
      isFile,
      visitors,
      own === handle,
    ]),
    [
      ['/svc/:id/_blobs/:sha256', 'read', true, 'page', true],
      ['/svc/_draft/:sid/:id/_blobs/:sha256', 'read', true, undefined, true],
    ],
  );
});

test('what is served for drafts is served for live apps with the same right, but for the reports of their pages', () => {
  const routes = allRoutes({ automations: {} } as Services);
  const rights = new Map(routes.map(({ method, path, needs }) => [`${method} ${path}`, needs]));
  const drafts = routes.filter(({ path }) => path.startsWith('/svc/_draft/'));
  const alone = drafts.filter(({ method, path, needs, visitors }) => {
    assert.equal(visitors, undefined, path);
    return rights.get(`${method} ${path.replace('/_draft/:sid/', '/')}`) !== needs;
  });
  assert.deepEqual([drafts.length, alone.map(({ path }) => path)], [28, ['/svc/_draft/:sid/:id/_errors']]);
});
