import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { editAutomation } from '../../protocol/automations/automation-edit.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { IngestJob, VersionFolders } from '../../protocol/wire/jobs.ts';
import { automation } from '../../testing/apps.ts';
import { appFiles, tarball } from '../../testing/archive.ts';
import { loadValidators } from '../handler/load-validators.ts';
import { ingest } from './content/ingest.ts';

const root = mkdtempSync(join(tmpdir(), 'ingest-automations-'));
after(() => rmSync(root, { recursive: true, force: true }));
let uploads = 0;

const PENDING = { kind: 'webhook', pending: true };
const CLAIMED = { kind: 'webhook', id: 'ab'.repeat(12), secretHash: 'c'.repeat(64) };
const hook = (more: object = {}) => automation({ triggers: [PENDING], ...more });

/** Takes an app in that has these automations: the text of their files by id. */
async function take(
  automations: Record<string, string>,
  more: Partial<Pick<IngestJob, 'active' | 'known'>> = {},
  files = {},
) {
  const staging = join(root, `staging-${++uploads}`);
  const archive = join(root, `upload-${uploads}.tgz`);
  mkdirSync(staging);
  const own = Object.entries(automations).flatMap(([id, text]) => [
    [`automations/${id}/automation.json`, text],
    [`automations/${id}/handler.js`, 'export default () => {};'],
  ]);
  writeFileSync(archive, tarball({ ...appFiles('notes'), ...Object.fromEntries(own), ...files }));
  const uploadedAt = Date.UTC(2026, 0, 1) + uploads;
  const job = { source: { archive }, commit: null, app: 'notes', staging, uploadedAt, known: [], active: null };
  const result = await ingest({ ...job, ...more });
  const folders: VersionFolders = { code: join(staging, 'code'), prepared: join(staging, 'prepared') };
  return { staging, result, folders };
}

async function stored(...args: Parameters<typeof take>) {
  const { result, folders } = await take(...args);
  assert.ok('staged' in result, 'it was taken for a known one');
  return { folders, minted: result.minted, summary: result.staged, known: [{ ...result.staged, ...folders }] };
}

const fileOf = ({ code }: VersionFolders, id = 'daily') => join(code, 'automations', id, 'automation.json');
const read = (folders: VersionFolders, id?: string) => JSON.parse(readFileSync(fileOf(folders, id), 'utf8'));
const toggle = (folders: VersionFolders, enabled: boolean): void =>
  writeFileSync(fileOf(folders), editAutomation(readFileSync(fileOf(folders), 'utf8'), { enabled }));

async function refused(...args: Parameters<typeof take>): Promise<SvcError> {
  const error = await take(...args).then(
    () => assert.fail('it was taken'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof SvcError, String(error));
  assert.equal(error.code, 'INVALID_AUTOMATION');
  assert.equal(existsSync(join(root, `staging-${uploads}`)), false, 'something is left in the staging folder');
  return error;
}

const FILE = 'automations/daily/automation.json';
const REFUSED: [name: string, automations: Record<string, string>, path: string, message: string, issues: number][] = [
  ['no JSON', { daily: '{' }, FILE, `${FILE} is not JSON`, 1],
  [
    'a field',
    { daily: automation({ triggers: [{ kind: 'cron', expr: 'x' }] }) },
    `${FILE}#triggers[0].expr`,
    `${FILE}: triggers[0].expr is no cron expression`,
    1,
  ],
  [
    'many fields',
    { daily: '{}', also: '{}' },
    'automations/also/automation.json#name',
    'automations/also/automation.json: name is required (missing_field).',
    4,
  ],
  [
    'a folder whose name is no id',
    { 'a b': automation() },
    'automations/a b/automation.json',
    'automations/a b/automation.json lies in a folder',
    1,
  ],
  [
    'a schema that is none',
    { daily: automation({ outputSchema: { type: 'object', properties: { a: { type: 'numbr' } } } }) },
    `${FILE}#outputSchema`,
    `${FILE}: outputSchema is not a usable JSON Schema`,
    1,
  ],
  [
    'a schema that refers to itself without end',
    { daily: automation({ outputSchema: { type: 'object', allOf: [{ $ref: '#' }] } }) },
    `${FILE}#outputSchema`,
    `${FILE}: outputSchema cannot be used`,
    1,
  ],
  [
    'the address of another automation',
    {
      also: automation({ triggers: [CLAIMED] }),
      daily: automation({ triggers: [{ kind: 'cron', expr: '@daily' }, CLAIMED] }),
    },
    `${FILE}#triggers[1].id`,
    `${FILE}: triggers[1].id is the address of another webhook`,
    1,
  ],
  [
    'more faults than are shown',
    Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`a${i}`, '{}'])),
    'automations/a0/automation.json#name',
    'automations/a0/automation.json: name is required',
    LIMITS.inputIssues,
  ],
];

for (const [name, automations, path, message, issues] of REFUSED) {
  test(`refused: ${name}`, async () => {
    const error = await refused(automations);
    assert.equal(error.path, path);
    assert.ok(error.message.startsWith(message), error.message);
    assert.equal(error.issues?.length, issues);
    assert.equal(error.issues?.[0]?.path, path);
  });
}

test('refused: no handler', async () => {
  const error = await refused({}, {}, { [FILE]: automation() });
  assert.equal(error.path, 'automations/daily/handler.js');
});

