// Nothing of a schema's text becomes code: names that are none are refused, and what Ajv writes of the others is no code.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { JsonSchema, Manifest } from '../../protocol/manifest.ts';
import { loadValidators } from '../handler/load-validators.ts';
import { compileValidators } from './compile-validators.ts';
import { nameFault } from './schema-names.ts';

const canary = globalThis as { ran?: string };
afterEach(() => {
  assert.equal(canary.ran, undefined, 'text of a schema ran');
  delete canary.ran;
});

/** Legal in a URI throughout. */
const CODE = "*/(globalThis.ran='it'+'ran')/*";

function manifest(input: JsonSchema): Manifest {
  return { id: 'notes', name: 'Notes', version: '1', queries: [{ name: 'q', input }], actions: [] };
}

const REFUSED: [what: string, schema: Record<string, unknown>, field: string][] = [
  ['$id', { $id: CODE }, '.$id'],
  ['$id that is none', { $id: 'a b' }, '.$id'],
  ['$id with a line separator', { $id: 'a\u2028b' }, '.$id'],
  ['$id that is no text', { properties: { a: { $id: { b: CODE } } } }, '.properties.a.$id'],
  ['$id that is too long', { properties: { a: { $id: 'a'.repeat(LIMITS.schemaNameChars + 1) } } }, '.properties.a.$id'],
  ['$schema of a part', { $defs: { a: { $id: 'a', $schema: CODE } } }, '.$defs.a.$schema'],
  ['$ref', { $ref: CODE }, '.$ref'],
  ['$ref with a space', { items: [{ $ref: '#/a b' }] }, '.items[0].$ref'],
  ['$dynamicRef', { $defs: { a: { $dynamicRef: CODE } } }, '.$defs.a.$dynamicRef'],
  ['$anchor', { $anchor: CODE }, '.$anchor'],
  ['$anchor that begins with a digit', { not: { $anchor: '1a' } }, '.not.$anchor'],
  ['$dynamicAnchor', { allOf: [{ $dynamicAnchor: 'a b' }] }, '.allOf[0].$dynamicAnchor'],
  ['$id under an unknown keyword', { 'x-more': { deep: [{ $id: CODE }] } }, '.x-more.deep[0].$id'],
  ['$id of a property called const', { properties: { const: { $id: CODE } } }, '.properties.const.$id'],
  ['$id in dependencies', { dependentSchemas: { enum: { $id: CODE } } }, '.dependentSchemas.enum.$id'],
  ['$id behind __proto__', JSON.parse(`{"properties":{"__proto__":{"$id":"${CODE}"}}}`), '.properties.__proto__.$id'],
];

for (const [what, schema, field] of REFUSED) {
  test(`refused: ${what}`, () => {
    assert.throws(() => compileValidators(manifest(schema)), {
      code: 'INVALID_MANIFEST',
      path: `queries[0].input${field}`,
    });
  });
}

const TAKEN: [what: string, schema: Record<string, unknown>][] = [
  ['$id and $anchor', { $id: 'https://example.com/a%28b%29', $anchor: '_a-1.b' }],
  ['a property called $id', { properties: { $id: { type: 'string' }, $ref: { type: 'string' } } }],
  ['data that looks like a name', { const: { $id: 'a b', $ref: CODE } }],
  ['values that look like names', { enum: [{ $id: 'a b' }], default: { $id: CODE }, examples: [{ $anchor: '1' }] }],
  ['a reference to a name with parentheses', { $ref: "#/$defs/List(It'em)*", $defs: { "List(It'em)*": {} } }],
];

for (const [what, schema] of TAKEN) {
  test(`taken: ${what}`, () => {
    assert.equal(nameFault(schema), null);
    loadValidators(compileValidators(manifest(schema))).queries.q?.({ a: 1 });
  });
}

test('data that a reference makes a schema does not become code, whatever it is called', () => {
  for (const $id of [CODE, `${CODE}"`, '"*/globalThis.ran=1//', '\u2028*/globalThis.ran=1/*']) {
    for (const schema of [
      { const: { $id }, $ref: '#/const' },
      { examples: [{ $id }], $ref: '#/examples/0' },
    ]) {
      let text = '';
      try {
        text = compileValidators(manifest(schema));
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'INVALID_MANIFEST');
      }
      if (text !== '') loadValidators(text).queries.q?.({});
    }
  }
});

test('the text of the validators has no comment but our own', () => {
  const text = compileValidators(
    manifest({
      $id: 'https://example.com/a',
      properties: { a: { $ref: 'b' } },
      $defs: { b: { $id: 'b', required: ['c'], properties: { c: { $ref: '#' } } } },
    }),
  );
  assert.doesNotMatch(text, /sourceURL|\/\*/);
  assert.match(text, /^\/\/ Schemas [0-9a-f]+ [0-9a-f]+\n(?![\s\S]*\n\/\/)/);
});

test('the schema of an automation is judged alike', () => {
  const automation = { id: 'digest', text: '', manifest: { outputSchema: { $id: CODE } } } as never;
  assert.throws(() => compileValidators(manifest({}), [automation]), {
    code: 'INVALID_AUTOMATION',
    path: 'automations/digest/automation.json#outputSchema.$id',
  });
});

test('a schema that is too large is refused with its place', () => {
  const input = { enum: [`${'x'.repeat(LIMITS.schemaBytes)}`] };
  assert.throws(() => compileValidators(manifest(input)), { code: 'INVALID_MANIFEST', path: 'queries[0].input' });
});
