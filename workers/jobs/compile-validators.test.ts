import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { JsonSchema, Manifest } from '../../protocol/manifest.ts';
import { withMark } from '../../testing/validators.ts';
import { loadValidators } from '../handler/load-validators.ts';
import { checkInput } from '../handler/validators.ts';
import { compileValidators, validatorsLike } from './compile-validators.ts';

function manifest(...inputs: (JsonSchema | undefined)[]): Manifest {
  const queries = inputs.map((input, i) => ({ name: `q${i}`, ...(input === undefined ? {} : { input }) }));
  return { id: 'notes', name: 'Notes', version: '1', queries, actions: [] };
}

/** Judges `input` by `schema`, the whole way: compiled to text, loaded as an actor does. Null when it is valid. */
function judge(schema: JsonSchema, input: unknown): SvcError | null {
  const { queries } = loadValidators(compileValidators(manifest(schema)));
  try {
    checkInput(queries, 'q0', input);
    return null;
  } catch (error) {
    return error as SvcError;
  }
}

const TEXT = { type: 'object', required: ['text'], properties: { text: { type: 'string', minLength: 1 } } };

const JUDGED: [name: string, schema: JsonSchema, valid: unknown[], invalid: [input: unknown, path: string][]][] = [
  [
    'types',
    TEXT,
    [{ text: 'x' }, { text: '😀', more: 1 }],
    [
      [{}, ''],
      [{ text: 1 }, '/text'],
      [{ text: '' }, '/text'],
    ],
  ],
  ['true', true, [{}, 1, null], []],
  ['false', false, [], [[{}, '']]],
  ['no coercion', { properties: { n: { type: 'number' } } }, [{ n: 1 }], [[{ n: '1' }, '/n']]],
  ['characters, not code units', { properties: { s: { maxLength: 1 } } }, [{ s: '😀' }], [[{ s: 'ab' }, '/s']]],
  [
    'formats',
    { properties: { d: { format: 'date' }, m: { format: 'email' }, u: { format: 'uri' } } },
    [{ d: '2026-01-02', m: 'a@b.example', u: 'https://a.example/' }],
    [
      [{ d: 'yesterday' }, '/d'],
      [{ m: 'x' }, '/m'],
      [{ u: 'x y' }, '/u'],
    ],
  ],
  [
    'deep equality',
    { properties: { list: { uniqueItems: true } } },
    [{ list: [{ a: 1 }, { a: 2 }] }],
    [[{ list: [{ a: 1 }, { a: 1 }] }, '/list']],
  ],
  ['references', { $ref: '#/$defs/a', $defs: { a: TEXT } }, [{ text: 'x' }], [[{ text: 1 }, '/text']]],
  [
    'texts like those of the compiled code',
    {
      properties: {
        pushed: { const: 'vErrors.push(err0);' },
        joined: { enum: ['\nvErrors = vErrors === null ? f.errors : vErrors.concat(f.errors);\n'] },
        matched: { pattern: '\\vErrors.push(err0)' },
      },
    },
    [
      { pushed: 'vErrors.push(err0);' },
      { joined: '\nvErrors = vErrors === null ? f.errors : vErrors.concat(f.errors);\n' },
      { matched: '\vErrors.pusherr0' },
    ],
    [
      [{ pushed: 'keep(vErrors, err0);' }, '/pushed'],
      [{ matched: 'keep' }, '/matched'],
    ],
  ],
  [
    'a tree',
    { $id: 'tree', properties: { kids: { items: { $ref: '#' } }, n: { type: 'integer' } } },
    [{ kids: [{ n: 1, kids: [] }] }],
    [[{ kids: [{ kids: [{ n: 'x' }] }] }, '/kids/0/kids/0/n']],
  ],
  [
    'draft 2020-12',
    { $schema: 'https://json-schema.org/draft/2020-12/schema', prefixItems: [{ type: 'string' }], items: false },
    [['a']],
    [
      [['a', 1], ''],
      [[1], '/0'],
    ],
  ],
  [
    'names that every object inherits',
    { required: ['constructor'], properties: { toString: { type: 'string' } } },
    [{ constructor: 1 }, JSON.parse('{"constructor":1,"toString":"x"}')],
    [
      [{}, ''],
      [{ constructor: 1, toString: 1 }, '/toString'],
    ],
  ],
  [
    'items whose members have names that objects are asked for',
    { properties: { list: { uniqueItems: true }, one: { const: { valueOf: 1, toString: 2, constructor: 3 } } } },
    [
      { list: [{}, { toString: 0 }, { valueOf: 0 }, { constructor: 0 }, { constructor: 1 }, [], [1], null, 'x'] },
      { one: { constructor: 3, toString: 2, valueOf: 1 } },
    ],
    [
      [{ list: [{ toString: 0, valueOf: [1] }, 1, { valueOf: [1], toString: 0 }] }, '/list'],
      [{ list: [JSON.parse('{"__proto__":[1]}'), 1, JSON.parse('{"__proto__":[1]}')] }, '/list'],
      [{ one: { valueOf: 1, toString: 2, constructor: 4 } }, '/one'],
      [{ one: [] }, '/one'],
    ],
  ],
  [
    'a schema as input',
    { properties: { schema: { $ref: 'https://json-schema.org/draft/2020-12/schema' } } },
    [{ schema: TEXT }, { schema: false }],
    [[{ schema: { properties: { a: { required: 'a' } } } }, '/schema/properties/a/required']],
  ],
  [
    'unknown keywords and formats',
    { title: 'x', widget: 'y', properties: { a: { format: 'colour' } } },
    [{ a: 'red' }],
    [],
  ],
];

