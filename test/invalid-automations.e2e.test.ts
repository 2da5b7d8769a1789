/**
 * Uploads whose automations are wrong: refused with the code and the field, without leftovers (specification,
 * "Automation files").
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import AUTOMATION_SCHEMA from '../schemas/automation.schema.json' with { type: 'json' };
import { appOf, automation } from '../testing/apps.ts';
import { eventually, gatewayOfSuite, onEachStore } from '../testing/edges.ts';
import { only, post, push, runsOf } from '../testing/runs.ts';

type Members = Record<string, unknown>;
type Case = [name: string, file: string | Members, code: string, field: string];

const HASH = 'a'.repeat(64);
const SLUG = 'a'.repeat(24);
const cron = (members: Members | string) => ({
  triggers: [{ kind: 'cron', ...(typeof members === 'string' ? { expr: members } : members) }],
});
const webhook = (...triggers: Members[]) => ({
  triggers: triggers.map((members) => ({ kind: 'webhook', ...members })),
});

const CASES: Case[] = [
  ['no JSON', '{"name": ', 'invalid_json', ''],
  ['an empty file', '', 'invalid_json', ''],
  ['no object', '[]', 'invalid_field', ''],
  ['more than 64 KiB', { description: 'x'.repeat(65_536) }, 'invalid_field', ''],
  ['no name', { name: undefined }, 'missing_field', 'name'],
  ['an empty name', { name: ' ' }, 'missing_field', 'name'],
  ['a name that is not a text', { name: 7 }, 'invalid_field', 'name'],
  ['an empty version', { version: '' }, 'invalid_field', 'version'],
  ['a version that is a number', { version: 1 }, 'invalid_field', 'version'],
  ['a description that is not a text', { description: [] }, 'invalid_field', 'description'],
  ['no prompt', { prompt: undefined }, 'missing_field', 'prompt'],
  ['an empty prompt', { prompt: '' }, 'missing_field', 'prompt'],
  ['"enabled" as text', { enabled: 'false' }, 'invalid_field', 'enabled'],
  ['triggers that are not a list', { triggers: {} }, 'invalid_field', 'triggers'],
  ['too many triggers', { triggers: Array(11).fill({ kind: 'cron', expr: '* * * * *' }) }, 'invalid_field', 'triggers'],
  ['a trigger that is not an object', { triggers: ['cron'] }, 'invalid_trigger', 'triggers[0]'],
  ['a trigger of an unknown kind', { triggers: [{ kind: 'mail' }] }, 'invalid_trigger', 'triggers[0].kind'],
  ['cron without an expression', cron({}), 'invalid_trigger', 'triggers[0].expr'],
  ['cron that cannot be read', cron('every day'), 'invalid_trigger', 'triggers[0].expr'],
  ['cron with four fields', cron('* * * *'), 'invalid_trigger', 'triggers[0].expr'],
  ['cron with seven fields', cron('* * * * * * *'), 'invalid_trigger', 'triggers[0].expr'],
  ['a minute 60', cron('60 * * * *'), 'invalid_trigger', 'triggers[0].expr'],
  ['a day that never occurs', cron('0 0 30 2 *'), 'invalid_trigger', 'triggers[0].expr'],
  ['a date instead of cron', cron('2030-01-01T00:00:00'), 'invalid_trigger', 'triggers[0].expr'],
  ['an unknown time zone', cron({ expr: '0 8 * * *', tz: 'Mars/Olympus' }), 'invalid_trigger', 'triggers[0].tz'],
  ['"catchUp" as a number', cron({ expr: '0 8 * * *', catchUp: 1 }), 'invalid_field', 'triggers[0].catchUp'],
  ['a webhook without anything', webhook({}), 'invalid_trigger', 'triggers[0].pending'],
  ['a short slug', webhook({ id: 'abc', secretHash: HASH }), 'invalid_trigger', 'triggers[0].id'],
  ['a slug that is a path', webhook({ id: `../${SLUG}`, secretHash: HASH }), 'invalid_trigger', 'triggers[0].id'],
  ['a slug without a hash', webhook({ id: SLUG }), 'invalid_trigger', 'triggers[0].secretHash'],
  ['an invalid hash', webhook({ id: SLUG, secretHash: 'x' }), 'invalid_trigger', 'triggers[0].secretHash'],
  [
    'pending beside an address',
    webhook({ pending: true, id: SLUG, secretHash: HASH }),
    'invalid_trigger',
    'triggers[0].pending',
  ],
  [
    'an unknown service',
    webhook({ pending: true, verify: 'x', secret: 'KEY' }),
    'invalid_trigger',
    'triggers[0].verify',
  ],
  ['a service without a secret', webhook({ pending: true, verify: 'github' }), 'invalid_trigger', 'triggers[0].secret'],
  [
    'a hash that no sender should use',
    webhook({ pending: true, verify: { header: 'X-Mac', algorithm: 'md5', encoding: 'hex' }, secret: 'KEY' }),
    'invalid_trigger',
    'triggers[0].verify.algorithm',
  ],
  ['two webhooks', webhook({ pending: true }, { pending: true }), 'invalid_trigger', 'triggers[1]'],
  [
    'the old and the new form at once',
    { trigger: { kind: 'cron', expr: '* * * * *' }, triggers: [] },
    'invalid_trigger',
    'trigger',
  ],
  ['an invalid old form', { trigger: { kind: 'cron', expr: 'x' } }, 'invalid_trigger', 'trigger.expr'],
  ['"requires" as a list', { requires: [] }, 'invalid_field', 'requires'],
  ['tools that are not texts', { requires: { tools: ['svc_read', 1] } }, 'invalid_field', 'requires.tools[1]'],
  ['MCP servers that are no list', { requires: { mcps: 'github' } }, 'invalid_field', 'requires.mcps'],
  ['a model without its provider', { requires: { model: 'gpt' } }, 'invalid_field', 'requires.model'],
  ['the mock provider', { requires: { model: 'svc-mock/echo' } }, 'mock_model_disallowed', 'requires.model'],
  ['the mock provider alone', { requires: { model: 'svc-mock' } }, 'mock_model_disallowed', 'requires.model'],
  ['an app that is not an id', { apps: ['ok', '../up'] }, 'invalid_field', 'apps[1]'],
  ['a cost below zero', { costEstimate: { tokensPerFire: -1 } }, 'invalid_field', 'costEstimate.tokensPerFire'],
  ['an output schema of a list', { outputSchema: { type: 'array' } }, 'invalid_output_schema', 'outputSchema.type'],
  ['an output schema as text', { outputSchema: 'object' }, 'invalid_output_schema', 'outputSchema'],
  [
    'wrong "properties"',
    { outputSchema: { type: 'object', properties: [] } },
    'invalid_output_schema',
    'outputSchema.properties',
  ],
  [
    'wrong "required"',
    { outputSchema: { type: 'object', required: [1] } },
    'invalid_output_schema',
    'outputSchema.required[0]',
  ],
  [
    'a property that is not a schema',
    { outputSchema: { type: 'object', properties: { n: { type: 'nummer' } } } },
    'invalid_output_schema',
    'outputSchema',
  ],
  ['a handle that is a path', { onFailure: '../x' }, 'invalid_on_failure', 'onFailure'],
  ['a handle of three parts', { onFailure: 'a/b/c' }, 'invalid_on_failure', 'onFailure'],
  ['a history as text', { history: 'all' }, 'invalid_field', 'history'],
  ['a history of nothing', { history: { keep: { count: 0 } } }, 'invalid_history', 'history.keep'],
  ['a history of two rules', { history: { keep: { count: 1, days: 1 } } }, 'invalid_history', 'history.keep'],
  ['a history of an unknown rule', { history: { keep: 'some' } }, 'invalid_history', 'history.keep'],
  ['an empty author', { generated: {} }, 'missing_field', 'generated.by'],
  ['no time of creation', { generated: { by: 'hand' } }, 'missing_field', 'generated.at'],
  ['an invalid time', { generated: { by: 'hand', at: 'yesterday' } }, 'invalid_field', 'generated.at'],
  ['a day that does not exist', { generated: { by: 'hand', at: '2026-02-30' } }, 'invalid_field', 'generated.at'],
];

/** The paths of the fields that an editor marks in a file, by the published schema. */
const editor = new Ajv2020({ allErrors: true, strict: false }).compile(AUTOMATION_SCHEMA);
function markedBy(text: string): string[] {
  editor(JSON.parse(text));
  return (editor.errors ?? []).map(({ instancePath, params }) =>
    `${instancePath}${params.missingProperty === undefined ? '' : `/${params.missingProperty}`}`
      .slice(1)
      .replaceAll(/\/(\d+)/g, '[$1]')
      .replaceAll('/', '.'),
  );
}
/** Cases that a schema cannot detect. */
const BEYOND_SCHEMA = new Set([
  'cron that cannot be read',
  'cron with four fields',
  'cron with seven fields',
  'a minute 60',
  'a day that never occurs',
  'a date instead of cron',
  'an unknown time zone',
  'an invalid old form',
  'a property that is not a schema',
  'a day that does not exist',
]);

