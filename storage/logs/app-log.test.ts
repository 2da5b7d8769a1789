import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../layout.ts';
import { AppLogs } from './app-log.ts';
import { type LogEntry, parseCursor } from './log-pages.ts';

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
const tail = async (logs: AppLogs, app: string, limit: number, before?: number) =>
  (await logs.page(app, limit, before))?.entries ?? [];
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
  assert.deepEqual(await tail(logs, 'a', 10), [{ ts: 1, msg: 'hello' }]);
});

test('a page has the newest last, by limit and time, with lines not written yet', async (t) => {
  const { logs } = setUp(t, 'a');
  for (let i = 1; i <= 6; i++) logs.append('a', line(i));
  assert.deepEqual(times(await tail(logs, 'a', 3)), [4, 5, 6]);
  assert.deepEqual(times(await tail(logs, 'a', 2, 4)), [2, 3]);
  assert.deepEqual(await tail(logs, 'a', 5, 1), []);
  assert.deepEqual(await tail(logs, 'nobody', 5), []);
});

test('a full file moves to a second generation, a full second is given up; both are read', async (t) => {
  const { logs, fileOf, folderOf } = setUp(t, 'a');
  const filler = 'x'.repeat(60_000);
  const perFile = Math.floor(LIMITS.logFileBytes / line(1, filler).length);
  for (let i = 1; i <= perFile * 3; i++) {
    logs.append('a', line(i, filler));
    if (i % 10 === 0) await logs.flush();
  }
  const newest = perFile * 3;
  assert.deepEqual(times(await tail(logs, 'a', 3)), [newest - 2, newest - 1, newest]);
  const all = times(await tail(logs, 'a', 1000));
  assert.ok(all.length > perFile && all.length <= perFile * 2, `${all.length} lines are kept`);
  assert.deepEqual(
    all,
    Array.from({ length: all.length }, (_, i) => newest - all.length + 1 + i),
  );
  assert.deepEqual(readdirSync(folderOf('a')), ['logs.jsonl', 'logs.jsonl.1']);
  for (const file of [fileOf('a'), `${fileOf('a')}.1`]) assert.ok(statSync(file).size <= LIMITS.logFileBytes);
});

test('a line that a crash cut off is not returned and does not damage the next one', async (t) => {
  const { logs, fileOf } = setUp(t, 'a');
  writeFileSync(fileOf('a'), `${line(1)}\n${line(2).slice(0, -5)}`);
  logs.append('a', line(3));
  await logs.flush();
  appendFileSync(fileOf('a'), 'null\n[]\n"text"\n{"no":"time"}\n\n');
  assert.deepEqual(times(await tail(logs, 'a', 10)), [1, 3]);
});

/** Every page of a log from the newest back, by cursors; the entries of all of them in the order of the log. */
async function pages(logs: AppLogs, app: string, limit: number, ahead = async () => {}): Promise<LogEntry[][]> {
  const found: LogEntry[][] = [];
  for (let before: string | null | undefined; before !== null; ) {
    const page = await logs.page(app, limit, before === undefined ? undefined : parseCursor(before));
    assert.ok(page);
    found.unshift(page.entries);
    before = page.earlier;
    await ahead();
  }
  return found;
}

test('cursors lead through lines of one time and of disordered times, each once, while others are added', async (t) => {
  const { logs, fileOf } = setUp(t, 'a', 'b', 'empty');
  for (let i = 0; i < 95; i++) logs.append('a', line(i % 20 === 0 ? i : 50, `line ${i % 3 === 0 ? 'again' : i}`));
  const expected = (await tail(logs, 'a', 500)).map(({ ts, msg }) => `${ts} ${msg}`);
  assert.equal(expected.length, 95);
  for (const limit of [1, 10, 19, 94, 95, 96]) {
    const found = await pages(logs, 'a', limit, async () => logs.append('a', 'not read'));
    assert.deepEqual(
      found.flat().map(({ ts, msg }) => `${ts} ${msg}`),
      expected,
    );
    assert.deepEqual(
      found.map(({ length }) => length),
      [95 % limit || limit, ...Array.from({ length: Math.ceil(95 / limit) - 1 }, () => limit)].slice(
        -Math.ceil(95 / limit),
      ),
    );
  }
  assert.deepEqual(await pages(logs, 'empty', 10), [[]]);

  // One that ends without a newline can begin a page, too.
  writeFileSync(fileOf('b'), `${line(1)}\n${line(2)}`);
  assert.deepEqual((await pages(logs, 'b', 1)).map(times), [[1], [2]]);
});

