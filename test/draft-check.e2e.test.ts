/** The check of a draft before it is published, over HTTP and by `svc check`, and its tests. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { AppTests } from '../protocol/answer-types.ts';
import { isRunning } from '../storage/processes/process-identity.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root } from '../testing/gateway.ts';

const NOTES = appOf('notes', {
  queries: { list: `({ db }) => db.all('SELECT * FROM notes')` },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);\n'],
  automations: { digest: 'async (_input, ctx) => ctx.now' },
});

type Finding = { code: string; path: string; message: string; keyword: string; line?: number; column?: number };

const refused = (answer: Answer, status: number, code: string) =>
  assert.equal(`${answer.status} ${answer.json?.error?.code}`, `${status} ${code}`, answer.text);

describe('the check of a draft', () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  let workspace: string;

  before(async () => {
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
    workspace = (await gateway.call('POST', '/svc/_sessions')).json.sessionId;
  });

  const at = (rest: string, app = 'notes', sid = workspace) => `/svc/_sessions/${sid}/apps/${app}/${rest}`;
  const put = async (path: string, text: string): Promise<void> => {
    const answer = await gateway.call('PUT', at(`files/${path}`), { body: Buffer.from(text) });
    assert.ok([200, 201].includes(answer.status), answer.text);
  };
  const check = async (): Promise<Finding[]> => {
    const answer = await gateway.call('POST', at('check'));
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.app, 'notes');
    return answer.json.findings;
  };
  const publish = () => gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body: { app: 'notes' } });
  const svc = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    new Promise((resolve) => {
      const env = { PATH: process.env.PATH, HOME: '/nonexistent', SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
      execFile(process.execPath, [join(root, 'bin/svc.js'), ...args], { env }, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    });

  test('finds nothing in an unchanged draft, and publishes nothing', async () => {
    assert.deepEqual(await check(), []);
    await put('queries/list.js', `export default ({ db }) => db.all('SELECT id FROM notes');\n`);
    assert.deepEqual(await check(), []);
    assert.equal((await gateway.call('GET', '/svc/_apps/notes/versions')).json.length, 1);
    const said = await svc('check');
    assert.equal(said.code, 0, said.stderr);
    assert.match(said.stdout, /notes in \S+ can be published/);
  });

  for (const [what, path, text, code, place] of [
    [
      'a handler that breaks a rule',
      'automations/digest/handler.js',
      'export default () => {\n  return Date.now();\n};\n',
      'INVALID_HANDLER',
      [2, 10],
    ],
    [
      'a handler that does not parse',
      'queries/list.js',
      'export default () => {\n  return 1 +;\n};\n',
      'INVALID_HANDLER',
      [2, 13],
    ],
    ['a manifest', 'app.json', '{"id": "notes", "name": 5, "version": "1"}', 'INVALID_MANIFEST', []],
    ['an automation', 'automations/digest/automation.json', '{"name": "x", "triggers": 4}', 'INVALID_AUTOMATION', []],
    [
      'a migration that was published',
      'migrations/0001_step.sql',
      'CREATE TABLE other (id);\n',
      'INVALID_MIGRATION',
      [],
    ],
  ] as const)
    test(`finds ${what}, as publishing does`, async () => {
      const before = await gateway.call('GET', at(`files/${path}`));
      await put(path, text);
      const [first, ...others] = await check();
      const { error } = (await publish()).json;
      assert.equal(first?.code, code);
      assert.equal(error.code, code);
      const issues: Omit<Finding, 'code'>[] = error.issues ?? [];
      if (issues.length > 0)
        assert.deepEqual(
          [first, ...others],
          issues.map((issue) => ({ code, ...issue })),
        );
      else assert.deepEqual([first?.path, first?.message], [error.path, error.message]);
      if (place.length > 0) assert.deepEqual([first?.line, first?.column], [...place]);
      const said = await svc('check', 'notes', '--workspace', workspace);
      assert.equal(said.code, 1, said.stdout);
      assert.ok(said.stdout.includes(`✗ ${[first?.path, ...place].join(':')}`), said.stdout);
      assert.match(said.stderr, /svc publish notes --workspace/);
      await put(path, before.text);
      assert.deepEqual(await check(), []);
    });

  test('finds a migration that the data does not take', async () => {
    const path = 'migrations/0002_twice.sql';
    await put(path, 'CREATE TABLE notes (id INTEGER PRIMARY KEY);\n');
    const [found, ...others] = await check();
    assert.deepEqual([found?.code, found?.path, others], ['MIGRATION_FAILED', path, []]);
    assert.equal((await publish()).json.error.code, 'MIGRATION_FAILED');
    assert.equal((await gateway.call('DELETE', at(`files/${path}`))).status, 200);
    assert.deepEqual(await check(), []);
  });

  test('warns of what is probably mistyped, as an upload and a publication do', async () => {
    const before = (await gateway.call('GET', at('files/app.json'))).text;
    const manifest = { ...JSON.parse(before), querys: [], actions: [{ name: 'add', inputs: {} }] };
    const files = {
      'actions/add.js': `import './help.js';\nexport default async () => null;\n`,
      'actions/help.js': 'export default async () => null;\n',
      'app.json': JSON.stringify(manifest),
      'queries/old.js': 'export default async () => null;\n',
    };
    for (const [path, text] of Object.entries(files)) await put(path, text);
    const answer = await gateway.call('POST', at('check'));
    const places = (warnings: Finding[] = []) => warnings.map(({ path, keyword }) => `${path} ${keyword}`);
    const expected = ['app.json unknown-member', 'app.json unknown-member', 'queries/old.js unused-handler'];
    assert.deepEqual([answer.json.findings, places(answer.json.warnings)], [[], expected]);
    const said = await svc('check', 'notes', '--workspace', workspace);
    assert.equal(said.code, 0, said.stderr);
    assert.match(
      said.stdout,
      /can be published\n! app\.json:1:\d+ "inputs" of actions\[0\] .*"input"\?.*\n.*"querys" .*"queries"\?/,
    );
    assert.doesNotMatch(said.stdout, /refuses/);
    const pushed = await gateway.upload('typos', {
      ...NOTES,
      ...files,
      'app.json': files['app.json'].replace('notes', 'typos'),
    });
    assert.deepEqual([pushed.status, places(pushed.json.warnings)], [201, expected], pushed.text);
    for (const path of ['actions/add.js', 'actions/help.js', 'queries/old.js'])
      assert.equal((await gateway.call('DELETE', at(`files/${path}`))).status, 200);
    await put('app.json', before);
    assert.deepEqual((await gateway.call('POST', at('check'))).json.warnings, []);
  });

  test('finds lines that others changed too, and runs again if files change meanwhile', async () => {
    await put('index.html', '<p>Mine\n');
    assert.equal((await gateway.upload('notes', { ...NOTES, 'index.html': '<p>Theirs\n' })).status, 201);
    const [found] = await check();
    assert.deepEqual([found?.code, found?.path, found?.keyword], ['MERGE_CONFLICT', 'index.html', 'conflict']);
    const checks = Array.from({ length: 4 }, () => check());
    const edits = Array.from({ length: 8 }, (_, at) => put('notes.md', `${at}`));
    await Promise.all([...checks, ...edits]);
    assert.equal((await gateway.call('GET', at('files/notes.md'))).text.length, 1);
    assert.equal((await gateway.call('GET', '/svc/_apps/notes/versions')).json.length, 2);
  });

  test('runs the tests of the draft on a copy, one run at a time, and ends them with the request', async () => {
    const run = async (): Promise<AppTests> => {
      const answer = await gateway.call('POST', at('tests'));
      assert.equal(answer.status, 200, answer.text);
      return answer.json;
    };
    assert.deepEqual(await run(), { app: 'notes', passed: false, tests: [] });
    await put(
      'tests/list.test.js',
      `import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { harness } from 'svc/test';
test('lists what was added', async (t) => {
  const app = await harness(t);
  await app.sql("INSERT INTO notes (text) VALUES ('one')");
  assert.equal((await app.query('list')).length, 1);
  writeFileSync(new URL('../made.txt', import.meta.url), 'only in the copy');
});
test('fails', async (t) => {
  assert.deepEqual(Object.keys(process.env).filter((name) => /TOKEN|SVC_DATA/.test(name)), []);
  await (await harness(t)).query('nothing');
});
`,
    );
    const { passed, tests } = await run();
    assert.equal(passed, false);
    assert.deepEqual(
      tests.map(({ name, file, line, state }) => [name, file, line, state]),
      [
        ['lists what was added', 'tests/list.test.js', 5, 'passed'],
        ['fails', 'tests/list.test.js', 11, 'failed'],
      ],
    );
    assert.match(tests[1]?.error ?? '', /UNKNOWN_QUERY[\s\S]*tests\/list\.test\.js:13/);
    assert.doesNotMatch(tests[1]?.error ?? '', /svc-tests-/);
    const files: { path: string }[] = (await gateway.call('GET', at('files'))).json;
    assert.ok(!files.some(({ path }) => path === 'made.txt'));

    // An app that cannot be made live.
    await put('queries/broken.js', 'export default () => { return 1 +; };\n');
    const manifest = await gateway.call('GET', at('files/app.json'));
    const broken = { ...manifest.json, queries: [...manifest.json.queries, { name: 'broken' }] };
    await put('app.json', JSON.stringify(broken));
    const refusal = await run();
    assert.deepEqual([refusal.passed, refusal.tests, refusal.error?.code], [false, [], 'INVALID_HANDLER']);
    await put('app.json', manifest.text);
    await gateway.call('DELETE', at('files/queries/broken.js'));

    // One that never ends: it says that it runs by a request to this test.
    let begun = (): void => {};
    const running = new Promise<void>((resolve) => {
      begun = resolve;
    });
    let pid = 0;
    const listener = createServer((request, response) => {
      pid = Number(request.url?.slice(1));
      response.end(begun());
    }).listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as AddressInfo;
    await put(
      'tests/list.test.js',
      `import { test } from 'node:test';
test('never ends', async () => {
  await fetch('http://127.0.0.1:${port}/' + process.pid);
  for (;;);
});
`,
    );
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${gateway.token}` };
    const left = fetch(gateway.url + at('tests'), { method: 'POST', headers, signal: leaving.signal });
    left.catch(() => {});
    await running;
    refused(await gateway.call('POST', at('tests')), 409, 'CONFLICT');
    leaving.abort();
    listener.close();
    while (isRunning(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
    await gateway.call('DELETE', at('files/tests/list.test.js'));
    let again: Answer;
    do again = await gateway.call('POST', at('tests'));
    while (again.status === 409);
    assert.deepEqual(again.json.tests, []);
  });

  test('is refused without the right, and for unknown workspaces and apps', async () => {
    refused(await gateway.call('POST', at('check', 'notes', 'nobody')), 404, 'UNKNOWN_SESSION');
    refused(await gateway.call('POST', at('check', 'nobody')), 404, 'UNKNOWN_APP');
    refused(await gateway.call('GET', at('check')), 405, 'METHOD_NOT_ALLOWED');
    refused(await gateway.call('POST', at('check'), { token: null }), 401, 'UNAUTHORIZED');
    for (const tools of ['read', 'write']) {
      const body = { name: tools, tools, apps: ['notes'] };
      const { token } = (await gateway.call('POST', '/svc/_tokens', { body })).json;
      refused(await gateway.call('POST', at('check'), { token }), 403, 'FORBIDDEN');
    }
    // Tests are programs: only the administrator runs them.
    const body = { name: 'all', tools: 'all', apps: ['notes'] };
    const { token } = (await gateway.call('POST', '/svc/_tokens', { body })).json;
    assert.equal((await gateway.call('POST', at('check'), { token })).status, 200);
    refused(await gateway.call('POST', at('tests'), { token }), 403, 'FORBIDDEN');
    refused(await gateway.call('GET', at('folder'), { token }), 403, 'FORBIDDEN');
    refused(await gateway.call('POST', at('tests'), { token: null }), 401, 'UNAUTHORIZED');
    refused(await gateway.call('POST', at('tests', 'notes', 'nobody')), 404, 'UNKNOWN_SESSION');
    refused(await gateway.call('POST', at('tests', 'nobody')), 404, 'UNKNOWN_APP');
  });
});
