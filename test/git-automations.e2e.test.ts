/**
 * Automations on the git store, where users' choices are stored beside the repository and not in it: switches and
 * secrets survive every publication, a rollback restores those of its version, and nothing of a draft fires (specification,
 * "Automation files").
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { type AppSource, appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { automationRow, only, post, push, runsOf, runToEnd } from '../testing/runs.ts';

const ROUNDS = 6;
const PENDING = [{ kind: 'webhook', pending: true }];

const gateway = gatewayOfSuite({ store: 'git' });

/** An app whose automation `hook` says which version's it is. */
function version(name: string, more: AppSource = {}): AppSource {
  const hook = { triggers: PENDING, run: `() => ({ summary: '${name}' })` };
  return { manifest: { version: name }, ...more, automations: { hook, ...more.automations } };
}

async function openWorkspace(): Promise<string> {
  const answer = await gateway.call('POST', '/svc/_sessions', { body: {} });
  assert.equal(answer.status, 201, answer.text);
  return answer.json.sessionId;
}

async function put(workspace: string, app: string, files: Record<string, string | Buffer>): Promise<void> {
  for (const [path, body] of Object.entries(files)) {
    const answer = await gateway.call('PUT', `/svc/_sessions/${workspace}/apps/${app}/files/${path}`, {
      body: Buffer.from(body),
    });
    assert.ok(answer.status < 300, answer.text);
  }
}

const publish = (workspace: string) => gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body: {} });

async function enable(ref: string, enabled: boolean): Promise<void> {
  const answer = await gateway.call('POST', `/svc/_automations/${ref}/enabled`, { body: { enabled } });
  assert.deepEqual([answer.status, answer.json.enabled], [200, enabled], answer.text);
}

async function renew(ref: string): Promise<MintedWebhook> {
  const answer = await gateway.call('POST', '/svc/_automations/_provision', { body: { ref, renew: true } });
  assert.equal(answer.status, 200, answer.text);
  return only(answer.json.webhooks);
}

const statusOf = async (webhook: MintedWebhook): Promise<number> => (await post(gateway, webhook)).status;

const git = (...args: string[]) =>
  execFileSync('git', ['-C', join(gateway.dataDir, 'code-store', 'apps.git'), ...args], { encoding: 'utf8' });

test('a switch and a secret do not change the code: neither the repository nor a draft has them, and a publication keeps them', async () => {
  const file = 'automations/hook/automation.json';
  const source = appOf('kept', version('1'));
  const first = only(await push(gateway, 'kept', version('1')));
  const draft = await openWorkspace();
  await enable('kept/hook', false);
  const second = await renew('kept/hook');
  assert.equal(git('show', `main:apps/kept/${file}`), source[file]);
  assert.equal((await gateway.call('GET', `/svc/_sessions/${draft}/apps/kept/files/${file}`)).text, source[file]);
  assert.deepEqual((await gateway.call('GET', `/svc/_sessions/${draft}/diff`)).json.files, []);

  await put(draft, 'kept', appOf('kept', version('2')));
  const published = await publish(draft);
  assert.deepEqual([published.status, published.json.webhooks], [201, []], published.text);
  assert.equal((await automationRow(gateway, 'kept/hook')).enabled, false);
  assert.deepEqual([await statusOf(first), (await post(gateway, second)).json.skipped], [404, 'automation disabled']);
  await enable('kept/hook', true);
  await gateway.kill();
  await gateway.start();
  assert.deepEqual([await statusOf(first), await statusOf(second)], [404, 200]);
  assert.equal((await runsOf(gateway, 'kept/hook'))[0]?.summary, '2');
});

test('a publication, a switch and a new secret at the same time: none of them is lost', async () => {
  let webhook = only(await push(gateway, 'raced', version('0')));
  for (let round = 1; round <= ROUNDS; round++) {
    const workspace = await openWorkspace();
    await put(workspace, 'raced', appOf('raced', version(String(round))));
    const enabled = round % 2 === 0;
    const before = webhook;
    const [published] = await Promise.all([
      publish(workspace),
      enable('raced/hook', enabled),
      renew('raced/hook').then((minted) => (webhook = minted)),
    ]);
    assert.deepEqual([published.status, published.json.webhooks], [201, []], published.text);
    assert.equal((await automationRow(gateway, 'raced/hook')).enabled, enabled);
    await enable('raced/hook', true);
    assert.deepEqual([await statusOf(webhook), await statusOf(before)], [200, 404]);
    assert.equal((await runsOf(gateway, 'raced/hook'))[0]?.summary, String(round));
  }
});

