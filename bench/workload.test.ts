import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpBytes } from './workload.ts';

test('a request is sent as bytes with its length, an archive as it is', () => {
  const text = httpBytes({ method: 'POST', path: '/a', body: { text: 'ä' } }, 'secret').toString();
  assert.match(text, /^POST \/a HTTP\/1\.1\r\nhost: 127\.0\.0\.1\r\nauthorization: Bearer secret\r\n/);
  assert.match(text, /content-length: 13\r\n\r\n\{"text":"ä"\}$/);
  const archive = httpBytes({ method: 'POST', path: '/a', body: Buffer.from([0, 255]) }, 'secret');
  assert.deepEqual([...archive.subarray(-2)], [0, 255]);
  assert.match(archive.toString('latin1'), /content-type: application\/gzip\r\ncontent-length: 2\r\n/);
  const get = httpBytes({ method: 'GET', path: '/a', headers: { 'if-none-match': '"1"' } }, 'secret').toString();
  assert.match(get, /if-none-match: "1"\r\n\r\n$/);
});
