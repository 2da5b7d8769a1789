// Apps that misbehave: other apps are not affected, the cause is named, and the gateway recovers by itself.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { before, describe, test } from 'node:test';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { enter, signIn } from '../testing/origins.ts';

const TIMEOUT_MS = 400;

/** An app with these handlers; the tool named `bad` has a short time limit. */
function app(
  id: string,
  queries: Record<string, string>,
  actions: Record<string, string> = {},
): Record<string, string> {
  const limit = (name: string) => (name === 'bad' ? { timeoutMs: TIMEOUT_MS } : {});
  const tools = (handlers: Record<string, string>) =>
    Object.keys(handlers).map((name) => ({ name, ...limit(name), writes: ['t'] }));
  const manifest = {
    id,
    name: id,
    version: '1.0.0',
    // In the commons they end otherwise: see commons.e2e.test.ts.
    thread: 'own',
    queries: tools(queries).map(({ writes: _, ...tool }) => tool),
    actions: tools(actions),
  };
  const files: Record<string, string> = {
    'app.json': JSON.stringify(manifest),
    'migrations/0001_t.sql': 'CREATE TABLE t (n INTEGER);',
  };
  for (const [name, body] of Object.entries(queries))
    files[`queries/${name}.js`] = `export default async ({ db, ctx, input }) => { ${body} };`;
  for (const [name, body] of Object.entries(actions))
    files[`actions/${name}.js`] = `export default async ({ db, ctx, input }) => { ${body} };`;
  return files;
}

