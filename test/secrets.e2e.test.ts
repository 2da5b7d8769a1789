// Secrets in the real daemon: set, read by handlers, removed from all output, on both stores; keys, drafts, backups,
// the command.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite, onEachStore } from '../testing/edges.ts';
import { type Answer, root, TestGateway } from '../testing/gateway.ts';
import { eventsOf, fire, nodesOf, runToEnd } from '../testing/runs.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const KEY = 'sk_"live"\n-4eC39HqL\\yj/ö😀';
const SHOWN = '[secret KEY]';
/** The values that no answer, log or record may contain. */
const PART = /4eC39HqL/;

const SHOP = appOf('shop', {
  queries: {
    check: `async ({ input, ctx }) => ({ matches: (await ctx.secrets.get(input.name)) === input.expected })`,
    leak: `async ({ ctx, log }) => {
      const key = await ctx.secrets.get('KEY');
      log.info('with ' + key, { key, [key]: new Error(key) });
      console.log({ nested: { deep: { key } } });
      return { key, ['k' + key]: JSON.stringify({ key }), address: 'https://x.example/?key=' + encodeURIComponent(key) };
    }`,
    fail: `async ({ ctx }) => { throw new Error('no ' + (await ctx.secrets.get('KEY'))); }`,
    echo: 'async ({ input }) => input',
    kept: `async ({ db }) => db.all('SELECT value FROM kept')`,
  },
  actions: {
    keep: `async ({ db, ctx }) => {
      await db.run('INSERT INTO kept VALUES (?)', await ctx.secrets.get('KEY'));
      return { status: 201, body: await ctx.secrets.get('KEY') };
    }`,
  },
  automations: {
    digest: `async ({ ctx, log, input }) => {
      const key = await ctx.secrets.get('KEY');
      log.warn('with ' + key);
      const echoed = await ctx.tool('svc_read', { app: 'shop', query: 'echo', input: { key } });
      await ctx.tool('svc_read', { app: 'shop', query: key, input: {} }).catch(() => {});
      if (input?.fail) throw new Error('no ' + key);
      return { summary: 'used ' + key, output: { key, echoed, input } };
    }`,
  },
  migrations: ['CREATE TABLE kept (value TEXT);'],
});

const list = (gateway: TestGateway, base = '/svc/_apps/shop'): Promise<Answer> =>
  gateway.call('GET', `${base}/secrets`);
const put = (gateway: TestGateway, name: string, value: unknown, base = '/svc/_apps/shop'): Promise<Answer> =>
  gateway.call('PUT', `${base}/secrets/${name}`, { body: { value } });
const states = async (gateway: TestGateway, base?: string): Promise<[string, string][]> =>
  (await list(gateway, base)).json.map(({ name, state }: { name: string; state: string }) => [name, state]);

async function isKey(gateway: TestGateway, name: string, expected: string): Promise<boolean> {
  const answer = await gateway.read('shop', 'check', { name, expected });
  assert.equal(answer.status, 200, answer.text);
  return answer.json.data.matches;
}

/** The content of the data directory except the app's own data. */
function filesWith(folder: string, part: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile() && !/data\.sqlite/.test(name))
    .filter((name) => part.test(readFileSync(join(folder, name), 'latin1')));
}

