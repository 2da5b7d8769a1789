/**
 * `svc completion` in the shells that people use: how Tab completes a line, with names from a real gateway and without
 * one.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gatewayOfSuite } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const SHELLS = {
  bash: { args: ['--norc', '--noprofile', '-i'], load: 'eval "$(svc completion bash)"' },
  zsh: { args: ['-f', '-i'], load: 'eval "$(svc completion zsh)"' },
  fish: { args: ['--no-config', '-i'], load: 'svc completion fish | source' },
} as const;
const READY = 'READY_FOR_A_LINE';

const gateway = gatewayOfSuite({ apps: ['todos'] });
const folder = mkdtempSync(join(tmpdir(), 'svc-completion-'));
after(() => rmSync(folder, { recursive: true, force: true }));

before(() => {
  mkdirSync(join(folder, 'bin'));
  mkdirSync(join(folder, 'work/templates-of-mine'), { recursive: true });
  // The completed line is run, which prints it.
  const script = `#!/bin/sh
if [ -n "$SVC_COMPLETE" ] || [ "$1" = completion ]; then exec ${process.execPath} ${join(root, 'bin/svc.js')} "$@"; fi
printf 'RAN<%s>\\n' "$*"
`;
  writeFileSync(join(folder, 'bin/svc'), script, { mode: 0o755 });
});

/** Types each line with its tabs into the shell on a terminal; resolves with the lines that ran. */
async function ran(shell: keyof typeof SHELLS, lines: string[], env: Record<string, string>): Promise<string[]> {
  const { args, load } = SHELLS[shell];
  const child = spawn('script', ['-qefc', `${shell} ${args.join(' ')}`, '/dev/null'], {
    cwd: join(folder, 'work'),
    env: { HOME: folder, TERM: 'xterm', LANG: 'C.UTF-8', PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let shown = '';
  const said = async (text: string, times: number): Promise<void> => {
    while (shown.split(text).length <= times) {
      const [chunk] = (await inTime(once(child.stdout, 'data'), `${text} in ${shown}`, LONG_MS)) as [Buffer];
      shown += chunk;
    }
  };
  child.stdin.write(`${load}; echo ${READY.replace('_', '""_')}\r`);
  await said(READY, 1);
  for (const [i, line] of lines.entries()) {
    child.stdin.write(`${line}\r`);
    await said('RAN<', i + 1);
    await said('>', i + 1);
  }
  const closed = once(child, 'close');
  child.stdin.end('exit\r');
  await inTime(closed, `the end of ${shell}`, LONG_MS);
  return [...shown.matchAll(/RAN<([^>]*)>/g)].map(([, line = '']) => line.trim().replace(/\/$/, ''));
}

for (const shell of Object.keys(SHELLS) as (keyof typeof SHELLS)[]) {
  const isMissing =
    spawnSync(shell, ['--version']).error !== undefined || spawnSync('script', ['--version']).error !== undefined;
  describe(shell, { skip: isMissing ? `${shell} or script is not installed` : false }, () => {
    test('a Tab completes commands, options, files, and names of the gateway', async () => {
      const env = { SVC_URL: gateway.url, SVC_TOKEN: gateway.token };
      const stored = await gateway.call('PUT', '/svc/todos/_blobs', { body: Buffer.from('water the plants') });
      const lines = [
        'svc pub\t',
        'svc push --no\t',
        'svc push templates-o\t',
        'svc read tod\t sta\t',
        'svc run todos/dig\t',
        `svc files get todos ${stored.json.sha256.slice(0, 3)}\t`,
        'svc files put todos templates-o\t',
      ];
      assert.deepEqual(await ran(shell, lines, env), [
        'publish',
        'push --no-activate',
        'push templates-of-mine',
        'read todos stats',
        'run todos/digest',
        `files get todos ${stored.json.sha256}`,
        'files put todos templates-of-mine',
      ]);
    });

    test('without a gateway it is silent, and completes words that need none', async () => {
      const lines = ['svc read tod\t', 'svc serve --edge uw\t', 'svc workspaces up\t'];
      assert.deepEqual(await ran(shell, lines, {}), ['read tod', 'serve --edge uws', 'workspaces update']);
    });
  });
}
