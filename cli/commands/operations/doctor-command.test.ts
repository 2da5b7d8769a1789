import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { acquireDataLock } from '../../../storage/processes/data-lock.ts';
import { NoUws, type Uws } from '../../../supervisor/edge/uws-binding.ts';
import { asUser, failure, startGateway, svc, TOKEN, temporaryFolder } from '../../../testing/command-line.ts';
import {
  checkDaemon,
  checkDataDirectory,
  checkDisk,
  checkEdge,
  checkNode,
  checkPort,
  checkPrivacy,
  checkProfile,
  checkSqlite,
  checkWorkspaces,
} from './doctor-command.ts';

const surroundings = (home: string) => ({ env: { HOME: home }, cwd: home, platform: 'linux' as const });

test('Node versions', () => {
  for (const [version, state] of [
    ['18.20.0', 'problem'],
    ['20.18.9', 'problem'],
    ['20.19.0', 'ok'],
    ['22.11.0', 'problem'],
    ['22.12.0', 'ok'],
    ['23.9.0', 'warning'],
    ['24.0.0', 'ok'],
    ['26.0.0', 'ok'],
    ['27.0.0', 'warning'],
  ] as const) {
    assert.equal(checkNode(version).state, state, version);
  }
});

test('the edge check loads the native code, and says how to get it if it is missing', () => {
  const missing = (): never => {
    throw new NoUws('uWebSockets.js has no binary for Node 24.0.0 on linux x64.');
  };
  const { state, finding, fix } = checkEdge(missing);
  assert.equal(state, 'warning');
  assert.match(finding, /^uWebSockets\.js has no binary for Node 24\.0\.0 on linux x64\. node:http serves/);
  assert.match(fix ?? '', /npm install --no-save uWebSockets\.js@github:uNetworking/);
  assert.equal(checkEdge(() => ({}) as Uws).state, 'ok');
});

test('the SQLite binding for this Node loads; if none does, the check says what to do', () => {
  assert.equal(checkSqlite().state, 'ok');
  const { state, finding, fix } = checkSqlite(['sqlite-of-nobody']);
  assert.equal(state, 'problem');
  assert.match(finding, /sqlite-of-nobody is not installed/);
  assert.match(fix ?? '', /npm ci/);
});

test('a data directory that others can open is a warning with the command that closes it', (t) => {
  const folder = temporaryFolder(t);
  const dataDirectory = join(folder, 'data');
  assert.match(checkDataDirectory(dataDirectory, surroundings(folder))[0]?.finding ?? '', /the first svc serve makes /);
  mkdirSync(dataDirectory, { mode: 0o755 });
  writeFileSync(join(dataDirectory, 'token.bin'), '', { mode: 0o644 });
  assert.deepEqual(
    checkDataDirectory(dataDirectory, surroundings(folder)).map(({ state, fix }) => [state, fix]),
    [
      ['warning', 'Run: chmod 700 data'],
      ['warning', 'Run: chmod 600 data/token.bin'],
    ],
  );
  chmodSync(dataDirectory, 0o700);
  chmodSync(join(dataDirectory, 'token.bin'), 0o600);
  assert.deepEqual(
    checkDataDirectory(dataDirectory, surroundings(folder)).map(({ state }) => state),
    ['ok', 'ok'],
  );
});

test('a full disk is a problem, an almost full one a warning', (t) => {
  const folder = temporaryFolder(t);
  const state = (bavail: number) => checkDisk(folder, surroundings(folder), { bavail, bsize: 1024 }).state;
  assert.deepEqual([0, 100 * 1024, 1024 * 1024].map(state), ['problem', 'warning', 'ok']);
});

test('a gateway inside another program is found by its lock', async (t) => {
  const folder = temporaryFolder(t);
  const lock = acquireDataLock(join(folder, 'lock'));
  t.after(() => lock.release());
  const [found] = await checkDaemon(folder, surroundings(folder));
  assert.match(found?.finding ?? '', new RegExp(`inside another program \\(pid ${process.pid}\\)`));
});

