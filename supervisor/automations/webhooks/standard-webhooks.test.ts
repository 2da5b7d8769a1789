import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { LIMITS } from '../../../protocol/limits.ts';
import { isSignedWith, readWebhookHeaders, webhookKey } from './standard-webhooks.ts';

/** The vector of the package's own tests; what it signs to was computed with openssl too. */
const VECTOR = {
  key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  seconds: 1614265330,
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};
const NOW = VECTOR.seconds * 1000;
const KEY = webhookKey(VECTOR.key) as Buffer;

type Sent = Record<string, string | undefined>;

const good: Sent = {
  'webhook-id': VECTOR.id,
  'webhook-timestamp': String(VECTOR.seconds),
  'webhook-signature': VECTOR.signature,
};

/** True or false once the signature was checked; else the first words of what is wrong with the headers. */
function check(sent: Sent, body: string | Buffer = VECTOR.body, now = NOW, key = KEY): boolean | string {
  const headers = readWebhookHeaders((name) => sent[name], now);
  return 'fault' in headers ? headers.fault : isSignedWith(key, headers, Buffer.from(body));
}

test('the vector holds, here and in the package', () => {
  const signed = new Webhook(VECTOR.key).sign(VECTOR.id, new Date(NOW), VECTOR.body);
  assert.equal(signed, VECTOR.signature);
  assert.equal(check(good), true);
});

test('signatures of the package are accepted, for any key, id, time and body', () => {
  for (let i = 0; i < 200; i++) {
    const text = `whsec_${randomBytes(24 + (i % 41)).toString('base64')}`;
    const id = `msg_${randomBytes(8).toString('base64url')}`;
    const seconds = VECTOR.seconds + i;
    const body = ['', 'ä – 😀', '{}', randomBytes(i).toString('hex')][i % 4] as string;
    const signature = new Webhook(text).sign(id, new Date(seconds * 1000), body);
    const sent = { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signature };
    assert.equal(check(sent, body, NOW, webhookKey(text) as Buffer), true);
    assert.equal(check(sent, `${body} `, NOW, webhookKey(text) as Buffer), false);
    assert.equal(check(sent, body), false);
  }
});

test('one of several signatures is enough; other versions are passed over', () => {
  const wrong = `v1,${Buffer.alloc(32).toString('base64')}`;
  for (const [signatures, accepted] of [
    [`${wrong} ${VECTOR.signature}`, true],
    [`${VECTOR.signature} ${wrong}`, true],
    [`v1a,asymmetric v2,${VECTOR.signature.slice(3)} ${VECTOR.signature}`, true],
    [`${wrong} ${wrong}`, false],
  ] as const) {
    assert.equal(check({ ...good, 'webhook-signature': signatures }), accepted, signatures);
  }
});

test('every part is signed', () => {
  assert.equal(check({ ...good, 'webhook-id': `${VECTOR.id}x` }), false);
  assert.equal(check({ ...good, 'webhook-timestamp': String(VECTOR.seconds + 1) }), false);
  assert.equal(check(good, '{"test": 2432232315}'), false);
  assert.equal(check(good, ''), false);
  // A byte that is no character is signed as it is, and not as its replacement.
  assert.equal(check(good, Buffer.concat([Buffer.from(VECTOR.body), Buffer.from([0xff])])), false);
});

test('a time is good five minutes both ways', () => {
  for (const [offset, accepted] of [
    [0, true],
    [LIMITS.webhookToleranceMs, true],
    [-LIMITS.webhookToleranceMs, true],
    [LIMITS.webhookToleranceMs + 1, false],
    [-LIMITS.webhookToleranceMs - 1, false],
  ] as const) {
    const outcome = check(good, VECTOR.body, NOW + offset);
    if (accepted) assert.equal(outcome, true, String(offset));
    else assert.match(String(outcome), /more than 5 minutes off/);
  }
});

for (const [name, value, fault] of [
  ['webhook-id', undefined, /needs the headers/],
  ['webhook-timestamp', undefined, /needs the headers/],
  ['webhook-signature', undefined, /needs the headers/],
  ['webhook-id', '', /"webhook-id"/],
  ['webhook-id', 'a b', /"webhook-id"/],
  ['webhook-id', 'x'.repeat(256), /"webhook-id"/],
  ['webhook-timestamp', '', /whole seconds/],
  ['webhook-timestamp', 'now', /whole seconds/],
  ['webhook-timestamp', `0${VECTOR.seconds}`, /whole seconds/],
  ['webhook-timestamp', `${VECTOR.seconds}.0`, /whole seconds/],
  ['webhook-timestamp', '9'.repeat(400), /whole seconds/],
  ['webhook-signature', '', /no signature of version v1/],
  ['webhook-signature', VECTOR.signature.slice(3), /no signature of version v1/],
  ['webhook-signature', VECTOR.signature.slice(0, -1), /no signature of version v1/],
  ['webhook-signature', VECTOR.signature.replace('v1', 'v1a'), /no signature of version v1/],
] as const) {
  test(`${name}: ${value?.slice(0, 20)} is refused before the body is read`, () => {
    assert.match(String(check({ ...good, [name]: value })), fault);
  });
}

test('a full stop in an id cannot move the border between id, time and body', () => {
  // The same signed characters, read as another message: id "msg.1614265330", body "rest".
  const body = `${VECTOR.seconds}.rest`;
  const signature = new Webhook(VECTOR.key).sign('msg', new Date(NOW), body);
  const sent = { 'webhook-timestamp': String(VECTOR.seconds), 'webhook-signature': signature };
  assert.equal(check({ ...sent, 'webhook-id': 'msg' }, body), true);
  assert.match(String(check({ ...sent, 'webhook-id': `msg.${VECTOR.seconds}` }, 'rest')), /without a full stop/);
});

test('a key has its prefix and some bytes', () => {
  assert.equal(webhookKey(VECTOR.key)?.length, 24);
  for (const text of ['', 'whsec_', 'whsec_!', VECTOR.key.slice(6)]) assert.equal(webhookKey(text), null, text);
});