test('a cursor leads to its place after a rotation; it is refused once its line is gone, and in another log', async (t) => {
  const { logs } = setUp(t, 'a', 'b');
  const filler = 'x'.repeat(60_000);
  const perFile = Math.floor(LIMITS.logFileBytes / line(1, filler).length);
  let written = 0;
  const write = async (lines: number) => {
    for (const last = written + lines; written < last; ) {
      logs.append('a', line(++written, filler));
      if (written % 10 === 0) await logs.flush();
    }
  };
  await write(20);
  const cursor = parseCursor((await logs.page('a', 5))?.earlier ?? '');
  assert.ok(cursor);
  const rest = async () => times((await logs.page('a', 10, cursor))?.entries ?? []);
  const before = [6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
  assert.deepEqual(await rest(), before);
  await write(perFile);
  assert.deepEqual(await rest(), before, 'after a rotation');
  await write(perFile);
  assert.equal(await logs.page('a', 10, cursor), null);

  logs.append('b', line(1));
  for (const text of ['0.0123456789abcdef', '999999999999999.0123456789abcdef', '7.e3b0c44298fc1c14'])
    assert.equal(await logs.page('b', 10, parseCursor(text)), null, text);
  for (const text of [
    '',
    '7',
    '.',
    '-1.0123456789abcdef',
    '1.0123456789ABCDEF',
    '1.0123456789abcdef0',
    `${'1'.repeat(16)}.0123456789abcdef`,
  ])
    assert.equal(parseCursor(text), undefined, text);
});

test('lines over the limits are dropped, and the log says how many', async (t) => {
  const { logs } = setUp(t, 'a', 'b');
  const filler = 'x'.repeat(60_000);
  const fit = Math.floor(LIMITS.logBacklogBytes / line(1, filler).length);
  for (let i = 0; i < fit + 5; i++) logs.append('a', line(1, filler));
  logs.append('b', line(1, 'x'.repeat(LIMITS.logLineBytes)));
  assert.equal(logs.droppedLines, 6);

  const entries = await tail(logs, 'a', 100);
  assert.equal(entries.length, fit + 1);
  assert.deepEqual([entries.at(-1)?.ts, entries.at(-1)?.level], [7, 'warn']);
  assert.match(String(entries.at(-1)?.msg), /dropped here: 5\./);
  assert.match(String((await tail(logs, 'b', 100))[0]?.msg), /dropped here: 1\./);

  logs.append('a', line(2));
  assert.deepEqual(times(await tail(logs, 'a', 2)), [7, 2]);
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
  const entries = await tail(logs, 'a', 10);
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
  assert.deepEqual(times(await tail(logs, 'a', 10)), [3]);
});

test('followers get lines at once, of one app or of all, until they end', async (t) => {
  const { logs } = setUp(t, 'a', 'b');
  const one: string[] = [];
  const all: string[] = [];
  const endOne = logs.follow('a', (_app, text) => one.push(text));
  logs.follow(null, (app, text) => all.push(`${app} ${text}`));
  logs.append('a', line(1));
  logs.append('b', line(2));
  endOne.stop();
  logs.append('a', line(3));
  const entry = (ts: number) => JSON.stringify({ ts, msg: 'hello' });
  assert.deepEqual(one, [entry(1)]);
  assert.deepEqual(all, [`a ${entry(1)}`, `b ${entry(2)}`, `a ${entry(3)}`]);
  await logs.flush();
});

test('a log of which one file cannot be opened leaves the other one closed', { skip: noProc() }, async (t) => {
  const { logs, fileOf } = setUp(t, 'a');
  writeFileSync(fileOf('a'), `${line(1)}\n`);
  symlinkSync(`${fileOf('a')}.1`, `${fileOf('a')}.1`);
  await assert.rejects(logs.page('a', 10), { code: 'ELOOP' });
  const opened = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  assert.ok(!opened.includes(fileOf('a')), 'it is still open');
});

/** Open files are listed on Linux alone. */
function noProc(): string | false {
  return process.platform === 'linux' ? false : 'There is no /proc here.';
}
