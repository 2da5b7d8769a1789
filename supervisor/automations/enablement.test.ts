import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import type { MintedWebhook } from '../../protocol/automations/automation.ts';
import { editAutomation } from '../../protocol/automations/automation-edit.ts';
import { addWebhookKeys, readWebhookKeys } from '../../storage/automations/automation-files.ts';
import { automation } from '../../testing/apps.ts';
import { ORIGIN, openWorkshop } from '../../testing/automations.ts';

const workshop = await openWorkshop();
after(() => workshop.close());
const { start } = workshop;

const PENDING = { kind: 'webhook', pending: true };

test('an upload returns the address and the secret of its webhook, and the same content again returns none', async () => {
  const { upload, catalog, deployments } = await start();
  const daily = automation({ triggers: [PENDING] });
  const first = await upload({ daily });
  const [webhook, ...others] = first.webhooks as MintedWebhook[];
  assert.ok(webhook && others.length === 0, 'one webhook is minted');
  assert.deepEqual(webhook, {
    webhookId: webhook.webhookId,
    secret: webhook.secret,
    automationId: 'daily',
    ownerApp: 'notes',
    url: `${ORIGIN}/_svc-hook/${webhook.webhookId}`,
  });
  assert.equal(catalog.bySlug(webhook.webhookId)?.ref, 'notes/daily');
  const again = await upload({ daily });
  assert.deepEqual([again.deduplicated, again.webhooks, again.versionId], [true, [], first.versionId]);
  const next = await upload({ daily }, '2');
  assert.deepEqual([next.deduplicated, next.webhooks], [false, []]);
  assert.equal(catalog.bySlug(webhook.webhookId)?.versionId, next.versionId);
  assert.equal((await deployments.record('notes')).automations, 1);
});

test('the key of a signed webhook is kept outside the code, for its owner only, as long as a version has the webhook', async () => {
  const { upload, layout, deployments } = await start();
  const app = layout.app('notes');
  const { webhooks } = await upload({ daily: automation({ triggers: [{ ...PENDING, signing: true }] }) });
  const [{ webhookId, secret } = { webhookId: '', secret: '' }] = webhooks as MintedWebhook[];
  assert.deepEqual(await readWebhookKeys(app), new Map([[webhookId, secret]]));
  assert.equal(statSync(app.webhookKeys).mode & 0o777, 0o600);
  await upload({ daily: automation() }, '2');
  assert.equal((await readWebhookKeys(app)).size, 1, 'a rollback still needs it');
  await upload({ daily: automation() }, '3');
  await upload({ daily: automation() }, '4');
  assert.equal((await deployments.versions('notes')).length, 2);
  assert.equal(existsSync(app.webhookKeys), false);
});

test('switching changes only that member of the file, and keeps the webhook', async () => {
  const { upload, enablement, catalog, fileOf } = await start();
  await upload({ daily: automation({ 'x-mine': { a: 1 }, trigger: PENDING }) });
  const before = readFileSync(fileOf('daily'), 'utf8');
  const live = await enablement.setEnabled('notes', 'daily', false);
  assert.equal(live.manifest.enabled, false);
  assert.equal(catalog.get('notes/daily'), live);
  assert.equal(readFileSync(fileOf('daily'), 'utf8'), editAutomation(before, { enabled: false }));
  const { triggers } = JSON.parse(before);
  assert.deepEqual((await enablement.manifest('notes', 'daily')).triggers, triggers);
  await enablement.setEnabled('notes', 'daily', false);
  assert.equal((await enablement.setEnabled('notes', 'daily', true)).manifest.enabled, true);
});

test('a switch survives the next upload', async () => {
  const { upload, enablement, catalog } = await start();
  await upload({ daily: automation() });
  await enablement.setEnabled('notes', 'daily', false);
  await upload({ daily: automation() }, '2');
  assert.equal(catalog.get('notes/daily')?.manifest.enabled, false);
});

test('many switches and an upload at once leave a whole file in the version that is live', async () => {
  const { upload, enablement, catalog, fileOf } = await start();
  await upload({ daily: automation() });
  const switches = Array.from({ length: 20 }, (_, i) => enablement.setEnabled('notes', 'daily', i % 2 === 0));
  await Promise.all([...switches, upload({ daily: automation() }, '2')]);
  assert.equal(JSON.parse(readFileSync(fileOf('daily'), 'utf8')).enabled, false);
  assert.equal(catalog.get('notes/daily')?.manifest.enabled, false);
});

test('provisioning mints pending webhooks of live versions', async () => {
  const { upload, enablement, catalog, registry, fileOf, layout } = await start();
  await upload({ daily: automation(), quiet: automation() });
  await upload({ other: automation() }, '1', 'second');
  writeFileSync(fileOf('daily'), automation({ triggers: [PENDING] }));
  writeFileSync(fileOf('other', 'second'), automation({ triggers: [{ ...PENDING, signing: true }] }));
  await catalog.serve(registry.ids());
  const [webhook, ...others] = (await enablement.provision('notes', ORIGIN)) as MintedWebhook[];
  assert.ok(webhook && others.length === 0, 'one webhook is minted');
  const secretHash = createHash('sha256').update(webhook.secret).digest('hex');
  const { triggers } = JSON.parse(readFileSync(fileOf('daily'), 'utf8'));
  assert.deepEqual(triggers, [{ kind: 'webhook', id: webhook.webhookId, secretHash }]);
  assert.equal(catalog.bySlug(webhook.webhookId)?.ref, 'notes/daily');
  const rest = (await enablement.provision(null, ORIGIN)) as MintedWebhook[];
  assert.deepEqual(
    rest.map(({ ownerApp }) => ownerApp),
    ['second'],
  );
  assert.equal((await readWebhookKeys(layout.app('second'))).get(rest[0]?.webhookId ?? ''), rest[0]?.secret);
  assert.deepEqual(await enablement.provision(null, ORIGIN), []);
});

