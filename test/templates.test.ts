/** The files that templates share are equal; `scripts/templates.mjs` has the groups. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

test('the files that templates share are the same in each of them', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/templates.mjs'], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});
