/** Runs rounds of the campaign as tests, for faults that are put into the gateway: `npm run mutate -- --only cluster`. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { root } from '../../../testing/gateway.ts';

const ROUNDS = 6;
const SEED = 1;

for (const struck of [
  'node without the database',
  'clock set back without the database',
  'writer goes on after the lease of its node',
])
  test(`${struck}: nothing that was acknowledged is lost, and no read goes back`, async () => {
    const words = ['cluster', '--only', struck, '--rounds', String(ROUNDS), '--seed', String(SEED)];
    const program = spawn(process.execPath, ['--import=tsx', 'bench/faults/main.ts', ...words], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const said = text(program.stdout);
    const [code] = await once(program, 'exit');
    assert.equal(code, 0, await said);
  });
