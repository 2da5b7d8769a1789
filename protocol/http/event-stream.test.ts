import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createParser } from 'eventsource-parser';
import { Random } from '../../testing/random.ts';
import { eventReader, eventText, followEvents, type ServerSentEvent, streamPlace } from './event-stream.ts';

const STREAM = [
  'retry: 1500\n: connected\n\n',
  'id: 7\nevent: change\ndata: {"ü":1}\n\n',
  ':\n\n',
  'data: two\r\ndata:lines\r\n\r\n',
  'id: 8\revent: reset\rdata\r\r',
].join('');
const EVENTS = [
  { event: 'change', data: '{"ü":1}', id: '7' },
  { event: 'message', data: 'two\nlines', id: '7' },
  { event: 'reset', data: '', id: '8' },
];

test('events are the same, however the bytes are split', () => {
  const bytes = Buffer.from(STREAM);
  for (let size = 1; size <= bytes.length; size++) {
    const place = streamPlace();
    const read = eventReader(place);
    const events = [];
    for (let at = 0; at < bytes.length; at += size) events.push(...read(bytes.subarray(at, at + size)));
    // The last line end may be incomplete until more bytes come.
    events.push(...read(Buffer.from(':\n')));
    assert.deepEqual(events, EVENTS, `split every ${size}`);
    assert.deepEqual(place, { lastEventId: '8', retryMs: 1500 });
  }
});

test('another reader of the format finds the same events', () => {
  const pieces = [
    'data',
    'event',
    'id',
    'retry',
    ': ',
    ':',
    'a',
    ' ',
    '12',
    '\n',
    '\n',
    '\n\n',
    '\r\n',
    '\r',
    'ü',
    '{',
  ];
  const random = new Random(7);
  for (let round = 0; round < 2000; round++) {
    const text = `${Array.from({ length: 40 }, () => random.pick(pieces)).join('')}\n\n:\n`;
    const theirs: [string, string][] = [];
    const parser = createParser({ onEvent: ({ event = 'message', data }) => theirs.push([event, data]) });
    parser.feed(text);
    const bytes = Buffer.from(text);
    const read = eventReader();
    const ours: [string, string][] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + random.between(1, 9);
      ours.push(...read(bytes.subarray(at, end)).map(({ event, data }): [string, string] => [event, data]));
      at = end;
    }
    assert.deepEqual(ours, theirs, JSON.stringify(text));
  }
});

test('what is written is read', () => {
  const [one, two] = eventReader()(Buffer.from(eventText('change', '{"a":"\\n"}', 7) + eventText('reload', '{}')));
  assert.deepEqual(one, { event: 'change', data: '{"a":"\\n"}', id: '7' });
  assert.deepEqual(two, { event: 'reload', data: '{}', id: '7' });
});

test('a large event costs no more than its length', () => {
  const [piece, count] = [Buffer.from('x'.repeat(1000)), 20_000];
  const read = eventReader();
  const split = String.prototype.split;
  let looked = 0;
  // What is looked at again and again grows with the square of the event.
  String.prototype.split = function (this: string, ...given: never[]) {
    looked += this.length;
    return Reflect.apply(split, this, given) as string[];
  };
  try {
    read(Buffer.from('data: '));
    for (let at = 0; at < count; at++) assert.deepEqual(read(piece), []);
    const [event, ...others] = read(Buffer.from('\n\n'));
    assert.deepEqual([event?.data.length, others], [piece.length * count, []]);
  } finally {
    String.prototype.split = split;
  }
  assert.ok(looked < 2 * piece.length * count, `${looked} characters`);
});

test('an incomplete event does not change the last id', () => {
  const place = { lastEventId: '5', retryMs: 1 };
  assert.deepEqual(eventReader(place)(Buffer.from('id: 6\nevent: change\ndata: x\n')), []);
  assert.equal(place.lastEventId, '5');
});

test('an id without an event counts too: the gateway opens its streams with one', () => {
  const place = { lastEventId: '5', retryMs: 1 };
  assert.deepEqual(eventReader(place)(Buffer.from('retry: 1000\nid: 9\n: changes of notes\n\n')), []);
  assert.equal(place.lastEventId, '9');
});

test('a stream that ends in the middle of an event goes on after the last complete one', async () => {
  const place = streamPlace();
  const streams = ['id: 1\ndata: one\n\nid: 2\ndata: half', '', 'data: two\n\n'];
  const opened: string[] = [];
  const open = async () => {
    opened.push(place.lastEventId);
    const text = streams.shift();
    if (text === undefined) throw new Error('There is no more.');
    return text === ''
      ? ([] as [])
      : (ReadableStream.from([Buffer.from(text)]) as unknown as AsyncIterable<Uint8Array>);
  };
  const events: ServerSentEvent[] = [];
  await assert.rejects(async () => {
    for await (const event of followEvents(place, open, async () => {})) events.push(event);
  }, /There is no more/);
  assert.deepEqual(events, [
    { event: 'message', data: 'one', id: '1' },
    { event: 'message', data: 'two', id: '1' },
  ]);
  assert.deepEqual(opened, ['', '1', '1', '1']);
});
