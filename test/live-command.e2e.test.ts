/**
 * `svc live` as people use it: the built executable against a real gateway that restarts, also with unknown queries.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { type AppSource, appOf } from '../testing/apps.ts';
import { svc } from '../testing/command-line.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const APP: AppSource = {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: {
    list: {
      run: '({ db, input }) => db.all("SELECT text FROM notes WHERE text LIKE ? ORDER BY id", (input.like ?? "") + "%")',
      input: { type: 'object', properties: { like: { type: 'string' } }, additionalProperties: false },
    },
    odd: 'async ({ db }) => { const { n } = await db.get("SELECT count(*) AS n FROM notes"); if (n % 2 === 1) throw new Error("An odd number."); return n; }',
  },
  actions: { add: '({ db, input }) => db.run("INSERT INTO notes (text) VALUES (?)", input.text)' },
};
const gateway = gatewayOfSuite({});

type Following = {
  child: ChildProcess;
  /** The next line of standard output. */
  line(): Promise<string>;
  said(): string;
  /** Exit code and signal, once all output has been read. */
  ended: Promise<[number | null, NodeJS.Signals | null]>;
};

function follow(t: TestContext, ...words: string[]): Following {
  const child = spawn(process.execPath, [join(root, 'bin/svc.js'), 'live', ...words], {
    env: { PATH: process.env.PATH, HOME: gateway.dataDir, SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  return {
    child,
    line: async () => {
      const { value, done } = await inTime(lines.next(), `the next line of svc live ${words.join(' ')}`, LONG_MS);
      assert.ok(!done, `svc live ${words.join(' ')} ended: ${said}`);
      return value;
    },
    said: () => said,
    ended: once(child, 'close') as Following['ended'],
  };
}

const install = (app: string) => gateway.install(app, appOf(app, APP));

const add = async (app: string, text: string) => assert.equal((await gateway.write(app, 'add', { text })).status, 200);

test('svc live prints the result at once and whenever it differs, until Ctrl-C', async (t) => {
  await install('printed');
  const following = follow(t, 'printed', 'list', '{"like": "M"}');
  assert.deepEqual(JSON.parse(await following.line()), []);
  await add('printed', 'Bread');
  await add('printed', 'Milk');
  assert.deepEqual(JSON.parse(await following.line()), [{ text: 'Milk' }]);
  following.child.kill('SIGINT');
  assert.deepEqual(await inTime(following.ended, 'the end of svc live'), [null, 'SIGINT']);
  assert.equal(following.said(), '');
  await eventually(async () => (await gateway.system()).counters.subscribers === 0);
});

test('with --json it prints one event a line, errors too, and continues after them', async (t) => {
  await install('odd');
  const following = follow(t, 'odd', 'odd', '--json');
  const first = JSON.parse(await following.line());
  assert.deepEqual(Object.keys(first), ['data', 'seq']);
  await add('odd', 'one');
  const { isError, error } = JSON.parse(await following.line());
  assert.deepEqual([isError, error.code], [true, 'HANDLER_ERROR']);
  await add('odd', 'two');
  assert.deepEqual(JSON.parse(await following.line()), { data: 2, seq: first.seq + 1 });
});

test('it waits while the gateway restarts, and then prints the result only if it differs', async (t) => {
  await install('restarted');
  const following = follow(t, 'restarted', 'list', '--json');
  const list = async () => JSON.parse(await following.line()).data.map(({ text }: { text: string }) => text);
  assert.deepEqual(await list(), []);
  const times = (text: string) => following.said().split(text).length - 1;
  const restart = async (end: 'kill' | 'stop', nth: number) => {
    await gateway[end]();
    await eventually(() => times('The connection was lost; trying again …') === nth);
    await gateway.start(new URL(gateway.url).port);
  };
  await restart('kill', 1);
  await eventually(() => times('Connected again.') === 1);
  await add('restarted', 'Milk');
  assert.deepEqual(await list(), ['Milk'], 'the known result was not printed again');
  await restart('stop', 2);
  await add('restarted', 'Tea');
  assert.deepEqual(await list(), ['Milk', 'Tea']);
  assert.equal((await gateway.call('DELETE', '/svc/_apps/restarted')).status, 200);
  assert.deepEqual(await inTime(following.ended, 'the end of svc live', LONG_MS), [1, null]);
  assert.equal(JSON.parse(await following.line()).error.code, 'UNKNOWN_APP');
});

test('a query that cannot be followed is an error with its exit code', async () => {
  await install('notes');
  for (const [words, code, said] of [
    [['note', 'list'], 1, /UNKNOWN_APP.*\n.*"notes"/],
    [['notes', 'lst'], 1, /UNKNOWN_QUERY.*\n.*"list"/],
    [['notes', 'add'], 1, /WRONG_KIND/],
    [['notes', 'list', '{"like": 1}'], 1, /INVALID_INPUT.*like/],
    [['notes', 'list', '{'], 2, /JSON/],
    [['notes'], 2, /query/],
    [['notes', 'list', '--token', 'wrong'], 64, /UNAUTHORIZED/],
    [['notes', 'list', '--url', 'http://127.0.0.1:1'], 3, /No gateway answers/],
  ] as const) {
    const outcome = await svc(['live', ...words], { env: { SVC_URL: gateway.url, SVC_TOKEN: gateway.token } });
    assert.equal(outcome.code, code, outcome.stderr);
    assert.match(outcome.stderr, said);
  }
  assert.equal((await gateway.system()).counters.subscribers, 0);
});
