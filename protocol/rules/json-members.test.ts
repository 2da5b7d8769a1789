import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { membersOf } from './json-members.ts';

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
      assert.deepEqual(Object.entries(read(json, names) as object).sort(), expected.sort());
    }),
  );
});
