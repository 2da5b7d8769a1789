import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { Children, reapChildren } from './children.ts';
import { acquireDataLock, DataLockedError } from './data-lock.ts';
import { compareIdentity, identityOf } from './process-identity.ts';

const root = mkdtempSync(join(tmpdir(), 'lock-'));
after(() => rmSync(root, { recursive: true, force: true }));

/** A process that runs until it is killed, at the latest when the test ends. */
async function running(t: TestContext): Promise<{ pid: number; exit: Promise<unknown[]>; kill(): void }> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000); console.log("up")'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => child.kill('SIGKILL'));
  const exit = once(child, 'exit');
  await once(child.stdout, 'data');
  return { pid: child.pid as number, exit, kill: () => child.kill('SIGKILL') };
}

test('a second gateway is refused by name while the first one lives', async () => {
  const path = join(root, 'held/lock');
  const lock = acquireDataLock(path);
  assert.throws(
    () => acquireDataLock(path),
    (error) => error instanceof DataLockedError && error.message.includes(`pid ${process.pid}`),
  );
  lock.release();
  acquireDataLock(path).release();
  assert.deepEqual(readdirSync(join(root, 'held')), []);
});

test('the lock of another living process holds, and is taken over once that has died', async (t) => {
  const path = join(root, 'lock');
  const other = await running(t);
  writeFileSync(path, JSON.stringify(identityOf(other.pid)));
  assert.throws(() => acquireDataLock(path), { pid: other.pid });
  other.kill();
  await other.exit;
  const lock = acquireDataLock(path);
  assert.throws(() => acquireDataLock(path), { pid: process.pid });
  lock.release();
});

const UNKNOWN_START: [name: string, content: (pid: number) => string][] = [
  ['in its file', (pid) => JSON.stringify({ pid, startedAs: null })],
  ['in a lock of a full disk', (pid) => `${pid} `],
];

for (const [name, content] of UNKNOWN_START) {
  test(`a lock whose holder's start is unknown holds while that pid runs, ${name}`, async (t) => {
    const path = join(root, 'unknown');
    const other = await running(t);
    writeFileSync(path, content(other.pid));
    assert.throws(() => acquireDataLock(path), { code: 'DATA_LOCKED', pid: other.pid });
    other.kill();
    await other.exit;
    acquireDataLock(path).release();
  });
}

const STALE: [name: string, content: string][] = [
  ['a process that started at another time under this pid', JSON.stringify({ pid: process.pid, startedAs: 'boot/1' })],
  ['half a file', '{"pid":'],
  ['an empty file', ''],
];

for (const [name, content] of STALE) {
  test(`a stale lock is taken over: ${name}`, { skip: process.platform !== 'linux' }, () => {
    const path = join(root, 'stale');
    writeFileSync(path, content);
    acquireDataLock(path).release();
    assert.equal(existsSync(path), false);
  });
}

test('releasing does not remove another process’s lock', () => {
  const path = join(root, 'lost');
  const lock = acquireDataLock(path);
  writeFileSync(path, JSON.stringify({ pid: 1, startedAs: null }));
  lock.release();
  assert.equal(existsSync(path), true);
});

test('children of a dead gateway are ended, others with their pid are not', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const path = join(root, 'run/children.json');
  const [left, stopped, ended, unrelated] = await Promise.all([running(t), running(t), running(t), running(t)]);
  const children = new Children(path, 'boot-1');
  children.add(left.pid, 'host');
  children.add(stopped.pid, 'writer');
  children.add(ended.pid, 'host');
  children.remove(ended.pid);
  process.kill(stopped.pid, 'SIGSTOP');

  const reaped = await reapChildren(path, 'none');
  assert.deepEqual(
    reaped.map(({ pid, role, instance }) => [pid, role, instance]),
    [
      [left.pid, 'host', 'boot-1'],
      [stopped.pid, 'writer', 'boot-1'],
    ],
  );
  assert.deepEqual(await Promise.all([left.exit, stopped.exit]), [
    [null, 'SIGKILL'],
    [null, 'SIGKILL'],
  ]);

  writeFileSync(path, JSON.stringify([{ pid: unrelated.pid, startedAs: 'boot/1', role: 'host', instance: 'x' }]));
  assert.deepEqual(await reapChildren(path, 'none'), []);
  assert.equal(compareIdentity(identityOf(unrelated.pid)), 'same');
  for (const child of [ended, unrelated]) child.kill();
});

test('a missing or damaged record of children names no process', async () => {
  assert.deepEqual(await reapChildren(join(root, 'none.json'), 'none'), []);
  writeFileSync(join(root, 'half.json'), '[{"pid":');
  assert.deepEqual(await reapChildren(join(root, 'half.json'), 'none'), []);
});
