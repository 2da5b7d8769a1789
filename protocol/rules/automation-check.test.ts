import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import AUTOMATION_SCHEMA from '../../schemas/automation.schema.json' with { type: 'json' };
import { editAutomation } from '../automations/automation-edit.ts';
import { LIMITS } from '../limits.ts';
import { parseAutomation } from './automation-check.ts';

const NOW = Date.UTC(2026, 0, 1);
const GENERATED = { by: 'hand', at: '2026-01-31T08:00:00Z' };
const LEAST = { name: 'Digest', prompt: 'Sum up the day.', generated: GENERATED };
const ID = '0123456789abcdef01234567';
const HASH = 'a'.repeat(64);
const PENDING = { kind: 'webhook', pending: true };

const HMAC = { header: 'X-Mac', algorithm: 'sha256', encoding: 'hex' };
const verified = (more: object) => ({ triggers: [{ ...PENDING, verify: 'github', secret: 'X', ...more }] });

const parse = (text: string) => parseAutomation(text, { firesAfter: NOW });
const withMembers = (members: object) => JSON.stringify({ ...LEAST, ...members });
const cron = (expr: unknown, more: object = {}) => ({ triggers: [{ kind: 'cron', expr, ...more }] });
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;

/** What is wrong as `code path`, in order. */
function faults(text: string): string[] {
  const result = parse(text);
  return 'issues' in result ? result.issues.map(({ code, path }) => `${code} ${path}`) : [];
}

function manifestOf(members: object) {
  const result = parse(withMembers(members));
  assert.ok('manifest' in result, JSON.stringify(result));
  return result.manifest;
}

const WHOLE: [name: string, text: string, faults: string[]][] = [
  ['nothing', '', ['invalid_json ']],
  ['no JSON', '{"name":', ['invalid_json ']],
  ['a byte order mark', `\uFEFF${withMembers({})}`, ['invalid_json ']],
  ['an array', '[]', ['invalid_field ']],
  ['null', 'null', ['invalid_field ']],
  ['a number', '1', ['invalid_field ']],
  ['too deep', nested(65), ['invalid_field ']],
  ['so deep that a parser may give up', '['.repeat(30_000), ['invalid_json ']],
  ['too large', withMembers({ more: 'x'.repeat(LIMITS.automationBytes) }), ['invalid_field ']],
  ['an empty object', '{}', ['missing_field name', 'missing_field prompt']],
  ['names under __proto__', `{"__proto__": ${JSON.stringify(LEAST)}}`, ['missing_field name', 'missing_field prompt']],
  [
    'everything wrong, in the order of the fields',
    JSON.stringify({
      generated: { at: 'yesterday' },
      history: { keep: 'some' },
      onFailure: 'a/b/c',
      outputSchema: { type: 'array' },
      costEstimate: { tokensPerFire: -1, model: '' },
      apps: ['No'],
      requires: { model: 'svc-mock', tools: [''], mcps: 'x' },
      triggers: [{ kind: 'timer' }],
      enabled: 'yes',
      prompt: ' ',
      description: 1,
      version: 1,
      name: 1,
    }),
    [
      'invalid_field name',
      'invalid_field version',
      'invalid_field description',
      'missing_field prompt',
      'invalid_field enabled',
      'invalid_trigger triggers[0].kind',
      'invalid_field requires.mcps',
      'invalid_field requires.tools[0]',
      'mock_model_disallowed requires.model',
      'invalid_field apps[0]',
      'invalid_field costEstimate.model',
      'invalid_field costEstimate.tokensPerFire',
      'invalid_output_schema outputSchema.type',
      'invalid_on_failure onFailure',
      'invalid_history history.keep',
      'missing_field generated.by',
      'invalid_field generated.at',
    ],
  ],
];

