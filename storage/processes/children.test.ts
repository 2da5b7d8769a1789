import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { AGENT_LEADER, Children, GROUP_LEADER, reapChildren } from './children.ts';
import { compareIdentity, identityOf } from './process-identity.ts';
import { killAll, tagOf } from './tagged.ts';

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

/** Prints the pids of what it starts: with its tag in a session of its own, the same without a parent, and one without its tag. */
const AGENT = `
  setsid sh -c 'echo $$; exec sleep 1000 >/dev/null' &
  (setsid sh -c 'sh -c "echo \\$\\$; exec sleep 1000 >/dev/null" &' &)
  env -i setsid sh -c 'echo $$; exec sleep 1000 >/dev/null' &
  bash -c 'set -m; env -i sleep 1000 >/dev/null & echo $!'
  cat`;

async function startAgent(tag: string) {
  const env = { PATH: process.env.PATH, SVC_AGENT: tag };
  const agent = spawn('/bin/sh', ['-c', AGENT], { env, stdio: ['pipe', 'pipe', 'ignore'], detached: true });
  const pids: number[] = [];
  for await (const line of createInterface({ input: agent.stdout })) if (pids.push(Number(line)) === 4) break;
  return { agent, left: [agent.pid as number, ...pids].map(identityOf) };
}

test(
  'what the agents of a dead gateway had started is ended, by tag, descent and session, and nothing else',
  onLinux,
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-children-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const tag = tagOf(folder);
    const path = join(folder, 'children.json');
    const { agent, left } = await startAgent(`${tag}.1.1`);
    const others = await startAgent(`${tag}0.1.1`);
    t.after(() => killAll(others.left));
    assert.deepEqual(await reapChildren(path, tag), []);
    assert.ok([...left, ...others.left].every((process) => compareIdentity(process) === 'same'));
    new Children(path, 'boot').add(agent.pid as number, AGENT_LEADER);
    const reaped = await reapChildren(path, tag);
    assert.deepEqual(
      reaped.map(({ role }) => role),
      [AGENT_LEADER],
    );
    while (left.some((process) => compareIdentity(process) === 'same')) await new Promise(setImmediate);
    assert.ok(others.left.every((process) => compareIdentity(process) === 'same'));
  },
);

test('a process that carries the tag itself does not end itself, nor those that started it', onLinux, async (t) => {
  const tag = `self-${process.pid}`;
  const script = `
    import { sweepTagged } from ${JSON.stringify(new URL('./tagged.ts', import.meta.url).href)};
    console.log(JSON.stringify(await sweepTagged(${JSON.stringify(tag)})));`;
  const inner = `exec "$NODE" --import tsx --input-type=module -e "$SCRIPT"`;
  const env = { ...process.env, SVC_AGENT: `${tag}.1`, NODE: process.execPath, SCRIPT: script };
  const outer = spawn('/bin/sh', ['-c', `sh -c '${inner}'; echo outer`], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => outer.kill('SIGKILL'));
  const lines: string[] = [];
  for await (const line of createInterface({ input: outer.stdout })) lines.push(line);
  assert.deepEqual(lines, ['[]', 'outer']);
});
