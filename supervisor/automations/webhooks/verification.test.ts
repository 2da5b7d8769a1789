import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { HmacVerify } from '../../../protocol/automations/automation.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isSecret, type Proof, readProof, type SignedVerify } from './verification.ts';

type Sent = Record<string, string>;
type Vector = { verify: SignedVerify; secret: string; body: string; headers: Sent; signature: string; seconds: number };

/** The example of GitHub's documentation, "Validating webhook deliveries". */
const GITHUB: Vector = {
  verify: 'github',
  secret: "It's a Secret to Everybody",
  body: 'Hello, World!',
  headers: { 'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17' },
  signature: 'x-hub-signature-256',
  seconds: 1_790_000_000,
};
/** The example of Slack's documentation, "Verifying requests from Slack". */
const SLACK: Vector = {
  verify: 'slack',
  secret: '8f742231b10e8888abcd99yyyzzz85a5',
  body: 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
  headers: {
    'x-slack-request-timestamp': '1531420618',
    'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
  },
  signature: 'x-slack-signature',
  seconds: 1_531_420_618,
};
/** The event that Stripe's libraries are tested with; its documentation has a header of this form, without the secret. */
const STRIPE_EVENT = {
  id: 'evt_123',
  object: 'event',
  account: 'acct_123',
  api_version: '2017-05-25',
  created: 1533204620,
  data: {
    object: {
      id: 'ii_123',
      object: 'invoiceitem',
      amount: 1000,
      currency: 'usd',
      customer: 'cus_123',
      date: 1533204620,
      description: 'Test Invoice Item',
      discountable: false,
      invoice: 'in_123',
      livemode: false,
      metadata: {},
      period: { start: 1533204620, end: 1533204620 },
      plan: null,
      proration: false,
      quantity: null,
      subscription: null,
    },
  },
  livemode: false,
  pending_webhooks: 1,
  request: { id: 'req_123', idempotency_key: 'idempotency-key-123' },
  type: 'invoiceitem.created',
};
const STRIPE_SIGNATURE = 'f0bdba6d4eacbd8ad8a3bbadd7248e633ec1477f7899c124c51b39405fa36613';
const STRIPE: Vector = {
  verify: 'stripe',
  secret: 'webhook_secret',
  body: `${JSON.stringify(STRIPE_EVENT, null, 2)}\n`,
  headers: {
    'stripe-signature': `t=1533204620,v1=${STRIPE_SIGNATURE},v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef`,
  },
  signature: 'stripe-signature',
  seconds: 1_533_204_620,
};
/** The vector of the standardwebhooks package. */
const STANDARD: Vector = {
  verify: 'standard',
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  body: '{"test": 2432232314}',
  headers: {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
  signature: 'webhook-signature',
  seconds: 1_614_265_330,
};

function read({ verify, headers, seconds }: Vector, offsetMs = 0): Proof | { fault: string } {
  return readProof(verify, (name) => headers[name], seconds * 1000 + offsetMs);
}

/** True or false once the signature was checked; else what is wrong with the headers. */
function check(vector: Vector, offsetMs = 0): boolean | string {
  const proof = read(vector, offsetMs);
  return 'fault' in proof ? proof.fault : proof.isMadeWith(vector.secret, Buffer.from(vector.body));
}

for (const vector of [GITHUB, SLACK, STRIPE, STANDARD]) {
  test(`${vector.verify}: the documented example verifies, and with any byte of its body or secret changed it does not`, () => {
    assert.equal(check(vector), true);
    const proof = read(vector) as Proof;
    const bytes = Buffer.from(vector.body);
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 1;
      assert.equal(proof.isMadeWith(vector.secret, changed), false, `byte ${at} of the body`);
    }
    for (const body of ['', `${vector.body} `, vector.body.slice(1), vector.body.slice(0, -1)])
      assert.equal(proof.isMadeWith(vector.secret, Buffer.from(body)), false);
    for (const secret of ['', 'x', `${vector.secret}BBBB`, vector.secret.slice(0, -2)])
      assert.equal(proof.isMadeWith(secret, bytes), false, secret);
  });

  test(`${vector.verify}: no character of the signature may be another one`, () => {
    const value = vector.headers[vector.signature] as string;
    // Of those of Stripe, one is of another version, and not looked at.
    const end = vector.verify === 'stripe' ? value.indexOf(',v0') : value.length;
    for (let at = 0; at < end; at++) {
      const other = value[at] === 'b' ? 'c' : 'b';
      const changed = `${value.slice(0, at)}${other}${value.slice(at + 1)}`;
      assert.notEqual(check({ ...vector, headers: { ...vector.headers, [vector.signature]: changed } }), true, changed);
    }
  });

  test(`${vector.verify}: each header is needed`, () => {
    for (const name of Object.keys(vector.headers)) {
      const { [name]: _, ...rest } = vector.headers;
      assert.match(String(check({ ...vector, headers: rest })), /it needs the header/, name);
    }
  });
}