/** Members laid over the least file; an empty list means valid. */
const MEMBERS: [members: object, faults: string[]][] = [
  [{}, []],
  [{ name: '' }, ['missing_field name']],
  [{ name: null }, ['invalid_field name']],
  [{ version: '' }, ['invalid_field version']],
  [{ description: '' }, []],
  [{ enabled: 0 }, ['invalid_field enabled']],
  [{ enabled: false }, []],

  [{ triggers: {} }, ['invalid_field triggers']],
  [{ triggers: null }, ['invalid_field triggers']],
  [{ triggers: Array.from({ length: 11 }, () => ({ kind: 'cron', expr: '* * * * *' })) }, ['invalid_field triggers']],
  [
    { triggers: [1, null, []] },
    ['invalid_trigger triggers[0]', 'invalid_trigger triggers[1]', 'invalid_trigger triggers[2]'],
  ],
  [{ triggers: [{}] }, ['invalid_trigger triggers[0].kind']],
  [{ triggers: [{ kind: 'constructor' }] }, ['invalid_trigger triggers[0].kind']],
  [{ trigger: { kind: 'cron', expr: 'x' } }, ['invalid_trigger trigger.expr']],
  [{ trigger: 'cron' }, ['invalid_trigger trigger']],
  [{ trigger: PENDING, triggers: [] }, ['invalid_trigger trigger']],

  [cron('* * * * *'), []],
  [cron('*/10 * * * * *'), []],
  [cron('0 9 * * MON-FRI', { tz: 'Europe/Berlin', catchUp: true }), []],
  [cron('0 0 L * *'), []],
  [cron('0 0 * * FRI#2'), []],
  [cron('@daily'), []],
  [cron('0 0 29 2 *'), []],
  [cron(undefined), ['invalid_trigger triggers[0].expr']],
  [cron(5), ['invalid_trigger triggers[0].expr']],
  [cron(''), ['invalid_trigger triggers[0].expr']],
  [cron('* * * *'), ['invalid_trigger triggers[0].expr']],
  [cron('* * * * * * 2050'), ['invalid_trigger triggers[0].expr']],
  [cron('60 * * * *'), ['invalid_trigger triggers[0].expr']],
  [cron('*/0 * * * *'), ['invalid_trigger triggers[0].expr']],
  [cron('2030-01-01T00:00:00'), ['invalid_trigger triggers[0].expr']],
  [cron('@reboot'), ['invalid_trigger triggers[0].expr']],
  [cron('0 0 30 2 *'), ['invalid_trigger triggers[0].expr']],
  [cron(`${'1,'.repeat(200)}1 * * * *`), ['invalid_trigger triggers[0].expr']],
  [cron('* * * * *', { tz: 'Europe/Atlantis' }), ['invalid_trigger triggers[0].tz']],
  [cron('* * * * *', { tz: 'x'.repeat(300) }), ['invalid_trigger triggers[0].tz']],
  [cron('* * * * *', { tz: 2 }), ['invalid_field triggers[0].tz']],
  [cron('* * * * *', { tz: '' }), ['invalid_field triggers[0].tz']],
  [cron('* * * * *', { catchUp: 1 }), ['invalid_field triggers[0].catchUp']],

  [{ triggers: [PENDING] }, []],
  [{ triggers: [{ ...PENDING, signing: true }] }, []],
  [{ triggers: [{ ...PENDING, signing: 'yes' }] }, ['invalid_field triggers[0].signing']],
  [{ triggers: [{ kind: 'webhook' }] }, ['invalid_trigger triggers[0].pending']],
  [{ triggers: [{ kind: 'webhook', pending: false }] }, ['invalid_trigger triggers[0].pending']],
  [{ triggers: [{ kind: 'webhook', id: ID, secretHash: HASH }] }, []],
  [{ triggers: [{ ...PENDING, id: ID, secretHash: HASH }] }, ['invalid_trigger triggers[0].pending']],
  [{ triggers: [{ kind: 'webhook', id: ID }] }, ['invalid_trigger triggers[0].secretHash']],
  [{ triggers: [{ kind: 'webhook', id: ID.toUpperCase(), secretHash: HASH }] }, ['invalid_trigger triggers[0].id']],
  [
    { triggers: [{ kind: 'webhook', id: '../../etc', secretHash: 'x' }] },
    ['invalid_trigger triggers[0].id', 'invalid_trigger triggers[0].secretHash'],
  ],

  ...(['bearer', 'standard', 'github', 'stripe', 'slack', HMAC, { ...HMAC, prefix: '' }] as const).flatMap(
    (verify): [object, string[]][] => [
      [{ triggers: [{ ...PENDING, verify, secret: 'GITHUB_SECRET' }] }, []],
      [{ triggers: [{ kind: 'webhook', id: ID, verify, secret: '_a1' }] }, []],
    ],
  ),
  [verified({ signing: false }), []],
  [verified({ verify: 'gitlab' }), ['invalid_trigger triggers[0].verify']],
  [verified({ verify: 'GitHub' }), ['invalid_trigger triggers[0].verify']],
  [verified({ verify: null }), ['invalid_trigger triggers[0].verify']],
  [verified({ verify: [] }), ['invalid_trigger triggers[0].verify']],
  [
    verified({ verify: {} }),
    ['header', 'algorithm', 'encoding'].map((name) => `invalid_trigger triggers[0].verify.${name}`),
  ],
  [verified({ verify: { ...HMAC, header: 'X Mac' } }), ['invalid_trigger triggers[0].verify.header']],
  [verified({ verify: { ...HMAC, header: '' } }), ['invalid_trigger triggers[0].verify.header']],
  [verified({ verify: { ...HMAC, algorithm: 'md5' } }), ['invalid_trigger triggers[0].verify.algorithm']],
  [verified({ verify: { ...HMAC, algorithm: 'SHA256' } }), ['invalid_trigger triggers[0].verify.algorithm']],
  [verified({ verify: { ...HMAC, encoding: 'base64url' } }), ['invalid_trigger triggers[0].verify.encoding']],
  [verified({ verify: { ...HMAC, prefix: 1 } }), ['invalid_trigger triggers[0].verify.prefix']],
  [verified({ verify: { ...HMAC, prefix: 'x'.repeat(65) } }), ['invalid_trigger triggers[0].verify.prefix']],
  [verified({ verify: { ...HMAC, prefix: 'ä' } }), ['invalid_trigger triggers[0].verify.prefix']],
  [verified({ verify: { ...HMAC, secret: 'X' } }), ['invalid_trigger triggers[0].verify']],
  [verified({ signing: true }), ['invalid_trigger triggers[0].signing']],
  [{ triggers: [{ ...PENDING, verify: 'github' }] }, ['invalid_trigger triggers[0].secret']],
  [{ triggers: [{ ...PENDING, secret: 'X' }] }, ['invalid_trigger triggers[0].verify']],
  [verified({ secret: '' }), ['invalid_trigger triggers[0].secret']],
  [verified({ secret: '1A' }), ['invalid_trigger triggers[0].secret']],
  [verified({ secret: 'a-b' }), ['invalid_trigger triggers[0].secret']],
  [verified({ secret: 'x'.repeat(65) }), ['invalid_trigger triggers[0].secret']],
  [
    { triggers: [{ kind: 'webhook', id: ID, secretHash: HASH, verify: 'slack', secret: 'X' }] },
    ['invalid_trigger triggers[0].secretHash'],
  ],
  [{ triggers: [PENDING, { kind: 'cron', expr: '* * * * *' }, PENDING] }, ['invalid_trigger triggers[2]']],

  [{ requires: [] }, ['invalid_field requires']],
  [{ requires: { mcps: ['mail'], tools: ['svc_read', 'mail.send'], model: 'openai/gpt-5' } }, []],
  [{ requires: { tools: [1] } }, ['invalid_field requires.tools[0]']],
  [{ requires: { model: 'gpt' } }, ['invalid_field requires.model']],
  [{ requires: { model: '/x' } }, ['invalid_field requires.model']],
  [{ requires: { model: 'a/b/c' } }, []],
  [{ requires: { model: 'svc-mock/any' } }, ['mock_model_disallowed requires.model']],
  [{ requires: { model: 'SVC-MOCK/any' } }, ['mock_model_disallowed requires.model']],
  [{ requires: { model: 'svc-mocks/any' } }, []],

  [{ apps: 'todos' }, ['invalid_field apps']],
  [{ apps: ['todos', '_svc', '../x'] }, ['invalid_field apps[1]', 'invalid_field apps[2]']],
  [{ costEstimate: 1 }, ['invalid_field costEstimate']],
  [{ costEstimate: { tokensPerFire: '1' } }, ['invalid_field costEstimate.tokensPerFire']],
  [{ costEstimate: { tokensPerFire: 0, model: 'x' } }, []],

  [{ outputSchema: { type: 'object' } }, []],
  [{ outputSchema: { type: 'object', properties: { a: { type: 'number' }, b: true }, required: ['a'] } }, []],
  [{ outputSchema: true }, ['invalid_output_schema outputSchema']],
  [{ outputSchema: null }, ['invalid_output_schema outputSchema']],
  [{ outputSchema: {} }, ['invalid_output_schema outputSchema.type']],
  [{ outputSchema: { type: ['object'] } }, ['invalid_output_schema outputSchema.type']],
  [{ outputSchema: { type: 'object', properties: [] } }, ['invalid_output_schema outputSchema.properties']],
  [{ outputSchema: { type: 'object', properties: { a: 1 } } }, ['invalid_output_schema outputSchema.properties.a']],
  [{ outputSchema: { type: 'object', required: 'a' } }, ['invalid_output_schema outputSchema.required']],
  [{ outputSchema: { type: 'object', required: ['a', 1] } }, ['invalid_output_schema outputSchema.required[1]']],

  [{ onFailure: 'alert' }, []],
  [{ onFailure: 'ops/alert' }, []],
  [{ onFailure: '' }, ['invalid_on_failure onFailure']],
  [{ onFailure: '../alert' }, ['invalid_on_failure onFailure']],
  [{ onFailure: 'Ops/alert' }, ['invalid_on_failure onFailure']],
  [{ onFailure: ['alert'] }, ['invalid_on_failure onFailure']],

  [{ history: {} }, []],
  [{ history: 'all' }, ['invalid_field history']],
  ...['all', 'errors', { count: 1 }, { days: 30 }].map((keep): [object, string[]] => [{ history: { keep } }, []]),
  ...[
    null,
    100,
    'none',
    [],
    {},
    { count: 0 },
    { count: 1.5 },
    { count: '1' },
    { days: -1 },
    { count: 1, days: 1 },
    { weeks: 1 },
  ].map((keep): [object, string[]] => [{ history: { keep } }, ['invalid_history history.keep']]),

  [{ generated: undefined }, []],
  [{ generated: {} }, ['missing_field generated.by', 'missing_field generated.at']],
  [{ generated: null }, ['invalid_field generated']],
  [{ generated: 'hand' }, ['invalid_field generated']],
  [{ generated: { by: 'hand' } }, ['missing_field generated.at']],
  ...['2026-01-31', '2026-01-31T08:00', '2026-01-31T08:00:00.123+01:00', '2024-02-29T00:00:00+0100'].map(
    (at): [object, string[]] => [{ generated: { by: 'hand', at } }, []],
  ),
  ...[
    'yesterday',
    '2026-02-30',
    '2026-13-01T00:00:00Z',
    '2026-01-31T25:00:00Z',
    '31.01.2026',
    '1769846400',
    '2026-01-31 08:00',
  ].map((at): [object, string[]] => [{ generated: { by: 'hand', at } }, ['invalid_field generated.at']]),
  [{ generated: { by: 'hand', at: 1769846400000 } }, ['invalid_field generated.at']],
];