test('a lost secret is renewed: another address and secret in the same place, and the old ones are gone', async () => {
  const { upload, enablement, catalog, fileOf, layout } = await start();
  const cron = { kind: 'cron', expr: '@daily' };
  const text = automation({ 'x-mine': { a: 1 }, triggers: [{ ...PENDING, 'x-hook': 1, signing: true }, cron] });
  const [lost] = (await upload({ daily: text })).webhooks as MintedWebhook[];
  const renewed = await enablement.provisionOne('notes', 'daily', true, ORIGIN);
  const [webhook, ...others] = renewed as MintedWebhook[];
  assert.ok(lost && webhook && others.length === 0, 'one webhook is minted');
  assert.equal(catalog.bySlug(lost.webhookId), undefined);
  assert.equal(catalog.bySlug(webhook.webhookId)?.ref, 'notes/daily');
  assert.notEqual(webhook.secret, lost.secret);
  assert.equal((await readWebhookKeys(layout.app('notes'))).get(webhook.webhookId), webhook.secret);
  const secretHash = createHash('sha256').update(webhook.secret).digest('hex');
  const file = JSON.parse(readFileSync(fileOf('daily'), 'utf8'));
  assert.deepEqual(file, {
    ...JSON.parse(text),
    triggers: [{ kind: 'webhook', id: webhook.webhookId, secretHash, 'x-hook': 1, signing: true }, cron],
  });
  await upload({ daily: text }, '2');
  assert.equal(catalog.bySlug(webhook.webhookId)?.ref, 'notes/daily', 'a push keeps the new address');
});

test('one automation is provisioned by itself, and only a pending webhook without being renewed', async () => {
  const { upload, enablement, catalog, registry, fileOf } = await start();
  await upload({ daily: automation(), hook: automation(), quiet: automation() });
  for (const id of ['daily', 'hook']) writeFileSync(fileOf(id), automation({ triggers: [PENDING] }));
  await catalog.serve(registry.ids());
  const [webhook] = await enablement.provisionOne('notes', 'hook', false, ORIGIN);
  assert.equal(catalog.bySlug(webhook?.webhookId ?? '')?.ref, 'notes/hook');
  assert.deepEqual(await enablement.provisionOne('notes', 'hook', false, ORIGIN), []);
  assert.deepEqual(JSON.parse(readFileSync(fileOf('daily'), 'utf8')).triggers, [PENDING]);
  assert.equal((await enablement.provisionOne('notes', 'daily', true, ORIGIN)).length, 1);
  for (const renew of [false, true])
    await assert.rejects(enablement.provisionOne('notes', 'quiet', renew, ORIGIN), {
      code: 'BAD_REQUEST',
      path: 'ref',
      message: /"notes\/quiet" has no webhook\. Add/,
    });
  await assert.rejects(enablement.provisionOne('notes', 'weekly', true, ORIGIN), { code: 'UNKNOWN_AUTOMATION' });
  await assert.rejects(enablement.provisionOne('nobody', 'daily', true, ORIGIN), { code: 'UNKNOWN_APP' });
});

test('secrets that were minted are answered, though another app fails', async () => {
  const { upload, enablement, catalog, registry, fileOf, layout } = await start();
  for (const id of ['first', 'second']) {
    await upload({ daily: automation() }, '1', id);
    writeFileSync(fileOf('daily', id), automation({ triggers: [{ ...PENDING, signing: id === 'second' }] }));
  }
  await catalog.serve(registry.ids());
  mkdirSync(layout.app('second').webhookKeys);
  assert.deepEqual(
    (await enablement.provision(null, ORIGIN)).map(({ ownerApp }) => ownerApp),
    ['first'],
  );
  await assert.rejects(enablement.provision(null, ORIGIN), { code: 'EISDIR' });
});

test('the next mint removes the key of an interrupted one', async () => {
  const { upload, enablement, catalog, registry, fileOf, layout } = await start();
  await upload({ daily: automation() });
  writeFileSync(fileOf('daily'), automation({ triggers: [{ ...PENDING, signing: true }] }));
  await catalog.serve(registry.ids());
  const app = layout.app('notes');
  await addWebhookKeys(app, new Map([['a'.repeat(24), 'whsec_bG9zdA==']]));
  const [minted] = (await enablement.provision('notes', ORIGIN)) as MintedWebhook[];
  assert.deepEqual([...(await readWebhookKeys(app))], [[minted?.webhookId, minted?.secret]]);
});

test('unknown and damaged ones are refused', async () => {
  const { upload, enablement, fileOf } = await start();
  await upload({ daily: automation() });
  await assert.rejects(enablement.setEnabled('nobody', 'daily', true), { code: 'UNKNOWN_APP' });
  await assert.rejects(enablement.setEnabled('notes', 'weekly', true), { code: 'UNKNOWN_AUTOMATION' });
  await assert.rejects(enablement.manifest('notes', 'weekly'), { code: 'UNKNOWN_AUTOMATION' });
  await assert.rejects(enablement.provision('nobody', ORIGIN), { code: 'UNKNOWN_APP' });
  writeFileSync(fileOf('daily'), '{');
  await assert.rejects(enablement.setEnabled('notes', 'daily', true), { code: 'INVALID_AUTOMATION' });
  assert.equal(readFileSync(fileOf('daily'), 'utf8'), '{');
});