onEachStore({}, (gateway, store) => {
  /** For tests that do not depend on the store. */
  const once = store === 'tarball' ? test : () => {};

  test(`${store}: names are returned, never values; bad requests are refused`, async () => {
    assert.equal((await gateway.upload('shop', SHOP)).status, 201);
    assert.deepEqual((await list(gateway)).json, []);
    const stored = await put(gateway, 'KEY', KEY);
    assert.equal(stored.status, 200, stored.text);
    const { name, state, updatedAt } = stored.json;
    assert.deepEqual([name, state, Object.keys(stored.json).length], ['KEY', 'set', 3]);
    assert.ok(Math.abs(updatedAt - Date.now()) < 3_600_000);
    assert.deepEqual((await list(gateway)).json, [stored.json]);
    assert.deepEqual((await gateway.call('GET', '/svc/_apps/shop/secrets/KEY')).json, stored.json);
    for (const answer of [stored, await list(gateway)]) assert.doesNotMatch(answer.text, PART);
    const refused: [Promise<Answer>, number, string][] = [
      [put(gateway, 'A-B', 'x'), 400, 'BAD_REQUEST'],
      [put(gateway, 'A', ''), 400, 'BAD_REQUEST'],
      [put(gateway, 'A', 7), 400, 'BAD_REQUEST'],
      [put(gateway, 'A', undefined), 400, 'BAD_REQUEST'],
      [put(gateway, 'A', 'x'.repeat(64 * 1024 + 1)), 413, 'PAYLOAD_TOO_LARGE'],
      [put(gateway, 'A', 'x', '/svc/_apps/none'), 404, 'UNKNOWN_APP'],
      [list(gateway, '/svc/_apps/none'), 404, 'UNKNOWN_APP'],
      [gateway.call('GET', '/svc/_apps/shop/secrets/NONE'), 404, 'UNKNOWN_SECRET'],
      [gateway.call('DELETE', '/svc/_apps/shop/secrets/NONE'), 404, 'UNKNOWN_SECRET'],
      [gateway.call('GET', '/svc/_apps/shop/secrets', { token: null }), 401, 'UNAUTHORIZED'],
    ];
    for (const [answer, status, code] of refused)
      assert.deepEqual([(await answer).status, (await answer).json.error.code], [status, code]);
  });

  test(`${store}: a token of a program that may not manage the app may not see or set its secrets`, async () => {
    for (const [tools, status] of [
      ['write', 403],
      ['all', 200],
    ] as const) {
      const body = { name: tools, apps: ['shop'], tools };
      const { token } = (await gateway.call('POST', '/svc/_tokens', { body })).json;
      assert.equal((await gateway.call('GET', '/svc/_apps/shop/secrets', { token })).status, status);
      const value = { token, body: { value: 'of the program' } };
      assert.equal((await gateway.call('PUT', '/svc/_apps/shop/secrets/OTHER', value)).status, status);
    }
  });

  test(`${store}: handlers get the value, the new one at once, and an unknown one's error names the command`, async () => {
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    await put(gateway, 'KEY', 'a second value');
    assert.equal(await isKey(gateway, 'KEY', 'a second value'), true);
    await put(gateway, 'KEY', KEY);
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    const unknown = await gateway.read('shop', 'check', { name: 'NONE', expected: '' });
    assert.deepEqual(
      [unknown.status, unknown.json.error.code, unknown.json.error.message],
      [500, 'HANDLER_ERROR', 'The app has no secret "NONE". Set it with: svc secret set shop NONE'],
    );
  });

  test(`${store}: results, errors, logs and SQL have no value`, async () => {
    const { data } = (await gateway.read('shop', 'leak')).json;
    const address = `https://x.example/?key=${SHOWN}`;
    assert.deepEqual(data, { key: SHOWN, [`k${SHOWN}`]: `{"key":"${SHOWN}"}`, address });
    assert.equal((await gateway.read('shop', 'fail')).json.error.message, `no ${SHOWN}`);
    const kept = await gateway.write('shop', 'keep', {});
    assert.deepEqual([kept.status, kept.json.data.body], [201, SHOWN]);
    assert.deepEqual((await gateway.read('shop', 'kept')).json.data, [{ value: SHOWN }]);
    const sql = await gateway.call('POST', '/svc/_apps/shop/sql', { body: { sql: 'SELECT value FROM kept' } });
    assert.deepEqual(sql.json.rows, [[SHOWN]]);
    const odd = await gateway.call('POST', '/svc/_apps/shop/sql', { body: { sql: `SELECT "${KEY}"` } });
    assert.equal(odd.json.error.code, 'BAD_REQUEST');
    assert.doesNotMatch(odd.text, PART);
    assert.equal((await gateway.read('shop', 'echo', { a: `<${KEY}>` })).json.data.a, `<${SHOWN}>`);
    const logs = await gateway.call('GET', '/svc/_logs?app=shop&limit=500');
    assert.match(logs.text, /\[secret KEY\]/);
    assert.doesNotMatch(logs.text, PART);
  });

  once(`${store}: runs, their nodes and events have no value; tools and the handler do`, async () => {
    const ok = await runToEnd(gateway, 'shop/digest', { given: KEY });
    assert.equal(ok.state, 'ok', JSON.stringify(ok.error));
    assert.equal(ok.summary, `used ${SHOWN}`);
    assert.deepEqual(ok.output, { key: SHOWN, echoed: { key: SHOWN }, input: { given: SHOWN } });
    const failed = await runToEnd(gateway, 'shop/digest', { fail: true });
    assert.equal(failed.error?.message, `no ${SHOWN}`);
    const nodes = await nodesOf(gateway, ok.runId);
    assert.deepEqual(nodes[0]?.args, { app: 'shop', query: 'echo', input: { key: SHOWN } });
    const events = await eventsOf(gateway, await fire(gateway, 'shop/digest', { given: KEY }));
    for (const seen of [ok, failed, nodes, events]) assert.doesNotMatch(JSON.stringify(seen), PART);
  });

  test(`${store}: values survive a kill, and no file has them in plain text`, async () => {
    await gateway.kill();
    await gateway.start();
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    assert.deepEqual((await gateway.read('shop', 'kept')).json.data, [{ value: SHOWN }]);
    await gateway.call('POST', '/svc/_apps/shop/restart');
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    assert.deepEqual(filesWith(gateway.dataDir, PART), []);
    assert.doesNotMatch(gateway.log, PART);
    for (const file of ['secrets.key', 'apps/shop/secrets.json'])
      assert.equal(statSync(join(gateway.dataDir, file)).mode & 0o777, 0o600);
  });

  once(`${store}: a key that is missing, damaged or another loses nothing`, async () => {
    const file = join(gateway.dataDir, 'secrets.key');
    const before = readFileSync(file);
    const seen: string[] = [];
    for (const change of [
      () => rmSync(file),
      () => writeFileSync(file, 'no key'),
      () => writeFileSync(file, `${'7'.repeat(64)}\n`),
    ]) {
      await gateway.stop();
      change();
      await gateway.start();
      assert.deepEqual(await states(gateway), [
        ['KEY', 'unreadable'],
        ['OTHER', 'unreadable'],
      ]);
      const { error } = (await gateway.read('shop', 'check', { name: 'KEY', expected: '' })).json;
      assert.match(error.message, /svc secret set shop KEY$/);
      seen.push(error.message);
      if (seen.length === 2) assert.equal((await put(gateway, 'KEY', 'x')).json.error.code, 'SECRET_UNREADABLE');
    }
    for (const [i, words] of [/secrets\.key, is missing/, /must be 64 hex characters/, /another key/].entries())
      assert.match(seen[i] ?? '', words);
    await gateway.stop();
    writeFileSync(file, before);
    await gateway.start();
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
  });

  test(`${store}: an upload and a rollback keep them, a removal deletes them`, async () => {
    const first = (await gateway.call('GET', '/svc/_apps/shop')).json.activeVersion;
    await gateway.upload('shop', { ...SHOP, 'note.txt': 'new' });
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    await gateway.call('POST', '/svc/_apps/shop/activate', { body: { versionId: first } });
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    const removed = await gateway.call('DELETE', '/svc/_apps/shop/secrets/OTHER');
    assert.deepEqual(removed.json, { name: 'OTHER', deleted: true });
    assert.equal((await gateway.read('shop', 'check', { name: 'OTHER', expected: '' })).status, 500);
    assert.equal((await gateway.call('DELETE', '/svc/_apps/shop')).status, 200);
    assert.equal((await gateway.upload('shop', SHOP)).status, 201);
    assert.deepEqual((await list(gateway)).json, []);
    assert.equal((await gateway.read('shop', 'leak')).status, 500);
    assert.equal((await gateway.read('shop', 'echo', { KEY })).json.data.KEY, KEY, 'it is no secret any more');
  });
});

