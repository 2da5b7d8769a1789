// The process tree under load, seen from outside: no call is lost or hangs, places are shared, and it always ends
// cleanly.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type AppSource, appOf as anyAppOf } from '../testing/apps.ts';
import { EDGES, eventually, gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, ENDS_WITH_PARENT, root, startGateway, type TestGateway } from '../testing/gateway.ts';
import { isRunning } from '../testing/processes.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

/** These tests are about threads: no app of theirs is in the commons. */
function appOf(id: string, source: AppSource = {}) {
  return anyAppOf(id, { ...source, manifest: { thread: 'own', ...source.manifest } });
}

/** The app `slow`, whose calls take as long as the test wants: `hold` ends when what it fetches is answered. */
function slow(put: { timeoutMs?: number } = {}): Record<string, string | Buffer> {
  return appOf('slow', {
    queries: {
      echo: 'async ({ input }) => input.n',
      sleep: {
        run: 'async ({ input }) => { await new Promise((done) => setTimeout(done, input.ms)); return input.ms; }',
        timeoutMs: LONG_MS,
      },
      hold: { run: HOLD, timeoutMs: LONG_MS },
      brief: { run: '() => 1', timeoutMs: 300 },
      state: 'async () => ({ started: globalThis.started ?? 0, aborted: globalThis.aborted ?? 0 })',
    },
    actions: {
      watched: {
        run: `async ({ ctx }) => {
          globalThis.started = (globalThis.started ?? 0) + 1;
          await new Promise((done) => ctx.signal.addEventListener('abort', done));
          globalThis.aborted = (globalThis.aborted ?? 0) + 1;
          return {};
        }`,
        timeoutMs: LONG_MS,
      },
      put: { run: 'async () => ({ status: 201, body: 1 })', ...put },
    },
  });
}

const HOLD = 'async ({ ctx, input }) => (await ctx.fetch(input.url)).text()';

/** A server that answers no request before `open` is called. */
async function startGate(t: TestContext): Promise<{ url: string; open(): void }> {
  const held: ServerResponse[] = [];
  let isOpen = false;
  const server = createHttpServer((_request, response) => {
    if (isOpen) response.end('held');
    else held.push(response);
  }).listen(0, '127.0.0.1');
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  await once(server, 'listening');
  const open = () => {
    isOpen = true;
    for (const response of held) response.end('held');
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, open };
}

async function install(gateway: TestGateway, id: string, files: Record<string, string | Buffer>): Promise<void> {
  const answer = await gateway.upload(id, files);
  assert.equal(answer.status, 201, answer.text);
}

async function processOf(gateway: TestGateway, role: string) {
  const { processes } = await gateway.system();
  return processes.find((child: { role: string }) => child.role === role);
}

/** The row of an app in `svc status`. */
async function actorOf(gateway: TestGateway, app: string) {
  const { processes } = await gateway.system();
  return processes
    .flatMap((child: { actors?: unknown[] }) => child.actors ?? [])
    .find((a: { app: string }) => a.app === app);
}

/** A request that the test may give up. */
function abortable(gateway: TestGateway, tool: string, body: unknown): { done: Promise<unknown>; abort(): void } {
  const controller = new AbortController();
  const done = fetch(`${gateway.url}/svc/_tool/${tool}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.token}` },
    body: JSON.stringify(body),
    signal: controller.signal,
  }).catch(() => {});
  return { done, abort: () => controller.abort() };
}

/** Calls until the time of a call is up while it runs: on a busy machine it may be up before. */
async function timedOutRunning(call: () => Promise<Answer>, message: RegExp): Promise<void> {
  for (;;) {
    const answer = await call();
    assert.equal(answer.json.error?.code, 'HANDLER_ERROR', answer.text);
    if (message.test(answer.json.error.message)) return;
    assert.match(answer.json.error.message, /it had not started|before it could start/);
  }
}

/** The daemon has noted that it is to end: it takes no more connections. */
function stopping(gateway: TestGateway): Promise<void> {
  return eventually(async () => (await gateway.call('GET', '/svc/_health').catch(() => null)) === null);
}

