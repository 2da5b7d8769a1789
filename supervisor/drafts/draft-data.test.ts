import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeSeed } from '../../storage/authoring/draft-seed.ts';
import { AppPaths } from '../../storage/layout.ts';
import { standIn } from '../../testing/stand-in.ts';
import { DraftData } from './draft-data.ts';

const FIRST = { name: '0001_first.sql', sha256: '1' };
const SECOND = { name: '0002_second.sql', sha256: '2' };
let root: string;
let draft: AppPaths;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-draft-data-'));
  draft = new AppPaths(root);
  await writeFile(draft.data, 'rows of the draft');
});

after(() => rm(root, { recursive: true, force: true }));

/** The data as a gateway finds it that has just started; `userVersion` is that of the data. */
function dataAt(userVersion: number): { data: DraftData; done: string[] } {
  const done: string[] = [];
  const data = new DraftData({
    key: 'a/b',
    share: async () => {},
    draft,
    live: new AppPaths(join(root, 'live')),
    databases: standIn({
      userVersion: async () => userVersion,
      migrate: async (_key, files) => {
        done.push(...files.map(({ name }) => `migrated ${name}`));
        return files.map(({ name }) => Number.parseInt(name, 10));
      },
      detach: async () => {},
      settle: async () => {},
    }),
    jobs: standIn({
      seed: async () => {
        done.push('copied');
        return { userVersion: 1 };
      },
    }),
    release: async () => {},
    say: () => {},
  });
  return { data, done };
}

test('migrations without their record after a crash are counted, and no row of the draft is lost', async () => {
  await writeSeed(draft, { userVersion: 1, applied: [], applying: [SECOND] });
  const { data, done } = dataAt(2);
  assert.deepEqual(await data.fitTo([FIRST, SECOND], root), { seeded: false, migrationsApplied: [] });
  assert.deepEqual(done, []);
});

test('interrupted migrations are applied again, to the same rows', async () => {
  await writeSeed(draft, { userVersion: 1, applied: [], applying: [SECOND] });
  const { data, done } = dataAt(1);
  assert.deepEqual(await data.fitTo([FIRST, SECOND], root), { seeded: false, migrationsApplied: [2] });
  assert.deepEqual(done, ['migrated 0002_second.sql']);
});

test('data that fits no record is copied again', async () => {
  await writeSeed(draft, { userVersion: 1, applied: [], applying: [SECOND] });
  const { data, done } = dataAt(3);
  assert.equal((await data.fitTo([FIRST, SECOND], root)).seeded, true);
  assert.deepEqual(done, ['copied', 'migrated 0002_second.sql']);
});
