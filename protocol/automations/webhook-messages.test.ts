import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { webhookResponse } from './webhook-messages.ts';

const JSON_TYPE = 'application/json; charset=utf-8';
const TEXT_TYPE = 'text/plain; charset=utf-8';
const most = LIMITS.webhookResponseBytes;

for (const [name, given, status, headers, body] of [
  ['a text', { status: 200, body: 'ok' }, 200, { 'content-type': TEXT_TYPE }, 'ok'],
  ['an empty text', { status: 200, body: '' }, 200, { 'content-type': TEXT_TYPE }, ''],
  ['a value', { status: 499, body: { a: [1] } }, 499, { 'content-type': JSON_TYPE }, '{"a":[1]}'],
  ['false', { status: 201, body: false }, 201, { 'content-type': JSON_TYPE }, 'false'],
  ['nothing', { status: 204 }, 204, {}, ''],
  ['null', { status: 205, body: null, headers: {} }, 205, {}, ''],
  [
    'a type of its own',
    { status: 302, headers: { 'Content-Type': 'text/x', Location: '/a', 'X-Empty': '' }, body: 'x' },
    302,
    { 'content-type': 'text/x', location: '/a', 'x-empty': '' },
    'x',
  ],
  ['64 KiB', { status: 200, body: 'x'.repeat(most) }, 200, { 'content-type': TEXT_TYPE }, 'x'.repeat(most)],
] as const) {
  test(`${name} is answered`, () => assert.deepEqual(webhookResponse(given), { status, headers, body }));
}

test('a result without a response has none', () => {
  assert.equal(webhookResponse(undefined), null);
  assert.equal(webhookResponse(null), null);
});

for (const [name, given, path] of [
  ['a text', 'ok', 'response'],
  ['a list', [200], 'response'],
  ['no status', { body: 'x' }, 'response.status'],
  ['a status below', { status: 199 }, 'response.status'],
  ['a status above', { status: 500 }, 'response.status'],
  ['half a status', { status: 200.5 }, 'response.status'],
  ['a status as text', { status: '200' }, 'response.status'],
  ['a list of headers', { status: 200, headers: [] }, 'response.headers'],
  ['a header that is a number', { status: 200, headers: { a: 1 } }, 'response.headers.a'],
  ['a header of two lines', { status: 200, headers: { a: 'x\r\nb: y' } }, 'response.headers.a'],
  ['a header beyond ASCII', { status: 200, headers: { a: 'ä' } }, 'response.headers.a'],
  ['a header with a colon', { status: 200, headers: { 'a:b': 'x' } }, 'response.headers.a:b'],
  ['a header without a name', { status: 200, headers: { '': 'x' } }, 'response.headers.'],
  ['a length', { status: 200, headers: { 'Content-Length': '5' } }, 'response.headers.Content-Length'],
  ['chunks', { status: 200, headers: { 'transfer-encoding': 'chunked' } }, 'response.headers.transfer-encoding'],
  ['a cookie', { status: 200, headers: { 'Set-Cookie': 'a=b' } }, 'response.headers.Set-Cookie'],
  [
    'an origin',
    { status: 200, headers: { 'access-control-allow-origin': '*' } },
    'response.headers.access-control-allow-origin',
  ],
  [
    'headers that are too long',
    { status: 200, headers: { a: 'x'.repeat(LIMITS.webhookResponseHeaderBytes) } },
    'response.headers',
  ],
  ['a body with 204', { status: 204, body: 'x' }, 'response.body'],
  ['an empty body with 304', { status: 304, body: '' }, 'response.body'],
  ['a byte more than 64 KiB', { status: 200, body: 'x'.repeat(most + 1) }, 'response.body'],
  ['more bytes than characters', { status: 200, body: 'ä'.repeat(most / 2 + 1) }, 'response.body'],
  ['a value that is too long as JSON', { status: 200, body: ['x'.repeat(most)] }, 'response.body'],
] as const) {
  test(`${name} is refused with the path`, () => {
    assert.throws(
      () => webhookResponse(given),
      (error) => error instanceof SvcError && error.code === 'HANDLER_ERROR' && error.path === path,
    );
  });
}
