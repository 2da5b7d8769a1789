import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { LockFile } from '../git/refs.ts';
import { isRunning } from './process-identity.ts';

/** 0 is this process's own group to the system, the last two are more than a pid can be. */
const NO_PIDS = [0, -1, 1.5, Number.NaN, 2 ** 40, Number('9'.repeat(20))];

test('only a number that can be the pid of one process counts as running', () => {
  assert.ok(isRunning(process.pid));
  assert.ok(isRunning(1), 'that of another user, too');
  assert.ok(!isRunning(spawnSync('true').pid), 'one that has ended does not');
  for (const pid of NO_PIDS) assert.ok(!isRunning(pid), `${pid} is none`);
});

test('a lock of a ref is taken over where its holder cannot be running', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-lock-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const ref = join(folder, 'main');
  for (const pid of ['0', '9'.repeat(20)]) {
    writeFileSync(`${ref}.lock`, `svc ${hostname().replaceAll(/\s/g, '_')} ${pid}\n`);
    // Too new to be taken for its age.
    utimesSync(`${ref}.lock`, new Date(), new Date(Date.now() + LIMITS.dayMs));
    const lock = await LockFile.take(ref, folder);
    await lock.release();
    assert.equal(existsSync(`${ref}.lock`), false);
  }
});
