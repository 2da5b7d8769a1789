import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, temporaryFolder } from '../../testing/command-line.ts';
import type { CommandError } from '../failure.ts';
import { packBytes, readAppId, scanAppFolder } from './app-folder.ts';

test('links and pipes are left out, with the reason; what the command wrote for itself is not mentioned', (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{}');
  writeFileSync(join(folder, '.svc-app'), '{}');
  mkdirSync(join(folder, '.schemas'));
  symlinkSync('app.json', join(folder, 'link.json'));
  execFileSync('mkfifo', [join(folder, 'pipe.txt')]);
  const { files, bytes, leftOut } = scanAppFolder(folder);
  assert.deepEqual([files, bytes], [['app.json'], 2]);
  assert.deepEqual(leftOut, [
    { path: 'link.json', reason: 'link' },
    { path: 'pipe.txt', reason: 'not a file' },
  ]);
});

test('a subfolder that cannot be read is named, with the consequence', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{}');
  for (const [mode, name] of [
    [0o000, 'closed'],
    [0o444, 'not to be entered'],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'a.txt'), 'a');
    chmodSync(join(folder, name), mode);
    await asUser(folder, async () =>
      assert.throws(() => scanAppFolder(folder), {
        message: `${name} cannot be read: permission is denied.`,
        hint: 'Make it readable, or move it out. Until then nothing is sent, because its files would count as deleted.',
      }),
    );
    chmodSync(join(folder, name), 0o755);
    assert.ok(scanAppFolder(folder).files.includes(`${name}/a.txt`));
  }
});

test('an archive of bytes has the files with their content and paths', async (t) => {
  const folder = temporaryFolder(t);
  const long = `${'deep/'.repeat(30)}a.txt`;
  const archive = await packBytes([
    { path: 'empty.txt', bytes: Buffer.alloc(0) },
    { path: long, bytes: Buffer.from('x'.repeat(100_000)) },
  ]);
  writeFileSync(join(folder, 'a.tgz'), archive);
  execFileSync('tar', ['xzf', 'a.tgz'], { cwd: folder });
  assert.equal(readFileSync(join(folder, 'empty.txt'), 'utf8'), '');
  assert.equal(readFileSync(join(folder, long), 'utf8').length, 100_000);
});

test('for a folder that is not an app, the error names apps that may be meant', (t) => {
  const folder = temporaryFolder(t);
  const told = (path: string): unknown[] => {
    try {
      return [readAppId(path)];
    } catch (error) {
      const { message, hint } = error as CommandError;
      return [message, hint];
    }
  };
  const begin = 'Make an app to start from: svc new <dir>';
  assert.deepEqual(told(folder), [`${folder} has no app.json, so it is not an app.`, begin]);
  for (const name of ['notes', 'todos']) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'app.json'), JSON.stringify({ id: name }));
  }
  mkdirSync(join(folder, 'pictures'));
  assert.deepEqual(told(folder)[1], 'Name an app in it: notes, todos');
  assert.deepEqual(told(join(folder, 'nots')), [
    `The folder ${join(folder, 'nots')} does not exist.`,
    `Did you mean ${join(folder, 'notes')}?`,
  ]);
  assert.equal(told(join(folder, 'elsewhere'))[1], begin);
  assert.deepEqual(told(join(folder, 'notes')), ['notes']);
});
