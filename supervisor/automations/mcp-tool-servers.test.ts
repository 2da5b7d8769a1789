// What the supervisor takes from the agents process about MCP servers, and what it does not. That process is played by the test.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TurnOrder } from '../../protocol/agents/agents.ts';
import { TOOL_SERVER_LIMITS } from '../../protocol/agents/tool-server-entries.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { AgentProcess } from '../agents/runners/agent-process.ts';
import type { Child, ChildEvents } from '../tree/child.ts';
import { McpToolServers } from './mcp-tool-servers.ts';

const NO_SIGNAL = new AbortController().signal;
const NO_ARGUMENTS = Buffer.from('{}');

function scene() {
  const sent: Frame[] = [];
  const recorded: unknown[] = [];
  const child = {
    state: 'running',
    lastExit: null,
    send: (frame: Frame) => sent.push(frame),
    wake: () => true,
    stop: async () => {},
  };
  let events: ChildEvents | undefined;
  const agents = new AgentProcess({
    tag: `none-${process.pid}`,
    maxAgents: 1,
    toolServers: {
      servers: {
        git: { command: 'git-server', env: { TOKEN: 'secret' } },
        web: { url: 'http://x', headers: { a: 'secret' } },
      },
      limits: TOOL_SERVER_LIMITS,
    },
    createChild: (_settings, given) => {
      events = given;
      return child as unknown as Child;
    },
    onProcess: (...what) => recorded.push(what),
    log: () => {},
  });
  const servers = new McpToolServers({ agents, callMs: 1000, log: () => {} });
  const receive = (frame: unknown) => events?.onFrame(frame as Frame);
  return { agents, servers, sent, recorded, child, receive, exit: () => events?.onExit('was killed') };
}

describe('frames of the process', () => {
  for (const [name, frame] of [
    ['a kind that it may not send', [Kind.dispatch, 1]],
    ['a result that is no bytes', [Kind.result, 1, 200, 'text', 1]],
    ['a result over the limit', [Kind.result, 1, 200, Buffer.alloc(LIMITS.toolServerAnswerBytes + 1), 1]],
    ['an error that is none', [Kind.error, 1, null, 1]],
    ['an error whose message is no text', [Kind.error, 1, { code: 'A', message: 1 }, 1]],
    ['a server that is not configured', [Kind.toolServer, 'other', 'connected', '', '']],
    ['a name that objects inherit', [Kind.toolServer, 'constructor', 'connected', '', '']],
    ['a state that is none', [Kind.toolServer, 'git', 'fine', '', '']],
    ['a detail that is no text', [Kind.toolServer, 'git', 'failed', 1, '']],
    ['the pid of every process', [Kind.toolProcess, -1, true, 'mcp-server']],
    ['the pid of the first process', [Kind.toolProcess, 1, true, 'mcp-server']],
    ['a pid that is none', [Kind.toolProcess, 1.5, true, 'mcp-server']],
  ] as const) {
    test(`${name} is refused`, () => {
      assert.throws(() => scene().receive(frame), /may not send|malformed/);
    });
  }

  test('an answer to an abandoned call is ignored', async () => {
    const { servers, sent, receive } = scene();
    receive([Kind.result, 99, 200, Buffer.from('1'), 1]);
    const call = servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL);
    receive([Kind.result, (sent[0] as [number, number])[1], 200, Buffer.from('[1]'), 1]);
    assert.equal(Buffer.from(await call).toString(), '[1]');
    receive([Kind.result, (sent[0] as [number, number])[1], 200, Buffer.from('2'), 1]);
  });

  test('an unknown code becomes TOOL_SERVER_FAILED', async () => {
    const { servers, receive } = scene();
    const call = servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL);
    receive([Kind.error, 1, { code: 'UNAUTHORIZED', message: 'no' }, 1]);
    await assert.rejects(call, { code: 'TOOL_SERVER_FAILED' });
  });

  test('our own process is not taken for a server', () => {
    const { receive, recorded, exit } = scene();
    receive([Kind.toolProcess, process.pid, true, 'mcp-server']);
    exit();
    assert.deepEqual(recorded, []);
  });
});

describe('calls', () => {
  test('one more than may be under way is refused', async () => {
    const { servers, exit } = scene();
    const calls = Array.from({ length: LIMITS.toolServerCalls }, () =>
      servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL),
    );
    await assert.rejects(servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL), { code: 'OVERLOADED' });
    exit();
    for (const end of await Promise.allSettled(calls)) assert.equal(end.status, 'rejected');
  });

  test('one that the process never had waits for the next process; one that it had fails', async () => {
    const { servers, sent, child, exit } = scene();
    const had = servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL);
    child.state = 'backoff';
    const controller = new AbortController();
    const waiting = servers.callForJson('git', 'log', NO_ARGUMENTS, controller.signal);
    exit();
    await assert.rejects(had, /was killed.*not known/);
    controller.abort();
    await assert.rejects(waiting, /cancelled/);
    // There was nothing to cancel in a process that has not got it.
    assert.equal(sent.length, 1);
  });
});

test('the status shows nothing that may be secret', () => {
  const { servers, receive } = scene();
  receive([Kind.toolServer, 'git', 'failed', 'exited with code 1', 'secret']);
  assert.deepEqual(servers.status(), [
    { name: 'git', kind: 'stdio', state: 'failed', lastError: 'exited with code 1' },
    { name: 'web', kind: 'http', state: 'idle', lastError: null },
  ]);
});

test('the end of the process fails the turns and the calls that it had, each with its own code, and the next serves both', async () => {
  const { agents, servers, sent, receive, exit } = scene();
  const signal = new AbortController().signal;
  const turn = () => agents.run({ turnId: 't' } as TurnOrder, { signal }).next();
  const call = () => servers.callForJson('git', 'log', NO_ARGUMENTS, NO_SIGNAL);
  const lost = [turn(), call()] as const;
  exit();
  const { value } = await lost[0];
  assert.equal(value?.type === 'error' && value.code, 'AGENT_FAILED');
  await assert.rejects(lost[1], { code: 'TOOL_SERVER_FAILED' });
  const next = [turn(), call()] as const;
  const [asked, dispatched] = sent.slice(-2) as [[number, number], [number, number]];
  assert.deepEqual([asked[0], dispatched[0]], [Kind.turn, Kind.dispatch]);
  assert.notEqual(asked[1], dispatched[1]);
  receive([Kind.result, dispatched[1], 200, Buffer.from('1'), 1]);
  receive([Kind.turnEvents, asked[1], [{ type: 'phase', phase: 'p' }], 1]);
  assert.equal(Buffer.from(await next[1]).toString(), '1');
  assert.deepEqual((await next[0]).value, { type: 'phase', phase: 'p' });
});
