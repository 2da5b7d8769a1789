/** The gateway keeps running, and ends when told to, whatever happens to its standard output and standard error. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachStore } from '../testing/edges.ts';
import { fill } from '../testing/full-disk.ts';
import { ENDS_WITH_PARENT, root, TestGateway } from '../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../testing/mount.ts';

const END_MS = 20_000;
const NO_DISK = whyNoSmallDisk() ?? false;

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A full pipe without a reader. */
function fullPipe(t: TestContext, folder: string): number {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const held = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  try {
    for (;;) writeSync(held, Buffer.alloc(512));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
  }
  const end = openSync(path, constants.O_WRONLY);
  t.after(() => {
    closeSync(end);
    closeSync(held);
  });
  return end;
}

function device(t: TestContext, path: string): number {
  const fd = openSync(path, 'a');
  t.after(() => closeSync(fd));
  return fd;
}

/** Starts `svc serve` with these as standard output and error; resolves once it answers. */
async function serve(t: TestContext, folder: string, stdout: number, stderr: number): Promise<Served> {
  const config = join(folder, 'config.json');
  const dataDir = join(folder, 'data');
  writeFileSync(config, JSON.stringify({ log: 'debug' }));
  const args = ['serve', '--data-dir', dataDir, '--port', '0', '--config', config, '--store', 'tarball', '--json'];
  const child = spawn(process.execPath, [ENDS_WITH_PARENT, join(root, 'bin/svc.js'), ...args], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['pipe', stdout, stderr],
  });
  t.after(() => child.kill('SIGKILL'));
  const daemon = join(dataDir, 'run/daemon.json');
  await eventually(() => child.exitCode !== null || existsSync(daemon));
  assert.equal(child.exitCode, null, 'it ended');
  const { url } = JSON.parse(readFileSync(daemon, 'utf8')) as { url: string };
  return { child, url, token: readFileSync(join(dataDir, 'token.bin'), 'utf8').trim() };
}

type Served = { child: ChildProcess; url: string; token: string };

async function endsWell({ child, url, token }: Served): Promise<void> {
  const response = await fetch(`${url}/svc/_system`, { headers: { authorization: `Bearer ${token}` } });
  const { counters } = (await response.json()) as { counters: Record<string, number> };
  assert.equal(counters.droppedGatewayLogLines, 0);
  child.kill('SIGTERM');
  const [code, signal] = (await once(child, 'exit', { signal: AbortSignal.timeout(END_MS) })) as [number, string];
  assert.deepEqual([code, signal], [0, null]);
}

/** Each output in every state that takes nothing, beside one that takes everything and beside another one. */
const OUTPUTS: [name: string, stdout: typeof fullPipe, stderr: typeof fullPipe | null][] = [
  ['standard error is full', (t) => device(t, '/dev/null'), (t) => device(t, '/dev/full')],
  ['standard output is full', (t) => device(t, '/dev/full'), (t) => device(t, '/dev/null')],
  ['standard output is full, and standard error has no reader', (t) => device(t, '/dev/full'), fullPipe],
  ['standard output has no reader, and standard error is full', fullPipe, (t) => device(t, '/dev/full')],
  ['both are one pipe without a reader', fullPipe, null],
];
for (const [name, stdout, stderr] of OUTPUTS) {
  test(`it serves and ends when ${name}`, { skip: process.platform !== 'linux' }, async (t) => {
    const folder = temporary(t);
    const out = stdout(t, folder);
    await endsWell(await serve(t, folder, out, stderr === null ? out : stderr(t, folder)));
  });
}

for (const logFormat of ['auto', 'pretty']) {
  test(`with logFile it logs to that file, ${logFormat}, and not to standard error`, async (t) => {
    const folder = temporary(t);
    const config = join(folder, 'config.json');
    writeFileSync(config, JSON.stringify({ log: 'info', logFormat, logFile: { path: 'log/gateway.log' } }));
    const gateway = new TestGateway(join(folder, 'data'), ['--config', config, '--store', 'tarball']);
    await gateway.start();
    assert.equal(await gateway.stop(), 0);
    assert.equal(gateway.log, '');
    const lines = readFileSync(join(folder, 'data/log/gateway.log'), 'utf8').trimEnd().split('\n');
    const stopping = lines.find((line) => line.includes('SIGTERM: stopping')) ?? assert.fail(lines.join('\n'));
    if (logFormat === 'pretty') assert.match(stopping, /^\d{4}-\d\d-\d\d .* {2}info {3}SIGTERM: stopping/);
    else assert.equal(JSON.parse(stopping).level, 30);
  });
}

