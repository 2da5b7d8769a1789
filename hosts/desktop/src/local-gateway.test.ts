import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { root } from '../../../testing/gateway.ts';
import { inTime } from '../../../testing/waiting.ts';
import { TestShell } from '../testing/shell.ts';
import { Gateways } from './gateways.ts';
import { LocalGateway } from './local-gateway.ts';
import { Tokens } from './tokens.ts';

/** Says that it is ready, answers one request, and ends. */
const ENDING = `import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
const { dataDir } = JSON.parse(await text(process.stdin));
const server = createServer((request, response) => response.end('{}', () => setTimeout(() => process.exit(1), 50)));
server.listen(0, '127.0.0.1', () => {
  const url = 'http://127.0.0.1:' + server.address().port;
  mkdirSync(dataDir + '/run', { recursive: true });
  writeFileSync(dataDir + '/run/daemon.json', JSON.stringify({ url, pid: process.pid, version: '0.1.0' }));
  console.log(JSON.stringify({ event: 'ready', url, pid: process.pid }));
});
`;

test('a gateway that keeps ending is not started for ever', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-local-gateway-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const shell = new TestShell(folder);
  rmSync(shell.gatewayScript);
  writeFileSync(shell.gatewayScript, ENDING);
  const crashed: number[] = [];
  const failed = new Promise<Error>((resolve) => {
    const events = { crashed: (pid: number) => crashed.push(pid), restarted: () => {}, failed: resolve };
    const tokens = new Tokens(shell.safeStorage, 'linux');
    const local = new LocalGateway(shell, new Gateways(shell.userData), tokens, events, 10);
    local.connect().catch(resolve);
  });
  assert.equal((await inTime(failed, 'the end of the restarts')).message, 'The gateway keeps ending.');
  assert.equal(new Set(crashed).size, LIMITS.restartIntensity + 1);
});

test('the program has the version of the gateway, which it would replace otherwise', () => {
  const versionIn = (folder: string) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')).version;
  assert.equal(versionIn('hosts/desktop'), versionIn('.'));
});
