import assert from 'node:assert/strict';
import Module from 'node:module';
import { describe, test } from 'node:test';
import { eraseTypes } from './erase-types.ts';
import { Lines } from './syntax.ts';

/** What is left of the text. */
function erased(source: string): string {
  const result = eraseTypes(source);
  assert.ok('text' in result, JSON.stringify(result));
  return result.text;
}

/** `line:column message` of the fault. */
function fault(source: string): string {
  const result = eraseTypes(source);
  assert.ok('message' in result, 'it was erased');
  const { line, column } = new Lines(source).position(result.at);
  return `${line}:${column} ${result.message}`;
}

test('types become blanks, and all else stays where it was', () => {
  const source = [
    "import type { Row } from './rows.ts';",
    "import { type Mark, marks } from './marks.ts';",
    'interface Args<T extends object = Row> { input: T }',
    'declare const later: number;',
    'export default async function list<T>({ input }: Args<{ a?: 1 }>): Promise<Row[]> {',
    "  const all = (input.a! satisfies unknown) as T, é: 'ü😀' = marks;",
    '  return await run<Row>(all, <U,>(mark: Mark): mark is Mark => true);',
    '}',
    'abstract class Base { declare x: 1; private readonly y = 1; z?: string; abstract a(): void; constructor(y: 1); constructor(y: any) {} }',
  ].join('\n');
  const text = erased(source);
  assert.equal(text.length, source.length);
  assert.deepEqual(
    text.split('\n').map((line) => line.trimEnd().replace(/ +/g, ' ')),
    [
      '',
      "import { marks } from './marks.ts';",
      '',
      '',
      'export default async function list ({ input } ) {',
      ' const all = (input.a ) , é = marks;',
      ' return await run (all, (mark ) => true);',
      '}',
      ' class Base { y = 1; z ; constructor(y ) {} }',
    ],
  );
  for (const word of ['marks', 'function', 'é', 'run', 'class']) assert.equal(text.indexOf(word), source.indexOf(word));
});

test('no statement joins the one that follows an erased one', () => {
  const text = erased('let a = 1\ntype A = 2\n(a)\nconst f = async <T>(a: T)\n  : Promise<T> =>\n a');
  assert.equal(text, 'let a = 1\n;         \n(a)\nconst f = async    (a    \n             ) =>\n a');
});

test('line ends of every kind, a byte order mark and a hashbang stay', () => {
  for (const end of ['\n', '\r\n', '\r', '\u2028', '\u2029']) {
    const source = `\uFEFFa;${end}type X =${end} 1;${end}b();`;
    assert.equal(erased(source), `\uFEFFa;${end}        ${end}   ${end}b();`);
  }
  assert.equal(erased('#!/usr/bin/env node\nlet a: 1;'), '#!/usr/bin/env node\nlet a   ;');
});

describe('syntax that is more than types is refused, with its position and what to write', () => {
  const faults: [source: string, fault: RegExp][] = [
    ['const a = 1;\n  enum X { A }', /^2:3 It has a TypeScript enum, .* cannot be erased; write an object `as const`/],
    ['namespace X { export const a = 1 }', /^1:1 It has a TypeScript namespace declaration, .* a module of its own\.$/],
    ['class A { constructor(private a: 1) {} }', /^1:31 It has a TypeScript parameter property, .* declare the field/],
    ["import a = require('a');", /^1:1 .* import equals declaration, .* write `import … from`\.$/],
    ['export = 1;', /^1:1 .* export assignment, .* write `export default`\.$/],
    ['const a = <string>b;', /^1:11 It cannot be erased: The angle-bracket syntax .* `expr as T`\.$/],
    ['const a = <div>b</div>;', /^1:18 It does not parse: /],
    ['const = 1;', /^1:7 It does not parse: Unexpected token `=`/],
    ['export default function( {', /^1:27 It does not parse: /],
  ];
  for (const [source, expected] of faults) test(source, () => assert.match(fault(source), expected));
});

test('columns count in UTF-16 units, whatever stands before', () => {
  for (const before of ['\t\t', "'é漢😀' + 'e\u0301\u200b';", '/* 👨‍👩‍👧 */', '\uFEFF', '\u00A0\u3000'])
    assert.match(fault(`${before}enum X {}`), new RegExp(`^1:${before.length + 1} It has a TypeScript enum`));
  assert.match(fault("const a = '\u2028';\nenum X {}"), /^3:1 /);
});

test('a text that nests too deeply is refused, and the next text is not', () => {
  const deep = `let x = ${'['.repeat(50_000)}`;
  assert.match(fault(deep), /^1:1 It is nested too deeply/);
  assert.equal(erased('let a: 1'), 'let a   ');
  assert.match(fault('enum X {}'), /TypeScript enum/);
});

test('a fault of the eraser is not one of the text', () => {
  fault(`let x = ${'['.repeat(50_000)}`);
  const loader = Module as unknown as { _resolveFilename(...args: unknown[]): string };
  const resolve = loader._resolveFilename;
  loader._resolveFilename = () => {
    throw new Error('Cannot find module');
  };
  try {
    assert.throws(() => eraseTypes('let a: 1'), {
      code: 'INTERNAL',
      message: /@swc\/wasm-typescript, which cannot be loaded/,
    });
  } finally {
    loader._resolveFilename = resolve;
  }
  assert.equal(erased('let a: 1'), 'let a   ');
});
