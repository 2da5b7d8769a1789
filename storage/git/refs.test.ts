// Names of a git repository: set only where they stand for what was expected, packed or not.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { onDiskSteps } from '../../testing/disk-steps.ts';
import { MAIN, Refs } from './refs.ts';

const root = mkdtempSync(join(tmpdir(), 'refs-'));
after(() => rmSync(root, { recursive: true, force: true }));
const [ONE, TWO, THREE] = ['1', '2', '3'].map((digit) => digit.repeat(40)) as [string, string, string];
const TAG = 'refs/tags/notes/v1';

function newRefs(name: string): { refs: Refs; repository: string } {
  const repository = join(root, name);
  for (const folder of ['refs/heads', 'refs/tags/notes']) mkdirSync(join(repository, folder), { recursive: true });
  return { refs: new Refs(repository), repository };
}

test('a name is set only if it has the expected value', async () => {
  const { refs, repository } = newRefs('loose');
  await assert.rejects(refs.set(MAIN, ONE, TWO), { code: 'CONFLICT' });
  assert.equal(refs.read(MAIN), null);
  await refs.set(MAIN, ONE, null);
  for (const expected of [null, TWO]) await assert.rejects(refs.set(MAIN, THREE, expected), { code: 'CONFLICT' });
  assert.equal(refs.read(MAIN), ONE);
  await refs.set(MAIN, TWO, ONE);
  assert.equal(refs.read(MAIN), TWO);
  // What was to be done is done.
  await refs.set(MAIN, TWO, ONE);
  assert.deepEqual(readdirSync(join(repository, 'refs/heads')), ['main'], 'no lock is left');
});

test('what a name stands for is on the disk before it is replaced, and then its folder', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const { refs, repository } = newRefs('flushed');
  const folder = join(repository, 'refs/heads');
  const steps: string[] = [];
  await onDiskSteps(t, (step, path) => steps.push(`${step} ${path}`));
  await refs.set(MAIN, ONE, null);
  const main = join(folder, 'main');
  assert.deepEqual(steps, [`flush ${main}.lock`, `rename ${main}`, `flush ${folder}`]);
});

test('of two concurrent changes of a name, one gets a conflict', async () => {
  const { refs } = newRefs('both');
  await refs.set(MAIN, ONE, null);
  const both = await Promise.allSettled([refs.set(MAIN, TWO, ONE), refs.set(MAIN, THREE, ONE)]);
  assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  assert.equal(refs.read(MAIN), both[0].status === 'fulfilled' ? TWO : THREE);
});

test('a packed name counts as one that is there, until a file says otherwise', async () => {
  const { refs, repository } = newRefs('packed');
  writeFileSync(join(repository, 'packed-refs'), `# pack-refs with: peeled\n${ONE} ${MAIN}\n${ONE} ${TAG}\n^${TWO}\n`);
  await assert.rejects(refs.set(TAG, TWO, null), { code: 'CONFLICT' });
  await refs.set(TAG, TWO, ONE);
  assert.deepEqual([refs.read(TAG), refs.read(MAIN)], [TWO, ONE]);
  await refs.remove([TAG]);
  assert.deepEqual([refs.read(TAG), refs.read(MAIN)], [null, ONE]);
});
