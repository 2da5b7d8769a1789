/**
 * What handlers get from webhooks of services, and what they answer to the senders, on both edges (specification,
 * "Messages of webhooks" and "Signed webhooks").
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { LIMITS } from '../protocol/limits.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';
import { automationRow, only, post, push, runOf, runsOf } from '../testing/runs.ts';

const RUN_MS = 2000;
const SECRET = 'a-secret-of-both';
const PENDING = [{ kind: 'webhook', pending: true }];

const refused = (answer: Answer, status: number, code: string) =>
  assert.deepEqual([answer.status, answer.json?.error?.code], [status, code], answer.text);
const hookedOn = async (gateway: TestGateway, id: string, run: string): Promise<MintedWebhook> =>
  only(await push(gateway, id, { automations: { hook: { triggers: PENDING, run } } }));

onEachEdge({}, (gateway) => {
  const hooked = (id: string, run: string): Promise<MintedWebhook> => hookedOn(gateway, id, run);
  test('the handler gets the request, and its response is the answer of the webhook', async () => {
    const hook = await hooked(
      'answers',
      `async ({ input, request }) => ({ response: input === undefined ? { status: 204 } : {
         status: 418, headers: { 'X-Tea': request.headers['x-tea'] }, body: { ...request, headers: undefined, input } } })`,
    );
    const headers = { 'x-tea': 'oolong', 'content-type': 'application/json; charset=utf-8' };
    const answer = await post(gateway, hook, '{ "a": 1 }', { headers });
    assert.deepEqual([answer.status, answer.headers['x-tea']], [418, 'oolong']);
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(answer.json, { contentType: 'application/json', rawBody: '{ "a": 1 }', input: { a: 1 } });
    const [run] = await runsOf(gateway, 'answers/hook');
    assert.deepEqual([run?.state, run?.input, run?.output], ['ok', { a: 1 }, null], 'the run went well');
    const empty = await post(gateway, hook);
    assert.deepEqual([empty.status, empty.text], [204, '']);
    const { status, json } = await gateway.call('POST', '/svc/_automations/answers/hook/run?wait=1', { body: {} });
    assert.deepEqual([status, json.state, json.response], [200, 'ok', undefined], 'by hand there is no sender');
  });

  test('64 KiB are sent, one byte more, another status or another header fail the run', async () => {
    const hook = await hooked(
      'bounds',
      'async ({ input }) => ({ response: { ...input, body: "x".repeat(input.length) } })',
    );
    const most = LIMITS.webhookResponseBytes;
    const answer = await post(gateway, hook, { status: 499, length: most });
    assert.deepEqual([answer.status, answer.text.length], [499, most]);
    for (const [input, path] of [
      [{ status: 200, length: most + 1 }, 'response.body'],
      [{ status: 500, length: 1 }, 'response.status'],
      [{ status: 100, length: 1 }, 'response.status'],
      [{ length: 1 }, 'response.status'],
      [{ status: 200, length: 1, headers: { 'content-length': '0' } }, 'response.headers.content-length'],
      [{ status: 200, length: 1, headers: { a: 'b\r\n\r\nc' } }, 'response.headers.a'],
    ] as const) {
      const failed = await post(gateway, hook, input);
      refused(failed, 500, 'HANDLER_ERROR');
      assert.equal(failed.json.error.path, path);
      assert.equal((await runOf(gateway, failed.json.runId)).state, 'error');
    }
  });

  /** An automation that is verified in this way with the app's secret `KEY`, which is set; where to post. */
  const verified = async (id: string, verify: string, run: string): Promise<string> => {
    const triggers = [{ kind: 'webhook', pending: true, verify, secret: 'KEY' }];
    const [webhook, ...others] = await push(gateway, id, { automations: { hook: { triggers, run } } });
    assert.deepEqual([webhook && 'secretName' in webhook && webhook.secretName, others], ['KEY', []]);
    assert.ok(!('secret' in (webhook ?? {})), 'no secret is generated');
    await setKey(id, SECRET);
    return `/_svc-hook/${webhook?.webhookId}`;
  };
  const setKey = async (id: string, value: string) => {
    const answer = await gateway.call('PUT', `/svc/_apps/${id}/secrets/KEY`, { body: { value } });
    assert.equal(answer.status, 200, answer.text);
  };
  const send = (path: string, headers: Record<string, string>, body: string) =>
    gateway.call('POST', path, { token: null, headers, body });
  const mac = (text: string) => createHmac('sha256', SECRET).update(text).digest('hex');

  test('GitHub: a delivery runs once, also over a restart; a forged one does not', async () => {
    const path = await verified(
      'github',
      'github',
      'async ({ input, request }) => ({ output: { input, event: request.headers["x-github-event"] } })',
    );
    const body = JSON.stringify({ zen: 'Keep it logically awesome.', hook_id: 1 });
    const headers = {
      'x-github-event': 'ping',
      'x-github-delivery': 'd-1',
      'x-hub-signature-256': `sha256=${mac(body)}`,
    };
    const answer = await send(path, headers, body);
    assert.equal(answer.status, 200, answer.text);
    const { output } = await runOf(gateway, answer.json.runId);
    assert.deepEqual(output, { input: JSON.parse(body), event: 'ping' });
    refused(await send(path, headers, body.replace('1', '2')), 401, 'UNAUTHORIZED');
    await gateway.kill();
    await gateway.start();
    assert.deepEqual((await send(path, headers, body)).json, { ok: true, duplicate: true });
    const form = `payload=${encodeURIComponent(body)}`;
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const asForm = { ...headers, ...type, 'x-github-delivery': 'd-2', 'x-hub-signature-256': `sha256=${mac(form)}` };
    const { input } = await runOf(gateway, (await send(path, asForm, form)).json.runId);
    assert.deepEqual(input, JSON.parse(body));
    assert.equal((await runsOf(gateway, 'github/hook')).length, 2);
  });

  test('Stripe: an event that failed or was refused may come again, an accepted one is confirmed', async () => {
    const path = await verified(
      'stripe',
      'stripe',
      `async ({ input, ctx }) => {
         const tries = ((await ctx.state.get('tries')) ?? 0) + 1;
         await ctx.state.set('tries', tries);
         if (tries === 1) throw new Error('not yet');
         return { response: { status: tries === 2 ? 400 : 200, body: String(tries) } };
       }`,
    );
    const body = JSON.stringify({ id: 'evt_123', object: 'event' });
    const sign = (seconds: number) => ({ 'stripe-signature': `t=${seconds},v1=${mac(`${seconds}.${body}`)}` });
    const now = Math.floor(Date.now() / 1000);
    refused(await send(path, sign(now), body), 500, 'HANDLER_ERROR');
    assert.equal((await send(path, sign(now), body)).status, 400);
    assert.deepEqual([(await send(path, sign(now), body)).text], ['3']);
    assert.deepEqual((await send(path, sign(now + 1), body)).json, { ok: true, duplicate: true });
    refused(await send(path, sign(now - 400), body), 401, 'UNAUTHORIZED');
  });

  test('Slack: the challenge is answered, and a command gets the answer of its handler', async () => {
    const path = await verified(
      'slack',
      'slack',
      'async ({ input }) => ({ response: { status: 200, body: { text: input.text } } })',
    );
    const seconds = Math.floor(Date.now() / 1000);
    const sign = (body: string) => ({
      'x-slack-request-timestamp': String(seconds),
      'x-slack-signature': `v0=${mac(`v0:${seconds}:${body}`)}`,
    });
    const challenge = JSON.stringify({ type: 'url_verification', token: 'x', challenge: '3eZbrw1aBm2r' });
    assert.equal((await send(path, sign(challenge), challenge)).text, '3eZbrw1aBm2r');
    refused(await send(path, {}, challenge), 401, 'UNAUTHORIZED');
    const command = 'command=%2Fweather&text=94070+now';
    const answer = await send(path, { ...sign(command), 'content-type': 'application/x-www-form-urlencoded' }, command);
    assert.deepEqual([answer.status, answer.json], [200, { text: '94070 now' }]);
    assert.equal((await runsOf(gateway, 'slack/hook')).length, 1);
  });

  test('without the secret every request is refused, senders learn nothing, and the owner learns what to do', async () => {
    const path = await verified(
      'unset',
      'bearer',
      'async ({ request }) => ({ response: { status: 200, body: request.headers } })',
    );
    const bearer = { authorization: `Bearer ${SECRET}` };
    const welcome = await send(path, bearer, '');
    assert.equal(welcome.status, 200);
    assert.doesNotMatch(welcome.text, /authorization/);
    const wrong = await send(path, { authorization: 'Bearer wrong' }, '');
    assert.equal((await gateway.call('DELETE', '/svc/_apps/unset/secrets/KEY')).status, 200);
    const unset = await send(path, bearer, '');
    refused(unset, 401, 'UNAUTHORIZED');
    assert.equal(unset.text, wrong.text);
    const row = await automationRow(gateway, 'unset/hook');
    assert.match(row.triggers[0].problem, /has no secret "KEY"\. Set it with: svc secret set unset KEY/);
    assert.equal(row.triggers[0].url, `${gateway.url}${path}`);
    await eventually(async () =>
      /refuses every request/.test((await gateway.call('GET', '/svc/_logs?app=unset')).text),
    );
    await setKey('unset', SECRET);
    assert.equal((await send(path, bearer, '')).status, 200);
    assert.equal((await automationRow(gateway, 'unset/hook')).triggers[0].problem, undefined);
  });

  test('a handler that throws is 500 with the run', async () => {
    const hook = await hooked('fails', `async () => { throw new Error('no tea'); }`);
    const thrown = await post(gateway, hook);
    refused(thrown, 500, 'HANDLER_ERROR');
    assert.equal(thrown.json.error.message, 'no tea');
    assert.equal((await runOf(gateway, thrown.json.runId)).state, 'error');
  });
});

test('a handler that does not end in its time is 500 with the run', async (t) => {
  const gateway = await startGateway(t, { config: { automationTimeoutMs: RUN_MS } });
  const late = await post(gateway, await hookedOn(gateway, 'late', 'async () => { await new Promise(() => {}); }'));
  refused(late, 500, 'HANDLER_ERROR');
  assert.equal((await runOf(gateway, late.json.runId)).state, 'error');
});
