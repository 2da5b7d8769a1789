/**
 * The database of an app is lost or damaged: the app says so and how to get out of it, nothing is made anew in its place, backups keep
 * what they have, and `svc repair` gives the app data again.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root } from '../testing/gateway.ts';

const gateway = gatewayOfSuite({ store: 'tarball' });

const notes = (id: string, migrations = ['CREATE TABLE notes (text TEXT)']) =>
  appOf(id, {
    migrations,
    queries: { list: '({ db }) => db.all("SELECT text FROM notes")', here: '() => "here"' },
    actions: {
      add: {
        run: '({ db, input }) => db.run("INSERT INTO notes VALUES (?)", input.text)',
        input: { type: 'object', properties: { text: { type: 'string' } } },
      },
    },
  });

const data = (id: string, suffix = '') => join(gateway.dataDir, 'apps', id, `data.sqlite${suffix}`);
const code = ({ status, json }: Answer) => `${status} ${json?.error?.code ?? 'ok'}`;
const list = async (id: string) => (await gateway.read(id, 'list')).json.data;
const repair = (id: string, body: unknown) => gateway.call('POST', `/svc/_apps/${id}/repair`, { body });
const record = async (id: string) => (await gateway.call('GET', `/svc/_apps/${id}`)).json;
const timesLogged = (text: string) => gateway.log.split(text).length - 1;

async function install(...ids: string[]): Promise<void> {
  for (const id of ids) {
    assert.equal((await gateway.upload(id, notes(id))).status, 201);
    assert.equal((await gateway.write(id, 'add', { text: 'kept' })).status, 200);
  }
}

/** Without SQLite: another process that opens a file of no bytes deletes the log beside it. */
const LOSSES: Record<string, { damage(id: string): void; what: string }> = {
  missing: { damage: (id) => rmSync(data(id)), what: 'is missing' },
  empty: { damage: (id) => truncateSync(data(id)), what: 'is empty' },
  blank: {
    damage: (id) => {
      rmSync(data(id));
      const db = openSqlite(data(id));
      db.pragma('journal_mode = WAL');
      db.close();
    },
    what: 'is empty',
  },
};

test('an app whose database is lost answers what to do, and nothing takes the place of what is lost', async () => {
  await install(...Object.keys(LOSSES));
  await gateway.stop();
  const before: Record<string, number> = {};
  for (const [id, { damage }] of Object.entries(LOSSES)) {
    damage(id);
    writeFileSync(data(id, '-wal'), id === 'blank' ? '' : 'what was left of it');
    before[id] = statSync(data(id), { throwIfNoEntry: false })?.size ?? -1;
  }
  await gateway.start();
  for (const [id, { what }] of Object.entries(LOSSES)) {
    for (const answer of [
      await gateway.read(id, 'list'),
      await gateway.read(id, 'here'),
      await gateway.write(id, 'add', { text: 'x' }),
      await gateway.call('POST', `/svc/_apps/${id}/sql`, { body: { sql: 'SELECT 1' } }),
      await gateway.call('POST', `/svc/_apps/${id}/copies`),
      await gateway.call('POST', `/svc/_apps/${id}/restart`),
      await gateway.upload(id, notes(id)),
      await gateway.upload(id, notes(id, ['CREATE TABLE notes (text TEXT)', 'CREATE TABLE more (x)'])),
    ]) {
      assert.equal(code(answer), '503 STORE_DAMAGED', `${id}: ${answer.text}`);
      const { message } = answer.json.error;
      assert.ok(
        message.startsWith(`The file apps/${id}/data.sqlite ${what}. Run: svc repair ${id} --restore`),
        message,
      );
      assert.match(message, /--new-data$/);
    }
    assert.equal((await gateway.call('GET', `/svc/${id}/app.json`)).status, 404, 'the pages still answer');
    assert.deepEqual((await record(id)).status, 'damaged');
    assert.match((await record(id)).damage, new RegExp(`svc repair ${id} `));
    assert.equal(timesLogged(`The file apps/${id}/data.sqlite ${what}.`), 1, 'logged once');
    assert.equal(statSync(data(id), { throwIfNoEntry: false })?.size ?? -1, before[id], 'as it was found');
    if (id !== 'blank') assert.equal(readFileSync(data(id, '-wal'), 'utf8'), 'what was left of it');
  }
});

