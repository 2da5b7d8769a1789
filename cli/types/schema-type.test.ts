import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonSchema } from '../../protocol/manifest.ts';
import { typeOfSchema } from './schema-type.ts';

const CASES: [schema: JsonSchema, type: string][] = [
  [true, 'unknown'],
  [false, 'never'],
  [{}, 'unknown'],
  [{ type: 'integer' }, 'number'],
  [{ type: ['string', 'null'] }, 'string | null'],
  [{ minimum: 1 }, 'unknown'],
  [{ const: 'a"b' }, '"a\\"b"'],
  [{ enum: ['a', 1, null] }, '"a" | 1 | null'],
  [{ enum: [{ a: 1 }] }, 'unknown'],
  [{ type: 'array', items: { type: ['string', 'number'] } }, '(string | number)[]'],
  [
    { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], minItems: 1, items: false },
    '[string, number?]',
  ],
  [{ type: 'array' }, 'unknown[]'],
  [{ anyOf: [{ type: 'string' }, { type: 'number' }] }, 'string | number'],
  [{ anyOf: [{ type: 'string' }, true] }, 'unknown'],
  [{ allOf: [{ enum: [1, 2] }, { type: 'number' }] }, '(1 | 2) & number'],
  [{ type: 'object' }, 'Record<string, unknown>'],
  [{ type: 'object', additionalProperties: false }, 'Record<string, never>'],
  [{ type: 'object', additionalProperties: { type: 'number' } }, 'Record<string, number>'],
  [{ $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'string' } } }, 'string'],
  [{ $ref: '#/nowhere/at/all' }, 'unknown'],
  [{ $ref: '#/%' }, 'unknown'],
  [{ $ref: 'other.json' }, 'unknown'],
  [{ enum: ['a | b'], anyOf: [] }, '"a | b"'],
];

for (const [schema, type] of CASES) {
  test(JSON.stringify(schema), () => assert.equal(typeOfSchema(schema), type));
}

test('members of an object, with what the schema says of them', () => {
  const schema = {
    type: 'object',
    properties: {
      id: { type: 'integer', description: 'Its */ id\nof the app.' },
      'due-on': { type: 'object', properties: { day: { type: 'string' } } },
    },
    required: ['id', 'other'],
  };
  const type = [
    '{',
    '  /** Its *\\/ id of the app. */',
    '  id: number;',
    '  "due-on"?: {',
    '    day?: string;',
    '  };',
    '  other: unknown;',
    '}',
  ];
  assert.equal(typeOfSchema(schema), type.join('\n'));
});

test('a schema that contains itself ends', () => {
  const list = { type: 'object', properties: { next: { $ref: '#' } } };
  assert.match(typeOfSchema(list), /next\?: unknown;/);
  assert.equal(typeOfSchema({ $ref: '#' }), 'unknown');
  assert.equal(typeOfSchema({ anyOf: [{ $ref: '#' }, { $ref: '#' }] }), 'unknown');
});
