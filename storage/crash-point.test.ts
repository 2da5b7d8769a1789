import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'crash-point-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Passes `a`, `b`, `a` in a process of its own and then says what its children would be given. */
function run(env: Record<string, string>) {
  const code = `
    import { crashEnvironment, crashPoint } from '${new URL('./crash-point.ts', import.meta.url).href}';
    for (const point of ['a', 'b', 'a']) crashPoint(point, point === 'b' ? 'what' : undefined);
    console.log(JSON.stringify(crashEnvironment()));`;
  const { PATH = '' } = process.env;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', code];
  return spawnSync(process.execPath, args, { env: { PATH, ...env }, encoding: 'utf8' });
}

test('without the variable a point does nothing, and children are given nothing', () => {
  const { status, stdout } = run({});
  assert.equal(status, 0);
  assert.deepEqual(JSON.parse(stdout), {});
});

test('an empty plan ends nothing; what is passed is recorded', () => {
  const plan = join(directory, 'plan');
  writeFileSync(plan, '');
  const { status, stdout } = run({ SVC_CRASH_PLAN: plan });
  assert.equal(status, 0);
  assert.equal(JSON.parse(stdout).SVC_CRASH_PLAN, plan);
  const points = readFileSync(`${plan}.passed`, 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[0]);
  assert.deepEqual(points, ['a', 'b:what', 'a', '']);
});

test('the process ends at the planned passing, once, and the next crash is planned', () => {
  const plan = join(directory, 'plan');
  writeFileSync(plan, 'a 2 process\nb:what 1 process\n');
  assert.equal(run({ SVC_CRASH_PLAN: plan }).signal, 'SIGKILL');
  assert.equal(readFileSync(plan, 'utf8'), 'b:what 1 process\n');
  assert.equal(run({ SVC_CRASH_PLAN: plan }).signal, 'SIGKILL');
  assert.equal(run({ SVC_CRASH_PLAN: plan }).status, 0);
  assert.ok(existsSync(plan), 'the plan stays, empty');
});