describe('places', () => {
  test('1,000 calls across 50 apps, of which 4 can be live: each is answered, by its own app', async (t) => {
    const gateway = await startGateway(t, { config: { maxLiveActors: 4, queryTimeoutMs: LONG_MS } });
    const ids = Array.from({ length: 50 }, (_, n) => `app-${n}`);
    for (const id of ids) await install(gateway, id, appOf(id, { queries: { who: '({ app }) => app.id' } }));
    const answers: { id: string; answer: Answer }[] = [];
    const rounds = ids.values();
    const client = async () => {
      for (const id of rounds) {
        const asked = Array.from({ length: 20 }, () => gateway.read(id, 'who'));
        for (const answer of await Promise.all(asked)) answers.push({ id, answer });
      }
    };
    await Promise.all(Array.from({ length: 16 }, client));
    for (const { id, answer } of answers) assert.equal(answer.status === 200 && answer.json.data, id, answer.text);
    const { counters, processes } = await gateway.system();
    assert.equal(answers.length, 1000);
    assert.ok(counters.retired.evicted >= 46, JSON.stringify(counters));
    const living = processes
      .flatMap((child: { actors?: { state: string }[] }) => child.actors ?? [])
      .filter((actor: { state: string }) => actor.state === 'live' || actor.state === 'starting');
    assert.ok(living.length <= 4, JSON.stringify(living));
  });

  describe('with only one', () => {
    const gateway = gatewayOfSuite({ config: { maxLiveActors: 1, actorIdleMs: 1000 } });
    before(async () => {
      await install(gateway, 'slow', slow());
      await install(gateway, 'other', appOf('other', { queries: { ok: '() => 42' } }));
    });

    test('an unused thread ends, and the next call starts another', async () => {
      assert.equal((await gateway.read('slow', 'echo', { n: 1 })).json.data, 1);
      await eventually(async () => (await actorOf(gateway, 'slow')).state === 'idle');
      assert.equal((await gateway.system()).counters.retired.idle, 1);
      assert.equal((await gateway.read('slow', 'echo', { n: 2 })).json.data, 2);
    });

    test('an app that is never idle does not keep the only place for itself', async () => {
      let running = true;
      const statuses = new Set<number>();
      const client = async () => {
        while (running) statuses.add((await gateway.read('slow', 'sleep', { ms: 30 })).status);
      };
      const clients = Array.from({ length: 4 }, client);
      for (let n = 0; n < 3; n++) {
        const answer = await gateway.read('other', 'ok');
        assert.equal(answer.status, 200, answer.text);
      }
      running = false;
      await Promise.all(clients);
      assert.deepEqual([...statuses], [200]);
    });

    test('a call that never ends does not keep its place for ever', async () => {
      const bad = { run: '() => new Promise(() => {})', timeoutMs: 200 };
      await install(gateway, 'stuck', appOf('stuck', { queries: { bad } }));
      await timedOutRunning(() => gateway.read('stuck', 'bad'), /^"bad" timed out after 0\.2 s\.$/);
      assert.equal((await gateway.read('other', 'ok')).status, 200);
    });
  });
});

