import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TurnCost } from './turn-cost.ts';

test('what a turn used is summed up over its agents', () => {
  const cost = new TurnCost();
  cost.take({ type: 'assistant.start', turnId: 't', runner: 'codex', model: 'gpt-5' });
  cost.take({ type: 'usage', inputTokens: 1000, outputTokens: 80, costUsd: 0.2 });
  cost.take({ type: 'assistant.delta', delta: 'Hello' });
  cost.take({ type: 'usage', inputTokens: 204, outputTokens: 8, costUsd: 0.05, model: 'gpt-5-mini' });
  assert.deepEqual(cost.facts(String), ['codex', 'gpt-5-mini', '1204 tokens in, 88 out', '$0.25']);
});

test('what is not known, or nothing, is left out; small sums have four decimals', () => {
  const cost = new TurnCost();
  assert.deepEqual(cost.facts(String), []);
  cost.take({ type: 'assistant.start', turnId: 't', runner: 'local' });
  cost.take({ type: 'usage', inputTokens: 0, outputTokens: 0, costUsd: 0 });
  assert.deepEqual(cost.facts(String), ['local']);
  cost.take({ type: 'usage', outputTokens: 5, costUsd: 0.0123 });
  assert.deepEqual(cost.facts(String), ['local', '0 tokens in, 5 out', '$0.0123']);
});
