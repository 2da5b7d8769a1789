/**
 * Packages in handlers: bundled on the author's machine, stored as plain files, with places of errors in the sources
 * (specification, "TypeScript and packages").
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { automation } from '../testing/apps.ts';
import { svc as run } from '../testing/command-line.ts';
import { gatewayOfSuite, onEachStore } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

type Files = Record<string, string>;

/** The packages that a test puts into `node_modules`. */
const PACKAGES: Files = {
  'plain/package.json':
    '{ "name": "plain", "version": "1.0.0", "type": "module", "exports": { ".": "./src/main.js", "./sub": "./src/sub.js" } }',
  'plain/src/main.js':
    "import { twice } from './twice.js';\n\nexport const four = twice(2);\nexport const unused = 'never used';\nexport function fail() {\n  throw new Error('as asked');\n}\n",
  'plain/src/twice.js': 'export const twice = (n) => 2 * n;\n',
  'plain/src/sub.js': "import { twice } from './twice.js';\nexport default twice;\n",
  'common/package.json': '{ "name": "common", "version": "1.0.0" }',
  'common/index.js':
    "const { join } = require('./lib/join');\nexports.join = join;\nexports.kind = typeof require('empty').none;\n",
  'common/lib/join.js':
    "exports.join = (a, b) => {\n  if (a === '') throw new TypeError('nothing to join');\n  return [a, b].join('-');\n};\n",
  'empty/index.js': '',
  '@scope/typed/package.json':
    '{ "name": "@scope/typed", "version": "1.0.0", "type": "module", "main": "index.js", "types": "index.d.ts" }',
  '@scope/typed/index.js': 'export class Box { constructor(value) { this.value = value; } }\n',
  '@scope/typed/index.d.ts':
    'export interface Lid { open: boolean }\nexport class Box<T> { value: T; constructor(value: T) }\n',
  'native/index.js': "module.exports = require('./build/native.node');\n",
  'native/build/native.node': 'ELF',
  'compiled/binding.gyp': '{}',
  'compiled/index.js': "module.exports = require('bindings')('compiled');\n",
  'lost/index.js': "exports.a = 1;\nexports.b = require('nowhere');\n",
  'nodish/package.json': '{ "name": "nodish", "type": "module" }',
  'nodish/index.js':
    "import { readFileSync } from 'node:fs';\nexport const read = () => readFileSync('/etc/hostname');\n",
  'broken/index.js': 'exports.a = ;\n',
  'large/index.js': `exports.text = '${'x'.repeat(6 * 2 ** 20)}';\n`,
};

const APP: Files = {
  'app.json': JSON.stringify({
    id: 'bundled',
    name: 'Bundled',
    version: '1.0.0',
    queries: [{ name: 'list', input: { type: 'object' } }],
    actions: [{ name: 'add' }],
  }),
  'queries/list.js': `import { four, fail } from 'plain';
import { join, kind } from 'common';
import * as plain from '../lib/plain.js';
export default async ({ input, log }) => {
  if (input.fail === 'call') fail();
  if (input.fail === 'log') try { join('', 'b'); } catch (error) { log.error('caught', error); console.error(error); }
  const { default: twice } = await import('plain/sub');
  return { four, joined: join('a', 'b'), kind, eight: twice(plain.four), process: typeof process };
};
`,
  'lib/plain.js': "export { four } from 'plain';\n",
  'actions/add.ts': `import { Box, type Lid } from '@scope/typed';
export default async ({ input }: { input: { n: number } }) => ({ body: new Box<number>(input.n) satisfies { value: number } as object });
`,
  'automations/digest/automation.json': automation(),
  'automations/digest/handler.js':
    "import common from 'common';\nexport default async () => ({ summary: common.join('c', 'd') });\n",
};

