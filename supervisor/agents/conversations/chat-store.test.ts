import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { NewTurn, StoredEvent } from '../../../protocol/agents/stored-turns.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { SqlStatement } from '../../../protocol/wire/frames.ts';
import { HistoryFold, Tally } from '../../../storage/chat/chat-history.ts';
import { Layout } from '../../../storage/layout.ts';
import { startWriter } from '../../../testing/run-ledger.ts';
import { OneRuntimeDatabase, RuntimeTables } from '../../runtime/runtime-databases.ts';
import { ChatStore, makeChatTables, nameOf } from './chat-store.ts';

const NOW = 1_700_000_000_000;

async function setUp(t: TestContext) {
  const writer = await startWriter(t);
  const db = writer.client('runtime');
  const log = { warn: () => assert.fail() };
  const tables = new RuntimeTables(new OneRuntimeDatabase(db), makeChatTables);
  const conversations = new ChatStore({ tables, layout: new Layout(writer.folder), log, now: () => NOW + 5 });
  await tables.all();
  const turns = {
    open: (app: string, id: string) => conversations.open(nameOf(app, id)),
    messages: (id: string, limit: number, before: string | null) => conversations.messages('notes', id, limit, before),
    unended: (after: string, limit: number) => conversations.unended(db, after, limit),
  };
  return { writer, db, conversations, turns };
}

function newTurn(n: number, more: Partial<NewTurn> = {}): NewTurn {
  return { turnId: `turn-${n}`, message: `message ${n}\nmore`, mode: 'full', runner: 'stub', ts: NOW + n, ...more };
}

function started(turnId: string): TurnEvent {
  return { type: 'assistant.start', turnId, runner: 'stub', sessionId: 'conversation-c' };
}

async function all(events: AsyncIterable<StoredEvent>): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for await (const one of events) found.push(one);
  return found;
}

const SAID: TurnEvent[] = [
  { type: 'assistant.delta', delta: 'He' },
  { type: 'assistant.delta', delta: 'llo' },
  { type: 'tool.start', toolCallId: '1', toolName: 'add', args: { title: 'milk' } },
  { type: 'tool.result', toolCallId: '1', toolName: 'add', ok: true, result: { id: 7 } },
  { type: 'file', path: 'index.html', status: 'changed' },
  { type: 'assistant.delta', delta: ' again' },
];

test('a turn is stored as it comes, and read again from any event on', async (t) => {
  const { turns, conversations } = await setUp(t);
  const open = await turns.open('notes', 'c');
  assert.equal(open.resume('stub'), null);
  const turn = await open.begin(newTurn(1), [started('turn-1')]);
  await open.append(turn, SAID.slice(0, 2), { session: 'thread-9' });
  assert.equal((await conversations.get('notes', 'c')).state, 'running');
  assert.deepEqual(
    (await all(open.events(turn, 0))).map(({ id }) => id),
    [1, 2, 3],
  );
  await open.append(turn, SAID.slice(2));
  await open.append(turn, [{ type: 'final', text: 'Hello again' }, { type: 'end' }], { end: 'ok' });
  const whole = await all(open.events(turn, 0));
  assert.deepEqual(
    whole,
    [started('turn-1'), ...SAID, { type: 'final', text: 'Hello again' }, { type: 'end' }].map(
      (event, at) => ({ id: at + 1, event }) as StoredEvent,
    ),
  );
  for (let after = 0; after <= whole.length; after++)
    assert.deepEqual(await all(open.events(turn, after)), whole.slice(after), `after ${after}`);
  assert.equal(open.resume('stub'), 'thread-9');
  assert.equal(open.resume('other'), null);
  assert.deepEqual(open.texts, [
    { turnId: 'turn-1', role: 'user', text: 'message 1\nmore' },
    { turnId: 'turn-1', role: 'assistant', text: 'Hello again' },
  ]);
  const again = await turns.open('notes', 'c');
  assert.equal(again.resume('stub'), 'thread-9');
  assert.deepEqual(again.texts, open.texts);
  assert.deepEqual(
    again.turns.map(({ turnId, state, lastId }) => [turnId, state, lastId]),
    [['turn-1', 'ok', 9]],
  );
  const { title, adapter, counts, updatedAt } = await conversations.get('notes', 'c');
  assert.deepEqual([title, adapter, counts, updatedAt], ['message 1', 'stub', { turns: 1, messages: 4 }, NOW + 5]);
});

