/** The client that `svc types` writes: compiled, and used against a real gateway. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { transform } from 'esbuild';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { appOf } from '../../testing/apps.ts';
import { svc, temporaryFolder } from '../../testing/command-line.ts';
import { startGateway } from '../../testing/gateway.ts';

const NOTES = appOf('notes', {
  queries: {
    list: {
      run: '({ input }) => [{ id: input.limit ?? 1 }]',
      input: { type: 'object', properties: { limit: { type: 'integer' } }, additionalProperties: false },
      output: { type: 'array', items: { type: 'object', required: ['id'], properties: { id: { type: 'integer' } } } },
    },
  },
  actions: {
    add: {
      run: '({ input }) => ({ status: input.text === "no" ? 409 : 201, body: { kept: input.text, key: Math.random() } })',
      input: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
    },
  },
});

const CONFIG = { compilerOptions: { noEmit: true, strict: true, exactOptionalPropertyTypes: true, types: [] } };

test('a client of the app on the gateway calls its tools, and says what went wrong', async (t) => {
  const gateway = await startGateway(t);
  await gateway.upload('notes', NOTES);
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const env = { SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
  const written = await svc(['types', 'notes', '--out', 'client.ts', '--json'], { cwd: folder, env });
  assert.equal(written.code, 0, written.stderr);
  const file = join(folder, 'client.ts');
  const source = readFileSync(file, 'utf8');
  assert.doesNotMatch(source, /biome-ignore|interface Window/);

  // Node 20 runs no TypeScript.
  const compiled = join(folder, 'client.js');
  writeFileSync(compiled, (await transform(source, { loader: 'ts' })).code);
  const { createClient, CallError } = await import(pathToFileURL(compiled).href);
  const notes = createClient({ url: `${gateway.url}/`, token: gateway.token });
  assert.deepEqual(await notes.query('list'), [{ id: 1 }]);
  assert.deepEqual(await notes.query('list', { limit: 3 }), [{ id: 3 }]);
  const once = { idempotencyKey: 'a' };
  const first = await notes.action('add', { text: 'Milk' }, once);
  assert.equal(first.kept, 'Milk');
  assert.deepEqual(await notes.action('add', { text: 'Milk' }, once), first);
  const failed = (code: string, status: number, more: object) => (error: InstanceType<typeof CallError>) => {
    assert.ok(error instanceof CallError);
    assert.deepEqual([error.code, error.status], [code, status]);
    assert.deepEqual({ ...error, ...more }, { ...error });
    return true;
  };
  await assert.rejects(notes.query('list', { limit: 'x' }), failed('INVALID_INPUT', 400, { path: '/limit' }));
  await assert.rejects(notes.query('nothing'), failed('UNKNOWN_QUERY', 404, {}));
  await assert.rejects(notes.action('add', { text: 'no' }), (error: InstanceType<typeof CallError>) => {
    assert.deepEqual([error.code, error.status, error.body.kept], ['ACTION_FAILED', 409, 'no']);
    return true;
  });
  await assert.rejects(createClient({ url: gateway.url }).query('list'), failed('UNAUTHORIZED', 401, {}));
  const noGateway = async () => new Response('<html>', { status: 502 });
  await assert.rejects(createClient({ url: 'http://x', fetch: noGateway }).query('list'), failed('NO_ANSWER', 502, {}));
  await assert.rejects(notes.query('list', {}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('the compiler knows its tools', async (t) => {
  const folder = temporaryFolder(t);
  await svc(['new', 'notes'], { cwd: folder });
  const written = await svc(['types', './notes', '-o', 'client.ts'], { cwd: folder });
  assert.equal(written.code, 0, written.stderr);
  const compilerOptions = {
    ...CONFIG.compilerOptions,
    lib: ['esnext', 'dom'],
    target: 'esnext',
    module: 'esnext',
    moduleResolution: 'bundler',
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  const compile = () =>
    spawnSync(process.execPath, [join(packageRoot, 'node_modules/typescript/bin/tsc'), '-p', folder], {
      encoding: 'utf8',
    }).stdout;
  const head = "import { createClient } from './client';\nconst notes = createClient({ url: '' });\n";
  writeFileSync(
    join(folder, 'use.ts'),
    `${head}await notes.query('list');\nawait notes.action('add', { text: 'Milk' });\n`,
  );
  assert.equal(compile(), '');
  writeFileSync(
    join(folder, 'use.ts'),
    `${head}await notes.query('lists');\nawait notes.action('add');\nawait notes.action('add', { texts: 1 });\n`,
  );
  const lines = [...compile().matchAll(/use\.ts\((\d+),/g)].map(([, line]) => line);
  assert.deepEqual(lines, ['3', '4', '5']);
});