describe('on the git store', () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  before(async () => {
    await gateway.upload('shop', SHOP);
    await put(gateway, 'KEY', KEY);
  });

  test('a draft sees the names of the live app, and has separate values', async () => {
    const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
    const draft = `/svc/_draft/${sessionId}/_apps/shop`;
    const read = (query: string, input: unknown) =>
      gateway.call('POST', `/svc/_draft/${sessionId}/_tool/svc_read`, { body: { app: 'shop', query, input } });
    const check = { name: 'KEY', expected: 'that of the draft' };

    assert.deepEqual((await list(gateway, draft)).json, [{ name: 'KEY', state: 'missing', updatedAt: null }]);
    const { message } = (await read('check', check)).json.error;
    assert.equal(
      message,
      `The draft has no secret "KEY". Set it with: svc secret set shop KEY --workspace ${sessionId}`,
    );
    assert.equal((await put(gateway, 'KEY', 'that of the draft', draft)).status, 200);
    await put(gateway, 'ONLY_HERE', 'another of the draft', draft);
    assert.deepEqual(await states(gateway, draft), [
      ['KEY', 'set'],
      ['ONLY_HERE', 'set'],
    ]);
    assert.equal((await read('check', check)).json.data.matches, true);
    assert.equal((await read('leak', {})).json.data.key, SHOWN);
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    assert.deepEqual(await states(gateway), [['KEY', 'set']]);

    await gateway.kill();
    await gateway.start();
    assert.equal((await read('check', check)).json.data.matches, true);
    await gateway.call('PUT', `/svc/_sessions/${sessionId}/apps/shop/files/note.txt`, { body: 'new' });
    const published = await gateway.call('POST', `/svc/_sessions/${sessionId}/publish`, { body: { app: 'shop' } });
    assert.equal(published.status, 201, published.text);
    assert.equal(await isKey(gateway, 'KEY', KEY), true, 'publishing takes no value along');
    assert.equal((await gateway.call('DELETE', `/svc/_sessions/${sessionId}`)).status, 200);
    assert.equal((await list(gateway, draft)).json.error.code, 'UNKNOWN_SESSION');
    assert.equal(
      (await put(gateway, 'KEY', 'value', '/svc/_draft/nowhere/_apps/shop')).json.error.code,
      'UNKNOWN_SESSION',
    );
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId } });
    assert.deepEqual(await states(gateway, draft), [['KEY', 'missing']], 'the next workspace with this id has none');
  });

  test('svc export has no secrets', async (t) => {
    const folder = newFolder(t);
    const at = ['--data-dir', gateway.dataDir];
    assert.equal((await svc(t, ['export', join(folder, 'apps'), ...at])).code, 0);
    assert.equal((await svc(t, ['export', join(folder, 'apps.bundle'), ...at])).code, 0);
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    assert.ok(names.includes('apps/shop/app.json'));
    assert.equal(names.filter((name) => name.includes('secret')).length, 0);
  });
});

