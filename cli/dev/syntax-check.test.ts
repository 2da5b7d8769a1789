import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../testing/command-line.ts';
import { checkSyntax } from './syntax-check.ts';

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

test('a manifest that is not JSON is named with line and column', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{\n  "id": "notes",\n}\n');
  const fault = await checkSyntax(folder, ['app.json']);
  assert.deepEqual([fault?.code, fault?.path], ['INVALID_MANIFEST', 'app.json']);
  assert.match(fault?.message ?? '', /^app\.json:3:1: It is not valid JSON: /);
});

test('it ends when its time is over', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'lib'));
  writeFileSync(join(folder, 'lib/table.js'), `const a = [${'1,'.repeat(10_000)}];\nconst x = ;\n`);
  assert.equal((await checkSyntax(folder, ['lib/table.js']))?.path, 'lib/table.js');
  assert.equal(await checkSyntax(folder, ['lib/table.js'], 0), null);
});
