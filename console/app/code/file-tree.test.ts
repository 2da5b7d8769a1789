import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TreeFolder, treeOf } from './file-tree.ts';

const files = (...named: string[]) =>
  named.map((text) => {
    const [path = '', sha = '1'] = text.split(':');
    return { path, sha, size: 1 };
  });

const drawn = ({ name, folders, files: own, isChanged }: TreeFolder): unknown => [
  `${name}${isChanged ? '*' : ''}`,
  ...folders.map(drawn),
  ...own.map((file) => (file.status === null ? file.name : `${file.name} ${file.status}`)),
];

test('files are a tree, with what a draft added, changed and deleted', () => {
  const live = files('app.json', 'lib/a/x.js', 'lib/old.js', 'queries/list.js');
  const draft = files('queries/list.js', 'app.json', 'lib/a/x.js:2', 'notes.md', 'queries/new.js');
  assert.deepEqual(drawn(treeOf(draft, live)), [
    '*',
    ['lib*', ['a*', 'x.js changed'], 'old.js deleted'],
    ['queries*', 'list.js', 'new.js added'],
    'app.json',
    'notes.md added',
  ]);
  assert.deepEqual(drawn(treeOf(live, null)), [
    '',
    ['lib', ['a', 'x.js'], 'old.js'],
    ['queries', 'list.js'],
    'app.json',
  ]);
  assert.deepEqual(drawn(treeOf(files('app.json'), [])), ['*', 'app.json added']);
});
