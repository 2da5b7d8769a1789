import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { onDiskSteps } from '../testing/disk-steps.ts';
import { checkFormat, type FormatStep, moveFormat } from './data-format.ts';
import { Layout } from './layout.ts';
import { openSqlite } from './sqlite.ts';

const noRoom = (error: unknown) => assert.fail(String(error));

function directory(t: TestContext): Layout {
  const folder = mkdtempSync(join(tmpdir(), 'svc-format-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return new Layout(join(folder, 'data'));
}

/** One of format 1 with two of our databases, of which one has rows in its log only, and a file. */
function older(t: TestContext): Layout {
  const layout = directory(t);
  mkdirSync(layout.appsDir, { recursive: true });
  writeFileSync(layout.profile, '{}');
  writeFileSync(layout.format, '{"format":1,"svcVersion":"0.1.0"}');
  writeFileSync(layout.registry, '{"apps":{}}');
  for (const file of [layout.runtimeDb, layout.identityDb]) {
    const db = openSqlite(file);
    db.pragma('journal_mode = WAL');
    db.exec("CREATE TABLE runs (id TEXT); INSERT INTO runs VALUES ('one'), ('two')");
    // As a kill leaves it: what was committed is in the log.
    for (const end of ['', '-wal', '-shm']) cpSync(`${file}${end}`, `${file}${end}.copy`);
    db.close();
    for (const end of ['', '-wal', '-shm']) cpSync(`${file}${end}.copy`, `${file}${end}`);
    for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}.copy`);
  }
  return layout;
}

/** Steps of releases to come, in several transactions each, which could not run twice. */
const STEPS: FormatStep[] = [
  { to: 1, files: [], run: async () => {} },
  {
    to: 2,
    files: ['runtime.sqlite', 'missing.sqlite'],
    run: async (dataDir) => {
      change(join(dataDir, 'runtime.sqlite'), 'ALTER TABLE runs ADD COLUMN state TEXT');
      change(join(dataDir, 'runtime.sqlite'), "UPDATE runs SET state = 'ok'");
    },
  },
  {
    to: 3,
    files: ['identity.sqlite', 'apps/_registry.json'],
    run: async (dataDir) => {
      change(join(dataDir, 'identity.sqlite'), 'ALTER TABLE runs RENAME TO people');
      writeFileSync(join(dataDir, 'apps/_registry.json'), '{"list":[]}');
    },
  },
];

function change(file: string, sql: string): void {
  const db = openSqlite(file);
  db.exec(sql);
  db.close();
}

function rows(file: string, table: string): unknown[] {
  const db = openSqlite(file);
  try {
    return db.prepare(`SELECT * FROM ${table} ORDER BY id`).all();
  } finally {
    db.close();
  }
}

function assertOld(layout: Layout): void {
  for (const file of [layout.runtimeDb, layout.identityDb])
    assert.deepEqual(rows(file, 'runs'), [{ id: 'one' }, { id: 'two' }]);
  assert.equal(readFileSync(layout.registry, 'utf8'), '{"apps":{}}');
}

function assertMoved(layout: Layout): void {
  assert.deepEqual(JSON.parse(readFileSync(layout.format, 'utf8')), { format: 3, svcVersion: '3.0.0' });
  assert.deepEqual(rows(layout.runtimeDb, 'runs'), [
    { id: 'one', state: 'ok' },
    { id: 'two', state: 'ok' },
  ]);
  assert.deepEqual(rows(layout.identityDb, 'people'), [{ id: 'one' }, { id: 'two' }]);
  assert.equal(readFileSync(layout.registry, 'utf8'), '{"list":[]}');
  assert.equal(existsSync(layout.formatJournal), false);
}

const stored = (layout: Layout) =>
  JSON.parse(readFileSync(layout.format, 'utf8')) as { format: number; svcVersion: string };
const move = (layout: Layout) => moveFormat(layout, stored(layout), '3.0.0', noRoom, STEPS);

test('a new directory gets the format of this release; one of before has format 0', async (t) => {
  const layout = directory(t);
  mkdirSync(layout.dataDir);
  assert.equal(await checkFormat(layout), null);
  await moveFormat(layout, null, '0.2.0', noRoom);
  assert.deepEqual(await checkFormat(layout), { format: 1, svcVersion: '0.2.0' });
  rmSync(layout.format);
  writeFileSync(layout.profile, '{}');
  const found = await checkFormat(layout);
  assert.equal(found?.format, 0);
  await moveFormat(layout, found, '0.2.0', noRoom);
  assert.deepEqual(await checkFormat(layout), { format: 1, svcVersion: '0.2.0' });
  await moveFormat(layout, { format: 1, svcVersion: '0.2.0' }, '0.3.0', noRoom);
  assert.deepEqual(readdirSync(layout.dataDir).sort(), ['format.json', 'profile.json']);
  assert.equal((await checkFormat(layout))?.svcVersion, '0.3.0');
});

test('a newer or a damaged one is refused with words, and stays as it is', async (t) => {
  const layout = older(t);
  writeFileSync(layout.format, '{"format":9,"svcVersion":"9.1.0"}');
  await assert.rejects(checkFormat(layout), {
    code: 'DATA_FORMAT',
    message:
      /format 9, written by svc 9\.1\.0; this release reads formats up to 1\..* Run svc 9\.1\.0 or newer on it, or restore/,
  });
  for (const text of ['', '{', '[]', '{"format":"1"}', '{"format":-1,"svcVersion":"1"}', '{"format":1}']) {
    writeFileSync(layout.format, text);
    const message = text.includes('svcVersion')
      ? /last is svc 1\. .*If this is that release/
      : /does not say which release/;
    await assert.rejects(checkFormat(layout), { code: 'DATA_FORMAT', message }, text);
  }
  const refused = (release: string) => ({
    code: 'DATA_FORMAT',
    message: new RegExp(`^${layout.format} is damaged\\. .*svc ${release}\\. .*remove the file: .*svc restore <file>`),
  });
  writeFileSync(layout.format, '{"format":1,"svcVersion":"1.2.3');
  mkdirSync(layout.runDir);
  writeFileSync(join(layout.runDir, 'daemon.json'), '{"pid":1,"version":"1.2.4-rc.1"}');
  await assert.rejects(checkFormat(layout), refused('1.2.4-rc.1'));
  writeFileSync(layout.format, '{"format":1,"svcVersion":"1.2.3"');
  await assert.rejects(checkFormat(layout), refused('1.2.3'));
  writeFileSync(join(layout.runDir, 'daemon.json'), '{');
  writeFileSync(layout.format, 'not JSON');
  await assert.rejects(checkFormat(layout), { message: /It does not say which release ran here last/ });
  assertOld(layout);
});

test('an older one is moved; what it changes is copied aside first, and can be put back for an older release', async (t) => {
  const layout = older(t);
  await move(layout);
  assertMoved(layout);
  const [name = '', ...more] = readdirSync(layout.migrationsDir);
  assert.match(name, /^before-format-3-\d+$/);
  assert.deepEqual(more, []);
  const copy = join(layout.migrationsDir, name);
  assert.deepEqual(readdirSync(copy).sort(), ['apps', 'format.json', 'identity.sqlite', 'runtime.sqlite']);
  // As docs/operations.md says how to go back.
  for (const file of [layout.runtimeDb, layout.identityDb])
    for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  cpSync(copy, layout.dataDir, { recursive: true });
  assertOld(layout);
  assert.deepEqual(await checkFormat(layout), { format: 1, svcVersion: '0.1.0' });
  await move(layout);
  assertMoved(layout);
});

test('a failed step changes nothing, and the next start tries again', async (t) => {
  const layout = older(t);
  const failing = [
    ...STEPS.slice(0, 2),
    { ...(STEPS[2] as FormatStep), run: async () => Promise.reject(new Error('no such table')) },
  ];
  await assert.rejects(moveFormat(layout, stored(layout), '3.0.0', noRoom, failing), {
    code: 'DATA_FORMAT',
    message: /could not be moved from format 1 to 3, and is as it was: no such table\. Run svc 0\.1\.0 on it/,
  });
  assertOld(layout);
  assert.equal(stored(layout).format, 1);
  await move(layout);
  assertMoved(layout);
});

test('after a kill at any point, the next start migrates it', async (t) => {
  const layout = older(t);
  const folder = mkdtempSync(join(tmpdir(), 'svc-format-kills-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const kills: string[] = [];
  // What is on the disk at each of these moments is what a kill leaves.
  const kill = () => {
    const dataDir = join(folder, String(kills.length));
    cpSync(layout.dataDir, dataDir, { recursive: true });
    kills.push(dataDir);
  };
  const watched = STEPS.map((step) => ({
    ...step,
    run: async (dataDir: string) => {
      kill();
      await step.run(dataDir);
      kill();
    },
  }));
  await onDiskSteps(t, kill);
  await moveFormat(layout, stored(layout), '3.0.0', noRoom, watched);
  t.mock.restoreAll();
  assertMoved(layout);
  assert.ok(kills.length >= 12, String(kills.length));
  for (const dataDir of kills) {
    const left = new Layout(dataDir);
    await move(left);
    assertMoved(left);
    assert.doesNotMatch(readdirSync(dataDir).join(), /\.sqlite\.tmp/, dataDir);
  }
});

test('half a step is undone', async (t) => {
  const layout = older(t);
  const halves = STEPS.map((step) =>
    step.to === 2
      ? { ...step, run: async (dataDir: string) => change(join(dataDir, 'runtime.sqlite'), 'DROP TABLE runs') }
      : step,
  );
  const left = `${layout.dataDir}-killed`;
  const cut = halves.map((step) =>
    step.to === 3 ? { ...step, run: async () => cpSync(layout.dataDir, left, { recursive: true }) } : step,
  );
  await moveFormat(layout, stored(layout), '3.0.0', noRoom, cut);
  const killed = new Layout(left);
  assert.equal(existsSync(killed.formatJournal), true);
  await move(killed);
  assertMoved(killed);
});