describe('of the command', () => {
  const gateway = gatewayOfSuite({});
  before(() => gateway.upload('shop', SHOP));

  test('a backup has them encrypted, and works with and without the key beside it', async (t) => {
    await put(gateway, 'KEY', KEY);
    const folder = newFolder(t);
    const file = join(folder, 'b.svc-backup.tar.gz');
    assert.equal((await svc(t, ['backup', file, '--data-dir', gateway.dataDir])).code, 0);
    for (const withKey of [true, false]) {
      const target = join(folder, `with-${withKey}`);
      assert.equal((await svc(t, ['restore', file, '--data-dir', target])).code, 0);
      assert.deepEqual(filesWith(target, PART), []);
      assert.equal(existsSync(join(target, 'secrets.key')), false);
      if (withKey) copyFileSync(join(gateway.dataDir, 'secrets.key'), join(target, 'secrets.key'));
      const other = new TestGateway(target, []);
      t.after(() => other.stop());
      await other.start();
      assert.deepEqual(await states(other), [['KEY', withKey ? 'set' : 'unreadable']]);
      if (!withKey) assert.equal((await put(other, 'KEY', KEY)).status, 200);
      assert.equal(await isKey(other, 'KEY', KEY), true);
      assert.equal((await other.read('shop', 'leak')).json.data.key, SHOWN);
      await other.stop();
    }
  });

  test('svc secret takes a value from standard input, or unseen from the terminal; never as an argument', async (t) => {
    const at = ['--url', gateway.url, '--token', gateway.token];
    const set = await svc(t, ['secret', 'set', 'shop', 'KEY', ...at], `${KEY}\n`);
    assert.equal(set.code, 0, set.stderr);
    assert.equal(set.stdout, '✓ KEY of shop is set\n');
    assert.equal(await isKey(gateway, 'KEY', KEY), true);
    const listed = await svc(t, ['secret', 'ls', 'shop', ...at]);
    assert.match(listed.stdout, /^SECRET +STATE +SET\nKEY +set +/);
    assert.doesNotMatch(listed.stdout + listed.stderr, PART);
    const asArgument = await svc(t, ['secret', 'set', 'shop', 'KEY', 'of-argument', ...at], 'x');
    assert.deepEqual([asArgument.code, asArgument.stdout], [2, '']);
    assert.equal((await svc(t, ['secret', 'set', 'shop', 'KEY', ...at], '\n')).code, 1, 'an empty value');
    assert.equal((await svc(t, ['secret', 'set', 'shop', 'KEY', ...at], Buffer.from([0xff]))).code, 1);
    assert.equal(await isKey(gateway, 'KEY', KEY), true);

    const typed = onTerminal(t, ['secret', 'set', 'shop', 'TYPED', ...at]);
    await typed.shows(/Value of TYPED \(not shown\): /);
    typed.child.stdin?.write('typed-4eC39HqL\r');
    assert.equal(await typed.ended, 0);
    assert.doesNotMatch(typed.text(), PART);
    assert.match(typed.text(), /TYPED of shop is set/);
    assert.equal(await isKey(gateway, 'TYPED', 'typed-4eC39HqL'), true);
    const left = onTerminal(t, ['secret', 'set', 'shop', 'LEFT', ...at]);
    await left.shows(/not shown/);
    left.child.stdin?.write('half a value\u0003');
    assert.equal(await left.ended, 1);
    assert.match(left.text(), /Nothing was stored/);
    assert.doesNotMatch(left.text(), /half a/);

    const removed = await svc(t, ['secret', 'rm', 'shop', 'KEY', ...at]);
    assert.equal(removed.stdout, '✓ KEY of shop is removed\n');
    assert.deepEqual(await states(gateway), [['TYPED', 'set']]);
    await gateway.call('DELETE', '/svc/_apps/shop/secrets/TYPED');
  });
});

