import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { ChangeStreams } from '../dispatch/changes.ts';
import type { Dispatcher, Sink } from '../dispatch/dispatcher.ts';
import { Commits } from '../results/commits.ts';
import { LiveQueries } from './live-queries.ts';

/** Runs wait in `running` until the test answers them. */
function setUp() {
  const running: Sink[] = [];
  const dispatcher = {
    resolve: () => ({ kind: 'query', tool: { name: 'list' } }),
    submit: (_target: unknown, _request: unknown, sink: Sink) => {
      running.push(sink);
      return () => {};
    },
  } as unknown as Dispatcher;
  const changes = new ChangeStreams();
  changes.readers.stop();
  const commits = new Commits({ file: () => '' });
  const live = new LiveQueries({ commits, changes });
  const told: string[] = [];
  const follow = (input: string, client = 'one', key = 'notes') =>
    live.follow(
      { dispatcher, app: key, key, query: 'list', input, caller: { kind: 'admin' }, client },
      { tell: ({ json }) => told.push(json.toString()), closed: () => told.push('closed') },
    );
  const answer = (json: string) =>
    running.shift()?.answered(200, Buffer.from(json), { queueMs: 0, handlerMs: 0, started: true });
  return { live, commits, changes, running, told, follow, answer };
}

test('one run serves all who follow the same', async () => {
  const { follow, running, told, answer } = setUp();
  const all = Array.from({ length: 100 }, () => follow('{}'));
  await nextTurn();
  assert.equal(running.length, 1);
  answer('[1]');
  assert.deepEqual([told.length, new Set(told).size], [100, 1]);
  for (const one of all) one.stop();
});

test('a write during a run has the query run again', async () => {
  const { follow, commits, running, told, answer } = setUp();
  const following = follow('{}');
  await nextTurn();
  commits.changed('notes');
  answer('[1]');
  while (running.length === 0) await nextTurn();
  answer('[2]');
  assert.deepEqual(
    told.map((json) => JSON.parse(`{${json}`).data),
    [[1], [2]],
  );
  following.stop();
});

test('over its limits a subscription is refused, few run at a time, and nothing is left', async () => {
  const { live, follow, running } = setUp();
  const all = Array.from({ length: LIMITS.liveQueries }, (_, i) => follow(`${i}`));
  assert.throws(() => follow('more'), { code: 'OVERLOADED' });
  await nextTurn();
  assert.equal(running.length, LIMITS.liveRuns);
  while (all.length < LIMITS.liveFollowers) all.push(follow('1', `client ${all.length % 2}`));
  assert.throws(() => follow('1', 'another'), { code: 'OVERLOADED', message: /^This app/ });
  for (const one of all) one.stop();
  assert.deepEqual(live.counts, { queries: 0, followers: 0, clients: 0, bytes: 0 });
});

test('one client has fewer subscriptions than there are, over all apps; what it ends makes room again', () => {
  const { live, follow } = setUp();
  const all = Array.from({ length: LIMITS.liveFollowersOfClient }, (_, i) => follow('{}', 'one', `app-${i % 3}`));
  const refusal = { code: 'OVERLOADED', message: /^This client has 6000 / };
  for (let more = all.length; more < 10_000; more++)
    assert.throws(() => follow('{}', 'one', `app-${more % 5}`), refusal);
  all.push(follow('{}', 'another'));
  all.shift()?.stop();
  all.push(follow('{}'));
  assert.throws(() => follow('{}'), refusal);
  for (const one of all) one.stop();
  assert.deepEqual(live.counts, { queries: 0, followers: 0, clients: 0, bytes: 0 });
});

test('followers hear of the end of the app', () => {
  const { live, changes, follow, told } = setUp();
  const following = follow('{}');
  changes.closeApp('notes');
  assert.deepEqual(told, ['closed']);
  following.stop();
  assert.equal(live.counts.queries, 0);
});