test('a gateway that crashed, and a port in use', async (t) => {
  const folder = temporaryFolder(t);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  mkdirSync(join(folder, 'run'));
  const says = (url: string) =>
    writeFileSync(join(folder, 'run/daemon.json'), JSON.stringify({ pid: 7, url, startedAt: 0, version: '0' }));

  const taken = await checkPort(port, folder, surroundings(folder));
  const who =
    process.platform === 'linux' ? new RegExp(`used by node.* \\(pid ${process.pid}\\)`) : /used by another program/;
  assert.match(taken.finding, who);
  assert.match(taken.fix ?? '', /any free port: svc serve --port 0/);
  says(`http://127.0.0.1:${port}`);
  assert.match((await checkPort(port, folder, surroundings(folder))).finding, /is the gateway's/);
  await new Promise((resolve) => server.close(resolve));
  assert.equal((await checkPort(port, folder, surroundings(folder))).state, 'ok');
  const [daemon] = await checkDaemon(folder, surroundings(folder));
  assert.equal(daemon?.state, 'warning');
  assert.match(daemon?.finding ?? '', /\(pid 7\) does not answer/);
});

test('MCP servers that failed are named', async (t) => {
  const folder = temporaryFolder(t);
  const server = (name: string, state: string, lastError: string | null) => ({ name, kind: 'stdio', state, lastError });
  const { url } = await startGateway(t, {
    'GET /svc/_system': {
      json: {
        version: '1.0.0',
        edge: 'uws',
        node: 'v20.20.2',
        uptimeMs: 1000,
        processes: [],
        toolServers: [server('git', 'failed', 'it ended\nwith 1'), server('web', 'connected', 'an earlier failure')],
      },
    },
  });
  mkdirSync(join(folder, 'run'));
  writeFileSync(join(folder, 'run/daemon.json'), JSON.stringify({ pid: 7, url, startedAt: 0, version: '0' }));
  writeFileSync(join(folder, 'token.bin'), TOKEN);
  const checks = await checkDaemon(folder, surroundings(folder));
  assert.deepEqual(
    checks.map(({ name, state, finding }) => [name, state, finding]),
    [
      ['gateway', 'ok', `1.0.0 answers at ${url}, up 1 s, edge uws, Node 20.20.2`],
      ['MCP server', 'warning', 'git failed: it ended\nwith 1'],
    ],
  );
});

test('a profile that cannot be used is a problem, and doctor then fails', async (t) => {
  const home = temporaryFolder(t);
  mkdirSync(join(home, '.config/svc'), { recursive: true });
  const file = join(home, '.config/svc/profile.json');
  for (const [text, state] of [
    ['{', 'problem'],
    ['{}', 'problem'],
    ['{"url":"http://x"}', 'ok'],
  ] as const) {
    writeFileSync(file, text, { mode: 0o644 });
    assert.equal(checkProfile(surroundings(home)).state, state, text);
  }
  writeFileSync(file, '{"url":"http://x","token":"t"}');
  assert.equal(checkProfile(surroundings(home)).fix, 'Run: chmod 600 .config/svc/profile.json');
  writeFileSync(file, '{');
  const { code, stdout } = await svc(['doctor'], { env: { HOME: home }, cwd: home });
  assert.equal(code, 1);
  assert.match(stdout, /✗ profile/);
});

test('files and folders that others can open are found, and closed with --mend', (t) => {
  const folder = temporaryFolder(t);
  const dataDirectory = join(folder, 'data');
  assert.deepEqual(checkPrivacy(dataDirectory, false, surroundings(folder)), []);
  mkdirSync(join(dataDirectory, 'apps/todos'), { recursive: true, mode: 0o700 });
  writeFileSync(join(dataDirectory, 'token.bin'), '', { mode: 0o600 });
  const [data, code] = ['apps/todos/data.sqlite', 'apps/todos/app.json'].map((name) => join(dataDirectory, name));
  writeFileSync(data as string, '', { mode: 0o600 });
  const states = () =>
    checkPrivacy(dataDirectory, false, surroundings(folder)).map(({ state, finding }) => [state, finding]);
  assert.deepEqual(states(), [['ok', 'closed to other users']]);

  writeFileSync(code as string, '');
  for (const [path, mode] of [
    [data, 0o644],
    [code, 0o755],
    [join(dataDirectory, 'apps'), 0o711],
  ] as const)
    chmodSync(path as string, mode);
  symlinkSync('/etc/hostname', join(dataDirectory, 'link'));
  assert.deepEqual(states(), [['warning', 'other users can open data/apps and 2 more']]);
  const [mended] = checkPrivacy(dataDirectory, true, surroundings(folder));
  assert.deepEqual([mended?.state, mended?.finding], ['ok', 'closed to other users now: data/apps and 2 more']);
  assert.deepEqual(states(), [['ok', 'closed to other users']]);
  assert.deepEqual(
    [data, code].map((path) => statSync(path as string).mode & 0o777),
    [0o600, 0o700],
  );
});

test('a folder that is not a data directory keeps its modes', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'work.txt');
  writeFileSync(file, '', { mode: 0o644 });
  await svc(['doctor', '--mend', '--data-dir', folder], { env: { HOME: folder } });
  assert.equal(statSync(file).mode & 0o777, 0o644);
});

test('a file or a dangling link as data directory is reported as such, without advice on modes', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'file'), '', { mode: 0o644 });
  symlinkSync('nowhere', join(folder, 'link'));
  for (const [path, said] of [
    ['file', /✗ data directory file is a file, not a folder\n +→ Choose another: --data-dir\n/],
    ['file/data', /✗ data directory file\/data cannot be made: .*\/file is a file, not a folder\n/],
    ['link', /✗ data directory link is a link to a folder that does not exist\n/],
  ] as const) {
    const { code, stdout } = await svc(['doctor', '--data-dir', path], { env: { HOME: folder }, cwd: folder });
    assert.equal(code, 1);
    assert.match(stdout, said);
    assert.doesNotMatch(stdout, /chmod|--mend|E[A-Z]{5,}/);
  }
  assert.equal(statSync(join(folder, 'file')).mode & 0o777, 0o644);
});

