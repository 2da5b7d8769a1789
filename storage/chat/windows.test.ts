import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { TurnEvent } from '../../protocol/agents/agents.ts';
import type { NewTurn, OpenConversation, StoredEvent, StoredTurn } from '../../protocol/agents/turns.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ChatWindows } from './windows.ts';

type Scene = { dir: string; windows: ChatWindows; warnings: string[]; again(): ChatWindows };

function sceneOf(t: TestContext): Scene {
  const app = mkdtempSync(join(tmpdir(), 'svc-windows-'));
  t.after(() => rmSync(app, { recursive: true, force: true }));
  const dir = join(app, '_chat');
  const warnings: string[] = [];
  const log = { warn: (_fields: object, message: string) => void warnings.push(message) };
  const again = () => {
    const windows = new ChatWindows(dir, log);
    const open = windows.open.bind(windows);
    windows.open = async (windowId) => {
      const window = await open(windowId);
      // From Node 26 on it is an error when a file is closed by the garbage collector.
      t.after(() => window.close());
      return window;
    };
    return windows;
  };
  return { dir, windows: again(), warnings, again };
}

let count = 0;
const message = (text: string, more: Partial<NewTurn> = {}): NewTurn => ({
  turnId: `t${++count}`,
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
async function exchange(window: OpenConversation, text: string, answer: string, session?: string): Promise<StoredTurn> {
  const turn = await begin(window, message(text));
  await window.append(turn, [delta(answer)]);
  await window.append(turn, [END], { ...(session === undefined ? {} : { session }), end: 'ok' });
  return turn;
}

async function eventsOf(window: OpenConversation, turn: StoredTurn, after = 0): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of window.events(turn, after)) events.push(event);
  return events;
}

