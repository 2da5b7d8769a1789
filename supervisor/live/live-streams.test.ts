import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ChangeStreams } from '../dispatch/changes.ts';
import type { Exchange } from '../edge/edge.ts';
import type { LiveQueries } from './live-queries.ts';
import type { LiveFollower } from './live-query.ts';
import { LiveStreams } from './live-streams.ts';

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
    return { repeat: () => {}, stop: () => {} };
  };
  const changes = new ChangeStreams();
  changes.readers.stop();
  const streams = new LiveStreams({ follow } as unknown as LiveQueries, changes);
  const open = () => {
    const told: string[] = [];
    let go = () => {};
    const stream = {
      buffered: 0,
      onDrain: () => {},
      end: () => {},
      write: (bytes: Buffer) => told.push(`${bytes}`) > 0,
    };
    const exchange = {
      aborted: false,
      method: 'GET',
      stream: () => stream,
      onAbort: (gone: () => void) => {
        go = gone;
      },
    } as unknown as Exchange;
    const list = ['there', 'late'].map((query) => ({ query, input: '{}', lastId: undefined }));
    const subject = {
      dispatcher: null as never,
      app: 'notes',
      key: 'notes',
      caller: { kind: 'admin' as const },
      client: 'c',
    };
    streams.openMany(exchange, subject, list, null);
    return { told, leave: () => go() };
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
  followers[1]?.tell({ id: 'abc', event: 'data', json: Buffer.from('"data":1,"seq":1}'), error: null });
  assert.match(one.told[2] ?? '', /^event: data\nid: \.\.abc\ndata: \{"index":1,"data":1/);
  t.mock.timers.tick(10 * LIMITS.liveRetryMaxMs);
  assert.deepEqual([refusals, followers.length], [8, 2], 'it is followed once');

  hasRoom = false;
  const two = open();
  two.leave();
  t.mock.timers.tick(10 * LIMITS.liveRetryMaxMs);
  assert.equal(refusals, 9, 'a client that went away is not tried for');
});
