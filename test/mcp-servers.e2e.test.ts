// Tools of real MCP servers, called through the real process: what they answer, how they fail, and that none of their
// processes is left.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { ToolServerEntry, ToolServerLimits } from '../protocol/agents/tool-server-entries.ts';
import { appFiles } from '../testing/archive.ts';
import { eventually } from '../testing/edges.ts';
import { startGateway } from '../testing/gateway.ts';
import { isRunning } from '../testing/processes.ts';
import { type RunningServers, startServers, stdioServer } from '../testing/tool-servers.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

async function serversFor(
  t: TestContext,
  servers: Record<string, ToolServerEntry>,
  limits: Partial<ToolServerLimits> = {},
): Promise<RunningServers> {
  const running = await startServers(servers, { limits });
  t.after(() => running.stop());
  return running;
}

function failsWith(message: RegExp): object {
  return { code: 'TOOL_SERVER_FAILED', message };
}

/** An unused file name, for a tool that records what happens to it. */
function scratch(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mcp-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'events');
}

const eventsIn = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : '');

async function until(failing: () => Promise<unknown>): Promise<unknown> {
  let answer: unknown;
  await eventually(() =>
    failing().then(
      (value) => {
        answer = value;
        return true;
      },
      () => false,
    ),
  );
  return answer;
}

