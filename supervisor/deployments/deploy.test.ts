import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, describe, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { writeIntent } from '../../storage/apps/journal.ts';
import { sweepTrash, sweepUploads } from '../../storage/apps/trash.ts';
import { Layout } from '../../storage/layout.ts';
import { automation } from '../../testing/apps.ts';
import { type Moments, openDeployments, version } from '../../testing/deployments.ts';

const { newDataDir, start: startWith, close } = await openDeployments();
after(close);
const start = (dataDir: string, moments: Moments = {}, versionRetention = 5) =>
  startWith(dataDir, { moments, versionRetention });

const isRejected = (code: string, path?: string) => (error: unknown) => {
  assert.ok(error instanceof SvcError, String(error));
  assert.equal(error.code, code);
  if (path !== undefined) assert.equal(error.path, path);
  return true;
};

test('a first upload registers, migrates and activates', async () => {
  const { upload, deployments, events, layout, databases } = await start(newDataDir());
  const result = await upload(version('1', 2));
  assert.deepEqual(result, {
    id: 'notes',
    versionId: result.versionId,
    activeVersion: result.versionId,
    sha256: result.sha256,
    files: 4,
    bytes: result.bytes,
    deduplicated: false,
    migrationsApplied: [1, 2],
    pruned: [],
    webhooks: [],
  });
  assert.match(result.versionId, /^v_\d{8}T\d{9}Z_[0-9a-f]{6}$/);
  assert.deepEqual(events, ['swap notes 1']);
  assert.equal(await databases.userVersion('notes'), 2);
  const { registeredAt, updatedAt, ...record } = await deployments.record('notes');
  assert.ok(registeredAt <= updatedAt + 1000);
  assert.deepEqual(record, {
    id: 'notes',
    name: 'Notes',
    version: '1',
    kind: 'app',
    backend: 'tarball',
    status: 'active',
    activeVersion: result.versionId,
    queries: 0,
    actions: 0,
    automations: 0,
  });
  assert.equal((await deployments.manifest('notes'))?.version, '1');
  assert.deepEqual(readdirSync(layout.tmpDir), []);
  assert.deepEqual(JSON.parse(readFileSync(layout.app('notes').current, 'utf8')).activeVersion, result.versionId);
});

test('an upload that is not to be activated is stored beside the active version', async () => {
  const { upload, deployments, events } = await start(newDataDir());
  const stored = await upload(version('1', 1), { activate: false });
  assert.equal(stored.activeVersion, null);
  assert.deepEqual(stored.migrationsApplied, []);
  assert.equal((await deployments.record('notes')).status, 'no_active_version');
  assert.equal(await deployments.manifest('notes'), null);
  const { versionId } = stored;
  assert.deepEqual(await deployments.activate('notes', versionId), {
    id: 'notes',
    activeVersion: versionId,
    previousVersion: null,
    migrationsAhead: [],
    webhooks: [],
  });
  assert.deepEqual(events, ['swap notes 1']);
});

test('the same content again is not stored twice, and is activated', async () => {
  const { upload, deployments, events } = await start(newDataDir());
  const first = await upload(version('1'));
  const second = await upload(version('2'));
  const again = await upload(version('1'));
  assert.deepEqual(
    [again.versionId, again.deduplicated, again.activeVersion],
    [first.versionId, true, first.versionId],
  );
  assert.deepEqual(
    (await deployments.versions('notes')).map(({ versionId, active }) => [versionId, active]),
    [
      [second.versionId, false],
      [first.versionId, true],
    ],
  );
  await upload(version('1'));
  assert.deepEqual(events, ['swap notes 1', 'swap notes 2', 'swap notes 1']);
});

test('a rollback does not change the data, and going forward again migrates nothing twice', async () => {
  const { upload, deployments, databases, layout } = await start(newDataDir());
  const old = await upload(version('1', 1));
  const next = await upload(version('2', 3));
  assert.deepEqual(next.migrationsApplied, [2, 3]);
  assert.equal(readdirSync(layout.app('notes').backupsDir).length, 1);
  await deployments.activate('notes', old.versionId);
  assert.equal(await databases.userVersion('notes'), 3);
  const { previousVersion } = await deployments.activate('notes', next.versionId);
  assert.equal(previousVersion, old.versionId);
  assert.equal(readdirSync(layout.app('notes').backupsDir).length, 1);
});