function lay(folder: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

/** An app whose page is built. */
const PAGE: Files = {
  'app.json': JSON.stringify({ id: 'paged', name: 'Paged', version: '1', page: { entry: 'page/main.tsx' } }),
  'index.html': '<link rel="stylesheet" href="app.css"><script type="module" src="app.js"></script>',
  'page/main.tsx': `/** @jsxImportSource @scope/jsx */
import { four as plainFour } from 'plain';
import * as common from 'common';
import { label } from './label';
import './main.css';
type Kept = { four: number };
document.body.append(<p>{label}{plainFour satisfies Kept['four']}{common.join('a', 'b')}</p>);
`,
  'page/label.ts': "export const label: string = 'a label';\n",
  'page/main.css': 'p { color: rgb(1, 2, 3) }\n',
};
const JSX: Files = {
  '@scope/jsx/package.json':
    '{ "name": "@scope/jsx", "type": "module", "exports": { "./jsx-runtime": { "worker": "./no.js", "default": "./jsx.js" } } }',
  '@scope/jsx/jsx.js':
    'export const jsx = (tag, { children }) => { const e = document.createElement(tag); e.append(...[children].flat()); return e; };\nexport const jsxs = jsx;\n',
};

/** A new folder with the app, and some of the packages. */
function makeFolder(files: Files = {}, packages: Files = PACKAGES): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-packages-'));
  lay(folder, { ...APP, ...files });
  lay(join(folder, 'node_modules'), packages);
  return folder;
}

