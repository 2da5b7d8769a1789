import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { NewTurn, OpenConversation, StoredEvent, StoredTurn } from '../../../protocol/agents/stored-turns.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { Layout } from '../../../storage/layout.ts';
import { startWriter } from '../../../testing/run-ledger.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { OneRuntimeDatabase, RuntimeTables } from '../../runtime/runtime-databases.ts';
import type { TurnDrafts } from '../turns/turn-drafts.ts';
import { Chat } from './chat.ts';
import { ChatStore, makeChatTables } from './chat-store.ts';

type Scene = {
  dir: string;
  db: DbClient;
  windows: Windows;
  warnings: string[];
  /** As of a gateway that was started anew. */
  again(): Windows;
};

/** The windows of the app `notes`. */
class Windows {
  readonly store: ChatStore;
  readonly folder: string;

  constructor(store: ChatStore, folder: string) {
    this.store = store;
    this.folder = folder;
  }

  open = (id: string): Promise<OpenConversation> => this.store.open(nameOf(id));
  history = (id: string) => this.store.history(nameOf(id));
  about = (id: string) => this.store.about(nameOf(id));
  remove = (id: string) => this.store.remove(nameOf(id));
  list = () => this.store.windows('notes');
  flush = () => this.store.copies.flush();
}

function nameOf(id: string): ConversationName {
  return { kind: 'window', app: 'notes', id };
}

async function sceneOf(t: TestContext): Promise<Scene> {
  const writer = await startWriter(t);
  const layout = new Layout(writer.folder);
  mkdirSync(layout.app('notes').dir, { recursive: true });
  const warnings: string[] = [];
  const log = { warn: (_fields: object, message?: string) => void warnings.push(String(message)) };
  const db = writer.client('runtime');
  const again = () => {
    const tables = new RuntimeTables(new OneRuntimeDatabase(db), makeChatTables);
    return new Windows(new ChatStore({ tables, layout, log, now: () => 1000 + count }), writer.folder);
  };
  const windows = again();
  return { dir: layout.app('notes').chatDir, db, windows, warnings, again };
}

let count = 0;
const message = (text: string, more: Partial<NewTurn> = {}): NewTurn => ({
  turnId: `t${String(++count).padStart(4, '0')}`,
  message: text,
  mode: 'data',
  runner: 'stub',
  ts: 1000 + count,
  ...more,
});
const delta = (text: string): TurnEvent => ({ type: 'assistant.delta', delta: text });
const END: TurnEvent = { type: 'end' };
const start = ({ turnId, runner }: NewTurn): TurnEvent => ({ type: 'assistant.start', turnId, runner });

async function begin(window: OpenConversation, turn: NewTurn): Promise<StoredTurn> {
  return await window.begin(turn, [start(turn)]);
}

/** A whole turn with this answer. */
async function exchange(
  window: OpenConversation,
  text: string,
  answer: string,
  resumeId?: string,
): Promise<StoredTurn> {
  const turn = await begin(window, message(text));
  await window.append(turn, [delta(answer)]);
  await window.append(turn, [END], { ...(resumeId === undefined ? {} : { session: resumeId }), end: 'ok' });
  return turn;
}

async function eventsOf(window: OpenConversation, turn: StoredTurn, after = 0): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of window.events(turn, after)) events.push(event);
  return events;
}