test('three backups are kept, the newest ones', async () => {
  const { upload, layout } = await start(newDataDir());
  for (let migrations = 1; migrations <= 5; migrations++) await upload(version(`${migrations}`, migrations));
  const kept = readdirSync(layout.app('notes').backupsDir).map((name) => name.replace(/^.*_/, ''));
  assert.deepEqual(kept.sort(), ['2.sqlite', '3.sqlite', '4.sqlite']);
});

test('old versions are pruned; the active one and the one before it stay', async () => {
  const { upload, deployments } = await start(newDataDir(), {}, 2);
  const [one, two, three] = [await upload(version('1')), await upload(version('2')), await upload(version('3'))];
  assert.deepEqual(three.pruned, [one.versionId]);
  await deployments.activate('notes', two.versionId);
  const four = await upload(version('4'), { activate: false });
  assert.deepEqual(four.pruned, [three.versionId]);
  assert.deepEqual(
    (await deployments.versions('notes')).map(({ version }) => version),
    ['4', '2'],
  );
});

test('a failed migration of a first upload leaves nothing, and a corrected one works', async () => {
  const { upload, deployments, layout } = await start(newDataDir());
  const broken = { 'migrations/0002_m.sql': 'INSERT INTO nothing VALUES (1);' };
  await assert.rejects(upload(version('1', 1, broken)), isRejected('MIGRATION_FAILED', 'migrations/0002_m.sql'));
  await assert.rejects(deployments.record('notes'), isRejected('UNKNOWN_APP'));
  assert.deepEqual(readdirSync(layout.appsDir), ['_registry.json']);
  assert.deepEqual(readdirSync(layout.tmpDir), []);
  await assert.rejects(upload(version('1', 1, broken)), isRejected('MIGRATION_FAILED'));
  assert.deepEqual((await upload(version('1', 2))).migrationsApplied, [1, 2]);
});

test('a failed migration of a later upload changes nothing', async () => {
  const { upload, deployments, databases, layout } = await start(newDataDir());
  const { versionId } = await upload(version('1', 1));
  await assert.rejects(
    upload(version('2', 1, { 'migrations/0002_m.sql': 'nonsense;' })),
    isRejected('MIGRATION_FAILED'),
  );
  assert.equal((await deployments.record('notes')).activeVersion, versionId);
  assert.equal((await deployments.versions('notes')).length, 1);
  assert.equal(existsSync(layout.intent('notes')), false);
  assert.equal(await databases.userVersion('notes'), 1);
});

test('after a disk failure, whether a migration is in the data is checked when no one has the file open', async () => {
  const moments: Moments = {};
  const { upload, databases, events } = await start(newDataDir(), moments);
  await upload(version('1.0.0', 1));
  moments.migrating = () => {
    events.length = 0;
    throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' });
  };
  const { userVersion } = databases;
  databases.userVersion = (app) => {
    events.push('ask');
    return userVersion(app);
  };
  await assert.rejects(upload(version('2.0.0', 2)), { code: 'SQLITE_IOERR_FSYNC' });
  assert.deepEqual(events, ['stop notes', 'close notes', 'ask']);
  delete moments.migrating;
  moments.migrated = () => {
    throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' });
  };
  events.length = 0;
  await upload(version('3.0.0', 2));
  assert.deepEqual(events, ['ask', 'stop notes', 'close notes', 'ask', 'flush notes', 'swap notes 3.0.0']);
});

test('a version that cannot be flushed after a failed commit serves, and the pointer moves when it can', async () => {
  const moments: Moments = {};
  const dataDir = newDataDir();
  const { upload, layout, events } = await start(dataDir, moments);
  await upload(version('1.0.0', 1));
  const fails = () => {
    throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' });
  };
  moments.migrated = fails;
  moments.flushing = fails;
  events.length = 0;
  await assert.rejects(upload(version('2.0.0', 2)), { code: 'SQLITE_IOERR_FSYNC' });
  assert.equal(events.at(-1), 'swap notes 2.0.0', 'the code that knows the data serves, here too');
  const failing = await start(dataDir, moments);
  assert.equal((await failing.deployments.record('notes')).version, '2.0.0');
  assert.equal(existsSync(layout.intent('notes')), true, 'it is not settled');
  const healed = await start(dataDir);
  assert.equal((await healed.deployments.record('notes')).version, '2.0.0');
  assert.equal(existsSync(layout.intent('notes')), false, 'it is');
});

