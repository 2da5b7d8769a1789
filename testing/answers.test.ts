/** The check of answers: what is not as the row of a route says fails the call. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { pathsOf } from '../protocol/routes/row.ts';
import { checkAnswer, checkEvent } from './answers.ts';

const SECRET = { name: 'KEY', state: 'set', updatedAt: 5 };

function check(path: string, status: number, value: unknown, method = 'GET'): void {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  checkAnswer(method, path, { status, headers, text: JSON.stringify(value) });
}
const refused = (code: string, more = {}) => ({ isError: true, error: { code, message: 'No.' }, ...more });

for (const { rows } of RESOURCES)
  for (const row of rows)
    for (const path of pathsOf(row))
      test(`${row.method} ${path}: the example is right in every member`, () => {
        const address = path.replace(/:\w+/g, 'one').replace('*', 'two');
        if (row.example !== undefined) check(address, row.answer.status ?? 200, row.example, row.method);
      });

test('a member that the schema does not name is found, in each item of a list, live and of a draft', () => {
  check('/svc/_apps/notes/secrets', 200, [SECRET]);
  for (const path of ['/svc/_apps/notes/secrets', '/svc/_draft/one/_apps/notes/secrets?limit=1'])
    assert.throws(() => check(path, 200, [SECRET, { ...SECRET, value: 'x' }]), /"\[1\]\.value" must be one of name, /);
});

test('a member of another type, one that is missing, and another status are found', () => {
  assert.throws(
    () => check('/svc/_apps/notes/secrets/KEY', 200, { ...SECRET, state: 'gone' }),
    /"state" must be one of set/,
  );
  assert.throws(
    () => check('/svc/_apps/notes/secrets/KEY', 200, { ...SECRET, name: undefined }),
    /"name" must be a text/,
  );
  assert.throws(() => check('/svc/_apps/notes/secrets', 201, [SECRET]), /no status 201/);
});

test('an error has the one shape, and a code that the route can answer', () => {
  check('/svc/_apps/notes/secrets/KEY', 404, refused('UNKNOWN_SECRET'));
  check('/svc/_apps/notes/secrets/KEY', 401, refused('UNAUTHORIZED'));
  check('/svc/_draft/one/_apps/notes/secrets/KEY', 404, refused('UNKNOWN_SESSION'));
  for (const value of [refused('UNKNOWN_SESSION'), refused('UNKNOWN_SECRET', { runId: 'x' }), { error: 'no' }, {}])
    assert.throws(() => check('/svc/_apps/notes/secrets/KEY', 404, value), /says another answer/);
});

test('a run that fails has its own error, and its id', () => {
  check('/svc/_automations/notes/daily/run?wait=1', 500, refused('MY_CODE', { runId: 'x' }), 'POST');
});

test('an action answers with any status, and another address with anything', () => {
  check('/svc/_tool/svc_write', 404, { isError: false, data: { status: 404, body: { any: 1 } } }, 'POST');
  check('/hello', 200, { any: 1 });
});

test('an event of a stream has a name and data that the row says', () => {
  const path = '/svc/notes/_changes';
  checkEvent('GET', path, { event: 'reload', id: '', data: '{"app":"notes","ts":5}' });
  assert.throws(() => checkEvent('GET', path, { event: 'reload', id: '', data: '{"app":"notes"}' }), /"ts" must be/);
  assert.throws(() => checkEvent('GET', path, { event: 'other', id: '', data: '{}' }), /no event other/);
});
