import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { KnownModules } from '../../protocol/rules/gates/check-handlers.ts';
import { temporaryFolder } from '../../testing/command-line.ts';
import type { DescribedApp } from '../gateway/descriptions.ts';
import { checkRules, checkSyntax, excerpt, jsonFault } from './source-check.ts';

test('an excerpt shows the line, the one before it, and marks the column', () => {
  const text = Array.from({ length: 12 }, (_, n) => `line ${n + 1}\r\n`).join('');
  assert.deepEqual(excerpt(text, { line: 10, column: 6 }), [' 9 │ line 9', '10 │ line 10', '   │      ^']);
  assert.deepEqual(excerpt('a ;', { line: 1, column: 3 }), ['1 │ a ;', '  │   ^']);
  assert.deepEqual(excerpt('a', { line: 2, column: 1 }), []);
});

test('the mark is in the right place after tabs and control characters, which cannot drive the terminal', () => {
  assert.deepEqual(excerpt('\t\u001b[2J;', { line: 1, column: 6 }), ['1 │  \\u001b[2J;', '  │           ^']);
});

test('an excerpt of a long line shows the part around the column', () => {
  const shown = excerpt(`${'a'.repeat(100_000)};${'b'.repeat(100_000)}`, { line: 1, column: 100_001 });
  assert.deepEqual(shown, [`1 │ ${'a'.repeat(50)};${'b'.repeat(49)}`, `  │ ${' '.repeat(50)}^`]);
});

test('faults of JSON have a line and a column', () => {
  assert.equal(jsonFault('{"a": 1}'), null);
  assert.deepEqual(jsonFault('{\n  "a": 1,\n}\n'), {
    reason: 'Expected double-quoted property name',
    place: { line: 3, column: 1 },
  });
  assert.deepEqual(jsonFault('{\n  "a": [1'), {
    reason: "Expected ',' or ']' after array element",
    place: { line: 2, column: 10 },
  });
  assert.deepEqual(jsonFault('{\n\n')?.place, { line: 3, column: 1 });
  assert.match(jsonFault('{"a": x}')?.reason ?? '', /Unexpected token 'x'/);
});

test('the first handler that does not parse is named with line and column', async (t) => {
  const folder = temporaryFolder(t);
  for (const name of ['queries', 'actions']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'actions/add.js'), 'await 0;\nexport default async ({ db }) => db?.all(`x`) ?? 1n;\n');
  writeFileSync(join(folder, 'queries/list.js'), 'export default () => {\n  const x = ;\n};\n');
  writeFileSync(join(folder, 'page.js'), 'not ( a module');
  writeFileSync(
    join(folder, 'actions/old.js'),
    "import a from './a.json' assert { type: 'json' };\nexport default () => a;\n",
  );
  assert.deepEqual(await checkSyntax(folder, ['actions/add.js', 'page.js', 'queries/list.js', 'queries/gone.js']), {
    code: 'INVALID_HANDLER',
    message: 'queries/list.js:2:13: It does not parse: Unexpected token.',
    path: 'queries/list.js',
    issues: [
      {
        path: 'queries/list.js',
        keyword: 'syntax',
        message: 'It does not parse: Unexpected token.',
        line: 2,
        column: 13,
      },
    ],
  });
  assert.equal(await checkSyntax(folder, ['actions/add.js', 'actions/old.js', 'page.js', 'queries/gone.js']), null);
});