test('a migration whose answer is lost counts as done when it was committed', async () => {
  const lost: Moments = {};
  const { upload, deployments, databases } = await start(newDataDir(), lost);
  await upload(version('1'));
  lost.migrated = () => {
    throw new Error('The writer is gone.');
  };
  assert.deepEqual((await upload(version('2', 2))).migrationsApplied, [1, 2]);
  lost.migrating = lost.migrated;
  await assert.rejects(upload(version('3', 3)), /writer is gone/);
  assert.equal(await databases.userVersion('notes'), 2);
  assert.equal((await deployments.record('notes')).version, '2');
});

test('half a copy of the data goes with the writer that died making it', async () => {
  const { upload, layout, databases } = await start(newDataDir());
  await upload(version('1', 1));
  databases.migrate = async (_app, _files, backupTo) => {
    writeFileSync(`${backupTo}.tmp`, 'half');
    throw new Error('The writer is gone.');
  };
  await assert.rejects(upload(version('2', 2)), /writer is gone/);
  assert.deepEqual(readdirSync(layout.app('notes').backupsDir), []);
});

test('a refused archive or id leaves nothing and changes nothing', async () => {
  const { upload, layout, deployments } = await start(newDataDir());
  await assert.rejects(upload(Buffer.from('text')), isRejected('INVALID_ARCHIVE'));
  await assert.rejects(upload(version('1'), {}, 'other'), isRejected('INVALID_MANIFEST', 'id'));
  await assert.rejects(upload(version('1'), {}, '_apps'), isRejected('RESERVED_ID'));
  await assert.rejects(upload(version('1'), {}, '../x'), isRejected('INVALID_ID'));
  const cut = new Readable({ read() {} });
  const uploading = deployments.upload('notes', cut);
  cut.push(version('1').subarray(0, 50));
  cut.destroy(new SvcError('BAD_REQUEST', 'The client went away.'));
  await assert.rejects(uploading, isRejected('BAD_REQUEST'));
  assert.deepEqual(readdirSync(layout.appsDir), ['_registry.json']);
  assert.deepEqual(readdirSync(layout.tmpDir), []);
});

test('a full disk has its own error and leaves nothing', async () => {
  const full: Moments = {};
  const { upload, layout, deployments } = await start(newDataDir(), full);
  full.staged = () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  await assert.rejects(upload(version('1')), isRejected('STORAGE_FULL'));
  assert.deepEqual(readdirSync(layout.tmpDir), []);
  await assert.rejects(deployments.record('notes'), isRejected('UNKNOWN_APP'));
});

test('versions are deleted one by one, the active one is not', async () => {
  const { upload, deployments, layout } = await start(newDataDir());
  const [old, active] = [await upload(version('1')), await upload(version('2'))];
  await assert.rejects(deployments.deleteVersion('notes', active.versionId), isRejected('VERSION_ACTIVE'));
  await assert.rejects(
    deployments.deleteVersion('notes', 'v_20260101T000000000Z_000000'),
    isRejected('UNKNOWN_VERSION'),
  );
  await assert.rejects(deployments.deleteVersion('notes', '../../x'), isRejected('UNKNOWN_VERSION'));
  await assert.rejects(deployments.activate('notes', '..'), isRejected('UNKNOWN_VERSION'));
  await assert.rejects(deployments.deleteVersion('none', active.versionId), isRejected('UNKNOWN_APP'));
  const answer = await deployments.deleteVersion('notes', old.versionId);
  assert.deepEqual(answer, { id: 'notes', versionId: old.versionId, deleted: true });
  assert.deepEqual(readdirSync(layout.app('notes').preparedDir), [active.versionId]);
});

test('the next upload removes what a first upload could not undo', async () => {
  const { upload, layout } = await start(newDataDir());
  mkdirSync(layout.app('notes').dir, { recursive: true });
  await writeIntent(layout, 'notes', { kind: 'publish', versionId: 'v', commit: null, migrations: 1 });
  await upload(version('1', 1));
  assert.deepEqual(readdirSync(layout.trashDir), []);
  assert.ok(!existsSync(layout.intent('notes')), 'it is an app now');
});

