import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Children, GROUP_LEADER, reapChildren } from './children.ts';
import { compareIdentity, identityOf } from './process-identity.ts';

/** Starts a process that lives on, and prints its pid. */
const LEADER = `
  const { spawn } = require('node:child_process');
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  console.log(child.pid);
  setInterval(() => {}, 1000);`;

async function startGroup() {
  const leader = spawn(process.execPath, ['-e', LEADER], { stdio: ['ignore', 'pipe', 'ignore'], detached: true });
  const [line] = (await once(createInterface({ input: leader.stdout }), 'line')) as [string];
  return { leader, member: identityOf(Number(line)) };
}

const onLinux = { skip: process.platform !== 'linux' };

test(
  'what a group leader of a dead gateway had started is ended too, even when the leader is gone',
  onLinux,
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-children-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, 'children.json');
    const { leader, member } = await startGroup();
    new Children(path, 'boot').add(leader.pid as number, GROUP_LEADER);
    leader.kill('SIGKILL');
    await once(leader, 'exit');
    assert.equal(compareIdentity(member), 'same');
    await reapChildren(path, 'none');
    while (compareIdentity(member) === 'same') await new Promise(setImmediate);
  },
);

test('a group whose number another program has by now is left alone', onLinux, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-children-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'children.json');
  const { leader, member } = await startGroup();
  t.after(() => process.kill(-(leader.pid as number), 'SIGKILL'));
  const record = { pid: leader.pid, startedAs: 'another boot/1', role: GROUP_LEADER, instance: 'boot' };
  writeFileSync(path, JSON.stringify([record]));
  assert.deepEqual(await reapChildren(path, 'none'), []);
  assert.equal(compareIdentity(member), 'same');
  assert.equal(leader.exitCode ?? leader.signalCode, null);
});
