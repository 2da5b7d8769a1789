/** The program of the fault campaigns. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { root } from '../../testing/gateway.ts';
import { inTime, LONG_MS } from '../../testing/waiting.ts';

test('it ends when it has said what it found, whatever load goes on in it', async (t) => {
  const load = '--import=data:text/javascript,setInterval(() => {}, 1000)';
  const program = spawn(process.execPath, ['--import=tsx', load, 'bench/faults/main.ts', 'no-such-campaign'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(() => program.kill('SIGKILL'));
  let said = '';
  program.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  assert.deepEqual(await inTime(once(program, 'close'), 'the end of the program', LONG_MS), [2, null]);
  assert.match(said, /no campaign "no-such-campaign"[\s\S]*--smoke/);
});