test('svc repair begins with new data, and keeps what was there', async () => {
  const answer = await repair('empty', { newData: true });
  assert.equal(code(answer), '200 ok', answer.text);
  assert.match(answer.json.aside, /^data\.sqlite\.damaged-\d+$/);
  assert.deepEqual(answer.json.migrationsApplied, [1]);
  assert.equal(
    readFileSync(data('empty', `${answer.json.aside.slice('data.sqlite'.length)}-wal`), 'utf8'),
    'what was left of it',
  );
  assert.deepEqual(await list('empty'), []);
  assert.equal((await gateway.write('empty', 'add', { text: 'new' })).status, 200);
  assert.deepEqual(await list('empty'), [{ text: 'new' }]);
  assert.equal((await record('empty')).status, 'active');
  assert.equal(code(await repair('empty', { newData: true })), '409 CONFLICT');
  assert.equal(code(await repair('nobody', { newData: true })), '404 UNKNOWN_APP');
  for (const body of [{}, { newData: false }, { restore: 7 }, { restore: 'x', newData: true }])
    assert.equal(code(await repair('missing', body)), '400 BAD_REQUEST', JSON.stringify(body));
  await gateway.stop();
  await gateway.start();
  assert.deepEqual(await list('empty'), [{ text: 'new' }]);
});

const kept = async () =>
  (await gateway.call('GET', '/svc/_backups/files')).json as { name: string; damaged: boolean }[];

/** Lets the gateway make a backup in its folder; resolves with what it says of the last one. */
async function backUp(): Promise<{ lastSuccess: { at: number } | null; lastFailure: { message: string } | null }> {
  assert.equal((await gateway.call('POST', '/svc/_backups/files')).status, 202);
  for (;;) {
    const { json } = await gateway.call('GET', '/svc/_backups');
    if (!json.running) return json;
  }
}

test('a backup says what is lost and keeps the good ones, of which svc repair takes the data back', async () => {
  await install('backed');
  await repair('missing', { newData: true });
  await repair('blank', { newData: true });
  assert.notEqual((await backUp()).lastSuccess, null);
  const [good] = await kept();
  assert.equal((await gateway.write('backed', 'add', { text: 'later' })).status, 200);
  await gateway.stop();
  rmSync(data('backed'));
  await gateway.start();
  const { lastFailure } = await backUp();
  assert.match(lastFailure?.message ?? '', /apps\/backed\/data\.sqlite \(it is missing\)/);
  assert.match(lastFailure?.message ?? '', /older ones were kept\..*: svc repair backed --restore <backup>$/);
  const files = await kept();
  assert.deepEqual(files.map(({ damaged }) => damaged).sort(), [false, true]);
  assert.ok(files.some(({ name }) => name === good?.name));

  const folder = join(gateway.dataDir, 'backups');
  const damaged = files.find((file) => file.damaged)?.name as string;
  for (const [named, answered] of [
    ['svc-20200101T000000Z.svc-backup.tar.gz', '404 NOT_FOUND'],
    ['backups/../x', '404 NOT_FOUND'],
    [damaged, '404 NOT_FOUND'],
    [join(gateway.dataDir, 'token.bin'), '400 INVALID_BACKUP'],
  ] as const) {
    assert.equal(code(await repair('backed', { restore: named })), answered, named);
    assert.ok(!existsSync(data('backed')), named);
  }
  // A copy elsewhere, by its path, whose data is older than the live version.
  const elsewhere = join(gateway.dataDir, 'elsewhere.tar.gz');
  copyFileSync(join(folder, good?.name as string), elsewhere);
  const answer = await repair('backed', { restore: elsewhere });
  assert.equal(code(answer), '200 ok', answer.text);
  assert.deepEqual([answer.json.migrationsApplied, answer.json.aside], [[], null]);
  assert.deepEqual(await list('backed'), [{ text: 'kept' }]);
  const more = ['CREATE TABLE notes (text TEXT)', "INSERT INTO notes VALUES ('migrated')"];
  assert.equal((await gateway.upload('backed', notes('backed', more))).status, 201);
  await gateway.stop();
  truncateSync(data('backed'));
  await gateway.start();
  assert.equal(code(await gateway.read('backed', 'list')), '503 STORE_DAMAGED');
  assert.deepEqual((await repair('backed', { restore: good?.name })).json.migrationsApplied, [2]);
  assert.deepEqual(await list('backed'), [{ text: 'kept' }, { text: 'migrated' }]);
  assert.equal((await gateway.write('backed', 'add', { text: 'after' })).status, 200);
  assert.deepEqual((await backUp()).lastFailure, lastFailure, 'a good one again');
});

