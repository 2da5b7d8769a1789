import assert from 'node:assert/strict';
import test from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { confirmationOf } from './confirmation.ts';
import type { Request, Target } from './request.ts';

const target = {
  app: { id: 'todos' },
  kind: 'action',
  tool: { name: 'clear', confirmation: 'required', writes: [] },
} as unknown as Target;

function shown(input: string): string {
  const request = { body: Buffer.from(`{"input":${input}}`), confirm: async () => {} } as unknown as Request;
  return confirmationOf(target, request)?.detail ?? '';
}

test('the question shows the input as the action gets it: spaces and repeated members hide nothing', () => {
  assert.equal(shown(`{"id": "harmless"${' '.repeat(5000)}, "id": "all"}`), '{"id":"all"}');
});

test('a question that is too long shows its beginning and its end, and says how much is left out', () => {
  const detail = shown(JSON.stringify({ first: 'x'.repeat(20_000), last: 'the end' }));
  assert.ok(detail.length <= LIMITS.errorMessageChars, `${detail.length}`);
  assert.match(detail, /^\{"first":"x+ … \d+ more characters … x+","last":"the end"\}$/);
});