for (const vector of [SLACK, STRIPE, STANDARD]) {
  test(`${vector.verify}: a time is good five minutes both ways`, () => {
    for (const sign of [1, -1]) {
      assert.equal(check(vector, sign * LIMITS.webhookToleranceMs), true);
      assert.match(String(check(vector, sign * (LIMITS.webhookToleranceMs + 1))), /more than 5 minutes off/);
    }
  });

  test(`${vector.verify}: another time than the signed one does not verify`, () => {
    const [name, value] = Object.entries(vector.headers).find(([, text]) => text.includes(String(vector.seconds))) as [
      string,
      string,
    ];
    const changed = value.replace(String(vector.seconds), String(vector.seconds + 1));
    assert.equal(check({ ...vector, headers: { ...vector.headers, [name]: changed } }), false);
  });
}

for (const [vector, name, value] of [
  [GITHUB, 'x-hub-signature-256', ''],
  [GITHUB, 'x-hub-signature-256', GITHUB.headers['x-hub-signature-256']?.slice(7)],
  [GITHUB, 'x-hub-signature-256', GITHUB.headers['x-hub-signature-256']?.slice(0, -2)],
  [GITHUB, 'x-hub-signature-256', `${GITHUB.headers['x-hub-signature-256']}00`],
  [GITHUB, 'x-hub-signature-256', 'sha1=7d38cdd689735b008b3c702edd92eea23791c5f6'],
  [SLACK, 'x-slack-signature', `v1=${'a'.repeat(64)}`],
  [SLACK, 'x-slack-request-timestamp', 'now'],
  [SLACK, 'x-slack-request-timestamp', '01531420618'],
  [SLACK, 'x-slack-request-timestamp', '9'.repeat(400)],
  [STRIPE, 'stripe-signature', `v1=${STRIPE_SIGNATURE}`],
  [STRIPE, 'stripe-signature', 't=1533204620'],
  [STRIPE, 'stripe-signature', `t=1533204620,v0=${STRIPE_SIGNATURE}`],
  [STRIPE, 'stripe-signature', `t=1533204620,t=1533204620,v1=${STRIPE_SIGNATURE}`],
  [STRIPE, 'stripe-signature', `t=1533204620.5,v1=${STRIPE_SIGNATURE}`],
  [STRIPE, 'stripe-signature', ','],
] as const) {
  test(`${vector.verify}: ${name}: ${value?.slice(0, 40)} is refused before the body is read`, () => {
    assert.equal(typeof check({ ...vector, headers: { ...vector.headers, [name]: value ?? '' } }), 'string');
  });
}

test('stripe: one of several signatures is enough, with spaces or without', () => {
  const wrong = `v1=${'0'.repeat(64)}`;
  for (const header of [
    `t=1533204620,${wrong},v1=${STRIPE_SIGNATURE}`,
    `t=1533204620, v1=${STRIPE_SIGNATURE}, ${wrong}`,
  ])
    assert.equal(check({ ...STRIPE, headers: { 'stripe-signature': header } }), true, header);
  assert.equal(check({ ...STRIPE, headers: { 'stripe-signature': `t=1533204620,${wrong},${wrong}` } }), false);
});

