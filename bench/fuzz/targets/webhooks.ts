/** Webhooks: whatever is posted is what the automation gets, or refused; no signature but the right one passes. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { isSignedWith, readWebhookHeaders } from '../../../supervisor/automations/webhooks/standard-webhooks.ts';
import { readProof, type SignedVerify } from '../../../supervisor/automations/webhooks/verification.ts';
import { parseWebhookBody } from '../../../supervisor/automations/webhooks/webhook-input.ts';
import { anyBytes, awkwardText, jsonValue, mutated } from '../arbitraries.ts';
import { refusalOf } from '../oracle.ts';
import { check, type Target } from '../target.ts';

const NOW = Date.UTC(2026, 0, 31);
const KEY = Buffer.alloc(24, 7);
const ID = 'msg_1';
const TIMESTAMP = String(NOW / 1000);
const BODY = Buffer.from('{"a":1}');
const sign = (id: string, timestamp: string, body: Buffer): string =>
  `v1,${createHmac('sha256', KEY).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
const hmac = (before: string, body: Buffer): string =>
  createHmac('sha256', 'secret').update(before).update(body).digest('hex');
const SIGNATURE = sign(ID, TIMESTAMP, BODY);

const text = (sound: string) =>
  fc.oneof(
    fc.constant(sound),
    mutated(fc.constant(Buffer.from(sound)), 2).map((bytes) => bytes.toString('latin1')),
    awkwardText,
  );
const signatures = fc
  .array(fc.oneof(text(SIGNATURE), fc.constantFrom(SIGNATURE, 'v1,', 'v1a,xx', `v1,${'A'.repeat(43)}=`, ',')), {
    maxLength: 4,
  })
  .map((all) => all.join(' '));
const headers = fc.record({
  'webhook-id': fc.option(text(ID), { nil: undefined }),
  'webhook-timestamp': fc.option(text(TIMESTAMP), { nil: undefined }),
  'webhook-signature': fc.option(signatures, { nil: undefined }),
});
const bodies = fc.oneof(
  mutated(fc.constant(BODY)),
  jsonValue.map((value) => Buffer.from(JSON.stringify(value))),
  mutated(jsonValue.map((value) => Buffer.from(JSON.stringify(value)))),
  anyBytes(40),
  fc.integer({ min: 1, max: 32_000 }).map((depth) => Buffer.from('['.repeat(depth) + ']'.repeat(depth))),
);

/** What is signed as it should be, of each service, and the header with the signature. */
const SERVICES: [verify: SignedVerify, header: string, sign: (body: Buffer) => string, rest: Record<string, string>][] =
  [
    ['github', 'x-hub-signature-256', (body) => `sha256=${hmac('', body)}`, {}],
    ['stripe', 'stripe-signature', (body) => `t=${TIMESTAMP},v1=${hmac(`${TIMESTAMP}.`, body)}`, {}],
    [
      'slack',
      'x-slack-signature',
      (body) => `v0=${hmac(`v0:${TIMESTAMP}:`, body)}`,
      { 'x-slack-request-timestamp': TIMESTAMP },
    ],
    [{ header: 'X-Mac', algorithm: 'sha256', encoding: 'hex' }, 'x-mac', (body) => hmac('', body), {}],
  ];

/** `changes` are places of the signature where another character stands; a header that is no signature is refused. */
function judgeService([[verify, name, sign, rest], changes, body, odd]: [
  service: (typeof SERVICES)[number],
  changes: number[],
  body: Buffer,
  odd: string,
]): void {
  const right = sign(body);
  const changed = changes.reduce((text, at) => {
    const place = text.length - 1 - at * 7;
    return `${text.slice(0, place)}${text[place] === '0' ? '1' : '0'}${text.slice(place + 1)}`;
  }, right);
  const proves = (value: string) => {
    const proof = readProof(verify, (header) => (header === name ? value : rest[header]), NOW);
    return !('fault' in proof) && proof.isMadeWith('secret', body);
  };
  assert.equal(proves(changed), changed === right);
  assert.equal(proves(odd), false);
}

function judgeSignature([sent, body]: [headers: Partial<Record<string, string>>, body: Buffer]): void {
  const read = readWebhookHeaders((name) => sent[name], NOW);
  if ('fault' in read) {
    assert.ok(read.fault.length > 0, 'a fault that says nothing');
    return;
  }
  for (const one of read.signatures) assert.equal(one.length, 32);
  const right = sign(read.id, read.timestamp, body);
  assert.equal(isSignedWith(KEY, read, body), (sent['webhook-signature'] ?? '').split(' ').includes(right));
}

async function judgeBody(bytes: Buffer): Promise<void> {
  const refusal = await refusalOf(() => {
    const value = parseWebhookBody(bytes);
    if (bytes.length === 0) assert.equal(value, undefined);
    else if (typeof value !== 'string')
      assert.equal(JSON.stringify(value), JSON.stringify(JSON.parse(bytes.toString())));
    // Text that is no JSON arrives as it was sent; a JSON string as what it says.
    else assert.ok(value === bytes.toString() || value === JSON.parse(bytes.toString()), 'another text than was sent');
  });
  if (refusal !== null) assert.equal(refusal.code, 'BAD_REQUEST');
}

export const webhooks: Target = {
  name: 'webhooks',
  claim: 'A webhook passes on what was posted or refuses it, and takes no signature but the right one.',
  open: () => {
    const signed = fc.tuple(headers, fc.oneof(fc.constant(BODY), bodies));
    const ofServices = fc.tuple(
      fc.constantFrom(...SERVICES),
      fc.array(fc.nat(4), { maxLength: 4 }),
      bodies,
      awkwardText,
    );
    return [
      check('signatures', 100_000, signed, judgeSignature),
      check('signatures of services', 100_000, ofServices, judgeService),
      check('bodies', 100_000, bodies, judgeBody),
    ];
  },
};
