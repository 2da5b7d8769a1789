import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Following } from '../../protocol/topic.ts';
import { standIn } from '../../testing/stand-in.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Exchange } from '../edge/edge.ts';
import type { EventReader, EventReaders } from '../http/event-streams.ts';
import type { LiveQueries } from '../live/live-queries.ts';
import type { LiveFollower, LiveRequest, LiveState } from '../live/live-query.ts';
import type { ListSource } from './lists.ts';
import { type McpSession, McpSessions, type SessionOwner } from './mcp-sessions.ts';
import type { McpTools } from './tools.ts';

const OWNER: SessionOwner = { client: 'token a', path: '/svc/notes/_mcp', app: 'notes' };
const EXCHANGE = {} as Exchange;

const state = (id: string, error: SvcError | null = null): LiveState => ({
  id,
  event: error === null ? 'data' : 'error',
  json: Buffer.alloc(0),
  error,
});

/** Followers and streams are the test's to tell and to look at. */
function setUp() {
  const followers = new Set<LiveFollower>();
  const follow = (_request: LiveRequest, follower: LiveFollower) => {
    followers.add(follower);
    return { resume: () => {}, stop: () => void followers.delete(follower) };
  };
  const streams: { text: string; full: boolean; ended: boolean; on: { caughtUp(): void; gone(): void } }[] = [];
  const open = (): EventReader => {
    const followed: Following[] = [];
    const on = {
      caughtUp: () => followed.forEach(({ resume }) => void resume()),
      gone: () => followed.splice(0).forEach(({ stop }) => void stop()),
    };
    const stream = { text: '', full: false, ended: false, on };
    streams.push(stream);
    const write = (bytes: Buffer): void => {
      stream.text += bytes.toString();
    };
    const deliver = (bytes: Buffer): boolean => {
      if (!stream.full) write(bytes);
      return !stream.full;
    };
    const end = (): void => {
      stream.ended = true;
      on.gone();
    };
    const add = (following: Following) => void followed.push(following);
    const onEnd = (stop: () => void) => add({ resume: () => {}, stop });
    return { write, deliver, end, add, onEnd } as unknown as EventReader;
  };
  const live = { follow } as unknown as LiveQueries;
  const watchers = new Set<(what: 'reload' | 'closed') => void>();
  const changes = standIn<ChangeStreams>({
    watch: (_app, watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
  });
  const sessions = new McpSessions({ live, liveOfAll: live, readers: { open } as unknown as EventReaders, changes });
  /** Names of the tools, and of the resources, that its caller sees. */
  const shown = { title: 'Notes', tools: ['list'], resources: ['list'] };
  const lists = {
    key: 'notes',
    tools: () => ({
      title: shown.title,
      list: () => Promise.resolve(shown.tools),
      resources: () => Promise.resolve(shown.resources),
    }),
  } as unknown as ListSource & { tools(): McpTools };
  let may = true;
  const resource = { request: { scope: { app: 'notes' } } as LiveRequest, may: () => may };
  const tell = (of: LiveState, at = 0): void => [...followers][at]?.tell(of);
  const session = (): McpSession => sessions.find(sessions.begin(OWNER, lists), OWNER) as McpSession;
  const subscribed = async (uri: string, on: McpSession): Promise<void> => {
    const adding = on.subscribe(uri, resource);
    tell(state('first'), followers.size - 1);
    await adding;
  };
  const forbid = (): void => {
    may = false;
  };
  return { followers, streams, sessions, resource, tell, session, subscribed, forbid, lists, shown, watchers };
}

const told = ({ text }: { text: string }): string[] =>
  [...text.matchAll(/"uri":"([^"]*)"/g)].map(([, uri]) => uri ?? '');

test('changes after the first result are sent, each state once', async () => {
  const { streams, tell, session, subscribed, lists } = setUp();
  const one = session();
  one.open(EXCHANGE, undefined, lists);
  await subscribed('a', one);
  assert.deepEqual(told(streams[0] as never), []);
  tell(state('second'));
  tell(state('second'));
  tell(state('third', new SvcError('INTERNAL', 'No luck.')));
  assert.deepEqual(told(streams[0] as never), ['a', 'a']);
});

test('a first result that is a refusal is the answer, and leaves no subscription', async () => {
  const { followers, resource, tell, session } = setUp();
  const one = session();
  const refused = assert.rejects(one.subscribe('a', resource), { code: 'INVALID_INPUT' });
  tell(state('e', new SvcError('INVALID_INPUT', 'Wrong.')));
  await refused;
  assert.equal(followers.size, 0);
  const followed = one.subscribe('a', resource);
  tell(state('e', new SvcError('INTERNAL', 'It may pass.')));
  await followed;
  assert.equal(followers.size, 1);
});

test('a stream that was behind, or is opened later, gets what it has missed, in order', async () => {
  const { streams, tell, session, subscribed, lists } = setUp();
  const one = session();
  for (const uri of ['a', 'b']) await subscribed(uri, one);
  tell(state('b2'), 1);
  tell(state('a2'), 0);
  one.open(EXCHANGE, undefined, lists);
  const [first] = streams as [(typeof streams)[0]];
  assert.deepEqual(told(first), ['b', 'a']);
  first.full = true;
  tell(state('b3'), 1);
  tell(state('b4'), 1);
  first.full = false;
  first.on.caughtUp();
  assert.deepEqual(told(first), ['b', 'a', 'b']);
  const lastId = /id: (\d+)\n(?!.*id: )/s.exec(first.text)?.[1];
  first.on.gone();
  tell(state('a3'), 0);
  for (const [id, missed] of [
    [lastId, ['a']],
    [undefined, ['b', 'a']],
    ['999', ['b', 'a']],
    ['x', ['b', 'a']],
  ] as const) {
    one.open(EXCHANGE, id, lists);
    assert.deepEqual(told(streams.at(-1) as never), missed, id);
  }
  assert.deepEqual(
    streams.map(({ ended }) => ended),
    [false, true, true, true, false],
  );
});

test('a resource that is unsubscribed before its change could be sent is not told', async () => {
  const { streams, tell, session, subscribed, lists } = setUp();
  const one = session();
  one.open(EXCHANGE, undefined, lists);
  for (const uri of ['a', 'b']) await subscribed(uri, one);
  const [stream] = streams as [(typeof streams)[0]];
  stream.full = true;
  for (const at of [0, 1]) tell(state('other'), at);
  one.unsubscribe('a');
  stream.full = false;
  stream.on.caughtUp();
  assert.deepEqual(told(stream), ['b']);
});

test('an unsubscribed resource, and one that was asked for twice, count once or not at all', async () => {
  const { followers, resource, tell, session, subscribed } = setUp();
  const one = session();
  await subscribed('a', one);
  await one.subscribe('a', resource);
  assert.equal(followers.size, 1);
  const waiting = one.subscribe('b', resource);
  const refused = assert.rejects(waiting, { code: 'NOT_FOUND' });
  one.unsubscribe('b');
  await refused;
  one.unsubscribe('a');
  one.unsubscribe('never');
  assert.equal(followers.size, 0);
  const all = Array.from({ length: LIMITS.liveQueriesOfStream }, (_, n) => one.subscribe(`${n}`, resource));
  await assert.rejects(one.subscribe('more', resource), { code: 'OVERLOADED' });
  for (let n = 0; n < all.length; n++) tell(state('1'), n);
  await Promise.all(all);
  one.end();
  assert.equal(followers.size, 0);
});

test('a client that may no longer read gets nothing, and its session ends', async () => {
  const { followers, streams, sessions, resource, tell, session, subscribed, forbid, lists } = setUp();
  const [told1, ended2] = [session(), session()];
  for (const one of [told1, ended2]) {
    one.open(EXCHANGE, undefined, lists);
    await subscribed('a', one);
  }
  forbid();
  tell(state('second'));
  assert.deepEqual(
    streams.map((stream) => [told(stream), stream.ended]),
    [
      [[], true],
      [[], false],
    ],
  );
  sessions.endRefused();
  assert.equal(streams[1]?.ended, true);
  assert.equal(followers.size, 0);
  await assert.rejects(ended2.subscribe('b', resource), { code: 'NOT_FOUND' });
  assert.deepEqual(sessions.counts, { known: 2, used: 0 });
});

test('a client that may no longer read when the first result comes has no subscription', async () => {
  const { followers, sessions, resource, tell, session, forbid } = setUp();
  const one = session();
  const subscribing = one.subscribe('a', resource);
  forbid();
  tell(state('first'));
  await subscribing;
  assert.equal(followers.size, 0);
  await assert.rejects(one.subscribe('b', resource), { code: 'NOT_FOUND' });
  assert.deepEqual(sessions.counts.used, 0);
});

test('sessions end with their app, and with a client that stays away', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { followers, sessions, session, subscribed, lists } = setUp();
    const id = sessions.begin(OWNER, lists) as string;
    const left = sessions.find(id, OWNER) as McpSession;
    await subscribed('a', left);
    mock.timers.tick(LIMITS.mcpAwayMs - 1);
    left.open(EXCHANGE, undefined, lists);
    mock.timers.tick(LIMITS.mcpAwayMs);
    assert.equal(followers.size, 1);
    const gone = session();
    await subscribed('b', gone);
    mock.timers.tick(LIMITS.mcpAwayMs);
    assert.deepEqual([followers.size, gone.ended], [1, true]);
    for (const follower of followers) follower.closed();
    assert.throws(() => sessions.find(id, OWNER), { code: 'NOT_FOUND' });
    assert.equal(followers.size, 0);
  } finally {
    mock.timers.reset();
  }
});

