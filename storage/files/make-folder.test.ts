import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { mkdirDurable } from './atomic-file.ts';
import { makeFolder } from './make-folder.ts';

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-folder-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a folder is made with those above it, for its owner only, and the uppermost is told', async (t) => {
  const folder = temporary(t);
  assert.equal(makeFolder(join(folder, 'a/b/c')), join(folder, 'a'));
  assert.equal(makeFolder(join(folder, 'a/b/d')), join(folder, 'a/b/d'));
  assert.equal(makeFolder(join(folder, 'a/b/d')), undefined);
  for (const made of ['a', 'a/b', 'a/b/c']) assert.equal(statSync(join(folder, made)).mode & 0o777, 0o700);
  symlinkSync(join(folder, 'a'), join(folder, 'link'));
  assert.equal(makeFolder(join(folder, 'link')), undefined);
  await mkdirDurable(join(folder, 'e/f'));
  assert.ok(statSync(join(folder, 'e/f')).isDirectory());
});

test('a folder that cannot be made is named, at once', async (t) => {
  const folder = temporary(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  symlinkSync(join(folder, 'nowhere'), join(folder, 'broken'));
  const cases: [path: string, code: string][] = [
    [file, 'EEXIST'],
    [join(folder, 'broken'), 'EEXIST'],
    [join(file, 'a'), 'ENOTDIR'],
    [join(file, 'a/b'), 'ENOTDIR'],
    ...(process.platform === 'linux' ? ([['/proc/x', 'ENOENT']] as [string, string][]) : []),
  ];
  for (const [path, code] of cases) {
    assert.throws(() => makeFolder(path), { code, syscall: 'mkdir', path });
    await assert.rejects(mkdirDurable(path), { code, syscall: 'mkdir', path });
  }
  if (process.platform === 'linux') assert.throws(() => makeFolder('/proc/x/y/z'), { code: 'ENOENT', path: '/proc/x' });
});
