// Turns through a process that a test makes up: pace, answers, ends of every kind, and what the process may not send.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ProbeOrder, RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { TOOL_SERVER_LIMITS } from '../../../protocol/agents/tool-server-entries.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { inTime } from '../../../testing/waiting.ts';
import type { Child, ChildEvents } from '../../tree/child.ts';
import { AgentProcess, type RunOptions } from './agent-process.ts';

const order = { turnId: 't', conversation: 'c', message: 'go' } as TurnOrder;
const probeOrder = { want: 'version', folder: '/' } as ProbeOrder;
const delta = (text: string): RunnerEvent => ({ type: 'assistant.delta', delta: text });
const tool = { toolCallId: 'a', toolName: 'list' };
const asked: RunnerEvent = { type: 'permission', requestId: '1', toolName: 'rm', detail: '', options: [] };

function setUp({ ready = true } = {}) {
  const sent: Frame[] = [];
  let events: ChildEvents | null = null;
  const child = {
    state: 'stopped',
    lastExit: null as string | null,
    wake() {
      if (this.state === 'failed') return false;
      if (this.state !== 'stopped') return true;
      this.state = 'starting';
      if (ready) come();
      return true;
    },
    send: (frame: Frame) => void sent.push(frame),
    stop: async () => die('stopped', 'was stopped'),
  };
  const come = () => {
    child.state = 'running';
    events?.onReady();
  };
  const die = (state: string, reason: string) => {
    child.state = state;
    child.lastExit = reason;
    events?.onExit(reason);
  };
  const agents = new AgentProcess({
    tag: `none-${process.pid}`,
    maxAgents: 2,
    toolServers: { servers: {}, limits: TOOL_SERVER_LIMITS },
    createChild: (_settings, given) => {
      events = given;
      return child as unknown as Child;
    },
    onProcess: () => {},
    log: () => {},
  });
  const receive = (...frames: Frame[]) => {
    for (const frame of frames) events?.onFrame(frame);
  };
  const controller = new AbortController();
  const run = (options: Partial<RunOptions> = {}) => agents.run(order, { signal: controller.signal, ...options });
  return { agents, child, sent, come, die, receive, run, controller };
}

/** The next event; 'end' at the end. */
async function next(events: AsyncGenerator<RunnerEvent, void>): Promise<RunnerEvent | 'end'> {
  const { done, value } = await inTime(events.next(), 'the next event');
  return done ? 'end' : (value as RunnerEvent);
}

async function rest(events: AsyncGenerator<RunnerEvent, void>): Promise<RunnerEvent[]> {
  const all: RunnerEvent[] = [];
  for (let event = await next(events); event !== 'end'; event = await next(events)) all.push(event);
  return all;
}

/** What was sent, by kind and what follows the number of the turn. */
const kinds = (sent: Frame[], kind: number) => sent.filter((frame) => frame[0] === kind).map((frame) => frame.slice(2));

const settle = async () => {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
};

