import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Following } from '../../protocol/topic.ts';
import { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Scope } from '../dispatch/scope.ts';
import type { Exchange } from '../edge/edge.ts';
import type { LiveQueries } from './live-queries.ts';
import type { LiveFollower } from './live-query.ts';
import { LiveStreams } from './live-streams.ts';

/** An exchange whose stream writes into `told`; null is its end. */
function anExchange() {
  const told: (string | null)[] = [];
  let leave = () => {};
  const stream = {
    buffered: 0,
    onDrain: () => {},
    write: (bytes: Buffer) => told.push(`${bytes}`) > 0,
    end: () => told.push(null),
  };
  const exchange = {
    aborted: false,
    method: 'GET',
    stream: () => stream,
    onAbort: (gone: () => void) => {
      leave = gone;
    },
  } as unknown as Exchange;
  return { exchange, told, leave: () => leave() };
}

const SUBJECT = { scope: { app: 'notes', key: 'notes' } as Scope, caller: { kind: 'admin' as const }, client: 'c' };
const STATE = { id: 'abc', event: 'data' as const, json: Buffer.from('"data":1,"seq":1}'), error: null };
const OPENING = 'retry: 2000\n: live\n\n';

function setUp(follow: (request: { query: string }, follower: LiveFollower) => Following) {
  const changes = new ChangeStreams();
  changes.readers.stop();
  return { changes, streams: new LiveStreams({ follow } as unknown as LiveQueries, changes) };
}

test('queries that there is no room for are tried again by themselves, ever more rarely, until the client goes', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const followers: LiveFollower[] = [];
  let refusals = 0;
  let hasRoom = false;
  const follow = ({ query }: { query: string }, follower: LiveFollower) => {
    if (query === 'late' && !hasRoom) {
      refusals += 1;
      throw new SvcError('OVERLOADED', 'Too many.');
    }
    followers.push(follower);
    return { resume: () => {}, stop: () => {} };
  };
  const { streams } = setUp(follow);
  const open = () => {
    const { exchange, told, leave } = anExchange();
    const list = ['there', 'late'].map((query) => ({ query, input: '{}', lastId: undefined }));
    streams.openMany(exchange, SUBJECT, list, null);
    return { told, leave };
  };

  const one = open();
  assert.equal(one.told.length, 2, 'the opening, and the error once');
  assert.match(one.told[1] ?? '', /^event: error\nid: \.\.OVERLOADED\ndata: \{"index":1,"isError":true,/);
  let waitMs: number = LIMITS.liveRetryMs;
  for (let attempt = 2; attempt <= 8; attempt++) {
    t.mock.timers.tick(waitMs - 1);
    assert.equal(refusals, attempt - 1);
    t.mock.timers.tick(1);
    assert.equal(refusals, attempt);
    waitMs = Math.min(waitMs * 2, LIMITS.liveRetryMaxMs);
  }
  assert.equal(one.told.length, 2);
  hasRoom = true;
  t.mock.timers.tick(waitMs);
  followers[1]?.tell(STATE);
  assert.match(one.told[2] ?? '', /^event: data\nid: \.\.abc\ndata: \{"index":1,"data":1/);
  t.mock.timers.tick(10 * LIMITS.liveRetryMaxMs);
  assert.deepEqual([refusals, followers.length], [8, 2], 'it is followed once');

  hasRoom = false;
  const two = open();
  two.leave();
  t.mock.timers.tick(10 * LIMITS.liveRetryMaxMs);
  assert.equal(refusals, 9, 'a client that went away is not tried for');
});

test('a stream whose caller has ended before the first result does not open', async () => {
  const followers: LiveFollower[] = [];
  let stops = 0;
  const { streams } = setUp((_request, follower) => {
    followers.push(follower);
    return { resume: () => {}, stop: () => void stops++ };
  });
  const { exchange, told } = anExchange();
  const caller = { ended: false };
  exchange.caller = caller;
  const opening = streams.openOne(exchange, SUBJECT, { query: 'list', input: '{}', lastId: undefined });
  caller.ended = true;
  followers[0]?.tell(STATE);
  await assert.rejects(opening, { code: 'UNAUTHORIZED' });
  assert.deepEqual([told, stops], [[], 1]);
});

test('when the app goes, or the gateway stops, before the first result, a stream opens and ends: the client asks again', async () => {
  let follower: LiveFollower | undefined;
  let stops = 0;
  const { streams, changes } = setUp((_request, one) => {
    follower = one;
    return { resume: () => {}, stop: () => stops++ };
  });
  const { exchange, told } = anExchange();
  const opened = streams.openOne(exchange, SUBJECT, { query: 'slow', input: '{}', lastId: undefined });
  follower?.closed();
  await opened;
  assert.deepEqual([told, stops, changes.subscribers], [[OPENING, null], 1, 0]);
});