for (const logFormat of ['json', 'pretty']) {
  test(`a log file that cannot be opened prevents the start with a clear message, ${logFormat}`, (t) => {
    const folder = temporary(t);
    const config = join(folder, 'config.json');
    writeFileSync(config, JSON.stringify({ logFormat, logFile: { path: join(config, 'gateway.log') } }));
    const args = ['serve', '--data-dir', join(folder, 'data'), '--port', '0', '--config', config];
    const options = { encoding: 'utf8', timeout: END_MS } as const;
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args], options);
    assert.equal(status, 1);
    assert.match(stderr, /^✗ "logFile" cannot be opened at .*: a part of the path is a file\. Name another path\.\n/);
    assert.ok(!existsSync(join(folder, 'data/lock')));
  });
}

test('standard error has text if configured, also without a terminal', async (t) => {
  const folder = temporary(t);
  const config = join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ log: 'info', logFormat: 'pretty' }));
  const gateway = new TestGateway(join(folder, 'data'), ['--config', config, '--store', 'tarball']);
  await gateway.start();
  assert.equal(await gateway.stop(), 0);
  assert.match(gateway.log, / {2}info {3}SIGTERM: stopping/);
});

onEachStore({ config: { log: 'info', logFormat: 'json' }, apps: ['todos'] }, (gateway, store) => {
  test('a clean stop logs no warning, at work or just started', async () => {
    const warnings = () => gateway.log.split('\n').filter((line) => /"level":(?:40|50|60)/.test(line));
    const streams = ['_changes', '_live?query=list'].map((path) => gateway.stream(`/svc/todos/${path}`));
    const open = await Promise.all([
      ...streams,
      gateway.stream('/svc/_logs?follow=1'),
      gateway.stream('/svc/_runs/_events'),
    ]);
    assert.equal((await gateway.write('todos', 'add', { title: 'Milk' })).status, 201);
    assert.equal(await gateway.stop(), 0);
    for (const stream of open) await stream.closed;
    for (let n = 0; n < (store === 'git' ? 1 : 2); n++) {
      await gateway.start();
      assert.equal(await gateway.stop(), 0);
    }
    assert.deepEqual(warnings(), []);
    assert.match(gateway.log, /"level":30.*SIGTERM: stopping/);
  });
});

/** A small disk; `release` closes the files that are open on it, at the end. */
function smallDisk(t: TestContext, size: string, release: () => unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  const disk = join(folder, 'disk');
  const unmount = mountSmall(disk, size);
  t.after(async () => {
    await release();
    unmount();
    rmSync(folder, { recursive: true, force: true });
  });
  return disk;
}
test('a log on a full disk continues when there is room', { skip: NO_DISK }, async (t) => {
  const disk = smallDisk(t, '1m', () => closeSync(file));
  const file = openSync(join(disk, 'gateway.log'), 'a');
  const filler = join(disk, 'filler');
  fill(filler);
  const served = await serve(t, temporary(t), device(t, '/dev/null'), file);
  const log = () => readFileSync(join(disk, 'gateway.log'), 'utf8');
  assert.equal(log(), '');
  rmSync(filler);
  await eventually(() => log().includes('The SQLite writer is ready'));
  await endsWell(served);
  for (const line of log().trimEnd().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line);
  assert.match(log(), /SIGTERM: stopping/);
});

test('on a full disk an app that logs still answers, and its log continues later', { skip: NO_DISK }, async (t) => {
  const disk = smallDisk(t, '16m', () => gateway.stop());
  const gateway = new TestGateway(join(disk, 'data'), ['--store', 'tarball']);
  await gateway.start();
  const say = "({ input, log }) => { for (let i = 0; i < 20; i++) log.info(input.word + ' '.repeat(900)); return 1; }";
  assert.equal((await gateway.upload('chatty', appOf('chatty', { queries: { say } }))).status, 201);
  const read = async (word: string) =>
    (await gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'chatty', query: 'say', input: { word } } }))
      .status;
  assert.equal(await read('before'), 200);
  const messages = async () =>
    ((await gateway.call('GET', '/svc/_logs?app=chatty&limit=500')).json as { msg: string }[]).map(({ msg }) =>
      msg.trim(),
    );
  await eventually(async () => (await messages()).includes('before'));
  const filler = join(disk, 'filler');
  fill(filler);
  for (let i = 0; i < 5; i++) assert.equal(await read('full'), 200);
  const dropped = async () => (await gateway.call('GET', '/svc/_system')).json.counters.droppedLogLines as number;
  await eventually(async () => (await dropped()) > 0);
  rmSync(filler);
  assert.equal(await read('after'), 200);
  await eventually(async () => (await messages()).some((msg) => msg.startsWith('Log lines dropped here')));
  await eventually(async () => (await messages()).includes('after'));
});
