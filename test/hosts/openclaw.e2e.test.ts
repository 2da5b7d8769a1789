/** svc inside a real OpenClaw of the pinned version, with a model server on loopback (specification, "Hosts that exist"). */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { appOf } from '../../testing/apps.ts';
import { send, type TurnEventSeen, turnOf } from '../../testing/chat.ts';
import { root } from '../../testing/gateway.ts';
import { type ModelStub, startModelStub } from '../../testing/model-stub.ts';
import { compareTypes, OpenClaw, packPlugin, processesWith, withoutOpenClaw } from '../../testing/openclaw.ts';
import { eventually, inTime, LONG_MS } from '../../testing/waiting.ts';

/** Which process runs a handler; threads of svc have no such global, and its checks refuse the plain name. */
const PID = "Reflect.get(globalThis, ['pro', 'cess'].join(''))?.pid ?? null";

const NOTES = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
  actions: {
    add: {
      run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
      writes: ['notes'],
    },
  },
  automations: {
    hook: {
      triggers: [{ kind: 'webhook', pending: true }],
      run: `async ({ ctx, input, log }) => {
        log.info('fired', { by: input.by });
        await ctx.tool('svc_write', { app: 'notes', action: 'add', input: { text: input.by } });
        const said = await ctx.agent({ prompt: '\\nsay: I am the agent of the host' });
        return { summary: said, output: { pid: ${PID} } };
      }`,
    },
    clock: {
      triggers: [{ kind: 'cron', expr: '* * * * * *' }],
      enabled: false,
      run: `async ({ ctx }) => {
        const list = await ctx.tool('svc_read', { app: 'notes', query: 'list' });
        return { output: { pid: ${PID}, notes: list.length } };
      }`,
    },
  },
  files: { 'index.html': '<!doctype html><title>Notes</title>' },
});
const OTHER = appOf('other', { queries: { list: '() => []' } });

const folder = mkdtempSync(join(tmpdir(), 'svc-openclaw-test-'));
let packed: Awaited<ReturnType<typeof packPlugin>>;
let stub: ModelStub;
let host: OpenClaw;
let webhooks: MintedWebhook[];

/** The host puts the time before a message, on its first line. */
const script = (...lines: string[]): string => ['', ...lines].join('\n');
const guide = readFileSync(join(root, 'docs/openclaw.md'), 'utf8');

/** The command of the guide that installs what it calls `hosts/openclaw/packed/<name>`, with its place here. */
function documented(name: string, place: string): string[] {
  const told = `hosts/openclaw/packed/${name}`;
  const line = guide
    .split('\n')
    .find((one) => one.startsWith('openclaw plugins install') && one.split(' ').includes(told));
  assert.ok(line, `docs/openclaw.md installs ${told}`);
  return line.replace(told, place).split(' ').slice(1);
}

/** Another plugin, which has an address. */
function pluginAt(at: string, path: string): string {
  const route = `{ path: '${path}', auth: 'plugin', match: 'prefix', handler: () => false }`;
  const files = {
    'package.json': { name: 'taker', version: '1.0.0', type: 'module', openclaw: { extensions: ['./index.js'] } },
    'openclaw.plugin.json': { id: 'taker', activation: { onStartup: true }, configSchema: { type: 'object' } },
  };
  mkdirSync(at);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(at, name), JSON.stringify(content));
  writeFileSync(
    join(at, 'index.js'),
    `export default { id: 'taker', register: (api) => api.registerHttpRoute(${route}) };\n`,
  );
  return at;
}

const called = (name: string, args: unknown): string => `call: ${name} ${JSON.stringify(args)}`;
const results = (events: TurnEventSeen[]) => events.filter(({ type }) => type === 'tool.result');