test('standard: the prefix of the secret may be left out, and an empty key matches no signature', () => {
  assert.equal(check({ ...STANDARD, secret: STANDARD.secret.slice(6) }), true);
  const signature = createHmac('sha256', '').update(`a.${STANDARD.seconds}.{}`).digest('base64');
  const headers = { ...STANDARD.headers, 'webhook-id': 'a', 'webhook-signature': `v1,${signature}` };
  for (const secret of ['whsec_', '!', '']) assert.equal(check({ ...STANDARD, secret, headers, body: '{}' }), false);
  const key = 'whsec_c2VjcmV0c2VjcmV0';
  const signed = new Webhook(key).sign('a', new Date(STANDARD.seconds * 1000), 'ä');
  assert.equal(
    check({ ...STANDARD, secret: key, headers: { ...headers, 'webhook-signature': signed }, body: 'ä' }),
    true,
  );
});

for (const algorithm of ['sha1', 'sha256', 'sha512'] as const) {
  for (const encoding of ['hex', 'base64'] as const) {
    test(`an HMAC with ${algorithm} in ${encoding}, with a prefix and without`, () => {
      for (const prefix of [undefined, 'HMAC ']) {
        const verify: HmacVerify = { header: 'X-Mac', algorithm, encoding, ...(prefix && { prefix }) };
        const signature = createHmac(algorithm, 'key').update('body').digest(encoding);
        const vector = { verify, secret: 'key', body: 'body', signature: 'x-mac', seconds: 0 };
        const sent = (value: string) => check({ ...vector, headers: { 'x-mac': value } });
        assert.equal(sent(`${prefix ?? ''}${signature}`), true);
        assert.equal(sent(`${prefix ?? ''}${createHmac(algorithm, 'other').update('body').digest(encoding)}`), false);
        for (const wrong of ['', 'HMAC', signature.slice(1), `${signature}=`, `x${signature}`, ` ${signature}`])
          assert.notEqual(sent(`${prefix ?? ''}${wrong}`), true, wrong);
        if (prefix !== undefined) assert.match(String(sent(signature)), /must be "HMAC " and an HMAC/);
        if (encoding === 'hex') assert.equal(sent(`${prefix ?? ''}${signature.toUpperCase()}`), true);
      }
    });
  }
}

test('the id of a delivery is the sender’s', () => {
  const idOf = (vector: Vector, input: unknown) => (read(vector) as Proof).deliveryId(input, Buffer.from(vector.body));
  const named = (id: string) => ({ ...GITHUB, headers: { ...GITHUB.headers, 'x-github-delivery': id } });
  assert.equal(idOf(named('72d3162e-cc78-11e3-81ab-4c9367dc0958'), {}), '72d3162e-cc78-11e3-81ab-4c9367dc0958');
  for (const vector of [GITHUB, named(''), named('a b'), named('x'.repeat(256))]) assert.equal(idOf(vector, {}), null);
  assert.equal(idOf(STANDARD, {}), STANDARD.headers['webhook-id']);
  assert.equal(idOf(STRIPE, STRIPE_EVENT), 'evt_123');
  assert.equal(idOf(SLACK, { event_id: 'Ev08MFMKH6' }), 'Ev08MFMKH6');
  const asItIs = createHash('sha256').update(`v0:${SLACK.seconds}:`).update(SLACK.body).digest('hex');
  for (const input of [undefined, null, 'x', {}, { event_id: 5 }, { event_id: 'x'.repeat(256) }])
    assert.equal(idOf(SLACK, input), asItIs);
});

test('a secret that is presented is compared as a whole', () => {
  const hash = createHash('sha256').update('secret').digest('hex');
  assert.equal(isSecret('secret', hash), true);
  for (const value of [undefined, '', 'secre', 'secret ', 'Secret']) assert.equal(isSecret(value, hash), false);
  assert.equal(isSecret('', createHash('sha256').update('').digest('hex').slice(2)), false);
});
