/** Schemas of contracts: refused with the field, or usable; a pattern that never ends holds its own app, until the deadline. */
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { appOf } from '../../../testing/apps.ts';
import { type OpenJobs, openJobs } from '../../../testing/jobs.ts';
import { ROOT } from '../../servers.ts';
import { jsonObject, jsonValue, schemasOf } from '../arbitraries.ts';
import { type FuzzedGateway, startFuzzed } from '../gateway.ts';
import { refusalOf } from '../oracle.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const APP = 'evil';
const TIMEOUT_MS = 300;
/** The deadline, the time to find that the thread does not react, and a slow machine's share. */
const CALL_MS = 20_000;

const PATTERNS = [...words.patterns, '(?:)'.repeat(2000), '('.repeat(500) + ')'.repeat(500)];
const REFS = [...words.references, '#/$defs/a/'.repeat(50)];

const NAMES = ['a', 'b', '__proto__', 'constructor', 'toString', '', '/', '~', '$ref', '"', '\\', '\u2028', 'a`b'];
const TYPES = ['object', 'array', 'integer', 'number'];
const count = fc.constantFrom(0, 1, 2, -1, 1.5, 1e308, 2 ** 53, '1');

const schema = schemasOf((one) => [
  [['properties', '$defs', 'dependentSchemas', 'definitions'], jsonObject(one, fc.constantFrom(...NAMES))],
  [['allOf', 'anyOf', 'oneOf', 'prefixItems'], fc.array(one, { maxLength: 3 })],
  [words.schemaKeywords, one],
  [['patternProperties'], jsonObject(one, fc.constantFrom(...PATTERNS))],
  [['$ref', '$dynamicRef'], fc.constantFrom(...REFS)],
  [['$id'], fc.constantFrom(...words.schemaIds)],
  [['$anchor', '$dynamicAnchor'], fc.constantFrom('a', 'b', 'x.y', '1', '', '#', '__proto__')],
  [['pattern'], fc.constantFrom(...PATTERNS)],
  [['format'], fc.constantFrom(...words.formats)],
  [
    ['type'],
    fc.oneof(
      fc.constantFrom('object', 'string', 'null', 'text'),
      fc.array(fc.constantFrom(...TYPES), { maxLength: 3 }),
    ),
  ],
  [words.numericKeywords, count],
  [['required', 'enum', 'examples'], fc.array(jsonValue, { maxLength: 4 })],
  [['enum'], fc.nat(3000).map((many) => Array.from({ length: many }, (_, i) => ({ i })))],
  [['required'], fc.array(fc.constantFrom('__proto__', 'constructor', 'a', '', 'a`b', "';"), { maxLength: 3 })],
  [['const', 'default'], jsonValue],
  [['uniqueItems', 'deprecated', '$recursiveAnchor'], fc.boolean()],
  [words.keywords, jsonValue],
]);

/** As large or as tangled as a manifest may be. */
const tangled: fc.Arbitrary<unknown> = fc.oneof(
  fc.integer({ min: 1, max: 60 }).map((levels) => nest(levels, (inner) => ({ properties: { a: inner } }))),
  // Its text doubles with each level: with 14 it is half as long as a manifest may be.
  fc.integer({ min: 1, max: 14 }).map((levels) => nest(levels, (inner) => ({ allOf: [inner, inner] }))),
  fc.integer({ min: 2, max: 60 }).map((size) => chain(size, (next) => ({ allOf: [next, next] }))),
  fc
    .integer({ min: 2, max: 200 })
    .map((size) => chain(size, (next) => ({ properties: { a: next }, anyOf: [next, { type: 'string' }] }))),
  fc
    .integer({ min: 2, max: 30 })
    .map((size) => chain(size, (next) => ({ unevaluatedProperties: false, oneOf: [next, { not: next }] }))),
  fc.integer({ min: 1, max: 20_000 }).map((many) => ({ enum: Array.from({ length: many }, (_, i) => `value ${i}`) })),
  fc.integer({ min: 1, max: 3000 }).map((many) => ({
    properties: Object.fromEntries(Array.from({ length: many }, (_, i) => [`p${i}`, { type: 'string', minLength: 1 }])),
  })),
  fc.integer({ min: 1, max: 2000 }).map((many) => ({
    patternProperties: Object.fromEntries(Array.from({ length: many }, (_, i) => [`^(a+)+${i}$`, {}])),
  })),
);

function nest(levels: number, wrap: (inner: object) => object): object {
  let made: object = {};
  for (let i = 0; i < levels; i++) made = wrap(made);
  return made;
}

