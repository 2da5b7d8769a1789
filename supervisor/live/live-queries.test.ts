import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn, setTimeout } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import { STATE_BYTES } from '../../storage/wal-index.ts';
import { eventually } from '../../testing/waiting.ts';
import { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Dispatcher, Sink } from '../dispatch/dispatcher.ts';
import type { Scope } from '../dispatch/scope.ts';
import { Commits } from '../results/commits.ts';
import type { Reads } from '../results/results.ts';
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
  const states = { commit: 1, now: state(1) };
  const commits = new Commits({ file: () => '', reader: () => ({ read: () => states.now, close: () => {} }) });
  const commit = (tables: string[]): void => {
    const before = state(states.commit);
    states.now = state(++states.commit);
    commits.committed('notes', before, states.now, tables);
  };
  const live = new LiveQueries({ dispatcher, commits, changes });
  const told: string[] = [];
  const follow = (input: string, client = 'one', key = 'notes', caller: HandlerCaller = { kind: 'admin' }) =>
    live.follow(
      { scope: { app: key, key } as Scope, query: 'list', input, caller, client },
      { tell: ({ json }) => told.push(json.toString()), closed: () => told.push('closed') },
    );
  const answer = (json: string, reads?: Reads) => running.shift()?.answered(200, Buffer.from(json), TIMING, reads);
  return { live, commits, commit, states, changes, running, told, follow, answer };
}

const TIMING = { queueMs: 0, handlerMs: 0, started: true };

/** After so many commits. */
function state(commit: number): Uint8Array {
  const bytes = new Uint8Array(STATE_BYTES);
  new DataView(bytes.buffer).setUint32(8, commit, true);
  return bytes;
}

const dataOf = (json: string): unknown => JSON.parse(`{${json}`).data;

test('one run serves all who follow the same', async () => {
  const { follow, running, told, answer } = setUp();
  const all = Array.from({ length: 100 }, () => follow('{}'));
  await nextTurn();
  assert.equal(running.length, 1);
  answer('[1]');
  // On a busy machine not in one turn.
  await eventually(30_000, () => told.length === all.length);
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

test('over its limits a subscription is refused, few queries run at a time, and none is left', async () => {
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

test('one client has a lower limit, over all apps; subscriptions that it ends make room again', () => {
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

const BOB = { kind: 'token', name: 'bob' } as const;

test('a query runs again after a write to a table that it read, and not after others', async () => {
  const { follow, commit, running, told, answer } = setUp();
  const following = follow('{}');
  await nextTurn();
  answer('[1]', { tables: new Set(['a']), keep: true, caller: false });
  commit(['b']);
  await setTimeout(LIMITS.liveIntervalMs);
  assert.equal(running.length, 0);
  commit(['b', 'a']);
  while (running.length === 0) await nextTurn();
  // What is written during a run counts when it is known what was read.
  commit(['b']);
  answer('[2]', { tables: new Set(['a']), keep: false, caller: false });
  await setTimeout(LIMITS.liveIntervalMs);
  assert.equal(running.length, 0);
  commit(['a']);
  while (running.length === 0) await nextTurn();
  commit(['b']);
  answer('[3]', { tables: new Set(['a', 'b']), keep: true, caller: false });
  while (running.length === 0) await nextTurn();
  answer('[4]', { tables: new Set(['a', 'b']), keep: true, caller: false });
  assert.deepEqual(told.map(dataOf), [[1], [2], [3], [4]]);
  following.stop();
});

for (const [what, end] of [
  ['that failed', ({ running }) => running.shift()?.failed(new SvcError('HANDLER_ERROR', 'no'), TIMING)],
  ['of which it is not known what it read', ({ answer }) => answer('[1]', undefined)],
] as [string, (parts: ReturnType<typeof setUp>) => void][]) {
  test(`a run ${what} is repeated after each commit`, async () => {
    const parts = setUp();
    const { follow, commit, running } = parts;
    const following = follow('{}');
    await nextTurn();
    end(parts);
    commit(['any']);
    while (running.length === 0) await nextTurn();
    following.stop();
  });
}

test('a follower that joins before the note of a write waits for a run after it', async () => {
  const { follow, commit, states, running, told, answer } = setUp();
  const first = follow('{}');
  await nextTurn();
  const reads = { tables: new Set(['a']), keep: true, caller: false };
  answer('[1]', reads);
  states.now = state(states.commit + 1);
  const second = follow('{}');
  await nextTurn();
  assert.equal(told.length, 1);
  commit(['a']);
  while (running.length === 0) await nextTurn();
  answer('[2]', reads);
  assert.deepEqual(told.map(dataOf), [[1], [2], [2]]);
  first.stop();
  second.stop();
});

test('callers share a query until it reads the caller; then none sees another caller’s result', async () => {
  const { live, follow, commit, running, told, answer } = setUp();
  const reads = { tables: new Set(['a']), keep: true, caller: false };
  const all = [follow('{}'), follow('{}', 'two', 'notes', BOB), follow('{}', 'three', 'notes', BOB)];
  await nextTurn();
  assert.deepEqual([running.length], [1]);
  answer('"all"', reads);
  assert.deepEqual(told.splice(0).map(dataOf), ['all', 'all', 'all']);
  commit(['a']);
  while (running.length === 0) await nextTurn();
  answer('"admin"', { ...reads, caller: true });
  assert.deepEqual(told.splice(0).map(dataOf), ['admin']);
  while (running.length === 0) await nextTurn();
  answer('"bob"', { ...reads, caller: true });
  assert.deepEqual(told.splice(0).map(dataOf), ['bob', 'bob']);
  all.push(follow('{}', 'four', 'notes', BOB));
  await nextTurn();
  assert.deepEqual([told.splice(0).map(dataOf), running.length, live.counts.queries], [['bob'], 0, 2]);
  for (const one of all) one.stop();
  assert.deepEqual(live.counts, { queries: 0, followers: 0, clients: 0, bytes: 0 });
});

test('people of one name share no query that reads who calls', async () => {
  const { live, follow, running, told, answer } = setUp();
  const reads = { tables: new Set(['a']), keep: true, caller: true };
  const all = ['u1', 'u2', 'u3'].map((id) => {
    const caller: HandlerCaller = { kind: 'person', name: 'Sam', user: { id, name: 'Sam', role: 'viewer' } };
    return follow('{}', id, 'notes', caller);
  });
  await nextTurn();
  answer('"u1"', reads);
  while (running.length === 0) await nextTurn();
  assert.equal(live.counts.queries, 3);
  answer('"u2"', reads);
  while (running.length === 0) await nextTurn();
  answer('"u3"', reads);
  assert.deepEqual(told.splice(0).map(dataOf), ['u1', 'u2', 'u3']);
  for (const one of all) one.stop();
});

test('no caller sees the error of a run for another one', async () => {
  const { live, follow, running, told } = setUp();
  const admin = follow('{}');
  await nextTurn();
  const bob = follow('{}', 'two', 'notes', BOB);
  admin.stop();
  running.shift()?.failed(new SvcError('HANDLER_ERROR', 'about the administrator'), TIMING);
  assert.deepEqual(told, []);
  while (running.length === 0) await nextTurn();
  running.shift()?.failed(new SvcError('HANDLER_ERROR', 'about bob'), TIMING);
  assert.equal(told.length, 1);
  assert.match(told[0] ?? '', /about bob/);
  bob.stop();
  assert.equal(live.counts.queries, 0);
});