for (const [name, text, expected] of WHOLE) test(name, () => assert.deepEqual(faults(text), expected));

for (const [members, expected] of MEMBERS) {
  const text = withMembers(members);
  test(text.slice(JSON.stringify(LEAST).length - 1, 160), () => assert.deepEqual(faults(text), expected));
}

const takes = new Ajv2020({ strict: false }).compile(AUTOMATION_SCHEMA);

/** What a JSON Schema cannot say: which expressions are cron's and fire, which zones and days there are. */
const BEYOND_SCHEMA = /^invalid_trigger triggers?(\[0\])?\.(expr|tz)$|^invalid_field generated\.at$/;

test('the published schema accepts and refuses the same files as the check', () => {
  for (const [members, expected] of MEMBERS) {
    const text = withMembers(members);
    const isTaken = takes(JSON.parse(text));
    if (expected.length === 0) assert.ok(isTaken, `${text}: ${JSON.stringify(takes.errors)}`);
    else if (!expected.every((fault) => BEYOND_SCHEMA.test(fault))) assert.ok(!isTaken, `the schema takes ${text}`);
  }
  for (const [name, text] of WHOLE.filter(([, , [fault]]) => fault !== 'invalid_json ')) {
    if (!/^too/.test(name)) assert.ok(!takes(JSON.parse(text)), name);
  }
});

