// `svc test`: the tests of an app folder run against the app's own gateway parts, and failures are reported with their
// place.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import type { TestResult } from '../protocol/answer-types.ts';
import { appOf } from '../testing/apps.ts';
import { makeGateway, root } from '../testing/gateway.ts';
import { filesOf } from '../testing/published.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const scratch = mkdtempSync(join(tmpdir(), 'app-tests-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

const SHOP = appOf('shop', {
  migrations: ['CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, at INTEGER) STRICT;'],
  queries: {
    list: "({ db }) => db.all('SELECT item, at FROM orders ORDER BY id')",
    count: '(() => { let n = 0; return () => ++n; })()',
    time: '({ ctx }) => [Date.now(), new Date().getTime(), +new (class extends Date {})(), new Date() instanceof Date, ctx.deadline > Date.now()]',
    key: "({ ctx }) => ctx.secrets.get('KEY')",
    fetched: `async ({ ctx, input }) => {
  const response = await ctx.fetch(input.url, { method: 'POST', body: 'ping', headers: { 'x-a': 'b' } });
  return [response.status, await response.text()];
}`,
  },
  actions: {
    order: {
      run: `async ({ input, db, log }) => {
  log.info('ordered', { item: input.item });
  await db.run('INSERT INTO orders (item, at) VALUES (?, ?)', input.item, Date.now());
  return { status: 201, body: { item: input.item } };
}`,
      input: { type: 'object', properties: { item: { type: 'string', minLength: 1 } }, required: ['item'] },
    },
    refuse: "() => ({ status: 409, body: { code: 'SOLD_OUT', message: 'There is none left.', left: 0 } })",
  },
  automations: {
    hourly: {
      run: `async ({ ctx }) => {
  await ctx.tool('svc_write', { app: 'shop', action: 'order', input: { item: new Date(ctx.now).toISOString() } });
  return { summary: 'ordered' };
}`,
      triggers: [{ kind: 'cron', expr: '0 * * * *', tz: 'UTC' }],
      requires: { tools: ['svc_write'] },
    },
    payment: {
      run: "({ input, request }) => ({ output: [input.id, typeof request.rawBody], response: { status: 202, body: 'taken' } })",
      triggers: [{ kind: 'webhook', pending: true, verify: 'stripe', secret: 'STRIPE' }],
    },
    inbox: {
      run: "({ input }) => { if (input === 'no') throw new Error('Not this.'); return { output: input }; }",
      triggers: [{ kind: 'webhook', pending: true, signing: true }],
      onFailure: 'rescue',
    },
    rescue: { run: '({ input }) => ({ output: input.error.message })', triggers: [] },
  },
  files: {
    'index.html': '<p>Shop</p>',
    'lib/prices.ts': 'export const price: number = 3;\n',
    'lib/names.json': '["tea"]',
  },
});

