import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Topic, type TopicOptions } from './topic.ts';

type Entry = { bytes: number; seq: number };

function topicOf(start: number, keep: number, events: number): Topic<Entry> {
  const topic = new Topic<Entry>({ start, keep, bytesOf: ({ bytes }) => bytes, form: (event) => event });
  for (let i = 1; i <= events; i++) topic.append({ bytes: 3, seq: start + i });
  return topic;
}

const replayed = (topic: Topic<Entry>, seq: number) => topic.since(seq)?.map((event) => event.seq);

test('replays events after a number, and finds gaps', () => {
  const cases: [events: number, since: number, expected: number[] | undefined][] = [
    [0, 100, []],
    [0, 99, undefined],
    [0, 101, undefined],
    [2, 100, [101, 102]],
    [2, 102, []],
    [2, 103, undefined],
    [4, 100, [101, 102, 103, 104]],
    [5, 100, undefined],
    [5, 101, [102, 103, 104, 105]],
    [11, 107, [108, 109, 110, 111]],
    [11, 106, undefined],
    [11, 110, [111]],
    [11, Number.NaN, undefined],
  ];
  for (const [events, since, expected] of cases) {
    assert.deepEqual(replayed(topicOf(100, 4, events), since), expected, `${events} events, since ${since}`);
  }
});

test('counts the bytes that it keeps', () => {
  const topic = topicOf(100, 4, 9);
  assert.equal(topic.bytes, 4 * 3);
  assert.equal(topic.last, 109);
});

test('clear keeps the number, skip takes one; both leave a gap behind', () => {
  const topic = topicOf(100, 4, 6);
  topic.clear();
  assert.deepEqual([topic.last, topic.bytes, replayed(topic, 105), replayed(topic, 106)], [106, 0, undefined, []]);
  topic.append({ bytes: 3, seq: 107 });
  assert.deepEqual(replayed(topic, 106), [107]);
  topic.skip();
  assert.deepEqual([topic.last, replayed(topic, 107), replayed(topic, 108)], [108, undefined, []]);
});

type Words = Partial<TopicOptions<string, string>>;

/** A topic of words, and a follower that takes words while `room` lasts; `told` is what it was given, a number for a gap. */
function followed(
  options: Words = {},
  { before = [] as string[], after, wants }: { before?: string[]; after?: number; wants?(word: string): boolean } = {},
) {
  let formed = 0;
  const topic = new Topic<string, string>({
    keep: 3,
    form: (word, id) => {
      formed += 1;
      return `${word}${id}`;
    },
    ...options,
  });
  for (const word of before) topic.append(word);
  const told: (string | number)[] = [];
  const client = { room: Number.POSITIVE_INFINITY };
  const give = (what: string | number): boolean => {
    if (client.room === 0) return false;
    client.room -= 1;
    return told.push(what) > 0;
  };
  const follower = { take: give, gap: give, ended: () => void told.push('end'), ...(wants && { wants }) };
  const following = topic.follow(follower, after);
  return { topic, told, client, following, formed: () => formed };
}

test('followers get events from now on, formed once for all of them, until they stop', () => {
  const { topic, told, following, formed } = followed({}, { before: ['a'] });
  const others: string[] = [];
  topic.follow({ take: (word) => others.push(word) > 0, ended: () => {} });
  topic.append('b');
  assert.deepEqual([told, others, formed(), topic.followers], [['b2'], ['b2'], 1, 2]);
  following.stop();
  topic.append('c');
  topic.announce('!');
  assert.deepEqual([told, others], [['b2'], ['b2', 'c3', '!']]);
});

test('a follower that begins at a number gets what came after it, and the number of what is gone', () => {
  const before = ['a', 'b', 'c', 'd', 'e'];
  assert.deepEqual(followed({}, { before, after: 3 }).told, ['d4', 'e5']);
  assert.deepEqual(followed({}, { before, after: 0 }).told, [2, 'c3', 'd4', 'e5']);
  assert.deepEqual(followed({}, { before, after: 0, wants: (word) => word !== 'd' }).told, [2, 'c3', 'e5']);
});

test('who could not take events gets those that are kept once it can, and the number of the others', () => {
  const { topic, told, client, following } = followed();
  client.room = 1;
  for (const word of ['a', 'b', 'c']) topic.append(word);
  topic.announce('!');
  client.room = 1;
  following.resume();
  assert.deepEqual(told, ['a1', 'b2'], 'the rest waits for more room');
  for (const word of ['d', 'e', 'f']) topic.append(word);
  client.room = 2;
  following.resume();
  assert.deepEqual(told.splice(0), ['a1', 'b2', 1, 'd4']);
  client.room = Number.POSITIVE_INFINITY;
  following.resume();
  following.resume();
  topic.append('g');
  assert.deepEqual(told, ['e5', 'f6', 'g7']);
});

test('of events that a follower does not want none is missed', () => {
  const { topic, told, client, following } = followed({ keep: 0 }, { wants: (word) => word !== 'b' });
  client.room = 0;
  for (const word of ['a', 'b', 'a']) topic.append(word);
  client.room = 9;
  following.resume();
  topic.append('b');
  topic.append('c');
  assert.deepEqual(told, [2, 'c5']);
});

test('where a gap stands for all that was missed, nothing of it is given', () => {
  const { topic, told, client, following } = followed({ folds: true });
  client.room = 0;
  topic.append('a');
  following.resume();
  topic.append('b');
  client.room = 9;
  following.resume();
  topic.append('c');
  topic.skip();
  assert.deepEqual(told, [2, 'c3', 1]);
});

test('of each key the newest event is kept, and a dropped one is not missed', () => {
  const { topic, told, client, following } = followed({ keep: 9, keyOf: (word) => word });
  client.room = 0;
  for (const word of ['a', 'b', 'a', 'c']) topic.append(word);
  topic.drop('b');
  client.room = 9;
  following.resume();
  const later: string[] = [];
  topic.follow({ take: (word) => later.push(word) > 0, ended: () => {} }, 3);
  assert.deepEqual([told, later], [['a3', 'c4'], ['c4']]);
});

test('a topic that has ended ends each follower once it has all; one that is closed ends them at once', () => {
  const slow = followed();
  slow.client.room = 1;
  for (const word of ['a', 'b']) slow.topic.append(word);
  slow.topic.end();
  assert.deepEqual(slow.told, ['a1']);
  slow.client.room = 1;
  slow.following.resume();
  assert.deepEqual([slow.told, slow.topic.followers], [['a1', 'b2', 'end'], 0]);

  const gone = followed();
  gone.client.room = 0;
  gone.topic.append('a');
  gone.topic.close();
  gone.following.stop();
  assert.deepEqual(gone.told, ['end']);
});