async function inFolder(folder: string, work: (folder: string) => Promise<void>): Promise<void> {
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The document of a command, with its exit code. */
async function svc(gateway: TestGateway, ...argv: string[]) {
  const { code, stdout, stderr } = await run([...argv, '--json'], {
    env: { SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
  });
  return { code, stderr, json: JSON.parse(stdout === '' ? stderr : stdout) };
}

const EXPECTED = { four: 4, joined: 'a-b', kind: 'undefined', eight: 8, process: 'undefined' };

onEachStore({}, (gateway, store) => {
  const logOf = async (): Promise<string> => (await gateway.call('GET', '/svc/_logs?app=bundled')).text;
  const versions = async () => (await gateway.call('GET', '/svc/_apps/bundled/versions')).json;

  test('packages of each kind run, in queries, actions in TypeScript and automations', () =>
    inFolder(makeFolder(), async (folder) => {
      const { code, json } = await svc(gateway, 'push', folder);
      assert.equal(code, 0, JSON.stringify(json));
      assert.deepEqual((await gateway.read('bundled', 'list', {})).json.data, EXPECTED);
      assert.deepEqual((await gateway.write('bundled', 'add', { n: 7 })).json.data.body, { value: 7 });
      const fired = await gateway.call('POST', '/svc/_automations/bundled/digest/run?wait=1', { body: {} });
      assert.deepEqual([fired.status, fired.json.summary], [200, 'c-d'], fired.text);
      assert.deepEqual(readdirSync(folder).sort(), [
        '.svc-app',
        'actions',
        'app.json',
        'automations',
        'lib',
        'node_modules',
        'queries',
      ]);
    }));

  test('no bundle is served', async () => {
    for (const path of ['_packages/plain.js', '_packages/plain.js.map', '_packages/common.js'])
      assert.equal((await gateway.call('GET', `/svc/bundled/${path}`)).status, 404);
  });

  test('the same packages give the same bytes, wherever the folder is', () =>
    inFolder(makeFolder(), async (folder) => {
      const before = await versions();
      const { json } = await svc(gateway, 'push', folder);
      assert.equal(json.deduplicated, true);
      assert.deepEqual(await versions(), before);
    }));

  test('errors have the places of their sources', async () => {
    const { status, json } = await gateway.read('bundled', 'list', { fail: 'call' });
    assert.deepEqual([status, json.error.message], [500, 'as asked']);
    await gateway.read('bundled', 'list', { fail: 'log' });
    const log = await logOf();
    assert.match(log, /at fail \(node_modules\/plain\/src\/main\.js:6:9\)\\n\s+at [^(]*\(queries\/list\.js:5:30\)/);
    const places = [...log.matchAll(/node_modules\/common\/lib\/join\.js:(\d+:\d+)/g)].map(([, place]) => place);
    assert.deepEqual(places, ['2:23', '2:23'], log);
    assert.doesNotMatch(log, /_packages/);
  });

  test('a page is built with its packages, and served as other files are', () =>
    inFolder(makeFolder({}, { ...PACKAGES, ...JSX }), async (folder) => {
      for (const part of ['queries', 'actions', 'automations', 'lib']) rmSync(join(folder, part), { recursive: true });
      lay(folder, PAGE);
      const { code, json } = await svc(gateway, 'push', folder);
      assert.equal(code, 0, JSON.stringify(json));
      const file = (path: string) => gateway.call('GET', `/svc/paged/${path}`);
      const script = (await file('app.js')).text;
      for (const part of ['a label', 'createElement', '"-"', '"nothing to join"'])
        assert.ok(script.includes(part), script);
      assert.doesNotMatch(script, /never used|satisfies|as asked/);
      assert.match((await file('app.css')).text, /^p\{color:#010203\}/);
      const map = (await file('app.js.map')).json;
      for (const source of ['page/label.ts', '_packages/_page/plain.js'])
        assert.ok(map.sources.includes(source), map.sources);
      assert.equal((await file('page/main.tsx')).status, 404);
      const pinned = await file(`_v/${json.versionId}/app.js`);
      assert.deepEqual(
        [pinned.text, pinned.headers['cache-control']],
        [script, 'private, max-age=31536000, immutable'],
      );
      const again = await gateway.call('GET', '/svc/paged/app.js', {
        headers: { 'if-none-match': String(pinned.headers.etag) },
      });
      assert.equal(again.status, 304);

      for (const [path, text, place, words] of [
        ['page/label.ts', 'export const label: = 1;\n', '1:21', /Unexpected "="/],
        [
          'page/label.ts',
          "import 'none';\nexport const label = 1;\n",
          '1:8',
          /"none", and none is not in node_modules; .*npm install none/,
        ],
        [
          'page/label.ts',
          "import 'nodish';\nexport const label = 1;\n",
          '1:8',
          /needs "node:fs" of Node .*; browsers have no modules of Node/,
        ],
      ] as const) {
        lay(folder, { [path]: text });
        const refused = await svc(gateway, 'push', folder);
        const { code: error, message, issues } = refused.json.error;
        assert.deepEqual([refused.code, error, issues[0].path], [1, 'INVALID_PAGE', path], message);
        assert.ok(message.startsWith(`${path}:${place}: `), message);
        assert.match(message, words);
        assert.equal((await file('app.js')).text, script, 'the live page stays');
      }
    }));

  test('an upload without the bundle is refused, and says how to make it', async () => {
    const { status, json } = await gateway.upload('bundled', APP);
    assert.deepEqual([status, json.error.code], [400, 'INVALID_HANDLER']);
    assert.match(
      json.error.message,
      /^actions\/add\.ts:1:31: .*"@scope\/typed", .*no bundle of it, _packages\/@scope\/typed\.js; svc push, svc dev/,
    );
  });

  // The command bundles, and refuses, before any request to a store.
  if (store === 'git') return;

  const refusals: [what: string, text: string, place: string, words: RegExp][] = [
    [
      'a package that is not installed',
      "import { z } from 'zod';\n",
      '1:19',
      /"zod", and zod is not in node_modules; .*npm install zod/,
    ],
    [
      'a missing dependency',
      "\nimport { a } from 'lost';\n",
      '2:19',
      /"lost", which needs "nowhere" \(node_modules\/lost\/index\.js:2:21\).*npm install/,
    ],
    [
      'a native package',
      "import native from 'native';\n",
      '1:20',
      /"native", which is native \(node_modules\/native\/index\.js:1:26\)/,
    ],
    ['one that is compiled', "import compiled from 'compiled';\n", '1:22', /"compiled", which is native/],
    [
      'one that needs Node',
      "import { read } from 'nodish';\n",
      '1:22',
      /"nodish", which needs "node:fs" of Node \(node_modules\/nodish\/index\.js:1:30\)/,
    ],
    [
      'one of 6 MiB',
      "import large from 'large';\n",
      '1:19',
      /"large", whose bundle has 6 MiB; a bundle may have 5 MiB/,
    ],
    [
      'one that does not parse',
      "import broken from 'broken';\n",
      '1:20',
      /"broken", which cannot be bundled: .*\(node_modules\/broken\/index\.js:1:13\)/,
    ],
    [
      'a name that is not exported',
      "import { nobody } from 'plain';\n",
      '1:10',
      /"nobody" from "plain", which does not export this name/,
    ],
    [
      'a path that does not exist',
      "import 'plain/none';\n",
      '1:8',
      /"plain\/none", which the package plain does not have/,
    ],
    [
      'all of a package whose names are unknown',
      "import * as all from 'common';\n",
      '1:22',
      /all of "common", which is CommonJS/,
    ],
    ['a module of Node', "import fs from 'node:fs';\n", '1:16', /cannot import Node built-ins/],
  ];
  for (const [what, text, place, words] of refusals) {
    test(`${what} is refused, with its place, and nothing is left`, () =>
      inFolder(makeFolder({ 'queries/list.js': text + APP['queries/list.js'] }), async (folder) => {
        const before = await versions();
        const { code, json } = await svc(gateway, 'push', folder);
        assert.equal(code, 1);
        const { code: error, message, path, issues } = json.error;
        assert.deepEqual([error, path, issues[0].keyword], ['INVALID_HANDLER', 'queries/list.js', 'import'], message);
        assert.ok(message.startsWith(`queries/list.js:${place}: It imports `), message);
        assert.match(message, words);
        assert.deepEqual(await versions(), before);
        assert.deepEqual((await gateway.read('bundled', 'list', {})).json.data, EXPECTED);
      }));
  }

  test('several faults are reported in one answer', () =>
    inFolder(
      makeFolder({ 'queries/list.js': "import 'lost';\nimport 'none';\nimport 'nodish';\nexport default () => 1;" }),
      async (folder) => {
        const { json } = await svc(gateway, 'push', folder);
        assert.deepEqual(
          json.error.issues.map(({ line }: { line: number }) => line),
          [1, 2, 3],
        );
      },
    ));

  test('a bundle in the folder replaces a package that is not installed', () =>
    inFolder(
      makeFolder(
        {
          '_packages/zod.js': "export const z = 'of the folder';",
          'queries/list.js': "import { z } from 'zod';\nexport default () => z;",
        },
        {},
      ),
      async (folder) => {
        rmSync(join(folder, 'actions'), { recursive: true });
        rmSync(join(folder, 'automations'), { recursive: true });
        writeFileSync(
          join(folder, 'app.json'),
          JSON.stringify({ id: 'kept', name: 'Kept', version: '1', queries: [{ name: 'list' }] }),
        );
        assert.equal((await svc(gateway, 'push', folder)).code, 0);
        assert.equal((await gateway.read('kept', 'list', {})).json.data, 'of the folder');
      },
    ));

  test('a package as npm has it', () =>
    inFolder(makeFolder({}, {}), async (folder) => {
      cpSync(join(root, 'node_modules/zod'), join(folder, 'node_modules/zod'), { recursive: true });
      for (const part of ['actions', 'automations', 'lib']) rmSync(join(folder, part), { recursive: true });
      lay(folder, {
        'app.json': JSON.stringify({
          id: 'checked',
          name: 'Checked',
          version: '1',
          queries: [{ name: 'list', input: {} }],
        }),
        'queries/list.ts':
          "import { z } from 'zod';\nconst Row = z.object({ at: z.coerce.date(), deep: z.string().transform(() => { throw new Error('in zod'); }).optional() });\nexport default ({ input }: { input: unknown }) => Row.parse(input).at.getTime();\n",
      });
      rmSync(join(folder, 'queries/list.js'));
      const { code, json } = await svc(gateway, 'push', folder);
      assert.equal(code, 0, JSON.stringify(json));
      assert.equal((await gateway.read('checked', 'list', { at: '2026-01-01' })).json.data, Date.UTC(2026, 0));
      assert.match((await gateway.read('checked', 'list', {})).json.error.message, /Invalid/);
      assert.equal((await gateway.read('checked', 'list', { at: 0, deep: '' })).json.error.message, 'in zod');
      const log = (await gateway.call('GET', '/svc/_logs?app=checked')).text;
      assert.match(log, /queries\/list\.ts:2:86\)[^"]*node_modules\/zod\/v4\/core\/parse\.js:\d+:\d+\)/);
    }));
});

const gateway = gatewayOfSuite({ store: 'git' });

test('a draft has them, and continues when a fault is fixed; publishing its folder includes them', () =>
  inFolder(makeFolder(), async (folder) => {
    const first = await svc(gateway, 'dev', folder, '--once');
    assert.deepEqual([first.code, first.json.whole], [0, true], JSON.stringify(first.json));
    const draft = async () => {
      const tool = { body: { app: 'bundled', query: 'list', input: {} } };
      return (await gateway.call('POST', '/svc/_draft/dev-bundled/_tool/svc_read', tool)).json;
    };
    assert.deepEqual((await draft()).data, EXPECTED);
    const again = await svc(gateway, 'dev', folder, '--once');
    assert.deepEqual([again.json.written, again.json.deleted], [[], []]);

    rmSync(join(folder, 'node_modules/empty'), { recursive: true });
    const broken = await svc(gateway, 'dev', folder, '--once');
    assert.equal(broken.code, 1);
    assert.match(broken.json.error.message, /^automations\/digest\/handler\.js:1:20: .*"common", which needs "empty"/);
    assert.match((await draft()).error.message, /_packages\/common\.js does not exist; svc push, svc dev/);
    const refused = await svc(gateway, 'publish', folder);
    assert.deepEqual([refused.code, refused.json.error.code], [1, 'INVALID_HANDLER']);
    assert.equal((await gateway.call('GET', '/svc/_apps/bundled')).status, 404);

    lay(join(folder, 'node_modules'), { 'empty/index.js': '' });
    const published = await svc(gateway, 'publish', folder, '-m', 'With packages');
    assert.equal(published.code, 0, JSON.stringify(published.json));
    assert.deepEqual((await gateway.read('bundled', 'list', {})).json.data, EXPECTED);
  }));

test('the page of a draft is built again after each edit, whoever makes it; one that cannot be built is not published', () =>
  inFolder(makeFolder({}, { ...PACKAGES, ...JSX }), async (folder) => {
    for (const part of ['queries', 'actions', 'automations', 'lib']) rmSync(join(folder, part), { recursive: true });
    lay(folder, PAGE);
    const first = await svc(gateway, 'dev', folder, '--once');
    assert.deepEqual([first.code, first.json.whole], [0, true], JSON.stringify(first.json));
    const page = () => gateway.call('GET', '/svc/_draft/dev-paged/paged/app.js');
    assert.match((await page()).text, /a label/);
    const put = (text: string) =>
      gateway.call('PUT', '/svc/_sessions/dev-paged/apps/paged/files/page/label.ts', { body: Buffer.from(text) });
    await put("export const label = 'another';\n");
    assert.match((await page()).text, /another/);
    assert.doesNotMatch((await page()).text, /a label/);
    await put('export const label = ;\n');
    const check = (await gateway.call('POST', '/svc/_sessions/dev-paged/apps/paged/check')).json;
    assert.deepEqual(
      check.findings?.map(({ code, path, line, column }: Record<string, unknown>) => [code, path, line, column]),
      [['INVALID_PAGE', 'page/label.ts', 1, 22]],
      JSON.stringify(check),
    );
    const refused = await gateway.call('POST', '/svc/_sessions/dev-paged/publish', { body: {} });
    assert.deepEqual([refused.status, refused.json.error.code], [400, 'INVALID_PAGE']);
    const broken = await svc(gateway, 'publish', folder, '-m', 'Nothing is wrong here');
    assert.equal(broken.code, 0, JSON.stringify(broken.json));
    assert.match((await gateway.call('GET', '/svc/paged/app.js')).text, /a label/);
  }));

const TESTS = `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('it has its packages', async (t) => {
  const app = await harness(t);
  assert.equal((await app.query('list')).four, 4);
  const error = await app.query('list', { fail: 'call' }).catch((error) => error);
  assert.match(error.stack, /node_modules\\/plain\\/src\\/main\\.js:6:9/);
});
`;

test('tests of an app have them', () =>
  inFolder(makeFolder({ 'tests/list.test.js': TESTS }), async (folder) => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout } = await inTime(
      promisify(execFile)(process.execPath, [join(root, 'bin/svc.js'), 'test', folder], { env }),
      'the end of svc test',
      LONG_MS,
    );
    assert.match(stdout, /it has its packages/);
  }));