test('messages are numbered through the conversation, on every page', async (t) => {
  const { turns } = await setUp(t);
  const open = await turns.open('notes', 'c');
  for (const n of [1, 2, 3]) {
    const attachments = n === 2 ? [{ name: 'a.png', type: 'image/png', path: `/x/${'a'.repeat(64)}` }] : [];
    const turn = await open.begin(newTurn(n, { attachments }), [started(`turn-${n}`)]);
    await open.append(turn, [...SAID, { type: 'end' }], { end: 'ok' });
  }
  const messages = await turns.messages('c', 50, null);
  assert.deepEqual(
    messages.map(({ seq, kind }) => `${seq} ${kind}`),
    [1, 2, 3].flatMap((n) => [
      `${4 * n - 3} user`,
      `${4 * n - 2} assistant`,
      `${4 * n - 1} tool`,
      `${4 * n} assistant`,
    ]),
  );
  assert.deepEqual(await turns.messages('c', 1, 'turn-3'), messages.slice(4, 8));
  assert.deepEqual(await turns.messages('c', 1, 'turn-1'), []);
  const asked = messages[4];
  assert.ok(asked?.kind === 'user');
  assert.deepEqual(asked.attachments, [{ sha256: 'a'.repeat(64), name: 'a.png', type: 'image/png' }]);
  assert.deepEqual([asked.text, asked.state], ['message 2\nmore', 'ok']);
});

test('a page has fewer turns where they are large', async (t) => {
  const { turns } = await setUp(t);
  const open = await turns.open('notes', 'c');
  const result = 'x'.repeat(LIMITS.conversationPageBytes / 8);
  for (let n = 1; n <= 6; n++) {
    const turn = await open.begin(newTurn(n), []);
    for (const toolCallId of ['a', 'b'])
      await open.append(turn, [
        { type: 'tool.start', toolCallId, toolName: 'big' },
        { type: 'tool.result', toolCallId, toolName: 'big', ok: true, result },
      ]);
    await open.append(turn, [{ type: 'end' }], { end: 'ok' });
  }
  const seen: number[] = [];
  for (let before: string | null = null; ; ) {
    const page = await turns.messages('c', 50, before);
    if (page.length === 0) break;
    assert.ok(page.length <= 12 && page.length >= 3, `${page.length} messages`);
    seen.unshift(...page.map(({ seq }) => seq));
    before = page[0]?.turnId ?? null;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 18 }, (_, at) => at + 1),
  );
});

test('unfinished turns of an earlier gateway are found, ended and counted', async (t) => {
  const { turns, conversations } = await setUp(t);
  const open = await turns.open('notes', 'c');
  const turn = await open.begin(newTurn(1, { idempotencyKey: 'k' }), [started('turn-1')]);
  await open.append(turn, SAID);
  assert.deepEqual(await turns.unended('', 10), [nameOf('notes', 'c')]);
  const next = await turns.open('notes', 'c');
  const [left] = next.turns;
  assert.ok(left);
  assert.deepEqual([left.state, left.idempotencyKey, left.lastId], ['running', 'k', 7]);
  await next.append(left, [{ type: 'end' }], { end: 'interrupted' });
  assert.deepEqual(await turns.unended('', 10), []);
  assert.deepEqual(
    next.texts.map(({ text }) => text),
    ['message 1\nmore', 'Hello again'],
  );
  const { state, counts } = await conversations.get('notes', 'c');
  assert.deepEqual([state, counts], ['interrupted', { turns: 1, messages: 4 }]);
});

test('a turn is stored with its run, or neither is', async (t) => {
  const { turns, db } = await setUp(t);
  await db.exec('CREATE TABLE IF NOT EXISTS told (what TEXT PRIMARY KEY)');
  const told = (what: string) => [`INSERT INTO told VALUES ('${what}')`, []] as SqlStatement;
  const run = {
    begin: (turn: SqlStatement[]) => db.batch([...turn, told('begin')]).then(() => {}),
    end: (turn: SqlStatement[]) => db.batch([...turn, told('end')]).then(() => {}),
  };
  const open = await turns.open('notes', 'c');
  const turn = await open.begin(newTurn(1), [started('turn-1')], run);
  await assert.rejects(open.begin(newTurn(2), [started('turn-2')], run), { code: 'SQLITE_CONSTRAINT_PRIMARYKEY' });
  await db.run("DELETE FROM told WHERE what = 'begin'");
  await open.append(turn, [{ type: 'end' }], { end: 'ok' });
  const second = await open.begin(newTurn(2), [started('turn-2')], run);
  await assert.rejects(open.append(second, [{ type: 'end' }], { end: 'ok' }), { code: 'SQLITE_CONSTRAINT_PRIMARYKEY' });
  const stored = (await turns.open('notes', 'c')).turns;
  assert.deepEqual(
    stored.map(({ turnId, state, lastId }) => [turnId, state, lastId]),
    [
      ['turn-1', 'ok', 2],
      ['turn-2', 'running', 1],
    ],
  );
});