describe('the mailbox', () => {
  const gateway = gatewayOfSuite({ config: { mailboxLimit: 3 } });
  before(async () => {
    await install(gateway, 'slow', slow({ timeoutMs: 300 }));
    await gateway.read('slow', 'echo', { n: 0 });
  });

  /** Gives the thread the 64 calls that it works on at a time; `release` lets them end, which they must do well. */
  async function fill(t: TestContext): Promise<() => Promise<void>> {
    const gate = await startGate(t);
    const filling = Array.from({ length: 64 }, () => gateway.read('slow', 'hold', { url: gate.url }));
    await eventually(async () => (await actorOf(gateway, 'slow')).inFlight === 64);
    return async () => {
      gate.open();
      for (const { status } of await Promise.all(filling)) assert.equal(status, 200);
    };
  }

  test('refuses calls over its limit and says when to try again; accepted calls are answered', async (t) => {
    const release = await fill(t);
    const waiting = Array.from({ length: 3 }, () => gateway.read('slow', 'echo', { n: 1 }));
    await eventually(async () => (await actorOf(gateway, 'slow')).mailbox === 3);
    const refused = await Promise.all(Array.from({ length: 13 }, () => gateway.read('slow', 'echo')));
    for (const { status, json, headers } of refused) {
      assert.deepEqual([status, json.error.code, headers['retry-after']], [503, 'OVERLOADED', '1']);
    }
    await release();
    for (const { status } of await Promise.all(waiting)) assert.equal(status, 200);
  });

  test('a call whose time passes while it waits is answered and never run', async (t) => {
    const release = await fill(t);
    const late = await gateway.read('slow', 'brief');
    assert.deepEqual([late.status, late.json.error.code], [500, 'HANDLER_ERROR'], late.text);
    assert.match(late.json.error.message, /timed out after 0\.3 s; it had not started/);
    await release();
  });

  test('a client that disconnects cancels its waiting call, and a running one is notified', async (t) => {
    const seen = async () => (await gateway.read('slow', 'state')).json.data;
    const running = abortable(gateway, 'svc_write', { app: 'slow', action: 'watched' });
    await eventually(async () => (await seen()).started === 1);
    running.abort();
    await running.done;
    await eventually(async () => (await seen()).aborted === 1);

    const release = await fill(t);
    const waiting = abortable(gateway, 'svc_write', { app: 'slow', action: 'watched' });
    await eventually(async () => (await actorOf(gateway, 'slow')).mailbox === 1);
    waiting.abort();
    await waiting.done;
    await eventually(async () => (await actorOf(gateway, 'slow')).mailbox === 0);
    await release();
    assert.deepEqual(await seen(), { started: 1, aborted: 1 });
  });

  test('an idempotency key whose call never started may be used again', async (t) => {
    const release = await fill(t);
    const keyed = () => gateway.write('slow', 'put', {}, { headers: { 'idempotency-key': 'k' } });
    assert.match((await keyed()).text, /it had not started/);
    await release();
    // With the usual limit, which no call reaches that runs.
    await install(gateway, 'slow', slow());
    assert.equal((await keyed()).status, 201);
  });
});

