import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { ConfigError } from '../config.ts';
import { LogFile } from './log-file.ts';
import { createLog, streamOf } from './log-stream.ts';

const MiB = 1024 * 1024;
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  path = join(folder, 'log/gateway.log');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A line of so many bytes that begins with `n`. */
const line = (n: number, bytes: number) => Buffer.from(`${n}`.padEnd(bytes - 1, 'x').concat('\n'));
/** What each file begins with, the current one first. */
const beginnings = () =>
  ['', '.1', '.2', '.3', '.4'].map((end) => (existsSync(path + end) ? readFileSync(path + end, 'utf8')[0] : null));

test('no file is larger than it may be, and so many older ones stay', () => {
  const log = new LogFile({ path, maxMb: 1, keep: 2 });
  for (let n = 1; n <= 9; n++) log.write(line(n, MiB / 2));
  log.close();
  assert.deepEqual(beginnings(), ['9', '7', '5', null, null]);
  for (const end of ['', '.1', '.2']) {
    assert.ok(statSync(path + end).size <= MiB);
    assert.equal(statSync(path + end).mode & 0o077, 0);
  }
});

test('it goes on with the file that is there, and turns it over when that is full', () => {
  for (let n = 1; n <= 3; n++) {
    const log = new LogFile({ path, maxMb: 1, keep: 5 });
    log.write(line(n, MiB / 2));
    log.close();
  }
  assert.deepEqual(beginnings(), ['3', '1', null, null, null]);
  assert.equal(statSync(`${path}.1`).size, MiB);
});

test('a line that is larger than a file has a separate one, and none is cut in two', () => {
  const log = new LogFile({ path, maxMb: 1, keep: 5 });
  log.write(line(1, 10));
  log.write(line(2, 2 * MiB));
  log.write(Buffer.from('3 begins'));
  log.write(line(4, 2 * MiB));
  log.close();
  assert.deepEqual(beginnings(), ['3', '2', '1', null, null]);
});

test('an obstacle is reported, and the next line tries again', () => {
  mkdirSync(path, { recursive: true });
  const log = new LogFile({ path, maxMb: 1, keep: 1 });
  assert.throws(() => log.write(line(1, 10)), { code: 'EISDIR' });
  rmSync(path, { recursive: true });
  assert.equal(log.write(line(2, 10)), 10);
  log.close();
  chmodSync(path, 0o600);
  assert.deepEqual(beginnings(), ['2', null, null, null, null]);
});

test('a start is told why the file cannot be opened, and what to do', () => {
  mkdirSync(path, { recursive: true });
  const logAt = (name: string) => streamOf(createLog({ log: 'info', logFile: { path: name }, dataDir: folder }));
  const wanted = (text: RegExp) => (error: unknown) =>
    error instanceof ConfigError && error.key === 'logFile' && text.test(error.message);
  assert.throws(() => logAt('log/gateway.log')?.open(), wanted(/gateway\.log: that is a folder\. Name a file\./));
  writeFileSync(join(folder, 'file'), '');
  assert.throws(
    () => logAt('file/a/gateway.log')?.open(),
    wanted(/a part of the path is a file\. Name another path\./),
  );
  // Where nobody can make a folder.
  if (process.platform === 'linux')
    assert.throws(() => logAt('/proc/none/gateway.log')?.open(), wanted(/ENOENT.*Name another path\./));
  const log = logAt('a/b/gateway.log');
  log?.open();
  assert.ok(existsSync(join(folder, 'a/b/gateway.log')));
  return log?.drain();
});

test('the configured log writes there, relative to the data directory, and drops no line', async () => {
  const log = createLog({ log: 'info', logFile: { path: 'log/gateway.log' }, dataDir: folder });
  log.info({ n: 1 }, 'One.');
  await streamOf(log)?.drain();
  // It is opened again.
  log.info('Two.');
  const entries = readFileSync(path, 'utf8').trimEnd().split('\n');
  assert.deepEqual(
    entries.map((entry) => (JSON.parse(entry) as { msg: string }).msg),
    ['One.', 'Two.'],
  );
  assert.equal(streamOf(log)?.droppedLines, 0);
  await streamOf(log)?.drain();
});
