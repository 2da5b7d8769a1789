/** JSON that nests too deeply, to every route that reads a body, on both edges: refused like any other bad request. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { appOf, automation } from '../testing/apps.ts';
import { onEachEdge } from '../testing/edges.ts';

/** Routes whose bodies are archives, bundles, files, or nothing. */
const NOT_JSON = [
  'POST /svc/_apps/:id/upload',
  'POST /svc/_apps/_import',
  'POST /svc/_notices/push-key',
  'POST /svc/_apps/:id/copies',
  'POST /svc/_apps/:id/restart',
  'POST /svc/_trash/:id/restore',
  'PUT /svc/:id/_blobs',
  'PUT /svc/_people/:pid/picture',
  'PUT /svc/_draft/:sid/:id/_blobs',
  'PUT /svc/_sessions/:sid/apps/:id/files/*',
  'POST /svc/_sessions/:sid/apps/:id/files',
  'POST /svc/_sessions/:sid/apps/:id/update',
  'POST /svc/_sessions/:sid/apps/:id/check',
  'POST /svc/_sessions/:sid/apps/:id/tests',
  'POST /svc/_sessions/:sid/apps/:id/reset-data',
  'POST /svc/_runs/:runId/cancel',
  'POST /svc/_code/export',
  'POST /svc/_code/import',
  'POST /svc/_backup',
  'POST /svc/_backups/files',
  'POST /svc/_backups/files/:name/verify',
  'POST /svc/_session',
  'POST /svc/_oauth/register',
  'POST /svc/_oauth/token',
  'POST /svc/_oauth/revoke',
  'POST /_svc-conversations/apps/:id/blobs',
];

/** Only a draft's own page may call it; its body is read after that. */
const OF_PAGES = 'POST /svc/_draft/:sid/:id/_errors';

const SITE = appOf('site', {
  queries: { all: '() => 1' },
  actions: { go: { run: '() => null', writes: [] } },
  files: {
    'index.html': 'Hello',
    'automations/job/automation.json': automation({ triggers: [{ kind: 'webhook', pending: true }] }),
    'automations/job/handler.js': 'export default () => {};',
  },
});

const BODIES: [what: string, body: string][] = [
  ['1 MiB of brackets', '['.repeat(LIMITS.requestBodyBytes)],
  ['a member', `{"patch":{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}}`],
];

onEachEdge({}, (gateway, _edge, store) => {
  let workspace = 'none';
  let webhook = 'none';
  before(async () => {
    const { webhooks } = (await gateway.upload('site', SITE)).json;
    webhook = webhooks[0].webhookId;
    if (store === 'git') workspace = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json.sessionId;
  });

  const values: Record<string, string> = {
    id: 'site',
    app: 'site',
    tool: 'svc_read',
    runId: 'none',
    versionId: 'none',
  };
  const routes = allRoutes({ automations: {} } as Services)
    .filter(({ method }) => method !== 'GET' && method !== 'DELETE')
    .filter(({ method, path }) => ![...NOT_JSON, OF_PAGES].includes(`${method} ${path}`))
    // Without the git store there are no drafts, so any request to them is refused.
    .filter(({ path }) => store === 'git' || !/^\/svc\/_draft\/|^\/_svc-conversations\/|\/_turn$/.test(path));

  for (const { method, path } of routes) {
    for (const [what, body] of BODIES) {
      test(`${method} ${path}: ${what}`, async () => {
        const target = path
          .replace(/_automations\/:app\/:id/, '_automations/site/job')
          .replace(':sid', workspace)
          .replace(/:(\w+)/g, (_all, name: string) => values[name] ?? 'none')
          .replace(/\*$/, webhook);
        // One route is for pages of this origin alone.
        const answer = await gateway.call(method, target, { body, headers: { origin: gateway.url } });
        // A webhook checks the secret before it reads, and the size of the body before its depth.
        const isHook = path.startsWith('/_svc-hook');
        assert.deepEqual([answer.status, answer.json.isError], [isHook ? 401 : 400, true], answer.text.slice(0, 300));
        assert.equal(answer.json.error.code, isHook ? 'UNAUTHORIZED' : 'BAD_REQUEST');
        if (!isHook) assert.match(answer.json.error.message, /nests deeper than 1000 levels/);
      });
    }
  }

  test('JSON at the limit of depth is stored and returned', async () => {
    const patch = { deep: JSON.parse(`${'['.repeat(900)}${']'.repeat(900)}`) };
    for (const [target, body] of [
      ['/_svc-user/prefs', { patch }],
      ['/svc/_apps/site/settings', patch],
    ] as const) {
      assert.equal((await gateway.call('PUT', target, { body })).status, 200);
      assert.match((await gateway.call('GET', target)).text, /\[{900}\]{900}/);
    }
  });
});
