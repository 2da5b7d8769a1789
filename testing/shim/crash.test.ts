import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { whyNoShim } from './compile.ts';
import { CrashPlan, runOn } from './crash.ts';

let folder: string;
let data: string;
let plan: CrashPlan;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-crash-'));
  data = join(folder, 'data');
  mkdirSync(data);
  plan = CrashPlan.in(folder, data);
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * Creates, replaces and removes files; one call fails and one is elsewhere. A child with an empty environment then does
 * the same.
 */
const work = (child: boolean): string => `
  import { spawnSync } from 'node:child_process';
  import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, unlinkSync, writeFileSync, writeSync } from 'node:fs';
  const temporary = '${data}/.a.json.3f2504e0-4f89-11d3-9a0c-0305e82c3301.tmp';
  mkdirSync('${data}/0c');
  const fd = openSync(temporary, 'wx');
  writeSync(fd, 'one');
  writeSync(fd, 'two');
  fsyncSync(fd);
  closeSync(fd);
  renameSync(temporary, '${data}/a.json');
  writeFileSync('${folder}/elsewhere', '');
  try { mkdirSync('${data}/0c'); } catch {}
  unlinkSync('${data}/a.json');
  ${child ? `spawnSync(process.execPath, ['-e', 'fs.rmdirSync("${data}/0c"); setTimeout(() => {}, 10000)'], { env: {} });` : ''}`;

const POINTS = [
  'mkdir *',
  'create .a.json.*.tmp',
  'write .a.json.*.tmp',
  'sync .a.json.*.tmp',
  'rename a.json',
  'unlink a.json',
];

describe('crashes at calls that change files', { skip: whyNoShim() ?? false }, () => {
  test('without a crash, the calls are recorded, by names that stay the same', () => {
    assert.equal(runOn(plan, work(false)), 0);
    assert.deepEqual(
      plan.passed().map(({ point }) => point),
      POINTS,
    );
  });

  test('the process ends right after the call, once, and the next crash is planned', () => {
    plan.set([
      { point: 'write .a.json.*.tmp', passing: 1, mode: 'process' },
      { point: 'rename a.json', passing: 2, mode: 'process' },
    ]);
    assert.equal(runOn(plan, work(false)), null);
    assert.equal(plan.pending(), 1);
    for (const name of readdirSync(data)) rmSync(join(data, name), { recursive: true });
    assert.equal(runOn(plan, work(false)), 0, 'the second passing is still to come');
    rmSync(join(data, '0c'), { recursive: true });
    assert.equal(runOn(plan, work(false)), null);
    assert.deepEqual(readdirSync(data).sort(), ['0c', 'a.json']);
    assert.equal(plan.pending(), 0);
  });

  test('a child without an environment ends alone, or with its whole tree', () => {
    plan.set([{ point: 'rmdir *', passing: 1, mode: 'process' }]);
    assert.equal(runOn(plan, work(true)), 0);
    assert.equal(plan.pending(), 0);
    plan.set([{ point: 'rmdir *', passing: 1, mode: 'tree' }]);
    assert.equal(runOn(plan, work(true)), null);
  });
});