describe('with one host', () => {
  const gateway = gatewayOfSuite({ config: { handlerHosts: 1 } });
  before(() => install(gateway, 'bystander', appOf('bystander', { queries: { ok: '() => 42' } })));

  test('versions change under load without a call that fails, and calls of the old one end on it', async (t) => {
    const gate = await startGate(t);
    const files = (n: number) =>
      appOf('app', {
        queries: {
          version: `async () => { await new Promise((done) => setTimeout(done, ${n % 3} * 5)); return ${n}; }`,
          long: {
            run: `async ({ ctx, input }) => { await ctx.fetch(input.url); return ${n}; }`,
            timeoutMs: LONG_MS,
          },
        },
      });
    await install(gateway, 'app', files(1));
    const long = gateway.read('app', 'long', { url: gate.url });
    await eventually(async () => (await actorOf(gateway, 'app'))?.inFlight === 1);
    let running = true;
    const versions: number[][] = [];
    const client = async () => {
      const own: number[] = [];
      versions.push(own);
      while (running) {
        const answer = await gateway.read('app', 'version');
        assert.equal(answer.status, 200, answer.text);
        own.push(answer.json.data);
      }
    };
    const clients = Array.from({ length: 8 }, client);
    for (let n = 2; n <= 6; n++) await install(gateway, 'app', files(n));
    assert.equal((await gateway.read('app', 'version')).json.data, 6);
    running = false;
    await Promise.all(clients);
    for (const own of versions)
      assert.deepEqual(
        own,
        own.toSorted((a, b) => a - b),
        'a client went back in time',
      );
    gate.open();
    assert.equal((await long).json.data, 1);
  });

  test('the tree recovers from a thread that cannot be ended: its app gets a separate host, and affects no other app from then on', async () => {
    const endless =
      'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?) SELECT count(*) AS n FROM n';
    const run = `({ db, input }) => db.get(${JSON.stringify(endless)}, input.n)`;
    const migrations = ['CREATE TABLE t (n INTEGER)'];
    await install(gateway, 'native', appOf('native', { migrations, queries: { count: { run, timeoutMs: 300 } } }));
    const host = async (name: string) => {
      const { processes } = await gateway.system();
      return processes.find((child: { name: string }) => child.name === name);
    };
    let n = 1e12;
    // A thread that took a call too late runs it all the same, and may be what ends the host of the next call.
    const timedOut =
      /^"count" timed out after 0\.3 s(?:; the thread that ran it had ended \(crash: .*a thread of native could not be ended\))?\.(?: The app's handler host does not run: a thread of native could not be ended\.)?$/;
    for (const name of ['host-1', 'host-for-native']) {
      // Where its thread took the call too late to begin with it, that takes others.
      do await timedOutRunning(() => gateway.read('native', 'count', { n: ++n }), timedOut);
      while ((await gateway.read('native', 'count', { n: 1 })).status === 200 && (await host(name)).restarts === 0);
      await eventually(async () => (await host(name)).restarts === 1);
      assert.match((await host(name)).lastExit, /a thread of native could not be ended/);
      await eventually(async () => (await gateway.read('native', 'count', { n: 1 })).status === 200);
      assert.equal((await gateway.read('bystander', 'ok')).status, 200);
    }
    assert.equal((await host('host-1')).restarts, 1);
  });

  test('the tree recovers from a host that is killed repeatedly', async () => {
    await install(gateway, 'slow', slow());
    const calls: Promise<Answer>[] = [];
    let killed = 0;
    for (let last = 0; killed < 8; ) {
      const { processes } = await gateway.system();
      const host = processes.find((child: { name: string }) => child.name === 'host-1');
      if (host.state !== 'running' || host.pid === last) {
        await pause(10);
        continue;
      }
      calls.push(gateway.read('slow', 'sleep', { ms: 50 }));
      last = host.pid;
      process.kill(host.pid, 'SIGKILL');
      killed++;
    }
    for (const { status, text } of await Promise.all(calls)) assert.ok([200, 500].includes(status), text);
    for (const app of ['slow', 'bystander']) {
      const answer = await gateway.read(app, app === 'slow' ? 'echo' : 'ok', { n: 42 });
      assert.deepEqual([answer.status, answer.json.data], [200, 42], answer.text);
    }
    assert.equal((await processOf(gateway, 'writer')).restarts, 0);
  });
});

describe('the daemon ends', () => {
  // Each test leaves it running.
  const gateway = gatewayOfSuite({});
  before(() => install(gateway, 'slow', slow()));

  test('with exit code 1 and its reason when the writer does not stay up', async () => {
    for (let last = 0; ; ) {
      const writer = await processOf(gateway, 'writer').catch(() => null);
      if (!writer) break;
      if (writer.state !== 'running' || writer.pid === last) {
        await pause(10);
        continue;
      }
      last = writer.pid;
      process.kill(writer.pid, 'SIGKILL');
    }
    assert.equal(await gateway.exited(), 1);
    assert.match(gateway.log, /The SQLite writer does not stay up/);
    assert.equal(existsSync(join(gateway.dataDir, 'run', 'daemon.json')), false);
    await gateway.start();
    assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
  });

  test('on SIGTERM after the calls that run; open streams do not keep it', async (t) => {
    const gate = await startGate(t);
    await gateway.read('slow', 'echo', { n: 0 });
    const { pid } = await processOf(gateway, 'writer');
    const stream = await gateway.stream('/svc/slow/_changes');
    const log = await gateway.stream('/svc/_logs?follow=1');
    const long = gateway.read('slow', 'hold', { url: gate.url });
    await eventually(async () => (await actorOf(gateway, 'slow')).inFlight === 1);
    const end = gateway.stop();
    await stopping(gateway);
    gate.open();
    assert.equal((await long).json.data, 'held');
    assert.equal(await end, 0);
    await Promise.all([stream.ended(), log.ended()]);
    assert.equal(isRunning(pid), false);
    assert.deepEqual(readdirSync(join(gateway.dataDir, 'run')), ['children.json', 'sockets.json']);
    assert.equal(existsSync(join(gateway.dataDir, 'lock')), false);
    await gateway.start();
  });

  test('on SIGTERM while an upload is under way, which ends well', async () => {
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`page-${n}.html`, `<p>${n}</p>`]));
    const upload = gateway.upload('many', appOf('many', { files: many }));
    await eventually(() => readdirSync(join(gateway.dataDir, 'tmp')).length > 0);
    assert.equal(await gateway.stop(), 0);
    const { status, text } = await upload;
    assert.equal(status, 201, text);
    assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
    await gateway.start();
    assert.equal((await gateway.call('GET', '/svc/_apps/many')).json.status, 'active');
  });

  test('at once on the second SIGTERM, and ends its processes', async () => {
    const pids = [(await processOf(gateway, 'writer')).pid, (await processOf(gateway, 'host')).pid];
    const long = gateway.read('slow', 'sleep', { ms: LONG_MS }).catch(() => null);
    await eventually(async () => (await actorOf(gateway, 'slow'))?.inFlight === 1);
    const first = gateway.stop();
    await stopping(gateway);
    assert.equal(await gateway.stop(), 1);
    await first;
    await long;
    await eventually(() => !pids.some(isRunning));
    await gateway.start();
  });

  test('by a kill, with a writer that was stopped: the next daemon ends that', async () => {
    const { pid } = await processOf(gateway, 'writer');
    process.kill(pid, 'SIGSTOP');
    await gateway.kill();
    assert.equal(isRunning(pid), true);
    const said = gateway.log.length;
    await gateway.start();
    assert.equal(isRunning(pid), false);
    assert.match(gateway.log.slice(said), /Ended the processes of a gateway that died/);
    assert.equal((await gateway.read('slow', 'echo', { n: 1 })).json.data, 1);
  });
});