type Ended = { code: number | null; stdout: string; stderr: string };

function environment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, HOME: tmpdir(), XDG_CONFIG_HOME: join(tmpdir(), 'svc-no-config'), NO_COLOR: '1' };
}

async function svc(t: TestContext, args: string[], stdin: string | Buffer = ''): Promise<Ended> {
  const child = spawn(process.execPath, [join(root, 'bin/svc.js'), ...args], { env: environment() });
  t.after(() => child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += chunk));
  child.stderr.on('data', (chunk) => (stderr += chunk));
  child.stdin.end(stdin);
  const [code] = await inTime(once(child, 'close'), `the end of svc ${args[0]}`, LONG_MS);
  return { code, stdout, stderr };
}

/** The command on a separate terminal, which shows `text`. */
function onTerminal(
  t: TestContext,
  args: string[],
): { child: ChildProcess; text(): string; shows(wanted: RegExp): Promise<void>; ended: Promise<number | null> } {
  const command = [process.execPath, join(root, 'bin/svc.js'), ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qefc', command, '/dev/null'], { env: environment() });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  const waiting: (() => void)[] = [];
  child.stdout.on('data', (chunk) => {
    text += chunk;
    for (const wake of waiting.splice(0)) wake();
  });
  return {
    child,
    text: () => text,
    shows: async (wanted) => {
      while (!wanted.test(text))
        await inTime(new Promise<void>((resolve) => waiting.push(resolve)), `${wanted} in ${text}`, LONG_MS);
    },
    ended: inTime(once(child, 'close'), 'the end of the command', LONG_MS).then(([code]) => code),
  };
}

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
