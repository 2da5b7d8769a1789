/** How the gateway talks to systemd; messages go to a real datagram socket. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type Logger, pino } from 'pino';
import { datagramsAt, withoutSystemd } from '../../testing/service-manager.ts';
import { standIn } from '../../testing/stand-in.ts';
import { ServiceManager } from './service-manager.ts';

const QUIET = pino({ enabled: false });

describe('ServiceManager', () => {
  test('takes the socket that is meant for this process, and leaves nothing for its children', () => {
    const env = {
      LISTEN_PID: '77',
      LISTEN_FDS: '1',
      LISTEN_FDNAMES: 'svc',
      NOTIFY_SOCKET: '/x',
      WATCHDOG_USEC: '1',
      HOME: '/h',
    };
    assert.equal(new ServiceManager(env, 77, QUIET).socket, 3);
    assert.deepEqual(env, { HOME: '/h' });
  });

  test('has no socket where none was passed, or one to another process', () => {
    for (const env of [
      {},
      { LISTEN_PID: '77', LISTEN_FDS: '0' },
      { LISTEN_PID: '78', LISTEN_FDS: '1' },
      { LISTEN_FDS: '1' },
    ]) {
      assert.equal(new ServiceManager({ ...env }, 77, QUIET).socket, null);
    }
  });

  test('refuses several sockets, with words', () => {
    assert.throws(
      () => new ServiceManager({ LISTEN_PID: '77', LISTEN_FDS: '2' }, 77, QUIET),
      /passed 2 sockets.*one ListenStream/,
    );
  });

  test('sends nothing without a service manager, and reports once that it cannot send', async () => {
    const warnings: string[] = [];
    const warned = new EventEmitter();
    const log = standIn<Logger>({
      warn: (message: unknown) => {
        warnings.push(String(message));
        warned.emit('warning');
      },
    });
    const isWarned = once(warned, 'warning');
    new ServiceManager({ PATH: '/nowhere' }, 1, log).ready('Ready');
    const manager = new ServiceManager({ PATH: '/nowhere', NOTIFY_SOCKET: '/nowhere' }, 1, log);
    manager.ready('Ready');
    manager.stopping('Stopping');
    await isWarned;
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /systemd-notify does not work: .*ENOENT/);
  });

  test('reports that it is ready, lives and stops', { skip: withoutSystemd() }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-notify-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const { path, next } = await datagramsAt(t, folder);
    const env = { PATH: process.env.PATH, NOTIFY_SOCKET: path, WATCHDOG_USEC: '200000' };
    const manager = new ServiceManager(env, process.pid, QUIET);
    // Its timer alone keeps no process, and so no test, alive.
    const alive = setInterval(() => {}, 1000);
    t.after(() => clearInterval(alive));
    manager.ready('Ready on http://127.0.0.1:1');
    await next(/^READY=1\nSTATUS=Ready on http:\/\/127\.0\.0\.1:1$/);
    await next(/^WATCHDOG=1$/);
    await next(/^WATCHDOG=1$/);
    manager.stopping('Stopping');
    await next(/^STOPPING=1\nSTATUS=Stopping$/);
    // It is watched until its end.
    await next(/^WATCHDOG=1$/);
    manager.close();
  });

  test('reports no life while its event loop is blocked', { skip: withoutSystemd() }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-notify-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const { path, next, until } = await datagramsAt(t, folder);
    const env = { PATH: process.env.PATH, NOTIFY_SOCKET: path, WATCHDOG_USEC: '100000' };
    const manager = new ServiceManager(env, process.pid, QUIET);
    const alive = setInterval(() => {}, 1000);
    t.after(() => clearInterval(alive));
    manager.ready('Ready');
    await next(/^WATCHDOG=1$/);
    // Forty times as long as it takes to the next message.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);
    manager.stopping('Stopping');
    manager.close();
    const meanwhile = await until(/^STOPPING=1/);
    // Some were on their way already, each in a process of its own.
    assert.ok(meanwhile.length < 20, `${meanwhile.length} messages`);
  });

  test('a watchdog that is meant for another process is not answered', () => {
    const manager = new ServiceManager(
      { NOTIFY_SOCKET: '/nowhere', PATH: '', WATCHDOG_USEC: '1000', WATCHDOG_PID: '5' },
      6,
      QUIET,
    );
    manager.ready('Ready');
    manager.close();
  });
});
