import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { MergeAppResult } from '../../../protocol/wire/git-jobs.ts';
import { contents, type Files, GitFixture } from '../../../testing/git-fixture.ts';
import { mergeApp, updateApp } from './merge.ts';
import { git } from './operations.ts';

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
});
afterEach(() => store.remove());

async function publish(files: Files | null): Promise<string> {
  const folder = files === null ? null : store.folder(files);
  const { commit } = await git.commitApp({ ...store.by, app: 'todos', folder, message: 'x' });
  await git.settle({ ...store.by, app: 'todos', commit, tag: null });
  return commit;
}

/** `base` and then `ours` are published; `theirs` is the workspace's folder. */
async function merge(
  base: Files | null,
  ours: Files | null,
  theirs: Files,
): Promise<MergeAppResult & { files?: Files }> {
  const commit = base === null ? null : await publish(base);
  if (ours !== null || base !== null) await publish(ours);
  const to = store.fresh();
  const folder = store.folder(theirs);
  const result = await mergeApp({ repository: store.repository, app: 'todos', base: commit, folder, to });
  if (!('changed' in result)) {
    assert.equal(existsSync(to), false, 'nothing is written');
    return result;
  }
  return { ...result, files: contents(to) };
}

const PNG = Buffer.from([0, 1, 2]);

describe('merging an app', () => {
  type Row = [
    name: string,
    base: Files | null,
    ours: Files | null,
    theirs: Files,
    files: Files | string[],
    changed?: boolean,
  ];
  const rows: Row[] = [
    ['takes a new app', null, null, { 'a.md': '1' }, { 'a.md': '1' }, true],
    ['finds nothing new', { 'a.md': '1' }, { 'a.md': '2' }, { 'a.md': '1' }, { 'a.md': '2' }, false],
    [
      'takes changes of different files',
      { 'a.md': '1', 'b.md': '1' },
      { 'a.md': '2', 'b.md': '1' },
      { 'a.md': '1', 'b.md': '2' },
      { 'a.md': '2', 'b.md': '2' },
      true,
    ],
    [
      'takes changes of one file',
      { 'a.md': '1\n2\n3\n' },
      { 'a.md': 'x\n2\n3\n' },
      { 'a.md': '1\n2\ny\n' },
      { 'a.md': 'x\n2\ny\n' },
      true,
    ],
    [
      'takes files that are new or gone',
      { 'a.md': '1', 'b.md': '1' },
      { 'a.md': '1', 'c.md': '3', 'b.md': '1' },
      { 'a.md': '1', 'd/e.md': '4' },
      { 'a.md': '1', 'c.md': '3', 'd/e.md': '4' },
      true,
    ],
    [
      'takes the same new file',
      { 'a.md': '1' },
      { 'a.md': '1', 'c.md': '3' },
      { 'a.md': '1', 'c.md': '3' },
      { 'a.md': '1', 'c.md': '3' },
      false,
    ],
    [
      'refuses two changes of a line',
      { 'a.md': '1', 'b.md': '1' },
      { 'a.md': '2', 'b.md': '2' },
      { 'a.md': '3', 'b.md': '3' },
      ['a.md', 'b.md'],
    ],
    [
      'refuses a change of what is gone',
      { 'a.md': '1', 'z.md': '' },
      { 'z.md': '' },
      { 'a.md': '3', 'z.md': '' },
      ['a.md'],
    ],
    [
      'refuses to remove what was changed',
      { 'a.md': '1', 'z.md': '' },
      { 'a.md': '2', 'z.md': '' },
      { 'z.md': '' },
      ['a.md'],
    ],
    [
      'refuses two new files of one name',
      { 'z.md': '' },
      { 'z.md': '', 'a.md': '1' },
      { 'z.md': '', 'a.md': '2' },
      ['a.md'],
    ],
    [
      'refuses two changes of a binary file',
      { 'a.png': PNG },
      { 'a.png': Buffer.concat([PNG, PNG]) },
      { 'a.png': Buffer.from('x') },
      ['a.png'],
    ],
    ['refuses two apps of one name', null, { 'a.md': '1' }, { 'a.md': '2' }, ['a.md']],
    [
      'refuses a file where a folder is',
      { 'z.md': '' },
      { 'z.md': '', 'a.md': '1' },
      { 'z.md': '', 'a.md/b.md': '1' },
      ['a.md', 'a.md/b.md'],
    ],
    [
      'refuses names that differ in case only',
      { 'z.md': '' },
      { 'z.md': '', 'Read.md': '1' },
      { 'z.md': '', 'read.md': '1' },
      ['Read.md', 'read.md'],
    ],
    [
      'refuses folders that differ in case only',
      { 'z.md': '' },
      { 'z.md': '', 'A/x.md': '1' },
      { 'z.md': '', 'a/y.md': '1' },
      ['A/x.md', 'a/y.md'],
    ],
    [
      'takes a name in another case',
      { 'Read.md': '1' },
      { 'Read.md': '1' },
      { 'read.md': '1' },
      { 'read.md': '1' },
      true,
    ],
    ['is the whole of an app that main has removed', { 'a.md': '1' }, null, { 'a.md': '1' }, { 'a.md': '1' }, true],
    [
      'is what was changed of an app that main has removed',
      { 'a.md': '1' },
      null,
      { 'a.md': '2' },
      { 'a.md': '2' },
      true,
    ],
  ];
  for (const [name, base, ours, theirs, expected, changed] of rows) {
    test(name, async () => {
      const result = await merge(base, ours, theirs);
      if (Array.isArray(expected)) assert.deepEqual(result, { conflicts: expected });
      else {
        assert.ok('changed' in result, 'there is no conflict');
        assert.deepEqual([result.files, result.changed], [expected, changed]);
      }
    });
  }
});

