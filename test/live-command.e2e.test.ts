/**
 * `svc live` as people use it: the built executable against a real gateway that restarts, also with unknown queries.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually } from '../testing/edges.ts';
import { root, startGateway, type TestGateway } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const APP = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: {
    list: {
      run: '({ db, input }) => db.all("SELECT text FROM notes WHERE text LIKE ? ORDER BY id", (input.like ?? "") + "%")',
      input: { type: 'object', properties: { like: { type: 'string' } }, additionalProperties: false },
    },
    odd: 'async ({ db }) => { const { n } = await db.get("SELECT count(*) AS n FROM notes"); if (n % 2 === 1) throw new Error("An odd number."); return n; }',
  },
  actions: { add: '({ db, input }) => db.run("INSERT INTO notes (text) VALUES (?)", input.text)' },
});

type Following = {
  child: ChildProcess;
  /** The next line of standard output. */
  line(): Promise<string>;
  said(): string;
  /** Exit code and signal, once all output has been read. */
  ended: Promise<[number | null, NodeJS.Signals | null]>;
};

function follow(t: TestContext, gateway: TestGateway, ...words: string[]): Following {
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

async function withNotes(t: TestContext): Promise<TestGateway> {
  const gateway = await startGateway(t);
  assert.equal((await gateway.upload('notes', APP)).status, 201);
  return gateway;
}

const add = async (gateway: TestGateway, text: string) =>
  assert.equal((await gateway.write('notes', 'add', { text })).status, 200);

test('svc live prints the result at once and whenever it differs, until Ctrl-C', async (t) => {
  const gateway = await withNotes(t);
  const following = follow(t, gateway, 'notes', 'list', '{"like": "M"}');
  assert.deepEqual(JSON.parse(await following.line()), []);
  await add(gateway, 'Bread');
  await add(gateway, 'Milk');
  assert.deepEqual(JSON.parse(await following.line()), [{ text: 'Milk' }]);
  following.child.kill('SIGINT');
  assert.deepEqual(await inTime(following.ended, 'the end of svc live'), [null, 'SIGINT']);
  assert.equal(following.said(), '');
  await eventually(async () => (await gateway.system()).counters.subscribers === 0);
});

test('with --json it prints one event a line, errors too, and continues after them', async (t) => {
  const gateway = await withNotes(t);
  const following = follow(t, gateway, 'notes', 'odd', '--json');
  const first = JSON.parse(await following.line());
  assert.deepEqual(Object.keys(first), ['data', 'seq']);
  await add(gateway, 'one');
  const { isError, error } = JSON.parse(await following.line());
  assert.deepEqual([isError, error.code], [true, 'HANDLER_ERROR']);
  await add(gateway, 'two');
  assert.deepEqual(JSON.parse(await following.line()), { data: 2, seq: first.seq + 1 });
});

test('it waits while the gateway restarts, and then prints the result only if it differs', async (t) => {
  const gateway = await withNotes(t);
  const following = follow(t, gateway, 'notes', 'list', '--json');
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
  await add(gateway, 'Milk');
  assert.deepEqual(await list(), ['Milk'], 'the known result was not printed again');
  await restart('stop', 2);
  await add(gateway, 'Tea');
  assert.deepEqual(await list(), ['Milk', 'Tea']);
  assert.equal((await gateway.call('DELETE', '/svc/_apps/notes')).status, 200);
  assert.deepEqual(await inTime(following.ended, 'the end of svc live', LONG_MS), [1, null]);
  assert.equal(JSON.parse(await following.line()).error.code, 'UNKNOWN_APP');
});

test('a query that cannot be followed is an error with its exit code', async (t) => {
  const gateway = await withNotes(t);
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
    const following = follow(t, gateway, ...words);
    following.child.stdout?.resume();
    const [exit] = await inTime(following.ended, `the end of svc live ${words.join(' ')}`, LONG_MS);
    assert.equal(exit, code, following.said());
    assert.match(following.said(), said);
  }
  assert.equal((await gateway.system()).counters.subscribers, 0);
});
