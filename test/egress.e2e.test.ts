// The policy for `ctx.fetch` in the real daemon: by its configuration, by manifests, in automations and drafts, and as
// shown to people.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root, startGateway, type TestGateway } from '../testing/gateway.ts';

const FETCH = `async ({ ctx, input }) => {
  const answer = await ctx.fetch(input.url).catch((error) => ({ status: error.code, text: () => error.message }));
  return { summary: String(answer.status), status: 200, body: { got: answer.status, text: await answer.text() } };
}`;

const fetching = (network?: unknown, id = 'fetching') =>
  appOf(id, {
    manifest: network === undefined ? {} : { network },
    actions: { get: FETCH },
    automations: { get: FETCH },
  });

/** A server that an app may want to reach; answers its port. */
async function listen(t: TestContext): Promise<number> {
  const server = createServer((_, response) => response.end('reached')).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return (server.address() as AddressInfo).port;
}

async function got(answer: Promise<Answer>): Promise<unknown> {
  const { status, json, text } = await answer;
  assert.equal(status, 200, text);
  return json.data.body.got;
}

function svc(gateway: TestGateway, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const env = { ...process.env, SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
  return promisify(execFile)(process.execPath, [join(root, 'bin/svc.js'), ...args], { env });
}

const gateway = gatewayOfSuite({ store: 'git' });

test('by default the gateway itself and metadata addresses are refused, to actions and automations', async (t) => {
  const port = await listen(t);
  assert.equal((await gateway.upload('anywhere', fetching(undefined, 'anywhere'))).status, 201);
  const fetched = (url: string) => got(gateway.write('anywhere', 'get', { url }));
  assert.equal(await fetched(`http://127.0.0.1:${port}/`), 200);
  assert.equal(await fetched(`${gateway.url}/svc/_health`), 'EGRESS_REFUSED');
  assert.equal(await fetched('http://169.254.169.254/'), 'EGRESS_REFUSED');
  await gateway.call('PUT', '/svc/_apps/anywhere/secrets/KEY', { body: { value: 'sk_live_51' } });
  for (const [url, summary, node] of [
    [
      `http://127.0.0.1:${port}/of/sk_live_51?key=b`,
      '200',
      [`GET http://127.0.0.1:${port}/of/[secret KEY]`, true, 200],
    ],
    [`${gateway.url}/svc/_health`, 'EGRESS_REFUSED', [`GET ${gateway.url}/svc/_health`, false, 'EGRESS_REFUSED']],
  ] as const) {
    const run = await gateway.call('POST', '/svc/_automations/anywhere/get/run', { body: { input: { url } } });
    await eventually(async () => {
      const { json } = await gateway.call('GET', `/svc/_runs/${run.json.runId}`);
      return json.state === 'ok' && json.summary === summary;
    });
    const [fetch, ...others] = (await gateway.call('GET', `/svc/_runs/${run.json.runId}/nodes`)).json;
    assert.deepEqual([fetch.kind, fetch.args, others], ['fetch', null, []]);
    assert.deepEqual([fetch.name, fetch.ok, fetch.output?.status ?? fetch.error.code], node);
    assert.ok(fetch.endedAt >= fetch.startedAt);
  }
  // The run fails with its request, and the record of the request still says why.
  const throwing = { run: 'async ({ ctx, input }) => void (await ctx.fetch(input.url))' };
  assert.equal((await gateway.upload('throwing', appOf('throwing', { automations: { get: throwing } }))).status, 201);
  const body = { input: { url: 'http://localhost:19/' } };
  const run = (await gateway.call('POST', '/svc/_automations/throwing/get/run?wait=1', { body })).json;
  assert.match(run.error.message, /^fetch failed: localhost:19: /);
  const [fetch] = (await gateway.call('GET', `/svc/_runs/${run.runId}/nodes`)).json;
  assert.equal(fetch.error.message, run.error.message);
});

test("the operator's lists: deny overrides everything, allow permits hosts that are refused by default", async (t) => {
  const port = await listen(t);
  const egress = { deny: [`localhost:${port}`], allow: ['127.0.0.0/8'] };
  const gateway = await startGateway(t, { config: { egress } });
  assert.equal((await gateway.upload('fetching', fetching())).status, 201);
  const fetched = (url: string) => got(gateway.write('fetching', 'get', { url }));
  assert.equal(await fetched(`http://localhost:${port}/`), 'EGRESS_REFUSED');
  assert.equal(await fetched(`http://127.0.0.1:${port}/`), 200);
  assert.equal(await fetched(`${gateway.url}/svc/_health`), 200);
});

test("an app's list applies to each version and each draft, and is shown when it is published", async (t) => {
  const port = await listen(t);
  const refused = await gateway.upload('fetching', fetching(['api.example.com', 'https://example.com/']));
  assert.deepEqual([refused.json.error.code, refused.json.error.path], ['INVALID_MANIFEST', 'network[1]']);
  const uploaded = await gateway.upload('fetching', fetching(['api.example.com']));
  assert.deepEqual([uploaded.status, uploaded.json.network], [201, ['api.example.com']]);
  const url = `http://127.0.0.1:${port}/`;
  assert.equal(await got(gateway.write('fetching', 'get', { url })), 'EGRESS_REFUSED');
  assert.match((await svc(gateway, 'describe', 'fetching')).stdout, /reaches api\.example\.com/);

  await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
  const manifest = '/svc/_sessions/s1/apps/fetching/files/app.json';
  const { text } = await gateway.call('GET', manifest);
  const body = Buffer.from(JSON.stringify({ ...JSON.parse(text), network: ['127.0.0.1'], uses: ['notes'] }));
  assert.ok((await gateway.call('PUT', manifest, { body })).status < 300);
  const inDraft = () =>
    gateway.call('POST', '/svc/_draft/s1/_tool/svc_write', {
      body: { app: 'fetching', action: 'get', input: { url } },
    });
  assert.equal(await got(inDraft()), 200);
  assert.equal(await got(gateway.write('fetching', 'get', { url })), 'EGRESS_REFUSED');
  const diff = await svc(gateway, 'diff', '--workspace', 's1');
  assert.match(diff.stderr, /fetching would reach other hosts than before: 127\.0\.0\.1 .*until now api\.example\.com/);
  assert.match(
    diff.stderr,
    /Pages of fetching would call tools of other apps than before: notes .*until now no other app/,
  );
  const published = await svc(gateway, 'publish', '--workspace', 's1');
  assert.match(published.stdout, /network\s+127\.0\.0\.1/);
  assert.match(published.stdout, /uses\s+notes/);
  assert.match((await svc(gateway, 'describe', 'fetching')).stdout, /its pages call tools of notes/);
  assert.equal(await got(gateway.write('fetching', 'get', { url })), 200);
});
