// Quiet apps in the commons: where they run and why, what they share, and that one that misbehaves costs its neighbours nothing.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type AppSource, appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { LONG_MS } from '../testing/waiting.ts';

/** Those after which an app has a thread of its own. Of the others the gateway ends what still runs when the app is idle. */
const MOVES = new Set(['loops', 'loops after a promise', 'throws from a timer']);

type Row = { app: string; state: string; place: string; placeReason: string | null };

const T = ['CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (42);'];
const READ = { sum: '({ db }) => db.get("SELECT sum(n) AS n FROM t")', ok: '() => 1' };

describe('quiet apps', () => {
  const gateway = gatewayOfSuite({ config: { actorIdleMs: 1000, handlerHosts: 1, durability: 'normal' } });
  const install = async (id: string, source: AppSource): Promise<void> => {
    const answer = await gateway.upload(id, appOf(id, { migrations: T, ...source }));
    assert.equal(answer.status, 201, answer.text);
  };
  const rows = async (id: string): Promise<Row[]> => {
    const { processes } = await gateway.system();
    const all = processes.flatMap((child: { actors?: Row[] }) => child.actors ?? []);
    return all.filter(({ app }: Row) => app === id);
  };
  const placeOf = async (id: string) => {
    const [row] = await rows(id);
    return [row?.place, row?.placeReason ?? null];
  };
  before(() => install('quiet', { queries: READ }));

  test('queries run in the commons; an action gets a thread, which is kept until the app is quiet again', async () => {
    await install('both', { queries: READ, actions: { add: '({ db }) => db.run("INSERT INTO t VALUES (1)")' } });
    assert.deepEqual((await gateway.read('both', 'sum')).json.data, { n: 42 });
    assert.deepEqual(await placeOf('both'), ['commons', null]);
    assert.equal((await gateway.write('both', 'add')).status, 200);
    assert.deepEqual(await placeOf('both'), ['own', 'action']);
    assert.deepEqual((await gateway.read('both', 'sum')).json.data, { n: 43 }, 'a read after a write sees it');
    await eventually(async () => (await placeOf('both'))[0] === 'commons');
    assert.deepEqual((await gateway.read('both', 'sum', { not: 'kept' })).json.data, { n: 43 });
    assert.deepEqual([(await rows('both'))[0]?.state, ...(await placeOf('both'))], ['live', 'commons', null]);
    assert.ok((await gateway.system()).counters.leftCommons.action >= 1);
  });

  test('one that is called often gets a thread, and no call is lost on the way', async () => {
    await install('often', { queries: { echo: '({ input }) => input.n' }, manifest: {} });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => gateway.read('often', 'echo', { n })));
    for (const [n, { status, json, text }] of answers.entries()) assert.deepEqual([status, json.data], [200, n], text);
    await eventually(async () => (await placeOf('often'))[1] === 'busy');
    assert.equal((await gateway.read('often', 'echo', { n: 7.5 })).json.data, 7.5);
  });

  test('what its version says keeps it out', async () => {
    await install('asks', { queries: READ, manifest: { thread: 'own' } });
    await install('stateful', {
      queries: { n: '() => ++n' },
      files: { 'queries/n.js': 'let n = 0; export default () => ++n;' },
    });
    await install('bytes', { queries: { u: '() => Buffer.from("b").toString("hex")' } });
    await install('web', { queries: { u: '() => new URL("http://a/b").pathname' } });
    for (const [id, query, expected] of [
      ['asks', 'ok', 1],
      ['stateful', 'n', 1],
      ['bytes', 'u', '62'],
      ['web', 'u', '/b'],
    ] as const)
      assert.equal((await gateway.read(id, query)).json.data, expected);
    assert.deepEqual(await Promise.all(['asks', 'stateful', 'bytes', 'web'].map(placeOf)), [
      ['own', 'thread'],
      ['own', 'state'],
      ['own', 'globals'],
      ['commons', null],
    ]);
    await install('stateful', { queries: { n: '() => 5' } });
    assert.equal((await gateway.read('stateful', 'n')).json.data, 5);
    assert.deepEqual(await placeOf('stateful'), ['commons', null], 'another version');
  });

  test('kept results, secrets and errors are the same', async () => {
    const queries = {
      ...READ,
      secret: 'async ({ ctx }) => (await ctx.secrets.get("KEY")).length',
      fails: 'async () => { throw new TypeError("no such thing"); }',
    };
    await install('same', { queries });
    await gateway.call('PUT', '/svc/_apps/same/secrets/KEY', { body: { value: 'a secret value' } });
    assert.equal((await gateway.read('same', 'secret')).json.data, 14);
    const failed = await gateway.read('same', 'fails');
    assert.deepEqual([failed.status, failed.json.error.message], [500, 'no such thing']);
    await eventually(async () => /desc=hit/.test(String((await gateway.read('same', 'sum')).headers['server-timing'])));
    const lines = (await gateway.call('GET', '/svc/_logs?app=same')).json;
    const line = lines.find(({ msg }: { msg: string }) => msg === 'no such thing');
    assert.match(line.err.stack, /^TypeError: no such thing\n {4}at default \(queries\/fails\.js:1:\d+\)$/);
    assert.deepEqual(await placeOf('same'), ['commons', null]);
  });

  for (const [name, body, code] of [
    ['loops', 'for (;;);', 'HANDLER_ERROR'],
    ['loops after a promise', 'await null; for (;;);', 'HANDLER_ERROR'],
    ['allocates', 'const a = []; for (;;) a.push(new Array(1e5).fill(0.5));', 'HANDLER_ERROR'],
    [
      'throws from a timer',
      'setTimeout(() => { throw new Error("late"); }); await new Promise(() => {});',
      'HANDLER_ERROR',
    ],
    ['never settles', 'await new Promise(() => {});', 'HANDLER_ERROR'],
    ['goes on after its deadline', 'for (;;) await new Promise((go) => setTimeout(go, 1));', 'HANDLER_ERROR'],
    ['exits', 'process.exit(0);', 'HANDLER_ERROR'],
    ['floods the log', 'for (let i = 0; i < 1e5; i++) log.info("x".repeat(100)); return 1;', null],
    ['returns 100 MiB', 'return "x".repeat(100 * 1024 * 1024);', 'HANDLER_ERROR'],
    ['opens 10,000 statements', 'for (let i = 0; i < 1e4; i++) await db.get("SELECT " + i); return 1;', null],
  ] as const) {
    test(`a neighbour of one that ${name} is answered right, each time`, async () => {
      const id = name.replaceAll(/[^a-z0-9]+/g, '-');
      await install(id, {
        queries: {
          bad: { run: `async ({ db, log }) => { ${body} }`, timeoutMs: code === null ? LONG_MS : 2000 },
          ok: '() => 1',
        },
      });
      assert.equal((await gateway.read(id, 'ok')).json.data, 1);
      assert.deepEqual(await placeOf(id), ['commons', null]);
      let over = false;
      const bad = gateway.read(id, 'bad').finally(() => {
        over = true;
      });
      for (let n = 0; !over && n < 20; n++) {
        const answer = await gateway.read('quiet', 'sum', { n });
        assert.deepEqual([answer.status, answer.json.data], [200, { n: 42 }], answer.text);
      }
      const { json } = await bad;
      assert.equal(json.error?.code ?? null, code, JSON.stringify(json).slice(0, 300));
      const [row] = await rows('quiet');
      assert.deepEqual([row?.place, (row as { restarts?: number })?.restarts], ['commons', 0]);
      if (MOVES.has(name)) await eventually(async () => (await placeOf(id))[1] === 'failed');
    });
  }
});