test('a file may name its schema', () => {
  assert.ok('manifest' in parse(withMembers({ $schema: '../../schemas/automation.schema.json' })));
});

test('absent members get their defaults', () => {
  assert.deepEqual(manifestOf({}), {
    name: 'Digest',
    version: '0.1.0',
    prompt: 'Sum up the day.',
    enabled: true,
    triggers: [],
    requires: {},
    history: { keep: { count: 100 } },
    generated: GENERATED,
  });
});

test('a file that does not say who wrote it was written by hand, at its own time', () => {
  const text = JSON.stringify({ name: 'Digest', prompt: 'Sum up the day.' });
  const parsed = parseAutomation(text, { firesAfter: NOW, writtenAt: Date.UTC(2026, 0, 31, 8) });
  assert.ok('manifest' in parsed);
  assert.deepEqual(parsed.manifest.generated, { by: 'hand', at: '2026-01-31T08:00:00.000Z' });
});

test('the old form is one trigger', () => {
  assert.deepEqual(manifestOf({ trigger: PENDING }).triggers, [PENDING]);
});

test('a member called __proto__ changes nothing', () => {
  const { manifest } = parse(`{"__proto__": {"enabled": false}, ${withMembers({}).slice(1)}`) as { manifest: object };
  assert.deepEqual(manifest, manifestOf({}));
  assert.equal((Object.prototype as { enabled?: unknown }).enabled, undefined);
});