describe('a turn', () => {
  test('starts the process, yields its events, and confirms those that were taken', async () => {
    const { run, receive, sent } = setUp();
    const events = run();
    const first = next(events);
    await settle();
    assert.deepEqual(sent, [[Kind.turn, 1, order]]);
    receive([Kind.turnEvents, 1, [delta('a'), delta('b')], 10], [Kind.turnEvents, 1, [delta('c')], 5]);
    assert.deepEqual(await first, delta('a'));
    assert.deepEqual(await next(events), delta('b'));
    assert.deepEqual(kinds(sent, Kind.turnTaken), []);
    assert.deepEqual(await next(events), delta('c'));
    assert.deepEqual(kinds(sent, Kind.turnTaken), [[10]]);
    receive([Kind.turnEvents, 1, [{ type: 'final', text: 'abc' }], 3], [Kind.turnEnd, 1]);
    assert.deepEqual(await rest(events), [{ type: 'final', text: 'abc' }]);
    assert.deepEqual(kinds(sent, Kind.cancel), []);
    receive([Kind.turnEvents, 1, [delta('late')], 3], [Kind.turnEnd, 1]);
  });

  test('of a conversation that is over leaves no agent, where there is a process', async () => {
    const { agents, sent, come } = setUp({ ready: false });
    agents.endAgentsOf({ app: 'notes' });
    assert.deepEqual(sent, []);
    come();
    agents.endAgentsOf({ app: 'notes' });
    assert.deepEqual(sent, [[Kind.endAgents, 0, { app: 'notes' }]]);
  });

  test('waits for a process that is starting', async () => {
    const { run, sent, come } = setUp({ ready: false });
    void run().next();
    await settle();
    assert.deepEqual(sent, []);
    come();
    assert.equal(sent.length, 1);
  });

  for (const [name, answer, optionId] of [
    ['is answered', () => Promise.resolve('yes'), 'yes'],
    ['is denied', () => Promise.resolve(null), null],
    ['fails to be answered', () => Promise.reject(new Error('gone')), null],
    ['has nobody who could answer', undefined, null],
  ] as const) {
    test(`a permission ${name}`, async () => {
      const { run, receive, sent } = setUp();
      const events = run({ answer });
      const first = next(events);
      await settle();
      receive([Kind.turnEvents, 1, [asked], 10]);
      assert.deepEqual(await first, asked);
      await settle();
      assert.deepEqual(kinds(sent, Kind.turnAnswer), [['1', optionId]]);
    });
  }

  test('a permission that a policy has answered is passed on without a question', async () => {
    const { run, receive, sent } = setUp();
    const events = run({ answer: () => assert.fail('asked') });
    const first = next(events);
    await settle();
    const answered = { ...asked, optionId: null } as RunnerEvent;
    receive([Kind.turnEvents, 1, [answered], 10], [Kind.turnEnd, 1]);
    assert.deepEqual([await first, await next(events)], [answered, 'end']);
    assert.deepEqual(kinds(sent, Kind.turnAnswer), []);
  });

  test('that is aborted is cancelled, and its agent’s earlier events still come', async () => {
    const { run, receive, sent, controller } = setUp();
    const events = run();
    const first = next(events);
    await settle();
    controller.abort();
    assert.deepEqual(kinds(sent, Kind.cancel), [['cancelled']]);
    receive([Kind.turnEvents, 1, [delta('so far')], 10], [Kind.turnEnd, 1]);
    assert.deepEqual([await first, await next(events)], [delta('so far'), 'end']);
  });

  test('that is aborted before the process has it is over', async () => {
    const { run, sent, controller, come } = setUp({ ready: false });
    const events = run();
    const first = next(events);
    await settle();
    controller.abort();
    assert.equal(await first, 'end');
    come();
    assert.deepEqual(sent, []);
    assert.equal(await next(run()), 'end');
  });

  test('whose reader leaves is cancelled, its agent is not blocked by events that no one takes, and its end is waited for', async () => {
    const { run, receive, sent } = setUp();
    const events = run();
    const first = next(events);
    await settle();
    receive([Kind.turnEvents, 1, [delta('a')], 10], [Kind.turnEvents, 1, [delta('b')], 20]);
    await first;
    let isOver = false;
    const left = events.return().then(() => {
      isOver = true;
    });
    await settle();
    receive([Kind.turnEvents, 1, [delta('c')], 40]);
    assert.deepEqual(kinds(sent, Kind.turnTaken), [[30], [40]]);
    assert.deepEqual(kinds(sent, Kind.cancel), [['cancelled']]);
    await settle();
    assert.equal(isOver, false, 'its agent may still write');
    receive([Kind.turnEnd, 1]);
    await inTime(left, 'its end');
  });
});

