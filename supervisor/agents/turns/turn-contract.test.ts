import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { TurnEnd } from '../../../protocol/agents/stored-turns.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { soundEvent } from './sound-event.ts';
import { TurnContract } from './turn-contract.ts';

/** What those who follow get of these events, and of the end of the turn. */
function taken(events: unknown[], end: TurnEnd = 'ok'): TurnEvent[] {
  const contract = new TurnContract();
  const sound = events.flatMap((event) => soundEvent(event) ?? []);
  return [...sound.flatMap((event) => contract.take(event)), ...contract.rest(end)];
}

const start = (toolCallId: string) => ({ type: 'tool.start', toolCallId, toolName: 'x' }) as const;
const result = (toolCallId: string) => ({ type: 'tool.result', toolCallId, toolName: 'x', ok: true }) as const;
const delta = (text: string) => ({ type: 'assistant.delta', delta: text }) as const;

test('each tool that began gets one result, and each result a beginning', () => {
  assert.deepEqual(taken([start('a'), result('a')], 'aborted'), [start('a'), result('a')]);
  assert.deepEqual(taken([result('a')], 'aborted'), [start('a'), result('a')]);
  assert.deepEqual(taken([start('a'), start('a'), result('a'), result('a'), start('a')], 'aborted'), [
    start('a'),
    result('a'),
    start('a'),
    { ...result('a'), ok: false, errorText: 'The turn ended before the tool did.' },
  ]);
  const [first, second, ...rest] = taken([start('a'), start('b'), result('b')], 'aborted');
  assert.deepEqual([first, second, rest[0]], [start('a'), start('b'), result('b')]);
  const { errorText, ...cut } = rest[1] as Extract<TurnEvent, { type: 'tool.result' }>;
  assert.deepEqual(cut, { type: 'tool.result', toolCallId: 'a', toolName: 'x', ok: false });
  assert.match(errorText ?? '', /ended before/);
  assert.deepEqual(taken([start('a')], 'error'), [
    start('a'),
    { ...result('a'), ok: false, errorText: 'The turn failed before the tool had a result.' },
  ]);
});

test('final comes last, once, and is made from the text if the runner gives none', () => {
  assert.deepEqual(taken([delta('a'), delta('b')]).at(-1), { type: 'final', text: 'ab' });
  const two = taken([delta('a'), { type: 'final', text: 'whole' }, { type: 'final', text: 'other' }, start('t')]);
  assert.deepEqual(
    two.map(({ type }) => type),
    ['assistant.delta', 'tool.start', 'tool.result', 'final'],
  );
  assert.deepEqual(two.at(-1), { type: 'final', text: 'whole' });
  assert.deepEqual(taken([delta('a'), { type: 'final', text: 'whole' }], 'aborted'), [delta('a')]);
});

test('invalid members are left out one by one', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const table: [yielded: unknown, sound: unknown][] = [
    [null, null],
    [undefined, null],
    ['assistant.delta', null],
    [[], null],
    [{}, null],
    [{ type: 7 }, null],
    [{ type: 'assistant.start', turnId: 'mine' }, null],
    [{ type: 'file', path: 'x', status: 'added' }, null],
    [{ type: 'assistant.delta', delta: '' }, null],
    [{ type: 'assistant.delta', delta: ['a'] }, null],
    [
      { type: 'reasoning.delta', delta: 'a', more: 1 },
      { type: 'reasoning.delta', delta: 'a' },
    ],
    [{ type: 'session', id: '' }, null],
    [{ type: 'session', id: 'x'.repeat(LIMITS.textChars + 1) }, null],
    [
      { type: 'session', id: 's' },
      { type: 'session', id: 's' },
    ],
    [{ type: 'tool.start', toolName: 'x' }, null],
    [{ ...start('a'), args: cyclic, sql: 5 }, start('a')],
    [
      { ...start('a'), args: () => {}, sql: 'SELECT 1' },
      { ...start('a'), sql: 'SELECT 1' },
    ],
    [{ ...start('a'), args: { n: 1n } }, start('a')],
    [
      { ...result('a'), ok: 1 },
      { ...result('a'), ok: false },
    ],
    [
      { ...result('a'), result: { toJSON: () => 'text' } },
      { ...result('a'), result: 'text' },
    ],
    [
      { ...result('a'), result: null, errorText: '' },
      { ...result('a'), result: null },
    ],
    [
      { type: 'usage', inputTokens: 1, outputTokens: -1, costUsd: Number.POSITIVE_INFINITY, model: 'm', provider: 5 },
      { type: 'usage', inputTokens: 1, model: 'm' },
    ],
    [
      { type: 'phase', phase: 'p', detail: 'd' },
      { type: 'phase', phase: 'p', detail: 'd' },
    ],
    [{ type: 'phase', detail: 'd' }, null],
    [{ type: 'permission', requestId: 'q', toolName: 'x', options: {} }, null],
    [
      {
        type: 'permission',
        requestId: 'q',
        toolName: 'x',
        options: [null, { optionId: 'a', kind: 'allow' }, { optionId: 'b', kind: 'reject_once' }],
      },
      {
        type: 'permission',
        requestId: 'q',
        toolName: 'x',
        detail: '',
        options: [{ optionId: 'b', kind: 'reject_once', label: 'reject_once' }],
      },
    ],
    ...['b', null, 7].map((optionId): [unknown, unknown] => {
      const question = { type: 'permission', requestId: 'q', toolName: 'x', detail: 'd', options: [] };
      return [
        { ...question, optionId },
        { ...question, optionId: optionId === 'b' ? 'b' : null },
      ];
    }),
    [{ type: 'final' }, null],
    [{ type: 'error' }, { type: 'error', code: 'AGENT_FAILED', message: 'The agent failed and gave no reason.' }],
    [
      { type: 'error', code: 'X', message: 'm' },
      { type: 'error', code: 'X', message: 'm' },
    ],
    [{ type: 'aborted', why: 'x' }, { type: 'aborted' }],
  ];
  for (const [yielded, sound] of table) assert.deepEqual(soundEvent(yielded), sound, JSON.stringify(sound));
});

test('a value that is too large or too deep is the beginning of its text', () => {
  const large = soundEvent({ ...result('a'), result: 'x'.repeat(LIMITS.agentAnswerBytes + 1) });
  assert.ok(large?.type === 'tool.result' && typeof large.result === 'string');
  assert.ok(large.result.length <= LIMITS.runValueBytes + 1);
  const deep = soundEvent({ ...start('a'), args: JSON.parse(`${'['.repeat(2000)}${']'.repeat(2000)}`) });
  assert.ok(deep?.type === 'tool.start' && typeof deep.args === 'string' && deep.args.startsWith('[['));
});

test('an answer without end is an error', () => {
  const contract = new TurnContract();
  const piece = delta('x'.repeat(LIMITS.agentTextChars / 4));
  for (let i = 0; i < 4; i++) contract.take(piece);
  assert.throws(() => contract.take(delta('x')), { code: 'AGENT_FAILED' });
});
