import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../testing/command-line.ts';
import { scanAppFolder } from './app-folder.ts';

test('links and pipes are left out, with the reason', (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{}');
  symlinkSync('app.json', join(folder, 'link.json'));
  execFileSync('mkfifo', [join(folder, 'pipe.txt')]);
  assert.deepEqual(scanAppFolder(folder), {
    files: ['app.json'],
    bytes: 2,
    leftOut: [
      { path: 'link.json', reason: 'link' },
      { path: 'pipe.txt', reason: 'not a file' },
    ],
  });
});
