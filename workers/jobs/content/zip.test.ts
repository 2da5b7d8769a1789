/** Zip archives are read by the rules for archives, and what file managers put into them is no fault. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { tarball, type ZipEntry, zipOf } from '../../../testing/archive.ts';
import { layOut } from '../lay-out.ts';
import { extractArchive } from './archive.ts';

const root = mkdtempSync(join(tmpdir(), 'zip-'));
after(() => rmSync(root, { recursive: true, force: true }));
let count = 0;

function kept(archive: Buffer): { archive: string; target: string } {
  const place = join(root, String(++count));
  writeFileSync(`${place}.zip`, archive);
  return { archive: `${place}.zip`, target: place };
}

async function taken(archive: Buffer, leaveOut = false): Promise<string[]> {
  const { archive: file, target } = kept(archive);
  return (await extractArchive(file, target, { leaveOut })).map(({ path }) => path);
}

const refusal = (archive: Buffer) =>
  taken(archive).then(
    () => assert.fail('the archive was taken'),
    ({ code, path }: SvcError) => [code, path],
  );

test('the files of a zip archive are those that were put into it', async () => {
  const { archive, target } = kept(zipOf({ 'app.json': '{}', 'queries/größe.js': 'x'.repeat(100_000) }));
  const files = await extractArchive(archive, target);
  assert.deepEqual(
    files.map(({ path, bytes }) => [path, bytes]),
    [
      ['app.json', 2],
      ['queries/größe.js', 100_000],
    ],
  );
  assert.equal(readFileSync(join(target, 'queries/größe.js'), 'utf8'), 'x'.repeat(100_000));
});

test('an entry is refused by the rules for archives', async () => {
  const entry = (name: string, more: Partial<ZipEntry> = {}) =>
    zipOf([
      { name: 'app.json', content: '{}' },
      { name, ...more },
    ]);
  const large = Buffer.alloc(LIMITS.archiveFileBytes + 1);
  const cases: [archive: Buffer, code: string, path?: string][] = [
    [entry('../a.js'), 'ARCHIVE_PATH', '../a.js'],
    [entry('/etc/a.js'), 'ARCHIVE_PATH', '/etc/a.js'],
    [entry('a\\b.js'), 'ARCHIVE_PATH', 'a\\b.js'],
    [entry('APP.json'), 'ARCHIVE_PATH', 'APP.json'],
    [entry(`${'d/'.repeat(LIMITS.archiveDepth)}a.js`), 'ARCHIVE_PATH', `${'d/'.repeat(LIMITS.archiveDepth)}a.js`],
    [entry('a.js', { mode: 0o120777, content: '/etc/passwd' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
    [entry('a.js', { mode: 0o010644 }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
    [entry('run.exe'), 'ARCHIVE_EXTENSION', 'run.exe'],
    [entry('a.js', { content: large }), 'ARCHIVE_TOO_LARGE', 'a.js'],
    // It says that it is small, and is not.
    [entry('a.js', { content: large, size: 10 }), 'INVALID_ARCHIVE'],
    [entry('a.js', { content: 'secret', flags: 1 }), 'INVALID_ARCHIVE'],
    [zipOf({ 'app.json': '{}' }).subarray(0, 40), 'INVALID_ARCHIVE'],
  ];
  for (const [archive, code, path] of cases) assert.deepEqual(await refusal(archive), [code, path], `${code} ${path}`);
});

test('an import leaves out what is no part of an app, which counts all the same', async () => {
  const files = {
    'app.json': '{}',
    '.DS_Store': 'x',
    '.git/config.txt': 'x',
    LICENSE: 'x',
    '__MACOSX/._app.json': 'x',
  };
  assert.deepEqual(await taken(zipOf(files), true), ['app.json']);
  const { '__MACOSX/._app.json': _, ...others } = files;
  assert.deepEqual(await taken(tarball(others), true), ['app.json']);
  const many = Array.from({ length: LIMITS.archiveEntries + 1 }, (_, at) => ({ name: `.${at}` }));
  for (const archive of [zipOf(many), tarball(many)])
    await assert.rejects(taken(archive, true), { code: 'ARCHIVE_TOO_LARGE' });
});

test('an archive whose only folder is the app is that app, under another id and name', async () => {
  const app = JSON.stringify({ id: 'old', name: 'Old', version: '1' });
  for (const archive of [zipOf({ 'old-1.2/app.json': app }), tarball({ 'old-1.2/app.json': app })]) {
    const { archive: sent, target: to } = kept(archive);
    assert.deepEqual(await layOut({ source: { sent }, to, id: 'new', name: 'New' }), { name: 'New', files: 1 });
    assert.deepEqual(readdirSync(to), ['app.json']);
    const { id, name } = JSON.parse(readFileSync(join(to, 'app.json'), 'utf8'));
    assert.deepEqual([id, name], ['new', 'New']);
  }
  const { archive: sent, target: to } = kept(zipOf({ 'a/x.js': '', 'b/app.json': app }));
  await assert.rejects(layOut({ source: { sent }, to, id: 'new', name: null }), {
    code: 'INVALID_MANIFEST',
    status: 400,
  });
});
