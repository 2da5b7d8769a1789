import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerReader } from './answer-reader.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello';

test('an answer is whole at its last byte, however it is cut', () => {
  for (let cut = 1; cut < OK.length; cut++) {
    const reader = new AnswerReader();
    assert.equal(reader.push(Buffer.from(OK.slice(0, cut))), 0);
    assert.equal(reader.push(Buffer.from(OK.slice(cut))), 200);
  }
});

test('answers follow each other on one connection', () => {
  const reader = new AnswerReader();
  assert.equal(reader.push(Buffer.from(OK)), 200);
  assert.equal(reader.push(Buffer.from('HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n')), 503);
  assert.equal(reader.push(Buffer.from('HTTP/1.1 304 Not Modified\r\netag: "a"\r\n\r\n')), 304);
  assert.equal(reader.push(Buffer.from(OK)), 200);
});

test('the received bytes may be overwritten once they were taken', () => {
  const reader = new AnswerReader();
  const buffer = Buffer.from(OK.slice(0, 20));
  reader.push(buffer);
  buffer.fill(0);
  assert.equal(reader.push(Buffer.from(OK.slice(20))), 200);
});

test('an answer that cannot be measured is an error', () => {
  assert.throws(() => new AnswerReader().push(Buffer.from(`${OK}!`)), /more than the answer/);
  assert.throws(() => new AnswerReader().push(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')), /without a length/);
});
