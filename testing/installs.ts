/**
 * The Debian package and the single file, each in a root of its own that has nothing but what it says it needs, and the
 * service with a real systemd: `npm run test:installs` makes both and runs this as root. It prints the figures of
 * docs/install.md.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, type TestContext, test } from 'node:test';
import { freePort } from './free-port.ts';
import { root as clone } from './gateway.ts';
import { inTime, LONG_MS } from './waiting.ts';

const release = join(clone, 'release');
const made = (pattern: RegExp): string =>
  join(
    release,
    readdirSync(release).find((name) => pattern.test(name)) ?? assert.fail(`${pattern} is not in ${release}`),
  );
const roots = mkdtempSync(join(tmpdir(), 'svc-installs-'));
const mounted: string[] = [];
after(() => {
  // Throws while something is mounted, before files are removed.
  for (const folder of mounted) execFileSync('umount', [folder]);
  rmSync(roots, { recursive: true, force: true });
});

const mebibytes = (path: string): string => {
  const [size = ''] = execFileSync('du', ['-sm', path], { encoding: 'utf8' }).split('\t');
  return `${size} MiB`;
};

/** Copies this machine's libraries of a program. */
function copyLibraries(folder: string, program: string): void {
  const listed = spawnSync('ldd', [program], { encoding: 'utf8' }).stdout;
  for (const [, path = ''] of listed.matchAll(/(\/\S+) \(0x/g)) cpSync(path, join(folder, path), { dereference: true });
}

/** Copies programs of this machine with their libraries. */
function copyPrograms(folder: string, programs: string[]): void {
  for (const program of programs) {
    cpSync(program, join(folder, program), { dereference: true });
    copyLibraries(folder, program);
  }
}

/** A root with these programs, and the library that Node loads by name. */
function newRoot(name: string, programs: string[]): string {
  const folder = join(roots, name);
  for (const path of ['dev', 'etc', 'tmp', 'root', 'var/lib/dpkg/info', 'var/lib/dpkg/updates'])
    mkdirSync(join(folder, path), { recursive: true });
  execFileSync('mknod', ['-m', '666', join(folder, 'dev/null'), 'c', '1', '3']);
  execFileSync('chmod', ['1777', join(folder, 'tmp')]);
  writeFileSync(join(folder, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n');
  writeFileSync(join(folder, 'etc/group'), 'root:x:0:\nuser:x:1000:\n');
  writeFileSync(join(folder, 'etc/shadow'), 'root:*:1::::::\n');
  mkdirSync(join(folder, 'home/user'), { recursive: true });
  execFileSync('chown', ['1000:1000', join(folder, 'home/user')]);
  copyPrograms(folder, programs);
  mkdirSync(join(folder, 'proc'));
  execFileSync('mount', ['-t', 'proc', 'proc', join(folder, 'proc')]);
  mounted.push(join(folder, 'proc'));
  return folder;
}

type Place = { root: string; user: string; home: string };

/** A command in a root, by one of its users. */
function start({ root, user, home }: Place, words: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const options = { env: { PATH: '/usr/bin:/bin', HOME: home, ...env }, stdio: ['ignore', 'pipe', 'pipe'] as const };
  return spawn('/usr/sbin/chroot', [`--userspec=${user}`, root, ...words], { ...options, stdio: [...options.stdio] });
}

async function run(place: Place, words: string[], env?: NodeJS.ProcessEnv) {
  const child = start(place, words, env);
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => (output.stdout += chunk));
  child.stderr?.on('data', (chunk) => (output.stderr += chunk));
  const [code] = (await inTime(once(child, 'close'), words.join(' '), LONG_MS)) as [number | null];
  return { code, ...output };
}

/** Starts a gateway, makes an app with its commands, and calls it. */
async function serves(t: TestContext, place: Place, svc: string[], flags: string[]): Promise<void> {
  const gateway = start(place, [...svc, 'serve', ...flags, '--with', 'todos', '--port', '0', '--json']);
  t.after(() => gateway.kill('SIGKILL'));
  let log = '';
  gateway.stderr?.on('data', (chunk) => (log += chunk));
  const { value = '' } = await inTime(
    createInterface({ input: gateway.stdout! })[Symbol.asyncIterator]().next(),
    log,
    LONG_MS,
  );
  const { dataDir, url, token } = JSON.parse(value || assert.fail(log));
  const command = async (...words: string[]) => {
    const { code, stdout, stderr } = await run(place, [...svc, ...words]);
    assert.equal(code, 0, `${words.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  const here = ['--data-dir', dataDir];
  const folder = join(place.home, 'notes');
  await command('new', folder);
  await command('test', folder);
  await command('push', folder, ...here);
  await command('write', 'notes', 'add', '{"text":"Milk"}', ...here);
  const answer = await fetch(`${url}/svc/_tool/svc_read`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ app: 'notes', query: 'list' }),
  });
  assert.match(await answer.text(), /Milk/);
  const exit = once(gateway, 'exit');
  gateway.kill('SIGTERM');
  assert.deepEqual(await inTime(exit, 'the end', LONG_MS), [0, null], log);
}

const isRoot = process.getuid?.() === 0;
const skip = isRoot ? false : 'only root can enter another root';

describe('the Debian package', { skip, concurrency: 1 }, () => {
  const deb = made(/\.deb$/);
  const programs = [
    '/bin/sh',
    ...['getent', 'install', 'id'].map((name) => `/usr/bin/${name}`),
    '/bin/chown',
    '/bin/chmod',
  ];
  const root = isRoot ? newRoot('deb', [...programs, '/usr/sbin/useradd', '/bin/sync']) : '';
  const dpkg = (...words: string[]) =>
    spawnSync('dpkg', [`--root=${root}`, '--force-not-root', '--log=/dev/null', ...words], { encoding: 'utf8' });

  test('is refused without what it needs, and installs with it', (t) => {
    const status = join(root, 'var/lib/dpkg/status');
    writeFileSync(status, '');
    assert.match(dpkg('--install', deb).stderr, /depends on libc6/);
    const needed = execFileSync('dpkg-query', ['-s', 'libc6', 'libstdc++6', 'libatomic1', 'passwd'], {
      encoding: 'utf8',
    });
    writeFileSync(status, needed.replace(/^(?:Pre-)?Depends:.*\n/gm, ''));
    const began = performance.now();
    const installed = dpkg('--install', deb);
    assert.equal(installed.status, 0, installed.stderr + installed.stdout);
    copyLibraries(root, join(root, 'usr/lib/svc-gateway/node'));
    t.diagnostic(`installed in ${((performance.now() - began) / 1000).toFixed(1)} s; file ${mebibytes(deb)}`);
    t.diagnostic(`on disk ${mebibytes(join(root, 'usr/lib/svc-gateway'))}`);
    assert.match(installed.stdout, /svc open --data-dir \/var\/lib\/svc/);
    assert.match(readFileSync(join(root, 'etc/passwd'), 'utf8'), /^svc:.*:\/var\/lib\/svc:/m);
    assert.equal(statSync(join(root, 'var/lib/svc')).mode & 0o777, 0o700);
    const unit = readFileSync(join(root, 'usr/lib/systemd/system/svc.service'), 'utf8');
    const [, program = ''] = /^ExecStart=(\S+) serve --config \/etc\/svc\/config.json$/m.exec(unit) ?? [];
    assert.ok(existsSync(join(root, program)), unit);
    const [, document = ''] = /^Documentation=file:(\S+)$/m.exec(unit) ?? [];
    assert.ok(existsSync(join(root, document)), unit);
  });

  test('its user serves apps as the unit says', async (t) => {
    await serves(
      t,
      { root, user: 'svc', home: '/var/lib/svc' },
      ['/usr/bin/svc'],
      ['--config', '/etc/svc/config.json'],
    );
  });

  test('its removal leaves the data, and says where', () => {
    const purged = dpkg('--purge', 'svc-gateway');
    assert.equal(purged.status, 0, purged.stderr);
    assert.match(purged.stdout, /data stay in \/var\/lib\/svc/);
    assert.ok(existsSync(join(root, 'var/lib/svc/token.bin')));
    assert.deepEqual([join(root, 'usr/bin/svc'), join(root, 'etc/svc')].filter(existsSync), []);
  });
});

describe('the single file', { skip, concurrency: 1 }, () => {
  const file = made(/^svc-linux-[^.]+$/);
  const root = isRoot ? newRoot('binary', [file]) : '';
  const place: Place = { root, user: 'user:user', home: '/home/user' };
  const svc = [file];
  const cache = join(root, 'home/user/.cache/svc');

  test('unpacks once, also when two start at a time, and then starts at once', async (t) => {
    let began = performance.now();
    const two = await Promise.all([run(place, [...svc, '--version']), run(place, [...svc, '--version'])]);
    const { version } = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'));
    assert.deepEqual(two, Array(2).fill({ code: 0, stdout: `${version}\n`, stderr: '' }));
    t.diagnostic(`first starts in ${((performance.now() - began) / 1000).toFixed(1)} s; file ${mebibytes(file)}`);
    const [unpacked = '', ...more] = readdirSync(cache);
    assert.deepEqual(more, []);
    const { ino } = statSync(join(cache, unpacked, 'node'));
    began = performance.now();
    await run(place, [...svc, '--version']);
    t.diagnostic(`then in ${((performance.now() - began) / 1000).toFixed(2)} s; on disk ${mebibytes(cache)}`);
    assert.equal(statSync(join(cache, unpacked, 'node')).ino, ino);
  });

  test('serves apps, and runs their tests', (t) => serves(t, place, svc, []));

  test('a cache folder that cannot be used is named, with what to do', async () => {
    const { code, stderr } = await run(place, [...svc, '--version'], { XDG_CACHE_HOME: '/dev/null' });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /cannot be unpacked into \/dev\/null\/svc\/.*\n {2}It needs \d+ MB there\. Name another folder/,
    );
  });
});

/** Starts a systemd for root alone, where it sees a machine that systemd has started, and runs the words with it. */
const WITH_SYSTEMD = `
  mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && mkdir -m 700 -p "$XDG_RUNTIME_DIR" || exit 1
  /lib/systemd/systemd --user --log-target=console > "$HOME/systemd.log" 2>&1 &
  manager=$!
  for _ in $(seq 100); do systemctl --user show-environment > "$HOME/tried" 2>&1 && break; sleep 0.1; done
  "$@"
  code=$?
  kill $manager
  wait $manager
  exit $code
`;
/** Ends a service that runs, and waits until systemd has started another process. */
const KILL_ONCE = `
  before=$(systemctl --user show svc-gateway --property=MainPID --value)
  kill -9 "$before"
  for _ in $(seq 200); do
    now=$(systemctl --user show svc-gateway --property=MainPID --value)
    [ "$now" != 0 ] && [ "$now" != "$before" ] && systemctl --user is-active --quiet svc-gateway && exit 0
    sleep 0.1
  done
  exit 1
`;

describe('svc service', { skip, concurrency: 1 }, () => {
  test('a real systemd starts it when it is ready, starts it again after a fault, and removes it', async () => {
    const home = join(roots, 'service');
    mkdirSync(home);
    const port = String(await freePort());
    const script = [
      `svc() { ${process.execPath} ${join(clone, 'bin/svc.js')} "$@"; }`,
      `svc service install --port ${port} --json`,
      'svc service status',
      'svc new notes && svc push notes && svc write notes add \'{"text":"Milk"}\'',
      `sh -c '${KILL_ONCE}'`,
      'svc read notes list',
      'svc service uninstall',
      '! svc service status',
    ].join(' &&\n');
    const child = spawn('unshare', ['--mount', 'sh', '-c', WITH_SYSTEMD, 'sh', 'sh', '-c', script], {
      cwd: home,
      env: { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: '/run/user/0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const output of [child.stdout, child.stderr]) output.on('data', (chunk) => (said += chunk));
    const [code] = (await inTime(once(child, 'close'), said, LONG_MS)) as [number | null];
    assert.equal(code, 0, `${said}\n${readFileSync(join(home, 'systemd.log'), 'utf8')}`);
    assert.match(said, new RegExp(`"url":"http://127\\.0\\.0\\.1:${port}","pid":\\d+`));
    assert.match(said, /active \(running\)[\s\S]*Milk[\s\S]*data stay in \.local\/share\/svc/);
  });
});
