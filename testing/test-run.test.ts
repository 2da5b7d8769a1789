/** The script that runs the tests, with tests that pass, fail and are skipped. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { root } from './gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-test-run-'));
const FILES = {
  passes: "test('one', () => {});",
  fails: "test('one', () => { throw new Error('no'); });",
  skips: "test('one', { skip: 'needs a disk' }, () => {}); test('two', () => {});",
};

before(() => {
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  for (const [name, text] of Object.entries(FILES))
    writeFileSync(join(folder, `${name}.test.ts`), `import { test } from 'node:test';\n${text}\n`);
});
after(() => rmSync(folder, { recursive: true, force: true }));

function run(name: keyof typeof FILES, ci: string) {
  // A run inside another one would report its results to that one.
  const { NODE_TEST_CONTEXT, NODE_V8_COVERAGE, ...env } = process.env;
  return spawnSync(process.execPath, [join(root, 'scripts/test.mjs'), join(folder, `${name}.test.ts`)], {
    env: { ...env, CI: ci },
    encoding: 'utf8',
  });
}

for (const [name, ci, code] of [
  ['passes', 'true', 0],
  ['fails', 'true', 1],
  ['fails', '', 1],
  ['skips', '', 0],
  ['skips', 'true', 1],
] as const) {
  test(`${name}, CI="${ci}": exit code ${code}`, () => {
    const { status, stdout, stderr } = run(name, ci);
    assert.equal(status, code, stdout + stderr);
    assert.match(stdout, new RegExp(`\\d s {2}.*${name}\\.test\\.ts`), 'prints its duration');
    if (name === 'skips' && code === 1) assert.match(stderr, /one: needs a disk/);
  });
}

test('an unknown option and a missing file are refused', () => {
  for (const argument of ['--recrod', 'no-such-file']) {
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/test.mjs'), argument], {
      encoding: 'utf8',
    });
    assert.equal(status, 2);
    assert.ok(stderr.includes(argument), stderr);
  }
});

type Process = { runs: string; sources: string[] };
type Batches = {
  processesOf(
    files: { source: string; built: string; startsServers: boolean }[],
    root: string,
    folder: string,
    secondsOf: (source: string) => number,
  ): Process[];
};

test('short files share a process, where each has its own hooks; all others have one of their own', async () => {
  const { processesOf } = (await import(pathToFileURL(join(root, 'scripts/tests/batches.mjs')).href)) as Batches;
  const said = (name: string) => `
    import { after, before, test } from 'node:test';
    before(() => console.log('${name} begins'));
    after(() => console.log('${name} ends'));
    test('one', () => console.log('${name} runs'));`;
  const texts = {
    'one.test.mjs': said('one'),
    'other.test.mjs': said('other'),
    'long.test.mjs': said('long'),
    'unknown.test.mjs': said('unknown'),
    'server.test.mjs': said('server'),
    'umask.test.mjs': `process.umask(0o77);${said('umask')}`,
  };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(folder, name), text);
  const seconds: Record<string, number> = { 'long.test.mjs': 60, 'unknown.test.mjs': Number.POSITIVE_INFINITY };
  const [batch, ...alone] = processesOf(
    Object.keys(texts).map((source) => ({
      source,
      built: join(folder, source),
      startsServers: source === 'server.test.mjs',
    })),
    folder,
    folder,
    (source) => seconds[source] ?? 0.1,
  );
  assert.deepEqual(batch?.sources, ['one.test.mjs', 'other.test.mjs']);
  assert.deepEqual(
    alone,
    ['long', 'unknown', 'server', 'umask'].map((name) => ({
      runs: join(folder, `${name}.test.mjs`),
      sources: [`${name}.test.mjs`],
    })),
  );
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  const { stdout, status } = spawnSync(process.execPath, ['--test-reporter=tap', batch.runs], {
    env,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
  const lines = stdout.split('\n').filter((line) => /^\w+ (?:begins|runs|ends)$/.test(line));
  assert.deepEqual(
    lines,
    ['one', 'other'].flatMap((name) => [`${name} begins`, `${name} runs`, `${name} ends`]),
  );
  for (const source of batch.sources) assert.match(stdout, new RegExp(`^ok \\d+ - ${source}$`, 'm'));
});

type Selection = {
  PARTS: Record<string, { named: string[] }>;
  select(files: string[], which: { part?: string | undefined; leftOut: string[]; about(): object }): string[];
};
const selection = async () =>
  (await import(pathToFileURL(join(root, 'scripts/tests/selection.mjs')).href)) as Selection;

test('every file that a part names exists', async () => {
  const { PARTS } = await selection();
  assert.deepEqual(Object.keys(PARTS), ['--quick', '--versions']);
  for (const name of Object.values(PARTS).flatMap(({ named }) => named))
    assert.ok(existsSync(join(root, `${name}.test.ts`)), name);
});

test('each third of what a version can change is left out by its name, and only of that part', async () => {
  const { PARTS, select } = await selection();
  const files = (PARTS['--versions'] ?? assert.fail()).named.map((name) => `${name}.test.ts`);
  const of = (part: string | undefined, ...leftOut: string[]) =>
    select(files, { part, leftOut, about: () => ({ startsServers: true }) });
  const thirds = ['versions-1', 'versions-2', 'versions-3'];
  const each = thirds.map((third) => of('--versions', ...thirds.filter((one) => one !== third)));
  assert.ok(each.every(({ length }) => length > 0));
  assert.deepEqual(each.flat(), files);
  assert.deepEqual(of('--versions', ...thirds), []);
  assert.deepEqual(of(undefined, ...thirds), files);
});