test('a removed app goes to the trash with its data, and a new one of its name starts clean', async () => {
  const { upload, deployments, layout, events, withData } = await start(newDataDir());
  await upload(version('1', 1));
  withData('notes', (db) => db.exec('INSERT INTO notes VALUES (1)'));
  assert.deepEqual(await deployments.remove('notes'), { id: 'notes', deleted: true });
  assert.deepEqual(events, ['swap notes 1', 'stop notes', 'close notes']);
  assert.deepEqual(await deployments.records(), []);
  await assert.rejects(deployments.remove('notes'), isRejected('UNKNOWN_APP'));
  const [trashed] = readdirSync(layout.trashDir);
  assert.ok(existsSync(join(layout.trashDir, trashed as string, 'data.sqlite')));

  await upload(version('1', 1));
  assert.equal(
    withData('notes', (db) => db.prepare('SELECT count(*) FROM notes').pluck().get()),
    0,
  );
  await deployments.remove('notes', { purge: true });
  assert.equal(existsSync(layout.app('notes').dir), false);
  assert.deepEqual(readdirSync(layout.trashDir), [trashed]);

  const day = 24 * 3600 * 1000;
  assert.deepEqual(await sweepTrash(layout, 7, Date.now() + 6.9 * day), []);
  assert.deepEqual(await sweepTrash(layout, 7, Date.now() + 7.1 * day), [trashed]);
});

test('a removed app is forgotten at once, and when that fails, before the next one of its name', async () => {
  const broken: Moments = {};
  const { upload, deployments, forgotten, warnings } = await start(newDataDir(), broken);
  await upload(version('1'));
  forgotten.length = 0;
  await deployments.remove('notes');
  assert.deepEqual(forgotten.splice(0), ['notes']);

  await upload(version('1'));
  forgotten.length = 0;
  broken.forgetting = () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  assert.deepEqual(await deployments.remove('notes'), { id: 'notes', deleted: true });
  assert.equal(warnings.length, 1);
  assert.deepEqual(forgotten, []);
  delete broken.forgetting;
  await upload(version('1'));
  assert.deepEqual(forgotten, ['notes']);
});

test('the error of a removal that the disk interrupts does not claim that nothing changed, and the next upload repairs it', async () => {
  const full: Moments = {};
  const { upload, deployments, layout, withData } = await start(newDataDir(), full);
  await upload(version('1', 1));
  withData('notes', (db) => db.exec('INSERT INTO notes VALUES (1)'));
  full.stopping = () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  await assert.rejects(deployments.remove('notes'), isRejected('INTERNAL'));
  assert.deepEqual(await deployments.records(), []);
  delete full.stopping;
  await upload(version('1', 1));
  assert.equal(
    withData('notes', (db) => db.prepare('SELECT count(*) FROM notes').pluck().get()),
    0,
  );
  assert.equal(readdirSync(layout.trashDir).length, 1);
});

test('all uploads of one app run one after the other', async () => {
  const { upload, deployments } = await start(newDataDir());
  const archives = Array.from({ length: 6 }, (_, i) => version(`${i}`, i % 3));
  const results = await Promise.all(archives.map((archive) => upload(archive)));
  assert.deepEqual(results.flatMap(({ migrationsApplied }) => migrationsApplied).sort(), [1, 2]);
  const versions = await deployments.versions('notes');
  assert.equal(versions.filter(({ active }) => active).length, 1);
  assert.equal(versions.length, 5);
});

describe('a version whose pointer cannot be moved after its migrations is live', () => {
  async function begin() {
    const dataDir = newDataDir();
    const moments: Moments = {};
    const gateway = await start(dataDir, moments);
    await gateway.upload(version('1', 1));
    const { current } = gateway.layout.app('notes');
    const pending = gateway.layout.intent('notes');
    const before = readFileSync(current);
    moments.migrated = () => {
      rmSync(current);
      mkdirSync(current);
    };
    gateway.events.length = 0;
    assert.deepEqual((await gateway.upload(version('2', 2))).migrationsApplied, [2]);
    assert.equal(gateway.events.at(-1), 'swap notes 2');
    assert.equal(existsSync(pending), true, 'only the intention says where the migrations lead');
    delete moments.migrated;
    /** The pointer can be written again. */
    const heal = () => {
      rmSync(current, { recursive: true });
      writeFileSync(current, before);
    };
    return { ...gateway, dataDir, pending, heal };
  }
  async function atNextStart(dataDir: string, expected: string): Promise<void> {
    const { deployments, databases, layout } = await start(dataDir);
    assert.equal((await deployments.manifest('notes'))?.version, expected);
    assert.equal(await databases.userVersion('notes'), 2);
    assert.equal(existsSync(layout.intent('notes')), false);
  }

  test('and the next start moves the pointer', async () => {
    const { dataDir, heal } = await begin();
    heal();
    await atNextStart(dataDir, '2');
  });

  test('and the next version moves it before its own, or is refused', async () => {
    const { upload, deployments, pending, dataDir, heal } = await begin();
    await assert.rejects(upload(version('3', 2)));
    assert.equal((await deployments.record('notes')).version, '2');
    heal();
    await assert.rejects(
      upload(version('3', 2, { 'migrations/0003_m.sql': 'nonsense;' })),
      isRejected('MIGRATION_FAILED'),
    );
    assert.equal(existsSync(pending), false, 'the failed one leaves the pointer at what served');
    await atNextStart(dataDir, '2');
    await upload(version('3', 2));
    await atNextStart(dataDir, '3');
  });
});