test('a data directory of another user is reported in a sentence, and its format is not checked', async (t) => {
  const folder = temporaryFolder(t);
  const dataDirectory = join(folder, 'data');
  mkdirSync(dataDirectory);
  writeFileSync(join(dataDirectory, 'format.json'), '{}');
  chmodSync(folder, 0o755);
  chmodSync(dataDirectory, 0o000);
  const { stdout } = await asUser(join(folder), () =>
    svc(['doctor', '--data-dir', dataDirectory], { env: { HOME: folder }, cwd: folder }),
  );
  chmodSync(dataDirectory, 0o700);
  assert.match(stdout, /✗ gateway +it is unknown whether one runs on data: permission is denied\n/);
  assert.doesNotMatch(stdout, /EACCES|data format/);
});

const NOW = Date.parse('2026-06-01T00:00:00Z');
const OLD = NOW - LIMITS.workspaceStaleMs - 86_400_000;

const RECORD = JSON.stringify({ createdAt: '2026-01-01T00:00:00Z', base: 'a'.repeat(40), apps: {} });

test('damaged workspaces are named, with and without a gateway', async (t) => {
  const folder = temporaryFolder(t);
  const workspaces = join(folder, 'code-store/worktrees/sessions');
  for (const [id, record] of [
    ['cut', RECORD.slice(0, 20)],
    ['whole', RECORD],
  ] as const) {
    mkdirSync(join(workspaces, id, 'apps'), { recursive: true });
    writeFileSync(join(workspaces, id, 'session.json'), record);
  }
  mkdirSync(join(workspaces, 'empty'));
  const rows = [
    { sessionId: 'cut', touchedAt: Date.now(), damaged: 'It is.' },
    { sessionId: 'empty', touchedAt: Date.now(), damaged: 'It is.' },
    { sessionId: 'whole', touchedAt: Date.now() },
  ];
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': { json: rows } });
  for (const runs of [false, true]) {
    if (runs) runsOn(folder, url);
    const [damaged, open] = await checkWorkspaces(folder, surroundings(folder));
    assert.equal(damaged?.state, 'problem');
    assert.match(damaged?.finding ?? '', /: cut, empty$/);
    assert.deepEqual([open?.state, open?.finding], ['ok', '3 open']);
  }
});

test('workspaces untouched for 30 days are named, the oldest first, as the running gateway has them', async (t) => {
  const folder = temporaryFolder(t);
  const rows = [
    { sessionId: 'fresh', touchedAt: NOW - 1000 },
    { sessionId: 'old', touchedAt: OLD },
    { sessionId: 'older', touchedAt: OLD - 86_400_000 },
  ];
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': { json: rows } });
  runsOn(folder, url);
  const [check] = await checkWorkspaces(folder, surroundings(folder), NOW);
  assert.equal(check?.state, 'warning');
  assert.match(check?.finding ?? '', /^3 open, untouched for 30 days: older \(.*\), old \(/);
  assert.match(check?.fix ?? '', /svc workspaces rm/);
  assert.doesNotMatch(check?.finding ?? '', /fresh/);
});

test('without a gateway workspaces are read from the folder, and left there', async (t) => {
  const folder = temporaryFolder(t);
  assert.deepEqual(await checkWorkspaces(folder, surroundings(folder), NOW), [], 'no git store');
  const workspaces = join(folder, 'code-store/worktrees/sessions');
  for (const [id, at] of [
    ['forgotten', OLD],
    ['fresh', NOW],
  ] as const) {
    mkdirSync(join(workspaces, id, 'apps/notes'), { recursive: true });
    writeFileSync(join(workspaces, id, 'session.json'), RECORD);
    for (const path of ['apps/notes', 'apps', 'session.json'])
      utimesSync(join(workspaces, id, path), at / 1000, at / 1000);
  }
  const [check] = await checkWorkspaces(folder, surroundings(folder), NOW);
  assert.match(check?.finding ?? '', /^2 open, untouched for 30 days: forgotten \(/);
  assert.deepEqual(readdirSync(workspaces).sort(), ['forgotten', 'fresh']);
});

test('there is no finding about workspaces for the tarball store, or if the gateway does not answer', async (t) => {
  const folder = temporaryFolder(t);
  const { url } = await startGateway(t, { 'GET /svc/_sessions?limit=500': failure(409, 'NO_GIT_STORE', 'No drafts.') });
  runsOn(folder, url);
  assert.deepEqual(await checkWorkspaces(folder, surroundings(folder), NOW), []);
  runsOn(folder, 'http://127.0.0.1:1');
  assert.deepEqual(await checkWorkspaces(folder, surroundings(folder), NOW), []);
});

function runsOn(folder: string, url: string): void {
  mkdirSync(join(folder, 'run'), { recursive: true });
  writeFileSync(join(folder, 'run/daemon.json'), JSON.stringify({ pid: 7, url, startedAt: 0, version: '0' }));
  writeFileSync(join(folder, 'token.bin'), TOKEN);
}
