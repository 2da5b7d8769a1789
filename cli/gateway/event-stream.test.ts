import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventStreamParser } from './event-stream.ts';

const STREAM = [
  'retry: 1500\n: connected\n\n',
  'id: 7\nevent: change\ndata: {"a":1}\n\n',
  ':\n\n',
  'data: two\r\ndata:lines\r\n\r\n',
  'id: 8\revent: reset\rdata\r\r',
].join('');
const EVENTS = [
  { event: 'change', data: '{"a":1}' },
  { event: 'message', data: 'two\nlines' },
  { event: 'reset', data: '' },
];

test('events come out the same, however the bytes are cut', () => {
  for (let size = 1; size <= STREAM.length; size++) {
    const parser = new EventStreamParser();
    const events = [];
    for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
    // The last line end may be half of one, until more comes.
    events.push(...parser.push(':\n'));
    assert.deepEqual(events, EVENTS, `cut every ${size}`);
    assert.equal(parser.lastEventId, '8');
    assert.equal(parser.retryMs, 1500);
  }
});

test('an event that did not come whole does not move the id on', () => {
  const parser = new EventStreamParser('5');
  assert.deepEqual(parser.push('id: 6\nevent: change\ndata: x\n'), []);
  assert.equal(parser.lastEventId, '5');
});

test('an id without an event moves on too: the gateway opens its streams with one', () => {
  const parser = new EventStreamParser('5');
  assert.deepEqual(parser.push('retry: 1000\nid: 9\n: changes of notes\n\n'), []);
  assert.equal(parser.lastEventId, '9');
});