/** Where a crash may cut an upload of version 2 off, and which version must be active after the restart. */
const CRASHES: [name: string, moment: keyof Moments, change: (dataDir: string) => void, active: '1' | '2'][] = [
  ['when the archive is unpacked', 'staged', () => {}, '1'],
  ['when half of the version is in place', 'migrating', (dir) => moveCode(dir, '2'), '1'],
  ['before the migrations', 'migrating', () => {}, '1'],
  ['after the migrations', 'migrated', () => {}, '2'],
  [
    'when the pointer is half written',
    'migrated',
    (dir) => writeFileSync(join(dir, 'apps/notes/.current.json.x.tmp'), '{"act'),
    '2',
  ],
  ['before the intent is removed', 'swapping', (dir) => restoreIntent(dir), '2'],
  ['before calls are moved over', 'swapping', () => {}, '2'],
];

function codeOf(dataDir: string, name: string): string {
  const dir = new Layout(dataDir).app('notes').versionsDir;
  const found = readdirSync(dir).find(
    (id) => JSON.parse(readFileSync(join(dir, id, 'app.json'), 'utf8')).version === name,
  );
  return join(dir, found as string);
}

/** As it was before the last step of the installation. */
function moveCode(dataDir: string, name: string): void {
  renameSync(codeOf(dataDir, name), join(dataDir, 'tmp/code'));
}

function restoreIntent(dataDir: string): void {
  const layout = new Layout(dataDir);
  const { activeVersion } = JSON.parse(readFileSync(layout.app('notes').current, 'utf8'));
  const intent = { kind: 'publish', versionId: activeVersion, commit: null, migrations: 2 };
  writeFileSync(layout.intent('notes'), JSON.stringify(intent));
}

for (const [name, moment, change, active] of CRASHES) {
  test(`a crash ${name} leaves the old version or the new one, whole`, async () => {
    const dataDir = newDataDir();
    const crashed = `${dataDir}-crashed`;
    const moments: Moments = {};
    const before = await start(dataDir, moments);
    await before.upload(version('1', 1));
    before.withData('notes', (db) => db.exec('INSERT INTO notes VALUES (1)'));
    moments[moment] = () => cpSync(dataDir, crashed, { recursive: true });
    await before.upload(version('2', 2));
    change(crashed);

    const { deployments, databases, upload, layout, withData } = await start(crashed);
    await sweepUploads(layout, Date.now() + 1000);
    assert.equal((await deployments.record('notes')).version, active);
    assert.equal(await databases.userVersion('notes'), Number(active));
    assert.equal((await deployments.manifest('notes'))?.version, active);
    assert.deepEqual(readdirSync(layout.tmpDir), []);
    assert.equal(existsSync(layout.intent('notes')), false);
    const { versionsDir, preparedDir } = layout.app('notes');
    assert.equal(readdirSync(versionsDir).length, Number(active), 'a version that is not active yet goes again');
    assert.deepEqual(readdirSync(versionsDir), readdirSync(preparedDir));

    await upload(version('2', 2));
    assert.equal((await deployments.record('notes')).version, '2');
    assert.equal(await databases.userVersion('notes'), 2);
    assert.equal(
      withData('notes', (db) => db.prepare('SELECT count(*) FROM notes').pluck().get()),
      1,
    );
  });
}

