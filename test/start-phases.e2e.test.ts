// The phases of a start: one that fails, in any of them, leaves nothing of the gateway in its process and on the machine.
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { Layout } from '../storage/layout.ts';
import { resolveConfig } from '../supervisor/config.ts';
import { serve } from '../supervisor/serve.ts';
import { type Assembly, assemble } from '../supervisor/wiring.ts';
import { eventually } from '../testing/edges.ts';

/** What keeps something going, or listens, by Node's names. */
const LASTING = /^(Timeout|FSEVENTWRAP|STATWATCHER|PROCESSWRAP|PIPEWRAP|PIPESERVERWRAP|TCPWRAP|TCPSERVERWRAP|WORKER)$/;

/** What was made since and is still there, with where it was made. */
function watchResources(t: TestContext): { left(): string[] } {
  const made = new Map<number, string>();
  const hook = createHook({
    init(id, type) {
      if (!LASTING.test(type)) return;
      // Those of the test itself do not count.
      const stack = new Error().stack ?? '';
      if (/\/(supervisor|storage|protocol)\//.test(stack))
        made.set(id, `${type} ${stack.split('\n').slice(2).join('\n')}`);
    },
    destroy: (id) => void made.delete(id),
  }).enable();
  t.after(() => hook.disable());
  return { left: () => [...made.values()] };
}

/** Null where there is no such file. */
const stored = (file: string) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null);

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

function start(dataDir: string, onPhase: (name: string) => void): Promise<Assembly> {
  const config = resolveConfig(dataDir, { handlerHosts: 1, appsStoreRoot: 'code-store' });
  return assemble(config, pino({ level: 'silent' }), {
    auth: true,
    authorize: undefined,
    trustHost: false,
    kind: 'daemon',
    extensions: {},
    listening: () => null,
    onFatal: (reason) => assert.fail(reason),
    onPhase,
  });
}

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-phases-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function nothingIsLeft(dataDir: string, left: () => string[], phase: string): Promise<void> {
  const layout = new Layout(dataDir);
  await eventually(() => left().length === 0).catch(() => assert.fail(`${phase}: ${left().join('\n\n')}`));
  assert.equal(existsSync(layout.lock), false, `${phase}: the lock is there`);
  for (const { pid, role } of stored(layout.children) ?? [])
    assert.equal(isAlive(pid), false, `${phase}: the ${role} runs`);
  assert.equal(existsSync(stored(layout.sockets)?.folder ?? ''), false, `${phase}: a socket is there`);
}

test('a start that fails in any phase leaves no process, lock, timer, watcher or socket; nor does a stop', async (t) => {
  const dataDir = join(newFolder(t), 'data');
  const phases: string[] = [];

  const running = watchResources(t);
  const whole = await start(dataDir, (name) => phases.push(name));
  assert.ok(running.left().length > 0, 'the resources of a gateway are not seen');
  await whole.end(0);
  await nothingIsLeft(dataDir, running.left, 'stop');
  assert.ok(phases.length > 8, phases.join());

  for (const phase of phases) {
    const { left } = watchResources(t);
    const failing = start(dataDir, (name) => {
      if (name === phase) throw new Error(`It fails in ${name}.`);
    });
    await assert.rejects(failing, { message: `It fails in ${phase}.` });
    await nothingIsLeft(dataDir, left, phase);
  }
  const again = await start(dataDir, () => {});
  await again.end(0);
});

test('a daemon whose port is taken leaves nothing either', async (t) => {
  const dataDir = join(newFolder(t), 'data');
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const { left } = watchResources(t);
  const options = { dataDir, port, signals: false, handlerHosts: 1, edge: 'node' as const, log: 'silent' as const };
  await assert.rejects(serve(options), { code: 'EADDRINUSE' });
  await nothingIsLeft(dataDir, left, 'edge');
  assert.equal(existsSync(join(dataDir, 'run/daemon.json')), false);
});
