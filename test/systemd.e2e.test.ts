/**
 * The gateway as a service of systemd: its socket is passed to it, and it reports when it is ready, alive and stopping.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { freePort } from '../testing/free-port.ts';
import { root } from '../testing/gateway.ts';
import { activator, datagramsAt, withoutSystemd } from '../testing/service-manager.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-systemd-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const serve = (folder: string, ...more: string[]) => [
  process.execPath,
  join(root, 'bin/svc.js'),
  'serve',
  '--data-dir',
  join(folder, 'data'),
  '--json',
  ...more,
];

async function health(port: number): Promise<{ ok: boolean }> {
  const answer = await inTime(fetch(`http://127.0.0.1:${port}/svc/_health`), 'an answer', LONG_MS);
  return (await answer.json()) as { ok: boolean };
}

test('the pack command of the document prints only the name of a file', (t) => {
  const operations = readFileSync(join(root, 'docs/operations.md'), 'utf8');
  const [, command = ''] = /`npm install -g "\$\((npm pack[^)]*)\)"`/.exec(operations) ?? [];
  // A small package in place of ours, with a script that runs before packing, which npm would print to standard output.
  const folder = folderFor(t);
  const made = { name: 'small', version: '1.0.0', scripts: { prepack: 'node -e 0' } };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(made));
  const { stdout, stderr } = spawnSync('sh', ['-c', command], { cwd: folder, encoding: 'utf8' });
  assert.equal(stdout.trim(), 'small-1.0.0.tgz', stderr);
});

describe('a service of systemd', { skip: withoutSystemd() }, () => {
  test('is started by its first request, which is answered, and reports its state', async (t) => {
    const folder = folderFor(t);
    const port = await freePort();
    const { path, next } = await datagramsAt(t, folder);
    const passed = { NOTIFY_SOCKET: path, WATCHDOG_USEC: '1000000' };
    const settings = Object.entries(passed).flatMap(([name, value]) => ['-E', `${name}=${value}`]);
    const child = spawn(
      'systemd-socket-activate',
      ['-l', `127.0.0.1:${port}`, ...settings, ...serve(folder, '--port', String(port))],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    t.after(() => child.kill('SIGKILL'));
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => (said += chunk));
    child.stdout.resume();
    const listening = async (): Promise<void> => {
      if (said.includes('Listening on')) return;
      await inTime(once(child.stderr, 'data'), 'the socket', LONG_MS);
      return listening();
    };
    await listening();
    assert.equal((await health(port)).ok, true);
    assert.equal(await next(/^READY=1/), `READY=1\nSTATUS=Ready on http://127.0.0.1:${port}`);
    await next(/^WATCHDOG=1$/);
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    assert.match(await next(/^STOPPING=1/), /STATUS=Stopping/);
    assert.deepEqual(await inTime(exit, 'the end', LONG_MS), [0, null]);
  });

  test('is restarted without refusing a connection: those that come meanwhile are served by the next one', async (t) => {
    const folder = folderFor(t);
    const { port, run, ended } = await activator(t, serve(folder, '--port', 'PORT'), {});
    const first = await run();
    t.after(() => spawnSync('kill', ['-9', String(first)]));
    assert.equal((await health(port)).ok, true);
    process.kill(first, 'SIGTERM');
    assert.equal(await ended(), 0);
    // No process serves it now, and the system accepts the connection.
    const socket = connect(port, '127.0.0.1');
    await inTime(once(socket, 'connect'), 'a connection', LONG_MS);
    socket.write('GET /svc/_health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n');
    const second = await run();
    t.after(() => spawnSync('kill', ['-9', String(second)]));
    const [bytes] = (await inTime(once(socket, 'data'), 'the answer', LONG_MS)) as [Buffer];
    assert.match(bytes.toString(), /^HTTP\/1\.1 200 /);
    socket.destroy();
    process.kill(second, 'SIGTERM');
    assert.equal(await ended(), 0);
  });

  test('refuses a socket at another address, and the edge that cannot take one, with a clear message', async (t) => {
    const folder = folderFor(t);
    for (const [more, wanted] of [
      [
        ['--port', '1234'],
        /listens on 127\.0\.0\.1 port \d+, and the configuration says 127\.0\.0\.1 port 1234: make them the same/,
      ],
      [['--port', 'PORT', '--host', '0.0.0.0'], /the configuration says 0\.0\.0\.0 port/],
      [
        ['--port', 'PORT', '--edge', 'uws'],
        /cannot take over the socket of another process: set "edge" to "node"|uWebSockets\.js has no binary/,
      ],
    ] as const) {
      const log = join(folder, 'error');
      const command = [
        'sh',
        '-c',
        'exec "$@" 2> "$0"',
        log,
        ...serve(folder, ...more).filter((one) => one !== '--json'),
      ];
      const { run, ended } = await activator(t, command, {});
      await run();
      assert.equal(await ended(), 1);
      assert.match(readFileSync(log, 'utf8'), wanted);
    }
  });

  test('its units are valid', (t) => {
    const folder = folderFor(t);
    // The program is not installed here where `npm install -g` puts it.
    const service = readFileSync(join(root, 'deploy/svc.service'), 'utf8');
    writeFileSync(join(folder, 'svc.service'), service.replace('/usr/local/bin/svc', process.execPath));
    cpSync(join(root, 'deploy/svc.socket'), join(folder, 'svc.socket'));
    const units = ['svc.service', 'svc.socket'].map((name) => join(folder, name));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', ...units], { encoding: 'utf8' });
    // It also checks units of the machine, which may be missing.
    const faults = stderr.split('\n').filter((line) => /svc\.(?:service|socket)/.test(line));
    assert.deepEqual(faults, [], stderr);
    assert.equal(status, 0, stderr);
    // The gateway's time to stop fits into that of the unit, and its watchdog time is valid.
    const seconds = (key: string) => Number(new RegExp(`^${key}=(\\d+)s$`, 'm').exec(service)?.[1]);
    assert.ok(seconds('TimeoutStopSec') * 1000 > LIMITS.drainMs * 2);
    assert.ok(seconds('WatchdogSec') * 1000 > LIMITS.notifyMs * 2);
  });
});
