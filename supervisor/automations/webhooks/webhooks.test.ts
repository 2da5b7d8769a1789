/** Webhooks of senders that have a secret of the app, over real sockets: whom they let in, what repeats, what owners are told. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import type { WebhookVerify } from '../../../protocol/automations/automation.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { serveExchanges } from '../../../testing/exchange-server.ts';
import { ScriptedCatalog, ScriptedFires, verifiedBy } from '../../../testing/scripted-webhooks.ts';
import { answerError } from '../../http/answers.ts';
import { Webhooks } from './webhooks.ts';

const SLUG = 'a'.repeat(24);
const NOW = 1_790_000_000_000;
const SECONDS = NOW / 1000;
const SECRET = 'c2VjcmV0c2VjcmV0c2VjcmV0';
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

type Headers = Record<string, string>;

/** One webhook, verified in this way, with the app's secret `KEY`, which is set. */
async function serve(t: TestContext, verify: WebhookVerify) {
  const clock = { now: NOW };
  const catalog = new ScriptedCatalog();
  const fires = new ScriptedFires();
  const secrets = new Map([['app KEY', SECRET]]);
  const logged: Record<string, unknown>[] = [];
  const log = pino({ level: 'silent' });
  const webhooks = new Webhooks({
    catalog,
    fires,
    secrets: {
      get: (app, name) => {
        if (name === 'TORN') throw new SvcError('SECRET_UNREADABLE', 'The secret "TORN" cannot be read.');
        return secrets.get(`${app} ${name}`);
      },
    },
    appLog: (_app, line) => logged.push(JSON.parse(line)),
    keyOf: async () => null,
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  catalog.set(SLUG, verifiedBy(SLUG, verify, 'KEY'));
  const port = await serveExchanges(t, (exchange) => {
    webhooks.receive(exchange, SLUG).catch((error: unknown) => answerError(exchange, error, log));
  });
  const post = async (headers: Headers, body: string, query = '') => {
    const answer = await fetch(`http://127.0.0.1:${port}/_svc-hook/${SLUG}${query}`, { method: 'POST', headers, body });
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.startsWith('application/json');
    return { status: answer.status, headers: answer.headers, text, json: isJson ? JSON.parse(text) : null };
  };
  return { clock, catalog, fires, secrets, logged, post };
}

const mac = (text: string, secret = SECRET, algorithm = 'sha256') => createHmac(algorithm, secret).update(text);

/** A genuine request of each kind of sender, made at this time. */
const SENDERS: [
  name: string,
  verify: WebhookVerify,
  sign: (body: string, seconds: number, secret?: string) => Headers,
][] = [
  ['bearer', 'bearer', (_body, _seconds, secret = SECRET) => ({ authorization: `Bearer ${secret}` })],
  [
    'standard',
    'standard',
    (body, seconds, secret = SECRET) => ({
      'webhook-id': `msg-${body.length}`,
      'webhook-timestamp': String(seconds),
      'webhook-signature': new Webhook(secret).sign(`msg-${body.length}`, new Date(seconds * 1000), body),
    }),
  ],
  [
    'github',
    'github',
    (body, _seconds, secret) => ({
      'x-github-delivery': `delivery-${body.length}`,
      'x-hub-signature-256': `sha256=${mac(body, secret).digest('hex')}`,
    }),
  ],
  [
    'stripe',
    'stripe',
    (body, seconds, secret) => ({
      'stripe-signature': `t=${seconds},v1=${mac(`${seconds}.${body}`, secret).digest('hex')}`,
    }),
  ],
  [
    'slack',
    'slack',
    (body, seconds, secret) => ({
      'x-slack-request-timestamp': String(seconds),
      'x-slack-signature': `v0=${mac(`v0:${seconds}:${body}`, secret).digest('hex')}`,
    }),
  ],
  [
    'a header of their own',
    { header: 'X-Mac', algorithm: 'sha512', encoding: 'base64', prefix: 'HMAC ' },
    (body, _seconds, secret) => ({ 'x-mac': `HMAC ${mac(body, secret, 'sha512').digest('base64')}` }),
  ],
];
const BODY = '{"id":"evt_1","event_id":"Ev1"}';
const OTHER = Buffer.from('another secret!!').toString('base64');

for (const [name, verify, sign] of SENDERS) {
  test(`${name}: a sender with the secret is admitted; a wrong, missing or unset secret gets the same answer`, async (t) => {
    const { post, fires, secrets, logged } = await serve(t, verify);
    assert.equal((await post(sign(BODY, SECONDS), BODY)).status, 200);
    assert.deepEqual(fires.runs[0]?.request.input, JSON.parse(BODY));
    const wrong = await post(sign(BODY, SECONDS, OTHER), BODY);
    const none = await post({}, BODY);
    for (const { status, json, headers } of [wrong, none]) {
      assert.deepEqual([status, json.error.code], [401, 'UNAUTHORIZED']);
      assert.ok(headers.get('www-authenticate'));
    }
    if (verify !== 'bearer') assert.equal((await post(sign(BODY, SECONDS), `${BODY} `)).status, 401);
    assert.equal(logged.length, 0);
    secrets.clear();
    const unset = await post(sign(BODY, SECONDS), BODY);
    if (verify !== 'standard') assert.equal((await post(sign(BODY, SECONDS, ''), BODY)).status, 401, 'nor with none');
    const entries = (headers: globalThis.Headers) => [...headers].filter(([header]) => header !== 'date');
    assert.deepEqual([unset.status, unset.text, entries(unset.headers)], [401, wrong.text, entries(wrong.headers)]);
    assert.equal(fires.runs.length, 1);
    await post(sign(BODY, SECONDS), BODY);
    assert.equal(logged.length, 1, 'the owner is told once');
    assert.match(
      String(logged[0]?.msg),
      /refuses every request: "app" has no secret "KEY"\. Set it with: svc secret set app KEY/,
    );
    assert.deepEqual([logged[0]?.level, logged[0]?.app, logged[0]?.tool], ['error', 'app', SLUG]);
    secrets.set('app KEY', OTHER);
    const next = '{"id":"evt_2","event_id":"Ev2","n":2}';
    assert.equal((await post(sign(next, SECONDS, OTHER), next)).status, 200, 'a secret counts as soon as it is set');
    assert.equal((await post(sign(next, SECONDS), next)).status, 401);
  });
}

test('a secret that is presented may have any characters', async (t) => {
  const { post, secrets } = await serve(t, 'bearer');
  secrets.set('app KEY', 'p@ss word, {1}');
  for (const headers of [{ authorization: 'Bearer p@ss word, {1}' }, { 'x-host-webhook-secret': 'p@ss word, {1}' }])
    assert.equal((await post(headers, '')).status, 200);
  assert.equal((await post({ authorization: 'Bearer p@ss' }, '')).status, 401);
});

test('a secret that cannot be read is no secret, and the log says why', async (t) => {
  const { post, catalog, logged } = await serve(t, 'github');
  catalog.set(SLUG, verifiedBy(SLUG, 'github', 'TORN'));
  const { status, text } = await post({ 'x-hub-signature-256': `sha256=${mac('x').digest('hex')}` }, 'x');
  assert.equal(status, 401);
  assert.doesNotMatch(text, /TORN/);
  assert.match(String(logged[0]?.msg), /The secret "TORN" cannot be read/);
});

for (const [name, verify, sign] of SENDERS.filter(([, verify]) => typeof verify === 'string' && verify !== 'bearer')) {
  test(`${name}: a delivery that comes again is confirmed and does not run again, for as long as its sender may repeat it`, async (t) => {
    const { post, fires, clock } = await serve(t, verify);
    fires.outcome = { state: 'error', error: { code: 'HANDLER_ERROR', message: 'No.' } };
    assert.equal((await post(sign(BODY, SECONDS), BODY)).status, 500);
    fires.outcome = {};
    assert.equal((await post(sign(BODY, SECONDS), BODY)).status, 200, 'what failed may come again');
    for (const later of [0, 60]) {
      clock.now = NOW + later * 1000;
      const again = await post(sign(BODY, SECONDS + later), BODY, later === 0 ? '' : '?async=1');
      assert.deepEqual([again.status, again.json], [200, { ok: true, duplicate: true }]);
    }
    assert.equal(fires.runs.length, 2);
    const [forgetting, claiming] = fires.runs[1]?.statements ?? [];
    const [forgotten] = Object.values(forgetting?.[1] ?? {});
    const at = Object.values(claiming?.[1] ?? {})[3];
    assert.equal(Number(at) - Number(forgotten), LIMITS.webhookDeliveryMs, 'its id goes when it is so old');
    const next = '{"id":"evt_22","event_id":"Ev22"}';
    assert.equal((await post(sign(next, SECONDS), next)).status, 200);
  });
}

test('deliveries without an id run each time; a command of Slack runs once as it is', async (t) => {
  const [, , sign] = SENDERS[5] as (typeof SENDERS)[0];
  const custom = await serve(t, SENDERS[5]?.[1] ?? 'bearer');
  for (let n = 1; n <= 2; n++) assert.equal((await custom.post(sign(BODY, SECONDS), BODY)).json.runId, `run-${n}`);
  const github = await serve(t, 'github');
  const headers = { 'x-hub-signature-256': `sha256=${mac('x').digest('hex')}` };
  for (let n = 1; n <= 2; n++) assert.equal((await github.post(headers, 'x')).json.runId, `run-${n}`);
  const slack = await serve(t, 'slack');
  const [, , signSlack] = SENDERS[4] as (typeof SENDERS)[0];
  const command = 'command=%2Fdeploy&text=now';
  const sent = { ...signSlack(command, SECONDS), ...FORM };
  assert.equal((await slack.post(sent, command)).json.runId, 'run-1');
  assert.equal((await slack.post(sent, command)).json.duplicate, true, 'somebody sends it again');
  const typedAgain = { ...signSlack(command, SECONDS + 1), ...FORM };
  assert.equal((await slack.post(typedAgain, command)).json.runId, 'run-2');
  assert.deepEqual(slack.fires.runs[0]?.request.input, { command: '/deploy', text: 'now' });
});

test('the challenge of Slack is answered without a run, also while the automation is off, only for Slack', async (t) => {
  const { post, fires, catalog } = await serve(t, 'slack');
  const body = '{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595","type":"url_verification"}';
  const [, , sign] = SENDERS[4] as (typeof SENDERS)[0];
  for (const enabled of [true, false]) {
    catalog.set(SLUG, verifiedBy(SLUG, 'slack', 'KEY', enabled));
    const { status, text, headers } = await post(sign(body, SECONDS), body);
    assert.deepEqual([status, text], [200, '3eZbrw1aBm2rZgRNFdxV2595']);
    assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8');
  }
  assert.equal((await post(sign(body, SECONDS, OTHER), body)).status, 401);
  assert.deepEqual((await post(sign(BODY, SECONDS), BODY)).json, { ok: false, skipped: 'automation disabled' });
  assert.equal(fires.runs.length, 0);
});

test('after 30 forgeries more are refused by count, whether or not the secret is set', async (t) => {
  const { post, secrets } = await serve(t, 'github');
  const forged = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
  for (let n = 0; n < LIMITS.webhookFailures; n++) {
    if (n === 10) secrets.clear();
    assert.equal((await post(forged, 'x')).status, 401);
  }
  assert.equal((await post(forged, 'x')).status, 429);
});