test('a database without a good backup: the failed one says that there is none', async () => {
  for (const { name } of await kept()) rmSync(join(gateway.dataDir, 'backups', name));
  await gateway.stop();
  truncateSync(data('backed'));
  await gateway.start();
  assert.match((await backUp()).lastFailure?.message ?? '', /there is no older good one\.$/);
  await repair('backed', { newData: true });
});

test('a damaged database is named with the way out, and logged once; the rest of the app goes on', async () => {
  await install('hurt');
  await gateway.stop();
  const bytes = readFileSync(data('hurt'));
  writeFileSync(data('hurt'), bytes.fill(0xa5, 4096));
  await gateway.start();
  for (let turn = 0; turn < 3; turn++) {
    for (const answer of [
      await gateway.read('hurt', 'list'),
      await gateway.write('hurt', 'add', { text: 'x' }),
      await gateway.call('POST', '/svc/_apps/hurt/sql', { body: { sql: 'SELECT * FROM notes' } }),
    ]) {
      assert.equal(code(answer), '503 STORE_DAMAGED', answer.text);
      assert.match(
        answer.json.error.message,
        /^The file apps\/hurt\/data\.sqlite is damaged \(.*\)\. Run: svc repair hurt /,
      );
    }
    assert.equal((await gateway.read('hurt', 'here')).json.data, 'here');
  }
  assert.equal(timesLogged('The file apps/hurt/data.sqlite is damaged'), 1);
  assert.equal((await record('hurt')).status, 'damaged');
  const more = notes('hurt', ['CREATE TABLE notes (text TEXT)', 'CREATE INDEX by_text ON notes (text)']);
  assert.equal(code(await gateway.upload('hurt', more)), '503 STORE_DAMAGED');
  assert.equal(code(await repair('hurt', { newData: true })), '200 ok');
  assert.deepEqual(await list('hurt'), []);
  assert.equal((await gateway.upload('hurt', more)).status, 201);
});

test('a database that is removed or replaced while the gateway has it open is noticed with the next connection to it', async () => {
  await install('removed', 'replaced', 'other');
  rmSync(data('removed'));
  renameSync(data('replaced'), data('replaced', '.away'));
  copyFileSync(data('other'), data('replaced'));
  for (const id of ['removed', 'replaced']) {
    // Another thread of the app connects anew.
    assert.equal((await gateway.call('POST', `/svc/_apps/${id}/restart`)).status, 200);
    const answer = await gateway.write(id, 'add', { text: 'x' });
    assert.equal(code(answer), '503 STORE_DAMAGED', answer.text);
    const what = 'was removed or replaced while the gateway had it open';
    assert.ok(answer.json.error.message.startsWith(`The file apps/${id}/data.sqlite ${what}.`), answer.text);
    assert.equal(timesLogged(`The file apps/${id}/data.sqlite ${what}.`), 1);
    assert.equal(code(await gateway.read(id, 'here')), '503 STORE_DAMAGED');
    assert.equal(code(await repair(id, { newData: true })), '200 ok');
    assert.equal((await gateway.write(id, 'add', { text: 'again' })).status, 200);
    assert.deepEqual(await list(id), [{ text: 'again' }]);
    // Nothing that was acknowledged is lost.
    const kept = readdirSync(join(gateway.dataDir, 'apps', id)).find((name) => name.startsWith('data.sqlite.removed-'));
    const db = openSqlite(join(gateway.dataDir, 'apps', id, kept ?? ''), { readonly: true });
    assert.deepEqual(db.prepare('SELECT text FROM notes').all(), [{ text: 'kept' }]);
    db.close();
  }
});

