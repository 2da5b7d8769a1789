import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { Snapshot } from '../../protocol/wire/jobs.ts';
import { AppPaths } from '../../storage/layout.ts';
import { appOf } from '../../testing/apps.ts';
import { withMark } from '../../testing/validators.ts';
import { makeSnapshot } from './draft-job.ts';

/** A worktree with `files`, and what takes snapshots of it. */
function setUp(
  t: TestContext,
  files: Record<string, string | Buffer> = appOf('notes', { queries: { list: '() => []' } }),
) {
  const root = mkdtempSync(join(tmpdir(), 'svc-draft-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const folder = join(root, 'worktree');
  const draft = new AppPaths(join(root, 'draft'));
  const write = (changes: Record<string, string | Buffer>): void => {
    for (const [name, content] of Object.entries(changes)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), content);
    }
  };
  write(files);
  const take = (previous: Snapshot | null = null) =>
    makeSnapshot({ app: 'notes', workspace: 's1', folder, draft: draft.dir, at: 1000, previous });
  const taken = async (previous: Snapshot | null = null): Promise<Snapshot> =>
    (await take(previous)) ?? assert.fail('nothing had changed');
  return { folder, draft, write, take, taken };
}

test('a snapshot has the files of that moment, without compressed copies, and is not taken twice', async (t) => {
  const { draft, write, take, taken } = setUp(t);
  write({ 'app.js': `${'// much\n'.repeat(1000)}`, 'index.html': '<p>one' });
  const first = await taken();
  const paths = draft.version(first.summary.versionId);
  assert.equal(readFileSync(join(paths.code, 'index.html'), 'utf8'), '<p>one');
  assert.match(readFileSync(join(paths.staticDir, 'index.html'), 'utf8'), /data-draft="s1" data-version="\w{16}"/);
  assert.deepEqual(readdirSync(paths.staticDir), ['index.html']);
  assert.equal(await take(first), null);
});

test('the newest two are kept, each with a different id', async (t) => {
  const { draft, write, taken } = setUp(t);
  mkdirSync(draft.version('v_20200101T000000000Z_abcdef').code, { recursive: true });
  const first = await taken();
  write({ 'a.css': 'a' });
  const second = await taken(first);
  write({ 'a.css': 'b' });
  const third = await taken(second);
  const kept = [second, third].map(({ summary }) => summary.versionId);
  assert.deepEqual(readdirSync(draft.versionsDir).sort(), kept);
  assert.deepEqual(readdirSync(draft.preparedDir).sort(), kept);
});

test('validators are compiled again when a schema changes, and only then', async (t) => {
  const { draft, write, taken } = setUp(t);
  const first = await taken();
  const of = ({ summary }: Snapshot): string => draft.version(summary.versionId).validators;
  const marked = withMark(readFileSync(of(first), 'utf8'), '// not compiled again\n');
  writeFileSync(of(first), marked);
  write({ 'a.css': 'a' });
  const second = await taken(first);
  assert.equal(readFileSync(of(second), 'utf8'), marked);
  write(
    appOf('notes', { queries: { list: { run: '() => []', input: { type: 'object' } } } }) as Record<string, string>,
  );
  const third = await taken(second);
  assert.match(readFileSync(of(third), 'utf8'), /exports\.queries\["list"\]/);
});

test('files that an upload would refuse are refused, and leave nothing', async (t) => {
  const { folder, draft, write, take } = setUp(t);
  const refused = async (code: string, path?: string): Promise<void> => {
    await assert.rejects(take(), (error: { code?: string; path?: string }) => {
      assert.equal(error.code, code);
      if (path !== undefined) assert.equal(error.path, path);
      return true;
    });
    assert.deepEqual(existsSync(draft.versionsDir) ? readdirSync(draft.versionsDir) : [], []);
  };
  const without = (name: string): void => rmSync(join(folder, name), { recursive: true });
  write({ 'run.exe': '' });
  await refused('ARCHIVE_EXTENSION', 'run.exe');
  without('run.exe');
  write({ 'big.json': Buffer.alloc(LIMITS.archiveFileBytes + 1) });
  await refused('ARCHIVE_TOO_LARGE', 'big.json');
  without('big.json');
  symlinkSync('..', join(folder, 'up'));
  await refused('ARCHIVE_ENTRY_TYPE', 'up');
  without('up');
  execFileSync('mkfifo', [join(folder, 'pipe.js')]);
  await refused('ARCHIVE_ENTRY_TYPE', 'pipe.js');
  without('pipe.js');
  // No separator here: it is not taken for the `b.js` of a folder `a`.
  write({ 'a\\b.js': '' });
  await refused('ARCHIVE_PATH', 'a\\b.js');
  without('a\\b.js');
  write({ 'migrations/2_x.sql': '' });
  await refused('INVALID_MIGRATION', 'migrations/2_x.sql');
  without('migrations');
  without('queries/list.js');
  await refused('INVALID_MANIFEST', 'queries[0].name');
  without('app.json');
  await refused('INVALID_MANIFEST');
  rmSync(folder, { recursive: true });
  await refused('INVALID_MANIFEST');
});

test('automations stay as their author wrote them', async (t) => {
  const { draft, taken } = setUp(
    t,
    appOf('notes', {
      automations: { hook: { run: '() => ({})', triggers: [{ kind: 'webhook', slug: 'in', pending: true }] } },
    }),
  );
  const { summary } = await taken();
  assert.match(readFileSync(draft.version(summary.versionId).automation('hook'), 'utf8'), /"pending":true/);
  assert.equal(summary.automations, 1);
});