/** The whole surface of the harness, as an author uses it. */
const SURFACE = `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError, harness } from 'svc/test';
import names from '../lib/names.json';
import { price } from '../lib/prices.ts';

type Order = { item: string; at: number };

test('tools', async (t) => {
  const app = await harness(t);
  assert.deepEqual(await app.action('order', { item: 'tea' }), { item: 'tea' });
  const [order]: Order[] = await app.query('list');
  assert.equal(order.item, 'tea');
  assert.deepEqual(await app.sql('SELECT item FROM orders WHERE id = ?', [1]), [{ item: 'tea' }]);
  assert.equal((await app.sql('DELETE FROM orders')).changes, 1);
  assert.ok(app.logs.some(({ msg, item }) => msg === 'ordered' && item === 'tea'));
  await assert.rejects(app.action('order', { item: '' }), { code: 'INVALID_INPUT', status: 400 });
  await assert.rejects(app.query('nothing'), { code: 'UNKNOWN_QUERY', status: 404 });
  await assert.rejects(app.action('refuse'), (error) => {
    assert.ok(error instanceof AppError);
    assert.deepEqual([error.status, error.code, error.body.left], [409, 'SOLD_OUT', 0]);
    return true;
  });
});

test('data and modules of its own', async (t) => {
  const app = await harness(t);
  assert.deepEqual(await app.query('list'), []);
  assert.equal(await app.query('count'), 1);
  assert.equal(await app.query('count'), 2);
  await app.action('order', { item: 'tea' });
  await app.restart();
  assert.equal(await app.query('count'), 1);
  assert.equal((await app.query('list')).length, 1);
});

test('clock', async (t) => {
  const start = Date.parse('2026-01-05T09:30:00Z');
  const app = await harness(t, { now: start });
  assert.deepEqual(await app.query('time'), [start, start, start, true, true]);
  await app.clock.advance('2h 40m');
  assert.equal(app.clock.now, start + 9_600_000);
  assert.deepEqual(
    await app.query('list'),
    ['10', '11', '12'].map((hour) => {
      const time = \`2026-01-05T\${hour}:00:00.000Z\`;
      return { item: time, at: Date.parse(time) };
    }),
  );
  assert.equal((await app.runs('hourly')).length, 3);
  await app.clock.advanceTo('2026-01-05T13:00Z');
  assert.equal((await app.runs())[0].startedAt, Date.parse('2026-01-05T13:00Z'));
  assert.equal((await app.query('time'))[0], app.clock.now);
  await assert.rejects(app.clock.advanceTo(start), RangeError);
  await assert.rejects(app.clock.advance('soon'), TypeError);
});

test('webhooks', async (t) => {
  const app = await harness(t, { now: '2031-05-05T00:00Z' });
  await assert.rejects(app.webhook('payment', {}), /app\\.secrets\\.set\\('STRIPE'/);
  await app.secrets.set('STRIPE', 'whsec_1');
  const { status, body } = await app.webhook('payment', { id: 'evt_1' });
  assert.deepEqual([status, body], [202, 'taken']);
  assert.deepEqual((await app.runs('payment'))[0].output, ['evt_1', 'string']);
  const forged = { headers: { 'Stripe-Signature': 't=1,v1=' + '0'.repeat(64) } };
  await assert.rejects(app.webhook('payment', {}, forged), { code: 'UNAUTHORIZED', status: 401 });
  assert.equal((await app.webhook('inbox', 'Hello')).status, 200);
  await assert.rejects(app.webhook('inbox', 'no'), { code: 'HANDLER_ERROR', message: 'Not this.' });
  assert.equal((await app.runs('rescue'))[0].output, 'Not this.');
  await assert.rejects(app.webhook('rescue'), TypeError);
});

test('one app for many tests', async (t) => {
  const app = await harness(t);
  await t.test('runs by hand', async () => {
    assert.equal((await app.run('inbox', 'by hand')).output, 'by hand');
    await assert.rejects(app.run('inbox', 'no'), { message: 'Not this.' });
    await assert.rejects(app.run('nothing'), { code: 'UNKNOWN_AUTOMATION' });
  });
  await t.test('secrets', async () => {
    await assert.rejects(app.query('key'), { code: 'HANDLER_ERROR', message: /no secret "KEY"/ });
    await app.secrets.set('KEY', 'a value');
    assert.equal(await app.query('key'), '[secret KEY]');
    await app.secrets.delete('KEY');
    await assert.rejects(app.secrets.delete('KEY'), { code: 'UNKNOWN_SECRET' });
  });
  await t.test('the network', async () => {
    const url = 'https://example.com:8443/a?b=c';
    await assert.rejects(app.query('fetched', { url }), { code: 'HANDLER_ERROR' });
    app.onFetch(async (request) => {
      const said = [request.method, request.url, request.headers.get('x-a'), await request.text()].join(' ');
      return new Response(said, { status: 418 });
    });
    assert.deepEqual(await app.query('fetched', { url }), [418, 'POST https://example.com:8443/a?b=c b ping']);
    assert.equal((await app.query('fetched', { url: 'http://10.1.2.3/' }))[1], 'POST http://10.1.2.3/ b ping');
    app.onFetch(() => {
      throw new Error('It is down.');
    });
    await assert.rejects(app.query('fetched', { url }), { code: 'HANDLER_ERROR' });
  });
  await t.test('requests', async () => {
    const page = await app.request('GET', \`/svc/\${app.id}/index.html\`);
    assert.match(await page.text(), /Shop/);
    const test = await app.request('GET', \`/svc/\${app.id}/tests/surface.test.js\`);
    assert.equal(test.status, 404);
    const body = { app: app.id, query: 'list' };
    const answer = await app.request('POST', '/svc/_tool/svc_read', { body });
    assert.deepEqual(await answer.json(), { isError: false, data: [] });
    const anyone = await app.request('POST', '/svc/_tool/svc_read', { body, headers: { Authorization: '' } });
    assert.equal(anyone.status, 401);
    const { sha256 } = await (await app.request('PUT', \`/svc/\${app.id}/_blobs\`, { body: Buffer.from('a') })).json();
    assert.equal(await (await app.request('GET', \`/svc/\${app.id}/_blobs/\${sha256}\`)).text(), 'a');
  });
});

test('at once', { concurrency: true }, async (t) => {
  await Promise.all(['a', 'b'].map((item) => t.test(item, async (t) => {
    const app = await harness(t);
    await app.action('order', { item });
    assert.deepEqual((await app.query('list')).map((order) => order.item), [item]);
  })));
});

test('modules of the app', () => assert.deepEqual([price, names], [3, ['tea']]));
`;

