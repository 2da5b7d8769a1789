/** What a gateway costs the process of its host: nothing is left of one that stopped; bad hosts get words. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { buildGateway } from '../supervisor/gateway.ts';
import { root } from '../testing/gateway.ts';
import { LONG_MS } from '../testing/waiting.ts';

const run = promisify(execFile);

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-host-cost-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

type Left = {
  resources: Record<string, number>;
  listeners: number;
  descriptors: number;
  gateways: number;
  heapBytes: number;
};

test('a host that starts and stops it ten times keeps no memory, handles, files or listeners of it', async (t) => {
  const program = ['--expose-gc', 'testing/restarting-host.mjs', join(folderOf(t), 'data'), '10'];
  const { stdout } = await run(process.execPath, program, { cwd: root, timeout: LONG_MS });
  const times = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Left);
  assert.equal(times.length, 10);
  // The first ones load code.
  const [first, ...rest] = times.slice(2) as [Left, ...Left[]];
  const { IntervalHistogram: _, ...resources } = first.resources;
  for (const left of rest) {
    const { IntervalHistogram: histograms = 0, ...others } = left.resources;
    assert.deepEqual(others, resources);
    assert.deepEqual([left.listeners, left.descriptors], [first.listeners, first.descriptors]);
    // The engine may hold a few a while longer, and with each the histogram of its event loop.
    assert.ok(left.gateways <= 4, `${left.gateways} gateways are still in memory`);
    assert.ok(histograms <= left.gateways, `${histograms} histograms still run`);
    const grown = left.heapBytes - first.heapBytes;
    assert.ok(grown < 4 * 1024 * 1024, `the heap grew by ${grown} bytes`);
  }
});

test('a Node that is too old is named before anything is started', async () => {
  // As the oldest one that can read the code: it says its version, and lacks what came later.
  const disguise = `delete process.availableMemory; Object.defineProperty(process.versions, 'node', { value: '18.20.8' });`;
  const program = `import('svc-gateway').then(({ buildGateway }) => buildGateway({ dataDir: 'never-made' }))
    .catch(({ name, message }) => console.log(name + ': ' + message))`;
  const { stdout } = await run(process.execPath, ['-e', `${disguise} ${program}`], { cwd: root });
  assert.match(stdout, /^ConfigError: .*Node 18\.20\.8 is too old\. Install Node 24, or /);
});

test('a host whose own route has the address is told once, and gets no second answer', async (t) => {
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const gateway = buildGateway({ dataDir: folderOf(t), auth: false, logger });
  await gateway.start();
  const server = createServer((req, res) => {
    res.end('of the host');
    assert.equal(gateway.handle(req, res), true);
  });
  t.after(async () => {
    await gateway.stop(0);
    server.close();
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  for (const path of ['/svc/_apps', '/svc/_health']) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    assert.equal(await answer.text(), 'of the host');
  }
  const told = lines.filter((line) => line.includes('has answered /svc/_apps itself'));
  assert.deepEqual([told.length, lines.length], [1, 1], lines.join());
});