test('a rollback restores the settings of its version’s files, also if they must be fetched from the repository', async () => {
  const app = 'back';
  const call = (what: string, body: object) => gateway.call('POST', `/svc/_apps/${app}/${what}`, { body });
  const first = only(await push(gateway, app, version('1')));
  const clock = { triggers: [{ kind: 'cron', expr: '0 8 1 1 *' }], run: '() => ({})' };
  assert.deepEqual(await push(gateway, app, version('2', { automations: { clock } })), []);
  await enable(`${app}/hook`, false);
  const second = await renew(`${app}/hook`);
  assert.equal((await call('rollback', { version: 1 })).status, 200);
  assert.equal((await automationRow(gateway, `${app}/hook`)).enabled, true);
  assert.deepEqual([await statusOf(first), await statusOf(second)], [200, 404]);
  assert.equal((await gateway.call('GET', `/svc/_automations/${app}/clock`)).status, 404);
  assert.equal((await runToEnd(gateway, `${app}/hook`)).summary, '1');
  assert.equal((await call('activate', { versionId: `${app}/v2` })).status, 200);
  assert.equal((await automationRow(gateway, `${app}/hook`)).enabled, false);
  assert.ok((await automationRow(gateway, `${app}/clock`)).nextRunAt > Date.now(), 'the clock is set again');
  assert.equal((await post(gateway, second)).json.skipped, 'automation disabled');

  // By now there are more versions than are kept on disk: the first comes from its tag, with what is chosen now.
  for (let n = 3; n <= 8; n++) await push(gateway, app, version(String(n)));
  assert.equal((await automationRow(gateway, `${app}/hook`)).enabled, false);
  const fetched = await call('rollback', { version: 1 });
  assert.deepEqual([fetched.status, fetched.json.webhooks], [200, []], fetched.text);
  assert.equal((await automationRow(gateway, `${app}/hook`)).enabled, false);
  await enable(`${app}/hook`, true);
  assert.deepEqual([await statusOf(second), await statusOf(first)], [200, 404]);
  assert.equal((await runsOf(gateway, `${app}/hook`))[0]?.summary, '1');
});

test('automations of a draft do not fire, are not listed and have no address; after publishing they do', async () => {
  await push(gateway, 'drafted', {});
  const workspace = await openWorkspace();
  const everySecond = [{ kind: 'cron', expr: '* * * * * *' }];
  await put(
    workspace,
    'drafted',
    appOf('drafted', version('2', { automations: { tick: { triggers: everySecond, run: '() => ({})' } } })),
  );
  const slug = 'ab'.repeat(12);
  const secret = 'a'.repeat(48);
  const own = { webhookId: slug, secret } as MintedWebhook;
  const secretHash = createHash('sha256').update(secret).digest('hex');
  await put(
    workspace,
    'drafted',
    appOf('drafted', {
      manifest: { version: '2' },
      automations: { claimed: { triggers: [{ kind: 'webhook', id: slug, secretHash }], run: '() => ({})' } },
    }),
  );
  const described = await gateway.call('POST', `/svc/_draft/${workspace}/_tool/svc_describe`, {
    body: { app: 'drafted' },
  });
  assert.equal(described.status, 200, described.text);
  assert.deepEqual((await gateway.call('GET', '/svc/_automations?app=drafted')).json, {
    rows: [],
    errors: [],
    total: 0,
  });
  assert.equal(await statusOf(own), 404);
  for (const path of [`/svc/_draft/${workspace}/_hook/${slug}`, `/svc/_draft/${workspace}/drafted/_svc-hook/${slug}`])
    assert.ok([404, 405].includes((await gateway.call('POST', path, { body: {} })).status), path);
  for (const id of ['hook', 'tick', 'claimed'])
    assert.equal((await gateway.call('POST', `/svc/_automations/drafted/${id}/run`, { body: {} })).status, 404, id);
  const provisioned = await gateway.call('POST', '/svc/_automations/_provision', { body: { app: 'drafted' } });
  assert.deepEqual(provisioned.json.webhooks, []);
  const another = only(
    await push(gateway, 'beside', {
      automations: {
        tick: { triggers: everySecond, run: '() => ({})' },
        hook: { triggers: PENDING, run: '() => ({})' },
      },
    }),
  );
  assert.equal(await statusOf(another), 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_runs?app=drafted')).json, []);

  const published = await publish(workspace);
  assert.equal(published.status, 201, published.text);
  assert.deepEqual([await statusOf(own), await statusOf(only(published.json.webhooks))], [200, 200]);
});

test('a file below the address of a tag is immutable, and a page is not; without the tag there is nothing', async () => {
  const page = (n: number) => ({
    files: { 'index.html': `<!doctype html><title>${n}</title>`, 'a.js': `export default ${n};` },
  });
  await push(gateway, 'pinned', page(1));
  await push(gateway, 'pinned', page(2));
  const at = (path: string) => gateway.call('GET', `/svc/pinned/_v/${path}`);
  for (const [tag, n] of [
    ['pinned/v1', 1],
    ['pinned%2Fv1', 1],
    ['pinned%2fv2', 2],
  ] as const) {
    const script = await at(`${tag}/a.js`);
    assert.deepEqual([script.status, script.text], [200, `export default ${n};`], tag);
    assert.equal(script.headers['cache-control'], 'private, max-age=31536000, immutable');
    const html = await at(`${tag}/`);
    assert.deepEqual([html.status, html.headers['cache-control']], [200, 'no-cache']);
    assert.match(html.text, new RegExp(`<title>${n}</title>`));
  }
  assert.equal((await gateway.call('GET', '/svc/pinned/a.js')).headers['cache-control'], 'no-cache');
  for (const tag of ['pinned/v3', 'pinned/v0', 'other/v1', 'pinned', '..%2Fv1']) {
    const missing = await at(`${tag}/a.js`);
    assert.equal(missing.status, 404, tag);
    assert.ok(!/immutable/.test(String(missing.headers['cache-control'])), `${tag} may come`);
  }
  // An immutable address must never get other content, so a removed app's numbers are not used again.
  assert.equal((await gateway.call('DELETE', '/svc/_apps/pinned?purge=1')).status, 200);
  await push(gateway, 'pinned', page(3));
  assert.equal((await gateway.call('GET', '/svc/_apps/pinned')).json.activeVersion, 'pinned/v3');
  assert.equal((await at('pinned/v1/a.js')).status, 404);
});
