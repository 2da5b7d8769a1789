import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { checkFraming, findHeader } from './framing.ts';

const STRICT = { chunked: true, hostRequired: true };
const HOST = ['host', 'gateway'];

test('well-formed requests pass', () => {
  const full = Array.from({ length: LIMITS.headerCount - 1 }, (_, at) => [`x-${at}`, '']).flat();
  for (const headers of [
    HOST,
    ['host', '[::1]:8787'],
    ['host', '127.0.0.1:'],
    ['host', 'my_host.example'],
    [...HOST, 'content-length', '0'],
    [...HOST, 'transfer-encoding', 'Chunked'],
    [...HOST, 'x-text', 'tab\tand ümlaut'],
    [...HOST, ...full],
    [...HOST, 'x', 'a'.repeat(LIMITS.headerBytes - 'hostgatewayx'.length)],
  ]) {
    assert.equal(checkFraming('/a', 'b=%00', headers, STRICT), null, headers.join());
  }
  assert.equal(checkFraming(`/${'a'.repeat(LIMITS.urlBytes - 1)}`, '', HOST, STRICT), null);
  assert.equal(checkFraming('/', '', [], { chunked: false, hostRequired: false }), null);
});

test('requests that are over a limit, ambiguous or malformed are refused', () => {
  const many = Array.from({ length: LIMITS.headerCount }, (_, at) => [`x-${at}`, '']).flat();
  for (const [code, headers] of [
    ['HEADERS_TOO_LARGE', [...HOST, ...many]],
    ['HEADERS_TOO_LARGE', [...HOST, 'x', 'a'.repeat(LIMITS.headerBytes)]],
    ['BAD_REQUEST', []],
    ['BAD_REQUEST', ['host', '']],
    ['BAD_REQUEST', ['host', 'a b']],
    ['BAD_REQUEST', ['host', 'a:b']],
    ['BAD_REQUEST', ['host', '[::1']],
    ['BAD_REQUEST', ['host', 'a, b']],
    ['BAD_REQUEST', [...HOST, 'x ', 'a']],
    ['BAD_REQUEST', [...HOST, '', 'a']],
    ['BAD_REQUEST', [...HOST, 'x', 'a\r\n b']],
    ['BAD_REQUEST', [...HOST, 'x', 'a\0']],
    ['BAD_REQUEST', [...HOST, 'content-length', '']],
    ['BAD_REQUEST', [...HOST, 'content-length', '1e3']],
    ['BAD_REQUEST', [...HOST, 'content-length', ' 1']],
    ['BAD_REQUEST', [...HOST, 'content-length', '٣']],
    ['BAD_REQUEST', [...HOST, 'content-length', '9'.repeat(16)]],
    ['BAD_REQUEST', [...HOST, 'transfer-encoding', 'chunked', 'transfer-encoding', 'chunked']],
    ['BAD_REQUEST', [...HOST, 'transfer-encoding', 'chunked', 'content-length', '5']],
    ['BAD_REQUEST', [...HOST, 'transfer-encoding', 'chunked;q=1']],
  ] as [string, string[]][]) {
    assert.equal(checkFraming('/', '', headers, STRICT)?.code, code, headers.join('|').slice(0, 80));
  }
  for (const path of ['', 'a', '*', 'http://a/', `/${'a'.repeat(LIMITS.urlBytes)}`, '/ ', '/\0', '/\x7f', '/é']) {
    assert.equal(checkFraming(path, '', HOST, STRICT)?.code, 'BAD_REQUEST', path.slice(0, 20));
  }
  assert.equal(checkFraming('/', 'a b', HOST, STRICT)?.code, 'BAD_REQUEST');
});

test('chunked bodies are LENGTH_REQUIRED where they are not taken', () => {
  const headers = [...HOST, 'transfer-encoding', 'chunked'];
  assert.equal(checkFraming('/', '', headers, { ...STRICT, chunked: false })?.code, 'LENGTH_REQUIRED');
});

test('repeated headers are joined, cookies as cookies are', () => {
  const headers = ['accept', 'a', 'cookie', 'x=1', 'accept', 'b', 'cookie', 'y=2'];
  assert.equal(findHeader(headers, 'accept'), 'a, b');
  assert.equal(findHeader(headers, 'cookie'), 'x=1; y=2');
  assert.equal(findHeader(headers, 'host'), undefined);
});