const FAILING = `import { test } from 'node:test';
import { harness } from 'svc/test';

test('fails', async (t) => {
  const app = await harness(t);
  await app.action('broken', {});
});
`;

const SHARED = `import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { harness } from 'svc/test';

const app = await harness({ after });
test('writes', () => app.action('order', { item: 'tea' }));
test('reads what another test wrote', async () => assert.equal((await app.query('list')).length, 1));
`;

const manifest = JSON.parse(String(SHOP['app.json'])) as { actions: object[] };

/** The shop with an action that throws, in another file, and a test that calls it. */
const FAILING_SHOP = {
  ...SHOP,
  'app.json': JSON.stringify({ ...manifest, actions: [...manifest.actions, { name: 'broken' }] }),
  'actions/broken.ts':
    "import { fail } from '../lib/fail.ts';\n\nexport default (_args: object) => fail(1 as number);\n",
  'lib/fail.ts':
    "type Code = number;\n\nexport function fail(code: Code): never {\n  throw new Error('It broke: ' + code);\n}\n",
  'tests/failing.test.js': FAILING,
};

function folderOf(name: string, files: Record<string, string | Buffer>): string {
  const folder = join(scratch, name);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

function start(args: string[], more: Record<string, string> = {}) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return spawn(process.execPath, args, {
    env: { ...env, TMPDIR: scratch, NO_COLOR: '1', ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function run(args: string[], env?: Record<string, string>, limitMs = LONG_MS) {
  const child = start(args, env);
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [stdout, stderr, code] = await inTime(
    Promise.all([text(child.stdout), text(child.stderr), ended]),
    `the end of ${args.join(' ')}`,
    limitMs,
  );
  return { code, stdout, stderr };
}

const SVC = join(root, 'bin/svc.js');
const svc = (...args: string[]) => run([SVC, ...args]);

/** What runs leave behind. */
const leftovers = () => readdirSync(scratch).filter((name) => name.startsWith('svc-'));

async function results(t: TestContext, folder: string): Promise<{ passed: boolean; tests: TestResult[] }> {
  const { stdout, stderr } = await svc('test', folder, '--json');
  t.diagnostic(stderr);
  return JSON.parse(stdout) as { passed: boolean; tests: TestResult[] };
}

test('a test calls the tools of the app, moves its clock, sends its webhooks and answers what it fetches', async (t) => {
  const folder = folderOf('shop', { ...SHOP, 'tests/surface.test.ts': SURFACE });
  const { passed, tests } = await results(t, folder);
  const failed = tests.filter(({ state }) => state !== 'passed');
  assert.deepEqual([passed, failed], [true, []]);
  assert.equal(tests.length, 13);
  assert.deepEqual([existsSync(join(folder, 'node_modules')), leftovers()], [false, []]);
});

describe('the templates', () => {
  const templates = join(root, 'dist/templates');
  const ids = readdirSync(templates).filter((name) => !name.startsWith('_'));
  let all: TestResult[];

  // One gateway publishes all of them, and one process runs all tests, each on a copy of the data of its app alone.
  before(async () => {
    const { gateway, remove } = makeGateway();
    after(remove);
    await gateway.start();
    const minted = new Map<string, Record<string, string>>();
    for (const id of ids) {
      const { webhooks } = await gateway.install(id, filesOf(join(templates, id)));
      minted.set(id, Object.fromEntries(webhooks.map(({ automationId, secret }) => [automationId, secret])));
    }
    await gateway.stop();
    const apps = join(gateway.dataDir, 'apps');
    const tested = ids.map((app) => {
      const dataDir = join(scratch, app, 'data');
      const others = new Set(ids.filter((id) => id !== app).map((id) => join(apps, id)));
      cpSync(gateway.dataDir, dataDir, { recursive: true, filter: (path) => !others.has(path) });
      const folder = join(templates, app);
      return {
        folder,
        app,
        dataDir,
        minted: minted.get(app),
        files: readdirSync(join(folder, 'tests')).map((name) => join(folder, 'tests', name)),
      };
    });
    const built = (name: string) => pathToFileURL(join(root, 'dist', name)).href;
    const flags = [
      ...['--no-warnings', '--import', built('test-register.js'), '--test'],
      ...[`--test-reporter=${built('test-reporter.js')}`, '--test-reporter-destination=stdout'],
    ];
    const given = { SVC_TEST: JSON.stringify({ folder: templates }), SVC_TESTED: JSON.stringify(tested) };
    const { stdout } = await run([...flags, join(root, 'testing/template-tests.mjs')], given, 5 * LONG_MS);
    all = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  });

  for (const id of ids) {
    test(`the tests of the template ${id} pass`, () => {
      const tests = all.filter(({ file }) => file?.startsWith(join(templates, id, '/')));
      assert.deepEqual(
        tests.filter(({ state }) => state !== 'passed'),
        [],
      );
      assert.ok(tests.length > 1, inspect(all));
    });
  }
});

test('a failing test shows the stack of the handler in the files of the app, and the exit code is 1', async () => {
  const folder = folderOf('failing', {
    ...FAILING_SHOP,
    'lib/helper.test.js': "import { test } from 'node:test';\ntest('passes', () => {});\n",
    'tests/shared.test.js': SHARED,
  });
  const { code, stdout } = await svc('test', folder);
  assert.equal(code, 1, stdout);
  for (const name of ['passes', 'writes', 'reads what another test wrote'])
    assert.ok(stdout.includes(`✔ ${name}`), name);
  assert.match(stdout, /✖ fails/);
  assert.match(stdout, /AppError \[HANDLER_ERROR\]: It broke: 1\n/);
  const places = [...stdout.matchAll(/^ *at .*?\(?(?:file:\/\/)?(\/[^():]+:\d+:\d+)/gm)].map((match) => match[1]);
  assert.deepEqual(places.slice(0, 3), [
    join(folder, 'lib/fail.ts:4:9'),
    join(folder, 'actions/broken.ts:3:35'),
    join(folder, 'tests/failing.test.js:6:13'),
  ]);
});

test('an app that cannot be made live is reported once, and no test runs', async () => {
  const folder = folderOf('damaged', {
    ...SHOP,
    'queries/list.js': 'export default () => {\n  const x = ;\n};\n',
    'tests/one.test.js': FAILING,
    'tests/two.test.js': FAILING,
  });
  const { code, stdout, stderr } = await svc('test', folder);
  assert.deepEqual([code, stdout], [1, '']);
  assert.equal(stderr.match(/queries\/list\.js:2:13/g)?.length, 1, stderr);
  assert.deepEqual(leftovers(), []);
});

test('with --watch they run again after each change, until Ctrl-C', async (t) => {
  const folder = folderOf('watched', FAILING_SHOP);
  const child = start([SVC, 'test', folder, '--watch', '--json']);
  t.after(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<{ passed: boolean; tests: TestResult[] }> =>
    JSON.parse((await inTime(lines.next(), 'the results', LONG_MS)).value ?? '');
  const first = await next();
  assert.deepEqual([first.passed, first.tests[0]?.name], [false, 'fails']);
  assert.match(first.tests[0]?.error ?? '', /fail\.ts:4:9/);
  writeFileSync(
    join(folder, 'tests/failing.test.js'),
    "import { test } from 'node:test';\ntest('second', () => {});\n",
  );
  const second = await next();
  assert.deepEqual([second.passed, second.tests[0]?.name], [true, 'second']);
  const ended = once(child, 'close');
  child.kill('SIGINT');
  assert.deepEqual(await inTime(ended, 'the end', LONG_MS), [0, null]);
});

test('without tests, without an app, or with a test file that does not parse, it fails', async () => {
  const none = await svc('test', folderOf('none', SHOP));
  assert.deepEqual([none.code, /has no tests/.test(none.stderr)], [1, true]);
  assert.equal((await svc('test', join(scratch, 'nowhere'))).code, 1);
  const wrong = await svc('test', folderOf('wrong', { ...SHOP, 'a.test.ts': 'enum A { b }\n' }));
  assert.equal(wrong.code, 1);
  assert.match(wrong.stdout, /a\.test\.ts:1:1: It has a TypeScript enum/);
});
