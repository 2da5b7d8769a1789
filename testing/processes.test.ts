import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { cpuMs, memoryOf, memoryOfAll } from './processes.ts';

const skip = process.platform === 'linux' ? false : 'needs /proc';

test('CPU time and memory are what Node says of itself', { skip }, () => {
  const own = process.cpuUsage();
  const seen = cpuMs(process.pid);
  assert.ok(Math.abs(seen - (own.user + own.system) / 1000) < 100, `${seen} ms`);
  const { rss, pss } = memoryOf(process.pid);
  assert.ok(Math.abs(rss - process.memoryUsage.rss()) < 16 * 1024 * 1024, `${rss} bytes`);
  assert.ok(pss > 0 && pss <= rss);
});

test('memory adds up over processes', { skip }, () => {
  const self = { name: 'self', pid: process.pid };
  const { pss } = memoryOf(process.pid);
  const twice = memoryOfAll([self, self]).pss;
  assert.ok(twice > 1.5 * pss && twice < 2.5 * pss, `${twice} of ${pss}`);
});

test('of a process that is gone there is nothing', { skip }, () => {
  const { pid } = spawnSync(process.execPath, ['-e', '0']);
  assert.equal(cpuMs(pid), 0);
  assert.deepEqual(memoryOf(pid), { rss: 0, pss: 0 });
});
