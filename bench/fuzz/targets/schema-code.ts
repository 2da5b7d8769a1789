/** Schemas whose every string is code that would leave a mark: whatever becomes of them, none of it runs. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { JsonSchema, Manifest } from '../../../protocol/manifest.ts';
import { loadValidators } from '../../../workers/handler/load-validators.ts';
import { compileValidators } from '../../../workers/jobs/compile-validators.ts';
import { jsonObject, jsonValue, schemasOf } from '../arbitraries.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const marks = globalThis as { schemaRan?: unknown };
const MARK = 'globalThis.schemaRan=1';

const INS = ['', "'", '"', '`', '/*', '//', '\n', '}', '{', '(', '[', '<!--', '\u2028', '\\'];
const BODIES = [
  MARK,
  `;${MARK};`,
  `+(${MARK})+`,
  `(${MARK})`,
  `}}};${MARK};{{{`,
  `]});${MARK};([{`,
  `return ${MARK}`,
  `\${${MARK}}`,
  `constructor.constructor('${MARK}')()`,
  `process.getBuiltinModule('vm').runInThisContext('${MARK}')`,
  'vErrors.push(err0)',
  'vErrors.concat(x.errors)',
];
const payload = fc
  .tuple(
    fc.constantFrom(...words.closings),
    fc.constantFrom(...words.closings),
    fc.constantFrom(...BODIES),
    fc.constantFrom(...INS),
  )
  .map((parts) => parts.join(''));
/** With legal beginnings, so that it gets further. */
const name = fc.oneof(
  payload,
  payload.map((text) => `a${text}`),
  payload.map((text) => `#${text}`),
  payload.map((text) => `#/$defs/${text}`),
  payload.map((text) => `https://example.com/${text}`),
  payload.map((text) => encodeURI(text)),
  // Legal in a URI from end to end.
  fc.constantFrom(`*/${MARK}/*`, `*/(${MARK})/*`, `a*/;${MARK};/*`, `*/${MARK}//`),
  fc.constantFrom('#', '#/const', '#/examples/0', '#/enum/0', '#/x', 'a'),
);
const key = fc.oneof(
  payload,
  payload.map((text) => `a${text}`),
  fc.constantFrom('__proto__', 'constructor', 'toString'),
);

const schema = schemasOf((one) => {
  const data = fc.oneof(payload, jsonValue, jsonObject(payload, key), one);
  const some = fc.oneof(
    payload.map((text) => ({ [text]: text })),
    fc.array(payload),
  );
  return [
    [['$id'], name],
    [['$id', '$ref', '$dynamicRef', '$anchor', '$dynamicAnchor', '$schema'], name],
    [['$id', '$ref'], some],
    [['properties', '$defs', 'dependentSchemas', 'definitions', 'patternProperties'], jsonObject(one, key)],
    [['allOf', 'anyOf', 'oneOf', 'prefixItems'], fc.array(one, { minLength: 1, maxLength: 3 })],
    [words.subschemas, one],
    [['const', 'default', '$comment', 'title', 'x', 'errorMessage'], data],
    [['enum', 'examples'], fc.array(data, { minLength: 1, maxLength: 4 })],
    [['required'], fc.uniqueArray(key, { maxLength: 3 })],
    [['dependentRequired'], jsonObject(fc.uniqueArray(key), key)],
    [['pattern', 'format', 'type', 'contentEncoding', 'contentMediaType', '$async', 'nullable'], payload],
    [['minimum', 'maxLength', 'minItems', 'multipleOf'], fc.oneof(payload, fc.constantFrom(0, 1, 1e308))],
    [key, data],
  ];
});

function manifestOf(input: unknown): Manifest {
  const queries = [{ name: 'q', input: input as JsonSchema, output: input as JsonSchema }];
  return { id: 'evil', name: 'Evil', version: '1', queries, actions: [] };
}

/** Compiled, loaded and called, all of it here, where a mark would be seen. */
function tryOut([input, values]: [unknown, unknown[]]): void {
  let text: string | null = null;
  try {
    text = compileValidators(manifestOf(input), [{ id: 'a', text: '', manifest: { outputSchema: input } } as never]);
  } catch (error) {
    const { code } = error as { code?: string };
    assert.ok(code === 'INVALID_MANIFEST' || code === 'INVALID_AUTOMATION', String((error as Error).stack));
  }
  if (text !== null) {
    assert.doesNotMatch(text, /\/\*# sourceURL="/);
    const validators = loadValidators(text);
    for (const value of values) {
      try {
        validators.queries.q?.(value);
      } catch (error) {
        // A schema that refers to itself.
        assert.ok(error instanceof RangeError, String(error));
      }
    }
  }
  const ran = Object.hasOwn(marks, 'schemaRan');
  delete marks.schemaRan;
  assert.equal(ran, false, 'text of the schema ran');
}

const value = fc.oneof(
  jsonValue,
  payload,
  jsonObject(fc.oneof(payload, jsonValue), key),
  fc.array(payload, { maxLength: 3 }),
);

export const schemaCode: Target = {
  name: 'schema-code',
  claim: 'Whatever the strings of a schema are, none of them runs as code: neither compiled, nor called.',
  open: () => {
    const called = fc.tuple(schema, fc.array(value, { minLength: 1, maxLength: 4 }));
    return [check('compiled and called', 60_000, called, tryOut)];
  },
};
