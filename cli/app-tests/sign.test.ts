import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WebhookVerify } from '../../protocol/automations/automation.ts';
import { readProof } from '../../supervisor/automations/webhooks/verification.ts';
import { signatureHeaders } from './sign.ts';

const SECRET = `whsec_${Buffer.from('a secret of some length').toString('base64')}`;
const BODY = Buffer.from('{"id":"evt_1"}');
const NOW = 1_767_636_000_123;

const schemes: Exclude<WebhookVerify, 'bearer'>[] = [
  'standard',
  'github',
  'stripe',
  'slack',
  { header: 'X-Signature', algorithm: 'sha512', encoding: 'base64', prefix: 'v=' },
  { header: 'X-Signature', algorithm: 'sha1', encoding: 'hex' },
];
for (const verify of schemes) {
  test(`the gateway accepts a signature for ${JSON.stringify(verify)}`, () => {
    const headers = signatureHeaders(verify, SECRET, BODY, NOW);
    const proof = readProof(verify, (name) => headers[name], NOW);
    assert.ok('isMadeWith' in proof, JSON.stringify(proof));
    assert.equal(proof.isMadeWith(SECRET, BODY), true);
    assert.equal(proof.isMadeWith(SECRET, Buffer.from('{}')), false);
  });
}

test('a bearer is the secret itself', () => {
  assert.deepEqual(signatureHeaders('bearer', 'abc', BODY, NOW), { authorization: 'Bearer abc' });
});