async function httpServer(port = 0): Promise<{ process: ChildProcess; port: number; url: string }> {
  const file = new URL('../testing/mcp-http.mjs', import.meta.url).pathname;
  const server = spawn(process.execPath, [file, String(port)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await inTime(once(createInterface({ input: server.stdout }), 'line'), 'the port of the server')) as [
    string,
  ];
  return { process: server, port: Number(line), url: `http://127.0.0.1:${line}/mcp` };
}

describe('a server over stdio', () => {
  let running: RunningServers;
  before(async () => {
    process.env.SVC_TEST_SECRET = 'of the gateway';
    running = await startServers(
      { one: stdioServer('none', { TOKEN: 'given' }), chatty: stdioServer('chatty'), noisy: stdioServer('noisy') },
      { limits: { answerBytes: 100_000 } },
    );
  });
  after(async () => {
    delete process.env.SVC_TEST_SECRET;
    await running.stop();
  });

  test('nothing is started before the first call', () => {
    assert.equal(running.tree.agents?.state, 'stopped');
    assert.deepEqual(running.servers.status()[0], { name: 'one', kind: 'stdio', state: 'idle', lastError: null });
  });

  for (const [tool, args, answer] of [
    ['echo', { a: [1, null, 'ä'] }, { a: [1, null, 'ä'] }],
    ['echo', undefined, {}],
    ['plain', {}, 'not JSON'],
    ['structured', { n: 21 }, { double: 42 }],
    [
      'parts',
      {},
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    ],
  ] as const) {
    test(`${tool} with ${JSON.stringify(args)} answers ${JSON.stringify(answer)}`, async () => {
      assert.deepEqual(await running.call(`one.${tool}`, args), answer);
    });
  }

  for (const [name, args, message] of [
    ['one.refuse', {}, /^one\.refuse failed: there is no such city$/],
    ['one.throws', {}, /^one\.throws failed: .*it broke/],
    ['one.nothing', {}, /^The MCP server one has no tool nothing\. It has echo, plain, /],
    ['two.echo', {}, /^No MCP server is configured as two\. Configured are one, chatty, noisy\.$/],
    ['constructor.echo', {}, /^No MCP server is configured/],
    ['one.big', { bytes: 100_001 }, /^one\.big answered 100003 bytes; at most 100000 are taken/],
  ] as const) {
    test(`${name} fails`, async () => {
      await assert.rejects(running.call(name, args), failsWith(message));
      assert.deepEqual(await running.call('one.echo', {}), {});
    });
  }

  test('all calls share one process', async () => {
    const answers = (await Promise.all(Array.from({ length: 20 }, () => running.call('one.count')))) as {
      pid: number;
      call: number;
    }[];
    assert.equal(new Set(answers.map(({ pid }) => pid)).size, 1);
    assert.equal(new Set(answers.map(({ call }) => call)).size, 20);
    assert.equal(running.recorded.get(answers[0]?.pid as number), 'mcp-server');
  });

  test('it gets the environment of its entry and the basics, nothing else of the gateway', async () => {
    const environment = (await running.call('one.environment')) as Record<string, string>;
    assert.equal(environment.TOKEN, 'given');
    assert.equal(environment.PATH, process.env.PATH);
    assert.equal(environment.SVC_TEST_SECRET, undefined);
    assert.doesNotMatch(JSON.stringify(running.servers.status()), /given/);
  });

  test('lines that are not messages, and endless standard error, do no harm', async () => {
    assert.deepEqual(await running.call('chatty.echo', { n: 1 }), { n: 1 });
    assert.deepEqual(await running.call('noisy.echo', { n: 2 }), { n: 2 });
  });

  test('an abandoned call is cancelled in the server, and the others continue', async (t) => {
    const file = scratch(t);
    const controller = new AbortController();
    const hanging = running.call('one.hang', { file }, controller.signal);
    await eventually(() => eventsIn(file) === 'began\n');
    controller.abort();
    await assert.rejects(hanging, failsWith(/one was cancelled/));
    await eventually(() => eventsIn(file) === 'began\ncancelled\n');
    assert.deepEqual(await running.call('one.echo', {}), {});
    await assert.rejects(running.call('one.echo', {}, AbortSignal.abort()), failsWith(/one was cancelled/));
  });

  test('one that crashes in a call works again after its back-off', async () => {
    const before = (await running.call('one.count')) as { pid: number };
    await assert.rejects(running.call('one.crash'), failsWith(/one exited with code 7\. Whether .* not known/));
    const now = (await until(() => running.call('one.count'))) as { pid: number };
    assert.notEqual(now.pid, before.pid);
    assert.equal(running.servers.status()[0]?.state, 'connected');
  });

  test('one whose message has no end is ended before it fills the memory', async () => {
    await assert.rejects(
      running.call('one.big', { bytes: 5_000_000 }),
      failsWith(/a message of more than 300000 bytes/),
    );
    assert.deepEqual(await until(() => running.call('one.echo')), {});
  });

  test('when its process is killed, calls under way fail, the next ones work, and no server is left', async (t) => {
    const file = scratch(t);
    const pids = (await running.call('one.spawn')) as { server: number; child: number };
    const hanging = running.call('one.hang', { file });
    await eventually(() => eventsIn(file) === 'began\n');
    process.kill(running.tree.agents?.pid as number, 'SIGKILL');
    await assert.rejects(hanging, failsWith(/ended by SIGKILL.*not known/));
    assert.deepEqual(await running.call('one.echo', { again: true }), { again: true });
    await eventually(() => !isRunning(pids.server) && !isRunning(pids.child));
    assert.equal(running.recorded.has(pids.server), false);
  });
});

/** A shell is quick: it has written before any time is up. */
const GARBAGE = `echo 'Listening! {"jsonrpc": 1}'; exec sleep 1000`;

describe('a server that fails', () => {
  // Those that are awaited until the time to start is over, and the others: no limit of theirs may come into play.
  const quiet = { silent: stdioServer('silent'), garbage: { command: 'sh', args: ['-c', GARBAGE] } };
  const failing = {
    crashes: stdioServer(),
    dies: stdioServer('dies'),
    missing: { command: '/nowhere/server' },
    homeless: { command: 'node', cwd: '/nowhere' },
    unreachable: { url: 'http://127.0.0.1:9/mcp' },
  };
  const backoff = { backoffMs: LONG_MS, backoffMaxMs: LONG_MS };
  const groups: RunningServers[] = [];
  before(async () => {
    groups.push(await startServers(quiet, { limits: { startMs: 1500, ...backoff } }));
    groups.push(await startServers(failing, { limits: { startMs: LONG_MS, ...backoff } }));
  });
  after(() => Promise.all(groups.map((group) => group.stop())));
  const groupOf = (server: string) => groups[server in quiet ? 0 : 1] as RunningServers;
  const statusOf = (server: string) =>
    groupOf(server)
      .servers.status()
      .find(({ name }) => name === server);

  test('one that crashes in a call is down for its back-off', async () => {
    const running = groupOf('crashes');
    await running.call('crashes.count');
    await assert.rejects(running.call('crashes.crash'), failsWith(/crashes exited with code 7\. Whether .* not known/));
    await assert.rejects(
      running.call('crashes.echo'),
      failsWith(/crashes is down: exited with code 7\. It is tried again in \d+ ms/),
    );
    assert.deepEqual(statusOf('crashes'), {
      name: 'crashes',
      kind: 'stdio',
      state: 'failed',
      lastError: 'exited with code 7',
    });
  });

  for (const [what, server, message] of [
    ['does not answer', 'silent', /silent is down: it did not answer within 1500 ms/],
    ['writes other things', 'garbage', /garbage is down: what it writes to its standard output is not MCP/],
    ['exits at once', 'dies', /dies is down: exited with code 3/],
    ['does not exist', 'missing', /missing is down: could not be started \(ENOENT\)/],
    ['has no such folder', 'homeless', /homeless is down: could not be started \(ENOENT\)/],
    ['is not reachable', 'unreachable', /unreachable is down: cannot be reached \(bad port\)/],
  ] as const) {
    test(`one that ${what} says so, and is not tried again at once`, async () => {
      const running = groupOf(server);
      await assert.rejects(running.call(`${server}.echo`), failsWith(message));
      await assert.rejects(running.call(`${server}.echo`), failsWith(/It is tried again in/));
      assert.equal(statusOf(server)?.state, 'failed');
      if (server === 'dies')
        assert.match(running.log.join('\n'), /MCP server dies: exited with code 3: the database is locked/);
    });
  }

  test('a call over its time is answered, and the server is notified', async (t) => {
    const running = await startServers({ one: stdioServer() }, { callMs: 1000 });
    t.after(() => running.stop());
    const file = scratch(t);
    await until(() => running.call('one.echo'));
    // On a busy machine the time of a call may be up before it reaches the server.
    while (eventsIn(file) === '')
      await assert.rejects(running.call('one.hang', { file }), failsWith(/one\.hang did not answer in time/));
    await eventually(() => /^(began\ncancelled\n)+$/.test(eventsIn(file)));
  });
});

describe('a server over HTTP', () => {
  test('gets the headers of its entry with every request, and is found again after it was restarted', async (t) => {
    const first = await httpServer();
    t.after(() => first.process.kill('SIGKILL'));
    const entry = { url: first.url, headers: { Authorization: 'Bearer of-the-entry' } };
    const running = await serversFor(t, { web: entry }, { answerBytes: 100_000 });
    assert.deepEqual(await running.call('web.structured', { n: 1 }), { double: 2 });
    assert.deepEqual(await running.call('web.echo', { a: 1 }), { a: 1 });
    await assert.rejects(running.call('web.refuse'), failsWith(/^web\.refuse failed: there is no such city$/));
    await assert.rejects(running.call('web.big', { bytes: 150_000 }), failsWith(/150002 bytes; at most/));
    await assert.rejects(
      running.call('web.big', { bytes: 900_000 }),
      failsWith(/^web\.big failed: the answer broke off or is too large/),
    );
    const seen = (await (await fetch(new URL('/seen', first.url))).json()) as { authorization: string }[];
    assert.ok(seen.length > 4, JSON.stringify(seen));
    assert.deepEqual([...new Set(seen.map(({ authorization }) => authorization))], ['Bearer of-the-entry']);
    assert.deepEqual(running.servers.status(), [{ name: 'web', kind: 'http', state: 'connected', lastError: null }]);
    first.process.kill('SIGKILL');
    await once(first.process, 'exit');
    const second = await httpServer(first.port);
    t.after(() => second.process.kill('SIGKILL'));
    assert.deepEqual(await running.call('web.echo', { b: 2 }), { b: 2 });
  });

  test('an abandoned call is cancelled in the server; a call during which the server dies fails', async (t) => {
    const server = await httpServer();
    t.after(() => server.process.kill('SIGKILL'));
    const running = await serversFor(t, { web: { url: server.url } });
    const file = scratch(t);
    const controller = new AbortController();
    const hanging = running.call('web.hang', { file }, controller.signal);
    await eventually(() => eventsIn(file) === 'began\n');
    controller.abort();
    await assert.rejects(hanging, failsWith(/web was cancelled/));
    await eventually(() => eventsIn(file) === 'began\ncancelled\n');
    await assert.rejects(running.call('web.crash'), failsWith(/^web\.crash failed: /));
    await assert.rejects(
      running.call('web.echo'),
      failsWith(/web (is down: )?cannot be reached \((ECONNREFUSED|UND_ERR_SOCKET)\)/),
    );
  });
});

describe('a gateway', () => {
  test('an automation calls its tools, and the status shows their state but not their settings', async (t) => {
    const gateway = await startGateway(t, {
      config: {
        mcpServers: {
          one: stdioServer('none', { TOKEN: 'of-the-server' }),
          gone: { url: 'http://127.0.0.1:1/mcp', headers: { authorization: 'Bearer of-the-address' } },
        },
      },
    });
    const uploaded = await gateway.upload('notes', {
      ...appFiles('notes'),
      'automations/ask/automation.json': JSON.stringify({
        name: 'Ask',
        prompt: 'Ask a server.',
        requires: { tools: ['one.echo', 'gone.echo'] },
        generated: { by: 'hand', at: '2026-11-21' },
      }),
      'automations/ask/handler.js': `export default async ({ ctx }) => {
        const failed = await ctx.tool('gone.echo', {}).catch(({ code }) => code);
        const refused = await ctx.tool('one.count').catch(({ code }) => code);
        return { output: { echo: await ctx.tool('one.echo', { n: 1 }), failed, refused } };
      };`,
    });
    assert.equal(uploaded.status, 201, uploaded.text);
    const run = await gateway.call('POST', '/svc/_automations/notes/ask/run?wait=1', { body: {} });
    assert.deepEqual(run.json.output, { echo: { n: 1 }, failed: 'TOOL_SERVER_FAILED', refused: 'TOOL_REFUSED' });
    const status = await gateway.system();
    assert.deepEqual(status.toolServers, [
      { name: 'one', kind: 'stdio', state: 'connected', lastError: null },
      { name: 'gone', kind: 'http', state: 'failed', lastError: 'cannot be reached (bad port)' },
    ]);
    assert.ok(!JSON.stringify(status).includes('of-the-'), 'a secret of the configuration is shown');
  });
});

describe('the end', () => {
  test('stopping ends the servers and their child processes, also those that ignore it', async () => {
    const running = await startServers({ one: stdioServer(), stubborn: stdioServer('stubborn') });
    const pids = [await running.call('one.spawn'), await running.call('stubborn.spawn')] as Record<string, number>[];
    await running.stop();
    for (const pid of pids.flatMap((one) => Object.values(one))) assert.equal(isRunning(pid), false, `${pid} runs`);
    assert.equal(running.recorded.size, 0);
    await assert.rejects(running.call('one.echo'), failsWith(/The gateway stops/));
  });

  test('a supervisor that is killed leaves no server behind', async (t) => {
    const script = new URL('../testing/mcp-supervisor.ts', import.meta.url).pathname;
    const supervisor = spawn(process.execPath, ['--import', 'tsx', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => supervisor.kill('SIGKILL'));
    const [line] = (await inTime(
      once(createInterface({ input: supervisor.stdout }), 'line'),
      'the start of the servers',
      LONG_MS,
    )) as [string];
    const { pids, mcp } = JSON.parse(line) as { pids: Record<string, number>[]; mcp: number };
    const all = [mcp, ...pids.flatMap((one) => Object.values(one))];
    for (const pid of all) assert.equal(isRunning(pid), true, `${pid} does not run`);
    supervisor.kill('SIGKILL');
    await eventually(() => !all.some(isRunning));
  });

  test('without servers there is no process', async (t) => {
    const gateway = await startGateway(t);
    const { processes, toolServers } = (await gateway.call('GET', '/svc/_system')).json;
    assert.deepEqual(toolServers, []);
    assert.ok(!processes.some(({ role }: { role: string }) => role === 'agents'), JSON.stringify(processes));
  });
});