for (const moment of ['staged', 'migrating', 'migrated'] as const) {
  test(`a first upload that a crash cut off (${moment}) is undone, and can be repeated`, async () => {
    const dataDir = newDataDir();
    const crashed = `${dataDir}-crashed`;
    const before = await start(dataDir, { [moment]: () => cpSync(dataDir, crashed, { recursive: true }) });
    await before.upload(version('1', 1));

    const { deployments, layout, upload } = await start(crashed);
    assert.deepEqual(await deployments.records(), []);
    assert.ok(!existsSync(layout.app('notes').dir), 'nobody would ever remove it');
    assert.deepEqual(readdirSync(layout.trashDir), [], 'it was never an app');
    assert.deepEqual((await upload(version('1', 1))).migrationsApplied, [1]);
    assert.ok(!existsSync(layout.intent('notes')), 'it is an app now');
  });
}

test('a pointer to a missing or unreadable version falls back to the newest whole one and says so', async () => {
  const dataDir = newDataDir();
  const before = await start(dataDir);
  for (const name of ['1', '2', '3']) await before.upload(version(name));
  const { current } = before.layout.app('notes');

  rmSync(codeOf(dataDir, '3'), { recursive: true });
  const second = await start(dataDir);
  assert.equal((await second.deployments.record('notes')).version, '2');
  assert.match(second.warnings.join(), /active version v_\S+ is missing/);

  for (const damage of ['', '{"activeVer', '[]', '{"activeVersion":"../../x"}']) {
    writeFileSync(current, damage);
    const third = await start(dataDir);
    assert.equal((await third.deployments.record('notes')).version, '2', damage);
    assert.equal(third.warnings.length, 1);
    assert.deepEqual((await start(dataDir)).warnings, []);
  }

  for (const name of ['1', '2']) rmSync(codeOf(dataDir, name), { recursive: true });
  const fourth = await start(dataDir);
  assert.equal((await fourth.deployments.record('notes')).status, 'no_active_version');
  assert.deepEqual(await fourth.deployments.versions('notes'), []);
});

const DAMAGES: Record<string, (path: string) => void> = {
  truncated: (path) => truncateSync(path, 9),
  empty: (path) => writeFileSync(path, ''),
  missing: (path) => rmSync(path, { recursive: true }),
  garbage: (path) => writeFileSync(path, randomBytes(statSync(path).size)),
};

/** Every file of a folder with its bytes. */
function contentOf(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      return [path, readFileSync(path, 'base64')];
    }),
  );
}

test('whatever was prepared of a version is made anew when it is damaged, and no code is lost', async () => {
  const dataDir = newDataDir();
  const before = await start(dataDir);
  const digest = {
    'automations/digest/automation.json': automation({ enabled: false }),
    'automations/digest/handler.js': 'export default async () => {};\n',
  };
  const page = { 'index.html': `<!doctype html><title>Notes</title>${'<p>Milk</p>'.repeat(200)}` };
  const older = await before.upload(version('1', 0, { ...page, ...digest }));
  const newer = await before.upload(version('2', 0, page));
  const { versionsDir, preparedDir, current } = before.layout.app('notes');
  const [code, prepared] = [contentOf(versionsDir), contentOf(preparedDir)];
  const listed = await before.deployments.versions('notes');
  const paths = Object.keys(prepared);
  assert.ok(paths.some((path) => path.endsWith('.gz')));

  const check = async (what: string): Promise<void> => {
    const after = await start(dataDir);
    assert.equal((await after.deployments.record('notes')).activeVersion, newer.versionId, what);
    assert.deepEqual(await after.deployments.versions('notes'), listed, what);
    assert.equal((await after.deployments.rollback('notes', null)).activeVersion, older.versionId, what);
    assert.deepEqual(contentOf(preparedDir), prepared, what);
    assert.deepEqual(contentOf(versionsDir), code, `no file of the code is touched: ${what}`);
    assert.deepEqual(readdirSync(after.layout.tmpDir), []);
    await after.deployments.activate('notes', newer.versionId);
  };
  for (const [how, damage] of Object.entries(DAMAGES)) {
    for (const path of paths) {
      // The size of a copy is compared, its content only by those who read it.
      if (how === 'garbage' && path.includes('/static/')) continue;
      // Versions of older releases have none.
      if (how === 'missing' && path.endsWith('/files.json')) continue;
      damage(path);
      await check(`${path} ${how}`);
    }
  }
  for (const { versionId } of listed) {
    rmSync(join(preparedDir, versionId), { recursive: true });
    await check(`prepared/${versionId} gone`);
  }
  rmSync(preparedDir, { recursive: true });
  await check('prepared gone');
  assert.ok(existsSync(current));
});

