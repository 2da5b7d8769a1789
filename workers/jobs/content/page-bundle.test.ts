/** What the page of an app is built into, and what is refused. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import type { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest } from '../../../protocol/manifest.ts';
import { hashed } from './app-files.ts';
import { buildPage } from './page-bundle.ts';

type Files = Record<string, string>;

const root = mkdtempSync(join(tmpdir(), 'svc-page-build-'));
after(() => rmSync(root, { recursive: true, force: true }));
let made = 0;

function build(files: Files, entry = 'app.ts') {
  const code = join(root, String(++made));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(code, path)), { recursive: true });
    writeFileSync(join(code, path), text);
  }
  const list = Object.entries(files).map(([path, text]) => hashed({ path, content: Buffer.from(text) }));
  return buildPage(code, list, {
    id: 'x',
    name: 'X',
    version: '1',
    queries: [],
    actions: [],
    page: { entry },
  } as Manifest);
}

/** Each finding with its place. */
async function findings(files: Files, entry?: string): Promise<string[]> {
  try {
    await build(files, entry);
    return [];
  } catch (error) {
    const { code, issues = [], message } = error as SvcError;
    assert.equal(code, 'INVALID_PAGE', message);
    return issues.map(({ path, line, column, message }) => `${path}:${line}:${column} ${message}`);
  }
}

const text = (built: Awaited<ReturnType<typeof build>>, path: string) => String(built.files.get(path));

