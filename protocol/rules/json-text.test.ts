import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LIMITS } from '../limits.ts';
import { isTooDeep, memberBytes, membersOf, overLimit } from './json-text.ts';

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

const read = (json: string, names: string[]): unknown => {
  const members = membersOf(Buffer.from(json), names);
  return members && Object.fromEntries([...members].map(([name, text]) => [name, JSON.parse(text.toString())]));
};

test('the members of these names, with the last of several, whatever stands around them', () => {
  const json = ' { "x" : [ "a" , {"a":0} ] , "a"\t:\n"1" ,"b":{"a":2},"\\u0061": "}\\",a" , "c":[[],{}] }\r\n';
  assert.deepEqual(read(json, ['a', 'b']), { a: '}",a', b: { a: 2 } });
  assert.deepEqual(read('{}', ['a']), {});
});

test('a value that is not an object has no members', () => {
  for (const json of [
    '',
    '[]',
    '"a"',
    '1',
    '{',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a" 1}',
    '{a:1}',
    '{"a":1}}',
    '{"a":1} x',
  ])
    assert.equal(membersOf(Buffer.from(json), ['a']), null, json);
});

test('it finds the same members as JSON.parse in random objects', () => {
  const names = ['app', 'query', 'input', '"\\'];
  const object = fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), fc.jsonValue(), { maxKeys: 8 });
  fc.assert(
    fc.property(object, fc.nat(3), (value, space) => {
      const json = JSON.stringify(value, null, space);
      const expected = Object.entries(JSON.parse(json) as object).filter(([name]) => names.includes(name));
      // The order of members is no part of the comparison.
      assert.deepEqual(new Map(Object.entries(read(json, names) as object)), new Map(expected));
    }),
  );
});

test('the bytes of a member are those that membersOf finds', () => {
  const name = fc.constantFrom('input', 'app', 'inpu', '"\\', '\u00e9');
  const escaped = (text: string) =>
    JSON.stringify(text).replace(/[a-z]/, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const member = fc.tuple(name, fc.boolean(), fc.jsonValue(), fc.nat(2));
  fc.assert(
    fc.property(fc.array(member, { maxLength: 6 }), (members) => {
      const texts = members.map(
        ([key, isEscaped, value, space]) =>
          `${isEscaped ? escaped(key) : JSON.stringify(key)} : ${JSON.stringify(value, null, space)}`,
      );
      const json = Buffer.from(`{${texts.join(' ,')}}`);
      const found = membersOf(json, ['input'])?.get('input');
      assert.equal(memberBytes(json, 'input', 'none'), found ? Buffer.from(found).toString('latin1') : 'none');
    }),
  );
  assert.equal(memberBytes(Buffer.from(`{"input":${nested(jsonDepth)}}`), 'input', ''), null);
});