describe('updating an app in a workspace', () => {
  const marks = (workspace: string, published: string) =>
    `<<<<<<< workspace\n${workspace}=======\n${published}>>>>>>> published\n`;

  async function update(
    base: Files | null,
    published: Files | null,
    workspace: Files,
  ): Promise<{ merged: string[]; conflicts: string[]; files: Files }> {
    const commit = base === null ? null : await publish(base);
    if (published !== null || base !== null) await publish(published);
    const to = store.fresh();
    const folder = store.folder(workspace);
    const job = { repository: store.repository, app: 'todos', base: commit, folder, to };
    const { main, ...result } = await updateApp(job);
    assert.equal(main, store.git('rev-parse', 'main').trim());
    return { ...result, files: contents(to) };
  }

  test('takes what was published, and marks lines that both changed', async () => {
    const base = { 'a.md': '1\n2\n3\n', 'b.md': '1\n', 'c.md': '1', 'd.md': '1', 'e.md': '1' };
    const published = { 'a.md': 'x\n2\n3\n', 'b.md': '2\n', 'c.md': '2', 'e.md': '1', 'f.md': 'new' };
    const workspace = { 'a.md': '1\n2\ny\n', 'b.md': '3\n', 'c.md': '1', 'd.md': '1', 'e.md': 'mine' };
    assert.deepEqual(await update(base, published, workspace), {
      merged: ['a.md', 'c.md', 'd.md', 'f.md'],
      conflicts: ['b.md'],
      files: { 'a.md': 'x\n2\ny\n', 'b.md': marks('3\n', '2\n'), 'c.md': '2', 'e.md': 'mine', 'f.md': 'new' },
    });
  });

  test("keeps the workspace's side of what has no lines to mark", async () => {
    const [one, two] = [Buffer.concat([PNG, PNG]), Buffer.concat([PNG, PNG, PNG])];
    const base = { 'a.png': PNG, 'gone.md': '1', 'kept.md': '1' };
    const published = { 'a.png': one, 'gone.md': '2', 'f.md/x.md': '', 'Read.md': 'theirs' };
    const workspace = { 'a.png': two, 'kept.md': '2', 'f.md': 'a file', 'read.md': 'mine' };
    assert.deepEqual(await update(base, published, workspace), {
      merged: [],
      conflicts: ['Read.md', 'a.png', 'f.md', 'f.md/x.md', 'gone.md', 'kept.md', 'read.md'],
      files: { 'a.png': two.toString(), 'kept.md': '2', 'f.md': 'a file', 'read.md': 'mine' },
    });
  });

  test('keeps all of an app that was removed meanwhile, and of one that was never published', async () => {
    const workspace = { 'a.md': '1', 'b.md': 'new' };
    assert.deepEqual(await update({ 'a.md': '1' }, null, workspace), { merged: [], conflicts: [], files: workspace });
    assert.deepEqual(await update(null, null, workspace), { merged: [], conflicts: [], files: workspace });
  });

  test('marks two new apps of one name', async () => {
    const { conflicts, files } = await update(null, { 'a.md': '1\n' }, { 'a.md': '2\n' });
    assert.deepEqual([conflicts, files], [['a.md'], { 'a.md': marks('2\n', '1\n') }]);
  });

  test('is not published while a mark of it is left, but a file that was published with such lines is', async () => {
    const text = marks('3\n', '2\n');
    const base = { 'a.md': '1', 'guide.md': text };
    assert.deepEqual(await merge(base, base, { 'a.md': text, 'guide.md': text }), { unresolved: ['a.md'] });
    const { files } = await merge(base, base, { 'a.md': '2', 'guide.md': text });
    assert.deepEqual(files, { 'a.md': '2', 'guide.md': text });
  });
});