test('sessions are their owners’, and those in use have their places when there are too many', async () => {
  const { sessions, subscribed, lists } = setUp();
  const id = sessions.begin(OWNER, lists) as string;
  await subscribed('a', sessions.find(id, OWNER) as McpSession);
  assert.equal(sessions.find(id, { ...OWNER, client: 'token b' }), undefined);
  assert.equal(sessions.find(id, { ...OWNER, path: '/svc/other/_mcp' }), undefined);
  assert.equal(sessions.find(undefined, OWNER), undefined);
  const second = sessions.begin(OWNER, lists);
  for (let n = 0; n < LIMITS.mcpSessions; n++) sessions.begin(OWNER, lists);
  assert.deepEqual(sessions.counts, { known: LIMITS.mcpSessions, used: 1 });
  assert.ok(sessions.find(id, OWNER));
  assert.equal(sessions.find(second, OWNER), undefined);
  sessions.close();
  assert.equal(sessions.counts.used, 0);
});

/** Lets what was due be looked at, and told. */
async function later(ms: number): Promise<void> {
  mock.timers.tick(ms);
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

const listsTold = ({ text }: { text: string }): string[] =>
  [...text.matchAll(/notifications\/(\w+)\/list_changed/g)].map(([, list]) => list ?? '');

test('lists that are others are told once, however many versions came, and only those', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { streams, session, lists, shown, watchers } = setUp();
    const one = session();
    one.open(EXCHANGE, undefined, lists);
    const [stream] = streams as [(typeof streams)[0]];
    const publish = () => {
      for (const watcher of watchers) watcher('reload');
    };
    // The first look finds what its client was shown.
    await later(LIMITS.mcpListsMs);
    publish();
    await later(LIMITS.mcpListsMs);
    assert.deepEqual(listsTold(stream), []);
    for (const name of ['a', 'b', 'c']) {
      shown.tools = [name];
      publish();
      await later(LIMITS.mcpListsMs / 4);
    }
    await later(LIMITS.mcpListsMs);
    assert.deepEqual(listsTold(stream), ['tools']);
    Object.assign(shown, { title: 'Renamed' });
    publish();
    await later(LIMITS.mcpListsMs);
    assert.deepEqual(listsTold(stream), ['tools', 'tools', 'resources']);
    // Each has a number, so that a client that did not read it gets it when it is back.
    assert.match(stream.text, /id: 3\nevent: message\ndata: .*resources\/list_changed/);
    one.open(EXCHANGE, '2', lists);
    assert.deepEqual(listsTold(streams[1] as never), ['resources']);
    assert.equal(watchers.size, 1);
  } finally {
    mock.timers.reset();
  }
});

test('a client hears of lists that changed while it had no stream, and that its app is gone', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { streams, session, subscribed, lists, shown, watchers } = setUp();
    const one = session();
    await later(0);
    shown.resources = ['list', 'find'];
    one.open(EXCHANGE, undefined, lists);
    await later(LIMITS.mcpListsMs);
    const [first] = streams as [(typeof streams)[0]];
    assert.deepEqual(listsTold(first), ['resources']);
    await subscribed('a', one);
    first.on.gone();
    assert.equal(watchers.size, 0);
    shown.tools = ['find'];
    one.open(EXCHANGE, '1', lists);
    await later(LIMITS.mcpListsMs);
    assert.deepEqual(listsTold(streams[1] as never), ['tools']);
    for (const watcher of watchers) watcher('closed');
    assert.deepEqual(listsTold(streams[1] as never), ['tools', 'tools', 'resources']);
    assert.deepEqual([streams[1]?.ended, one.ended, watchers.size], [true, true, 0]);
  } finally {
    mock.timers.reset();
  }
});
