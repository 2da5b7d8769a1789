import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LIMITS } from '../../protocol/limits.ts';
import { type EventClient, openEvents, send, serveExchanges } from '../../testing/exchange-server.ts';
import type { Exchange, ResponseStream } from '../edge/edge.ts';
import type { EdgeKind } from '../edge/open-edge.ts';
import { type Change, ChangeStreams } from './change-streams.ts';

const NOW = 1_700_000_000_000;
const START = NOW * 1000;

/** Serves `/<app>?<tables>`, so that a test subscribes with real sockets. */
async function setUpOn(edge: EdgeKind, t: TestContext, heartbeatMs?: number) {
  const streams = new ChangeStreams({ now: () => NOW, ...(heartbeatMs === undefined ? {} : { heartbeatMs }) });
  t.after(() => streams.closeAll());
  const port = await serveExchanges(
    t,
    (exchange) => {
      const lastEventId = exchange.header('last-event-id');
      streams.subscribe(exchange.path.slice(1), exchange, {
        tables: exchange.query === '' ? [] : exchange.query.split(','),
        ...(lastEventId === undefined ? {} : { lastEventId }),
      });
    },
    edge,
  );
  const subscribe = async (path: string, lastEventId?: string | number): Promise<EventClient> => {
    const client = await openEvents(port, path, lastEventId === undefined ? {} : { 'last-event-id': lastEventId });
    t.after(() => client.close());
    return client;
  };
  return { streams, port, subscribe };
}

const change = (table: string): Change => ({ table, action: 'add', source: 'handler' });
const opening = (app: string, seq: number) => `retry: 2000\nid: ${seq}\n: changes of ${app}`;
/** What was missed brings the ids: a connection that ends in between must not look as if all had arrived. */
const resuming = (app: string) => `retry: 2000\n: changes of ${app}`;
const reset = (app: string, seq: number) => `event: reset\nid: ${seq}\ndata: ${JSON.stringify({ app, ts: NOW, seq })}`;
const changed = (app: string, table: string, seq: number) =>
  `event: change\nid: ${seq}\ndata: ${JSON.stringify({ app, table, tables: [table], action: 'add', source: 'handler', ts: NOW, seq })}`;

async function expect(client: EventClient, ...blocks: string[]): Promise<void> {
  for (const block of blocks) assert.equal(await client.next(), block);
}