test('what was said of a version stays when other files that were prepared of it are made anew', async () => {
  const dataDir = newDataDir();
  const { upload, layout } = await start(dataDir);
  const { versionId } = await upload(version('1'), { message: 'Begin', by: 'Ann' });
  rmSync(layout.app('notes').version(versionId).validators);
  const { deployments } = await start(dataDir);
  await deployments.record('notes');
  assert.ok(existsSync(layout.app('notes').version(versionId).validators));
  const [{ message, by } = {}] = await deployments.versions('notes');
  assert.deepEqual([message, by], ['Begin', 'Ann']);
});

test('a version whose code is damaged too keeps what there is of it, and another one serves', async () => {
  const dataDir = newDataDir();
  const before = await start(dataDir);
  const first = await before.upload(version('1'));
  const second = await before.upload(version('2'));
  const { preparedDir } = before.layout.app('notes');
  const manifest = before.layout.app('notes').version(second.versionId).manifest;
  truncateSync(manifest, 9);
  rmSync(preparedDir, { recursive: true });
  const { deployments, warnings } = await start(dataDir);
  assert.equal((await deployments.record('notes')).activeVersion, first.versionId);
  assert.match(warnings.join(), /cannot be prepared from its code, which stays as it is/);
  assert.ok(existsSync(manifest));
});

test('an upload that was cut off is still removed when what was prepared of it is damaged', async () => {
  const dataDir = newDataDir();
  const crashed = `${dataDir}-crashed`;
  const moments: Moments = {};
  const before = await start(dataDir, moments);
  const { versionId } = await before.upload(version('1', 1));
  moments.migrating = () => cpSync(dataDir, crashed, { recursive: true });
  await before.upload(version('2', 2));
  rmSync(new Layout(crashed).app('notes').preparedDir, { recursive: true });
  const { deployments, layout } = await start(crashed);
  assert.deepEqual(
    (await deployments.versions('notes')).map((one) => one.versionId),
    [versionId],
  );
  assert.deepEqual(readdirSync(layout.app('notes').versionsDir), [versionId]);
});

test('an app whose prepared files cannot be made now keeps its pointer, and has them at the next try', async () => {
  const dataDir = newDataDir();
  const before = await start(dataDir);
  await before.upload(version('1'));
  const { versionId } = await before.upload(version('2'));
  rmSync(before.layout.app('notes').version(versionId).prepared, { recursive: true });
  const full = new SvcError('STORAGE_FULL', 'The disk is full; nothing was changed.');
  const moments: Moments = {
    preparing: () => {
      throw full;
    },
  };
  const { deployments } = await start(dataDir, moments);
  await assert.rejects(deployments.record('notes'), isRejected('STORAGE_FULL'));
  delete moments.preparing;
  assert.equal((await deployments.record('notes')).activeVersion, versionId);
});

test('a damaged or missing registry is rebuilt from the folders and says so', async () => {
  const dataDir = newDataDir();
  const before = await start(dataDir);
  await before.upload(version('1'));
  mkdirSync(join(before.layout.appsDir, 'no-app'));
  for (const damage of ['', '{"apps":', '[]', null]) {
    if (damage === null) rmSync(before.layout.registry);
    else writeFileSync(before.layout.registry, damage);
    const { deployments, warnings } = await start(dataDir);
    assert.deepEqual(
      (await deployments.records()).map(({ id, status }) => [id, status]),
      [['notes', 'active']],
    );
    assert.match(warnings.join(), /_registry\.json was (damaged|missing)/);
    assert.deepEqual((await start(dataDir)).warnings, []);
  }
});

test('a start with thousands of apps reads the registry only', async () => {
  const layout = new Layout(newDataDir());
  mkdirSync(layout.appsDir, { recursive: true });
  const apps = Object.fromEntries(
    Array.from({ length: 2000 }, (_, i) => [`app-${i}`, { registeredAt: '2026-01-02T00:00:00.000Z' }]),
  );
  writeFileSync(layout.registry, JSON.stringify({ apps }));
  const { registry, deployments } = await start(layout.dataDir);
  assert.equal(registry.ids().length, 2000);
  assert.equal(registry.loaded('app-7'), undefined);
  assert.equal((await deployments.records()).length, 2000);
});
