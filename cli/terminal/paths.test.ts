import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { shellPath, shortPath } from './paths.ts';

test('a path is one word of a shell', () => {
  const cases: [path: string, word: string][] = [
    ['notes', 'notes'],
    ['./a-b_c/d.1', './a-b_c/d.1'],
    ['My App', "'My App'"],
    ["Ann's", "'Ann'\\''s'"],
    ['$(date)', "'$(date)'"],
    ['-x', './-x'],
    ['~/apps', '~/apps'],
    ['~/My App', "~/'My App'"],
    ['~', '~'],
    ['a~', "'a~'"],
  ];
  for (const [path, word] of cases) assert.equal(shellPath(path), word);
  const words = cases.map(([, word]) => word).join(' ');
  const read = execFileSync('/bin/sh', ['-c', `printf '%s\\n' ${words}`], {
    env: { HOME: '/home/ann' },
    encoding: 'utf8',
  });
  const expected = cases.map(([path]) => path.replace(/^~(?=\/|$)/, '/home/ann').replace(/^-/, './-'));
  assert.deepEqual(read.trimEnd().split('\n'), expected);
});

test('paths are shown as a person would write them', () => {
  const surroundings = { cwd: '/home/ann/work', env: { HOME: '/home/ann' }, platform: 'linux' as const };
  for (const [path, shown] of [
    ['/home/ann/work', '.'],
    ['/home/ann/work/.svc', '.svc'],
    ['/home/ann/x', '~/x'],
    ['/home/anna', '/home/anna'],
    ['/srv', '/srv'],
  ] as const) {
    assert.equal(shortPath(path, surroundings), shown);
  }
  // The current folder of services.
  for (const [path, shown] of [
    ['/var/lib/svc', '/var/lib/svc'],
    ['/home/ann/x', '~/x'],
    ['/', '.'],
  ] as const) {
    assert.equal(shortPath(path, { ...surroundings, cwd: '/' }), shown);
  }
});
