import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { AppLogs, type LogEntry } from './app-log.ts';
import { Layout } from './layout.ts';

function setUp(t: TestContext, ...apps: string[]) {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-logs-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const layout = new Layout(dataDir);
  for (const app of apps) mkdirSync(layout.app(app).dir, { recursive: true });
  const folderOf = (app: string) => layout.app(app).dir;
  const fileOf = (app: string) => layout.app(app).logs;
  return { folderOf, fileOf, logs: new AppLogs({ layout, now: () => 7 }) };
}

const line = (at: number, msg = 'hello') => JSON.stringify({ ts: new Date(at).toISOString(), msg });
const times = (entries: LogEntry[]) => entries.map((entry) => entry.ts);

test('lines are written in order, each app to its own file', async (t) => {
  const { logs, fileOf } = setUp(t, 'a', 'b');
  for (let i = 0; i < 5; i++) logs.append(i % 2 ? 'a' : 'b', line(i));
  await logs.flush();
  logs.append('a', line(9));
  await logs.flush();
  assert.equal(readFileSync(fileOf('a'), 'utf8'), [line(1), line(3), line(9), ''].join('\n'));
  assert.equal(readFileSync(fileOf('b'), 'utf8'), [line(0), line(2), line(4), ''].join('\n'));
  assert.equal(statSync(fileOf('a')).mode & 0o777, 0o600);
});

test('a line that spans lines is stored as one', async (t) => {
  const { logs } = setUp(t, 'a');
  logs.append('a', line(1).replace(',', ',\r\n'));
  assert.deepEqual(await logs.tail('a', 10), [{ ts: 1, msg: 'hello' }]);
});

test('tail gives the newest last, by limit and time, with lines not written yet', async (t) => {
  const { logs } = setUp(t, 'a');
  for (let i = 1; i <= 6; i++) logs.append('a', line(i));
  assert.deepEqual(times(await logs.tail('a', 3)), [4, 5, 6]);
  assert.deepEqual(times(await logs.tail('a', 2, 4)), [2, 3]);
  assert.deepEqual(await logs.tail('a', 5, 1), []);
  assert.deepEqual(await logs.tail('nobody', 5), []);
});

test('a full file moves to a second generation, a full second is given up; tail reads both', async (t) => {
  const { logs, fileOf, folderOf } = setUp(t, 'a');
  const filler = 'x'.repeat(60_000);
  const perFile = Math.floor(LIMITS.logFileBytes / line(1, filler).length);
  for (let i = 1; i <= perFile * 3; i++) {
    logs.append('a', line(i, filler));
    if (i % 10 === 0) await logs.flush();
  }
  const newest = perFile * 3;
  assert.deepEqual(times(await logs.tail('a', 3)), [newest - 2, newest - 1, newest]);
  const all = times(await logs.tail('a', 1000));
  assert.ok(all.length > perFile && all.length <= perFile * 2, `${all.length} lines are kept`);
  assert.deepEqual(
    all,
    Array.from({ length: all.length }, (_, i) => newest - all.length + 1 + i),
  );
  assert.deepEqual(readdirSync(folderOf('a')), ['logs.jsonl', 'logs.jsonl.1']);
  for (const file of [fileOf('a'), `${fileOf('a')}.1`]) assert.ok(statSync(file).size <= LIMITS.logFileBytes);
});

test('a line that a crash cut off neither spoils the next nor is returned', async (t) => {
  const { logs, fileOf } = setUp(t, 'a');
  writeFileSync(fileOf('a'), `${line(1)}\n${line(2).slice(0, -5)}`);
  logs.append('a', line(3));
  await logs.flush();
  appendFileSync(fileOf('a'), 'null\n[]\n"text"\n{"no":"time"}\n\n');
  assert.deepEqual(times(await logs.tail('a', 10)), [1, 3]);
});

test('lines over the limits are dropped, and the log says how many', async (t) => {
  const { logs } = setUp(t, 'a', 'b');
  const filler = 'x'.repeat(60_000);
  const fit = Math.floor(LIMITS.logBacklogBytes / line(1, filler).length);
  for (let i = 0; i < fit + 5; i++) logs.append('a', line(1, filler));
  logs.append('b', line(1, 'x'.repeat(LIMITS.logLineBytes)));
  assert.equal(logs.droppedLines, 6);

  const entries = await logs.tail('a', 100);
  assert.equal(entries.length, fit + 1);
  assert.deepEqual([entries.at(-1)?.ts, entries.at(-1)?.level], [7, 'warn']);
  assert.match(String(entries.at(-1)?.msg), /dropped here: 5\./);
  assert.match(String((await logs.tail('b', 100))[0]?.msg), /dropped here: 1\./);

  logs.append('a', line(2));
  assert.deepEqual(times(await logs.tail('a', 2)), [7, 2]);
});

test('a disk that refuses is survived, and the log says so once it takes lines again', async (t) => {
  const { logs, fileOf } = setUp(t, 'a');
  mkdirSync(fileOf('a'));
  logs.append('a', line(1));
  logs.append('a', line(2));
  await logs.flush();
  logs.append('a', line(3));
  await logs.flush();
  assert.equal(logs.droppedLines, 3);
  rmSync(fileOf('a'), { recursive: true });
  logs.append('a', line(4));
  const entries = await logs.tail('a', 10);
  assert.deepEqual(times(entries), [4, 7]);
  assert.match(String(entries[1]?.msg), /dropped here: 3\./);
});

test('an app that was removed is not written again', async (t) => {
  const { logs, folderOf, fileOf } = setUp(t, 'a');
  logs.append('a', line(1));
  await logs.close('a');
  await logs.flush();
  assert.equal(existsSync(fileOf('a')), false, 'what waited is forgotten');

  rmSync(folderOf('a'), { recursive: true });
  logs.append('a', line(2));
  await logs.flush();
  assert.equal(existsSync(folderOf('a')), false);
  assert.equal(logs.droppedLines, 0);

  mkdirSync(folderOf('a'));
  logs.append('a', line(3));
  assert.deepEqual(times(await logs.tail('a', 10)), [3]);
});

test('followers get lines at once, of one app or of all, until they end', async (t) => {
  const { logs } = setUp(t, 'a', 'b');
  const one: string[] = [];
  const all: string[] = [];
  const endOne = logs.follow('a', (_app, text) => one.push(text));
  logs.follow(null, (app, text) => all.push(`${app} ${text}`));
  logs.append('a', line(1));
  logs.append('b', line(2));
  endOne();
  logs.append('a', line(3));
  const entry = (ts: number) => JSON.stringify({ ts, msg: 'hello' });
  assert.deepEqual(one, [entry(1)]);
  assert.deepEqual(all, [`a ${entry(1)}`, `b ${entry(2)}`, `a ${entry(3)}`]);
  await logs.flush();
});
