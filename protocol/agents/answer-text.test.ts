import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TurnEvent } from './agents.ts';
import { AnswerText } from './answer-text.ts';

const say = (delta: string): TurnEvent => ({ type: 'assistant.delta', delta });
const TOOL: TurnEvent = { type: 'tool.start', toolCallId: 'a', toolName: 'list' };
const RETRY: TurnEvent = { type: 'phase', phase: 'retrying' };

test('what was said since the last tool is void when it is said anew, and only then', () => {
  for (const [events, text] of [
    [[say('half of '), RETRY, say('whole')], 'whole'],
    [[say('first '), TOOL, say('half'), RETRY, say('who'), say('le')], 'first whole'],
    [[say('first '), TOOL, RETRY, say('whole')], 'first whole'],
    [[say('half'), RETRY], 'half'],
    [[say('half'), RETRY, TOOL, say('whole')], 'whole'],
    [[say('half'), RETRY, RETRY, say('whole'), say(' one')], 'whole one'],
    [[say('a'), { type: 'phase', phase: 'compacting' }, say('b')], 'ab'],
    [Array.from({ length: 20 }, (_, i) => say(`${i}`)), '012345678910111213141516171819'],
  ] as [TurnEvent[], string][]) {
    const answer = new AnswerText();
    for (const event of events) answer.take(event);
    assert.equal(answer.text, text);
  }
});