test('a closed window has the same state when it is opened again', async (t) => {
  const { windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  assert.deepEqual([window.mode, window.turns, window.texts, window.resume('stub')], [null, [], [], null]);
  await exchange(window, 'Hello', 'Hi there', 'session-1');
  const second = await begin(window, message('And?', { idempotencyKey: 'k' }));
  await window.append(second, [delta('a'), delta('b'), { type: 'phase', phase: 'x' }, delta('c')]);
  await window.close();
  for (const store of [windows, again()]) {
    const reopened = await store.open('a');
    assert.equal(reopened.mode, 'data');
    assert.equal(reopened.resume('stub'), 'session-1');
    assert.equal(reopened.resume('other'), null);
    const [{ turnId } = { turnId: '' }] = reopened.turns;
    assert.deepEqual(reopened.texts, [
      { turnId, role: 'user', text: 'Hello' },
      { turnId, role: 'assistant', text: 'Hi there' },
    ]);
    assert.deepEqual(
      reopened.turns.map(({ state, lastId, idempotencyKey }) => [state, lastId, idempotencyKey]),
      [
        ['ok', 3, null],
        ['running', 5, 'k'],
      ],
    );
    const turn = reopened.turns[1] as StoredTurn;
    const all = await eventsOf(reopened, turn);
    assert.deepEqual(
      all.map(({ id }) => id),
      [1, 2, 3, 4, 5],
    );
    assert.deepEqual(
      all.slice(1).map(({ event }) => event),
      [delta('a'), delta('b'), { type: 'phase', phase: 'x' }, delta('c')],
    );
    assert.deepEqual(await eventsOf(reopened, turn, 2), all.slice(2));
    assert.deepEqual(await eventsOf(reopened, turn, 5), []);
  }
});

test('turns that wait are mixed with the one that runs, and read apart', async (t) => {
  const { windows } = await sceneOf(t);
  const window = await windows.open('a');
  const first = await begin(window, message('one'));
  const second = await begin(window, message('two'));
  await window.append(first, [delta('1')]);
  await window.append(first, [END], { end: 'aborted' });
  await window.append(second, [delta('2')]);
  await window.append(second, [END], { end: 'ok' });
  assert.deepEqual(
    (await eventsOf(window, first, 1)).map(({ event }) => event),
    [delta('1'), END],
  );
  assert.deepEqual(
    (await eventsOf(window, second, 1)).map(({ event }) => event),
    [delta('2'), END],
  );
  await window.close();
  const rows = await windows.history('a');
  assert.deepEqual(
    rows.map(({ seq, kind, ...row }) => [seq, kind, 'text' in row ? row.text : '', 'state' in row ? row.state : '']),
    [
      [1, 'user', 'one', 'aborted'],
      [2, 'user', 'two', 'ok'],
      [3, 'assistant', '1', ''],
      [4, 'assistant', '2', ''],
    ],
  );
});

/** What an earlier release wrote: two turns that ended, and one that it had begun when it was killed. */
const T = (n: number) => `018bcfe5-6800-7000-8000-00000000000${n}`;
const EARLIER = [
  `{"kind":"user","turnId":"${T(1)}","message":"What is open?\\nAll of it.","mode":"data","runner":"stub","ts":1700000000010,"idempotencyKey":"k1","model":"m-1","thinking":"low"}`,
  `{"kind":"events","turnId":"${T(1)}","ts":1700000000010,"id":1,"events":[{"type":"assistant.start","turnId":"${T(1)}","runner":"stub"}]}`,
  `{"kind":"user","turnId":"${T(2)}","message":"And done?","mode":"data","runner":"stub","ts":1700000000020,"limited":true}`,
  `{"kind":"events","turnId":"${T(2)}","ts":1700000000020,"id":1,"events":[{"type":"assistant.start","turnId":"${T(2)}","runner":"stub"},{"type":"phase","phase":"queued","detail":"1 before this one"}]}`,
  `{"kind":"events","turnId":"${T(1)}","ts":1700000000025,"id":2,"events":[{"type":"assistant.delta","deltas":["Let ","me see."]}],"session":"session-1"}`,
  `{"kind":"events","turnId":"${T(1)}","ts":1700000000030,"id":4,"events":[{"type":"tool.start","toolCallId":"1","toolName":"list","args":{}},{"type":"tool.result","toolCallId":"1","toolName":"list","ok":true,"result":"[]"},{"type":"assistant.delta","deltas":["Nothing."]}]}`,
  `{"kind":"events","turnId":"${T(1)}","ts":1700000000035,"id":7,"events":[{"type":"final","text":"Nothing."},{"type":"end"}],"end":"ok"}`,
  `{"kind":"events","turnId":"${T(2)}","ts":1700000000040,"id":3,"events":[{"type":"aborted"},{"type":"end"}],"end":"aborted"}`,
  `{"kind":"user","turnId":"${T(3)}","message":"Go on.","mode":"data","runner":"stub","ts":1700000000050}`,
  `{"kind":"events","turnId":"${T(3)}","ts":1700000000050,"id":1,"events":[{"type":"assistant.start","turnId":"${T(3)}","runner":"stub"}]}`,
  `{"kind":"events","turnId":"${T(3)}","ts":1700000000055,"id":2,"events":[{"type":"assistant.delta","deltas":["Going"]}]}`,
].map((line) => `${line}\n`);

test('the transcript of an earlier release is brought into rows as it was', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  mkdirSync(dir);
  writeFileSync(join(dir, 'wa.jsonl'), EARLIER.join(''));
  for (const store of [windows, again()]) {
    assert.deepEqual(await store.list(), [
      {
        windowId: 'a',
        mode: 'data',
        title: 'What is open?',
        turns: 3,
        adapter: 'stub',
        lastTurn: { turnId: T(3), state: 'running' },
        createdAt: 1700000000010,
        updatedAt: 1700000000050,
      },
    ]);
    assert.deepEqual(await store.history('a'), [
      { seq: 1, turnId: T(1), ts: 1700000000010, kind: 'user', text: 'What is open?\nAll of it.', state: 'ok' },
      { seq: 2, turnId: T(2), ts: 1700000000020, kind: 'user', text: 'And done?', state: 'aborted' },
      { seq: 3, turnId: T(1), ts: 1700000000025, kind: 'assistant', text: 'Let me see.' },
      {
        seq: 4,
        turnId: T(1),
        ts: 1700000000030,
        kind: 'tool',
        toolCallId: '1',
        toolName: 'list',
        args: {},
        ok: true,
        result: '[]',
      },
      { seq: 5, turnId: T(1), ts: 1700000000030, kind: 'assistant', text: 'Nothing.' },
      { seq: 6, turnId: T(3), ts: 1700000000050, kind: 'user', text: 'Go on.', state: 'running' },
      { seq: 7, turnId: T(3), ts: 1700000000055, kind: 'assistant', text: 'Going' },
    ]);
    const window = await store.open('a');
    assert.deepEqual([window.mode, window.limited, window.resume('stub')], ['data', true, 'session-1']);
    assert.deepEqual(
      window.turns.map(({ turnId, state, lastId, idempotencyKey }) => [turnId, state, lastId, idempotencyKey]),
      [
        [T(1), 'ok', 8, 'k1'],
        [T(2), 'aborted', 4, null],
        [T(3), 'running', 2, null],
      ],
    );
    assert.deepEqual(
      window.texts.map(({ text }) => text),
      ['What is open?\nAll of it.', 'Nothing.', 'And done?'],
    );
  }
  assert.deepEqual(
    windows.store.copies.withOpenTurns.map(({ id }) => id),
    ['a'],
    'its last turn is to be ended',
  );
  const [window, turn] = await (async () => {
    const open = await windows.open('a');
    return [open, open.turns.at(-1) as StoredTurn] as const;
  })();
  await window.append(turn, [END], { end: 'interrupted' });
  const text = readFileSync(join(dir, 'wa.jsonl'), 'utf8');
  assert.ok(text.startsWith(EARLIER.join('')), 'what was there stays');
  const [line] = text.trimEnd().split('\n').slice(-1);
  assert.deepEqual(JSON.parse(String(line)).end, 'interrupted');
});

