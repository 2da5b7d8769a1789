// What the supervisor flushes for jobs: only what they may write, and errors with their code.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Flushes } from './flushes.ts';

const root = mkdtempSync(join(tmpdir(), 'flushes-'));
after(() => rmSync(root, { recursive: true }));
const own = join(root, 'own');
mkdirSync(join(own, 'folder'), { recursive: true });
mkdirSync(join(root, 'ownother'));
writeFileSync(join(own, 'file'), 'a', { mode: 0o400 });
const flushes = new Flushes([own]);

test('files, also read-only ones, and folders, many at a time', async () => {
  const paths = Array.from({ length: 100 }, (_, i) => [own, join(own, 'file'), join(own, 'folder')][i % 3] as string);
  const results = await Promise.all(paths.map((path) => flushes.flush(path)));
  assert.deepEqual(new Set(results), new Set([null]));
});

test('why not, with the code: a file that is gone, a link, and one that is no file', async () => {
  symlinkSync(join(own, 'file'), join(own, 'link'));
  execFileSync('mkfifo', [join(own, 'pipe')]);
  const codes = ['gone', 'link', 'pipe'].map(async (name) => (await flushes.flush(join(own, name)))?.code);
  assert.deepEqual(await Promise.all(codes), ['ENOENT', 'ELOOP', 'EINVAL']);
});

test('paths that no job may write are not flushed', () => {
  for (const path of [root, join(root, 'ownother'), `${own}/../own`, 'own', '', 1, null])
    assert.throws(() => flushes.flush(path), /only what it may write/, String(path));
});

test('flushes over the limit are refused, and waiting ones are done', async () => {
  const asked = LIMITS.flushesAtOnce + LIMITS.flushesWaiting + 1;
  const results = await Promise.all(Array.from({ length: asked }, () => flushes.flush(own)));
  assert.deepEqual(
    results.filter((fault) => fault !== null).map(({ code }) => code),
    ['EAGAIN'],
  );
});