describe('a process that dies', () => {
  test('ends its turns with an error, and keeps those that it did not have', async () => {
    const { agents, run, receive, sent, come, die, child } = setUp();
    const events = run();
    const first = next(events);
    await settle();
    receive([Kind.turnEvents, 1, [{ type: 'tool.start', ...tool }], 10]);
    await first;
    die('backoff', 'ended by SIGKILL');
    const second = next(agents.run(order, { signal: new AbortController().signal }));
    assert.deepEqual(await rest(events), [
      {
        type: 'error',
        code: 'AGENT_FAILED',
        message: 'The process of the agents ended (ended by SIGKILL). What the agent did until then is done.',
      },
    ]);
    child.state = 'starting';
    come();
    receive([Kind.turnEvents, 2, [delta('again')], 1]);
    assert.deepEqual(await second, delta('again'));
    assert.equal(kinds(sent, Kind.turn).length, 2);
  });

  test('again and again is not asked until it is tried again', async () => {
    const { run, die, child, sent } = setUp();
    const first = next(run());
    await settle();
    die('failed', 'exited with code 1');
    const error = {
      type: 'error',
      code: 'AGENT_FAILED',
      message: 'The process of the agents does not stay up: exited with code 1.',
    };
    assert.deepEqual(await first, error);
    assert.deepEqual(await next(run()), error);
    child.state = 'stopped';
    void run().next();
    await settle();
    assert.equal(kinds(sent, Kind.turn).length, 2);
  });

  test('because the gateway stops ends turns and takes no more', async () => {
    const { agents, run } = setUp();
    const first = next(run());
    await settle();
    await agents.stop();
    const error = { type: 'error', code: 'AGENT_FAILED', message: 'The gateway stops.' };
    assert.deepEqual([await first, await next(run())], [error, error]);
    await assert.rejects(agents.probe(probeOrder, new AbortController().signal), { message: 'The gateway stops.' });
  });
});

describe('a question about a runner', () => {
  const asking = () => {
    const made = setUp();
    const found = made.agents.probe(probeOrder, made.controller.signal);
    return { ...made, found };
  };

  test('is answered', async () => {
    const { found, receive, sent } = asking();
    assert.deepEqual(sent, [[Kind.probe, 1, probeOrder]]);
    receive([Kind.probed, 1, { version: '1', models: [{ id: 'm' }], tools: [{ name: 't' }], signedIn: true }]);
    assert.equal((await found).version, '1');
    receive([Kind.probed, 1, {}]);
  });

  test('fails, is cancelled, and loses its process', async () => {
    const refused = asking();
    refused.receive([Kind.probed, 1, { failed: 'It is not installed.' }]);
    await assert.rejects(refused.found, { code: 'AGENT_FAILED', message: 'It is not installed.' });
    const cancelled = asking();
    cancelled.controller.abort();
    await assert.rejects(cancelled.found, { message: 'It was cancelled.' });
    assert.deepEqual(kinds(cancelled.sent, Kind.cancel), [['cancelled']]);
    const lost = asking();
    lost.die('backoff', 'ended by SIGKILL');
    await assert.rejects(lost.found, { message: /ended by SIGKILL/ });
  });
});

describe('what the process may not send', () => {
  const frames: [name: string, frame: unknown[]][] = [
    ['a frame of another kind', [Kind.result, 1, 200, new Uint8Array(), 1]],
    ['events that are none', [Kind.turnEvents, 1, 'events', 1]],
    ['an event of an unknown type', [Kind.turnEvents, 1, [{ type: 'file' }], 1]],
    ['an event of a type that objects have', [Kind.turnEvents, 1, [{ type: 'constructor' }], 1]],
    ['an event without its text', [Kind.turnEvents, 1, [{ type: 'assistant.delta' }], 1]],
    ['an option of no kind', [Kind.turnEvents, 1, [{ ...asked, options: [{ optionId: 'a', label: 'b' }] }], 1]],
    ['a negative number of tokens', [Kind.turnEvents, 1, [{ type: 'usage', inputTokens: -1 }], 1]],
    ['bytes that are no number', [Kind.turnEvents, 1, [], '1']],
    ['more than it was to send', [Kind.turnEvents, 1, [delta('a')], LIMITS.agentUntakenBytes + LIMITS.frameBytes + 1]],
    ['an answer that is none', [Kind.probed, 1, null]],
    ['models without a name', [Kind.probed, 1, { models: [{}] }]],
    ['a process without a number', [Kind.toolProcess, 1, true, 'agent']],
    ['a process of no role', [Kind.toolProcess, 2, true, 'host']],
    ['a line of log that is none', [Kind.log, '{"level":"fatal","message":""}']],
  ];
  for (const [name, frame] of frames) {
    test(name, async () => {
      const { run, receive } = setUp();
      void run().next();
      await settle();
      assert.throws(() => receive(frame as Frame), /^Error: The process of the agents/);
    });
  }
});
