/** Which paths of a data directory belong to an app, a workspace or the repository, and which no node may send or take. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bucketOf } from '../../protocol/buckets.ts';
import { Layout } from '../layout.ts';
import { belongingOf, belongsTo, bucketOfSubject, nameOf, Places, type Subject } from './subjects.ts';

const UUID = '01234567-89ab-cdef-0123-456789abcdef';
const COMMIT = 'c'.repeat(40);

function whose(path: string): string | null {
  const belonging = belongingOf(path);
  if (belonging === null) return null;
  return 'subject' in belonging ? nameOf(belonging.subject) : `node: ${belonging.leftOut}`;
}

test('each path has one owner, or a reason to stay', () => {
  const expected: Record<string, string | null> = {
    'apps/notes': 'app/notes',
    'apps/notes/current.json': 'app/notes',
    'apps/notes/versions/v_20260102T030405678Z_abcdef/app.json': 'app/notes',
    'apps/notes/versions/.v1.taken/app.json': 'app/notes',
    'apps/notes/versions/v1/data.sqlite': 'app/notes',
    [`apps/notes/_blobs/${'a'.repeat(64)}.type`]: 'app/notes',
    'journal/notes.json': 'app/notes',
    'trash/notes-2-1767323045678/data.sqlite': 'app/notes-2',
    [`code-store/worktrees/main/${COMMIT}/apps/notes/app.json`]: 'app/notes',
    'code-store/worktrees/sessions/Draft-1~notes/session.json': 'workspace/Draft-1~notes',
    'code-store/worktrees/sessions/.aside.Draft-1~notes.notes/app.json': 'workspace/Draft-1~notes',
    'apps/_drafts/Draft-1/notes/seed.json': 'workspace/Draft-1~notes',
    'code-store/apps.git/refs/tags/notes/v1': 'node: code',
    'code-store/apps.git/objects/ab/cdef': 'node: code',
    'code-store/active-main': 'node: code',
    'token.bin': 'node: key',
    'session-key.bin': 'node: key',
    'secrets.key': 'node: key',
    'push.key': 'node: key',
    'identity.sqlite-wal': 'node: database',
    'runtime/3215.sqlite-wal': 'node: database',
    'apps/notes/data.sqlite': 'node: database',
    'apps/notes/data.sqlite-wal.damaged-1767323045678': 'node: database',
    'apps/_drafts/Draft-1/notes/data.sqlite-shm': 'node: database',
    'apps/notes/logs.jsonl.1': 'node: log',
    'apps/notes/backups/1.sqlite': 'node: backup',
    'apps/_registry.json': 'node: directory',
    'apps/_store.json': 'node: node',
    lock: 'node: node',
    'run/daemon.json': 'node: node',
    [`apps/notes/.${UUID}.tmp`]: 'node: unfinished',
    [`apps/notes/_chat/.${UUID}.tmp`]: 'node: unfinished',
    [`code-store/worktrees/sessions/.${UUID}/app.json`]: 'node: unfinished',
    'code-store/apps.git/refs/heads/main.lock': 'node: unfinished',
    'apps/notes/of-another-program': null,
    'apps/Notes/current.json': null,
    'somewhere/else': null,
  };
  for (const [path, owner] of Object.entries(expected)) assert.equal(whose(path), owner, path);
});

test('a subject has its own paths only, written plainly', () => {
  const notes: Subject = { kind: 'app', id: 'notes' };
  assert.ok(belongsTo('apps/notes/_chat/w1.jsonl', notes));
  for (const path of [
    'apps/tasks/_chat/w1.jsonl',
    'apps/notes/_chat/../../tasks/current.json',
    'apps/notes/_chat/./x',
    'apps/notes/_chat//x',
    'apps/notes/_chat/',
    'apps/notes/_chat/\0',
    '/apps/notes/current.json',
    'secrets.key',
    '',
  ])
    assert.ok(!belongsTo(path, notes), path);
  const draft: Subject = { kind: 'workspace', id: 'Draft-1~notes' };
  // What waits to replace a folder of a workspace is named by the workspace's record alone.
  assert.ok(belongsTo(`code-store/worktrees/sessions/.${UUID}/app.json`, draft));
  assert.ok(!belongsTo(`code-store/worktrees/sessions/.${UUID}/app.json`, notes));
});

test('an app is in its own bucket, where its database is, and what workspaces have of it too', () => {
  assert.equal(bucketOfSubject({ kind: 'app', id: 'notes' }), bucketOf('notes'));
  assert.equal(bucketOfSubject({ kind: 'workspace', id: 'Draft-1~notes' }), bucketOf('notes'));
});

test('paths are found wherever the apps and the git store of a node are, through a folder that is a link too', async (t) => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-places-')));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ['data', 'large/apps', 'store']) mkdirSync(join(folder, name), { recursive: true });
  symlinkSync(join(folder, 'large/apps'), join(folder, 'apps'));
  const places = await Places.of(new Layout(join(folder, 'data'), join(folder, 'apps'), join(folder, 'store')));
  const expected = {
    'apps/notes/current.json': join(folder, 'large/apps/notes/current.json'),
    'code-store/active-main': join(folder, 'store/active-main'),
    'journal/notes.json': join(folder, 'data/journal/notes.json'),
  };
  for (const [path, local] of Object.entries(expected)) {
    assert.equal(places.local(path), local);
    assert.equal(places.pathOf(local), path);
  }
  for (const outside of ['/etc/passwd', join(folder, 'data/apps/notes'), join(folder, 'data/code-store/active-main')])
    assert.equal(places.pathOf(outside), null);
  const bare = await Places.of(new Layout(join(folder, 'data')));
  assert.equal(bare.local('code-store/active-main'), null);
});