test('TypeScript, JSX, JSON, styles and packages become one script and one sheet, with maps', async () => {
  const built = await build(
    {
      'app.tsx': `/** @jsxImportSource tiny */
import { names } from './lib/names';
import data from './data.json';
import logo from './img/logo.png';
import './style.css';
import type { Box } from './svc.d.ts';
const box: Box = <b id={logo}>{names.join('+') + data.word}</b>;
document.body.append(String(box));
await import('/svc/client.js');
`,
      'lib/names.ts':
        "import { late } from './late.js';\nexport const names: string[] = ['é', late satisfies string];\n",
      'lib/late.ts': "export const late = 'late';\nexport const neverUsed = 'neverUsed';\n",
      'data.json': '{ "word": "hello" }',
      'img/logo.png': 'png',
      'style.css': '@import "base.css";\n.a { background: url(img/logo.png); & b { color: red } }\n',
      'base.css': '.base { color: blue }',
      'svc.d.ts': 'export type Box = object;',
      '_packages/_page/tiny/jsx-runtime.js': "export { jsx } from '../_1.js';\n",
      '_packages/_page/_1.js': 'export const jsx = (...all) => JSON.stringify(all);\n',
    },
    'app.tsx',
  );
  assert.deepEqual([...built.files.keys()].sort(), ['app.css', 'app.css.map', 'app.js', 'app.js.map']);
  const script = text(built, 'app.js');
  for (const part of [
    'late',
    'hello',
    'JSON.stringify',
    'new URL("./img/logo.png",import.meta.url)',
    '/svc/client.js',
    'é',
  ])
    assert.ok(script.includes(part), `${part} in ${script}`);
  assert.ok(!/neverUsed|: string|satisfies/.test(script), script);
  assert.match(script, /\n\/\/# sourceMappingURL=app\.js\.map\n$/);
  assert.equal(
    text(built, 'app.css').split('\n')[0],
    '.base{color:#00f}.a{background:url(./img/logo.png);& b{color:red}}',
  );
  const map = JSON.parse(text(built, 'app.js.map')) as { sources: string[]; sourcesContent: string[] };
  assert.ok(map.sources.includes('lib/names.ts'), map.sources.join());
  assert.match(map.sourcesContent[map.sources.indexOf('lib/late.ts')] ?? '', /export const late/);
  assert.deepEqual(built.warnings, []);
});

test('the same files give the same bytes; an entry may be what it is served as', async () => {
  const files = {
    'app.js': "import './app.css';\nimport { n } from './n';\ndocument.title = n;\n",
    'n.ts': "export const n = 'é';",
    'app.css': 'b { color: red }',
  };
  const [one, other] = [await build(files, 'app.js'), await build({ ...files, 'queries/list.js': 'x' }, 'app.js')];
  assert.equal(text(one, 'app.js'), text(other, 'app.js'));
  assert.match(text(one, 'app.js'), /document\.title=/);
  assert.equal(text(one, 'app.css').split('\n')[0], 'b{color:red}');
});

test('a tsconfig.json says how JSX is compiled', async () => {
  const settings = '{ "compilerOptions": { "jsx": "react", "jsxFactory": "h" /* a comment */ } }';
  const built = await build(
    { 'app.tsx': 'declare const h: any;\nexport default <p />;', 'tsconfig.json': settings },
    'app.tsx',
  );
  assert.match(text(built, 'app.js'), /h\("p",null\)/);
});

const REFUSED: [what: string, files: Files, expected: RegExp[]][] = [
  [
    'a text that does not parse, after letters of several bytes',
    { 'app.ts': "const a = 1;\nconst é = 'ö', b = ;\n" },
    [/^app\.ts:2:20 Unexpected ";"\.$/],
  ],
  [
    'all imports that lead nowhere',
    {
      'app.ts':
        "import './no.ts';\nimport 'preact';\nimport fs from 'node:fs';\nimport '../out.ts';\nimport './t.d.ts';\nfs.a();\n",
      't.d.ts': '',
    },
    [
      /^app\.ts:1:8 It imports "\.\/no\.ts", and the app has no such file\.$/,
      /^app\.ts:2:8 It imports "preact", and the app has no bundle of it\. .*svc push/,
      /^app\.ts:3:16 It imports "node:fs" of Node/,
      /^app\.ts:4:8 It imports "\.\.\/out\.ts", which leads out of the app\.$/,
      /^app\.ts:5:8 .*types only/,
    ],
  ],
  [
    'a name that is not exported',
    { 'app.ts': "import { a } from './b';\na();", 'b.ts': '' },
    [/^app\.ts:1:10 Import "a" will always be undefined/],
  ],
  [
    'a picture that is not there',
    { 'app.ts': "import './a.css';", 'a.css': 'b { background: url(no.png) }' },
    [/^a\.css:1:17 It shows "no\.png"/],
  ],
  [
    'a file that is no module',
    { 'app.ts': "import sql from './migrations/0001_a.sql';\nconsole.log(sql);", 'migrations/0001_a.sql': 'SELECT 1' },
    [/^app\.ts:1:17 The page imports migrations\/0001_a\.sql, which is no module, and is never served\.$/],
  ],
  [
    'a file that would be hidden',
    { 'app.ts': '1', 'app.js': '2' },
    [/^app\.js:1:1 The page is built into app\.js, and the app has a file/],
  ],
  [
    'a tsconfig.json that is none',
    { 'app.ts': '1', 'tsconfig.json': '{ "compilerOptions": ' },
    [/^tsconfig\.json:1:\d+ /],
  ],
  [
    'a script that is too large',
    { 'app.ts': "import text from './a.txt';\nconsole.log(text);", 'a.txt': 'x'.repeat(LIMITS.pageBytes) },
    [/^app\.ts:1:1 The page is built into app\.js of 5\.0 MiB, and it may have 5\.0 MiB: a\.txt/],
  ],
  [
    'files of more than 20 MiB',
    {
      'app.ts': [1, 2, 3, 4, 5].map((n) => `import t${n} from './${n}.txt';\nconsole.log(t${n});`).join('\n'),
      ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`${n}.txt`, 'x'.repeat(LIMITS.archiveFileBytes)])),
    },
    [/^.*The page imports files of more than 20 MiB in all; import less\.$/],
  ],
];

for (const [what, files, expected] of REFUSED)
  test(`${what} is refused`, async () => {
    const found = await findings(files);
    assert.equal(found.length, expected.length, found.join('\n'));
    for (const [at, pattern] of expected.entries()) assert.match(found[at] ?? '', pattern);
  });

test('an entry that is not there is a fault of app.json', async () => {
  await assert.rejects(build({ 'app.ts': '' }, 'main.ts'), {
    code: 'INVALID_MANIFEST',
    path: 'page.entry',
    message: 'app.json: page.entry is "main.ts", and the app has no such file.',
  });
});

test('what the bundler doubts is a warning', async () => {
  const { warnings } = await build({ 'app.ts': 'const a = document.title;\nif (a === NaN) alert(1);\n' });
  assert.equal(warnings.length, 1);
  assert.deepEqual([warnings[0]?.path, warnings[0]?.line, warnings[0]?.keyword], ['app.ts', 2, 'build']);
});