test('a closed window has the same state when it is opened again', async (t) => {
  const { windows, again } = sceneOf(t);
  const window = await windows.open('a');
  assert.deepEqual([window.mode, window.turns, window.said, window.resume('stub')], [null, [], [], null]);
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
    assert.deepEqual(reopened.said, [
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
  const { windows } = sceneOf(t);
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

test('a transcript that was cut anywhere loads up to its last whole line, and goes on', async (t) => {
  const { dir, windows, again } = sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await exchange(window, 'More', 'Yes');
  await window.close();
  await windows.flush();
  const path = join(dir, 'wa.jsonl');
  const whole = readFileSync(path);
  for (let bytes = whole.length; bytes >= 0; bytes -= 7) {
    writeFileSync(path, whole.subarray(0, bytes));
    const lines = whole.subarray(0, bytes).toString().split('\n').slice(0, -1);
    const store = again();
    const cut = await store.open('a');
    const users = lines.filter((line) => line.includes('"kind":"user"')).length;
    // Half a line that is all there but its end counts as well.
    assert.ok(cut.turns.length === users || cut.turns.length === users + 1, `${bytes} bytes`);
    await exchange(cut, 'After', 'Still here');
    await cut.close();
    const reopened = await again().open('a');
    assert.equal(reopened.turns.length, cut.turns.length, `${bytes} bytes`);
    const turnId = reopened.turns.at(-1)?.turnId;
    assert.deepEqual(reopened.said.slice(-2), [
      { turnId, role: 'user', text: 'After' },
      { turnId, role: 'assistant', text: 'Still here' },
    ]);
    await store.flush();
  }
});

test('garbage in a transcript is passed over', async (t) => {
  const { dir, windows, again } = sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  const garbage = ['null', '7', '{}', '{"kind":"user","turnId":"x","ts":1}', '\0\0\0', '[', '"text"'];
  const events = '{"kind":"events","turnId":"t1","ts":1,"id":9,"events":[{"type":"assistant.delta","delta":"old"},7]}';
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
});

test('the list has titles and counts, the latest first, also with a missing or damaged index', async (t) => {
  const { dir, windows, again } = sceneOf(t);
  assert.deepEqual(await windows.list(), []);
  for (const id of ['a', 'b', 'c']) {
    const window = await windows.open(id);
    await exchange(window, `  Ask ${id}\nand more`, 'x');
    await window.close();
  }
  const window = await windows.open('a');
  const last = await begin(window, message(`${'long '.repeat(50)}`));
  await windows.flush();
  await window.append(last, [delta('x')]);
  const listed = (await windows.list()).map(({ windowId, title, turns, adapter, lastTurn }) => {
    return [windowId, title, turns, adapter, lastTurn.state];
  });
  assert.deepEqual(listed[0], ['a', 'Ask a', 2, 'stub', 'running']);
  assert.deepEqual(listed.map(([id]) => id).sort(), ['a', 'b', 'c']);
  const index = join(dir, 'index.json');
  const shown = await windows.list();
  // What was appended since the index was written is in the transcript.
  assert.deepEqual(await again().list(), shown);
  for (const text of ['', '{', 'null', '[]', '{"windows":7}', '{"windows":{"a":null,"gone":{"bytes":1}}}']) {
    writeFileSync(index, text);
    assert.deepEqual(await again().list(), shown, text);
  }
  const { size } = statSync(join(dir, 'wa.jsonl'));
  for (const entry of [{ bytes: size }, { bytes: size, lastTurn: {} }]) {
    writeFileSync(index, JSON.stringify({ windows: { a: entry } }));
    assert.deepEqual(await again().list(), shown, JSON.stringify(entry));
  }
  rmSync(index);
  assert.deepEqual(await again().list(), shown);
  mkdirSync(index);
  const anew = again();
  assert.deepEqual(await anew.list(), shown);
  const other = await anew.open('b');
  await exchange(other, 'More', 'x');
  await other.close();
  await anew.flush();
  assert.ok(readFileSync(index, 'utf8').includes('"b"'), 'a folder in its place is set aside');
  const now = await anew.list();
  mkdirSync(join(dir, 'wdir.jsonl'));
  writeFileSync(join(dir, 'notes.txt'), 'x');
  assert.deepEqual(await again().list(), now);
});

const DAMAGES: Record<string, (path: string, dir: string) => void> = {
  'a folder': (path) => mkdirSync(join(path, 'inside'), { recursive: true }),
  'a link': (path, dir) => symlinkSync(join(dir, 'wother.jsonl'), path),
  'a link to nowhere': (path) => symlinkSync('nowhere', path),
  'a pipe': (path) => void execFileSync('mkfifo', [path]),
};
for (const [what, put] of Object.entries(DAMAGES)) {
  test(`${what} in the place of a transcript harms this window alone, which can be deleted`, async (t) => {
    const { dir, windows, again } = sceneOf(t);
    for (const id of ['hurt', 'other']) {
      const window = await windows.open(id);
      await exchange(window, 'Hello', 'Hi');
      await window.close();
    }
    await windows.flush();
    const listed = await windows.list();
    const path = join(dir, 'whurt.jsonl');
    rmSync(path);
    put(path, dir);
    const other = readFileSync(join(dir, 'wother.jsonl'), 'utf8');
    const damaged = { code: 'WINDOW_DAMAGED', path: undefined };
    for (const store of [windows, again()]) {
      const window = await store.open('hurt');
      assert.deepEqual([window.mode, window.turns], [null, []]);
      await assert.rejects(begin(window, message('Hello?')), damaged);
      await window.close();
      await assert.rejects(store.history('hurt'), damaged);
      assert.equal(await store.has('hurt'), true);
      assert.equal((await store.history('other')).length, 2);
    }
    const store = again();
    assert.equal(await store.modeOf('hurt'), 'full', 'what it was is not known');
    const rest = listed.filter(({ windowId }) => windowId === 'other');
    assert.deepEqual(await store.list(), rest);
    assert.deepEqual([await store.remove('hurt'), await store.remove('hurt')], [true, false]);
    assert.equal(existsSync(join(dir, 'whurt.jsonl.damaged/inside')), what === 'a folder', 'what was in it is kept');
    const anew = await store.open('hurt');
    await exchange(anew, 'Again', 'Yes');
    await anew.close();
    await store.flush();
    assert.deepEqual((await again().list()).map(({ windowId }) => windowId).sort(), ['hurt', 'other']);
    assert.equal(readFileSync(join(dir, 'wother.jsonl'), 'utf8'), other);
  });
}

test('a window that is removed is gone, and begins anew', async (t) => {
  const { windows, again } = sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  assert.equal(await windows.remove('a'), true);
  assert.equal(await windows.remove('a'), false);
  assert.deepEqual(await again().list(), []);
  const anew = await windows.open('a');
  assert.deepEqual([anew.mode, anew.turns, anew.said], [null, [], []]);
  await begin(anew, message('x', { mode: 'full' }));
  assert.equal((await again().list())[0]?.mode, 'full');
});

test('a full window takes no more, an app no more windows, and a removed app gets no folder back', async (t) => {
  const { dir, windows } = sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  const path = join(dir, 'wa.jsonl');
  truncateSync(path, LIMITS.chatTranscriptBytes + 1);
  const full = await windows.open('a');
  await assert.rejects(begin(full, message('x')), { code: 'CONFLICT', path: 'windowId' });

  await windows.flush();
  const entry = (await windows.list())[0];
  for (let i = 1; i < LIMITS.chatWindows; i++) {
    const turn = message('x');
    writeFileSync(join(dir, `wx${i}.jsonl`), `${JSON.stringify({ kind: 'user', ...turn })}\n`);
  }
  assert.ok(entry);
  const many = new ChatWindows(dir, { warn: () => {} });
  await assert.rejects(begin(await many.open('new'), message('x')), { code: 'CONFLICT' });
  rmSync(join(dir, '..'), { recursive: true });
  const removed = new ChatWindows(dir, { warn: () => {} });
  await assert.rejects(begin(await removed.open('a'), message('x')), { code: 'UNKNOWN_APP' });
});

test('the history for an agent is bounded, the latest last', async (t) => {
  const { windows, again } = sceneOf(t);
  const window = await windows.open('a');
  for (let i = 0; i < 8; i++) await exchange(window, `ask ${i}`, `${i}`.repeat(LIMITS.chatHistoryTextChars + 5));
  await window.close();
  const { said } = await again().open('a');
  const chars = said.reduce((sum, { text }) => sum + text.length, 0);
  assert.ok(chars <= LIMITS.chatHistoryChars && chars > LIMITS.chatHistoryChars / 2, `${chars}`);
  const last = said.at(-1)?.text ?? '';
  assert.match(last, /^\[the beginning is cut\] 7+$/);
  assert.equal(last.length, LIMITS.chatHistoryTextChars);
});

test('a half answer that was tried again is not beside the whole one', async (t) => {
  const { windows, again } = sceneOf(t);
  const window = await windows.open('a');
  const turn = await begin(window, message('Hello'));
  const say = (delta: string): TurnEvent => ({ type: 'assistant.delta', delta });
  await window.append(turn, [{ type: 'reasoning.delta', delta: 'hm' }, say('Half')]);
  await window.append(turn, [{ type: 'phase', phase: 'retrying' }, say('Half and'), say(' the rest')]);
  await window.append(turn, [END], { end: 'ok' });
  await window.close();
  const { said } = await again().open('a');
  assert.equal(said.at(-1)?.text, 'Half and the rest');
  const rows = await again().history('a');
  assert.deepEqual(
    rows.map((row) => (row.kind === 'assistant' ? [row.text, row.reasoning] : row.kind)),
    ['user', ['Half and the rest', undefined]],
  );
});

test('another runner goes on without the session of the one before', async (t) => {
  const { windows, again } = sceneOf(t);
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi', 'of-stub');
  const turn = await begin(window, message('You?', { runner: 'other' }));
  await window.append(turn, [END], { end: 'ok' });
  for (const one of [window, await again().open('a')]) {
    assert.deepEqual([one.resume('stub'), one.resume('other')], [null, null]);
  }
});

test('a window that was closed lately is not read again, unless its transcript changed', async (t) => {
  const { dir, windows } = sceneOf(t);
  const path = join(dir, 'wa.jsonl');
  const window = await windows.open('a');
  await exchange(window, 'Hello', 'Hi');
  await window.close();
  const text = readFileSync(path, 'utf8');
  // As long as it was.
  writeFileSync(path, text.replaceAll('Hi', 'Ho'));
  const kept = await windows.open('a');
  assert.equal(kept.said.at(-1)?.text, 'Hi');
  writeFileSync(path, text.replaceAll('Hi', 'Hooo'));
  await exchange(kept, 'And?', 'Yes');
  await kept.close();
  const read = await windows.open('a');
  assert.deepEqual(
    read.said.map((one) => one.text),
    ['Hello', 'Hooo', 'And?', 'Yes'],
  );
});
