import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TurnEvent } from './agents.ts';
import { chosenLabel, type QuestionBlock, Turn, toolInputText } from './turn.ts';

function folded(...events: TurnEvent[]): Turn {
  const turn = new Turn();
  for (const event of events) turn.take(event);
  return turn;
}
const text = (delta: string): TurnEvent => ({ type: 'assistant.delta', delta });
const start: TurnEvent = { type: 'tool.start', toolCallId: '1', toolName: 'add', args: { a: 1 } };
const result: TurnEvent = { type: 'tool.result', toolCallId: '1', toolName: 'add', ok: true, result: '{}' };

test('what is said in pieces is one block, until something else comes', () => {
  const turn = folded(text('Hel'), text('lo'), { type: 'reasoning.delta', delta: 'Hm' }, start, text('Done'));
  assert.deepEqual(
    turn.blocks.map((block) => ('text' in block ? `${block.kind} ${block.text}` : block.kind)),
    ['text Hello', 'thought Hm', 'tool', 'text Done'],
  );
});

test('the final text is a block only if none came after the last tool', () => {
  const final: TurnEvent = { type: 'final', text: 'All' };
  assert.equal(folded(text('All')).take(final), null);
  assert.equal(folded(text('All'), start, result).take(final)?.kind, 'text');
  assert.deepEqual(folded(text('half'), { type: 'phase', phase: 'retrying' }, final).blocks, [
    { kind: 'text', text: 'All' },
  ]);
});

test('an id that an agent uses again is another call', () => {
  const turn = folded(start, result, { type: 'tool.start', toolCallId: '1', toolName: 'add', sql: 'SELECT 1' });
  const tools = turn.blocks.filter((block) => block.kind === 'tool');
  assert.deepEqual(
    tools.map((tool) => [tool.ok, toolInputText(tool)]),
    [
      [true, '{"a":1}'],
      [null, 'SELECT 1'],
    ],
  );
});

test('the first answer to a question counts, and the end closes those without one', () => {
  const options = [{ optionId: 'y', kind: 'allow_once' as const, label: 'Allow' }];
  const ask = (requestId: string): TurnEvent => ({
    type: 'permission',
    requestId,
    toolName: 'rm',
    detail: '',
    options,
  });
  const answer = (optionId: string | null): TurnEvent => ({
    type: 'permission.result',
    requestId: '1',
    optionId,
    ok: optionId !== null,
  });
  const turn = folded(ask('1'), ask('2'), answer('y'), answer(null), { type: 'end' });
  const [first, second] = turn.blocks as QuestionBlock[];
  assert.deepEqual(
    [first, second].map((one) => [one?.isOpen, one && chosenLabel(one)]),
    [
      [false, 'Allow'],
      [false, undefined],
    ],
  );
  assert.equal(turn.state, 'ok');
});

test('a turn that failed or was stopped has not ended well', () => {
  for (const [event, state] of [
    [{ type: 'error', code: 'AGENT_FAILED', message: 'x' }, 'error'],
    [{ type: 'aborted' }, 'aborted'],
  ] as const)
    assert.equal(folded(event, { type: 'end' }).state, state);
});