test('another runner goes on without the session of the one before', async (t) => {
  const { turns } = await setUp(t);
  const open = await turns.open('notes', 'c');
  const first = await open.begin(newTurn(1), [started('turn-1')]);
  await open.append(first, [], { session: 'mine' });
  const second = await open.begin(newTurn(2, { runner: 'other' }), [started('turn-2')]);
  // Late: its turn is not the last one any more.
  await open.append(first, [{ type: 'end' }], { session: 'mine again', end: 'ok' });
  for (const view of [open, await turns.open('notes', 'c')])
    assert.deepEqual([view.resume('stub'), view.resume('other')], [null, null]);
  await open.append(second, [], { session: 'theirs' });
  await open.append(second, SAID);
  assert.deepEqual((await all(open.events(second, 1))).length, SAID.length, 'a name alone takes no id');
  assert.equal((await turns.open('notes', 'c')).resume('other'), 'theirs');
});

test('a conversation belongs to one app', async (t) => {
  const { turns } = await setUp(t);
  await (await turns.open('notes', 'c')).begin(newTurn(1), []);
  await assert.rejects(turns.open('other', 'c'), { code: 'CONFLICT' });
});

test('a writer that dies loses and repeats no event', async (t) => {
  const { turns, writer } = await setUp(t);
  const open = await turns.open('notes', 'c');
  const turn = await open.begin(newTurn(1), [started('turn-1')]);
  for (let round = 0; round < 3; round++) {
    const appended = open.append(turn, SAID);
    await writer.replace();
    await appended;
  }
  await open.append(turn, [{ type: 'end' }], { end: 'ok' });
  const ids = (await all(open.events(turn, 0))).map(({ id }) => id);
  assert.deepEqual(
    ids,
    Array.from({ length: 1 + 3 * SAID.length + 1 }, (_, at) => at + 1),
  );
});

test('the oldest earlier messages are left out', async (t) => {
  const { turns } = await setUp(t);
  const open = await turns.open('notes', 'c');
  const long = 'x'.repeat(LIMITS.chatHistoryTextChars + 10);
  for (let n = 1; n <= 8; n++) {
    const turn = await open.begin(newTurn(n), []);
    await open.append(turn, [{ type: 'final', text: long }, { type: 'end' }], { end: 'ok' });
  }
  for (const { texts: said } of [open, await turns.open('notes', 'c')]) {
    const chars = said.reduce((sum, { text }) => sum + text.length, 0);
    assert.ok(chars <= LIMITS.chatHistoryChars && chars > LIMITS.chatHistoryChars / 2, `${chars}`);
    assert.equal(said.at(-1)?.text.length, LIMITS.chatHistoryTextChars);
  }
});

test('a tally has as many messages as the history', () => {
  const orders: TurnEvent[][] = [
    [],
    SAID,
    [...SAID, { type: 'final', text: 'x' }],
    [{ type: 'final', text: 'x' }],
    [
      { type: 'reasoning.delta', delta: 'hm' },
      { type: 'final', text: 'x' },
    ],
    [{ type: 'permission', requestId: 'p', toolName: 'sh', detail: 'ls', options: [] }, ...SAID.slice(2, 4)],
    [...SAID.slice(2, 4), { type: 'final', text: 'x' }],
  ];
  for (const events of orders) {
    const [tally, fold] = [new Tally(), new HistoryFold()];
    fold.message(newTurn(1));
    for (const event of events) {
      tally.take(event);
      fold.event({ turnId: 'turn-1', ts: NOW }, event);
    }
    assert.equal(tally.messages, fold.rows.length, JSON.stringify(events));
  }
});

test('an app has so many conversations, and goes on with those', async (t) => {
  const { db, conversations, turns } = await setUp(t);
  const fill = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO conversations (conversation_id, app_id, created_at, updated_at) SELECT 'c' || i, 'notes', 1, 1 FROM n`;
  await db.run(fill, [LIMITS.conversations]);
  await assert.rejects(conversations.create('notes', {}), { code: 'CONFLICT' });
  await assert.rejects((await turns.open('notes', 'new')).begin(newTurn(1), []), { code: 'CONFLICT' });
  await (await turns.open('notes', 'c1')).begin(newTurn(1), []);
  await conversations.create('other', {});
  await db.run("DELETE FROM conversations WHERE conversation_id = 'c2'", []);
  const open = await turns.open('notes', 'new');
  await open.begin(newTurn(2), []);
  await open.begin(newTurn(3), []);
});
