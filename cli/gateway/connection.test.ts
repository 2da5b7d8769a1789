import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { acquireDataLock } from '../../storage/processes/data-lock.ts';
import { startGateway, svc, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import { CommandError, UnreachableError, UsageError } from '../failure.ts';
import { systemdUnit } from '../service/unit-files.ts';
import { type ConnectionFlags, defaultDataDirectory, resolveConnection } from './connection.ts';

type Machine = { env?: NodeJS.ProcessEnv; profile?: object; local?: string; platform?: string };

/** A machine whose home has a profile, and daemons as `folder → url` below its current folder. */
function machine(t: TestContext, { env = {}, profile, daemons = {} }: Machine & { daemons?: Record<string, string> }) {
  const home = temporaryFolder(t);
  const cwd = join(home, 'work');
  mkdirSync(cwd);
  if (profile !== undefined) write(join(home, '.config/svc/profile.json'), JSON.stringify(profile));
  for (const [folder, url] of Object.entries(daemons)) {
    write(join(cwd, folder, 'run/daemon.json'), JSON.stringify({ pid: 1, url, startedAt: 0, version: '0' }));
    write(join(cwd, folder, 'token.bin'), `token-of-${folder}\n`);
  }
  return { env: { HOME: home, ...env }, cwd, platform: 'linux' as const };
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

const PROFILE = { url: 'http://profile:1', token: 'token-of-profile' };
const DAEMONS = { '.svc': 'http://local:1', other: 'http://other:1' };
const ENV = { SVC_URL: 'http://env:1', SVC_TOKEN: 'token-of-env' };

for (const [title, flags, setup, url, token] of [
  [
    '--url and --token win',
    { url: 'http://flag:1', token: 'f' },
    { env: ENV, profile: PROFILE, daemons: DAEMONS },
    'http://flag:1',
    'f',
  ],
  [
    'a --data-dir beats the environment',
    { dataDir: 'other' },
    { env: { SVC_URL: 'http://env:1' }, profile: PROFILE, daemons: DAEMONS },
    'http://other:1',
    'token-of-other',
  ],
  ['SVC_URL beats the profile', {}, { env: ENV, profile: PROFILE, daemons: DAEMONS }, 'http://env:1', 'token-of-env'],
  [
    'the profile beats the gateway here',
    {},
    { profile: PROFILE, daemons: DAEMONS },
    'http://profile:1',
    'token-of-profile',
  ],
  [
    'a profile may name a token file',
    {},
    { profile: { url: 'http://profile:1', tokenFile: '../../work/other/token.bin' }, daemons: DAEMONS },
    'http://profile:1',
    'token-of-other',
  ],
  ['the gateway of ./.svc is found', {}, { daemons: DAEMONS }, 'http://local:1', 'token-of-.svc'],
  [
    'SVC_DATA_DIR beats ./.svc',
    {},
    { env: { SVC_DATA_DIR: 'other' }, daemons: DAEMONS },
    'http://other:1',
    'token-of-other',
  ],
  [
    'SVC_TOKEN is not sent to the gateway here',
    {},
    { env: { SVC_TOKEN: 'e' }, daemons: DAEMONS },
    'http://local:1',
    'token-of-.svc',
  ],
  [
    'SVC_TOKEN is not sent to the address of a profile',
    {},
    { env: { SVC_TOKEN: 'e' }, profile: { url: 'http://profile:1' }, daemons: DAEMONS },
    'http://profile:1',
    undefined,
  ],
  [
    'SVC_TOKEN is not sent to the gateway of a --data-dir, whatever SVC_URL says',
    { dataDir: 'other' },
    { env: ENV, daemons: DAEMONS },
    'http://other:1',
    'token-of-other',
  ],
  [
    'SVC_TOKEN goes with --url',
    { url: 'http://flag:1' },
    { env: { SVC_TOKEN: 'e' }, profile: PROFILE },
    'http://flag:1',
    'e',
  ],
  [
    '--token goes with any address',
    { token: 'f' },
    { env: ENV, profile: PROFILE, daemons: DAEMONS },
    'http://env:1',
    'f',
  ],
  [
    'a profile without "url" names no gateway',
    {},
    { profile: { token: 'p', label: 'mine' }, daemons: DAEMONS },
    'http://local:1',
    'token-of-.svc',
  ],
  [
    'a token is sent only to its own address',
    { url: 'http://stranger:1' },
    { profile: PROFILE, daemons: DAEMONS },
    'http://stranger:1',
    undefined,
  ],
  [
    'the address in the profile gets the token of the profile',
    { url: 'http://profile:1/' },
    { profile: PROFILE },
    'http://profile:1',
    'token-of-profile',
  ],
  [
    'the address of the gateway here gets its token',
    { url: 'http://local:1' },
    { profile: PROFILE, daemons: DAEMONS },
    'http://local:1',
    'token-of-.svc',
  ],
] as [string, ConnectionFlags, Parameters<typeof machine>[1], string, string | undefined][]) {
  test(title, (t) => {
    const connection = resolveConnection(flags, machine(t, setup));
    assert.deepEqual({ url: connection.url, token: connection.token }, { url, token });
  });
}

test('.svc is found from the folders below it', (t) => {
  const here = machine(t, { daemons: DAEMONS });
  const below = join(here.cwd, 'src/deep');
  mkdirSync(below, { recursive: true });
  assert.equal(resolveConnection({}, { ...here, cwd: below }).url, 'http://local:1');
  mkdirSync(join(below, '.svc'));
  assert.equal(defaultDataDirectory({ ...here, cwd: below }), join(below, '.svc'));
});

test('a gateway inside another program is named, and so is a directory that cannot be read', (t) => {
  const here = machine(t, {});
  const lock = acquireDataLock(join(here.cwd, 'held/lock'));
  t.after(() => lock.release());
  assert.throws(
    () => resolveConnection({ dataDir: 'held' }, here),
    (error) =>
      error instanceof UnreachableError &&
      error.message.startsWith(`The gateway on held is part of another program (pid ${process.pid})`) &&
      /--url/.test(String(error.hint)),
  );
  write(join(here.cwd, 'file'), '');
  assert.throws(
    () => resolveConnection({ dataDir: 'file' }, here),
    (error) =>
      error instanceof UnreachableError &&
      error.message === 'It is unknown whether a gateway runs on file: a folder in its path is a file.',
  );
});

test('without a gateway the error says how to start one', (t) => {
  assert.throws(
    () => resolveConnection({ dataDir: 'none' }, machine(t, {})),
    (error) =>
      error instanceof UnreachableError &&
      /No gateway is running on none/.test(error.message) &&
      /svc serve --data-dir none/.test(String(error.hint)),
  );
});

test('an address or profile that cannot be used is named', (t) => {
  assert.throws(() => resolveConnection({ url: 'localhost:8787' }, machine(t, {})), UsageError);
  const broken = machine(t, {});
  write(join(broken.env.HOME as string, '.config/svc/profile.json'), '{');
  assert.throws(() => resolveConnection({}, broken), CommandError);
  assert.throws(
    () => resolveConnection({}, machine(t, { profile: { url: 5 } })),
    /"url" in the profile .* must be a text/,
  );
});

test('default data directories', (t) => {
  const { cwd, env } = machine(t, {});
  const home = env.HOME as string;
  for (const [platform, extra, expected] of [
    ['linux', {}, join(home, '.local/share/svc')],
    ['linux', { XDG_DATA_HOME: '/data' }, '/data/svc'],
    ['darwin', {}, join(home, 'Library/Application Support/svc')],
    ['linux', { SVC_DATA_DIR: 'here' }, join(cwd, 'here')],
  ] as const) {
    assert.equal(defaultDataDirectory({ cwd, platform, env: { ...env, ...extra } }), expected);
  }
  mkdirSync(join(cwd, '.svc'));
  assert.equal(defaultDataDirectory({ cwd, platform: 'linux', env }), join(cwd, '.svc'));
});

test('the token of the desktop program, which only that can read, is not sent', (t) => {
  const here = machine(t, { daemons: { '.svc': 'http://local:1' } });
  write(join(here.cwd, '.svc/token.bin'), 'safeStorage:AAAA\n');
  const { url, token } = resolveConnection({}, here);
  assert.deepEqual([url, token], ['http://local:1', undefined]);
});

test('a command that finds no gateway names those that run on this machine, and how to reach each', async (t) => {
  const here = machine(t, { daemons: { '.svc': 'http://127.0.0.1:1' } });
  const home = here.env.HOME as string;
  const [applications, service] = await Promise.all(
    ['data/svc', 'as-service'].map(async (folder) => {
      const { url } = await startGateway(t, { 'GET /svc/_health': { json: { ok: true } } });
      write(join(home, folder, 'run/daemon.json'), JSON.stringify({ pid: 1, url, startedAt: 0, version: '0' }));
      write(join(home, folder, 'token.bin'), `${TOKEN}\n`);
      return url;
    }),
  );
  const unit = { command: ['svc', 'serve', '--data-dir', join(home, 'as-service')], path: '', document: '' };
  write(join(home, '.config/systemd/user/svc-gateway.service'), systemdUnit(unit));
  const machineOf = { cwd: here.cwd, env: { ...here.env, XDG_DATA_HOME: join(home, 'data') } };
  const both = [
    `One runs at ${applications}; to use it, add: --data-dir ~/data/svc`,
    `One runs at ${service}; to use it, add: --data-dir ~/as-service`,
  ];
  for (const [words, title, more] of [
    [['apps', '--data-dir', 'none'], 'No gateway is running on none.', 'Start one with: svc serve --data-dir none'],
    [['apps'], 'No gateway answers at http://127.0.0.1:1: nothing listens there.', 'The address comes from'],
    [['token', '--data-dir', 'none'], 'There is no token in none.', 'The first start'],
    // The one that does not answer is not named again.
    [
      ['apps', '--url', 'http://127.0.0.1:1'],
      'No gateway answers at http://127.0.0.1:1: nothing listens there.',
      'The',
    ],
  ] as const) {
    const { stderr } = await svc([...words], machineOf);
    const lines = stderr.split('\n').map((line) => line.trim());
    assert.ok(lines[0]?.endsWith(title), stderr);
    for (const line of both) assert.ok(lines.includes(line), stderr);
    assert.ok(
      lines.find((line) => line.startsWith(more)),
      stderr,
    );
  }
});
