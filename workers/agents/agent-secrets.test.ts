import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunnerEvent, RunnerSpec } from '../../protocol/agents/agents.ts';
import { EventSecrets, secretsOf } from './agent-secrets.ts';

const SPEC: RunnerSpec = {
  name: 'mine',
  kind: 'acp',
  env: { STUB_API_KEY: 'sk-1234567890', GEMINI: 'gem-abcdefgh', HOME: '/home/someone', SHORT_KEY: '1234' },
  keyVariable: 'GEMINI',
};

function cleaned(...events: RunnerEvent[]): RunnerEvent[] {
  const secrets = new EventSecrets(secretsOf(SPEC, 'svca_12345678'));
  return [...events.flatMap((event) => secrets.clean(event)), ...secrets.rest()];
}

const textOf = (events: RunnerEvent[]) => events.map((event) => ('delta' in event ? event.delta : '|')).join('');

test('a secret is taken out of text however it is cut into pieces', () => {
  const whole = 'It is sk-1234567890, and gem-abcdefgh of /home/someone, not sk-123 or 1234. sk-12345';
  const clean = 'It is [secret STUB_API_KEY], and [secret GEMINI] of /home/someone, not sk-123 or 1234. sk-12345';
  for (let size = 1; size <= whole.length; size++) {
    const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
    assert.equal(textOf(cleaned(...pieces.map((delta) => ({ type: 'assistant.delta' as const, delta })))), clean);
  }
});

test('what waits comes before the next event, and in its order', () => {
  const events = cleaned(
    { type: 'assistant.delta', delta: 'a sk-1' },
    { type: 'reasoning.delta', delta: 'sk-2' },
    { type: 'phase', phase: 'plan' },
    { type: 'assistant.delta', delta: '234' },
  );
  assert.deepEqual(
    events.map((event) => [event.type, 'delta' in event ? event.delta : '']),
    [
      ['assistant.delta', 'a '],
      ['assistant.delta', 'sk-1'],
      ['reasoning.delta', 'sk-2'],
      ['phase', ''],
      ['assistant.delta', '234'],
    ],
  );
});

test('secrets are taken out of arguments, results, questions and errors', () => {
  const env = { env: { KEY: 'sk-1234567890' }, list: ['svca_12345678', 5] };
  const [start, result, error] = cleaned(
    { type: 'tool.start', toolCallId: '1', toolName: 'shell', args: { command: 'echo sk-1234567890' } },
    { type: 'tool.result', toolCallId: '1', toolName: 'shell', ok: true, result: env },
    { type: 'error', code: 'AGENT_FAILED', message: 'Wrong: gem-abcdefgh' },
  );
  assert.deepEqual(start, {
    type: 'tool.start',
    toolCallId: '1',
    toolName: 'shell',
    args: { command: 'echo [secret STUB_API_KEY]' },
  });
  assert.deepEqual((result as { result: unknown }).result, {
    env: { KEY: '[secret STUB_API_KEY]' },
    list: ['[secret token]', 5],
  });
  assert.equal((error as { message: string }).message, 'Wrong: [secret GEMINI]');
});