for (const edge of ['auto', 'node'] as const) {
  suite(`change streams, edge ${edge}`, () => {
    const setUp = (t: TestContext, heartbeatMs?: number) => setUpOn(edge, t, heartbeatMs);

    test('a subscriber gets the events of its app, numbered, and no others', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const todos = await subscribe('/todos');
      const notes = await subscribe('/notes');
      assert.equal(todos.status, 200);
      assert.equal(todos.headers['content-type'], 'text/event-stream');
      assert.equal(todos.headers['cache-control'], 'no-cache, no-transform');
      assert.equal(todos.headers['x-accel-buffering'], 'no');

      streams.emit('todos', change('items'));
      streams.emit('notes', change('pages'));
      streams.emit('todos', change('lists'));
      streams.closeAll();
      await expect(
        todos,
        opening('todos', START),
        changed('todos', 'items', START + 1),
        changed('todos', 'lists', START + 2),
      );
      await expect(notes, opening('notes', START), changed('notes', 'pages', START + 1));
      assert.deepEqual([await todos.next(), await notes.next()], [undefined, undefined]);
    });

    test('a name with a line break stays inside its event', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const client = await subscribe('/todos');
      streams.emit('todos', change('a\n\nevent: reset'));
      await expect(client, opening('todos', START), changed('todos', 'a\n\nevent: reset', START + 1));
    });

    test('Last-Event-ID replays kept events, a gap is one reset, and then the stream is live', async (t) => {
      const { streams, subscribe } = await setUp(t);
      for (let i = 1; i <= LIMITS.changeRing + 2; i++) streams.emit('todos', change('items'));
      const last = START + LIMITS.changeRing + 2;
      const gap = [reset('todos', last)];
      const cases: [lastEventId: string | number, replayed: string[]][] = [
        [last, []],
        [last - 2, [changed('todos', 'items', last - 1), changed('todos', 'items', last)]],
        [START + 2, Array.from({ length: LIMITS.changeRing }, (_, i) => changed('todos', 'items', START + 3 + i))],
        [START + 1, gap],
        [0, gap],
        [last + 1, gap],
        ['nonsense', gap],
        ['9'.repeat(30), gap],
        ['-1', gap],
      ];
      const clients = await Promise.all(cases.map(([lastEventId]) => subscribe('/todos', lastEventId)));
      streams.emit('todos', change('live'));
      for (const [i, [, replayed]] of cases.entries()) {
        await expect(
          clients[i] as EventClient,
          replayed.length === 0 ? opening('todos', last) : resuming('todos'),
          ...replayed,
          changed('todos', 'live', last + 1),
        );
      }
    });

    test('the numbers go on growing after a restart, so that missed events give a reset', async (t) => {
      const { subscribe } = await setUp(t);
      const before = (NOW - 1000) * 1000 + 500;
      await expect(await subscribe('/todos', before), resuming('todos'), reset('todos', START));
    });

    test('?tables filters live events and replayed ones', async (t) => {
      const { streams, subscribe } = await setUp(t);
      for (const table of ['items', 'tags', 'lists']) streams.emit('todos', change(table));
      const client = await subscribe('/todos?items,lists', START);
      for (const table of ['tags', 'items']) streams.emit('todos', change(table));
      await expect(
        client,
        resuming('todos'),
        changed('todos', 'items', START + 1),
        changed('todos', 'lists', START + 3),
        changed('todos', 'items', START + 5),
      );
    });

    test('another version and a fault take no number, and are told to those who are there', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const client = await subscribe('/todos?tags');
      streams.reload('todos');
      streams.fault('todos', { message: 'Wrong.' });
      streams.emit('todos', change('tags'));
      await expect(
        client,
        opening('todos', START),
        `event: reload\ndata: ${JSON.stringify({ app: 'todos', ts: NOW })}`,
        'event: fault\ndata: {"message":"Wrong."}',
        changed('todos', 'tags', START + 1),
      );
      await expect(await subscribe('/todos', START), resuming('todos'), changed('todos', 'tags', START + 1));
    });

    test('an unknown outcome resets every subscriber, disconnected ones when they return', async (t) => {
      const { streams, subscribe } = await setUp(t);
      streams.emit('todos', change('items'));
      const all = await subscribe('/todos');
      const filtered = await subscribe('/todos?tags');
      streams.reset('todos');
      const missed = await subscribe('/todos', START + 1);
      const upToDate = await subscribe('/todos', START + 2);
      streams.emit('todos', change('tags'));
      const next = changed('todos', 'tags', START + 3);
      for (const client of [all, filtered])
        await expect(client, opening('todos', START + 1), reset('todos', START + 2), next);
      await expect(missed, resuming('todos'), reset('todos', START + 2), next);
      await expect(upToDate, opening('todos', START + 2), next);
    });

    test('a subscriber that does not read gets one reset for all that it missed', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const slow = await subscribe('/todos');
      slow.pause();
      const table = 'x'.repeat(16 * 1024);
      const count = 1000;
      // In one turn of the event loop: what the sockets have not taken by its end, they have not taken until the last event.
      for (let i = 1; i <= count; i++) streams.emit('todos', change(table));
      slow.resume();
      await expect(slow, opening('todos', START), changed('todos', table, START + 1));
      let changes = 1;
      let block = await slow.next();
      for (; block?.startsWith('event: change'); block = await slow.next()) changes += 1;
      assert.equal(block, reset('todos', START + count));
      assert.ok(changes < count, `${changes} of ${count} were waiting for it`);

      streams.emit('todos', change('items'));
      await expect(slow, changed('todos', 'items', START + count + 1));
    });

    test('replay of more than a subscriber may have waiting is a reset', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const table = 'x'.repeat(LIMITS.subscriberBacklogBytes / 8);
      for (let i = 0; i < 5; i++) streams.emit('todos', change(table));
      await expect(await subscribe('/todos', START), resuming('todos'), reset('todos', START + 5));
    });

    test('all rings together are bounded; the app that was quiet longest loses its own first', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const table = 'x'.repeat((1024 * 1024) / 2);
      streams.emit('quiet', change('items'));
      streams.emit('busy', change('items'));
      for (let i = 0; i < 40; i++) {
        streams.emit(`app${i}`, change(table));
        if (i === 25) streams.emit('busy', change('items'));
      }
      assert.ok(streams.ringBytes <= LIMITS.changeRingsBytes);
      await expect(await subscribe('/quiet', START), resuming('quiet'), reset('quiet', START + 1));
      await expect(await subscribe('/busy', START), resuming('busy'), changed('busy', 'items', START + 1));
    });

    test('heartbeats are comments', async (t) => {
      const { subscribe } = await setUp(t, 5);
      await expect(await subscribe('/todos'), opening('todos', START), ':', ':');
    });

    test('HEAD answers the headers without subscribing', async (t) => {
      const { streams, port } = await setUp(t);
      const answer = await send(port, 'HEAD', '/todos');
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['content-type'], 'text/event-stream');
      assert.equal(streams.subscribers, 0);
    });

    test('a client that goes away is forgotten', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const clients = await Promise.all([subscribe('/todos'), subscribe('/todos'), subscribe('/notes')]);
      assert.equal(streams.subscribers, 3);
      clients[0]?.close();
      clients[2]?.close();
      while (streams.subscribers > 1) await nextTurn();
      assert.deepEqual([streams.subscribersOf('todos'), streams.subscribersOf('notes')], [1, 0]);
      streams.emit('todos', change('items'));
      await expect(clients[1] as EventClient, opening('todos', START), changed('todos', 'items', START + 1));
    });

    test('closing an app ends its streams, frees its kept events, and does not affect other apps', async (t) => {
      const { streams, subscribe } = await setUp(t);
      const todos = await subscribe('/todos');
      const notes = await subscribe('/notes');
      streams.emit('todos', change('items'));
      streams.closeApp('todos');
      streams.closeApp('nobody');
      assert.deepEqual([streams.subscribers, streams.ringBytes], [1, 0]);
      await expect(todos, opening('todos', START), changed('todos', 'items', START + 1));
      assert.equal(await todos.next(), undefined);
      streams.emit('notes', change('pages'));
      await expect(notes, opening('notes', START), changed('notes', 'pages', START + 1));
    });
  });
}

