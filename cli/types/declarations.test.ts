import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { packageRoot } from '../../supervisor/tree/entry-points.ts';
import { failure, startGateway, svc, temporaryFolder } from '../../testing/command-line.ts';
import { declarationsOf } from './declarations.ts';

/** A blank app in TypeScript. */
async function typedApp(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  const made = await svc(['new', 'notes', '--ts', '--json'], { cwd });
  assert.equal(made.code, 0, made.stderr);
  return join(cwd, 'notes');
}

/** The compiler's errors in the app, `file(line,column): error …`. */
function compile(folder: string): string {
  const compiler = join(packageRoot, 'node_modules/typescript/bin/tsc');
  return spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8', cwd: folder }).stdout;
}

test('a new app in TypeScript has typed handlers without JavaScript, and compiles', async (t) => {
  const folder = await typedApp(t);
  const list = readFileSync(join(folder, 'queries/list.ts'), 'utf8');
  assert.match(list, /^import type \{ QueryArgs \} from '\.\.\/svc\.d\.ts';\n\n\/\/ Queries read/);
  assert.match(list, /list\(\{ input, db \}: QueryArgs<'list'>\) \{/);
  assert.match(readFileSync(join(folder, 'actions/add.ts'), 'utf8'), /\(\{ input, db, log \}: ActionArgs<'add'>\) \{/);
  for (const file of ['queries/list.js', 'actions/add.js', 'actions/remove.js'])
    assert.equal(existsSync(join(folder, file)), false);
  assert.equal(compile(folder), '');
});

test('its page is typed, with what it may import', async (t) => {
  const folder = await typedApp(t);
  assert.equal(existsSync(join(folder, 'app.js')), false);
  assert.equal(JSON.parse(readFileSync(join(folder, 'app.json'), 'utf8')).page.entry, 'app.ts');
  const page = readFileSync(join(folder, 'app.ts'), 'utf8');
  const imports = "import './style.css';\nimport logo from './logo.svg';\nimport about from './about.md';\n";
  writeFileSync(join(folder, 'app.ts'), `${imports}${page}byId(logo).title = about;\nbyId(1);\nsvc.gone();\n`);
  const found = compile(folder).trim().split('\n');
  assert.equal(found.length, 2, found.join('\n'));
  assert.match(found[0] ?? '', /^app\.ts\(\d+,6\): error .*'number' is not assignable to parameter of type 'string'/);
  assert.match(found[1] ?? '', /^app\.ts\(\d+,5\): error .*'gone' does not exist on type 'Svc'/);
});

test('the compiler knows ctx, db, each tool and window.svc, and finds what is wrong', async (t) => {
  const folder = await typedApp(t);
  mkdirSync(join(folder, 'lib'));
  mkdirSync(join(folder, 'automations/digest'), { recursive: true });
  const uses = {
    'queries/list.ts': `import type { QueryArgs } from '../svc.d.ts';
export default async function list({ input, db, ctx, app, log }: QueryArgs<'list'>) {
  const limit: number = input.limit ?? 100;
  const one: { id: number } | null = await db.get<{ id: number }>('SELECT id FROM notes WHERE id = :id', { id: 1 });
  const key: string = await ctx.secrets.get('KEY');
  log.info(app.versionId, ctx.deadline, (await ctx.fetch('https://example.com', { signal: ctx.signal })).status, key);
  return db.transaction(async (tx) => (await tx.run('DELETE FROM notes', [limit, one?.id])).changes);
}
`,
    'automations/digest/handler.ts': `import type { AutomationArgs } from '../../svc.d.ts';
export default async function digest({ ctx, request }: AutomationArgs) {
  await ctx.state.set('at', ctx.now);
  const rows: { id: number }[] = await ctx.tool('svc_read', { app: 'notes', query: 'list' });
  return { summary: request?.rawBody ?? String(rows.length) };
}
`,
    'lib/page.ts': `export async function page() {
  await window.svc.read({ query: 'list' });
  await window.svc.write({ action: 'add', input: { text: 'Milk' } });
  window.svc.onChange(({ tables }) => tables.length);
  window.svc.live('list', {}, (notes) => notes)();
}
`,
    'tests/typed.ts': `import { AppError, harness } from 'svc/test';
export async function check(t: { after(end: () => Promise<void>): void }) {
  const app = await harness(t, { now: '2026-01-05T09:00Z' });
  const ada = await app.person('Ada', { role: 'viewer' });
  const note: { id: number } = await app.action('add', { text: 'Milk' });
  const notes: { id: number }[] = [...(await app.query('list')), ...(await ada.query('list', { limit: 1 })), note];
  await app.clock.advance('1h');
  const { status, body } = await app.webhook('inbox', { text: 'Milk' }, { headers: { 'x-a': 'b' } });
  app.onFetch(async ({ url }) => (url === '' ? undefined : new Response(body)));
  const rows = await app.sql<{ id: number }[]>('SELECT id FROM notes WHERE id = ?', [notes.length]);
  await app.restart();
  return [status, rows[0]?.id, app.clock.now, new AppError().code];
}
`,
  };
  for (const [file, text] of Object.entries(uses)) writeFileSync(join(folder, file), text);
  assert.equal(compile(folder), '');

  const wrong = `import type { ActionArgs, QueryArgs } from '../svc.d.ts';
export const one = ({ input }: QueryArgs<'list'>) => input.limits;
export const two = ({ input }: ActionArgs<'add'>) => input.text.length.toFixed(input.text);
export type Three = QueryArgs<'nothing'>;
export const four = ({ db }: ActionArgs<'add'>) => db.query('SELECT 1');
export const five = () => window.svc.write({ action: 'add' });
export enum Six { A }
`;
  writeFileSync(join(folder, 'lib/page.ts'), wrong);
  const lines = [...compile(folder).matchAll(/^lib\/page\.ts\((\d+),/gm)].map(([, line]) => line);
  assert.deepEqual(lines, ['2', '3', '4', '5', '6', '7']);

  const wrongTest = `import { harness } from 'svc/test';
export const one = async (app: Awaited<ReturnType<typeof harness>>) => app.query('nothing');
export const two = async (app: Awaited<ReturnType<typeof harness>>) => app.action('add');
export const three = async (app: Awaited<ReturnType<typeof harness>>) => app.clock.now++;
export const four = () => harness();
`;
  writeFileSync(join(folder, 'tests/typed.ts'), wrongTest);
  const places = [...compile(folder).matchAll(/^tests\/typed\.ts\((\d+),/gm)].map(([, line]) => line);
  assert.deepEqual(places, ['2', '3', '4', '5']);
});

test('declarations of an app on the gateway', async (t) => {
  const queries = [{ name: 'list-all', description: 'All of them.', output: { type: 'array' } }];
  const { env } = await startGateway(t, {
    'POST /svc/_tool/svc_describe': { json: { isError: false, data: { app: 'notes', queries, actions: [] } } },
  });
  const printed = await svc(['types', 'notes'], { env });
  assert.equal(printed.code, 0, printed.stderr);
  assert.match(
    printed.stdout,
    /\n {2}\/\*\* All of them\. \*\/\n {2}"list-all": \{\n {4}input: Record<string, unknown>;\n {4}output: unknown\[\];\n/,
  );
  assert.match(printed.stdout, /export interface Actions \{\n\}/);
  const unknown = await startGateway(t, { 'POST /svc/_tool/svc_describe': failure(404, 'UNKNOWN_APP', 'No.') });
  assert.equal((await svc(['types', 'notes'], { env: unknown.env })).code, 1);
});

test('a missing folder, and a file that cannot be written, are reported', async (t) => {
  const cwd = temporaryFolder(t);
  const missing = await svc(['types', './nowhere'], { cwd });
  assert.deepEqual([missing.code, /does not exist/.test(missing.stderr)], [1, true]);
  await svc(['new', 'notes'], { cwd });
  const unwritable = await svc(['types', 'notes', '--out', 'no/such/folder.d.ts'], { cwd });
  assert.deepEqual([unwritable.code, /cannot be written/.test(unwritable.stderr)], [1, true]);
  const written = await svc(['types', 'notes', '-o', 'svc.d.ts', '--json'], { cwd });
  assert.equal(JSON.parse(written.stdout).bytes, Buffer.byteLength(readFileSync(join(cwd, 'svc.d.ts'))));
});

test('--ts is for a blank app in a folder', async (t) => {
  const cwd = temporaryFolder(t);
  for (const args of [
    ['notes', '--clone', 'todos'],
    ['--id', 'notes'],
  ])
    assert.equal((await svc(['new', ...args, '--ts'], { cwd })).code, 2);
});

test('no schema of a tool can end a comment or a text', (t) => {
  const evil = '*/ } declare const x: 1; /* ` \\';
  const input = { type: 'object', properties: { [evil]: { const: evil, description: evil } } };
  const folder = temporaryFolder(t);
  writeFileSync(
    join(folder, 'svc.d.ts'),
    declarationsOf({ queries: [{ name: 'list', description: evil, input }], actions: [] }),
  );
  writeFileSync(join(folder, 'tsconfig.json'), '{"compilerOptions":{"noEmit":true,"types":[],"lib":["esnext","dom"]}}');
  assert.equal(compile(folder), '');
});
