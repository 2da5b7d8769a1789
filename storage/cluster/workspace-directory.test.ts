import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { Database } from './database.ts';
import { prepareTables } from './tables.ts';
import { WorkspaceDirectory } from './workspace-directory.ts';

const skip = whyNoPostgres() ?? false;
/** What a path may have in the place of an id, and PostgreSQL does not take. */
const NO_ID = 'a\0b';

describe('the directory of workspaces', { skip }, () => {
  let db: Database;
  let workspaces: WorkspaceDirectory;
  before(async () => {
    db = new Database([await database()], { connections: 2 });
    await prepareTables(db);
    workspaces = new WorkspaceDirectory(db);
    for (const id of ['full', 'empty', 'closed'])
      await workspaces.add({ id, name: null, base: 'a commit', createdAt: 1, unfinished: false });
    for (const part of ['full~todos', 'full~notes', 'closed~notes'])
      await db.rows(
        `INSERT INTO svc.entries (bucket, subject, path, kind, mode, size, modified) VALUES (1, $1, 'a', 'folder', 0, 0, 2)`,
        [`workspace/${part}`],
      );
    await workspaces.close('closed');
  });
  after(() => db.close());

  test('the first app of a workspace is found, for all who ask meanwhile with one question', async () => {
    const before = db.questions;
    const found = await Promise.all(['full', 'empty', 'closed', 'none'].map((id) => workspaces.firstApp(id)));
    assert.deepEqual([found, db.questions - before], [['notes', null, null, null], 1]);
    assert.deepEqual((await workspaces.all('full'))[0]?.apps, ['notes', 'todos']);
  });

  test('what no id can be is not there, and is no question', async () => {
    const before = db.questions;
    assert.equal(await workspaces.firstApp(NO_ID), null);
    assert.equal(await workspaces.find(NO_ID), null);
    assert.deepEqual(await workspaces.all(NO_ID), []);
    assert.equal(await workspaces.rename(NO_ID, 'New'), false);
    assert.equal(await workspaces.close(NO_ID), false);
    assert.equal(db.questions, before);
  });
});
