/** What handlers get of webhooks from elsewhere, and what they answer their senders, on both edges (decisions, section 13). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MintedWebhook } from '../protocol/automation.ts';
import { LIMITS } from '../protocol/limits.ts';
import { onEachEdge } from '../testing/edges.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';
import { only, post, push, runOf, runsOf } from '../testing/runs.ts';

const RUN_MS = 2000;
const PENDING = [{ kind: 'webhook', pending: true }];

const refused = (answer: Answer, status: number, code: string) =>
  assert.deepEqual([answer.status, answer.json?.error?.code], [status, code], answer.text);
const hookedOn = async (gateway: TestGateway, id: string, run: string): Promise<MintedWebhook> =>
  only(await push(gateway, id, { automations: { hook: { triggers: PENDING, run } } }));

onEachEdge({}, (gateway) => {
  const hooked = (id: string, run: string): Promise<MintedWebhook> => hookedOn(gateway, id, run);
  test('the handler gets the request, and its answer is that of the webhook', async () => {
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
