import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { automation } from '../../../testing/apps.ts';
import { openWorkshop } from '../../../testing/automations.ts';
import { serveExchanges } from '../../../testing/exchange-server.ts';
import { AgentTokens } from '../../http/access/agent-tokens.ts';
import { Pipeline } from '../../http/pipeline.ts';
import { Router } from '../../http/router.ts';
import { HttpMeter } from '../../operations/metrics/http-meter.ts';
import { publicOriginOf } from '../requests.ts';
import { automationRoutes } from './automations-routes.ts';

const workshop = await openWorkshop();
after(() => workshop.close());

const RUN: RunRecord = {
  runId: '0198-run',
  kind: 'automation',
  ref: '',
  app: '',
  automation: '',
  trigger: { kind: 'manual', origin: null },
  parentRunId: null,
  state: 'ok',
  input: { large: true },
  output: { large: true },
  summary: 'Done.',
  error: null,
  queuedAt: 1,
  startedAt: 2,
  endedAt: 3,
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null },
  pinned: false,
};
const PENDING = { kind: 'webhook', pending: true };

/** The routes on a real server, with an app "notes" that has these automations. */
async function serve(
  t: TestContext,
  automations: Record<string, string>,
  listening: { url: string } | null = null,
  publicUrl: string | null = null,
) {
  const { registry, ...parts } = await workshop.start();
  await parts.upload(automations);
  const routes = automationRoutes({
    ...parts,
    nextRunAt: (ref) => (ref === 'notes/daily' ? 1234 : null),
    times: new CronTimes('UTC'),
    now: () => Date.UTC(2026, 0, 1, 12),
    lastRuns: async () => new Map([['notes/daily', { ...RUN, ref: 'notes/daily', app: 'notes', automation: 'daily' }]]),
    secretProblem: (_app, name) => (name === 'THERE' ? null : `Set ${name}.`),
    publicOrigin: (host) => publicOriginOf(host, { config: { publicUrl }, listening: () => listening }),
    registered: async (app) => void (await registry.state(app)),
  });
  const pipeline = new Pipeline({
    router: new Router(routes),
    access: null,
    authorize: null,
    identify: null,
    makerOf: () => null,
    openTo: null,
    visitors: null,
    agentTokens: new AgentTokens(),
    corsOrigins: [],
    refusalOf: () => null,
    meter: new HttpMeter(),
    tracing: null,
    log: pino({ level: 'silent' }),
  });
  const port = await serveExchanges(t, (exchange) => pipeline.handle(exchange));
  const origin = `http://127.0.0.1:${port}`;
  const call = async (method: string, path: string, body?: unknown) => {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(`${origin}/svc/_automations${path}`, { method, ...init });
    const text = await answer.text();
    return { status: answer.status, text, json: JSON.parse(text) };
  };
  return { ...parts, registry, call, origin };
}

test('lists the automations, without the hashes of secrets, beside the damaged ones', async (t) => {
  const { call, catalog, registry, fileOf, origin } = await serve(t, {
    daily: automation({ description: 'Every day', triggers: [{ kind: 'cron', expr: '@daily' }] }),
    hook: automation({ triggers: [{ ...PENDING, signing: true }], enabled: false }),
    torn: automation(),
  });
  writeFileSync(fileOf('torn'), '{');
  await catalog.serve(registry.ids());
  const { status, text, json } = await call('GET', '');
  assert.equal(status, 200);
  const [daily, hook, ...others] = json.rows;
  const { lastRun, ...row } = daily;
  const { input, output, ...shown } = RUN;
  assert.deepEqual(lastRun, { ...shown, ref: 'notes/daily', app: 'notes', automation: 'daily' });
  assert.deepEqual(row, {
    ref: 'notes/daily',
    app: 'notes',
    id: 'daily',
    name: 'Daily',
    description: 'Every day',
    enabled: true,
    triggers: [{ kind: 'cron', expr: '@daily' }],
    nextRunAt: 1234,
  });
  const [minted] = catalog.list('notes')[1]?.manifest.triggers ?? [];
  const id = minted && 'id' in minted ? minted.id : '';
  assert.deepEqual(hook.triggers, [{ kind: 'webhook', id, signing: true, url: `${origin}/_svc-hook/${id}` }]);
  assert.deepEqual([hook.enabled, others], [false, []]);
  assert.deepEqual([json.errors.length, json.errors[0].ref, json.errors[0].code], [1, 'notes/torn', 'invalid_json']);
  assert.doesNotMatch(text + (await call('GET', '/notes/hook')).text, /secretHash|whsec_/);
  assert.deepEqual((await call('GET', '?app=notes')).json, json);
  assert.equal((await call('GET', '/notes/torn')).json.error.code, 'INVALID_AUTOMATION');
});