test('a backup and the doctor say of a file that was replaced while it was open', async () => {
  await install('swapped');
  rmSync(data('swapped'));
  copyFileSync(data('other'), data('swapped'));
  assert.match((await backUp()).lastFailure?.message ?? '', /apps\/swapped\/data\.sqlite \(it was removed or replaced/);
  assert.match(
    problems().join('\n'),
    /The file apps\/swapped\/data\.sqlite was removed or replaced while the gateway had it open/,
  );
  assert.equal(code(await gateway.read('swapped', 'list')), '503 STORE_DAMAGED');
  assert.equal(code(await repair('swapped', { newData: true })), '200 ok');
});

test('apps whose database is not there yet, or was made without migrations, work as ever', async () => {
  await gateway.install(
    'plain',
    appOf('plain', { queries: { none: '({ db }) => db.all("SELECT name FROM sqlite_schema")' } }),
  );
  assert.deepEqual((await gateway.read('plain', 'none')).json.data, []);
  // An app that makes its tables itself, and gets its first migration later.
  const own = (migrations: string[]) =>
    appOf('own', {
      migrations,
      actions: { make: '({ db }) => db.exec("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)")' },
    });
  await gateway.install('own', own([]));
  assert.equal((await gateway.write('own', 'make', {})).status, 200);
  assert.deepEqual((await gateway.upload('own', own(['CREATE TABLE more (x)']))).json.migrationsApplied, [1]);
  // The same id again, at once after an app with migrations was removed.
  await install('again');
  assert.equal((await gateway.call('DELETE', '/svc/_apps/again')).status, 200);
  await gateway.install('again', appOf('again', { actions: { make: '({ db }) => db.exec("CREATE TABLE t (x)")' } }));
  assert.equal((await gateway.write('again', 'make', {})).status, 200);
  // What the migrations made is in the log alone.
  await gateway.install('logged', notes('logged'));
  await gateway.write('logged', 'add', { text: 'in the log' });
  await gateway.kill();
  await gateway.start();
  assert.deepEqual(await list('logged'), [{ text: 'in the log' }]);
});

test('a log that lost commits while the gateway was down is said, and what is left of it is kept', async () => {
  await install('behind');
  for (const text of ['two', 'three']) assert.equal((await gateway.write('behind', 'add', { text })).status, 200);
  await gateway.kill();
  const { size } = statSync(data('behind', '-wal'));
  truncateSync(data('behind', '-wal'), size - 100);
  const said = /apps\/behind\/data\.sqlite lost the last page of its log, with the commits in them/;
  assert.match(problems().join('\n'), said);
  await gateway.start();
  assert.deepEqual(await list('behind'), [{ text: 'kept' }, { text: 'two' }], 'as SQLite finds it');
  assert.match((await record('behind')).damage, said);
  assert.equal(gateway.log.split(said).length - 1, 1);
  assert.match(problems().join('\n'), said);
  const kept = readdirSync(join(gateway.dataDir, 'apps/behind')).find((name) =>
    name.startsWith('data.sqlite-wal.damaged-'),
  );
  assert.equal(statSync(join(gateway.dataDir, 'apps/behind', kept ?? '')).size, size - 100);
  assert.equal((await gateway.write('behind', 'add', { text: 'four' })).status, 200);
  await gateway.stop();
  await gateway.start();
  assert.equal((await record('behind')).status, 'active', 'it was said once');
});

/** What `svc doctor` prints, and its exit code. */
function doctor(...more: string[]): {
  code: number;
  checks: { name: string; state: string; finding: string; fix?: string }[];
} {
  const args = [join(root, 'bin/svc.js'), 'doctor', '--json', '--data-dir', gateway.dataDir, ...more];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return { code: status ?? -1, checks: JSON.parse(stdout).checks };
}

const problems = (...more: string[]) => {
  const { code, checks } = doctor(...more);
  const found = checks.filter(({ state }) => state === 'problem');
  assert.equal(code, found.length > 0 ? 1 : 0);
  return found.map(({ finding, fix }) => `${finding} → ${fix}`);
};

test('svc doctor reads every database, while the gateway runs and when it is stopped', async () => {
  await install('first', 'second', 'third');
  // It is made with its first use.
  assert.equal((await gateway.call('GET', '/_svc-user/id')).status, 200);
  const whole = () => {
    assert.deepEqual(problems(), []);
    const { checks } = doctor();
    assert.ok(
      checks.some(({ name, finding }) => name === 'databases' && /^\d+ databases checked by SQLite$/.test(finding)),
    );
  };
  whole();
  await gateway.stop();
  whole();
  rmSync(data('first'));
  truncateSync(data('second'));
  writeFileSync(data('second', '-wal'), 'what was left of it');
  writeFileSync(data('third'), readFileSync(data('third')).fill(0xa5, 4096));
  const identity = readFileSync(join(gateway.dataDir, 'identity.sqlite'));
  writeFileSync(join(gateway.dataDir, 'identity.sqlite'), 'garbage '.repeat(1000));
  const check = () => {
    const found = problems();
    assert.equal(found.length, 4, found.join('\n'));
    assert.ok(found.some((text) => /^identity\.sqlite: file is not a database → Stop the gateway and move/.test(text)));
    for (const [id, what] of [
      ['first', ' is missing'],
      ['second', ' is empty'],
      ['third', ': '],
    ])
      assert.ok(
        found.some(
          (text) => text.startsWith(`apps/${id}/data.sqlite${what}`) && text.includes(`→ Run: svc repair ${id} `),
        ),
        found.join('\n'),
      );
    assert.equal(readFileSync(data('second', '-wal'), 'utf8'), 'what was left of it');
    assert.ok(!existsSync(data('first')));
  };
  check();
  await gateway.start();
  check();
  await gateway.stop();
  writeFileSync(join(gateway.dataDir, 'identity.sqlite'), identity);
  await gateway.start();
  for (const id of ['first', 'second', 'third']) assert.equal(code(await repair(id, { newData: true })), '200 ok');
  whole();
});

test('a file of an app that was cut is not served under its tag, --deep finds what differs, and a push mends it', async () => {
  const pages = (style: string) =>
    appOf('cut', {
      queries: { here: '() => "here"' },
      files: { 'index.html': '<p>Page', 'style.css': style, 'other.css': 'p { margin: 0 }' },
    });
  const style = 'p { color: red }\n'.repeat(200);
  await gateway.install('cut', pages(style));
  const blob = await gateway.call('PUT', '/svc/cut/_blobs', { body: Buffer.from('content') });
  assert.equal(blob.status, 201);
  const { activeVersion } = await record('cut');
  assert.deepEqual(problems('--deep'), []);
  await gateway.stop();
  const inVersion = (path: string) => join(gateway.dataDir, 'apps/cut/versions', activeVersion, path);
  truncateSync(inVersion('style.css'), 40);
  writeFileSync(inVersion('other.css'), 'p { margin: 9 }');
  writeFileSync(join(gateway.dataDir, 'apps/cut/_blobs', blob.json.sha256), 'changed');
  await gateway.start();
  for (const path of ['style.css', `_v/${activeVersion}/style.css`]) {
    const answer = await gateway.call('GET', `/svc/cut/${path}`);
    assert.equal(code(answer), '500 STORE_DAMAGED', answer.text);
    assert.match(answer.json.error.message, /style\.css is missing or has another size\. Push the app again/);
  }
  const found = problems('--deep');
  for (const name of [`versions/${activeVersion}/style.css`, `versions/${activeVersion}/other.css`, '_blobs/'])
    assert.ok(
      found.some((text) => text.startsWith(`apps/cut/${name}`)),
      found.join('\n'),
    );
  assert.equal(found.length, 3);
  assert.deepEqual(problems(), [], 'without --deep no file is read');
  // The same content: the damaged copy of it is not taken for it.
  const pushed = await gateway.upload('cut', pages(style));
  assert.equal(pushed.json.deduplicated, false, pushed.text);
  assert.equal((await gateway.call('GET', '/svc/cut/style.css')).text, style);
  assert.equal((await gateway.upload('cut', pages(style))).json.deduplicated, true);
});
