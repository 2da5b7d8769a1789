// Turns of agents that a test makes up: the contract on their events, their limits, who waits for whom, and who is asked.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { AgentScope, PermissionPolicy, RunnerEvent, TurnOrder } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Agents } from './agents.ts';
import type { Turn } from './runner.ts';
import { WarmAgents } from './warm-agents.ts';

type Act = (turn: Turn, agent: FakeAgent) => Promise<void>;

class FakeAgent {
  isAlive = true;
  turns = 0;
  ended = false;
  readonly conversation: string;
  readonly #act: Act;
  readonly #onEnd: () => Promise<void>;

  constructor(conversation: string, act: Act, onEnd: () => Promise<void>) {
    this.conversation = conversation;
    this.#act = act;
    this.#onEnd = onEnd;
  }

  async turn(turn: Turn): Promise<void> {
    this.turns++;
    await this.#act(turn, this);
  }

  async cut(): Promise<void> {}

  async end(): Promise<void> {
    await this.#onEnd();
    this.isAlive = false;
    this.ended = true;
  }
}

type Options = {
  maxAgents?: number;
  open?: (order: TurnOrder, signal: AbortSignal) => Promise<void>;
  onEnd?: () => Promise<void>;
};

function setUp(act: Act, { maxAgents = 2, open = async () => {}, onEnd = async () => {} }: Options = {}) {
  const opened: FakeAgent[] = [];
  const agents = new Agents({
    tag: 'test',
    maxAgents,
    idleMs: LIMITS.agentIdleMs,
    runnerOf: async () => ({
      open: async (order, _host, signal) => {
        await open(order, signal);
        const agent = new FakeAgent(order.conversation, act, onEnd);
        opened.push(agent);
        return agent;
      },
      probe: async (order, _host, signal) => {
        if (order.want === 'version') return { version: '1.2.3' };
        return await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    }),
    onProcess: () => {},
    log: () => {},
  });
  let id = 0;
  /** Starts a turn; `take` says that all of its events so far are stored. */
  const begin = (conversation = 'one', more: Partial<TurnOrder> = {}) => {
    const turn = ++id;
    const events: RunnerEvent[] = [];
    let bytes = 0;
    const done = agents.turn(turn, orderOf(conversation, more), (event, size) => {
      events.push(event);
      bytes += size;
    });
    const take = () => {
      agents.taken(turn, bytes);
      bytes = 0;
    };
    return { turn, events, take, waiting: () => bytes, done };
  };
  return { agents, opened, begin };
}

function orderOf(conversation: string, more: Partial<TurnOrder>): TurnOrder {
  return {
    turnId: 't',
    conversation,
    runner: { name: 'fake', kind: 'acp', env: {} },
    mode: 'data',
    app: 'notes',
    folder: '/',
    instructions: '',
    message: 'go',
    attachments: [],
    model: null,
    thinking: null,
    resume: null,
    history: [],
    gateway: { url: '', token: '' },
    permission: 'ask',
    ...more,
  };
}

/** Lets everything happen that waits for nothing but promises. */
const settle = async () => {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
};

const mockTimers = (t: TestContext) => t.mock.timers.enable({ apis: ['setTimeout'] });

const say =
  (...events: RunnerEvent[]): Act =>
  async (turn) => {
    for (const event of events) await turn.emit(event);
  };
const delta = (text: string): RunnerEvent => ({ type: 'assistant.delta', delta: text });
const tool = { toolCallId: 'a', toolName: 'list' };

describe('the events of a turn', () => {
  const failure = new SvcError('AGENT_FAILED', 'It broke.');
  const cases: [name: string, act: Act, events: RunnerEvent[]][] = [
    [
      'the final text is passed on as it comes',
      say({ type: 'final', text: 'all' }, delta('all')),
      [{ type: 'final', text: 'all' }, delta('all')],
    ],
    [
      'tools are passed on as they come, for the supervisor to pair',
      say({ type: 'tool.result', ...tool, ok: true, result: 1 }, { type: 'tool.start', ...tool }),
      [
        { type: 'tool.result', ...tool, ok: true, result: 1 },
        { type: 'tool.start', ...tool },
      ],
    ],
    [
      'a failure is an error',
      async (turn) => {
        await turn.emit({ type: 'tool.start', ...tool });
        throw failure;
      },
      [
        { type: 'tool.start', ...tool },
        { type: 'error', code: 'AGENT_FAILED', message: 'It broke.' },
      ],
    ],
    [
      'whatever is thrown',
      () => Promise.reject(undefined),
      [{ type: 'error', code: 'AGENT_FAILED', message: 'The agent failed: it gave no reason' }],
    ],
    [
      'an error that the runner says itself is the only one',
      async (turn) => {
        await turn.emit({ type: 'error', code: 'AGENT_FAILED', message: 'said' });
        throw failure;
      },
      [{ type: 'error', code: 'AGENT_FAILED', message: 'said' }],
    ],
    ['nothing comes after the end', async (turn) => void setImmediate(() => void turn.emit(delta('late'))), []],
    [
      'a permission that nobody can answer is not shown',
      say({ type: 'permission', requestId: 'x', toolName: 'rm', detail: '', options: [] }),
      [],
    ],
  ];
  for (const [name, act, events] of cases) {
    test(name, async () => {
      const turn = setUp(act).begin();
      await turn.done;
      await settle();
      assert.deepEqual(turn.events, events);
    });
  }

  test('values that are too large or too deep, and those that JSON cannot hold, are cut', async () => {
    const long = 'x'.repeat(LIMITS.agentAnswerBytes);
    let deep: unknown = 1;
    for (let i = 0; i <= LIMITS.jsonDepth; i++) deep = [deep];
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const turn = setUp(
      say(
        { type: 'tool.start', ...tool, args: circular },
        { type: 'tool.result', ...tool, ok: true, result: long },
        { type: 'tool.start', ...tool, args: deep },
      ),
    ).begin();
    await turn.done;
    const [first, second] = turn.events as [object, { result: { head: string } }];
    assert.deepEqual(first, { type: 'tool.start', ...tool, args: null });
    assert.equal(second.result.head.length, LIMITS.runValueBytes);
    assert.deepEqual(
      { ...second, result: { ...second.result, head: '' } },
      { type: 'tool.result', ...tool, ok: true, result: { cut: true, bytes: long.length + 2, head: '' } },
    );
    assert.equal((turn.events[2] as { args: { cut: boolean } }).args.cut, true);
  });
});

describe('limits of a turn', () => {
  test('the text of an answer is cut, in whole characters', async () => {
    const half = 'ä'.repeat(LIMITS.agentAnswerBytes / 4);
    const act: Act = async (turn) => {
      for (const part of [half, `${half.slice(1)}x`, 'ä', 'more']) await turn.emit(delta(part));
    };
    const turn = setUp(act).begin();
    const taking = setInterval(turn.take, 1);
    await turn.done;
    clearInterval(taking);
    const text = turn.events.map((event) => (event.type === 'assistant.delta' ? event.delta : '')).join('');
    const [kept = ''] = text.split('\n\n[The answer is cut here: it is longer than 1048576 bytes.]');
    assert.ok(kept !== text && `${half}${half.slice(1)}x`.startsWith(kept), `${text.length} characters are kept`);
    const bytes = Buffer.byteLength(text);
    assert.ok(bytes <= LIMITS.agentAnswerBytes && bytes >= LIMITS.agentAnswerBytes - 1, `${bytes} bytes`);
  });

  test('a turn that says too much fails, and its agent is not asked again', async () => {
    const { begin, opened } = setUp(async (turn) => {
      while (!turn.signal.aborted)
        await turn.emit({ type: 'tool.result', ...tool, ok: true, result: 'x'.repeat(2 ** 20) });
    });
    const turn = begin();
    const taking = setInterval(turn.take, 1);
    await turn.done;
    clearInterval(taking);
    assert.deepEqual(turn.events.at(-1), {
      type: 'error',
      code: 'AGENT_FAILED',
      message: `The agent wrote more than ${LIMITS.agentTurnBytes} bytes in one turn.`,
    });
    await settle();
    assert.equal(opened[0]?.ended, true);
  });

  test('an agent that is not listened to is held up', async () => {
    let said = 0;
    const piece = 'x'.repeat(100_000);
    const act: Act = async (turn) => {
      for (; said < 30; said++) await turn.emit({ type: 'phase', phase: 'p', detail: piece.slice(0, 4096) });
      for (; said < 60; said++)
        await turn.emit({ type: 'tool.start', toolCallId: `${said}`, toolName: 't', args: piece });
    };
    const turn = setUp(act).begin();
    await settle();
    const held = said;
    assert.ok(
      held < 60 && turn.waiting() < LIMITS.agentUntakenBytes + 2 * piece.length,
      `${turn.waiting()} bytes wait`,
    );
    await settle();
    assert.equal(said, held);
    turn.take();
    await settle();
    assert.ok(said > held);
    const taking = setInterval(turn.take, 1);
    await turn.done;
    clearInterval(taking);
    assert.equal(said, 60);
  });
});

describe('a turn that is cancelled', () => {
  test('ends when its agent has stopped, which is kept', async () => {
    const { agents, begin, opened } = setUp(async (turn) => {
      await turn.emit(delta('so far'));
      await turn.emit({ type: 'tool.start', ...tool });
      await new Promise((resolve) => turn.signal.addEventListener('abort', resolve));
      await turn.emit({ type: 'tool.result', ...tool, ok: false });
      throw new Error('aborted');
    });
    const turn = begin();
    await settle();
    agents.cancel(turn.turn);
    await turn.done;
    assert.deepEqual(
      turn.events.map(({ type }) => type),
      ['assistant.delta', 'tool.start', 'tool.result'],
    );
    assert.equal(opened[0]?.isAlive, true);
  });

  test('ends after a while though its agent does not stop, which is ended', async (t) => {
    mockTimers(t);
    let isGone = () => {};
    const onEnd = () =>
      new Promise<void>((resolve) => {
        isGone = resolve;
      });
    const { agents, begin, opened } = setUp(() => new Promise(() => {}), { onEnd });
    const turn = begin();
    await settle();
    agents.cancel(turn.turn);
    t.mock.timers.tick(LIMITS.agentAbortMs - 1);
    await settle();
    assert.deepEqual([agents.counters.turns, agents.counters.agents], [1, 1]);
    t.mock.timers.tick(1);
    await settle();
    assert.equal(agents.counters.turns, 1, 'it may still write');
    isGone();
    await settle();
    assert.deepEqual([agents.counters.turns, opened[0]?.ended, turn.events], [0, true, []]);
  });

  test('ends at once while its agent is being opened, and while it waits', async () => {
    const { agents, begin } = setUp(say(), { maxAgents: 1, open: () => new Promise(() => {}) });
    const [opening, waiting] = [begin('one'), begin('two')];
    await settle();
    agents.cancel(waiting.turn);
    await waiting.done;
    agents.cancel(opening.turn);
    await opening.done;
    assert.deepEqual(opening.events, []);
    await settle();
    assert.equal(agents.counters.agents, 0);
  });

  test('is not blocked by events that no one takes', async () => {
    const { agents, begin } = setUp(async (turn) => {
      while (!turn.signal.aborted) await turn.emit({ type: 'phase', phase: 'p', detail: 'x'.repeat(4000) });
    });
    const turn = begin();
    await settle();
    agents.cancel(turn.turn);
    await turn.done;
  });
});

describe('permissions', () => {
  const options = [
    { optionId: 'always', kind: 'allow_always', label: 'Always' },
    { optionId: 'yes', kind: 'allow_once', label: 'Yes' },
    { optionId: 'no', kind: 'reject_once', label: 'No' },
  ] as const;
  const asking = (answers: (string | null)[], given: readonly unknown[] = options): Act => {
    return async (turn) => {
      answers.push(await turn.ask({ toolName: 'rm', detail: 'rm -r x', options: [...given] as never }));
    };
  };

  for (const [permission, given, answer] of [
    ['allow', options, 'yes'],
    ['allow', options.slice(0, 1), 'always'],
    ['allow', options.slice(2), null],
    ['deny', options, 'no'],
    ['deny', options.slice(0, 2), null],
  ] as const) {
    test(`the policy ${permission} chooses ${answer} of ${given.length}, asking nobody`, async () => {
      const answers: (string | null)[] = [];
      const turn = setUp(asking(answers, given)).begin('one', { permission: permission as PermissionPolicy });
      await turn.done;
      const question = { requestId: '1', toolName: 'rm', detail: 'rm -r x', options: [...given] };
      assert.deepEqual(turn.events, [{ type: 'permission', ...question, optionId: answer }]);
      assert.deepEqual(answers, [answer]);
    });
  }

  for (const [given, answer] of [
    ['yes', 'yes'],
    ['no', 'no'],
    ['unknown', null],
    [null, null],
  ] as const) {
    test(`who is asked says ${given}`, async () => {
      const answers: (string | null)[] = [];
      const { agents, begin } = setUp(asking(answers));
      const turn = begin();
      await settle();
      assert.deepEqual(turn.events, [
        { type: 'permission', requestId: '1', toolName: 'rm', detail: 'rm -r x', options: [...options] },
      ]);
      agents.answer(turn.turn, 'another', 'yes');
      agents.answer(turn.turn, '1', given);
      await turn.done;
      assert.deepEqual(answers, [answer]);
    });
  }
});

test('the error of a failed turn contains none of its agent’s secrets', async () => {
  const { begin } = setUp(async () => {
    throw new Error('Wrong key sk-1234567890 of model 1234 at http://me:svca_123@host, not other-key-99');
  });
  const env = { STUB_API_KEY: 'sk-1234567890', HOME: 'Wrong key', SHORT_KEY: '1234' };
  const turn = begin('one', {
    runner: { name: 'fake', kind: 'acp', env, apiKey: 'other-key-99' },
    gateway: { url: '', token: 'svca_123' },
  });
  await turn.done;
  assert.deepEqual(turn.events, [
    {
      type: 'error',
      code: 'AGENT_FAILED',
      message:
        'The agent failed: Wrong key [secret STUB_API_KEY] of model 1234 at http://me:[secret token]@host, not [secret key]',
    },
  ]);
});

test('a transcript contains none of its agent’s secrets, in no event', async () => {
  const key = 'sk-1234567890';
  const { begin } = setUp(async (turn) => {
    for (const piece of ['It is sk-', '1234', '567890.']) await turn.emit(delta(piece));
    await turn.emit({ type: 'tool.start', ...tool, args: { command: `echo ${key}` } });
    await turn.emit({ type: 'tool.result', ...tool, ok: true, result: `${key}\n` });
    await turn.emit({ type: 'final', text: `So ${key}` });
  });
  const turn = begin('one', { runner: { name: 'fake', kind: 'acp', env: { MY_API_KEY: key } } });
  await turn.done;
  assert.doesNotMatch(JSON.stringify(turn.events), /sk-|1234/);
  assert.deepEqual(turn.events.at(-1), { type: 'final', text: 'So [secret MY_API_KEY]' });
});

describe('who has a place', () => {
  /** Turns that go on until they are let go. */
  const held = (options: Options = {}) => {
    const going = new Map<string, () => void>();
    const made = setUp(async (turn) => {
      await new Promise<void>((resolve) => going.set(turn.order.conversation, resolve));
    }, options);
    const letGo = async (conversation: string) => {
      going.get(conversation)?.();
      await settle();
    };
    return { ...made, going, letGo };
  };

  test('the next turn of a conversation has its agent, and waits for the one before', async () => {
    const { begin, opened, letGo } = held();
    const [first, second] = [begin(), begin()];
    await settle();
    assert.deepEqual(second.events, [
      { type: 'phase', phase: 'waiting', detail: 'The turn before this one is not over.' },
    ]);
    await letGo('one');
    await first.done;
    assert.equal(opened[0]?.turns, 2);
    await letGo('one');
    await second.done;
    assert.equal(opened.length, 1);
  });

  test('further turns wait in line and report it; idle agents make room, the least recently used first', async () => {
    const { begin, opened, letGo, going } = held();
    begin('a');
    begin('b');
    await settle();
    const waiting = [begin('c'), begin('d')];
    await settle();
    assert.deepEqual(waiting[0]?.events, [
      {
        type: 'phase',
        phase: 'waiting',
        detail: '2 agents are at work already. The turn waits until one of them has ended.',
      },
    ]);
    assert.deepEqual([...going.keys()], ['a', 'b']);
    await letGo('b');
    assert.deepEqual([...going.keys()], ['a', 'b', 'c'], 'the first of the line');
    await letGo('a');
    assert.deepEqual([...going.keys()], ['a', 'b', 'c', 'd']);
    await letGo('d');
    await letGo('c');
    begin('e');
    await settle();
    const alive = opened.filter(({ isAlive }) => isAlive).map(({ conversation }) => conversation);
    assert.deepEqual(alive, ['c', 'e'], 'd was used before c');
  });

  test('an agent that takes its time to end keeps its place until then', async () => {
    let end = () => {};
    const { begin, opened, letGo } = held({
      maxAgents: 1,
      onEnd: () => new Promise((resolve) => (end = resolve)),
    });
    begin('a');
    await settle();
    await letGo('a');
    begin('b');
    await settle();
    assert.equal(opened.length, 1);
    end();
    await settle();
    assert.equal(opened.length, 2);
  });

  test('an agent without a turn is ended after a while', async (t) => {
    mockTimers(t);
    const { begin, opened, letGo, agents } = held();
    begin('a');
    await settle();
    await letGo('a');
    t.mock.timers.tick(LIMITS.agentIdleMs - 1);
    await settle();
    assert.equal(opened[0]?.ended, false);
    t.mock.timers.tick(1);
    await settle();
    assert.deepEqual([opened[0]?.ended, agents.counters.agents], [true, 0]);
  });

  for (const [name, change] of [
    ['another runner', { runner: { name: 'fake', kind: 'acp', env: { A: '1' } } }],
    ['another address of the tools', { gateway: { url: 'http://127.0.0.1/', token: '' } }],
    ['another folder', { folder: '/tmp' }],
    ['a conversation that begins, under the name of one that was deleted,', { begins: true }],
  ] as [string, Partial<TurnOrder>][]) {
    test(`${name} means another agent`, async () => {
      const { begin, opened, letGo } = held();
      begin('a');
      await settle();
      await letGo('a');
      begin('a', change);
      await settle();
      assert.deepEqual(
        opened.map(({ ended }) => ended),
        [true, false],
      );
    });
  }

  test('a turn says that it waits only where others have the places', async () => {
    const { begin, letGo } = held({ maxAgents: 1 });
    const phases = (turn: ReturnType<typeof begin>) => turn.events.filter(({ type }) => type === 'phase').length;
    begin('a');
    await settle();
    const behind = begin('a');
    const waits = begin('b');
    await settle();
    assert.deepEqual([phases(behind), phases(waits)], [1, 1]);
    for (const one of ['a', 'a', 'b']) {
      await letGo(one);
      await settle();
    }
    const replaces = begin('b', { folder: '/tmp' });
    await settle();
    await letGo('b');
    const instead = begin('c');
    await settle();
    assert.deepEqual([phases(replaces), phases(instead)], [0, 0], 'an idle agent makes room');
    await letGo('c');
  });

  test('the token of another turn goes to the same agent, except to Codex, which has it from its start', async () => {
    for (const [kind, ended] of [
      ['acp', [false]],
      ['codex', [true, false]],
    ] as const) {
      const { begin, opened, letGo } = held();
      const runner = { name: 'fake', kind, env: {} };
      for (const token of ['first', 'second']) {
        begin('a', { runner, gateway: { url: '', token } });
        await settle();
        await letGo('a');
      }
      assert.deepEqual(
        opened.map((one) => one.ended),
        ended,
      );
    }
  });

  test('a turn that was cancelled while it waited takes no place', async () => {
    const warm = new WarmAgents({ maxAgents: 1, idleMs: LIMITS.agentIdleMs });
    const quiet = () => {};
    const never = new AbortController().signal;
    const place = await warm.take(orderOf('a', {}), never, quiet);
    place.agent = new FakeAgent(
      'a',
      async () => {},
      async () => {},
    );
    const controller = new AbortController();
    const cancelled = warm.take(orderOf('a', {}), controller.signal, quiet);
    controller.abort();
    // Before anything else can happen.
    void warm.give(place, true);
    await assert.rejects(cancelled, { code: 'AGENT_FAILED' });
    assert.equal(await warm.take(orderOf('a', {}), never, quiet), place);
  });

  for (const [what, over, left] of [
    ['a conversation', { conversation: 'a' }, ['b', 'c', 'd']],
    ['an app', { app: 'notes' }, ['d']],
    ['a draft', { draft: 's1' }, ['a', 'd']],
    ['an app in a draft', { app: 'notes', draft: 's1' }, ['a', 'd']],
    ['another app', { app: 'a' }, ['a', 'b', 'c', 'd']],
  ] as [string, AgentScope, string[]][]) {
    test(`${what} that is over takes its idle agents along at once, and those at work after their turn`, async () => {
      const { begin, opened, letGo, agents } = held({ maxAgents: 4 });
      const orders: Record<string, Partial<TurnOrder>> = {
        a: {},
        b: { draft: 's1' },
        c: { draft: 's1' },
        d: { app: 'x' },
      };
      for (const [name, order] of Object.entries(orders)) begin(name, order);
      await settle();
      for (const name of ['a', 'b', 'd']) await letGo(name);
      const alive = () => opened.flatMap(({ isAlive, conversation }) => (isAlive ? [conversation] : []));
      agents.endAgentsOf(over);
      await settle();
      assert.deepEqual(
        alive(),
        ['a', 'b', 'c', 'd'].filter((name) => name === 'c' || left.includes(name)),
      );
      await letGo('c');
      assert.deepEqual(alive(), left);
    });
  }

  test('a turn after the end of a conversation of its name has another agent', async () => {
    const { begin, opened, letGo, agents } = held();
    begin('a');
    await settle();
    agents.endAgentsOf({ conversation: 'a' });
    const next = begin('a');
    await settle();
    await letGo('a');
    await settle();
    await letGo('a');
    await next.done;
    assert.deepEqual(
      opened.map(({ turns, ended }) => [turns, ended]),
      [
        [1, true],
        [1, false],
      ],
    );
  });

  test('one that is being opened when its conversation ends is not kept', async () => {
    let ready = () => {};
    const { begin, opened, agents } = setUp(say(), { open: () => new Promise((resolve) => (ready = resolve)) });
    const turn = begin('a');
    await settle();
    agents.endAgentsOf({ conversation: 'a' });
    ready();
    await turn.done;
    await settle();
    assert.deepEqual([opened[0]?.ended, agents.counters.agents], [true, 0]);
  });

  test('an agent whose conversation is over ends with its turn', async () => {
    const { begin, opened, agents } = setUp(say());
    await begin('a', { once: true }).done;
    await settle();
    assert.deepEqual([opened[0]?.ended, agents.counters.agents], [true, 0]);
  });

  test('an agent whose app has changed is opened again', async () => {
    const { begin, opened, letGo } = held();
    for (const instructions of ['tools: add', 'tools: add, list']) {
      const { done } = begin('one', { instructions });
      await settle();
      await letGo('one');
      await done;
    }
    assert.deepEqual(
      opened.map(({ turns, ended }) => [turns, ended]),
      [
        [1, true],
        [1, false],
      ],
    );
  });

  test('a dead agent is opened again', async () => {
    const { begin, opened } = setUp(async (_turn, agent) => {
      agent.isAlive = false;
    });
    await begin().done;
    await begin().done;
    assert.equal(opened.length, 2);
  });

  test('an agent that cannot be opened fails its turn and leaves its place', async () => {
    const { begin, agents } = setUp(say(), {
      maxAgents: 1,
      open: () => Promise.reject(new SvcError('NO_RUNNER', 'It is not installed.')),
    });
    for (let i = 0; i < 3; i++) {
      const turn = begin(`${i}`);
      await turn.done;
      assert.deepEqual(turn.events.at(-1), { type: 'error', code: 'NO_RUNNER', message: 'It is not installed.' });
    }
    await settle();
    assert.deepEqual(agents.counters, { turns: 0, programs: 0, agents: 0, waiting: 0 });
  });

  test('one that takes too long to open fails its turn', async (t) => {
    mockTimers(t);
    const turn = setUp(say(), { open: () => new Promise(() => {}) }).begin();
    await settle();
    t.mock.timers.tick(LIMITS.agentStartMs);
    await settle();
    assert.deepEqual(turn.events, [
      { type: 'error', code: 'AGENT_FAILED', message: 'The agent fake was not ready within 30 s.' },
    ]);
  });
});

describe('questions about a runner', () => {
  const runner = { name: 'fake', kind: 'acp', env: {} } as const;

  test('an answer, one that does not come in time, and one after its caller left', async (t) => {
    const { agents } = setUp(say());
    assert.deepEqual(await agents.probe(1, { runner, want: 'version', folder: '/' }), { version: '1.2.3' });
    const cancelled = agents.probe(2, { runner, want: 'models', folder: '/' });
    await settle();
    agents.cancel(2);
    await assert.rejects(cancelled, { message: 'It was cancelled.' });
    mockTimers(t);
    const late = agents.probe(3, { runner, want: 'tools', folder: '/' });
    const rejected = assert.rejects(late, { message: 'fake did not answer within 30 s.' });
    await settle();
    t.mock.timers.tick(LIMITS.agentStartMs);
    await rejected;
  });
});