test('subscribers that do not read share one limit of waiting events', () => {
  const streams = new ChangeStreams({ now: () => NOW });
  const backlogs: number[] = [];
  const count = 1000;
  for (let i = 0; i < count; i++) {
    backlogs.push(0);
    const stream: ResponseStream = {
      write: (chunk) => {
        backlogs[i] = (backlogs[i] as number) + chunk.length;
        return false;
      },
      get buffered() {
        return backlogs[i] as number;
      },
      onDrain: () => {},
      end: () => {},
      cutOff: () => {},
    };
    const exchange = { method: 'GET', aborted: false, stream: () => stream, onAbort: () => {} };
    streams.subscribe('todos', exchange as unknown as Exchange);
  }
  const table = 'x'.repeat(1000);
  for (let i = 0; i < 500; i++) streams.emit('todos', change(table));
  streams.closeAll();
  const all = backlogs.reduce((sum, bytes) => sum + bytes, 0);
  const overshoot = count * 4 * table.length;
  assert.ok(all <= LIMITS.backlogsBytes + overshoot, `${all} bytes wait for ${count} subscribers`);
  assert.ok(all > LIMITS.backlogsBytes / 2, `${all} bytes are less than they may have`);
});

test('events kept for replay hold no buffers, also while they are read', (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const streams = new ChangeStreams({ now: () => NOW });
  t.after(() => streams.closeAll());
  let read = 0;
  const stream = { write: () => ++read > 0, end: () => {}, onDrain: () => {}, buffered: 0 };
  streams.subscribe('todos', { method: 'GET', onAbort: () => {}, stream: () => stream } as unknown as Exchange);
  const bytes = (): number => {
    collect();
    // Buffers are freed beside the program; another collection waits for that.
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = bytes();
  for (let i = 0; i < LIMITS.changeRing; i++) {
    streams.emit('todos', change('items'));
    // As a gateway does between two events, which share Node's buffers with these.
    Buffer.from('x'.repeat(3000));
  }
  assert.equal(read, LIMITS.changeRing + 1);
  assert.ok(bytes() - before < 2 ** 19, `${bytes() - before} bytes are held`);
});