test('a transcript that was cut anywhere is brought up to its last whole line, and goes on', async (t) => {
  const whole = Buffer.from(EARLIER.join(''));
  const { dir, windows, again } = await sceneOf(t);
  const path = join(dir, 'wa.jsonl');
  mkdirSync(dir);
  for (let bytes = whole.length; bytes >= 0; bytes -= 61) {
    writeFileSync(path, whole.subarray(0, bytes));
    const lines = whole.subarray(0, bytes).toString().split('\n').slice(0, -1);
    const cut = await again().open('a');
    const users = lines.filter((line) => line.includes('"kind":"user"')).length;
    assert.equal(cut.turns.length, users, `${bytes} bytes`);
    await exchange(cut, 'After', 'Still here');
    await cut.close();
    const text = readFileSync(path, 'utf8');
    assert.ok(text.startsWith(lines.map((line) => `${line}\n`).join('')));
    // Without the rows all of it is still in the file.
    await windows.store.forgetWindows('notes');
    const reopened = await again().open('a');
    assert.equal(reopened.turns.length, users + 1, `${bytes} bytes`);
    assert.deepEqual(
      reopened.texts.slice(-2).map((one) => one.text),
      ['After', 'Still here'],
    );
    await windows.store.forgetWindows('notes');
  }
});