/** Definitions that each refer to the next one. */
function chain(size: number, link: (next: object) => object): object {
  const $defs = Object.fromEntries(
    Array.from({ length: size }, (_, i) => [
      `d${i}`,
      i === size - 1 ? { type: 'object' } : link({ $ref: `#/$defs/d${i + 1}` }),
    ]),
  );
  return { $ref: '#/$defs/d0', $defs };
}

/** The app as it is uploaded: its only query answers what it was asked. */
function appWith(input: unknown): Record<string, string | Buffer> {
  return appOf(APP, { queries: { ask: { run: '({ input }) => [typeof input]', input, timeoutMs: TIMEOUT_MS } } });
}

/** Checks an app with the schema in a job thread, as an upload does it. */
async function compile({ jobs }: OpenJobs, code: string, input: unknown): Promise<void> {
  mkdirSync(join(code, 'queries'), { recursive: true });
  for (const [name, text] of Object.entries(appWith(input))) writeFileSync(join(code, name), text);
  const refusal = await refusalOf(() => jobs.check({ code, app: APP }));
  rmSync(code, { recursive: true });
  if (refusal !== null)
    assert.ok(
      ['INVALID_MANIFEST', 'INVALID_ARCHIVE'].includes(refusal.code),
      `${refusal.code}: ${refusal.message} ${String((refusal.cause as Error | undefined)?.stack)}`,
    );
}

const victim = fc.oneof(
  fc.constantFrom<unknown>(
    'a'.repeat(40),
    `${'a'.repeat(40)}!`,
    'ab'.repeat(30),
    { a: 'a'.repeat(40) },
    { [`${'a'.repeat(40)}!`]: 1 },
    [],
    {},
    1,
  ),
  jsonValue,
  // With the call around it, the deepest is within the limit of a body.
  fc.integer({ min: 1, max: 990 }).map((levels) => nest(levels, (inner) => ({ a: inner }))),
);
const trap = fc.oneof(
  fc
    .constantFrom(...PATTERNS.slice(0, 6))
    .map((pattern) => ({ pattern, properties: { a: { pattern } }, propertyNames: { pattern } })),
  fc.constantFrom(...PATTERNS.slice(0, 6)).map((pattern) => ({ patternProperties: { [pattern]: false } })),
  fc.constant({ properties: { a: { $ref: '#' } }, additionalProperties: { $ref: '#' } }),
  fc.constant({ uniqueItems: true, format: 'email' }),
  schema,
);

/** Uploads the schema and calls the app; meanwhile another app answers as if nothing were. */
async function setTrap(fuzzed: FuzzedGateway, [input, values]: [unknown, unknown[]]): Promise<void> {
  const { gateway } = fuzzed;
  const uploaded = await gateway.upload(APP, appWith(input));
  assert.ok(
    uploaded.status === 201 || uploaded.status === 200 || uploaded.status === 400,
    `${uploaded.status} ${uploaded.text}`,
  );
  await fuzzed.assertSound();
  if (uploaded.status === 400) return;
  const startedAt = performance.now();
  const calls = values.map((value) => gateway.read(APP, 'ask', value));
  const good = await gateway.read('good', 'ask', {});
  assert.deepEqual([good.status, good.json.data], [200, 1], 'another app suffers');
  for (const { status, json } of await Promise.all(calls)) {
    const code = status === 200 ? 'none' : json.error.code;
    assert.ok(
      ['none', 'INVALID_INPUT', 'HANDLER_ERROR', 'QUARANTINED'].includes(code),
      `${status} ${JSON.stringify(json)}`,
    );
    if (code === 'HANDLER_ERROR') assert.match(json.error.message, /time|thread|limit|deep|again|start/i);
  }
  assert.ok(performance.now() - startedAt < CALL_MS, 'the calls took far longer than their deadline');
}

export const schemas: Target = {
  name: 'schemas',
  claim: 'A schema is refused with its field, or works; one that never ends holds only its app, until the deadline.',
  open: async (stage) => {
    const folder = stage.newFolder();
    const opened = await openJobs(folder, { thread: join(ROOT, 'dist/job.cjs') });
    stage.atEnd(opened.close);
    const judge = (input: unknown) => compile(opened, join(folder, 'code'), input);
    const good = appOf('good', { queries: { ask: '() => 1' } });
    const fuzzed = await startFuzzed(stage, { good }, { config: { handlerHosts: 1 } });
    const trapped = fc.tuple(trap, fc.array(victim, { minLength: 1, maxLength: 3 }));
    return [
      check('compiled', 20_000, schema, judge),
      check('large and tangled', 500, tangled, judge),
      check('called', 1000, trapped, (input) => setTrap(fuzzed, input)),
    ];
  },
};
