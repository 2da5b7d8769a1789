import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAt } from './windows.ts';

const CASES: [url: string, page: string, is: boolean][] = [
  ['http://svc.localhost:1/svc/#/apps/todos', 'http://svc.localhost:1/svc/', true],
  ['http://svc.localhost:1/svc/todos/', 'http://svc.localhost:1/svc/', false],
  ['http://todos.svc.localhost:1/list?a=1', 'http://todos.svc.localhost:1/', true],
  ['http://todos.svc.localhost:2/', 'http://todos.svc.localhost:1/', false],
  ['http://gateway.lan/svc/todos/list', 'http://gateway.lan/svc/todos/', true],
  ['http://gateway.lan/svc/todos2/', 'http://gateway.lan/svc/todos/', false],
  ['about:blank', 'http://svc.localhost:1/svc/', false],
  ['', 'http://svc.localhost:1/svc/', false],
];

for (const [url, page, is] of CASES)
  test(`a window at "${url}" ${is ? 'shows' : 'does not show'} ${page}`, () => assert.equal(isAt(url, page), is));