test('garbage in a transcript is passed over', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  const { turnId } = await exchange(window, 'Hello', 'Hi');
  await window.close();
  const garbage = ['null', '7', '{}', '{"kind":"user","turnId":"x","ts":1}', '\0\0\0', '[', '"text"'];
  const events = `{"kind":"events","turnId":"${turnId}","ts":1,"id":9,"events":[{"type":"assistant.delta","delta":"old"},7]}`;
  const unknown = '{"kind":"events","turnId":"nobody","ts":1,"id":1,"events":[{"type":"end"}],"end":"ok"}';
  appendFileSync(join(dir, 'wa.jsonl'), `${[...garbage, events, unknown].join('\n')}\n`);
  const reopened = await again().open('a');
  assert.deepEqual(
    reopened.turns.map(({ state }) => state),
    ['ok'],
  );
  await exchange(reopened, 'Again', 'Yes');
  await reopened.close();
  assert.equal((await again().history('a')).length, 4);
  await windows.store.forgetWindows('notes');
  assert.equal((await again().history('a')).length, 4, 'from the file alone');
});

test('what a file lacks is added to it, and what rows lack to them', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  const path = join(dir, 'wa.jsonl');
  const window = await windows.open('a');
  await exchange(window, 'One', '1', 'session-1');
  const one = readFileSync(path, 'utf8');
  await exchange(window, 'Two', '2');
  const two = readFileSync(path, 'utf8');
  assert.ok(two.startsWith(one), 'lines are only added');
  const said = ['One', '1', 'Two', '2'];
  for (const text of [one, '', one.slice(0, -7), `${two}{"kind":"user","turnId":"cut`]) {
    writeFileSync(path, text);
    assert.equal((await again().list())[0]?.turns, 2);
    await windows.store.forgetWindows('notes');
    const read = await again().open('a');
    assert.deepEqual(
      [...read.texts.map((each) => each.text), read.resume('stub')],
      [...said, 'session-1'],
      `the file had ${text.length} bytes`,
    );
  }
  rmSync(dir, { recursive: true });
  await again().list();
  // A turn that an earlier release added, while the rows did not change.
  const later = message('Three');
  const lines = [
    { kind: 'user', ...later },
    { kind: 'events', turnId: later.turnId, ts: 7, id: 1, events: [start(later), END], end: 'ok' },
  ];
  appendFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  assert.equal((await again().list())[0]?.turns, 3);
});

test('a window is of who sent its first message, in rows and in its file; those of earlier releases are nobody’s', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  const [ada, mia] = [
    { id: 'p_1', name: 'Ada' },
    { id: 'p_2', name: 'Mia' },
  ];
  for (const [id, ...people] of [
    ['own', ada, mia],
    ['old', undefined, ada],
  ] as const) {
    const window = await windows.open(id);
    assert.equal(window.by, null);
    for (const by of people) {
      const said = message('Hello', by === undefined ? {} : { by });
      const turn = await window.begin(said, [start(said)]);
      await window.append(turn, [END], { end: 'ok' });
    }
  }
  const writers = async (store: Windows, id: string) => (await store.history(id)).map((row) => 'by' in row && row.by);
  for (const forget of [false, true]) {
    if (forget) await windows.store.forgetWindows('notes');
    const read = again();
    assert.deepEqual((await read.list()).map(({ windowId, by }) => [windowId, by]).sort(), [
      ['old', undefined],
      ['own', ada],
    ]);
    assert.deepEqual([(await read.about('own')).by, (await read.open('own')).by], [ada, ada]);
    assert.equal((await read.about('old')).by, null);
    assert.deepEqual(
      [await writers(read, 'own'), await writers(read, 'old')],
      [
        [ada, mia],
        [false, ada],
      ],
    );
  }
  const [first] = readFileSync(join(dir, 'wown.jsonl'), 'utf8').split('\n');
  assert.deepEqual(JSON.parse(String(first)).by, ada);
});

