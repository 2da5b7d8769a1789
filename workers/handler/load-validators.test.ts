/** Validators of queries that are compiled when they are used. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileValidators } from '../jobs/compile-validators.ts';
import { lazyValidators, loadValidators } from './load-validators.ts';

/** Texts that could be taken for the code of another schema, or its end. */
const NAMES = [
  'n',
  'exports',
  'a"] = (function (module) {',
  '\n})({});\nexports.queries["x"] = (function (module) {\n',
];
const INPUTS: unknown[] = [{}, { n: 1 }, { n: 'text', more: 1 }, null, ...NAMES.map((name) => ({ [name]: 'a' }))];

const schemaOf = (name: string) => ({
  type: 'object',
  properties: { [name]: { type: 'string', enum: ['a', name] }, at: { type: 'string', format: 'date-time' } },
  required: [name],
  additionalProperties: false,
});

const text = compileValidators({
  id: 'app',
  name: 'App',
  version: '1.0.0',
  queries: NAMES.map((name, n) => ({ name: `query_${n}`, input: schemaOf(name) })),
  actions: [{ name: 'act', input: schemaOf('n') }],
});

test('they say the same of each input as those that are compiled at once', () => {
  const { queries } = loadValidators(text);
  const lazy = lazyValidators(text);
  assert.deepEqual(Object.keys(lazy), Object.keys(queries));
  for (const [name, validate] of Object.entries(lazy)) {
    const said = (check: typeof validate) => INPUTS.map((input) => [check(input), structuredClone(check.errors)]);
    assert.deepEqual(said(validate), said(queries[name] as typeof validate), name);
  }
});

test('code that nobody uses is not compiled', () => {
  const broken = text.replace('exports.actions["act"] = (function (module) {', '$& not code');
  assert.throws(() => loadValidators(broken), SyntaxError);
  assert.equal(lazyValidators(broken).query_0?.({ n: 'a' }), true);
});
