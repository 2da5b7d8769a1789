import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { largestBelow } from './memory.ts';

const MB = 150;

test('the largest of a process and its descendants is found', { skip: process.platform !== 'linux' }, async () => {
  const large = `const kept = Buffer.alloc(${MB} << 20, 1); console.log('made'); process.stdin.on('close', () => kept).resume();`;
  const between = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(large)}], { stdio: 'inherit' })`;
  const child = spawn(process.execPath, ['-e', between], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const found = largestBelow(child.pid ?? 0);
  assert.ok(found > MB && found < 2 * MB, `${found} MiB`);
  child.stdin.end();
  await once(child, 'exit');
  assert.equal(largestBelow(child.pid ?? 0), 0);
});
