// A gateway that answers what no gateway would: what it names stays where it may be, and what it sends is what it lists.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { isLeftOut } from '../../protocol/rules/left-out.ts';
import { objectId } from '../../storage/git/object.ts';
import { type Reply, type Routes, startGateway, svc, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import { FolderSync } from '../dev/folder-sync.ts';
import { EXIT } from '../failure.ts';
import { Client } from './client.ts';
import type { Connection } from './connection.ts';
import { makeLink } from './page-links.ts';
import { checkOwnAddress } from './received.ts';

const FILES = '/svc/_sessions/s1/apps/notes/files';
const TEXT = '"owned"';

const listed = (path: unknown, sha: unknown = objectId('blob', Buffer.from(TEXT))) => ({ path, size: 7, sha });

/** Names that lead out of the folder, or mean another file on some system. */
const NAMES = [
  '../out.js',
  'a/../../out.js',
  '/tmp/svc-received-out.js',
  '//out.js',
  './a.js',
  'a//b.js',
  'C:/out.js',
  'C:out.js',
  '..\\out.js',
  'a\\out.js',
  'out.js\0.png',
  '.git/config.js',
  'a/.GIT /hooks.js',
  'GIT~1/hooks.js',
  '',
  '.',
  '..',
  `${'d/'.repeat(LIMITS.archiveDepth)}a.js`,
  `${'n'.repeat(300)}.js`,
];

/** Answers every file of the workspace s1 with the same content. */
function withFiles(files: unknown, more: Routes = {}): Routes {
  const rows = (Array.isArray(files) ? files : []).filter(Boolean) as { path: unknown }[];
  const answers = rows.map(({ path }): [string, Reply] => [
    `GET ${new URL(`${FILES}/${String(path).split('/').map(encodeURIComponent).join('/')}`, 'http://x').pathname}`,
    { json: 'owned' },
  ]);
  return {
    ...Object.fromEntries(answers),
    'GET /svc/_apps': { json: [{ id: 'notes', activeVersion: 'notes/v1' }] },
    'POST /svc/_sessions': { status: 201, json: { sessionId: 's1' } },
    'DELETE /svc/_sessions/s1': { json: {} },
    [`GET ${FILES}`]: { json: files },
    ...more,
  };
}

async function refusedExport(t: TestContext, routes: Routes): Promise<string> {
  const cwd = temporaryFolder(t);
  mkdirSync(join(cwd, 'inside'));
  const { env } = await startGateway(t, routes);
  const { code, stderr } = await svc(['export', 'apps'], { env, cwd: join(cwd, 'inside') });
  assert.equal(code, EXIT.failed, stderr);
  assert.match(stderr, /^✗ The gateway sent /);
  assert.deepEqual([readdirSync(cwd), readdirSync(join(cwd, 'inside'))], [['inside'], []], 'nothing is written');
  return stderr;
}

for (const name of NAMES) {
  test(`svc export does not take the name ${JSON.stringify(name.slice(0, 30))}`, async (t) => {
    await refusedExport(t, withFiles([listed('app.json'), listed(name)]));
    assert.equal(existsSync('/tmp/svc-received-out.js'), false);
  });
}

test('svc export takes nothing that is twice, no list, or another content than is listed', async (t) => {
  await refusedExport(t, withFiles([listed('app.js'), listed('App.js')]));
  await refusedExport(t, withFiles([listed('a.js'), listed('a.js/b.js')]));
  for (const files of [{}, 'app.json', [null], [listed(7)], [listed('a.js', 'x')], [listed('a.js', 7)]])
    await refusedExport(t, withFiles(files));
  const wrong = await refusedExport(t, withFiles([listed('a.js', 'a'.repeat(40))]));
  assert.match(wrong, /another content of "a\.js" than it lists/);
  for (const id of ['../out', '/tmp/out', '..', 'A', 7])
    await refusedExport(
      t,
      withFiles([listed('app.json')], { 'GET /svc/_apps': { json: [{ id, activeVersion: 'x' }] } }),
    );
});

const VERSION_FILES = '/svc/_apps/notes/versions/v/files';

test('svc pull takes no file under a name that leads elsewhere, nor through a link, and no other content than is listed', async (t) => {
  // Hidden names are left out, without a word.
  const names = NAMES.filter((name) => !isLeftOut(name));
  const rows = [...names, 'link/out.js'].map((name) => listed(name));
  for (const row of [...rows, listed('a.js', 'a'.repeat(40))]) {
    const cwd = temporaryFolder(t);
    mkdirSync(join(cwd, 'outside'));
    for (const folder of ['new', 'old']) {
      const routes = new Proxy({} as Routes, {
        get: (_, key: string) => {
          if (key === 'GET /svc/_apps/notes') return { json: { id: 'notes', activeVersion: 'v', backend: 'git' } };
          if (key.startsWith('GET /svc/_apps/notes/versions?')) return { json: [] };
          return { json: key.endsWith(VERSION_FILES) ? [listed('app.js'), row] : 'owned' };
        },
      });
      const { env } = await startGateway(t, routes);
      if (folder === 'old') {
        mkdirSync(join(cwd, 'old'));
        symlinkSync(join(cwd, 'outside'), join(cwd, 'old/link'));
      } else if (row.path === 'link/out.js') continue;
      const { code, stderr } = await svc(['pull', 'notes', folder], { env, cwd });
      assert.equal(code, EXIT.failed, `${row.path}: ${stderr}`);
      assert.match(stderr, /^✗ The gateway sent /, String(row.path));
      assert.deepEqual(readdirSync(cwd).sort(), folder === 'old' ? ['old', 'outside'] : ['outside'], String(row.path));
      assert.deepEqual(readdirSync(join(cwd, 'outside')), []);
      if (folder === 'old') assert.deepEqual(readdirSync(join(cwd, 'old')), ['link']);
    }
  }
});

async function follower(
  t: TestContext,
): Promise<{ folder: string; files: unknown[]; sync: () => ReturnType<FolderSync['sync']> }> {
  const folder = join(temporaryFolder(t), 'notes');
  mkdirSync(folder);
  writeFileSync(join(folder, 'app.json'), '{}');
  const files: unknown[] = [];
  const path = (url: string) => decodeURIComponent(url.slice(FILES.length + 1));
  const routes = new Proxy(withFiles([]), {
    get: (known, key: string) => {
      const [method = '', url = ''] = key.split(' ');
      if (url === FILES) return { json: files };
      if (!url.startsWith(FILES)) return known[key];
      if (method === 'PUT') return { json: listed(path(url), objectId('blob', Buffer.from('{}'))) };
      return { json: 'owned' };
    },
    has: () => true,
  });
  const { url } = await startGateway(t, routes);
  const client = new Client({ url, urlFrom: 'the test', token: TOKEN, tokenFrom: 'the test' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);
  files.push(listed('app.json', objectId('blob', Buffer.from('{}'))));
  return { folder, files, sync: () => sync.sync(client) };
}

test('svc dev takes no file under a name that leads elsewhere, nor through a link, and goes on with the others', async (t) => {
  const { folder, files, sync } = await follower(t);
  const outside = temporaryFolder(t);
  symlinkSync(outside, join(folder, 'link'));
  writeFileSync(join(outside, 'mine.js'), 'mine');
  symlinkSync(join(outside, 'mine.js'), join(folder, 'mine.js'));
  const names = NAMES.filter((name) => name.includes('/') || name.includes('\\') || name.includes('..'));
  const left = ['.vscode/tasks.json', 'node_modules/a/index.js', '.env.js', 'a/.git/x.js', 'run.sh', 'data.sqlite'];
  const linked = ['link/out.js', 'link/a/out.js', 'mine.js', 'APP.JSON'];
  files.push(...[...names, ...left, ...linked, 'good.js'].map((name) => listed(name)));
  const { result, faults } = await sync();
  assert.deepEqual(result.taken, ['good.js']);
  const told = faults.map(({ path }) => path);
  // Hidden names are left out on both ways, without a word.
  for (const name of [...linked, ...names.filter((name) => !/(?:^|\/)\.(?:g|\.\\)/i.test(name))])
    assert.ok(told.includes(name), name);
  assert.deepEqual(readdirSync(folder).sort(), ['app.json', 'good.js', 'link', 'mine.js']);
  assert.deepEqual([readdirSync(outside), readFileSync(join(outside, 'mine.js'), 'utf8')], [['mine.js'], 'mine']);
  assert.deepEqual(readdirSync(join(folder, '..')), ['notes']);
});

test('svc dev takes no other content than the workspace lists', async (t) => {
  const { folder, files, sync } = await follower(t);
  files.push(listed('a.js', 'b'.repeat(40)));
  const { result, faults } = await sync();
  assert.deepEqual([result.taken, faults.map(({ path }) => path)], [[], ['a.js']]);
  assert.equal(existsSync(join(folder, 'a.js')), false);
});

const SHA = 'a'.repeat(64);
const blobs = (row: object): Routes => ({
  'GET /svc/notes/_blobs?prefix=a&limit=2': {
    json: { files: [{ sha256: SHA, size: 7, type: 'text/plain', ...row }] },
  },
  [`GET /svc/notes/_blobs/${SHA}`]: { json: 'owned' },
});

for (const [what, row] of [
  ['a SHA-256 that is a path', { sha256: `a/../../../../${'out'}` }],
  ['a SHA-256 that is too short', { sha256: 'aa' }],
  ['a SHA-256 that was not asked for', { sha256: 'b'.repeat(64) }],
  ['a SHA-256 that is none', { sha256: 7 }],
  ['another content', {}],
  ['more than the file has', { size: 6 }],
  ['a size that is none', { size: 'x' }],
] as [string, object][]) {
  test(`svc files get does not take ${what}`, async (t) => {
    const cwd = temporaryFolder(t);
    const { env } = await startGateway(t, blobs(row));
    const { code, stderr } = await svc(['files', 'get', 'notes', 'a'], { env, cwd });
    assert.equal(code, EXIT.failed, stderr);
    assert.match(stderr, /^✗ The gateway sent (?:the SHA-256|another content)/);
    assert.deepEqual(readdirSync(cwd), []);
  });
}

test('a list that goes on for ever ends with an error', async (t) => {
  const page = { json: Array.from({ length: LIMITS.listRowsMax }, () => ({ id: 'a' })) };
  const { env, seen } = await startGateway(t, {
    'GET /svc/_apps': page,
    'GET /svc/_apps?after=a': page,
    'GET /svc/_trash?limit=500': { json: { length: 500 } },
    'GET /svc/_logs?app=notes&limit=50': { json: [], headers: { 'log-cursor': 'x' } },
    'GET /svc/_logs?app=notes&limit=50&before=x': { json: [], headers: { 'log-cursor': 'x' } },
  });
  for (const line of [['apps'], ['logs', 'notes']]) {
    seen.length = 0;
    const { code, stderr } = await svc(line, { env });
    assert.deepEqual([code, /^✗ The gateway sent a list without end/.test(stderr)], [EXIT.failed, true], stderr);
    assert.equal(seen.length, LIMITS.listPages);
  }
  assert.match((await svc(['trash'], { env })).stderr, /^✗ The gateway sent something else than a list/);
});

test('a link that a browser must not open is not given out', async (t) => {
  for (const url of ['javascript:alert(1)', 'file:///etc/passwd', 'data:text/html,x', 'x', '', 7, null]) {
    const { url: at, env } = await startGateway(t, { 'POST /svc/_session/links': { json: { url, expiresAt: 0 } } });
    const client = new Client({ url: at, urlFrom: 'the test', token: TOKEN, tokenFrom: 'the test' });
    await assert.rejects(makeLink(client), /The gateway sent the address/);
    assert.equal((await svc(['open'], { env })).stdout, '');
  }
});

const at = (url: string, pid?: number): Connection => ({
  ...{ url, urlFrom: 'the test', token: undefined, tokenFrom: 'nowhere' },
  ...(pid !== undefined && { pid }),
});

for (const [address, connection, isOwn] of [
  ['http://svc.localhost:8787/svc/#link=a', at('http://127.0.0.1:8787'), true],
  ['http://notes.svc.localhost:8787/', at('http://localhost:8787'), true],
  ['http://127.0.0.1:8787/svc/', at('http://127.0.0.1:8787'), true],
  ['http://svc.localhost:8788/', at('http://127.0.0.1:8787'), false],
  ['http://evil.localhost:8787/', at('http://127.0.0.1:8787'), false],
  ['https://example.com/', at('http://127.0.0.1:8787'), false],
  ['https://example.com/', at('http://127.0.0.1:8787', 1), true],
  ['file:///etc/passwd', at('http://127.0.0.1:8787', 1), false],
  ['https://notes.example.com/', at('https://example.com'), true],
  ['https://example.com.evil.net/', at('https://example.com'), false],
  ['https://evilexample.com/', at('https://example.com'), false],
  ['http://127.0.0.1/', at('https://example.com'), false],
  ['https://example.com@evil.net/', at('https://example.com'), false],
  ['javascript:alert(1)//example.com', at('https://example.com'), false],
] as [string, Connection, boolean][]) {
  test(`${address} is ${isOwn ? '' : 'not '}opened for ${connection.url}${connection.pid ? ' of a data directory' : ''}`, () => {
    if (isOwn) checkOwnAddress(address, connection);
    else assert.throws(() => checkOwnAddress(address, connection), /The gateway sent the address/);
  });
}
