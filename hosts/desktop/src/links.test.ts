import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkAmong, readLink, wayTo } from './links.ts';

for (const [link, gateway, app] of [
  ['svc://open', 'local', null],
  ['svc://open/', 'local', null],
  ['svc://open/todos', 'local', 'todos'],
  ['SVC://open/todos?gateway=office', 'office', 'todos'],
  ['svc://open?gateway=office', 'office', null],
] as const)
  test(`${link} is ours`, () => assert.deepEqual(readLink(link), { gateway, app }));

for (const link of [
  '',
  'svc:',
  'svc://',
  'svc:open/todos',
  'svc://todos',
  'svc://add?url=http://evil.example',
  'svc://open/todos/more',
  'svc://open/../todos',
  'svc://open/%2e%2e',
  'svc://open/_apps',
  'svc://open/Todos',
  'svc://open/todos?gateway=..%2f..',
  'svc://open/todos?gateway=office&gateway=local',
  'svc://open/todos?token=x',
  'svc://open/todos#link=x',
  'svc://me@open/todos',
  'svc://open:1/todos',
  'svcs://open/todos',
  'http://open/todos',
  'file:///open/todos',
  'javascript:svc://open/todos',
  `svc://open/${'a'.repeat(400)}`,
])
  test(`${link.slice(0, 60)} is refused`, () => assert.equal(readLink(link), null));

test('a link is found among the words of a start', () => {
  assert.equal(linkAmong(['--hidden', 'svc://open/todos']), 'svc://open/todos');
  assert.equal(linkAmong(['/usr/bin/svc-desktop', 'https://svc.example']), undefined);
});

for (const [url, way] of [
  ['http://svc.localhost:1/svc/', 'here'],
  ['http://todos.svc.localhost:1/', 'here'],
  ['http://s1--todos.draft.svc.localhost:1/', 'here'],
  ['http://svc.localhost:2/svc/', 'outside'],
  ['https://svc.localhost:1/', 'outside'],
  ['http://evilsvc.localhost:1/', 'outside'],
  ['http://svc.localhost:1@evil.example/', 'outside'],
  ['https://example.org/', 'outside'],
  ['mailto:ada@example.org', 'outside'],
  ['file:///etc/passwd', 'refused'],
  ['javascript:alert(1)', 'refused'],
  ['data:text/html,x', 'refused'],
  ['svc://open/todos', 'refused'],
  ['smb://server/share', 'refused'],
  ['', 'refused'],
] as const)
  test(`a page of the gateway may lead to "${url}": ${way}`, () =>
    assert.equal(wayTo(url, 'http://svc.localhost:1'), way));