test('TypeScript is checked without its types, and a fault has line and column', async (t) => {
  const { folder, write } = folderOf(t, {
    'queries/list.ts': `import type { A } from '../a.d.ts';\n${HANDLER}`,
    'lib/types.d.ts': 'declare const a: number;',
    'page.ts': 'enum A {}',
  });
  const files = ['lib/types.d.ts', 'page.ts', 'queries/list.ts'];
  assert.equal(await checkSyntax(folder, files), null);
  write('queries/list.ts', `${HANDLER}\n\tenum A {}\n`);
  const fault = await checkSyntax(folder, files);
  assert.deepEqual([fault?.code, fault?.path], ['INVALID_HANDLER', 'queries/list.ts']);
  assert.match(fault?.message ?? '', /^queries\/list\.ts:3:2: It has a TypeScript enum/);
  const app = { ...APP, actions: [] };
  const refusal = await checkRules(folder, new Map(), app, files, () => false);
  assert.match(refusal?.message ?? '', /^queries\/list\.ts:3:2: .* \(syntax\)\.$/);
  write('queries/list.ts', 'export default async ({ db }: { db: any }) =>\n  db.run("DELETE FROM a" as string);\n');
  const writes = await checkRules(folder, new Map(), app, files, () => false);
  assert.match(writes?.message ?? '', /^queries\/list\.ts:2:10: .*query-handlers-read-only/);
});

test('a manifest that is not JSON is named with line and column', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{\n  "id": "notes",\n}\n');
  const fault = await checkSyntax(folder, ['app.json']);
  assert.deepEqual([fault?.code, fault?.path], ['INVALID_MANIFEST', 'app.json']);
  assert.match(fault?.message ?? '', /^app\.json:3:1: It is not valid JSON: /);
});

test('checking ends when its time is over', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'lib'));
  writeFileSync(join(folder, 'lib/table.js'), `const a = [${'1,'.repeat(10_000)}];\nconst x = ;\n`);
  assert.equal((await checkSyntax(folder, ['lib/table.js']))?.path, 'lib/table.js');
  assert.equal(await checkSyntax(folder, ['lib/table.js'], 0), null);
});

const HANDLER = 'export default async () => {};\n';
const APP: DescribedApp = {
  app: 'notes',
  id: 'notes',
  name: 'Notes',
  version: '1',
  queries: [{ name: 'list' }],
  actions: [{ name: 'add' }],
};

function folderOf(
  t: TestContext,
  files: Record<string, string>,
): { folder: string; write: (path: string, text: string) => void } {
  const folder = temporaryFolder(t);
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  return { folder, write };
}

test('finds what publishing would refuse in the files that are sent, with its place', async (t) => {
  const files = {
    'actions/add.js': `import './nosuch.js';\nimport '../lib/.hidden.js';\n${HANDLER}`,
    'automations/digest/automation.json': '{}',
    'automations/digest/handler.js': 'export default () => Date.now();\n',
    'lib/.hidden.js': '',
    'queries/list.js': 'export default ({ db }) => db.all("DELETE FROM notes");\n',
    'queries/unused.js': 'import fs from "node:fs";\n',
  };
  const { folder, write } = folderOf(t, files);
  const sent = Object.keys(files).filter((path) => path !== 'lib/.hidden.js');
  const known: KnownModules = new Map();
  const check = () => checkRules(folder, known, APP, sent, () => false);
  const places = async (): Promise<string[]> =>
    ((await check())?.issues ?? []).map(({ path, keyword, line, column }) => `${path}:${line}:${column} ${keyword}`);
  const ofAutomation = 'automations/digest/handler.js:1:22 date-now';
  const ofQuery = 'queries/list.js:1:35 query-handlers-read-only';
  assert.deepEqual(await places(), ['actions/add.js:1:8 import', 'actions/add.js:2:8 import', ofAutomation, ofQuery]);
  write('actions/add.js', HANDLER);
  assert.deepEqual(await places(), [ofAutomation, ofQuery], 'only the edited file differs from before');
  write('queries/list.js', HANDLER);
  write('automations/digest/handler.js', 'const a = 1;');
  assert.deepEqual(await places(), ['automations/digest/handler.js:1:1 default-export']);
  write('automations/digest/handler.js', HANDLER);
  assert.equal(await check(), null);
});

test('an edit that is waiting to be sent ends the check', async (t) => {
  const { folder } = folderOf(t, { 'queries/list.js': HANDLER, 'actions/add.js': '' });
  const files = ['queries/list.js', 'actions/add.js'];
  assert.notEqual(await checkRules(folder, new Map(), APP, files, () => false), null);
  assert.equal(await checkRules(folder, new Map(), APP, files, () => true), null);
});
