import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hostFlags, jobsFlags } from './host-flags.ts';

test('a Node gets the flags that it knows, in the name that it knows them by', () => {
  const node20 = new Set([
    '--experimental-permission',
    '--allow-worker',
    '--allow-addons',
    '--experimental-vm-modules',
    '--zero-fill-buffers',
    '--no-warnings',
  ]);
  assert.deepEqual(hostFlags(['/a', '/b c'], node20), [
    '--experimental-permission',
    '--allow-worker',
    '--allow-addons',
    '--experimental-vm-modules',
    '--zero-fill-buffers',
    '--no-warnings',
    '--allow-fs-read=/a',
    '--allow-fs-read=/b c',
  ]);
  const node25 = new Set(['--permission', '--experimental-permission', '--allow-net']);
  assert.deepEqual(hostFlags([], node25), ['--permission', '--allow-net']);
  assert.deepEqual(jobsFlags({ readable: ['/a'], writable: ['/b'] }, node20), [
    '--experimental-permission',
    '--allow-worker',
    '--allow-addons',
    '--no-warnings',
    '--allow-fs-read=/a',
    '--allow-fs-read=/b',
    '--allow-fs-write=/b',
  ]);
});

test('under these flags a process reads only the given paths, and cannot write or start processes', (t) => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'svc-flags-')));
  t.after(() => rmSync(dir, { recursive: true }));
  const given = join(dir, 'given');
  mkdirSync(given);
  writeFileSync(join(dir, 'secret'), 'secret');
  writeFileSync(
    join(given, 'main.mjs'),
    `import { readFileSync, writeFileSync } from 'node:fs';
    import { execSync } from 'node:child_process';
    import { createServer, connect } from 'node:net';
    import { SourceTextModule } from 'node:vm';
    import { Worker } from 'node:worker_threads';
    const attempt = async (work) => { try { await work(); return 'done'; } catch (error) { return error.code ?? error.name; } };
    const happens = (emitter, event) => new Promise((resolve, reject) => emitter.once(event, resolve).once('error', reject));
    const server = createServer();
    console.log(JSON.stringify({
      own: await attempt(() => readFileSync(new URL(import.meta.url))),
      other: await attempt(() => readFileSync(${JSON.stringify(join(dir, 'secret'))})),
      write: await attempt(() => writeFileSync(${JSON.stringify(join(given, 'new'))}, '')),
      process: await attempt(() => execSync('echo')),
      module: await attempt(() => new SourceTextModule('export default 1')),
      socket: await attempt(async () => {
        await happens(server.listen(0, '127.0.0.1'), 'listening');
        await happens(connect(server.address().port, '127.0.0.1'), 'connect');
      }),
      thread: await attempt(() => happens(new Worker(new URL('./thread.mjs', import.meta.url)), 'exit')),
    }));
    process.exit();`,
  );
  writeFileSync(join(given, 'thread.mjs'), '');
  const flags = hostFlags([given]);
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, join(given, 'main.mjs')], {
    env: {},
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  assert.deepEqual(JSON.parse(stdout), {
    own: 'done',
    other: 'ERR_ACCESS_DENIED',
    write: 'ERR_ACCESS_DENIED',
    process: 'ERR_ACCESS_DENIED',
    module: 'done',
    socket: 'done',
    thread: 'done',
  });
});
