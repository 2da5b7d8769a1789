import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { startGateway, svc, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import {
  checkDaemon,
  checkDataDirectory,
  checkNode,
  checkPort,
  checkPrivacy,
  checkProfile,
  checkSqlite,
} from './health-checks.ts';

const surroundings = (home: string) => ({ env: { HOME: home }, cwd: home, platform: 'linux' as const });

test('Node versions', () => {
  for (const [version, state] of [
    ['18.20.0', 'problem'],
    ['20.18.9', 'problem'],
    ['20.19.0', 'ok'],
    ['26.0.0', 'ok'],
  ] as const) {
    assert.equal(checkNode(version).state, state, version);
  }
});

test('the native database module of this machine loads', async () => {
  assert.equal((await checkSqlite()).state, 'ok');
});

test('a data directory that others can open is a warning with the command that closes it', (t) => {
  const folder = temporaryFolder(t);
  const dataDirectory = join(folder, 'data');
  assert.match(
    checkDataDirectory(dataDirectory, surroundings(folder))[0]?.finding ?? '',
    /is made by the first svc serve/,
  );
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

test('a gateway that ended without a goodbye, and a port that is taken', async (t) => {
  const folder = temporaryFolder(t);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  mkdirSync(join(folder, 'run'));
  const says = (url: string) =>
    writeFileSync(join(folder, 'run/daemon.json'), JSON.stringify({ pid: 7, url, startedAt: 0, version: '0' }));

  assert.match((await checkPort(port, folder)).finding, /used by something else/);
  says(`http://127.0.0.1:${port}`);
  assert.match((await checkPort(port, folder)).finding, /is the gateway's/);
  await new Promise((resolve) => server.close(resolve));
  assert.equal((await checkPort(port, folder)).state, 'ok');
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
      ['gateway', 'ok', `1.0.0 answers at ${url}, up 1 s, edge uws`],
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

test('files and folders that others can open are found, and closed where that is asked for', (t) => {
  const folder = temporaryFolder(t);
  const dataDirectory = join(folder, 'data');
  assert.deepEqual(checkPrivacy(dataDirectory, false, surroundings(folder)), []);
  mkdirSync(join(dataDirectory, 'apps/todos'), { recursive: true, mode: 0o700 });
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