test('the list has titles and counts, the latest first, and so has the index', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  assert.deepEqual(await windows.list(), []);
  for (const id of ['a', 'b', 'c']) {
    const window = await windows.open(id);
    await exchange(window, `  Ask ${id}\nand more`, 'x');
    await window.close();
  }
  const window = await windows.open('a');
  const last = await begin(window, message(`${'long '.repeat(50)}`));
  await window.append(last, [delta('x')]);
  const shown = await windows.list();
  assert.deepEqual(
    shown.map(({ windowId, title, turns, adapter, lastTurn }) => [windowId, title, turns, adapter, lastTurn.state]),
    [
      ['a', 'Ask a', 2, 'stub', 'running'],
      ['c', 'Ask c', 1, 'stub', 'ok'],
      ['b', 'Ask b', 1, 'stub', 'ok'],
    ],
  );
  assert.deepEqual(await again().list(), shown);
  await windows.flush();
  const path = join(dir, 'index.json');
  const indexed = Object.entries(JSON.parse(readFileSync(path, 'utf8')).windows) as [string, Record<string, unknown>][];
  assert.deepEqual(
    indexed.map(([windowId, { session: _, bytes: __, ...entry }]) => ({
      windowId,
      ...entry,
    })),
    shown,
  );
  const bytes = Object.fromEntries(indexed.map(([id, entry]) => [id, entry.bytes]));
  assert.deepEqual(bytes, {
    a: statSync(join(dir, 'wa.jsonl')).size,
    b: statSync(join(dir, 'wb.jsonl')).size,
    c: statSync(join(dir, 'wc.jsonl')).size,
  });
  for (const damage of [
    () => writeFileSync(path, '{'),
    () => rmSync(path),
    () => mkdirSync(path),
    () => mkdirSync(join(dir, 'wdir.jsonl')),
    () => writeFileSync(join(dir, 'notes.txt'), 'x'),
  ]) {
    damage();
    assert.deepEqual(await again().list(), shown);
  }
  const other = await windows.open('b');
  await exchange(other, 'More', 'x');
  await windows.flush();
  assert.ok(readFileSync(path, 'utf8').includes('"b"'), 'a folder in its place is set aside');
});

const DAMAGES: Record<string, (path: string, dir: string) => void> = {
  'a folder': (path) => mkdirSync(join(path, 'inside'), { recursive: true }),
  'a link': (path, dir) => symlinkSync(join(dir, 'wother.jsonl'), path),
  'a link to nowhere': (path) => symlinkSync('nowhere', path),
  'a pipe': (path) => void execFileSync('mkfifo', [path]),
};
for (const [what, put] of Object.entries(DAMAGES)) {
  test(`${what} in the place of a transcript harms this window alone, which can be deleted`, async (t) => {
    const { dir, windows, again } = await sceneOf(t);
    const window = await windows.open('other');
    await exchange(window, 'Hello', 'Hi');
    await window.close();
    const listed = await windows.list();
    const path = join(dir, 'whurt.jsonl');
    put(path, dir);
    const other = readFileSync(join(dir, 'wother.jsonl'), 'utf8');
    const damaged = { code: 'WINDOW_DAMAGED', path: undefined };
    for (const store of [windows, again()]) {
      const window = await store.open('hurt');
      assert.deepEqual([window.mode, window.turns], [null, []]);
      await assert.rejects(begin(window, message('Hello?')), damaged);
      await window.close();
      await assert.rejects(store.history('hurt'), damaged);
      assert.deepEqual(await store.about('hurt'), { mode: 'full', by: null }, 'what it was is not known');
      assert.equal((await store.history('other')).length, 2);
    }
    const store = again();
    assert.deepEqual(await store.list(), listed);
    await store.remove('hurt');
    await assert.rejects(store.about('hurt'), { code: 'UNKNOWN_WINDOW' });
    assert.equal(existsSync(join(dir, 'whurt.jsonl.damaged/inside')), what === 'a folder', 'what was in it is kept');
    const anew = await store.open('hurt');
    await exchange(anew, 'Again', 'Yes');
    await anew.close();
    await store.flush();
    assert.deepEqual((await again().list()).map(({ windowId }) => windowId).sort(), ['hurt', 'other']);
    assert.equal(readFileSync(join(dir, 'wother.jsonl'), 'utf8'), other);
  });

  test(`${what} in the place of the transcript of a window with rows harms nothing, and is set aside`, async (t) => {
    const { dir, windows, again } = await sceneOf(t);
    const path = join(dir, 'whurt.jsonl');
    const window = await windows.open('hurt');
    await exchange(window, 'Hello', 'Hi');
    const before = readFileSync(path, 'utf8');
    rmSync(path);
    put(path, dir);
    await exchange(window, 'And?', 'Yes');
    const after = readFileSync(path, 'utf8');
    assert.ok(after.startsWith(before) && after.length > before.length);
    assert.ok(lstatSync(`${path}.damaged`));
    rmSync(path);
    put(path, dir);
    assert.equal((await again().history('hurt')).length, 4);
    assert.equal(readFileSync(path, 'utf8'), after);
  });
}