const gateway = gatewayOfSuite({});

describe('an upload with an automation that has', () => {
  const files = (file: string | Members) => ({
    ...appOf('wrong'),
    'automations/bad/automation.json': typeof file === 'string' ? file : automation(file),
    'automations/bad/handler.js': 'export default () => ({});\n',
  });

  for (const [name, file, code, field] of CASES) {
    test(name, async () => {
      const answer = await gateway.upload('wrong', files(file));
      assert.equal(answer.status, 400, answer.text);
      const { error } = answer.json;
      const path = `automations/bad/automation.json${field === '' ? '' : `#${field}`}`;
      assert.deepEqual([error.code, error.path], ['INVALID_AUTOMATION', path], answer.text);
      assert.deepEqual([error.issues[0].path, error.issues[0].keyword], [path, code], answer.text);
      assert.ok(error.message.endsWith(`(${code}).`) && error.message.includes(field), error.message);
      assert.doesNotMatch(answer.text, /\/tmp|svc-test|\.[jt]s:\d/);
      assert.equal((await gateway.call('GET', '/svc/_apps/wrong')).json.error.code, 'UNKNOWN_APP');
      assert.deepEqual(
        [readdirSync(join(gateway.dataDir, 'apps')), readdirSync(join(gateway.dataDir, 'tmp'))],
        [['_registry.json'], []],
      );
      if (typeof file === 'string' || name === 'more than 64 KiB') return;
      const marked = markedBy(automation(file));
      if (BEYOND_SCHEMA.has(name)) assert.deepEqual(marked, []);
      else
        assert.ok(
          marked.some(
            (mark) =>
              mark !== '' && (field === mark || (/^[.[]/.test(field.slice(mark.length)) && field.startsWith(mark))),
          ),
          `an editor marks ${marked}`,
        );
    });
  }

  for (const [name, more, path, code] of [
    [
      'no handler',
      { 'automations/lone/automation.json': automation() },
      'automations/lone/handler.js',
      'missing_field',
    ],
    [
      'a name that is not an id',
      { 'automations/_x/automation.json': automation(), 'automations/_x/handler.js': '' },
      'automations/_x/automation.json',
      'invalid_field',
    ],
  ] as const) {
    test(name, async () => {
      const answer = await gateway.upload('wrong', { ...appOf('wrong'), ...more });
      const { error } = answer.json;
      assert.deepEqual(
        [answer.status, error.code, error.path, error.issues[0].keyword],
        [400, 'INVALID_AUTOMATION', path, code],
      );
    });
  }

  test('several faults: path names the first in the order of the table, issues lists all', async () => {
    const answer = await gateway.upload('wrong', {
      ...files({ name: '', prompt: '', triggers: [{ kind: 'cron', expr: 'x' }], history: { keep: 1 }, onFailure: '/' }),
      'automations/also/automation.json': automation({ name: 1 }),
      'automations/also/handler.js': '',
    });
    const fields = answer.json.error.issues.map(({ path }: { path: string }) => path.replace('automation.json', ''));
    const bad = ['name', 'prompt', 'triggers[0].expr', 'onFailure', 'history.keep'].map(
      (field) => `automations/bad/#${field}`,
    );
    assert.deepEqual(fields, ['automations/also/#name', ...bad]);
  });
});

test('a refused upload does not change the live version, its schedule and its webhook', async () => {
  const triggers = [
    { kind: 'cron', expr: '* * * * * *' },
    { kind: 'webhook', pending: true },
  ];
  await push(gateway, 'steady', { automations: { fine: { triggers, run: '() => ({})' } } });
  const file = () => {
    const { activeVersion } = JSON.parse(readFileSync(join(gateway.dataDir, 'apps/steady/current.json'), 'utf8'));
    return readFileSync(
      join(gateway.dataDir, 'apps/steady/versions', activeVersion, 'automations/fine/automation.json'),
      'utf8',
    );
  };
  const before = [file(), readdirSync(join(gateway.dataDir, 'apps/steady/versions'))];
  const refused = appOf('steady', {
    automations: {
      fine: { triggers: [{ kind: 'webhook', pending: true }], run: '() => ({})' },
      bad: { name: '', run: '() => ({})' },
    },
  });
  assert.equal((await gateway.upload('steady', refused)).status, 400);
  assert.deepEqual([file(), readdirSync(join(gateway.dataDir, 'apps/steady/versions'))], before);
  const [latest] = await runsOf(gateway, 'steady/fine');
  await eventually(async () => (await runsOf(gateway, 'steady/fine'))[0]?.runId !== latest?.runId);
});

onEachStore({}, (own) => {
  test('the address of a webhook stays with its app, also when a copy of the app is pushed', async () => {
    const hook = (triggers: Members[]) => ({ automations: { in: { triggers, run: '() => ({})' } } });
    const minted = only(await push(own, 'first', hook([{ kind: 'webhook', pending: true }])));
    const claim = { kind: 'webhook', id: minted.webhookId, secretHash: HASH };
    // The first ref of those that claim an address would get the posts.
    for (const id of ['copy', 'other']) {
      const answer = await own.upload(id, appOf(id, hook([claim])));
      const path = 'automations/in/automation.json#triggers[0].id';
      assert.deepEqual(
        [answer.status, answer.json.error?.code, answer.json.error?.path],
        [400, 'INVALID_AUTOMATION', path],
      );
      assert.equal((await own.call('GET', `/svc/_apps/${id}`)).status, 404);
    }
    assert.equal((await post(own, minted)).status, 200);
    assert.equal((await runsOf(own, 'first/in')).length, 1);
    // Its own address may be written out, and is free once the app is gone.
    await push(own, 'first', hook([claim]));
    assert.equal((await own.call('DELETE', '/svc/_apps/first')).status, 200);
    await push(own, 'copy', hook([claim]));
    assert.equal((await own.call('DELETE', '/svc/_apps/copy')).status, 200);
  });

  test(`a file automations/<name>.json is reported in the list of automations, until it is moved`, async () => {
    const flat = { 'automations/daily.json': automation(), 'automations/odd name.json': '{}' };
    assert.equal((await own.upload('flat', { ...appOf('flat'), ...flat })).status, 201);
    const listed = async () => (await own.call('GET', '/svc/_automations')).json;
    const fault = (name: string) => ({
      ref: `flat/${name}`,
      code: 'flat_file',
      path: `automations/${name}.json`,
      message: `automations/${name}.json is not read and never fires: move it to automations/${name}/automation.json, with a handler.js beside it.`,
    });
    const faults = { rows: [], errors: [fault('daily'), fault('odd name')], total: 0 };
    assert.deepEqual(await listed(), faults);
    await own.kill();
    await own.start();
    assert.deepEqual(await listed(), faults);
    const moved = appOf('flat', { automations: { daily: '() => ({})' } });
    const more = await own.upload('flat', { ...moved, 'automations/old.json': '{}' });
    assert.equal(more.status, 201);
    const { rows, errors } = await listed();
    assert.deepEqual([rows.map(({ ref }: { ref: string }) => ref), errors], [['flat/daily'], [fault('old')]]);
    assert.equal((await own.upload('flat', moved)).status, 201);
    assert.deepEqual((await listed()).errors, []);
  });
});