describe('an app that misbehaves', () => {
  const gateway = gatewayOfSuite({ config: { actorMemoryMb: 32 } });
  before(() => gateway.install('good', app('good', { ok: 'return 42;' })));

  async function stillServes(): Promise<void> {
    const answer = await gateway.read('good', 'ok');
    assert.deepEqual([answer.status, answer.json.data], [200, 42], answer.text);
  }

  async function install(id: string, queries: Record<string, string>, actions?: Record<string, string>): Promise<void> {
    const answer = await gateway.upload(id, app(id, { ok: 'return 1;', ...queries }, actions));
    assert.equal(answer.status, 201, answer.text);
    assert.equal((await gateway.read(id, 'ok')).status, 200);
  }

  /** What `svc status` shows of the app. */
  async function actorOf(id: string) {
    const { processes } = await gateway.system();
    const actors = processes.flatMap((child: { actors?: { app: string }[] }) => child.actors ?? []);
    return actors.find((actor: { app: string }) => actor.app === id);
  }

  /** Waits until the app's log says so. */
  function logged(id: string, what: RegExp): Promise<void> {
    return eventually(async () => {
      const lines = (await gateway.call('GET', `/svc/_logs?app=${id}`)).json;
      return lines.some(({ msg }: { msg: string }) => what.test(msg));
    });
  }

  /** The app answers its other calls again, however it failed. */
  async function recovers(id: string): Promise<void> {
    for (;;) {
      const answer = await gateway.read(id, 'ok');
      if (answer.status === 200) return;
      assert.equal(answer.json.error.code, 'HANDLER_ERROR', answer.text);
    }
  }

  for (const [name, body, message] of [
    ['throws', 'throw new Error("no such thing");', /no such thing/],
    ['rejects with nothing', 'return Promise.reject();', /./],
    ['never settles', 'await new Promise(() => {});', /timed out after 0\.4 s/],
    [
      'floods the microtask queue',
      'const again = () => Promise.resolve().then(again); return again();',
      /timed out after 0\.4 s/,
    ],
    ['exits', 'process.exit(0);', /process is not defined/],
    ['returns a cycle', 'const a = {}; a.a = a; return a;', /circular/i],
    ['returns too much', 'return "x".repeat(9 * 1024 * 1024);', /8388608/],
    ['is stuck in an expression', 'return /^(a+)+$/.test("a".repeat(40) + "b");', /timed out after 0\.4 s/],
  ] as const) {
    test(`a handler that ${name} affects no other app`, async () => {
      const id = `bad-${name.replace(/[^a-z]/g, '-')}`.slice(0, 30);
      await install(id, { bad: body });
      const answer = await gateway.read(id, 'bad');
      assert.deepEqual([answer.status, answer.json.error.code], [500, 'HANDLER_ERROR'], answer.text);
      assert.match(answer.json.error.message, message);
      assert.doesNotMatch(answer.text, /\/tmp|\/work|node:|at .*:\d+:\d+/);
      await stillServes();
      await recovers(id);
    });
  }

  test('a handler that uses all memory ends only its own thread', async () => {
    await install('hungry', {
      bad: 'const all = []; for (;;) { all.push(new Array(1e5).fill(Math.random())); if (all.length % 50 === 0) await 0; }',
    });
    const answer = await gateway.read('hungry', 'bad');
    assert.equal(answer.status, 500);
    assert.match(answer.json.error.message, /memory|timed out/);
    await stillServes();
    await recovers('hungry');
  });

  test('a handler that uses memory outside its heap ends only its own thread, and the app gets an error', async () => {
    // Without a short limit, which a busy machine reaches before the memory.
    await install('buffers', { hoard: 'const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1));' });
    const host = async () => (await gateway.system()).processes.find(({ role }: { role: string }) => role === 'host');
    const { pid } = await host();
    const answer = await gateway.read('buffers', 'hoard');
    assert.match(answer.json.error.message, /ran out of memory/);
    await recovers('buffers');
    await stillServes();
    await logged('buffers', /its thread ended \(memory: The app needed more than 32 MiB of memory outside of its heap/);
    assert.equal((await host()).pid, pid);
  });

  test('a thread that answers but ignores that its call was cancelled is replaced', async () => {
    await install('deaf', { bad: 'for (;;) await new Promise((go) => setTimeout(go, 10));' });
    assert.match((await gateway.read('deaf', 'bad')).json.error.message, /timed out after 0\.4 s/);
    await logged('deaf', /"bad" timed out after 0\.4 s/);
    await logged('deaf', /"bad" ran on after its time was up/);
    await eventually(async () => (await actorOf('deaf')).lastExit?.startsWith('deadline: "bad" ran on'));
    await recovers('deaf');
  });

  test('a fetch without an answer, or with an endless one, ends with its call', async (t) => {
    let open = 0;
    const server = createServer((request, response) => {
      open++;
      response.on('close', () => open--);
      if (request.url === '/drip') response.write('.');
    }).listen(0, '127.0.0.1');
    t.after(() => server.closeAllConnections());
    t.after(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await install('fetching', { bad: `return (await ctx.fetch('http://127.0.0.1:${port}' + input.path)).text();` });
    for (const path of ['/silent', '/drip']) {
      const answer = await gateway.read('fetching', 'bad', { path });
      // The call's clock and that of its fetch run out at once: either may be first.
      assert.match(answer.json.error.message, /timed out after 0\.4 s|due to timeout/);
      await eventually(() => open === 0);
    }
  });

  test('SQL of a caller without an end is ended, and no call of any app notices', async () => {
    await install('queried', {});
    const endless = 'WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n';
    const sql = (id: string, statement: string) =>
      gateway.call('POST', `/svc/_apps/${id}/sql`, { body: { sql: statement } });
    const agents = (id: string, statement: string) =>
      gateway.call('POST', '/svc/_mcp', {
        headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
        body: {
          ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
          params: { name: 'svc_sql_read', arguments: { app: id, sql: statement } },
        },
      });
    const hosts = async () => {
      const { processes } = await gateway.system();
      const all = processes.filter(({ role }: { role: string }) => role === 'host' || role === 'writer');
      return all.map((one: Record<string, unknown>) => [one.name, one.pid, one.restarts]);
    };
    const before = await hosts();
    const answers = [sql('queried', endless), agents('queried', endless), sql('queried', `EXPLAIN ${endless}`)];
    let isOver = false;
    const all = Promise.all(answers).finally(() => {
      isOver = true;
    });
    let calls = 0;
    for (; !isOver; calls++) {
      await stillServes();
      const own = await gateway.read('queried', 'ok', { calls });
      assert.deepEqual([own.status, own.json.data], [200, 1], own.text);
      const other = await sql('good', 'SELECT 42');
      assert.deepEqual([other.status, other.json.rows], [200, [[42]]], other.text);
    }
    const [byHand, byAgent, explained] = await all;
    assert.deepEqual([byHand?.status, byHand?.json.error.code], [500, 'HANDLER_ERROR'], byHand?.text);
    assert.match(byHand?.json.error.message, /timed out after 2 s/);
    assert.doesNotMatch(byHand?.text ?? '', /crash|stored|unknown/);
    assert.match(byAgent?.text ?? '', /HANDLER_ERROR.*timed out after 2 s/);
    assert.equal(explained?.status, 200, explained?.text);
    assert.deepEqual(await hosts(), before);
    assert.equal((await actorOf('queried')).lastExit, null);
    await logged('queried', /SQL of a caller timed out after 2 s/);
    // The processes of these statements are gone; that of the other app waits for the next one.
    await eventually(async () => {
      const { processes } = await gateway.system();
      return processes.filter(({ role }: { role: string }) => role === 'sql').length <= 2;
    });
  });

  test('an unhandled rejection does not end anything else', async () => {
    await install('careless', {
      bad: 'Promise.reject(new Error("lost")); setTimeout(() => { throw new Error("late"); }, 1); return 1;',
    });
    await gateway.read('careless', 'bad');
    await recovers('careless');
    await stillServes();
  });

  test('a handler that loops affects no other app, and after the second time its call is refused until the version changes', async () => {
    await install('poisoned', { bad: 'if (input.loop) for (;;); return "fine";' });
    const call = () => gateway.read('poisoned', 'bad', { loop: true });
    const lost = async (): Promise<number> => (await gateway.system()).counters.retired.deadline;
    for (let n = 0; n < 2; n++) {
      const before = await lost();
      const answer = await call();
      assert.deepEqual([answer.status, answer.json.error.code], [500, 'HANDLER_ERROR'], answer.text);
      assert.match(answer.json.error.message, /timed out after 0\.4 s/);
      assert.doesNotMatch(answer.text, /\/tmp|\/work|node:|at .*:\d+:\d+/);
      await stillServes();
      // The loss of its thread is known a second after the call was answered.
      await eventually(async () => (await lost()) > before);
      await recovers('poisoned');
    }
    assert.match((await call()).json.error.message, /crashed "poisoned" twice/);
    assert.equal((await gateway.read('poisoned', 'bad', { loop: false })).json.data, 'fine');
    await gateway.upload('poisoned', { ...app('poisoned', { ok: 'return 1;', bad: 'return "mended";' }) });
    assert.equal((await call()).json.data, 'mended');
  });

  test('an app whose module does not load says which file and why; its other tools work', async () => {
    await install('broken', { bad: 'return 1;' });
    const files = app('broken', { ok: 'return 1;', bad: '' });
    files['queries/bad.js'] = `import { value } from '../lib/a.js';\nexport default async () => value;\n`;
    files['lib/a.js'] = 'export const value = null.value;\n';
    assert.equal((await gateway.upload('broken', files)).status, 201);
    assert.equal((await gateway.read('broken', 'ok')).status, 200);
    const answer = await gateway.read('broken', 'bad');
    assert.match(answer.json.error.message, /queries\/bad\.js failed to load: .*of null/);
  });

  test('an app that keeps crashing is quarantined, and shown with its reason; a restart by hand or a new version ends that', async () => {
    await install('crashing', { bad: 'setTimeout(() => { throw new Error("boom"); }); await new Promise(() => {});' });
    for (let n = 0; ; n++) {
      const answer = await gateway.read('crashing', 'bad', { n });
      if (answer.status === 503) {
        assert.equal(answer.json.error.code, 'QUARANTINED');
        break;
      }
      assert.equal(answer.json.error.code, 'HANDLER_ERROR');
      // A call whose thread is slow to restart is answered when its time is up, and does not count.
      assert.ok(n < 100, `it was never quarantined: ${answer.text} ${gateway.log}`);
    }
    assert.equal((await gateway.read('crashing', 'ok')).status, 503);
    const apps: { id: string; status: string }[] = (await gateway.call('GET', '/svc/_apps')).json;
    assert.equal(apps.find(({ id }) => id === 'crashing')?.status, 'quarantined');
    assert.equal((await gateway.call('GET', '/svc/_apps/crashing')).json.status, 'quarantined');
    const { state, lastExit } = await actorOf('crashing');
    assert.deepEqual([state, lastExit], ['quarantined', 'crash: boom']);
    const origin = await enter(gateway, await signIn(gateway), { app: 'crashing' });
    const page = await origin.visit('/');
    assert.deepEqual([page.status, page.headers['content-type']], [503, 'text/html; charset=utf-8']);
    assert.match(page.text, /<h1>This app is out of service<\/h1>.*still there.*tell the person who runs it/s);
    assert.match(page.text, /href="">Try again<.*\/svc\/#\/apps\/crashing">You run it\? See why in the console</);
    assert.doesNotMatch(page.text, /POST|boom/);
    assert.equal((await origin.call('GET', '/')).json.error.code, 'NOT_FOUND', 'programs get its files as before');
    assert.equal((await gateway.call('POST', '/svc/_apps/crashing/restart')).status, 200);
    assert.equal((await gateway.read('crashing', 'ok')).status, 200);
    assert.equal((await origin.visit('/')).status, 404, 'it has no page');
  });
});