describe('OpenClaw', { skip: withoutOpenClaw, concurrency: 1 }, () => {
  before(async () => {
    stub = await startModelStub();
    packed = await packPlugin(join(folder, 'packed'));
    host = await OpenClaw.configured(join(folder, 'first'), { modelUrl: stub.url });
    await host.command(...documented(basename(packed.archive), packed.archive));
    await host.start();
  });
  after(async () => {
    await host?.end('SIGKILL');
    await stub?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('its interface is what the plugin takes it for', () => compareTypes(join(folder, 'types')));

  test('installed from an archive, it serves svc to programs with the token of the host', async () => {
    const { gateway } = host;
    assert.deepEqual((await gateway.call('GET', '/svc/_apps')).json, []);
    for (const token of [null, 'wrong'])
      assert.equal((await gateway.call('GET', '/svc/_apps', { token })).json.error.code, 'UNAUTHORIZED');
    const forged = { token: null, headers: { 'svc-admitted': 'x'.repeat(64) } };
    assert.equal((await gateway.call('GET', '/svc/_apps', forged)).status, 401);
    assert.equal(JSON.parse(readFileSync(join(host.stateDir, 'svc/profile.json'), 'utf8')).kind, 'plugin');
    const { kind, ok } = (await gateway.call('GET', '/svc/_turn/runner-status')).json;
    assert.deepEqual([kind, ok], ['openclaw', true]);
    ({ webhooks } = await gateway.install('notes', NOTES));
    assert.equal((await gateway.upload('other', OTHER)).status, 201);
    assert.equal((await gateway.call('GET', '/svc/_apps/notes')).json.backend, 'git');
    assert.equal(host.gatewayPids.length, 1, 'registered several times, started once');
  });

  test('a browser comes through a link that openclaw svc open prints, and keeps a session', async () => {
    const { gateway } = host;
    assert.match(guide, /^openclaw svc open notes$/m);
    const printed = await host.command('svc', 'open', 'notes');
    const [, code] = /#link=([^&\s]+)/.exec(printed) ?? [];
    assert.ok(code, printed);
    const page = await gateway.call('GET', '/svc/', { token: null });
    assert.equal(page.status, 200);
    const headers = { 'sec-fetch-site': 'same-origin' };
    const session = await gateway.call('POST', '/svc/_session', { token: null, headers, body: { link: code } });
    assert.equal(session.status, 200, session.text);
    const [cookie = ''] = String(session.headers['set-cookie']).split(';');
    const key = { ...headers, cookie, 'svc-page-key': session.json.pageKey };
    const asPage = (extra: Record<string, string>, query = 'list') =>
      gateway.call('POST', '/svc/_tool/svc_read', { token: null, headers: extra, body: { app: 'notes', query } });
    assert.deepEqual((await asPage(key)).json.data, []);
    assert.equal((await asPage({ ...headers, cookie })).status, 401, 'a cookie is not a key');
    const again = await gateway.call('POST', '/svc/_session', { token: null, headers, body: { link: code } });
    assert.equal(again.status, 401, 'a link is good once');
    const administers = await gateway.call('GET', '/svc/_apps', { token: null, headers: key });
    assert.equal(administers.status, 403, 'all apps share the origin of the host');
  });

  test('a turn of its agent reads and writes an app, and an open page sees the change', async () => {
    const { gateway } = host;
    const changes = await gateway.stream('/svc/notes/_changes');
    const message = script(
      called('svc_write', { app: 'notes', action: 'add', input: { text: 'By the agent' } }),
      'then',
      called('svc_read', { app: 'notes', query: 'list' }),
    );
    const events = await turnOf(await send(gateway, 'notes', { windowId: 'w1', message }));
    const change = JSON.parse((await changes.next()).data);
    assert.deepEqual([change.table, change.source], ['notes', 'agent']);
    changes.close();
    assert.deepEqual(
      results(events).map(({ toolName, ok, result }) => [toolName, ok, JSON.parse(String(result))]),
      [
        ['svc_write', true, { text: 'By the agent' }],
        ['svc_read', true, [{ text: 'By the agent' }]],
      ],
    );
    assert.match(String(events.find(({ type }) => type === 'final')?.text), /By the agent/);
  });

  test('the guard refuses a call for another app before the tool runs', async () => {
    const before = stub.requests.length;
    const message = script(
      called('svc_read', { app: 'other', query: 'list' }),
      'then',
      called('svc_sql_read', { app: 'other', sql: 'SELECT 1' }),
    );
    const events = await turnOf(await send(host.gateway, 'notes', { windowId: 'w2', message }));
    for (const { toolName, ok, errorText } of results(events))
      assert.deepEqual(
        [ok, errorText],
        [false, 'An agent may use the tools of its own app only, which is "notes".'],
        String(toolName),
      );
    assert.equal(results(events).length, 2);
    const tools = stub.requests[before]?.tools.map(({ name }) => name);
    assert.deepEqual(
      tools?.filter((name) => !name.startsWith('svc_')),
      [],
      'mode "data" has the tools of svc alone',
    );
  });

  test('the agent of the operator, and programs, call the tools of every app', async () => {
    const { gateway } = host;
    const invoked = await gateway.call('POST', '/tools/invoke', { body: { tool: 'svc_describe', args: {} } });
    assert.equal(invoked.status, 200, invoked.text);
    assert.match(invoked.text, /notes/);
    const content = script(
      called('tool_call', { id: 'svc_read', args: { app: 'other', query: 'list' } }),
      'then',
      'say: done',
    );
    const answer = await gateway.call('POST', '/v1/chat/completions', {
      body: { model: 'openclaw', messages: [{ role: 'user', content }] },
    });
    assert.equal(answer.status, 200, answer.text);
    const last = JSON.stringify(stub.requests.at(-1)?.body);
    assert.match(last, /svc_read/);
    assert.doesNotMatch(last, /own app only/);
  });

  test('a webhook and a schedule fire in the process of the host, with ctx.tool and ctx.agent', async () => {
    const { gateway } = host;
    const [minted] = webhooks;
    assert.ok(minted);
    const path = new URL(minted.url).pathname;
    assert.equal(new URL(minted.url).origin, gateway.url);
    assert.equal((await gateway.call('POST', path, { token: 'wrong', body: { by: 'x' } })).status, 401);
    const fired = await gateway.call('POST', path, { token: minted.secret, body: { by: 'A webhook' } });
    assert.equal(fired.status, 200, fired.text);
    const run = (await gateway.call('GET', `/svc/_runs/${fired.json.runId}`)).json;
    assert.deepEqual(
      [run.state, run.output.pid, run.summary],
      ['ok', host.pid, 'I am the agent of the host'],
      JSON.stringify(run),
    );
    assert.ok(
      (await gateway.read('notes', 'list')).json.data.some(({ text }: { text: string }) => text === 'A webhook'),
    );

    const set = (enabled: boolean) =>
      gateway.call('POST', '/svc/_automations/notes/clock/enabled', { body: { enabled } });
    assert.equal((await set(true)).status, 200);
    const runs = async () => (await gateway.call('GET', '/svc/_runs?ref=notes/clock&state=ok')).json;
    assert.ok(await eventually(LONG_MS, async () => (await runs()).length > 0));
    assert.equal((await set(false)).status, 200);
    const [tick] = await runs();
    assert.deepEqual([tick.trigger.kind, tick.output.pid], ['cron', host.pid]);
  });

  test('an upload of 30 MB passes, and comes back as it was', async () => {
    const bytes = randomBytes(30_000_000);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const headers = { 'content-type': 'application/octet-stream' };
    const stored = await host.gateway.call('PUT', '/svc/notes/_blobs', { body: bytes, headers });
    assert.deepEqual([stored.status, stored.json.sha256], [201, sha256], stored.text.slice(0, 500));
    const fetched = await host.gateway.call('GET', `/svc/notes/_blobs/${sha256}`);
    assert.equal(createHash('sha256').update(fetched.bytes).digest('hex'), sha256);
  });

  test('a stream stays open through a reload of the configuration, and a faulty one is refused in words', async () => {
    const { gateway } = host;
    const [pid] = host.gatewayPids;
    const changes = await gateway.stream('/svc/notes/_changes');
    let from = host.log.length;
    host.configure({ agentId: 'main' });
    await host.logged(/config.*(?:applied|reload)/i, from);
    await gateway.write('notes', 'add', { text: 'After the reload' });
    assert.equal(JSON.parse((await changes.next()).data).table, 'notes');

    from = host.log.length;
    host.configure({ agentId: 'main', prot: 1 });
    await host.logged(/prot/, from);
    await gateway.write('notes', 'add', { text: 'After a fault' });
    assert.equal(JSON.parse((await changes.next()).data).table, 'notes');
    assert.deepEqual(host.gatewayPids, [pid]);

    // What the gateway itself has to know makes another gateway, with the same data.
    from = host.log.length;
    host.configure({ agentId: 'main', queryTimeoutMs: 5000 });
    await host.logged(/svc serves/, from);
    await changes.ended();
    assert.notDeepEqual(host.gatewayPids, [pid]);
    assert.ok((await gateway.read('notes', 'list')).json.data.length > 3);
  });

  test('a gateway that dies alone is started again', async () => {
    const [pid = 0] = host.gatewayPids;
    process.kill(pid, 'SIGKILL');
    assert.ok(await eventually(LONG_MS, async () => !host.gatewayPids.includes(pid) && (await host.answers())));
    assert.equal(host.gatewayPids.length, 1);
    assert.match(host.log, /svc's gateway ended, and starts again in 1 s/);
  });

  test('a second host on the same data is refused in words, and so is data of another kind of host', async () => {
    const second = await OpenClaw.configured(join(folder, 'second'), {
      modelUrl: stub.url,
      svc: { dataDir: join(host.stateDir, 'svc') },
      others: [pluginAt(join(folder, 'taker'), '/_svc-user')],
    });
    await second.command(...documented('plugin', packed.folder));
    try {
      await second.start(/svc did not start: /);
      assert.match(second.log, new RegExp(`is in use by the OpenClaw with pid ${host.pid}\\. Stop that one, or`));
      const refused = await second.gateway.call('GET', '/svc/_apps');
      assert.equal(refused.status, 503);
      assert.match(refused.json.error.message, /in use/);
      // An address that another plugin has is named, with its owner.
      assert.match(second.log, /\/_svc-user.*taker/);

      const daemons = join(folder, 'daemons');
      mkdirSync(daemons);
      writeFileSync(join(daemons, 'profile.json'), JSON.stringify({ id: 'local', kind: 'daemon' }));
      const from = second.log.length;
      second.configure({ dataDir: daemons });
      await second.logged(/belongs to a daemon \(svc serve\)\. Give the plugin another one/, from);

      second.configure({});
      assert.ok(await eventually(LONG_MS, () => second.answers()));
      assert.deepEqual(
        (await second.gateway.call('GET', '/svc/_apps')).json,
        [],
        'installed from a folder, it serves too',
      );
    } finally {
      await second.end('SIGKILL');
    }
    assert.equal((await host.gateway.call('GET', '/svc/_health')).status, 200);
  });

  test('after kill -9 nothing is left once it has started again, and SIGTERM leaves no process', async () => {
    const text = join(folder, 'first');
    await host.gateway.write('notes', 'add', { text: 'Acknowledged' });
    const changes = await host.gateway.stream('/svc/notes/_changes');
    const old = processesWith(text);
    assert.ok(old.length >= 3);
    await host.end('SIGKILL');
    await changes.ended();
    await host.start();
    assert.deepEqual(
      processesWith(text).filter((pid) => old.includes(pid)),
      [],
    );
    const { data } = (await host.gateway.read('notes', 'list')).json;
    assert.ok(data.some((note: { text: string }) => note.text === 'Acknowledged'));

    const open = await host.gateway.stream('/svc/notes/_changes');
    assert.equal(await host.end('SIGTERM'), 0);
    await inTime(open.ended(), 'the end of the stream');
    assert.deepEqual(processesWith(text), []);
  });
});
