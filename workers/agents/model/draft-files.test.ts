// The files of a draft for an agent: what they are, and that no name leads out of the folder.
import assert from 'node:assert/strict';
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { DraftFiles } from './draft-files.ts';

/** A draft with a file, beside a file that is nobody's business. */
function draftTest(
  title: string,
  body: (files: DraftFiles, folder: string, top: string) => Promise<void> | void,
): void {
  test(title, async () => {
    const top = realpathSync(mkdtempSync(join(tmpdir(), 'svc-draft-files-')));
    const folder = join(top, 'app');
    mkdirSync(join(folder, 'queries'), { recursive: true });
    writeFileSync(join(folder, 'queries/list.js'), 'one\ntwo\nTwo again\n');
    writeFileSync(join(top, 'secret.txt'), 'secret');
    mkdirSync(join(top, 'app2'));
    writeFileSync(join(top, 'app2/other.txt'), 'secret');
    try {
      await body(new DraftFiles(folder), folder, top);
      assert.equal(readFileSync(join(top, 'secret.txt'), 'utf8'), 'secret');
      assert.equal(readFileSync(join(top, 'app2/other.txt'), 'utf8'), 'secret');
    } finally {
      rmSync(top, { recursive: true });
    }
  });
}

draftTest('reads whole files and lines, by relative and absolute names', (files, folder) => {
  assert.equal(files.read('queries/list.js'), 'one\ntwo\nTwo again\n');
  assert.equal(files.read(join(folder, 'queries/../queries/list.js'), 2, 1), 'two');
  assert.equal(files.read('./queries//list.js', 3), 'Two again\n');
  assert.throws(() => files.read('queries/none.js'), { code: 'NOT_FOUND' });
  assert.throws(() => files.read('queries'), { code: 'NOT_FOUND' });
});

draftTest('writes with the folders above, and replaces text that is there once', async (files, folder) => {
  await files.write('deep/er/new.md', 'hello');
  assert.equal(readFileSync(join(folder, 'deep/er/new.md'), 'utf8'), 'hello');
  await files.edit('queries/list.js', 'Two again', 'three $& $1');
  assert.equal(files.read('queries/list.js'), 'one\ntwo\nthree $& $1\n');
  await assert.rejects(files.edit('queries/list.js', 'o', 'x'), /more than once/);
  await assert.rejects(files.edit('queries/list.js', 'four', 'x'), /does not have this text/);
  await assert.rejects(files.edit('queries/list.js', '', 'x'), /does not have this text/);
  assert.equal(files.read('queries/list.js'), 'one\ntwo\nthree $& $1\n');
});

draftTest('no name leads out of the folder', async (files, folder, top) => {
  const names = [
    '../secret.txt',
    'queries/../../secret.txt',
    '..',
    '.',
    '',
    '/',
    '/etc/passwd',
    join(top, 'secret.txt'),
    join(top, 'app2/other.txt'),
    `${folder}2/other.txt`,
    '../app2/other.txt',
    `${folder}/../secret.txt`,
  ];
  for (const name of names) {
    assert.throws(() => files.read(name), { code: 'FORBIDDEN' }, name);
    await assert.rejects(files.write(name, 'x'), { code: 'FORBIDDEN' }, name);
    await assert.rejects(files.edit(name, 'secret', 'x'), { code: 'FORBIDDEN' }, name);
    assert.equal(files.has(name), false, name);
  }
  for (const name of ['a\0/b.txt', 'queries\\..\\..\\secret.txt', 'C:/secret.txt', '.git/config.txt'])
    await assert.rejects(files.write(name, 'x'), { code: 'ARCHIVE_PATH' }, name);
});

draftTest('no link is followed', async (files, folder, top) => {
  symlinkSync(join(top, 'secret.txt'), join(folder, 'link.txt'));
  symlinkSync(top, join(folder, 'up'));
  symlinkSync('../..', join(folder, 'queries/up'));
  symlinkSync(join(top, 'made.txt'), join(folder, 'dangling.txt'));
  symlinkSync('loop.txt', join(folder, 'loop.txt'));
  for (const name of ['link.txt', 'up/secret.txt', 'queries/up/secret.txt', 'dangling.txt', 'loop.txt']) {
    assert.throws(() => files.read(name), { code: 'ARCHIVE_ENTRY_TYPE' }, name);
    await assert.rejects(files.write(name, 'x'), { code: 'ARCHIVE_ENTRY_TYPE' }, name);
    await assert.rejects(files.edit(name, 'secret', 'x'), { code: 'ARCHIVE_ENTRY_TYPE' }, name);
    assert.equal(files.has(name), false, name);
  }
  assert.deepEqual(files.list(), [{ path: 'queries/list.js', size: 18 }]);
  assert.deepEqual(await files.search('secret'), []);
});

draftTest('a write does not go through a second name of a file elsewhere', async (files, folder, top) => {
  linkSync(join(top, 'secret.txt'), join(folder, 'same.txt'));
  await files.write('same.txt', 'changed');
  assert.equal(readFileSync(join(folder, 'same.txt'), 'utf8'), 'changed');
});

draftTest('a draft is found by the name that its links lead to, too', (_files, folder, top) => {
  symlinkSync(folder, join(top, 'alias'));
  const files = new DraftFiles(join(top, 'alias'));
  assert.equal(files.read(join(folder, 'queries/list.js'), 1, 1), 'one');
  assert.equal(files.read(join(top, 'alias/queries/list.js'), 1, 1), 'one');
});

draftTest(
  'what an app may not hold is refused, and what is too large or no text is not read',
  async (files, folder) => {
    await assert.rejects(files.write('tool.py', 'x'), { code: 'ARCHIVE_EXTENSION' });
    await assert.rejects(files.write('queries', 'x'), { code: 'ARCHIVE_EXTENSION' });
    await assert.rejects(files.write('queries/list.js/x.txt', 'x'), { code: 'ARCHIVE_PATH' });
    await assert.rejects(files.write('large.txt', 'x'.repeat(LIMITS.archiveFileBytes + 1)), {
      code: 'ARCHIVE_TOO_LARGE',
    });
    writeFileSync(join(folder, 'large.md'), 'x'.repeat(LIMITS.archiveFileBytes + 1));
    assert.throws(() => files.read('large.md'), { code: 'PAYLOAD_TOO_LARGE' });
    writeFileSync(join(folder, 'icon.png'), Buffer.from([0x89, 0x50, 0, 0xff]));
    assert.throws(() => files.read('icon.png'), /is no text/);
  },
);

draftTest('a search finds text as it is, up to its limit', async (files, folder) => {
  assert.deepEqual(await files.search('two'), ['queries/list.js:2: two', 'queries/list.js:3: Two again']);
  assert.deepEqual(await files.search('.*'), []);
  writeFileSync(join(folder, 'many.txt'), 'here\n'.repeat(LIMITS.agentSearchLines + 5));
  const found = await files.search('here');
  assert.deepEqual([found.length, found.at(-1)], [LIMITS.agentSearchLines + 1, '[more lines have it, and are cut]']);
});
