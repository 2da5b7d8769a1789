/** What is told about the first fault of a value, and that Ajv judges values alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { closed, flag, integer, object, oneOf } from './schema.ts';
import { shape } from './shape.ts';

const NAME = { type: 'string', pattern: '\\S', wanted: 'a text' } as const;
const ONE = closed({ kind: { const: 'one' }, size: integer(1, 5) });
const TREE = shape({
  ...object(
    { name: NAME },
    {
      flag,
      mode: oneOf('a', 'b'),
      list: { type: 'array', items: object({ 'a/b': { type: 'string' } }), wanted: 'a list' },
      byName: {
        type: 'object',
        propertyNames: { pattern: '^[a-z]+$', wanted: 'a low name' },
        additionalProperties: ONE,
      },
      either: { anyOf: [NAME, { type: 'array', items: NAME }], wanted: 'a text or several' },
      kinds: { anyOf: [ONE, closed({ name: NAME })], wanted: 'of a kind' },
    },
  ),
  wanted: 'a tree',
});

for (const [value, path, wanted] of [
  [null, '', 'a tree'],
  [{}, 'name', 'a text'],
  [{ name: ' ' }, 'name', 'a text'],
  [{ name: 'x', flag: 0 }, 'flag', 'true or false'],
  [{ name: 'x', mode: 'c' }, 'mode', 'one of a, b'],
  [{ name: 'x', list: {} }, 'list', 'a list'],
  [{ name: 'x', list: [{ 'a/b': '' }, { 'a/b': 1 }] }, 'list[1]', 'an object'],
  [{ name: 'x', byName: { A: 1 } }, 'byName.A', 'a low name'],
  [{ name: 'x', byName: { a: { kind: 'one', size: 6 } } }, 'byName.a.size', 'an integer from 1 to 5'],
  [
    { name: 'x', byName: { a: { kind: 'one', size: 1, ['x'.repeat(200)]: 1 } } },
    `byName.a.${'x'.repeat(100)}`,
    'one of kind, size',
  ],
  [{ name: 'x', either: ['y', 1] }, 'either', 'a text or several'],
  [{ name: 'x', kinds: { kind: 'two' } }, 'kinds', 'of a kind'],
  [{ name: 'x', kinds: { kind: 'one', size: 1.5 } }, 'kinds.size', 'an integer from 1 to 5'],
] as const)
  test(`${JSON.stringify(value).slice(0, 80)} must have ${wanted} at ${path.slice(0, 20)}`, () => {
    assert.deepEqual(TREE.fault(value), { path, wanted });
    assert.equal(TREE.holds(value), false);
  });

test('members that no schema names are taken, and the type of a value follows from its shape', () => {
  const value: unknown = { name: 'x', other: 1, kinds: { kind: 'one', size: 5 } };
  assert.equal(TREE.fault(value), null);
  assert.ok(TREE.holds(value));
  const { name, mode = 'a', kinds }: { name: string; mode?: 'a' | 'b'; kinds?: object } = value;
  assert.deepEqual([name, mode, kinds], ['x', 'a', { kind: 'one', size: 5 }]);
});

test('the part of a value that has the shape is without what has not', () => {
  const list = [{ 'a/b': 'x', more: 1 }, { 'a/b': 1 }, 2];
  const byName = { a: { kind: 'one', size: 1 }, b: { kind: 'two' }, A: { kind: 'one', size: 1 } };
  const value = { name: 'x', flag: 1, other: 1, list, byName, kinds: { kind: 'one', size: 9 } };
  assert.deepEqual(TREE.part(value), { name: 'x', list: [{ 'a/b': 'x' }], byName: { a: byName.a } });
  for (const nothing of [null, [], { ...value, name: '' }]) assert.equal(TREE.part(nothing), null);
  const cut = shape(object({ list: { type: 'array', items: { type: 'string', cut: 2 }, maxItems: 2 } }));
  assert.deepEqual(cut.part({ list: ['abc', 1, 'de'] }), { list: ['ab'] });
});

test('a value that is checked is given back, or the error tells its first fault', () => {
  const value = { name: 'x' };
  assert.equal(TREE.checked(value, 'BAD_REQUEST', 'The tree'), value);
  assert.throws(() => TREE.checked({ name: 'x', list: {} }, 'BAD_REQUEST', 'The tree'), {
    code: 'BAD_REQUEST',
    message: '"list" must be a list.',
    path: 'list',
  });
  assert.throws(() => TREE.checked(1, 'INVALID_INPUT', 'The tree'), {
    code: 'INVALID_INPUT',
    message: 'The tree must be a tree.',
    path: undefined,
  });
});

test('Ajv takes and refuses the same values', () => {
  const valid = new Ajv2020({ strict: false }).compile(TREE.schema);
  const leaf = fc.constantFrom<unknown>('a', 'one', '', ' ', 1, 5, 6, 1.5, true, null, [], ['a'], {}, [{ 'a/b': '' }]);
  const mostly = (...good: unknown[]) => fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...good) }, leaf);
  const one = fc.record({ kind: mostly('one'), size: mostly(1, 5), name: leaf }, { requiredKeys: [] });
  const members = {
    name: mostly('x'),
    flag: mostly(true),
    mode: mostly('a'),
    list: mostly([], [{ 'a/b': '' }]),
    byName: fc.oneof(leaf, fc.dictionary(fc.constantFrom('a', 'b', 'A'), one)),
    either: mostly('a', ['a']),
    kinds: fc.oneof(leaf, one),
  };
  const trees = fc.oneof({ weight: 9, arbitrary: fc.record(members, { requiredKeys: [] }) }, leaf);
  let taken = 0;
  fc.assert(
    fc.property(trees, (value) => {
      assert.equal(TREE.holds(value), valid(value));
      if (valid(value)) taken++;
    }),
    { numRuns: 3000 },
  );
  assert.ok(taken > 20, `${taken}`);
});
