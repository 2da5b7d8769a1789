/**
 * Handlers in TypeScript: their types are erased when a version is stored, and positions stay (specification,
 * "TypeScript and packages").
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { automation } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';

const LIST = `import type { Row } from '../types.d.ts';
import { type Kind, label } from '../lib/label.ts';

interface Input { kind: Kind; fail?: boolean }

export default async function list({ input, db }: { input: Input; db: any }): Promise<Row[]> {
  if (input.fail) { const fault: Error = new TypeError('é' as string); throw fault; }
  return [{ label: label(input.kind) } satisfies Row];
}
`;
const FAILS_AT = 'queries/list.ts:7:42';

const LABEL = `export type Kind = 'a' | 'b';
export const label = <T extends Kind,>(kind: T): string => \`kind \${kind!}\`;
`;

const ADD = `type Args = { body: { text: string }; db: { run(sql: string, ...values: unknown[]): Promise<unknown> } };
export default async ({ body, db }: Args) => {
  await db.run('INSERT INTO notes VALUES (?)', body.text as unknown);
  return { body: { text: body.text } };
};
`;

const DIGEST = `import { label } from '../../lib/label.ts';
export default async function digest({ ctx, input }: { ctx: any; input: unknown }) {
  const at: number = ctx.now;
  if (input) throw new Error(\`no \${label('a')}\`) as Error;
  return { summary: label('b'), output: { at } };
}
`;

const FILES = (): Record<string, string> => ({
  'app.json': JSON.stringify({
    id: 'typed',
    name: 'Typed',
    version: '1.0.0',
    queries: [{ name: 'list', description: 'The labels.', input: { type: 'object' } }],
    actions: [{ name: 'add', writes: ['notes'] }],
  }),
  'migrations/0001_notes.sql': 'CREATE TABLE notes (text TEXT);',
  'types.d.ts': 'export type Row = { label: string };\n',
  'queries/list.ts': LIST,
  'actions/add.ts': ADD,
  'lib/label.ts': LABEL,
  'automations/digest/automation.json': automation(),
  'automations/digest/handler.ts': DIGEST,
  // Nothing imports it, so it is kept and not checked.
  'src/page.tsx.ts': 'enum Page { One }\n',
});

async function stackOf(gateway: TestGateway, path: string): Promise<string[]> {
  const { json } = await gateway.call('GET', path);
  return json.flatMap(({ err }: { err?: { stack?: string } }) => err?.stack ?? []);
}

onEachStore({ config: { versionRetention: 2 } }, (gateway, store) => {
  test('they run, also as modules of each other, and their tools are listed', async () => {
    const { status, text, json } = await gateway.upload('typed', FILES());
    assert.equal(status, 201, text);
    assert.equal(json.warnings, undefined);
    assert.deepEqual((await gateway.read('typed', 'list', { kind: 'a' })).json.data, [{ label: 'kind a' }]);
    assert.deepEqual((await gateway.write('typed', 'add', { text: 'one' })).json.data.body, { text: 'one' });
    const run = await gateway.call('POST', '/svc/_automations/typed/digest/run?wait=1', { body: {} });
    assert.deepEqual([run.status, run.json.summary], [200, 'kind b'], run.text);
    const described = await gateway.call('POST', '/svc/_tool/svc_describe', { body: { app: 'typed' } });
    assert.deepEqual(
      [described.json.data.queries[0].name, described.json.data.actions[0].name],
      ['list', 'add'],
      described.text,
    );
  });

  test('the log has the place of an error in the source', async () => {
    const { status, json } = await gateway.read('typed', 'list', { kind: 'a', fail: true });
    assert.deepEqual([status, json.error.code, json.error.message], [500, 'HANDLER_ERROR', 'é']);
    const run = await gateway.call('POST', '/svc/_automations/typed/digest/run?wait=1', { body: { input: { a: 1 } } });
    assert.deepEqual([run.status, run.json.error.message], [500, 'no kind a']);
    const stacks = (await stackOf(gateway, '/svc/_logs?app=typed')).join('\n');
    assert.ok(stacks.includes(`(${FAILS_AT})`), stacks);
    assert.ok(stacks.includes('(automations/digest/handler.ts:4:20)'), stacks);
  });

  test('a rule that a handler breaks is found at its place', async () => {
    const text = LIST.replace('return', "await db.run('DELETE FROM notes' as string);\n  return");
    const { status, json } = await gateway.upload('typed', { ...FILES(), 'queries/list.ts': text });
    const [issue] = store === 'git' ? json.error.issues : json.warnings;
    assert.equal(status, store === 'git' ? 400 : 201);
    assert.deepEqual(
      [issue.path, issue.keyword, issue.line, issue.column],
      ['queries/list.ts', 'query-handlers-read-only', 8, 16],
    );
  });

  test('a version that is activated again runs as before, also one whose files were removed', async () => {
    const ids: string[] = [];
    for (const name of ['one', 'two', 'three', 'four']) {
      const label = `export const label = (kind: string): string => \`${name} \${kind}\`;\nexport type Kind = string;\n`;
      const { status, json, text } = await gateway.upload('typed', { ...FILES(), 'lib/label.ts': label });
      assert.equal(status, 201, text);
      ids.push(json.versionId);
    }
    const back = store === 'git' ? ids[0] : ids[2];
    const activated = await gateway.call('POST', '/svc/_apps/typed/activate', { body: { versionId: back } });
    assert.equal(activated.status, 200, activated.text);
    const label = store === 'git' ? 'one a' : 'three a';
    assert.deepEqual((await gateway.read('typed', 'list', { kind: 'a' })).json.data, [{ label }]);
  });

  if (store === 'git') {
    test('a draft runs them as soon as they are saved; the author reads back the saved text', async () => {
      const put = async (path: string, body: string): Promise<void> => {
        const answer = await gateway.call('PUT', `/svc/_sessions/s/apps/typed/files/${path}`, { body });
        assert.ok(answer.status < 300, answer.text);
      };
      const draft = (input: object) =>
        gateway.call('POST', '/svc/_draft/s/_tool/svc_read', { body: { app: 'typed', query: 'list', input } });
      await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's' } });
      await put('lib/label.ts', LABEL);
      assert.deepEqual((await draft({ kind: 'a' })).json.data, [{ label: 'kind a' }]);

      await put('lib/label.ts', LABEL.replace('kind $', 'new $'));
      assert.deepEqual((await draft({ kind: 'a' })).json.data, [{ label: 'new a' }]);
      assert.equal((await draft({ kind: 'a', fail: true })).json.error.message, 'é');
      const stacks = await stackOf(gateway, '/svc/_draft/s/_logs?app=typed');
      assert.ok(stacks.join('\n').includes(`(${FAILS_AT})`), stacks.join('\n'));

      await put('lib/label.ts', `${LABEL}enum A { B }\n`);
      const { json } = await draft({ kind: 'a' });
      assert.equal(json.error.code, 'HANDLER_ERROR');
      assert.match(json.error.message, /^lib\/label\.ts:3:1: It has a TypeScript enum/);
      const publish = () => gateway.call('POST', '/svc/_sessions/s/publish', { body: {} });
      const refused = await publish();
      assert.deepEqual([refused.status, refused.json.error.code], [400, 'INVALID_HANDLER'], refused.text);

      await put('lib/label.ts', LABEL);
      const published = await publish();
      assert.equal(published.status, 201, published.text);
      assert.deepEqual((await gateway.read('typed', 'list', { kind: 'a' })).json.data, [{ label: 'kind a' }]);
      const source = await gateway.call('GET', '/svc/_sessions/s/apps/typed/files/lib/label.ts');
      assert.equal(source.text, LABEL);
    });

    test('an automation whose handler is TypeScript keeps it when it is edited', async () => {
      const handler = 'export default async ({ ctx }: { ctx: any }) => ({ summary: String(ctx.now > 0) });\n';
      const edited = await gateway.call('PATCH', '/svc/_automations/typed/digest', {
        body: { handler, publish: true },
      });
      assert.ok(edited.status < 300, edited.text);
      const run = await gateway.call('POST', '/svc/_automations/typed/digest/run?wait=1', { body: {} });
      assert.deepEqual([run.status, run.json.summary], [200, 'true'], run.text);
    });
    return;
  }

  // Refusals and the command do not depend on the store.
  const refusals: [what: string, file: string, text: string, place: string, words: RegExp][] = [
    ['an enum', 'queries/list.ts', `${LIST}\n\tenum Level { Low }\n`, '11:2', /enum.*cannot be erased/],
    ['a namespace', 'lib/label.ts', `${LABEL}export namespace A { export const b = 1 }`, '3:8', /namespace/],
    ['a parameter property', 'actions/add.ts', `class A { constructor(readonly a: 1) {} }\n${ADD}`, '1:32', /property/],
    ['a decorator', 'queries/list.ts', `${LIST}function a() {}\n@a class B {}`, '11:1', /does not parse/],
    ['JSX', 'queries/list.ts', `${LIST}const page = <p>one</p>;`, '10:21', /does not parse/],
    ['a syntax error', 'automations/digest/handler.ts', `${DIGEST}const = 1;`, '7:7', /does not parse/],
    ['an import without the extension', 'queries/list.ts', `import '../lib/label';\n${LIST}`, '1:8', /\.ts/],
    [
      'an import of a .js file that is .ts',
      'queries/list.ts',
      `import '../lib/label.js';\n${LIST}`,
      '1:8',
      /is lib\/label\.ts/,
    ],
    [
      'a type that is imported like a value',
      'queries/list.ts',
      LIST.replace('type Kind', 'Kind'),
      '2:10',
      /"Kind".*`import type`/,
    ],
    [
      'a .js of the same name',
      'queries/list.js',
      'export default () => 1;',
      'queries/list.ts:1:1',
      /keep one of the two/,
    ],
    [
      'what never ends',
      'lib/label.ts',
      `${LABEL}x = ${'a?(b):c=>('.repeat(30)}1${')'.repeat(30)}`,
      '',
      /takes more than/,
    ],
    ['no text', 'lib/label.ts', '\0\u0001', '1:1', /does not parse/],
  ];
  for (const [what, file, text, place, words] of refusals) {
    test(`${what} is refused, with its place, and the live version stays`, async () => {
      const { status, json } = await gateway.upload('typed', { ...FILES(), [file]: text });
      assert.deepEqual([status, json.error.code], [400, 'INVALID_HANDLER'], JSON.stringify(json));
      const prefix = place.includes('.ts') ? place : `${file}:${place}`;
      assert.ok(json.error.message.startsWith(prefix), json.error.message);
      assert.match(json.error.message, words);
      assert.equal((await gateway.read('typed', 'list', { kind: 'b' })).status, 200);
    });
  }

  test('svc new --ts makes an app that can be pushed and used', async (t) => {
    const home = mkdtempSync(join(tmpdir(), 'svc-typescript-'));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    const svc = (...args: string[]): void => {
      const env = { ...process.env, SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
      const options = { env, cwd: home, encoding: 'utf8' } as const;
      const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args], options);
      assert.equal(status, 0, stderr);
    };
    svc('new', 'fresh', '--ts');
    svc('push', 'fresh');
    svc('types', 'fresh', '--out', 'fresh/svc.d.ts');
    assert.equal((await gateway.write('fresh', 'add', { text: 'Milk' })).json.data.status, 201);
    assert.deepEqual(
      (await gateway.read('fresh', 'list')).json.data.map(({ text }: { text: string }) => text),
      ['Milk'],
    );
    svc('push', 'fresh');
  });
});
