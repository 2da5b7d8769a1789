import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openJobs } from '../../../testing/jobs.ts';
import { gitRepository } from './git-jobs.ts';

const root = mkdtempSync(join(tmpdir(), 'git-jobs-'));
after(() => rmSync(root, { recursive: true, force: true }));

test('the repository is worked on in another thread, and its errors come back as they were', async () => {
  const { jobs, close } = await openJobs(root);
  try {
    const git = gitRepository(jobs, join(root, 'apps.git'));
    const by = { author: { name: 'svc', email: 'svc@localhost' }, at: 1_700_000_000_000 };
    const { main } = await git.openRepository(by);
    const folder = join(root, 'todos');
    mkdirSync(folder);
    writeFileSync(join(folder, 'app.json'), '{}');
    const made = await git.commitApp({ ...by, app: 'todos', folder, message: 'Publish' });
    assert.equal(made.parent, main);
    await git.settle({ ...by, app: 'todos', commit: made.commit, tag: { name: 'todos/v1', message: 'Publish' } });
    const { files } = await git.treeOf({ app: 'todos', from: 'todos/v1' });
    assert.deepEqual(
      files?.map(({ path, size }) => [path, size]),
      [['app.json', 2]],
    );
    const { content } = await git.readBlob({ sha: files?.[0]?.sha ?? '' });
    assert.equal(Buffer.from(content).toString(), '{}');
    assert.deepEqual((await git.diffApp({ app: 'todos', folder, against: 'main', since: null })).files, []);
    await assert.rejects(git.treeOf({ app: 'todos', from: 'todos/v2' }), { code: 'UNKNOWN_VERSION', status: 404 });
    const missing = 'a'.repeat(40);
    await assert.rejects(git.readBlob({ sha: missing }), { code: 'STORE_DAMAGED', message: new RegExp(missing) });
  } finally {
    await close();
  }
});