test('a pending webhook is minted in the stored file, and its secret is returned once', async () => {
  const { folders, minted } = await stored({ daily: hook(), quiet: automation() });
  const [webhook, ...others] = minted;
  const secret = webhook && 'secret' in webhook ? webhook.secret : '';
  assert.ok(webhook !== undefined && others.length === 0, JSON.stringify(minted));
  assert.match(webhook.webhookId, /^[0-9a-f]{24}$/);
  assert.match(secret, /^[0-9a-f]{48}$/);
  assert.equal(webhook.automationId, 'daily');
  const secretHash = createHash('sha256').update(secret).digest('hex');
  assert.deepEqual(read(folders).triggers, [{ kind: 'webhook', id: webhook.webhookId, secretHash }]);
  assert.equal(readFileSync(fileOf(folders, 'quiet'), 'utf8'), automation());
  assert.deepEqual(JSON.parse(readFileSync(join(folders.prepared, 'automations.json'), 'utf8')), {
    daily: { enabled: true },
    quiet: { enabled: true },
  });
});

test('the key of one that is signed is as Standard Webhooks writes it', async () => {
  const { minted } = await stored({ daily: automation({ triggers: [{ ...PENDING, signing: true }] }) });
  const [webhook] = minted;
  const key = webhook && 'secret' in webhook ? webhook.secret : '';
  assert.match(key, /^whsec_[A-Za-z0-9+/]{32}$/);
  assert.equal(Buffer.from(key.slice(6), 'base64').length, 24);
});

test('a push does not change an address, and has no secret to say', async () => {
  const first = await stored({ daily: hook() });
  const second = await stored({ daily: hook({ name: 'New' }) }, { active: first.folders });
  assert.deepEqual(second.minted, []);
  assert.deepEqual(read(second.folders).triggers, read(first.folders).triggers);
  const signed = await stored(
    { daily: automation({ triggers: [{ ...PENDING, signing: true }] }) },
    { active: second.folders },
  );
  assert.equal(signed.minted.length, 1, 'one that is signed needs a key');
});

test('a webhook of a verified sender has an address without a secret, and keeps it however it is verified', async () => {
  const verified = (verify: string) => automation({ triggers: [{ ...PENDING, verify, secret: 'KEY' }] });
  const first = await stored({ daily: verified('github') });
  const webhookId = first.minted[0]?.webhookId ?? '';
  assert.deepEqual(first.minted, [{ automationId: 'daily', webhookId, secretName: 'KEY' }]);
  const trigger = { kind: 'webhook', id: webhookId, verify: 'github', secret: 'KEY' };
  assert.deepEqual(read(first.folders).triggers, [trigger]);
  const second = await stored({ daily: verified('stripe') }, { active: first.folders });
  assert.deepEqual([second.minted, read(second.folders).triggers], [[], [{ ...trigger, verify: 'stripe' }]]);
  const minted = await stored({ daily: hook() }, { active: second.folders });
  assert.equal(minted.minted.length, 1, 'a minted secret needs another address');
  const again = await stored({ daily: verified('stripe') }, { active: minted.folders });
  assert.equal(again.minted.length, 1, 'and so does one of the app');
});

test('a webhook that was removed comes back with another address, also when its content was stored before', async () => {
  const first = await stored({ daily: hook() });
  const without = await stored({ daily: automation() }, { active: first.folders });
  const again = await stored({ daily: hook() }, { active: without.folders, known: first.known });
  assert.notEqual(again.minted[0]?.webhookId, first.minted[0]?.webhookId);
  // With its address active, the same content is the same version.
  const { result } = await take({ daily: hook() }, { active: again.folders, known: [...again.known, ...first.known] });
  assert.deepEqual(result, { known: again.summary.versionId });
});

test('content whose automation was damaged on disk is stored again', async () => {
  const first = await stored({ daily: automation() });
  const { result } = await take({ daily: automation() }, { active: first.folders, known: first.known });
  assert.deepEqual(result, { known: first.summary.versionId });
  writeFileSync(fileOf(first.folders), '{');
  await stored({ daily: automation() }, { active: first.folders, known: first.known });
});

test('a user’s switch stays until an upload changes it', async () => {
  const first = await stored({ daily: automation() });
  toggle(first.folders, false);
  const second = await stored({ daily: automation({ name: 'B' }) }, { active: first.folders });
  assert.equal(read(second.folders).enabled, false);
  const third = await stored({ daily: automation({ name: 'C' }) }, { active: second.folders });
  assert.equal(read(third.folders).enabled, false);
  const off = await stored({ daily: automation({ enabled: false }) }, { active: third.folders });
  const on = await stored({ daily: automation({ name: 'D' }) }, { active: off.folders });
  assert.equal(read(on.folders).enabled, undefined);
});

test('output schemas are compiled beside those of the tools', async () => {
  const outputSchema = { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] };
  const { folders } = await stored({ daily: automation({ outputSchema }), constructor: automation({ outputSchema }) });
  const { automations } = loadValidators(readFileSync(join(folders.prepared, 'validators.js'), 'utf8'));
  assert.deepEqual(Object.keys(automations), ['constructor', 'daily']);
  assert.equal(automations.daily?.({ count: 1 }), true);
  assert.equal(automations.daily?.({}), false);
});
