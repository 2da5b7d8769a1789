import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { SvcError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import {
  checkHandlers,
  type HandlerSource,
  invalidHandler,
  keepsFromLoading,
  type ReadHandler,
} from './check-handlers.ts';

const HANDLER = 'export default async () => {};\n';
const AUTOMATION = 'automations/digest/handler.js';
const QUERY = 'queries/list.js';
const ACTION = 'actions/add.js';

/** Reads what the app has, and nothing else. */
const reader =
  (files: Record<string, string>): ReadHandler =>
  (file) => {
    const text = files[file];
    return text === undefined ? { refused: 'does not exist' } : { text };
  };

/** The error of an app of these files, each of whose handlers is declared; null when it passes. `there` are those it has. */
function check(files: Record<string, string>, there = files): SvcError | null {
  const named = (kind: string) =>
    Object.keys(files).flatMap((file) => new RegExp(`^${kind}/([^/]+)(?:/handler)?\\.js$`).exec(file)?.[1] ?? []);
  const tools = (kind: string) => named(kind).map((name) => ({ name }));
  const manifest = { queries: tools('queries'), actions: tools('actions') };
  const found = checkHandlers(reader(there), manifest, named('automations'));
  return found.length === 0 ? null : invalidHandler(found);
}

/** `<rule> <line>:<column>`, with the file in front where it is not the one asked about. */
function findings(files: Record<string, string>, about?: string): string[] {
  return (check(files)?.issues ?? []).map(
    ({ path, keyword, line, column }) => `${path === about ? '' : `${path} `}${keyword} ${line}:${column}`,
  );
}

/** The rules that the text of one handler breaks. */
function rules(file: string, text: string): string[] {
  return (check({ [file]: text })?.issues ?? []).map(({ keyword }) => keyword);
}

describe('modules that Node loads pass', () => {
  const texts: Record<string, string> = {
    'a hashbang': '#!/usr/bin/env node\n',
    'a byte order mark': '\uFEFF',
    'an await outside of functions': 'await null;\n',
    'a static block': 'class A { static { this.a = 1; } #b = 2; has(o) { return #b in o; } }\n',
    'an expression with sets': 'const set = /[\\p{L}--[a-z]]/v;\n',
    'a regular expression of any kind': "const all = /(?<year>\\d{4})(?<=x)\\k<year>/dgimsuy; const s = 'a\u2028b';\n",
    'an import with attributes': "import data from '../lib/data.json' with { type: 'json' };\n",
    'an import with the older attributes': "import data from '../lib/data.json' assert { type: 'json' };\n",
    'an export with the older attributes': "export { default as d } from '../lib/data.json' assert { type: 'json' };\n",
    'a name that is a word of those': "import assert from '../lib/data.json'\nassert;\n",
    'an import at run time': "const data = await import('../lib/data.json', { with: { type: 'json' } });\n",
    'everything else': 'for await (const x of []) { x.y ??= 1_000n; label: { break label; } }\n',
  };
  for (const [name, text] of Object.entries(texts)) {
    test(name, () => {
      for (const file of [QUERY, ACTION]) {
        assert.deepEqual(findings({ [file]: `${text}${HANDLER}`, 'lib/data.json': '{}' }), []);
      }
    });
  }

  for (const text of [
    'export default async function add() {}',
    'const add = async () => {};\nexport { add as default };',
    "const add = async () => {};\nexport { add as 'default' };",
    "export { default } from '../lib/add.js';",
    "export { add as default } from '../lib/add.js';",
    "export * as default from '../lib/add.js';",
  ]) {
    test(`the default export of: ${text.replace('\n', ' ')}`, () => {
      assert.deepEqual(findings({ [ACTION]: text, 'lib/add.js': `${HANDLER}export const add = 1;` }), []);
    });
  }
});

describe('files that cannot be loaded', () => {
  test('a syntax error, with its place', () => {
    for (const file of [QUERY, ACTION, AUTOMATION]) {
      const error = check({ [file]: 'export default async () => {\n  const a = 1;\n  const b = ;\n};\n' });
      assert.deepEqual(error?.issues, [
        { path: file, keyword: 'syntax', message: 'It does not parse: Unexpected token.', line: 3, column: 13 },
      ]);
      assert.equal(error?.message, `${file}:3:13: It does not parse: Unexpected token (syntax).`);
      assert.equal(error?.path, file);
    }
  });

  test('no default export', () => {
    for (const text of ['', 'export const add = 1;', "export * from '../lib/a.js';", 'module.exports = () => {};']) {
      assert.deepEqual(findings({ [ACTION]: text, 'lib/a.js': HANDLER }), [`${ACTION} default-export 1:1`]);
    }
  });

  test('a default export that is no function', () => {
    for (const value of ['5', "'x'", '`x`', '{}', '[]', 'class {}', '-1', "'a' + 'b'", 'null', '/x/'])
      assert.deepEqual(findings({ [ACTION]: `\nexport default ${value};` }), [`${ACTION} default-export 2:16`], value);
    for (const value of ['make()', 'handler', 'memo(async () => 1)', 'async () => 1', 'new Handler()'])
      assert.deepEqual(findings({ [ACTION]: `export default ${value};` }), [], value);
  });

  const imports: [statement: string, message: RegExp][] = [
    ["import '../lib/none.js';", /^It imports lib\/none\.js, which does not exist\.$/],
    ["export * from '../lib/none.js';", /lib\/none\.js, which does not exist/],
    ["export { a } from '../lib/none.js';", /lib\/none\.js, which does not exist/],
    ["import '../lib';", /with the ending written out/],
    ["import '../../other/actions/add.js';", /leads out of the app/],
    ["import '/lib/a.js';", /files of their own app, by a relative path .*, and packages/],
    ["import 'lodash';", /"lodash", but the app has no bundle of it, _packages\/lodash\.js; svc push, svc dev/],
    ["import * as get from '@a/b/c.js';", /no bundle of it, _packages\/@a\/b\/c\.js\.js/],
    ["import 'a/../../b';", /files of their own app/],
    ["import '#internal';", /files of their own app/],
    ["import fs from 'node:fs';", /cannot import Node built-ins/],
    [`import './${'a'.repeat(300)}.js';`, /does not exist/],
    [`import './${'a'.repeat(300_000)}.txt';`, /^.{501}$/],
  ];
  for (const [statement, message] of imports) {
    test(`import: ${statement.slice(0, 60)}`, () => {
      const error = check({ [ACTION]: `${HANDLER}\n  ${statement}` });
      const { keyword, line, column, message: said = '' } = error?.issues?.[0] ?? {};
      assert.deepEqual([keyword, line, column], ['import', 3, statement.search(/['"]/) + 3]);
      assert.match(said, message);
    });
  }

  test('a file that is missing at run time only is not missed', () => {
    assert.deepEqual(findings({ [ACTION]: `${HANDLER}export const more = () => import('../lib/none.js');` }), []);
  });

  test('modules that are imported are checked, each once, also in circles', () => {
    const files = {
      [ACTION]: `import '../lib/a.js';\n${HANDLER}`,
      [QUERY]: `import '../lib/a.js';\n${HANDLER}`,
      'lib/a.js': "import './b.js';\nimport './data.json';",
      'lib/b.js': "import './a.js';\nimport '../queries/list.js';\nlet x; let x;",
      'lib/data.json': '{',
      'lib/unused.js': '(',
    };
    assert.deepEqual(findings(files), ['lib/b.js syntax 3:12', 'lib/data.json syntax 1:1']);
  });

  test('packages are parsed and linked, and no other rule applies to them', () => {
    const files = {
      [AUTOMATION]: `import { now, missing } from 'clock';\n${HANDLER}`,
      [QUERY]: `import 'bad';\nimport 'nodish';\n${HANDLER}`,
      '_packages/clock.js': "import './_CHUNK.js';\nexport const now = () => Date.now() + Math.random();",
      '_packages/bad.js': 'export const = 1;',
      '_packages/nodish.js': "import fs from 'node:fs';",
    };
    assert.deepEqual(findings(files), [
      '_packages/bad.js syntax 1:14',
      '_packages/clock.js import 1:8',
      '_packages/nodish.js import 1:16',
      `${AUTOMATION} import 1:15`,
    ]);
    assert.match(check(files)?.issues?.[3]?.message ?? '', /"missing" from "clock", whose bundle exports nothing/);
  });

  test('a handler that is not there', () => {
    assert.deepEqual(check({ [ACTION]: HANDLER }, {})?.issues, [
      { path: ACTION, keyword: 'import', message: 'The file does not exist.', line: 1, column: 1 },
    ]);
  });

  const deep = 100_000;
  for (const [name, text] of Object.entries({
    brackets: '['.repeat(deep),
    'closed brackets': `const a = ${'['.repeat(deep)}${']'.repeat(deep)};`,
    blocks: '{'.repeat(deep) + '}'.repeat(deep),
    templates: '`${'.repeat(deep),
    functions: '()=>'.repeat(deep),
    sums: `const a = ${'a+'.repeat(deep)}a;`,
    members: `a${'.a'.repeat(deep)};`,
    calls: `a${'()'.repeat(deep)};`,
    patterns: `const ${'{a:'.repeat(deep)}b${'}'.repeat(deep)} = {};`,
  })) {
    test(`${name} that are nested too deeply`, () => {
      const messages = (check({ [AUTOMATION]: `${HANDLER}${text}` })?.issues ?? []).map(({ message }) => message);
      assert.match(messages.join('\n'), /^It is nested too deeply/);
    });
  }

  test('very many names below many blocks', () => {
    const text = `${'{'.repeat(400)}${'process;'.repeat(60_000)}${'}'.repeat(400)}`;
    assert.deepEqual(rules(QUERY, `${HANDLER}${text}`), ['syntax']);
  });

  test('code with ordinary nesting passes', () => {
    const text = `const a = ${'[{ a: ('.repeat(200)}1${') }]'.repeat(200)};\nconst s = ${"'a' + ".repeat(1000)}'';\n`;
    assert.deepEqual(findings({ [AUTOMATION]: `${text}${HANDLER}` }), []);
  });
});

describe('files that take too long to check', () => {
  const many = (line: (n: number) => string): string => Array.from({ length: 60_000 }, (_, n) => line(n)).join('\n');
  for (const [name, text] of Object.entries({
    'names of one scope': many((n) => `let name${n};`),
    exports: many((n) => `export const name${n} = 1;`),
  })) {
    test(`because of ${name}`, () => {
      const read = reader({ [ACTION]: HANDLER, [QUERY]: `${HANDLER}${text}` });
      const manifest = { queries: [{ name: 'list' }], actions: [{ name: 'add' }] };
      assert.throws(() => checkHandlers(read, manifest, [], 300), {
        code: 'INVALID_HANDLER',
        path: QUERY,
        message: /^queries\/list\.js:1:1: Checking the handlers takes more than 0\.3 s, .*smaller/,
      });
    });
  }
});

describe('the order and number of findings', () => {
  test('by file, line and column', () => {
    const files = {
      [QUERY]: `${HANDLER}(`,
      [ACTION]: 'export const a = 1;',
      [AUTOMATION]: `${HANDLER}fetch(Date.now(), Math.random());\nprocess;`,
      'automations/a/handler.js': `${HANDLER}process;`,
    };
    assert.deepEqual(findings(files, AUTOMATION), [
      'actions/add.js default-export 1:1',
      'automations/a/handler.js process 2:1',
      'raw-fetch 2:1',
      'date-now 2:7',
      'math-random 2:19',
      'process 3:1',
      'queries/list.js syntax 2:2',
    ]);
    assert.match(
      check(files)?.message ?? '',
      /^actions\/add\.js:1:1: It has .*\(default-export\)\. There are 6 more findings\.$/,
    );
  });

  test('those over the limit are counted', () => {
    const error = check({ [AUTOMATION]: `${HANDLER}${'Date.now();\n'.repeat(LIMITS.inputIssues + 5)}` });
    assert.equal(error?.issues?.length, LIMITS.inputIssues);
    assert.deepEqual(error?.issues?.at(-1)?.line, LIMITS.inputIssues + 1);
    assert.match(
      error?.message ?? '',
      /handler\.js:2:1: Date\.now reads .*\(date-now\)\. There are 24 more findings; issues lists the first 20\.$/,
    );
  });

  test('lines end as JavaScript says', () => {
    const text = `${HANDLER}\r\n\r\u2028\u2029  Date.now()`;
    assert.deepEqual(findings({ [AUTOMATION]: text }, AUTOMATION), ['date-now 6:3']);
  });
});

test('files that cannot be loaded are distinguished from files that break a rule', () => {
  const files = {
    [QUERY]: `${HANDLER}export const touch = ({ db }) => db.run('DELETE FROM t'); // governance: allow-nothing a`,
    'queries/broken.js': '(',
    [ACTION]: 'export const add = 1;',
    'actions/lost.js': `import '../lib/none.js';\n${HANDLER}`,
    [AUTOMATION]: `import 'fs';\n${HANDLER}Date.now();`,
  };
  const told = (check(files)?.issues ?? []).map((issue) => `${issue.keyword} ${keepsFromLoading(issue)}`);
  assert.deepEqual(told, [
    'default-export true',
    'import true',
    'node-builtin false',
    'date-now false',
    'syntax true',
    'query-handlers-read-only false',
    'waiver false',
  ]);
});

describe('waivers', () => {
  const cases: [name: string, text: string, expected: string[]][] = [
    ['on the line', 'Date.now(); // governance: allow-date-now the report shows it', []],
    ['in a block comment', 'Date.now(/* governance: allow-date-now the report shows it */);', []],
    ['above the line', '  // governance: allow-date-now the report shows it\nDate.now();', []],
    ['in a block comment above', '/*\n * governance: allow-date-now shown\n */\nDate.now();', []],
    ['of several rules', '// governance: allow-date-now a\n// governance: allow-process b\nprocess(Date.now());', []],
    ['of every finding of the line', '// governance: allow-date-now a\nDate.now(Date.now());', []],
    ['not two lines above', '// governance: allow-date-now shown\n\nDate.now();', ['date-now 4:1']],
    ['not beside other code', 'a; // governance: allow-date-now shown\nDate.now();\nlet a;', ['date-now 3:1']],
    ['not below', 'Date.now();\n// governance: allow-date-now shown\n', ['date-now 2:1']],
    ['not of another rule', 'Date.now(); // governance: allow-process shown', ['date-now 2:1']],
    ['not in a string', "Date.now('// governance: allow-date-now shown');", ['date-now 2:1']],
    ['without a reason', 'Date.now(); // governance: allow-date-now', ['date-now 2:1', 'waiver 2:13']],
    ['with a reason that says nothing', 'a; // governance: allow-date-now -- \nlet a;', ['waiver 2:4']],
    ['of no rule', '// governance: allow-everything now', ['waiver 2:1']],
    ['of a rule without waivers', '// governance: allow-default-export why not', ['waiver 2:1']],
    ['of itself', '// governance: allow-waiver a\n// governance: allow-nothing a', ['waiver 2:1', 'waiver 3:1']],
    ['other comments', '// governance: see the handbook\n// allow-date-now\n', []],
  ];
  for (const [name, text, expected] of cases) {
    test(name, () => assert.deepEqual(findings({ [AUTOMATION]: `${HANDLER}${text}` }, AUTOMATION), expected));
  }

  test('a syntax error cannot be waived', () => {
    assert.deepEqual(rules(ACTION, `${HANDLER}// governance: allow-syntax it is art\n(`), ['syntax']);
  });

  test('one in an action is read too', () => {
    assert.deepEqual(rules(ACTION, `${HANDLER}// governance: allow-nothing a`), ['waiver']);
  });
});

describe('which rules hold where', () => {
  const IMPORTS = `import '../lib/shared.js';\n${HANDLER}`;
  const DIGEST = `import '../../lib/shared.js';\n${HANDLER}`;
  const CLOCK = 'export const now = () => Date.now();';
  const WRITE = "export const touch = (db) => db.run('DELETE FROM t');";

  const cases: [name: string, files: Record<string, string>, expected: string[]][] = [
    ['queries and actions read clocks', { [QUERY]: IMPORTS, [ACTION]: IMPORTS, 'lib/shared.js': CLOCK }, []],
    [
      'what automations import reads none',
      { [ACTION]: IMPORTS, [AUTOMATION]: DIGEST, 'lib/shared.js': CLOCK },
      ['lib/shared.js date-now 1:26'],
    ],
    [
      'also what they import at run time',
      { [AUTOMATION]: `${HANDLER}await import('../../lib/shared.js');`, 'lib/shared.js': CLOCK },
      ['lib/shared.js date-now 1:26'],
    ],
    ['actions write', { [ACTION]: `${HANDLER}${WRITE}` }, []],
    ['queries do not', { [QUERY]: `${HANDLER}${WRITE}` }, ['queries/list.js query-handlers-read-only 2:37']],
    [
      'nor what only they import',
      { [QUERY]: IMPORTS, 'queries/more.js': IMPORTS, 'lib/shared.js': WRITE },
      ['lib/shared.js query-handlers-read-only 1:37'],
    ],
    ['what actions import too may write', { [QUERY]: IMPORTS, [ACTION]: IMPORTS, 'lib/shared.js': WRITE }, []],
    [
      'a query that an action imports is still one',
      { [QUERY]: `${HANDLER}${WRITE}`, [ACTION]: `import '../queries/list.js';\n${HANDLER}` },
      ['queries/list.js query-handlers-read-only 2:37'],
    ],
    [
      'Node modules are told by one rule',
      { [AUTOMATION]: `import 'fs';\n${HANDLER}`, [ACTION]: `import 'fs';\n${HANDLER}` },
      ['actions/add.js import 1:8', 'automations/digest/handler.js node-builtin 1:1'],
    ],
  ];
  for (const [name, files, expected] of cases) {
    test(name, () => assert.deepEqual(findings(files), expected));
  }
});

describe('handlers in TypeScript', () => {
  const typed = (files: Record<string, HandlerSource>, names = ['list']): string[] => {
    const read: ReadHandler = (file) => files[file] ?? { refused: 'does not exist' };
    const queries = names.map((name) => ({ name }));
    return checkHandlers(read, { queries, actions: [] }, ['digest']).map(
      ({ path, keyword, line, column, message }) => `${path}:${line}:${column} ${keyword} ${message}`,
    );
  };
  const digest = { 'automations/digest/handler.js': { text: HANDLER } };

  test('they are found where there is no .js, and followed like others', () => {
    const files = {
      'queries/list.ts': { text: `import '../lib/a.ts';\n${HANDLER}` },
      'lib/a.ts': { text: "import './b.js';" },
      'automations/digest/handler.ts': { text: 'export default () =>      Date.now();' },
    };
    assert.deepEqual(typed(files), [
      'automations/digest/handler.ts:1:27 date-now Date.now reads the clock; use ctx.now, the time of the fire.',
      'lib/a.ts:1:8 import It imports lib/b.js, which does not exist.',
    ]);
  });

  test('a fault in types is a syntax fault; the error for an import of a .ts file names it', () => {
    const files = {
      ...digest,
      'queries/list.ts': {
        text: "import './more.js';\nexport default enum",
        fault: { at: 35, message: 'It is more.' },
      },
      'queries/other.js': { text: `import './list.js';\n${HANDLER}` },
    };
    assert.deepEqual(typed(files, ['list', 'other']), [
      'queries/list.ts:2:16 syntax It is more.',
      'queries/other.js:1:8 import It imports queries/list.js, which does not exist. There is queries/list.ts.',
    ]);
  });

  test('a type that is imported like a value is found, as every name that a module does not export', () => {
    const files = {
      ...digest,
      'queries/list.ts': {
        text: `import { Row } from '../types.ts';\nimport one, { two, x as three } from '../lib/a.js';\n${HANDLER}`,
      },
      'types.ts': { text: '          ' },
      'lib/a.js': { text: `export { four as "two" } from './b.js';\nexport * as all from './c.js'; export class x {}` },
      'lib/b.js': { text: "export const [four] = []; export * from './c.js';" },
      'lib/c.js': { text: 'export function five() {}\nexport const six = 1, seven = 2;\nexport { six as default };' },
      'queries/other.js': {
        text: `import c, { five, six, seven, nine } from '../lib/c.js';\nimport * as all from '../lib/a.js';\n${HANDLER}`,
      },
    };
    assert.deepEqual(typed(files, ['list', 'other']), [
      'queries/list.ts:1:10 import It imports "Row" from types.ts, which exports nothing of this name; for a type, write `import type`.',
      'queries/list.ts:2:8 import It imports "default" from lib/a.js, which exports nothing of this name.',
      'queries/other.js:1:31 import It imports "nine" from lib/c.js, which exports nothing of this name.',
    ]);
  });

  test('one that is there as .js too is refused', () => {
    const files = { ...digest, 'queries/list.ts': { text: '' }, 'queries/list.js': { text: HANDLER } };
    assert.deepEqual(typed(files), [
      'queries/list.ts:1:1 import The file is beside queries/list.js, which has the same name; keep one of the two.',
    ]);
  });

  test('without either, the .js is missing', () => {
    assert.deepEqual(typed(digest), ['queries/list.js:1:1 import The file does not exist.']);
  });

  test('a declaration file is no module', () => {
    const files = { ...digest, 'queries/list.ts': { text: `import '../svc.d.ts';\n${HANDLER}` } };
    assert.deepEqual(typed(files), [
      'queries/list.ts:1:8 import It imports "../svc.d.ts": it has types only; write `import type`.',
    ]);
  });
});
