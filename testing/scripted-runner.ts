/** A `ConversationRunner` that runs the message as a script, for tests of everything above runners. */
import { once } from 'node:events';
import type { ConversationRunner, ConversationTurn } from '../supervisor/extension-points.ts';
import { pause } from './waiting.ts';

export type ScriptedRunner = ConversationRunner & {
  /** The turns that it got. */
  turns: ConversationTurn[];
  /** How many of them did something behind their last event. */
  lingered: number;
};

/**
 * A message consists of words, which run one after the other: `say:<text>` a delta · `think:<text>` · `tool:<name>` a
 * tool that answers · `open:<name>` one that does not · `ask` asks for a permission and says what was answered ·
 * `decided:<optionId>` says what its policy answered · `session:<id>` · `usage` · `final:<text>` · `error:<message>` ·
 * `throw` · `garbage` · `end` · `hang` waits for the abort · `deaf` waits for ever · `quiet` asks, and waits for ever · `flood` events that are none until
 * something else ran · `linger:<message>` fails, and has something to do after that · `count:<n>` n deltas · `slow:<n>` n deltas, 5 ms apart · `big:<n>` n tool results of 100 KiB ·
 * `resume` says what it resumes with · `history` says what was said before.
 */
export function scriptedRunner(): ScriptedRunner {
  const turns: ConversationTurn[] = [];
  const run = async function* (turn: ConversationTurn): ReturnType<ConversationRunner> {
    turns.push(turn);
    try {
      for (const word of turn.message.split(/\s+/)) yield* step(word, turn);
    } finally {
      if (turn.message.startsWith('linger')) {
        await pause(100);
        runner.lingered++;
      }
    }
  } as unknown as ConversationRunner;
  const runner = Object.assign((turn: ConversationTurn) => run(turn), { turns, lingered: 0 });
  return runner;
}

type Yielded = { type: string; [member: string]: unknown };

type Verb = (argument: string, turn: ConversationTurn) => Iterable<Yielded> | AsyncIterable<Yielded>;

const delta = (text: string): Yielded => ({ type: 'assistant.delta', delta: text });

const QUESTION: Yielded = {
  type: 'permission',
  requestId: 'q1',
  toolName: 'shell',
  detail: 'rm -r build',
  options: [
    { optionId: 'yes', kind: 'allow_once', label: 'Allow' },
    { optionId: 'no', kind: 'reject_once', label: 'Refuse' },
  ],
};

const VERBS: Record<string, Verb> = {
  say: (text) => [delta(text)],
  think: (text) => [{ type: 'reasoning.delta', delta: text }],
  tool: (name) => [
    { type: 'tool.start', toolCallId: name, toolName: name, args: { a: 1 } },
    { type: 'tool.result', toolCallId: name, toolName: name, ok: true, result: { b: 2 } },
  ],
  open: (name) => [{ type: 'tool.start', toolCallId: name, toolName: name }],
  ask: (_, turn) => ask(turn),
  decided: (optionId) => [{ ...QUESTION, requestId: `decided-${optionId}`, optionId }],
  session: (id) => [{ type: 'session', id }],
  usage: () => [{ type: 'usage', model: 'stub-model', inputTokens: 3, outputTokens: 2, costUsd: 0.5 }],
  final: (text) => [{ type: 'final', text }],
  error: (message) => [{ type: 'error', code: 'AGENT_FAILED', message }],
  linger: (message) => [{ type: 'error', code: 'AGENT_FAILED', message }],
  throw: () => {
    throw new Error('the runner is tired');
  },
  garbage: () => garbage(),
  end: () => [{ type: 'end' }],
  resume: (_, { resume }) => [delta(String(resume))],
  history: (_, { history }) => [delta(JSON.stringify(history))],
  count: (n) => Array.from({ length: Number(n) }, (_, i) => delta(`${i} `)),
  async *slow(n, { signal }) {
    for (let i = 0; i < Number(n) && !signal.aborted; i++) {
      yield delta(`${i} `);
      await pause(5);
    }
  },
  big: (n) =>
    Array.from({ length: Number(n) }, (_, i): Yielded[] => {
      const tool = { toolCallId: `big${i}`, toolName: 'big' };
      return [
        { type: 'tool.start', ...tool },
        { type: 'tool.result', ...tool, ok: true, result: 'x'.repeat(100 * 1024) },
      ];
    }).flat(),
  // biome-ignore lint/correctness/useYield: it has nothing to say
  async *hang(_, { signal }) {
    if (!signal.aborted) await once(signal, 'abort');
    throw new Error('aborted');
  },
  async *flood() {
    let isFree = false;
    setImmediate(() => {
      isFree = true;
    });
    for (let i = 0; !isFree && i < 100_000; i++) yield { type: 'unknown' };
    yield delta(isFree ? 'free' : 'held up');
  },
  async *quiet(_, turn) {
    yield QUESTION;
    await turn.answer?.('q1');
    await new Promise(() => {});
  },
  async *deaf() {
    await new Promise(() => {});
  },
};

async function* step(word: string, turn: ConversationTurn): AsyncGenerator<Yielded> {
  const [verb = '', argument = ''] = word.split(/:(.*)/s, 2);
  yield* VERBS[verb]?.(argument, turn) ?? [];
}

async function* ask(turn: ConversationTurn): AsyncGenerator<Yielded> {
  yield QUESTION;
  yield { type: 'assistant.delta', delta: `answered ${await turn.answer?.('q1')}` };
}

async function* garbage(): AsyncGenerator<Yielded> {
  const yielded: unknown[] = [
    null,
    7,
    'text',
    {},
    { type: 'unknown', x: 1 },
    { type: 'assistant.delta' },
    { type: 'assistant.delta', delta: 5 },
    { type: 'tool.start', toolName: 'x' },
    { type: 'tool.result', toolCallId: 'never-begun', toolName: 'lost', ok: 'yes', result: () => {} },
    { type: 'usage', inputTokens: -1, costUsd: Number.NaN, model: 7 },
    { type: 'permission', requestId: 'q9', toolName: 'x', options: 'none' },
    { type: 'assistant.start', turnId: 'mine' },
    { type: 'phase' },
  ];
  for (const one of yielded) yield one as Yielded;
}
