/** What is made of damage that a process met: a disk that cannot be read, data that is damaged, a fault that has passed. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Layout } from '../layout.ts';
import type { Damage } from './app-data.ts';
import { Registry } from './registry.ts';

const root = mkdtempSync(join(tmpdir(), 'svc-registry-'));
after(() => rmSync(root, { recursive: true, force: true }));

/** Reading this file fails with EIO, as that of a broken disk does. */
const UNREADABLE = '/proc/self/mem';
const skip = process.platform === 'linux' ? false : 'only Linux has a file that cannot be read';
let opened = 0;

async function openRegistry(isWhole?: () => Promise<boolean>) {
  const layout = new Layout(join(root, String(++opened)));
  mkdirSync(layout.runDir, { recursive: true });
  const clock = { now: 1_000_000 };
  const logged: string[] = [];
  const log = (_: object, line?: string) => logged.push(String(line));
  const registry = await Registry.open({
    layout,
    userVersion: async () => 0,
    makeDurable: async () => {},
    ...(isWhole === undefined ? {} : { isWhole }),
    log: { warn: log, error: log } as never,
    now: () => clock.now,
  });
  const { data } = layout.app('notes');
  mkdirSync(dirname(data), { recursive: true });
  writeFileSync(data, 'whatever SQLite calls damaged');
  return { registry, data, clock, logged };
}

const damage = (): Damage => ({ what: 'is damaged (database disk image is malformed)', lost: false });
const told = async (registry: Registry, met = damage()) => {
  const { code, status, message } = await registry.damages.report('notes', met);
  return { answer: `${status} ${code}`, message };
};

for (const suffix of ['', '-wal'])
  test(`A disk that cannot read data.sqlite${suffix} is no damage`, { skip }, async () => {
    const { registry, data, clock } = await openRegistry();
    rmSync(data + suffix, { force: true });
    symlinkSync(UNREADABLE, data + suffix);
    const { answer, message } = await told(registry);
    assert.equal(answer, '500 INTERNAL');
    assert.match(
      message,
      /^The disk cannot read the data of "notes" \(EIO: .*\)\. Check the disk; the data is as it was\.$/,
    );
    assert.equal(registry.damages.of('notes'), null);

    // The disk has recovered, and what SQLite met before that is told now.
    rmSync(data + suffix);
    clock.now += LIMITS.diskFaultMs - 1;
    assert.equal((await told(registry)).answer, '500 INTERNAL');
    assert.equal(registry.damages.of('notes'), null);
    clock.now += 1;
    assert.equal((await told(registry)).answer, '503 STORE_DAMAGED');
    assert.deepEqual(registry.damages.of('notes'), damage());
  });

test('Damage is noted and logged once, and stays when the data is checked', async () => {
  const { registry, logged } = await openRegistry(async () => false);
  for (let turn = 0; turn < 2; turn++) assert.equal((await told(registry)).answer, '503 STORE_DAMAGED');
  assert.deepEqual(registry.damages.of('notes'), damage());
  assert.equal(logged.length, 1);
  assert.equal((await told(registry, { what: 'is missing', lost: true })).answer, '503 STORE_DAMAGED');
  assert.equal(registry.damages.of('notes')?.lost, true);
});

test('Data that proves to be whole is not listed as damaged any more; damage that is met again stays', async () => {
  let isDone = Promise.resolve(true);
  const { registry, logged } = await openRegistry(() => isDone);
  let finish: (whole: boolean) => void = () => {};
  isDone = new Promise((resolve) => {
    finish = resolve;
  });
  assert.equal((await told(registry)).answer, '503 STORE_DAMAGED');
  assert.notEqual(registry.damages.of('notes'), null);
  finish(true);
  await isDone;
  await new Promise(setImmediate);
  assert.equal(registry.damages.of('notes'), null);
  assert.match(logged.at(-1) ?? '', /whole after all/);
  await told(registry);
  await new Promise(setImmediate);
  assert.notEqual(registry.damages.of('notes'), null);
});
