import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { onDiskSteps } from '../../testing/disk-steps.ts';
import { Layout } from '../layout.ts';
import { readSettings, writeSettings } from '../settings.ts';
import { inParallel, moveDir, readJson, writeFileAtomic } from './atomic-file.ts';

const root = mkdtempSync(join(tmpdir(), 'files-'));
after(() => rmSync(root, { recursive: true, force: true }));

test('a file is replaced whole, for its owner only, by many writers at once', async () => {
  const dir = join(root, 'many');
  mkdirSync(dir);
  const path = join(dir, 'file.json');
  const contents = Array.from({ length: 20 }, (_, i) => JSON.stringify({ text: String(i).repeat(10_000) }));
  await Promise.all(contents.map((content) => writeFileAtomic(path, content)));
  assert.ok(contents.includes(readFileSync(path, 'utf8')));
  assert.deepEqual(readdirSync(dir), ['file.json']);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('a file is on the disk before it has its name, and its name before it counts', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const dir = join(root, 'flushed');
  mkdirSync(dir);
  const path = join(dir, 'file.json');
  const steps: string[] = [];
  await onDiskSteps(t, (step, what) => steps.push(`${step} ${what.replace(/[0-9a-f-]{36}/, '*')}`));
  await writeFileAtomic(path, '{}');
  assert.deepEqual(steps, [`flush ${join(dir, '.*.tmp')}`, `rename ${path}`, `flush ${dir}`]);
});

test('a write that fails leaves the old file and no temporary one', async () => {
  const dir = join(root, 'failing');
  mkdirSync(join(dir, 'taken'), { recursive: true });
  await assert.rejects(writeFileAtomic(join(dir, 'taken'), 'x'), { code: 'EISDIR' });
  assert.deepEqual(readdirSync(dir), ['taken']);
  await assert.rejects(writeFileAtomic(join(root, 'none/file'), 'x'), { code: 'ENOENT' });
});

test('a folder moves with its content, and missing target folders are made', async () => {
  mkdirSync(join(root, 'from/deep'), { recursive: true });
  writeFileSync(join(root, 'from/deep/a'), '1');
  await moveDir(join(root, 'from'), join(root, 'x/y/to'));
  assert.equal(readFileSync(join(root, 'x/y/to/deep/a'), 'utf8'), '1');
  await assert.rejects(moveDir(join(root, 'from'), join(root, 'x/z')), { code: 'ENOENT' });
});

test('a folder that others remove once it is empty does not fail the move out of it', async (t) => {
  const [from, to] = [join(root, 'left/sha/apps/notes'), join(root, 'taken')];
  mkdirSync(from, { recursive: true });
  const { rename } = promises;
  t.mock.method(promises, 'rename', async (...paths: Parameters<typeof rename>) => {
    await rename(...paths);
    rmSync(join(root, 'left/sha'), { recursive: true });
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  await moveDir(from, to);
  assert.deepEqual(readdirSync(to), []);
});

test('a missing JSON file is undefined, a damaged one an error', async () => {
  assert.equal(await readJson(join(root, 'no.json')), undefined);
  writeFileSync(join(root, 'half.json'), '{"a":');
  await assert.rejects(readJson(join(root, 'half.json')), SyntaxError);
});

test('the apps may lie elsewhere, and uploads are then staged beside them', () => {
  const layout = new Layout(join(root, 'data'), join(root, 'elsewhere'));
  assert.equal(layout.registry, join(root, 'elsewhere/_registry.json'));
  assert.equal(layout.tmpDir, join(root, 'elsewhere/_tmp'));
  assert.equal(new Layout(join(root, 'data')).app('notes').data, join(root, 'data/apps/notes/data.sqlite'));
});

test('settings are one JSON object of limited size; damaged ones are an error that names the file', async () => {
  const app = new Layout(join(root, 'data')).app('notes');
  mkdirSync(app.dir, { recursive: true });
  assert.deepEqual(await readSettings(app), {});
  assert.deepEqual(await writeSettings(app, { size: 's' }), { size: 's' });
  assert.deepEqual(await readSettings(app), { size: 's' });
  for (const wrong of [null, [], 'text']) await assert.rejects(writeSettings(app, wrong), { code: 'BAD_REQUEST' });
  await assert.rejects(writeSettings(app, { a: 'x'.repeat(LIMITS.settingsBytes) }), { code: 'PAYLOAD_TOO_LARGE' });
  assert.deepEqual(await readSettings(app), { size: 's' });
  for (const damaged of ['{"size"', '', '[]', 'null']) {
    writeFileSync(app.settings, damaged);
    await assert.rejects(readSettings(app), { code: 'STORE_DAMAGED', message: /settings\.json of "notes" is damaged/ });
    assert.equal(readFileSync(app.settings, 'utf8'), damaged, 'it stays as it is');
  }
  await writeSettings(app, { size: 'm' });
  assert.deepEqual(await readSettings(app), { size: 'm' });
});

test('after a failure no work starts, and it rejects once the work under way has ended', async () => {
  const begun: number[] = [];
  let end = (): void => {};
  const slow = new Promise<void>((resolve) => {
    end = resolve;
  });
  let settled = false;
  const all = inParallel([1, 2, 3, 4], 2, async (n) => {
    begun.push(n);
    if (n === 1) return slow;
    throw new Error(`no ${n}`);
  });
  const watched = all.catch(() => {}).finally(() => (settled = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([begun, settled], [[1, 2], false]);
  end();
  await watched;
  await assert.rejects(all, /no 2/);
  assert.deepEqual(begun, [1, 2]);
});