test('the daemon ends cleanly on a SIGTERM that comes with daemon.json', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // Who watches for the file may be this quick: the signal is there before the gateway goes on.
  const preload = join(folder, 'signal.cjs');
  writeFileSync(
    preload,
    `const fs = require('node:fs/promises');
     const { rename } = fs;
     fs.rename = async (from, to) => {
       await rename(from, to);
       if (to.endsWith('daemon.json')) process.kill(process.pid, 'SIGTERM');
     };
     require('node:module').syncBuiltinESMExports();`,
  );
  const { code, stderr, dataDir } = await serveOnce(t, ['--port', '0'], { NODE_OPTIONS: `--require ${preload}` });
  assert.equal(code, 0);
  assert.match(stderr, /SIGTERM: stopping/);
  nothingLeft(dataDir);
});

describe('the daemon does not start', () => {
  test('on a port in use: it says so, and leaves no process and no lock', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    t.after(() => taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    for (const edge of EDGES) {
      const { code, stderr, dataDir } = await serveOnce(t, ['--port', String(port), '--edge', edge]);
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`(?:Another program|\\(pid ${process.pid}\\)) is listening on port ${port}`));
      nothingLeft(dataDir);
    }
  });

  test('when the writer does not: it says why, and leaves no process and no lock', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    // Every process of the gateway but the supervisor is started with an empty environment, so this reaches that one alone.
    const preload = join(folder, 'no-writer.cjs');
    writeFileSync(
      preload,
      `const cp = require('node:child_process');
       const { spawn } = cp;
       cp.spawn = (file, args, options) =>
         spawn(file, args.map((arg) => arg.endsWith('writer.cjs') ? ${JSON.stringify(join(folder, 'missing.js'))} : arg), options);
       require('node:module').syncBuiltinESMExports();`,
    );
    const { code, stderr, dataDir } = await serveOnce(t, ['--port', '0'], { NODE_OPTIONS: `--require ${preload}` });
    assert.equal(code, 1);
    assert.match(stderr, /The SQLite writer does not stay up: exited with code 1/);
    nothingLeft(dataDir);
  });
});

/** Runs `svc serve` in a fresh data directory to its end. */
async function serveOnce(
  t: { after(cleanup: () => void): void },
  flags: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; stderr: string; dataDir: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const child: ChildProcess = spawn(
    process.execPath,
    [ENDS_WITH_PARENT, join(root, 'bin/svc.js'), 'serve', '--data-dir', dataDir, '--store', 'tarball', ...flags],
    { stdio: ['pipe', 'ignore', 'pipe'], env: { ...process.env, ...env } },
  );
  t.after(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const [code] = (await inTime(once(child, 'close'), 'the end of svc serve', LONG_MS)) as [number | null];
  return { code, stderr, dataDir };
}

function nothingLeft(dataDir: string): void {
  assert.equal(existsSync(join(dataDir, 'lock')), false);
  assert.equal(existsSync(join(dataDir, 'run', 'daemon.json')), false);
  const children = JSON.parse(readFileSync(join(dataDir, 'run', 'children.json'), 'utf8')) as { pid: number }[];
  for (const { pid } of children) assert.equal(isRunning(pid), false);
}