test('a webhook whose secret is not set says what to do', async (t) => {
  const triggers = (secret: string) => [{ ...PENDING, verify: 'github', secret }];
  const daily = automation({ triggers: triggers('THERE') });
  const { call } = await serve(t, { daily, hook: automation({ triggers: triggers('KEY') }) });
  const [there, missing] = (await call('GET', '')).json.rows;
  assert.deepEqual([there.triggers[0].problem, missing.triggers[0].problem], [undefined, 'Set KEY.']);
  assert.deepEqual([missing.triggers[0].verify, missing.triggers[0].secret], ['github', 'KEY']);
  const { json } = await call('GET', '/notes/hook');
  assert.deepEqual([json.triggers[0].problem, json.manifest.triggers[0].problem], ['Set KEY.', undefined]);
});

test('one automation has its whole manifest', async (t) => {
  const { call } = await serve(t, { daily: automation({ outputSchema: { type: 'object' } }) });
  const { json } = await call('GET', '/notes/daily');
  assert.equal(json.ref, 'notes/daily');
  assert.deepEqual([json.manifest.prompt, json.manifest.outputSchema], ['Does it every day.', { type: 'object' }]);
});

test('switching answers the row, and the file says so', async (t) => {
  const { call, fileOf } = await serve(t, { daily: automation() });
  const { status, json } = await call('POST', '/notes/daily/enabled', { enabled: false });
  assert.deepEqual([status, json.ref, json.enabled], [200, 'notes/daily', false]);
  assert.equal(JSON.parse(readFileSync(fileOf('daily'), 'utf8')).enabled, false);
});

test('provisioning answers addresses at which the gateway is reached', async (t) => {
  for (const [listening, publicUrl, reached] of [
    [null, null, null],
    [{ url: 'http://gateway.example/' }, null, 'http://gateway.example'],
    [{ url: 'http://gateway.example/' }, 'https://public.example/gw', 'https://public.example/gw'],
  ] as const) {
    const { call, origin, catalog, fileOf } = await serve(t, { daily: automation() }, listening, publicUrl);
    writeFileSync(fileOf('daily'), automation({ triggers: [PENDING] }));
    await catalog.load('notes');
    const { status, json } = await call('POST', '/_provision');
    const [{ webhookId, url }] = json.webhooks;
    assert.deepEqual([status, json.webhooks.length], [200, 1]);
    assert.equal(url, `${reached ?? origin}/_svc-hook/${webhookId}`);
    const { json: shown } = await call('GET', '/notes/daily');
    assert.equal(shown.triggers[0].url, url, 'and they are shown at any time');
    assert.equal(shown.manifest.triggers[0].url, undefined, 'but are no part of the file');
    assert.deepEqual((await call('POST', '/_provision', { app: 'notes' })).json, { webhooks: [] });
  }
});

