// Stored versions: one is there as a whole or not at all.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Layout, VersionPaths } from '../layout.ts';
import { installVersion, listVersions, readVersion, removeHalfVersions, storedVersions } from './versions.ts';

const root = mkdtempSync(join(tmpdir(), 'versions-'));
after(() => rmSync(root, { recursive: true, force: true }));
const ID = 'v_20260101T000000000Z_aaaaaa';

test('a version counts once its code is in place, which comes last', async () => {
  const layout = new Layout(join(root, 'data'));
  const app = layout.app('notes');
  const staged = new VersionPaths(join(root, 'code'), join(root, 'prepared'));
  mkdirSync(staged.code);
  // Its prepared folder is missing: the second step of the two that put a version into place is never reached.
  await assert.rejects(installVersion(app, ID, staged), { code: 'ENOENT' });
  assert.equal(await readVersion(app, ID), null);
  assert.deepEqual(readdirSync(app.versionsDir), []);

  mkdirSync(staged.prepared);
  writeFileSync(staged.summary, JSON.stringify({ versionId: ID, uploadedAt: 1 }));
  await installVersion(app, ID, staged);
  assert.deepEqual(
    (await listVersions(app)).map(({ versionId }) => versionId),
    [ID],
  );
  rmSync(app.version(ID).code, { recursive: true });
  await removeHalfVersions(app);
  assert.deepEqual(readdirSync(app.preparedDir), []);
});

test('code without what was prepared of it stays: only its prepared files were damaged', async () => {
  const app = new Layout(join(root, 'damaged')).app('notes');
  mkdirSync(app.version(ID).code, { recursive: true });
  await removeHalfVersions(app);
  assert.deepEqual(await storedVersions(app), [ID]);
  assert.deepEqual(await listVersions(app), []);
});