for (const [name, schema, valid, invalid] of JUDGED) {
  test(`input: ${name}`, () => {
    for (const input of valid) assert.equal(judge(schema, input), null, JSON.stringify(input));
    for (const [input, path] of invalid) {
      const error = judge(schema, input);
      assert.equal(error?.code, 'INVALID_INPUT');
      assert.equal(error.path, path);
    }
  });
}

test('an input deeper than the stack is the fault of its sender', () => {
  let input: unknown = 1;
  for (let i = 0; i < 100_000; i++) input = [input];
  const error = judge({ items: { $ref: '#' } }, input);
  assert.equal(error?.code, 'INVALID_INPUT');
  assert.match(error.message, /too deeply/);
});

test('input is not changed: no defaults are filled in', () => {
  const input = {};
  assert.equal(judge({ properties: { a: { default: 1 } } }, input), null);
  assert.deepEqual(input, {});
});

test('equal $ids in two tools do not meet, and each has the schema of schemas', () => {
  const inner = (type: string) => ({ $id: 'same', properties: { a: { $id: 'inner', type } } });
  const schemas = [{ $id: 'same', type: 'object' }, { $id: 'same', type: 'array' }, inner('string'), inner('number')];
  const meta = { $ref: 'http://json-schema.org/schema' };
  const { queries } = loadValidators(compileValidators(manifest(...schemas, meta, meta, undefined)));
  assert.deepEqual(Object.keys(queries), ['q0', 'q1', 'q2', 'q3', 'q4', 'q5']);
  checkInput(queries, 'q0', {});
  checkInput(queries, 'q1', []);
  checkInput(queries, 'q2', { a: 'text' });
  checkInput(queries, 'q3', { a: 7 });
  for (const name of ['q4', 'q5']) {
    checkInput(queries, name, { type: 'object' });
    assert.throws(() => checkInput(queries, name, { type: 7 }));
  }
});

const WRONG = { type: 'object', properties: { list: { type: 'array', items: { type: 'string' } } } };
const WRONG_ITEMS: [name: string, schema: JsonSchema][] = [
  ['items', WRONG],
  [
    'items by reference',
    { $defs: { s: { type: 'string', minLength: 2 } }, properties: { list: { items: { $ref: '#/$defs/s' } } } },
  ],
  [
    'items of a tree',
    {
      properties: { list: { items: { $ref: '#/$defs/t' } } },
      $defs: { t: { type: 'object', properties: { t: { $ref: '#/$defs/t' } } } },
    },
  ],
  [
    'items that refer to the schema around them',
    { type: 'object', properties: { list: { $ref: '#/$defs/all' } }, $defs: { all: { items: { $ref: '#' } } } },
  ],
];

for (const [name, schema] of WRONG_ITEMS) {
  test(`half a million wrong ${name} are all counted, and few are kept`, () => {
    const { queries } = loadValidators(compileValidators(manifest(schema)));
    const validate = queries.q0 as ((input: unknown) => boolean) & { errors?: unknown[] | null };
    assert.equal(validate({ list: new Array(500_000).fill(1) }), false);
    assert.equal(validate.errors?.length, 500_000);
    assert.equal(validate.errors?.filter((error) => error !== undefined).length, LIMITS.inputIssues);
    assert.throws(() => checkInput(queries, 'q0', { list: [1] }), { path: '/list/0' });
  });
}

