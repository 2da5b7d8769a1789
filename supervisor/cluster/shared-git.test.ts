// Copies of one repository at several nodes: objects by hash, names by compare-and-set, in a real database.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { GitJob } from '../../protocol/wire/git-jobs.ts';
import { Database } from '../../storage/cluster/database.ts';
import { beginRepository, SharedRepository } from '../../storage/cluster/shared-repository.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { Refs } from '../../storage/git/refs.ts';
import { CodeStorePaths } from '../../storage/layout.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { runGit } from '../../workers/jobs/git/operations.ts';
import type { Git } from '../deployments/store/git-operations.ts';
import { SharedGit } from './shared-git.ts';

const skip = whyNoPostgres() ?? false;
const SIGNED = { author: { name: 'A', email: 'a@example.org' }, at: 1_700_000_000_000 };

async function cluster(t: TestContext) {
  const db = new Database([await database()]);
  await prepareTables(db);
  await db.rows('UPDATE svc.buckets SET epoch = 1');
  const folder = mkdtempSync(join(tmpdir(), 'svc-shared-git-'));
  t.after(async () => {
    await db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let copies = 0;
  /** A node with an empty data directory. */
  const node = (name = 'one') => {
    const paths = new CodeStorePaths(join(folder, String(++copies)));
    mkdirSync(paths.dir);
    const local: Git = (operation, job) =>
      runGit({ operation, ...job, repository: paths.repository } as GitJob) as never;
    const shared = new SharedRepository(db);
    const fenceOf = (app: string) => ({ bucket: bucketOf(app), epoch: 1 });
    const open = () => new SharedGit({ node: name, shared, paths, tmpDir: folder, git: local, fenceOf });
    return { paths, open, git: open().run, names: () => new Refs(paths.repository).list('refs/') };
  };
  const files = (content: Record<string, string | Buffer>): string => {
    const to = mkdtempSync(join(folder, 'files-'));
    for (const [name, text] of Object.entries(content)) writeFileSync(join(to, name), text);
    return to;
  };
  const contentOf = (to: string) =>
    Object.fromEntries(readdirSync(to).map((name) => [name, readFileSync(join(to, name), 'utf8')]));
  const checkout = async (git: Git, app: string, from = 'main') => {
    const to = mkdtempSync(join(folder, 'checkout-'));
    await git('checkout', { app, from, to });
    return contentOf(to);
  };
  return { db, node, files, checkout };
}

/** Publishes as a gateway does: a commit, then its names. */
async function publish(git: Git, app: string, folder: string, at = SIGNED.at): Promise<string> {
  const { commit } = await git('commitApp', { app, folder, message: 'New', ...SIGNED, at });
  const { number } = await git('nextNumber', { app });
  await git('settle', { app, commit, tag: { name: `${app}/v${number}`, message: 'New' }, ...SIGNED, at });
  return `${app}/v${number}`;
}

test('what one node publishes every other one has, from an empty folder too, with its history', { skip }, async (t) => {
  const { node, files, checkout } = await cluster(t);
  const [one, two] = [node(), node()];
  const { main } = await one.git('openRepository', SIGNED);
  assert.equal((await two.git('openRepository', { ...SIGNED, at: 5 })).main, main);
  const large = Buffer.alloc(3 * LIMITS.sharedPieceBytes, 'svc');
  for (let at = 0; at < large.length; at += 4) large.writeUInt32BE((at * 2654435761) >>> 0, at);
  assert.equal(await publish(one.git, 'notes', files({ 'app.json': '1', 'large.woff2': large })), 'notes/v1');
  assert.equal(await publish(two.git, 'tasks', files({ 'app.json': 'tasks' })), 'tasks/v1');
  assert.equal(await publish(two.git, 'notes', files({ 'app.json': '2' })), 'notes/v2');
  const three = node();
  for (const { git } of [one, two, three]) {
    assert.deepEqual(await checkout(git, 'notes'), { 'app.json': '2' });
    assert.equal((await checkout(git, 'notes', 'notes/v1'))['app.json'], '1');
    assert.deepEqual(await checkout(git, 'tasks'), { 'app.json': 'tasks' });
  }
  assert.deepEqual(three.names(), one.names());
  await one.git('retire', { app: 'notes', tag: 'notes/v1' });
  await two.git('branch', { name: 'sessions/w', to: main });
  await three.git('treeOf', { app: 'notes', from: 'main' });
  assert.deepEqual([...three.names().keys()].sort(), [
    'refs/deleted/notes/v1',
    'refs/heads/main',
    'refs/heads/sessions/w',
    'refs/tags/notes/v2',
    'refs/tags/tasks/v1',
  ]);
});

test('nodes that publish at once each get their turn, and none loses what another one made', { skip }, async (t) => {
  const { node, files, checkout } = await cluster(t);
  const nodes = [node(), node(), node()];
  await Promise.all(nodes.map(({ git }) => git('openRepository', SIGNED)));
  const apps = ['a', 'b', 'c', 'd'];
  await Promise.all(
    apps.map(async (app, at) => {
      const { git } = nodes[at % nodes.length] as (typeof nodes)[number];
      for (const version of ['1', '2']) await publish(git, app, files({ 'app.json': version }));
    }),
  );
  for (const { git } of nodes) {
    for (const app of apps) {
      assert.deepEqual(await checkout(git, app), { 'app.json': '2' });
      assert.deepEqual((await git('versionNumbers', { app })).numbers, [1, 2]);
    }
  }
});

test('a copy whose change was not confirmed becomes what the cluster has', { skip }, async (t) => {
  const { db, node, files, checkout } = await cluster(t);
  const [one, two] = [node(), node()];
  await one.git('openRepository', SIGNED);
  await publish(one.git, 'notes', files({ 'app.json': '1' }));
  // Another node owns the app now.
  await db.rows('UPDATE svc.buckets SET epoch = 2 WHERE bucket = $1', [bucketOf('notes')]);
  await assert.rejects(publish(one.git, 'notes', files({ 'app.json': 'late' })), { code: 'STORAGE_UNAVAILABLE' });
  assert.ok(one.names().has('refs/tags/notes/v2'));
  for (const { git } of [one, two]) assert.deepEqual(await checkout(git, 'notes'), { 'app.json': '1' });
  assert.deepEqual(one.names(), two.names());
  // The same after a crash.
  await assert.rejects(publish(one.git, 'notes', files({ 'app.json': 'later' })), { code: 'STORAGE_UNAVAILABLE' });
  assert.deepEqual(await checkout(one.open().run, 'notes'), { 'app.json': '1' });
});

test('a commit is there for others before a name leads to it', { skip }, async (t) => {
  const { node, files, checkout } = await cluster(t);
  const [one, two] = [node(), node()];
  const at = one.open();
  await at.run('openRepository', SIGNED);
  const { commit } = await at.run('commitApp', {
    app: 'notes',
    folder: files({ 'app.json': '1' }),
    message: 'New',
    ...SIGNED,
  });
  await two.git('openRepository', SIGNED);
  await assert.rejects(checkout(two.git, 'notes', commit), { code: 'STORE_DAMAGED' });
  await at.share('notes', commit);
  assert.deepEqual(await checkout(two.git, 'notes', commit), { 'app.json': '1' });
  await two.git('settle', { app: 'notes', commit, tag: { name: 'notes/v1', message: 'New' }, ...SIGNED });
  assert.deepEqual(await checkout(one.git, 'notes'), { 'app.json': '1' });
});

test('a cluster that has nothing gets all of the first copy', { skip }, async (t) => {
  const { node, files, checkout } = await cluster(t);
  const [one, two] = [node(), node()];
  const alone: Git = (operation, job) =>
    runGit({ operation, ...job, repository: one.paths.repository } as GitJob) as never;
  await alone('openRepository', SIGNED);
  const { at } = SIGNED;
  for (const version of [1, 2]) await publish(alone, 'notes', files({ 'app.json': `${version}` }), at + 1000 * version);
  // With its removal the tree of before comes back, which was looked at then, and had more that was new.
  await publish(alone, 'tasks', files({ 'app.json': 'tasks' }), at + 3000);
  const removal = { app: 'tasks', ...SIGNED, at: at + 4000 };
  const { commit } = await alone('commitApp', { ...removal, folder: null, message: 'Remove' });
  await alone('settle', { ...removal, commit, tag: null });
  await one.git('openRepository', { ...SIGNED, existing: true });
  assert.deepEqual(await checkout(two.git, 'notes'), { 'app.json': '2' });
  assert.deepEqual(await checkout(two.git, 'notes', 'notes/v1'), { 'app.json': '1' });
  assert.deepEqual(two.names(), one.names());
});

test('of a cluster that one node begins, no other one gives it its first names', { skip }, async (t) => {
  const { db, node, files, checkout } = await cluster(t);
  await db.transaction((session) => beginRepository(session, 'one'));
  const two = node('two');
  await assert.rejects(two.git('openRepository', SIGNED), { name: 'ConfigError', message: /^The node one began/ });
  const one = node('one');
  await one.git('openRepository', SIGNED);
  await publish(one.git, 'notes', files({ 'app.json': '1' }));
  await two.git('openRepository', SIGNED);
  assert.deepEqual(await checkout(two.git, 'notes'), { 'app.json': '1' });
});
