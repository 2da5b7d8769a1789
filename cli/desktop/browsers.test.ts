import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '../../testing/command-line.ts';
import { findBrowser } from './browsers.ts';

/** A folder with these programs in it. */
function withPrograms(t: TestContext, ...names: string[]): string {
  const folder = temporaryFolder(t);
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), '#!/bin/sh\n', { mode: 0o755 });
  }
  return folder;
}

test('the first browser on PATH is used, or the one that is named', (t) => {
  const folder = withPrograms(t, 'chromium', 'brave-browser', 'mine');
  writeFileSync(join(folder, 'google-chrome'), 'no program', { mode: 0o644 });
  const machine = { env: { PATH: `:${folder}` }, cwd: folder, platform: 'linux' as const };
  const found = (wanted?: string) => findBrowser(wanted, machine, '/data')?.program;
  assert.equal(found(), join(folder, 'chromium'));
  assert.equal(found('Brave'), join(folder, 'brave-browser'));
  assert.equal(found('mine'), join(folder, 'mine'));
  assert.equal(found('./mine'), join(folder, 'mine'));
  assert.equal(found('edge'), undefined);
  assert.equal(found('other'), undefined);
  assert.deepEqual(findBrowser(undefined, machine, '/data'), {
    name: 'Chromium',
    program: join(folder, 'chromium'),
    profile: '/data/desktop',
  });
});

test('on a Mac the programs are inside of applications, also those of the user', (t) => {
  const program = 'Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge';
  const home = withPrograms(t, program);
  const machine = { env: { HOME: home }, cwd: home, platform: 'darwin' as const };
  assert.equal(findBrowser('edge', machine, '/data')?.program, join(home, program));
});

test('a snap keeps its profile where it may write, another one for each data directory', (t) => {
  const folder = withPrograms(t, 'snap');
  symlinkSync(join(folder, 'snap'), join(folder, 'chromium'));
  const machine = { env: { PATH: folder, HOME: '/home/ada' }, cwd: folder, platform: 'linux' as const };
  const profiles = ['/one', '/two'].map((data) => findBrowser(undefined, machine, data)?.profile);
  assert.match(profiles[0] ?? '', /^\/home\/ada\/snap\/chromium\/common\/svc-[0-9a-f]{12}$/);
  assert.notEqual(profiles[0], profiles[1]);
});