test('a window that is removed is gone, and begins anew', async (t) => {
  const { dir, windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  await windows.remove('a');
  await assert.rejects(windows.history('a'), { code: 'UNKNOWN_WINDOW' });
  assert.ok(!existsSync(join(dir, 'wa.jsonl')));
  assert.deepEqual(await again().list(), []);
  const anew = await windows.open('a');
  assert.deepEqual([anew.mode, anew.turns, anew.texts], [null, [], []]);
  await begin(anew, message('x', { mode: 'full' }));
  assert.equal((await again().list())[0]?.mode, 'full');
});

test('a full window takes no more, an app no more windows, and a removed app gets no folder back', async (t) => {
  const { dir, db, windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  const set = 'UPDATE conversations SET transcript_bytes = ?';
  await db.run(set, [LIMITS.chatTranscriptBytes + 1]);
  const full = await windows.open('a');
  await assert.rejects(begin(full, message('x')), { code: 'CONFLICT', path: 'windowId' });
  await db.run(set, [LIMITS.chatTranscriptBytes]);
  await begin(await windows.open('a'), message('x'));

  const fill = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
    INSERT INTO conversations (conversation_id, app_id, kind, created_at, updated_at)
    SELECT 'svc-chat:notes:wx' || i, 'notes', 'window', 1, 1 FROM n`;
  await db.run(fill, [LIMITS.chatWindows - 1]);
  await assert.rejects(begin(await windows.open('new'), message('x')), { code: 'CONFLICT' });
  await windows.store.create('notes', {});
  await windows.store.forgetWindows('notes');
  rmSync(join(dir, '..'), { recursive: true });
  await assert.rejects(begin(await again().open('a'), message('x')), { code: 'UNKNOWN_APP' });
});

test('the history for an agent is bounded, the latest last', async (t) => {
  const { windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  for (let i = 0; i < 8; i++) await exchange(window, `ask ${i}`, `${i}`.repeat(LIMITS.chatHistoryTextChars + 5));
  await window.close();
  const { texts: said } = await again().open('a');
  const chars = said.reduce((sum, { text }) => sum + text.length, 0);
  assert.ok(chars <= LIMITS.chatHistoryChars && chars > LIMITS.chatHistoryChars / 2, `${chars}`);
  const last = said.at(-1)?.text ?? '';
  assert.match(last, /^\[the beginning is cut\] 7+$/);
  assert.equal(last.length, LIMITS.chatHistoryTextChars);
});

test('a half answer that was tried again is not beside the whole one', async (t) => {
  const { windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  const turn = await begin(window, message('Hello'));
  const say = (delta: string): TurnEvent => ({ type: 'assistant.delta', delta });
  await window.append(turn, [{ type: 'reasoning.delta', delta: 'hm' }, say('Half')]);
  await window.append(turn, [{ type: 'phase', phase: 'retrying' }, say('Half and'), say(' the rest')]);
  await window.append(turn, [END], { end: 'ok' });
  await window.close();
  const { texts: said } = await again().open('a');
  assert.equal(said.at(-1)?.text, 'Half and the rest');
  const rows = await again().history('a');
  assert.deepEqual(
    rows.map((row) => (row.kind === 'assistant' ? [row.text, row.reasoning] : row.kind)),
    ['user', ['Half and the rest', undefined]],
  );
});

test('another runner goes on without the session of the one before', async (t) => {
  const { windows, again } = await sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi', 'of-stub');
  const turn = await begin(window, message('You?', { runner: 'other' }));
  await window.append(turn, [END], { end: 'ok' });
  for (const one of [window, await again().open('a')]) {
    assert.deepEqual([one.resume('stub'), one.resume('other')], [null, null]);
  }
});

test('the transcript of a draft is in its folder, and that of the app is untouched', async (t) => {
  const { dir, windows } = await sceneOf(t);
  const { dir: folder, chatDir } = new Layout(windows.folder).app(draftKey('s1', 'notes'));
  mkdirSync(folder, { recursive: true });
  await exchange(await windows.open('w'), 'Live', 'The app');
  const before = readFileSync(join(dir, 'ww.jsonl'), 'utf8');
  await exchange(await windows.store.open({ ...nameOf('w'), draft: 's1' }), 'Edited', 'The draft');
  await windows.flush();
  assert.equal(readFileSync(join(dir, 'ww.jsonl'), 'utf8'), before);
  const copy = readFileSync(join(chatDir, 'ww.jsonl'), 'utf8');
  assert.ok(copy.includes('Edited') && !copy.includes('Live'), copy);
});

test('the windows of a draft whose workspace is gone are forgotten at the start, and the turns of others end', async (t) => {
  const { windows, again } = await sceneOf(t);
  for (const draft of ['gone', 'kept']) {
    const name = { ...nameOf('w'), draft };
    mkdirSync(join(windows.folder, 'apps', draftKey(draft, 'notes')), { recursive: true });
    await begin(await windows.store.open(name), message(draft));
  }
  await begin(await windows.open('w'), message('live'));
  const { store } = again();
  const chat = new Chat({
    store,
    runner: { choose: () => assert.fail(), run: () => assert.fail() },
    engine: standIn({}),
    drafts: { has: async (resumeId: string) => resumeId === 'kept' } as TurnDrafts,
    refusalOf: () => null,
    log: pino({ enabled: false }),
  });
  await chat.open();
  const statesOf = async (key: string) => (await store.windows(key)).map(({ lastTurn }) => lastTurn.state);
  assert.deepEqual(
    [await statesOf(draftKey('gone', 'notes')), await statesOf(draftKey('kept', 'notes')), await statesOf('notes')],
    [[], ['interrupted'], ['interrupted']],
  );
  await store.copies.flush();
});

test('windows and conversations of an earlier release have one table', async (t) => {
  const writer = await startWriter(t);
  const db = writer.client('runtime');
  // As that release made it.
  await db.exec(`
    CREATE TABLE conversations (
      conversation_id TEXT PRIMARY KEY,
      app_id TEXT NOT NULL,
      title TEXT,
      adapter TEXT,
      adapter_session TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    );
    CREATE INDEX conversations_by_app ON conversations (app_id, updated_at, conversation_id);
    INSERT INTO conversations VALUES ('c1', 'notes', 'Old', 'stub', NULL, 1, 2)`);
  const layout = new Layout(writer.folder);
  mkdirSync(layout.app('notes').dir, { recursive: true });
  for (let start = 0; start < 2; start++) {
    const tables = new RuntimeTables(new OneRuntimeDatabase(db), makeChatTables);
    const store = new ChatStore({ tables, layout, log: { warn: () => assert.fail() } });
    assert.deepEqual(
      (await store.list('notes', 50, null)).map(({ conversationId, title }) => [conversationId, title]),
      [['c1', 'Old']],
    );
    const window = await store.open(nameOf('c1'));
    if (start === 0) await exchange(window, 'Hello', 'Hi');
    assert.deepEqual(
      (await store.windows('notes')).map(({ windowId, title }) => [windowId, title]),
      [['c1', 'Hello']],
    );
    await assert.rejects(store.get('notes', 'svc-chat:notes:wc1'), { code: 'UNKNOWN_CONVERSATION' });
    await store.copies.flush();
  }
});
