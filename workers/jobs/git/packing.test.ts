import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { BackupWorkspace, packPart } from '../../../storage/backup/pack.ts';
import { isPackable, type PackLimits, packLoose } from '../../../storage/git/packing.ts';
import { contents, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { whyNoShim } from '../../../testing/shim/compile.ts';
import { CrashPlan, runOn } from '../../../testing/shim/crash.ts';
import { git } from './operations.ts';

const LIMITS: PackLimits = {
  looseObjects: 10,
  packObjects: 100,
  packBytes: 1024 * 1024,
  objectBytes: 1024 * 1024,
  joinedPacks: 4,
  joinedBytes: 4 * 1024 * 1024,
};

let store: GitFixture;
let versions: number;
beforeEach(async () => {
  store = new GitFixture();
  versions = 0;
  await store.open();
});
afterEach(() => store.remove());

const packDir = () => join(store.repository, 'objects', 'pack');
const packFiles = () => readdirSync(packDir()).sort();
const packs = () => packFiles().filter((name) => name.endsWith('.pack'));

function loose(): string[] {
  const names = readdirSync(join(store.repository, 'objects'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /^..[\\/].{38}$/.test(name)).sort();
}

const packable = (limits: Partial<PackLimits> = {}) => isPackable(store.repository, { ...LIMITS, ...limits });

const run = (limits: Partial<PackLimits> = {}) => packLoose(store.repository, { ...LIMITS, ...limits });

/** Publishes another version of the app; seven objects or so. */
async function publish(app = 'todos'): Promise<void> {
  const n = ++versions;
  const folder = store.folder({ 'app.json': `${app} ${n}`, 'same.md': 'same', 'pages/a.html': `<p>${n}` });
  const { commit } = await git.commitApp({ ...store.by, app, folder, message: 'x' });
  await git.settle({ ...store.by, app, commit, tag: { name: `${app}/v${n}`, message: 'x' } });
}

/** Every version is as it was published, for us and for git. */
async function check(app = 'todos'): Promise<void> {
  store.fsck();
  for (let n = 1; n <= versions; n++) {
    const to = store.fresh();
    await git.checkout({ repository: store.repository, app, from: `${app}/v${n}`, to });
    assert.deepEqual(contents(to), { 'app.json': `${app} ${n}`, 'same.md': 'same', 'pages/a.html': `<p>${n}` });
  }
}

describe('packing', NEEDS_GIT, () => {
  test('puts loose objects into packs of bounded size that git reads', async () => {
    for (let n = 0; n < 5; n++) await publish();
    assert.equal(packable(), true);
    const before = loose().length;
    assert.deepEqual(await run({ packObjects: 20 }), { loose: before - 20, packed: 20, joined: 0 });
    await check();
    assert.equal((await run({ packObjects: 20 })).packed, Math.min(20, before - 20));
    await run();
    assert.ok(loose().length < LIMITS.looseObjects);
    for (const name of packs()) store.git('verify-pack', `objects/pack/${name}`);
    await check();
    await publish();
    await check();
    store.git('gc', '-q', '--prune=now');
    await check();
  });

  test('is not begun for a few objects', async () => {
    await publish();
    assert.equal(packable({ looseObjects: 100 }), false);
    assert.deepEqual(await run({ looseObjects: 100 }), { loose: loose().length, packed: 0, joined: 0 });
    assert.deepEqual(packFiles(), []);
  });

  test('joins small packs, except those that git made or a user keeps', async () => {
    for (let n = 0; n < 3; n++) await publish();
    // With differences, which cannot be taken over as they are.
    store.git('repack', '-a', '-d', '-q', '-f', '--depth=10');
    const gits = packFiles();
    const made: string[] = [];
    for (let n = 0; n < LIMITS.joinedPacks + 1; n++) {
      await publish();
      await run({ looseObjects: 1, joinedPacks: 100 });
      made.push(...packFiles().filter((name) => !gits.includes(name) && !made.includes(name)));
    }
    const kept = made[0]!.replace(/\.(?:idx|pack)$/, '.keep');
    writeFileSync(join(packDir(), kept), '');
    assert.deepEqual(await run(), { loose: 0, packed: 0, joined: LIMITS.joinedPacks });
    const left = packFiles();
    for (const name of [...gits.filter((one) => /idx|pack$/.test(one)), kept, kept.replace('keep', 'pack')])
      assert.ok(left.includes(name), `${name} is there`);
    assert.equal(packs().length, 3);
    await check();
    assert.deepEqual(await run(), { loose: 0, packed: 0, joined: 0 });
  });

  test('does not join packs into one that is too large, nor where one index spans them all', async () => {
    for (let n = 0; n < LIMITS.joinedPacks; n++) {
      await publish();
      await run({ looseObjects: 1, joinedPacks: 100 });
    }
    assert.equal((await run({ joinedBytes: 100 })).joined, 0);
    store.git('multi-pack-index', 'write');
    assert.equal((await run()).joined, 0);
    rmSync(join(packDir(), 'multi-pack-index'));
    assert.equal((await run()).joined, LIMITS.joinedPacks);
    await check();
  });

  test('leaves a damaged object where it is, and packs the others', async () => {
    for (let n = 0; n < 3; n++) await publish();
    const [first = ''] = loose();
    const path = join(store.repository, 'objects', first);
    rmSync(path);
    writeFileSync(path, 'damaged');
    await run();
    assert.deepEqual(loose(), [first]);
    assert.equal(readFileSync(path, 'utf8'), 'damaged');
  });

  test('goes on beside publications and the garbage collection of git', async () => {
    let done = false;
    const repeat = async (work: () => Promise<unknown>): Promise<void> => {
      while (!done) await work();
    };
    // It gives up when an object goes into a pack between two of its looks, as beside another of its kind; the next goes through.
    const collecting = repeat(() =>
      promisify(execFile)('git', ['gc', '-q'], { cwd: store.repository }).catch(() => {}),
    );
    const packing = repeat(async () => {
      await run({ looseObjects: 1 });
      await new Promise(setImmediate);
    });
    try {
      for (let n = 0; n < 15; n++) await publish();
    } finally {
      done = true;
      await Promise.all([collecting, packing]);
    }
    await run({ looseObjects: 1 });
    await check();
    assert.deepEqual(
      packFiles().filter((name) => /keep$|^tmp_svc/.test(name)),
      [],
    );
  });

  test('does not remove from a backup objects that it has not packed yet', async () => {
    for (let n = 0; n < 5; n++) await publish();
    const folder = store.folder();
    const workspace = new BackupWorkspace(folder);
    for (const file of [workspace.files, workspace.databases]) writeFileSync(file, '');
    let looks = 0;
    const objects = join(store.repository, 'objects');
    await packPart(
      workspace,
      { sources: [{ kind: 'files', path: 'code-store/apps.git/objects', from: objects }] },
      () => {
        // In the middle of the loose ones, and once more in the middle of the packs.
        if (++looks === 6 || looks === 20) store.git('repack', '-a', '-d', '-q', looks === 6 ? '-f' : '-F');
      },
    );
    const restored = store.folder();
    spawnSync('tar', ['-xzf', workspace.archive, '-C', restored]);
    rmSync(objects, { recursive: true });
    const { status } = spawnSync('cp', ['-r', join(restored, 'code-store/apps.git/objects'), objects]);
    assert.equal(status, 0);
    await check();
  });
});

/** Packs in a process of its own, which ends right after a call that changes a file. */
function packUntil(point: string, passing = 1): void {
  const plan = CrashPlan.in(store.dir, store.repository);
  plan.set([{ point, passing, mode: 'process' }]);
  const status = runOn(
    plan,
    `import { packLoose } from '${join(import.meta.dirname, '../../../storage/git/packing.ts')}';
    await packLoose(process.env.REPOSITORY, ${JSON.stringify(LIMITS)});`,
    { REPOSITORY: store.repository },
  );
  assert.equal(status, null, 'it was killed');
  assert.equal(plan.pending(), 0, 'at the point');
}

const INDEXED = 'rename objects/pack/pack-*.idx';
const REMOVED = 'unlink objects/pack/pack-*.keep';

describe('packing that is cut off', { skip: whyNoShim() ?? NEEDS_GIT.skip }, () => {
  const points = [
    'sync objects/pack/tmp_svc_*_idx',
    'rename objects/pack/pack-*.keep',
    'rename objects/pack/pack-*.pack',
    INDEXED,
    REMOVED,
  ];
  for (const [kind, replaced] of [
    ['loose objects', 'unlink objects/*/*'],
    ['packs', 'unlink objects/pack/pack-*.pack'],
  ] as const) {
    for (const point of [...points, replaced]) {
      test(`of ${kind}, at ${point}, leaves everything, and is finished by the next run`, async () => {
        for (let n = 0; n < LIMITS.joinedPacks; n++) {
          await publish();
          if (kind === 'packs') await run({ looseObjects: 1, joinedPacks: 100 });
        }
        packUntil(point, point === replaced ? 2 : 1);
        await check();
        // As after a power cut in the middle: some are gone.
        if (point === INDEXED && kind === 'loose objects') {
          for (const name of loose().slice(0, 5)) rmSync(join(store.repository, 'objects', name));
          await check();
        }
        // The last of its steps leaves nothing to do.
        assert.equal(packable({ looseObjects: 1000, joinedPacks: 1000 }), point !== REMOVED, 'a start sees it');
        await run();
        await check();
        assert.ok(loose().length < LIMITS.looseObjects);
        assert.deepEqual(packFiles().length, 2, packFiles().join());
        assert.ok(!existsSync(join(packDir(), packFiles()[0]!.replace('.idx', '.keep'))));
      });
    }
  }

  test('keeps the replaced objects when its pack is damaged', async () => {
    for (let n = 0; n < 5; n++) await publish();
    packUntil(INDEXED);
    const before = loose();
    const [pack = ''] = packs();
    const path = join(packDir(), pack);
    const bytes = readFileSync(path);
    bytes.writeUInt8(bytes.readUInt8(60) ^ 255, 60);
    rmSync(path);
    writeFileSync(path, bytes);
    await run({ looseObjects: 1000 });
    assert.deepEqual(loose(), before);
    assert.ok(!packFiles().some((name) => name.endsWith('.keep')));
  });
});