test('a branch with more failures than are kept does not spoil the next branch', () => {
  const list = (type: string): JsonSchema => ({ type: 'array', items: { type } });
  const schema = {
    properties: { list: { anyOf: [list('string'), list('boolean'), list('number')] }, not: { not: list('number') } },
  };
  const numbers = new Array(100).fill(1);
  assert.equal(judge(schema, { list: numbers }), null);
  assert.equal(judge(schema, { list: numbers.concat('x') })?.issues?.length, LIMITS.inputIssues);
  assert.equal(judge(schema, { list: numbers, not: numbers })?.path, '/not');
});

/** `{ "properties": { "a": { "properties": … } } }` */
function deep(levels: number): JsonSchema {
  let schema: JsonSchema = {};
  for (let i = 0; i < levels; i++) schema = { properties: { a: schema } };
  return schema;
}

const BAD_SCHEMAS: [name: string, schema: JsonSchema, message: RegExp][] = [
  ['a type that does not exist', { type: 'text' }, /not a usable JSON Schema/],
  ['a keyword of the wrong type', { required: 'a' }, /not a usable JSON Schema/],
  ['a pattern that is none', { properties: { a: { pattern: '(' } } }, /not a usable JSON Schema/],
  ['a reference to elsewhere', { $ref: 'https://example.com/x.json' }, /not a usable JSON Schema/],
  ['a reference to nothing', { $ref: '#/$defs/none' }, /not a usable JSON Schema/],
  [
    'another draft',
    { $schema: 'http://json-schema.org/draft-07/schema#' },
    /must be https:\/\/json-schema.org\/draft\/2020-12/,
  ],
  ['a draft that is no text', { $schema: { toString: 1 } }, /must be https:\/\/json-schema.org\/draft\/2020-12/],
  ['an asynchronous one', { $async: true, type: 'object' }, /not supported/],
  [
    'a reference to one that is a reference itself',
    { $ref: 'urn:a:b', $defs: { a: { $id: 'urn:a:b', $ref: '#/$defs/c', $defs: { c: true } } } },
    /its references or its depth are too much/,
  ],
  ['one that is itself', { $ref: '#' }, /refers to itself without end/],
  [
    'two that are each other',
    { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { not: { $ref: '#/$defs/a' } } } },
    /without end/,
  ],
  [
    'one that explodes',
    {
      $ref: '#/$defs/d0',
      $defs: Object.fromEntries(
        Array.from({ length: 40 }, (_, i) => {
          const next = i === 39 ? { not: { type: 'string', minLength: 1 } } : { $ref: `#/$defs/d${i + 1}` };
          return [`d${i}`, { allOf: [next, next] }];
        }),
      ),
    },
    /takes too long/,
  ],
];

for (const [name, schema, message] of BAD_SCHEMAS) {
  test(`schema refused: ${name}`, () => {
    const refusal = (code: Manifest): SvcError => {
      try {
        compileValidators(code);
      } catch (error) {
        return error as SvcError;
      }
      return assert.fail('it was taken');
    };
    const error = refusal(manifest(true, schema));
    assert.equal(error.code, 'INVALID_MANIFEST', String(error.stack));
    assert.match(error.path ?? '', /^queries\[1\]\.input/);
    assert.match(error.message, message);
  });
}

test('an output schema must compile too', () => {
  const app = { ...manifest(), actions: [{ name: 'add', output: { type: 'text' } }] };
  assert.throws(() => compileValidators(app), { code: 'INVALID_MANIFEST', path: 'actions[0].output' });
});

test('a schema as deep as a manifest may be compiles', () => {
  assert.equal(judge(deep(LIMITS.manifestDepth), { a: {} }), null);
});

test('the validators of the version before are used again while the schemas are the same and the text is whole', () => {
  const before = withMark(compileValidators(manifest(TEXT)), '// of the version before');
  assert.equal(validatorsLike(before, { ...manifest(TEXT), version: '2', name: 'Other' }, []), before);

  const compiled = compileValidators(manifest(TEXT));
  for (const unusable of [null, '', '// Schemas', before.replace('push', 'pull'), before.slice(0, -1)]) {
    assert.equal(validatorsLike(unusable, manifest(TEXT), []), compiled);
  }
  const stricter = { ...TEXT, additionalProperties: false };
  assert.equal(validatorsLike(before, manifest(stricter), []), compileValidators(manifest(stricter)));
  const withOutput = manifest(TEXT);
  Object.assign(withOutput.queries[0] ?? {}, { output: { type: 'nonsense' } });
  assert.throws(() => validatorsLike(before, withOutput, []), { code: 'INVALID_MANIFEST' });
});