test('an expression that never fires again is only looked for where that is asked', () => {
  assert.ok('manifest' in parseAutomation(withMembers(cron('0 0 30 2 *')), { firesAfter: null }), 'it is refused');
});

test('every message reads as a sentence behind the name of its field', () => {
  for (const [members] of MEMBERS) {
    const result = parse(withMembers(members));
    for (const { message } of 'issues' in result ? result.issues : [])
      assert.match(message, /^(?:is|must|may|asks|never) /);
  }
});

test('an edit keeps unknown members, their order and the indentation, and rewrites the old form', () => {
  const text = `{\n    "x-first": {"b": 1, "a": [1]},\n    "__proto__": 1,\n    "trigger": {"x": 1, "kind": "webhook", "pending": true, "signing": true},\n    "enabled": true,\n    "last": null\n}\n`;
  const edited = editAutomation(text, { enabled: false, webhook: { id: ID, secretHash: HASH } });
  assert.equal(
    edited,
    `${JSON.stringify(
      JSON.parse(
        `{"x-first": {"b": 1, "a": [1]}, "__proto__": 1, "triggers": [{"x": 1, "kind": "webhook", "id": "${ID}", "secretHash": "${HASH}", "signing": true}], "enabled": false, "last": null}`,
      ),
      null,
      4,
    )}\n`,
  );
});

test('an edit adds missing members and changes no other trigger', () => {
  const triggers = [
    { kind: 'cron', expr: '* * * * *' },
    { kind: 'webhook', id: ID, secretHash: HASH },
  ];
  const edited = editAutomation(withMembers({ triggers }), {
    enabled: false,
    webhook: { id: 'b'.repeat(24), secretHash: HASH },
  });
  assert.equal(edited, JSON.stringify({ ...LEAST, triggers, enabled: false }));
});

test('a webhook of a verified sender gets an address and no hash, and keeps how it is verified', () => {
  const text = withMembers(verified({ verify: HMAC }));
  const edited = editAutomation(text, { webhook: { id: ID, secretHash: HASH } });
  const trigger = { kind: 'webhook', id: ID, verify: HMAC, secret: 'X' };
  assert.equal(edited, JSON.stringify({ ...LEAST, triggers: [trigger] }));
  assert.deepEqual(manifestOf(JSON.parse(edited)).triggers, [trigger]);
  const renewed = editAutomation(edited, { webhook: { id: 'b'.repeat(24) }, renew: true });
  assert.deepEqual(manifestOf(JSON.parse(renewed)).triggers, [{ ...trigger, id: 'b'.repeat(24) }]);
});

test('an edit gives up indentation before it makes a file too large', () => {
  const list = Array.from({ length: 12_000 }, () => 0);
  const text = JSON.stringify({ ...LEAST, list }).replace('{', '{\n        ');
  const edited = editAutomation(text, { enabled: false });
  assert.equal(edited, JSON.stringify({ ...LEAST, list, enabled: false }));
});
