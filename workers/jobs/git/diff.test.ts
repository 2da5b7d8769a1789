import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { LIMITS } from '../../../protocol/limits.ts';
import type { GitFileDiff } from '../../../protocol/wire/git-jobs.ts';
import { contents, type Files, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { diffApp, diffFolders } from './diff.ts';
import { git } from './operations.ts';

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
});
afterEach(() => store.remove());

async function diff(before: Files | null, after: Files | null): Promise<GitFileDiff[]> {
  const job = { ...store.by, app: 'todos' };
  const folder = before === null ? null : store.folder(before);
  const { commit } = await git.commitApp({ ...job, folder, message: 'x' });
  await git.settle({ ...job, commit, tag: null });
  const now = after === null ? null : store.folder(after);
  const result = await diffApp({
    repository: store.repository,
    app: 'todos',
    folder: now,
    against: 'main',
    since: null,
  });
  assert.equal(result.base, commit);
  return result.files;
}

/** The patches, applied by git to a clone of `main`. */
function applied(files: GitFileDiff[]): Record<string, string> {
  const clone = store.fresh();
  store.git('clone', '-q', '.', clone);
  const patch = files.map((file) => file.patch).join('');
  writeFileSync(join(clone, '.git', 'p'), patch);
  if (patch !== '') execFileSync('git', ['apply', '--whitespace=nowarn', '.git/p'], { cwd: clone });
  const all = Object.entries(contents(clone)).filter(([path]) => path.startsWith('apps/todos/'));
  return Object.fromEntries(all.map(([path, text]) => [path.slice('apps/todos/'.length), text]));
}

describe('a diff', () => {
  test('shows added, modified and deleted files, and git applies it', NEEDS_GIT, async () => {
    const after = {
      'app.json': '{\n  "a": 2\n}\n',
      'new file.md': 'one\ntwo',
      'empty.txt': '',
      'ü"\t.txt': 'x\n',
      'cr.txt': 'a\r\nB\r\nc\r\n',
      'end.txt': 'a\n',
      'same.md': 'same',
    };
    const before = {
      'app.json': '{\n  "a": 1\n}\n',
      'old.md': 'gone\n',
      'cr.txt': 'a\r\nb\r\nc\r\n',
      'end.txt': 'a',
      'same.md': 'same',
    };
    const files = await diff(before, after);
    assert.deepEqual(
      files.map(({ path, status, additions, deletions }) => [path, status, additions, deletions]),
      [
        ['app.json', 'modified', 1, 1],
        ['cr.txt', 'modified', 1, 1],
        ['empty.txt', 'added', 0, 0],
        ['end.txt', 'modified', 1, 1],
        ['new file.md', 'added', 2, 0],
        ['old.md', 'deleted', 0, 1],
        ['ü"\t.txt', 'added', 1, 0],
      ],
    );
    assert.deepEqual(applied(files), after);
  });

  test('of an app that is new, and of one that goes', NEEDS_GIT, async () => {
    assert.deepEqual(applied(await diff(null, { 'app.json': '{}' })), { 'app.json': '{}' });
    assert.deepEqual(applied(await diff({ 'app.json': '{}', 'b.md': '' }, null)), {});
    assert.deepEqual(await diff({ 'a.md': '1' }, { 'a.md': '1' }), []);
  });

  test('of two folders is that of the same files in the repository', async () => {
    const before = { 'app.json': '{}\n', 'old.md': 'gone\n', 'same.md': 'same' };
    const after = { 'app.json': '{ }\n', 'new.md': 'new\n', 'same.md': 'same' };
    const found = diffFolders({ app: 'todos', before: store.folder(before), folder: store.folder(after) });
    assert.deepEqual(found, await diff(before, after));
    assert.deepEqual(
      found.map(({ path, status }) => [path, status]),
      [
        ['app.json', 'modified'],
        ['new.md', 'added'],
        ['old.md', 'deleted'],
      ],
    );
    const whole = diffFolders({ app: 'todos', before: null, folder: store.folder(after) });
    assert.ok(whole.every(({ status }) => status === 'added'));
  });

  test('marks binary files', async () => {
    const bytes = Buffer.from([0, 1]);
    assert.deepEqual(await diff({}, { 'a.png': bytes }), [
      { path: 'a.png', status: 'added', additions: 0, deletions: 0, patch: '', binary: true },
    ]);
  });

  test('of files that have nothing in common replaces them', NEEDS_GIT, async () => {
    const lines = (word: string): string => Array.from({ length: 20_000 }, (_, n) => `${word} ${n}\n`).join('');
    const files = await diff({ 'a.txt': lines('a') }, { 'a.txt': lines('b') });
    assert.deepEqual([files[0]?.additions, files[0]?.deletions], [20_000, 20_000]);
    assert.deepEqual(applied(files), { 'a.txt': lines('b') });
  });

  test('of files with too many lines counts them only, and shows the others', async () => {
    const many = '\n'.repeat(LIMITS.gitDiffLines / 2 + 1);
    const files = await diff({ 'a.txt': many, 'b.txt': '1\n' }, { 'a.txt': `${many}x`, 'b.txt': '2\n' });
    const lines = LIMITS.gitDiffLines / 2 + 1;
    assert.deepEqual(
      files.map(({ additions, deletions, truncated, patch }) => [additions, deletions, truncated, patch === '']),
      [
        [lines + 1, lines, true, true],
        [1, 1, undefined, false],
      ],
    );
  });

  test('that would be too large leaves patches out and says so', async () => {
    const big = 'x'.repeat(LIMITS.gitDiffBytes / 2);
    const files = await diff({}, { 'a.txt': big, 'b.txt': `${big}\n`, 'c.txt': '1\n2\n' });
    assert.deepEqual(
      files.map(({ additions, truncated, patch }) => [additions, truncated, patch === '']),
      [
        [1, undefined, false],
        [1, true, true],
        [2, true, true],
      ],
    );
  });

  test('applies with git for random texts', NEEDS_GIT, async () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', '', '\r', 'ü', '-', '+', '\\', '@@ -1 +1 @@'), { maxLength: 12 })
      .chain((lines) => fc.constantFrom(lines.join('\n'), lines.map((line) => `${line}\n`).join('')));
    const app = fc.record({ 'a.txt': text, 'b/c.md': text }, { requiredKeys: [], noNullPrototype: true });
    await fc.assert(
      fc.asyncProperty(app, app, async (before, after) => {
        assert.deepEqual(applied(await diff(before as Files, after as Files)), after);
      }),
      { numRuns: 25 },
    );
  });
});
