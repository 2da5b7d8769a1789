import assert from 'node:assert/strict';
import { test } from 'node:test';
import { slackChallenge, webhookInput } from './webhook-input.ts';

const FORM = 'application/x-www-form-urlencoded';
const input = (body: string, type: string | null = FORM, verify: Parameters<typeof webhookInput>[2] = 'slack') =>
  webhookInput(Buffer.from(body), type, verify);

for (const [name, body, value] of [
  ['fields', 'command=%2Fdeploy&text=now+please&empty=', { command: '/deploy', text: 'now please', empty: '' }],
  ['a name that is repeated', 'a=1&b=2&a=3&a=', { a: ['1', '3', ''], b: '2' }],
  ['a name without a value', 'a', { a: '' }],
  ['a percent sign that encodes nothing', 'a=100%', { a: '100%' }],
  ['a value as JSON', 'payload=%7B%22type%22%3A%22block_actions%22%7D', { type: 'block_actions' }],
  ['a value that is no JSON', 'payload=%7B', { payload: '{' }],
  ['a value as JSON beside others', 'payload=%7B%7D&a=1', { payload: '{}', a: '1' }],
  ['two values', 'payload=1&payload=2', { payload: ['1', '2'] }],
  ['JSON that says it is a form', '{"a": 1}', { a: 1 }],
  ['a text in JSON', '"a=1"', 'a=1'],
  ['nothing', '', undefined],
] as const) {
  test(`a form: ${name}`, () => assert.deepEqual(input(body), value));
}

test('a name of every object is a name as others', () => {
  const value = input('__proto__=1&constructor=2') as Record<string, unknown>;
  assert.equal(JSON.stringify(value), '{"__proto__":"1","constructor":"2"}');
  assert.equal(({} as { polluted?: unknown }).polluted, undefined);
});

test('only of verified senders, and only where it says that it is one', () => {
  assert.equal(input('a=1', FORM, null), 'a=1');
  assert.equal(input('a=1', 'text/plain'), 'a=1');
  assert.equal(input('a=1', null), 'a=1');
  assert.deepEqual(input('payload=%7B%7D', FORM, 'stripe'), { payload: '{}' });
});

test('a form with too deep JSON, or a body that is not text, is refused', () => {
  const deep = encodeURIComponent('['.repeat(2000) + ']'.repeat(2000));
  assert.throws(() => input(`payload=${deep}`), { code: 'BAD_REQUEST' });
  assert.throws(() => webhookInput(Buffer.from([0x61, 0x3d, 0xff]), FORM, 'slack'), { code: 'BAD_REQUEST' });
});

test('the challenge is taken from the message that has one', () => {
  const of = (value: unknown) => slackChallenge(Buffer.from(JSON.stringify(value)));
  assert.equal(of({ token: 'x', challenge: '3eZbrw1aBm2r', type: 'url_verification' }), '3eZbrw1aBm2r');
  for (const value of [null, [], 'x', {}, { type: 'event_callback', challenge: 'x' }, { type: 'url_verification' }])
    assert.equal(of(value), null);
});
