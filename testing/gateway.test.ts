/** Processes that a test started end with it, however the test ends. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { eventually } from './edges.ts';
import { root } from './gateway.ts';
import { isRunning } from './processes.ts';
import { inTime, LONG_MS } from './waiting.ts';

const STARTS_ONE = `
  const { makeGateway } = await import('./testing/gateway.ts');
  const { gateway } = makeGateway();
  await gateway.start();
  console.log(gateway.pid);`;

test('a daemon ends, and removes its sockets, when the test that started it is killed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-killed-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', STARTS_ONE], {
    cwd: root,
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => parent.kill('SIGKILL'));
  const [line] = await inTime(
    once(createInterface({ input: parent.stdout }), 'line'),
    'the pid of the daemon',
    LONG_MS,
  );
  const daemon = Number(line);
  assert.ok(isRunning(daemon), 'it runs');
  const sockets = () =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /svc-[0-9a-f]{12}$/.test(name));
  assert.notDeepEqual(sockets(), []);
  parent.kill('SIGKILL');
  await eventually(() => !isRunning(daemon));
  assert.deepEqual(sockets(), []);
});
