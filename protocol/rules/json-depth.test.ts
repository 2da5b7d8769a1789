// How deep JSON text nests and how many values it holds, looked for in its bytes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../limits.ts';
import { isTooDeep, overLimit } from './json-depth.ts';

const nested = (levels: number, open = '[', close = ']') => `${open.repeat(levels)}${close.repeat(levels)}`;
const { jsonDepth, jsonValues } = LIMITS;

for (const [what, json, expected] of [
  ['as many levels as may be', nested(jsonDepth), false],
  ['one more', nested(jsonDepth + 1), true],
  ['objects', `${'{"a":'.repeat(jsonDepth + 1)}1${'}'.repeat(jsonDepth + 1)}`, true],
  [
    'many values beside each other',
    `[${Array(jsonDepth * 2)
      .fill('[{}]')
      .join()}]`,
    false,
  ],
  ['brackets in a text', JSON.stringify('[{'.repeat(jsonDepth)), false],
  ['a text that ends in a backslash', `["\\\\",${nested(jsonDepth)}]`, true],
  ['a quote in a text', `["\\"${'['.repeat(jsonDepth * 2)}"]`, false],
] as const) {
  test(`${what}: ${expected ? 'too deep' : 'fine'}`, () => {
    assert.doesNotThrow(() => JSON.parse(json));
    assert.equal(isTooDeep(json), expected);
    assert.equal(isTooDeep(Buffer.from(json)), expected);
  });
}

for (const [what, json, expected] of [
  ['as many values as may be', `[${Array(jsonValues).fill(0).join()}]`, null],
  [
    'one more',
    `[${Array(jsonValues + 1)
      .fill(0)
      .join()}]`,
    'values',
  ],
  ['as many empty objects', `[${Array(jsonValues).fill('{}').join()}]`, 'values'],
  ['commas in a text', JSON.stringify(','.repeat(jsonValues * 2)), null],
  ['one level too many', nested(jsonDepth + 1), 'depth'],
  ['little', '[1]', null],
] as const) {
  test(`${what}: over ${expected ?? 'no limit'}`, () => assert.equal(overLimit(Buffer.from(json)), expected));
}