test('the webhook of one automation is renewed, and its old address is no longer known', async (t) => {
  const { call, origin, catalog } = await serve(t, { daily: automation({ triggers: [PENDING] }), hook: automation() });
  const slug = () => catalog.get('notes/daily')?.manifest.triggers.flatMap((one) => ('id' in one ? one.id : []))[0];
  const lost = slug() ?? '';
  assert.deepEqual((await call('POST', '/_provision', { ref: 'notes/daily' })).json, { webhooks: [] });
  const { status, json } = await call('POST', '/_provision', { ref: 'notes/daily', renew: true });
  assert.deepEqual([status, json.webhooks.length], [200, 1]);
  assert.equal(json.webhooks[0].url, `${origin}/_svc-hook/${slug()}`);
  assert.notEqual(slug(), lost);
  assert.equal(catalog.bySlug(lost), undefined);
});

const REFUSED: [method: string, path: string, body: unknown, status: number, code: string][] = [
  ['GET', '?app=nobody', undefined, 404, 'UNKNOWN_APP'],
  ['GET', '/nobody/daily', undefined, 404, 'UNKNOWN_APP'],
  ['GET', '/_provision/daily', undefined, 400, 'RESERVED_ID'],
  ['GET', '/notes/weekly', undefined, 404, 'UNKNOWN_AUTOMATION'],
  ['GET', '/notes/..%2F..%2Fdaily', undefined, 404, 'UNKNOWN_AUTOMATION'],
  ['GET', '/notes/daily%00', undefined, 404, 'UNKNOWN_AUTOMATION'],
  ['GET', '/_provision', undefined, 405, 'METHOD_NOT_ALLOWED'],
  ['POST', '/notes/daily/enabled', {}, 400, 'BAD_REQUEST'],
  ['POST', '/notes/daily/enabled', { enabled: 'false' }, 400, 'BAD_REQUEST'],
  ['POST', '/notes/weekly/enabled', { enabled: true }, 404, 'UNKNOWN_AUTOMATION'],
  ['POST', '/nobody/daily/enabled', { enabled: true }, 404, 'UNKNOWN_APP'],
  ['POST', '/_provision', { app: 'nobody' }, 404, 'UNKNOWN_APP'],
  ['POST', '/_provision', { app: 5 }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { app: '_svc' }, 400, 'RESERVED_ID'],
  ['POST', '/_provision', { ref: 'notes/weekly', renew: true }, 404, 'UNKNOWN_AUTOMATION'],
  ['POST', '/_provision', { ref: 'nobody/daily', renew: true }, 404, 'UNKNOWN_APP'],
  ['POST', '/_provision', { ref: 'notes/daily', renew: true }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { ref: 'notes/daily', renew: 'yes' }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { ref: 'notes/daily', app: 'notes' }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { ref: 'notes' }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { ref: '../daily' }, 400, 'BAD_REQUEST'],
  ['POST', '/_provision', { app: 'notes', renew: true }, 400, 'BAD_REQUEST'],
];

test('invalid requests are refused', async (t) => {
  const { call } = await serve(t, { daily: automation() });
  for (const [method, path, body, status, code] of REFUSED) {
    const answer = await call(method, path, body);
    assert.deepEqual([answer.status, answer.json.error.code], [status, code], `${method} ${path}`);
  }
});

test('lists the fires of the next days, also of one app', async (t) => {
  const { call } = await serve(t, {
    daily: automation({ name: 'Daily', triggers: [{ kind: 'cron', expr: '0 9 * * *' }] }),
    off: automation({ enabled: false, triggers: [{ kind: 'cron', expr: '0 9 * * *' }] }),
  });
  const { status, json } = await call('GET', '/_upcoming?days=2&app=notes');
  assert.equal(status, 200);
  const fires = [Date.UTC(2026, 0, 2, 9), Date.UTC(2026, 0, 3, 9)];
  const row = { ref: 'notes/daily', app: 'notes', id: 'daily', name: 'Daily', fires, more: false };
  assert.deepEqual(json, { rows: [row], more: false });
  assert.equal((await call('GET', '/_upcoming?days=32')).json.error.path, 'days');
  assert.equal((await call('GET', '/_upcoming?app=nowhere')).json.error.code, 'UNKNOWN_APP');
});
