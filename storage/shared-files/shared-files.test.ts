/** Files in a real PostgreSQL: what one data directory had is what another one gets, and nothing else is touched. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, test } from 'node:test';
import { root } from '../../testing/gateway.ts';
import { database, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { FileTables } from '../../testing/shared-files.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Layout } from '../layout.ts';
import { Fenced, SharedFiles } from './shared-files.ts';
import { bucketOfSubject, nameOf, type Subject } from './subjects.ts';

const skip = whyNoPostgres() ?? false;
const NOTES: Subject = { kind: 'app', id: 'notes' };
const DRAFT: Subject = { kind: 'workspace', id: 'Draft-1~notes' };
const COMMIT = 'c'.repeat(40);

const folder = mkdtempSync(join(tmpdir(), 'svc-shared-files-'));
const opened: FileTables[] = [];
after(async () => {
  await Promise.allSettled(opened.map((tables) => tables.close()));
  rmSync(folder, { recursive: true, force: true });
});

async function cluster(url?: string): Promise<FileTables> {
  const tables = await FileTables.make(url ?? (await database()));
  opened.push(tables);
  return tables;
}

let nodes = 0;
/** A node with an empty data directory, or with an earlier one's. */
function node(tables: FileTables, dataDir = join(folder, `node-${++nodes}`)) {
  const layout = new Layout(dataDir, undefined, 'code-store');
  mkdirSync(dataDir, { recursive: true });
  const put = (path: string, content: string | Buffer = path, mode = 0o600): void => {
    const to = join(dataDir, path);
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    writeFileSync(to, content);
    chmodSync(to, mode);
  };
  return { dataDir, layout, files: new SharedFiles(layout, tables), put };
}

/** Everything below the folder: kinds, permissions, contents, times of files and what links lead to. */
function everythingIn(dir: string): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  const look = (path: string): void => {
    for (const name of readdirSync(path).sort()) {
      const at = join(path, name);
      const stats = lstatSync(at, { bigint: true });
      const mode = (stats.mode & 0o777n).toString(8);
      const key = relative(dir, at);
      if (stats.isSymbolicLink()) found[key] = `→ ${readlinkSync(at)}`;
      else if (stats.isDirectory()) {
        found[key] = mode;
        look(at);
      } else found[key] = [mode, stats.mtimeNs / 1_000_000n, readFileSync(at).toString('base64')];
    }
  };
  look(dir);
  return found;
}

/** The app as a gateway stores it, its code on the git store; and files of the node alone. */
function fill({ dataDir, put }: ReturnType<typeof node>): void {
  put('apps/notes/current.json', '{"activeVersion":"notes/v1"}');
  put('apps/notes/settings.json', '{}');
  put('apps/notes/secrets.json', '{"secrets":{}}');
  put(`apps/notes/_blobs/${'b'.repeat(64)}`, Buffer.from([0, 255, 1]));
  put('apps/notes/prepared/v1/version.json', '{}');
  put('apps/notes/prepared/v1/empty', '');
  put('journal/notes.json', '{}');
  const code = `code-store/worktrees/main/${COMMIT}/apps/notes`;
  put(`${code}/app.json`, '{"id":"notes"}');
  for (const name of ['a b', 'ünï ✓', 'quo\'te"', 'back\\slash', 'new\nline', '%_$1', '-rf', '…'.repeat(80)])
    put(`${code}/${name}/file`, name);
  put(`${code}/tool.sh`, '#!/bin/sh', 0o700);
  put(`${code}/fixed.txt`, 'fixed', 0o400);
  mkdirSync(join(dataDir, code, 'empty/folder'), { recursive: true });
  mkdirSync(join(dataDir, 'apps/notes/versions'));
  symlinkSync(`../../../${code}`, join(dataDir, 'apps/notes/versions/v1'));
  utimesSync(join(dataDir, 'apps/notes/settings.json'), 1_700_000_000.123, 1_700_000_000.123);
}

function fillNode({ put }: ReturnType<typeof node>): void {
  for (const path of [
    'token.bin',
    'secrets.key',
    'runtime.sqlite',
    'apps/notes/data.sqlite',
    'apps/notes/data.sqlite-wal',
  ])
    put(path);
  put('apps/notes/logs.jsonl');
  put(`apps/notes/.${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}.tmp`);
}

const ownOf = (tables: FileTables, subject: Subject) =>
  tables.pool.query('SELECT * FROM svc.entries WHERE subject = $1 ORDER BY path', [nameOf(subject)]);

/** Makes the next store of the subject wait where it has checked the epoch and writes its entries; `go` lets it go on. */
async function holdStore(tables: FileTables, subject: Subject, path: string) {
  const client = await tables.pool.connect();
  await client.query('BEGIN');
  // Whoever writes the same row waits for the end of this transaction.
  await client.query(
    'INSERT INTO svc.entries (bucket, subject, path, kind, mode, size, modified) VALUES ($1, $2, $3, $4, 0, 0, 0)',
    [bucketOfSubject(subject), nameOf(subject), path, 'folder'],
  );
  const waiting = `pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query LIKE '%INSERT INTO svc.entries%'`;
  return {
    isHeld: () => eventually(LIMIT_MS, async () => (await tables.count(waiting)) > 0),
    go: async () => {
      await client.query('ROLLBACK');
      client.release();
    },
  };
}

test('another data directory gets the same files, with modes, times, links, empty folders and any names', {
  skip,
}, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  fill(one);
  one.put(`apps/notes/_blobs/${'a'.repeat(64)}`, randomBytes(50 * 2 ** 20));
  const was = everythingIn(one.dataDir);
  fillNode(one);
  await one.files.store(NOTES, 1);
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), was);
  // Once more, on what it has.
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), was);
  // A workspace's files are not the app's.
  assert.deepEqual((await ownOf(tables, DRAFT)).rows, []);
});

test('a node with its apps and its git store elsewhere gets the same, and its links lead there', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  await one.files.store(NOTES, 1);
  const place = join(folder, `elsewhere-${++nodes}`);
  const layout = new Layout(join(place, 'data'), join(place, 'disk/apps'), join(place, 'store'));
  await new SharedFiles(layout, tables).fetch(NOTES);
  assert.equal(readFileSync(join(place, 'disk/apps/notes/versions/v1/app.json'), 'utf8'), '{"id":"notes"}');
  assert.equal(
    realpathSync(join(place, 'disk/apps/notes/versions/v1')),
    realpathSync(join(place, `store/worktrees/main/${COMMIT}/apps/notes`)),
  );
  assert.equal(readFileSync(join(place, 'data/journal/notes.json'), 'utf8'), '{}');
  // On the tarball store there is no place for the code.
  const bare = new SharedFiles(new Layout(join(place, 'bare')), tables);
  await assert.rejects(bare.fetch(NOTES), { code: 'NO_GIT_STORE' });
});

test('a fetch takes away what is not stored any more, and leaves what is of the node alone', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  fill(one);
  await one.files.store(NOTES, 1);
  fill(two);
  fillNode(two);
  const own = ['token.bin', 'secrets.key', 'runtime.sqlite', 'apps/notes/data.sqlite', 'apps/notes/logs.jsonl'];
  two.put('apps/notes/_chat/wold.jsonl');
  two.put('apps/notes/_attachments', 'a file where a folder belongs');
  two.put('apps/other/settings.json');
  two.put('apps/notes/settings.json', '[]');
  rmSync(join(two.dataDir, 'apps/notes/prepared'), { recursive: true });
  symlinkSync(folder, join(two.dataDir, 'apps/notes/prepared'));
  one.put(`apps/notes/_attachments/${'a'.repeat(64)}`);
  await one.files.store(NOTES, 1);
  await two.files.fetch(NOTES);
  const left = everythingIn(two.dataDir);
  for (const path of [...own, 'apps/notes/data.sqlite-wal', 'apps/other', 'apps/other/settings.json']) {
    assert.ok(path in left, path);
    delete left[path];
  }
  assert.deepEqual(left, everythingIn(one.dataDir));
});

test('only what changed is sent, and nothing is asked when nothing changed', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  for (let n = 0; n < 200; n++) one.put(`apps/notes/prepared/v1/static/${n}`, randomBytes(1000));
  await one.files.store(NOTES, 1);
  assert.ok(tables.bytes > 200_000);

  const { statements, bytes } = tables;
  await one.files.store(NOTES, 1);
  assert.deepEqual([tables.statements, tables.bytes], [statements, bytes]);

  one.put('apps/notes/prepared/v1/static/7', 'x'.repeat(300));
  await one.files.store(NOTES, 1);
  assert.deepEqual([tables.statements - statements, tables.bytes - bytes], [1, 300]);

  // The same content under another name is there already; and a change that shows in no size and no time is found.
  renameSync(
    join(one.dataDir, 'apps/notes/prepared/v1/static/8'),
    join(one.dataDir, 'apps/notes/prepared/v1/static/new'),
  );
  const path = join(one.dataDir, 'apps/notes/settings.json');
  const { mtime } = statSync(path);
  writeFileSync(path, '[]');
  utimesSync(path, mtime, mtime);
  await one.files.store(NOTES, 1);
  assert.deepEqual([tables.statements - statements, tables.bytes - bytes], [2, 302]);
  const two = node(tables);
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));

  // A fetch reuses what is the same.
  one.put('apps/notes/prepared/v1/static/9', 'y');
  await one.files.store(NOTES, 1);
  const same = statSync(join(two.dataDir, 'apps/notes/prepared/v1/static/10')).ino;
  await two.files.fetch(NOTES);
  assert.equal(statSync(join(two.dataDir, 'apps/notes/prepared/v1/static/10')).ino, same);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('a store with an old epoch changes nothing and says that it is fenced; so does a removal', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  await one.files.store(NOTES, 1);
  const before = await ownOf(tables, NOTES);
  await tables.pool.query('UPDATE svc.buckets SET epoch = 2 WHERE bucket = $1', [bucketOfSubject(NOTES)]);
  one.put('apps/notes/settings.json', '{"colour":"red"}');
  one.put(`apps/notes/_blobs/${'d'.repeat(64)}`, randomBytes(3 * 2 ** 20));
  const contents = await tables.count('svc.contents');
  for (const change of [one.files.store(NOTES, 1), one.files.remove(NOTES, 1)])
    await assert.rejects(change, (error) => error instanceof Fenced && error.code === 'STORAGE_UNAVAILABLE');
  assert.deepEqual((await ownOf(tables, NOTES)).rows, before.rows);
  assert.equal(await tables.count('svc.contents'), contents);
  // The owner of now stores what it has, whatever the one before had.
  const two = node(tables);
  two.put('apps/notes/settings.json', '{"colour":"blue"}');
  await two.files.store(NOTES, 2);
  const three = node(tables);
  await three.files.fetch(NOTES);
  assert.deepEqual(everythingIn(three.dataDir), everythingIn(two.dataDir));
});

test('a change of owner waits for the store under way, which is there afterwards', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  const held = await holdStore(tables, NOTES, 'apps/notes/current.json');
  const stored = one.files.store(NOTES, 1);
  assert.ok(await held.isHeld());
  const taken = tables.pool.query('UPDATE svc.buckets SET epoch = 2 WHERE bucket = $1', [bucketOfSubject(NOTES)]);
  const waits = `pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query LIKE 'UPDATE svc.buckets%'`;
  assert.ok(await eventually(LIMIT_MS, async () => (await tables.count(waits)) > 0));
  await held.go();
  await stored;
  await taken;
  assert.ok((await ownOf(tables, NOTES)).rows.length > 0);
});

test('stores at once are joined, and each has what was there when it was asked for', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  await one.files.store(NOTES, 1);
  const { statements } = tables;
  const stores: Promise<void>[] = [];
  for (let n = 0; n < 50; n++) {
    one.put(`apps/notes/_chat/w${n}.jsonl`, String(n));
    stores.push(one.files.store(NOTES, 1));
  }
  await Promise.all(stores);
  assert.ok(tables.statements - statements <= 2, `${tables.statements - statements} statements for 50 stores`);
  assert.equal((await ownOf(tables, NOTES)).rows.filter(({ path }) => path.includes('_chat/')).length, 50);
});

test('what is stored was on the disk at one moment, while files change one after the other', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  for (let n = 0; n < 300; n++) one.put(`apps/notes/prepared/v1/static/${n}`, String(n));
  // As versions are made: first what is prepared, then the code; and the pointer in between must never be ahead.
  const order = ['prepared/v2/version.json', 'versions/v2/app.json', 'current.json'];
  let at = 0;
  let isOver = false;
  const changes = (async () => {
    for (; !isOver; at++) {
      for (const path of order) {
        one.put(`apps/notes/${path}`, String(at));
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (at % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 300));
    }
  })();
  for (let round = 0; round < 5; round++) {
    await one.files.store(NOTES, 1);
    await two.files.fetch(NOTES);
    const [first, second, third] = order.map((path) =>
      Number(readFileSync(join(two.dataDir, 'apps/notes', path), 'utf8')),
    );
    assert.ok(first! >= second! && second! >= third! && first! - third! <= 1, `${first} ${second} ${third}`);
  }
  isOver = true;
  await changes;
});

test('a workspace is stored with its drafts and with folders that wait to replace others', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  const waiting = '.00000000-0000-0000-0000-000000000001';
  const sessions = 'code-store/worktrees/sessions';
  const record = { createdAt: new Date(0).toISOString(), base: COMMIT, apps: { notes: { base: null, from: waiting } } };
  one.put(`${sessions}/Draft-1~notes/session.json`, JSON.stringify(record));
  one.put(`${sessions}/Draft-1~notes/apps/notes/app.json`);
  symlinkSync('app.json', join(one.dataDir, sessions, 'Draft-1~notes/apps/notes/inside'));
  one.put(`${sessions}/${waiting}/app.json`, 'the next files');
  one.put(`${sessions}/.aside.Draft-1~notes.notes/app.json`, 'put aside');
  one.put(`apps/_drafts/Draft-1/notes/settings.json`);
  one.put(`apps/_drafts/Draft-1/notes/_blobs/${'e'.repeat(64)}.deleted`, '');
  const was = everythingIn(one.dataDir);
  one.put(`apps/_drafts/Draft-1/notes/data.sqlite`);
  one.put(`${sessions}/.00000000-0000-0000-0000-000000000002/app.json`, 'of another');
  // Links that lead out mean something on this machine alone.
  symlinkSync('/etc/passwd', join(one.dataDir, sessions, 'Draft-1~notes/apps/notes/outside'));
  symlinkSync('../../../../apps.git', join(one.dataDir, sessions, 'Draft-1~notes/apps/notes/history'));
  await one.files.store(DRAFT, 1);
  await two.files.fetch(DRAFT);
  assert.deepEqual(everythingIn(two.dataDir), was);
});

test('hostile entries are refused, and nothing is written for them', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  fill(one);
  await one.files.store(NOTES, 1);
  const { rows } = await tables.pool.query("SELECT * FROM svc.entries WHERE path = 'apps/notes/settings.json'");
  const settings = rows[0];
  const outside = join(folder, 'outside');
  const hostile: [string, Record<string, unknown>][] = [
    ['..', { path: 'apps/notes/_blobs/../../../../outside' }],
    ['an absolute path', { path: outside }],
    ['the key of the node', { path: 'token.bin' }],
    ['a database', { path: 'apps/notes/data.sqlite' }],
    ['another app', { path: 'apps/other/settings.json' }],
    ['a name that is empty', { path: 'apps/notes/_blobs//x' }],
    ['a file below a file', { path: 'apps/notes/settings.json/x' }],
    ['a file below a link', { path: 'apps/notes/versions/v1/x' }],
    ['a file without its folder', { path: 'apps/notes/_chat/deep/x' }],
    [
      'a link that leads out',
      { path: 'apps/notes/versions/v2', kind: 'link', hash: null, mode: 0o777, target: '../../..' },
    ],
    ['a link to a path of the machine', { path: 'apps/notes/versions/v2', kind: 'link', hash: null, target: '/etc' }],
    [
      'a link to another app',
      { path: 'apps/notes/versions/v2', kind: 'link', hash: null, target: 'apps/other/versions' },
    ],
    ['a bit that makes programs run as others', { path: 'apps/notes/_chat/x', mode: 0o4755 }],
    ['an unknown kind', { path: 'apps/notes/removed.json', kind: 'device' }],
    ['a file without a content', { path: 'apps/notes/removed.json', hash: null }],
  ];
  for (const [what, change] of hostile) {
    const row = { ...settings, ...change };
    const columns = Object.keys(row);
    await tables.pool.query(
      `INSERT INTO svc.entries (${columns.join(', ')}) VALUES (${columns.map((_, n) => `$${n + 1}`).join(', ')})`,
      Object.values(row),
    );
    await assert.rejects(two.files.fetch(NOTES), { code: 'STORE_DAMAGED' }, what);
    await tables.pool.query('DELETE FROM svc.entries WHERE path = $1', [row.path]);
    assert.deepEqual(everythingIn(two.dataDir), {}, what);
  }
  assert.ok(!existsSync(outside));
});

test('a damaged or missing piece is an error that names the file, and the files of the node stay', {
  skip,
}, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  one.put('apps/notes/settings.json', 'the first');
  await one.files.store(NOTES, 1);
  await two.files.fetch(NOTES);
  const was = everythingIn(two.dataDir);
  const blob = `apps/notes/_blobs/${'f'.repeat(64)}`;
  one.put('apps/notes/settings.json', 'the second');
  one.put(blob, randomBytes(5 * 2 ** 20 + 1));
  await one.files.store(NOTES, 1);
  const large = `hash = (SELECT hash FROM svc.entries WHERE path = '${blob}')`;
  const keep = await tables.pool.query(`SELECT * FROM svc.contents WHERE ${large} AND piece = 3`);
  for (const damage of [
    `UPDATE svc.contents SET bytes = set_byte(bytes, 7, (get_byte(bytes, 7) + 1) % 256) WHERE ${large} AND piece = 3`,
    `UPDATE svc.contents SET bytes = substring(bytes FROM 2) WHERE ${large} AND piece = 3`,
    `DELETE FROM svc.contents WHERE ${large} AND piece = 3`,
  ]) {
    await tables.pool.query(damage);
    await assert.rejects(two.files.fetch(NOTES), { code: 'STORE_DAMAGED', message: new RegExp(blob) });
    const after = everythingIn(two.dataDir);
    delete after['apps/notes/_blobs'];
    assert.deepEqual(after, was);
    await tables.pool.query(`DELETE FROM svc.contents WHERE ${large} AND piece = 3`);
    const { hash, piece, bytes } = keep.rows[0];
    await tables.pool.query('INSERT INTO svc.contents VALUES ($1, $2, $3)', [hash, piece, bytes]);
  }
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('a fetch that is killed at any step is done by the next one', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  fill(one);
  fill(two);
  for (let n = 0; n < 20; n++) one.put(`apps/notes/_chat/w${n}.jsonl`, `new ${n}`.repeat(20_000));
  one.put(`apps/notes/_blobs/${'f'.repeat(64)}`, randomBytes(3 * 2 ** 20));
  one.put('apps/notes/settings.json', 'new');
  for (let n = 0; n < 5; n++) two.put(`apps/notes/_chat/w${n}.jsonl`, 'old');
  await one.files.store(NOTES, 1);
  const [url] = tables.urls;
  const steps = [
    ['rename', 1],
    ['rename', 8],
    ['utimes', 5],
    ['open', 12],
    ['open', 15],
  ] as const;
  const same = [
    'current.json',
    'secrets.json',
    `_blobs/${'b'.repeat(64)}`,
    'prepared/v1/version.json',
    'prepared/v1/empty',
  ];
  for (const [step, times] of steps) {
    // Of other times, so that each child has them to set.
    for (const name of same) utimesSync(join(two.dataDir, 'apps/notes', name), 1_600_000_000, 1_600_000_000);
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', FETCH], {
      cwd: root,
      env: { ...process.env, URL_OF: url, DATA: two.dataDir, STEP: step, TIMES: String(times) },
      stdio: 'inherit',
    });
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL'], `${step} ${times}`);
    // As it was before, so that the next child has as much to do.
    two.put('apps/notes/settings.json', 'old');
    for (let n = 0; n < 20; n++) two.put(`apps/notes/_chat/w${n}.jsonl`, 'old');
  }
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

/** Dies when it is about to do a step on the disk for the nth time. */
const FETCH = `
  import promises from 'node:fs/promises';
  import { syncBuiltinESMExports } from 'node:module';
  const { URL_OF, DATA, STEP, TIMES } = process.env;
  let left = Number(TIMES);
  const step = promises[STEP];
  promises[STEP] = (...given) => {
    const isOurs = STEP !== 'open' || given[1] === 'wx';
    if (isOurs && --left === 0) process.kill(process.pid, 'SIGKILL');
    return step(...given);
  };
  syncBuiltinESMExports();
  const { Layout } = await import('./storage/layout.ts');
  const { SharedFiles } = await import('./storage/shared-files/shared-files.ts');
  const { Database } = await import('./storage/cluster/database.ts');
  await new SharedFiles(new Layout(DATA, undefined, 'code-store'), new Database([URL_OF])).fetch({ kind: 'app', id: 'notes' });
  process.exit(0);
`;

test('contents that nobody names go, and never one that a store under way needs', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  const large = randomBytes(2 * 2 ** 20);
  const blob = (name: string) => `apps/notes/_blobs/${name.repeat(64)}`;
  one.put(blob('a'), large);
  one.put(blob('b'), 'small');
  await one.files.store(NOTES, 1);
  for (const name of ['a', 'b']) rmSync(join(one.dataDir, blob(name)));
  await one.files.store(NOTES, 1);
  const pieces = await tables.count('svc.contents');
  assert.equal(pieces, 3);

  // It found the large content in the database, and has not named it yet.
  const held = await holdStore(tables, NOTES, blob('c'));
  one.put(blob('c'), large);
  const stored = one.files.store(NOTES, 1);
  assert.ok(await held.isHeld());
  assert.deepEqual(await one.files.sweep(), { removed: 1, isRound: true });
  assert.equal(await tables.count('svc.contents'), 2);
  await held.go();
  await stored;
  assert.deepEqual(await one.files.sweep(), { removed: 0, isRound: true });
  const two = node(tables);
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('apps that store, remove and sweep at once never lose a content that one of them has', { skip }, async () => {
  const tables = await cluster();
  const subjects = Array.from({ length: 6 }, (_, n): Subject & { kind: 'app' } => ({ kind: 'app', id: `app-${n}` }));
  const one = node(tables);
  let isOver = false;
  const sweeps = (async () => {
    while (!isOver) await one.files.sweep();
  })();
  await Promise.all(
    subjects.map(async (subject, of) => {
      for (let n = 0; n < 25; n++) {
        // Contents that the others have, had, or are about to have.
        one.put(`apps/${subject.id}/_chat/w1.jsonl`, `${(n + of) % 3}`);
        one.put(`apps/${subject.id}/_chat/w2.jsonl`, `${n % 2}`.repeat(1_500_000));
        await one.files.store(subject, 1);
        if (n % 5 === 4) await one.files.remove(subject, 1);
      }
      await one.files.store(subject, 1);
    }),
  );
  isOver = true;
  await sweeps;
  const two = node(tables);
  for (const subject of subjects) await two.files.fetch(subject);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('what a database that is gone does not confirm is STORAGE_UNAVAILABLE, and is stored once it is back', {
  skip,
}, async (t) => {
  const server = await postgres();
  t.after(() => server.stop());
  const tables = await cluster(server.url);
  const one = node(tables);
  fill(one);
  await one.files.store(NOTES, 1);
  one.put('apps/notes/settings.json', '{"colour":"red"}');
  await server.kill();
  await assert.rejects(
    one.files.store(NOTES, 1),
    (error) => !(error instanceof Fenced) && (error as { code?: string }).code === 'STORAGE_UNAVAILABLE',
  );
  await assert.rejects(one.files.fetch(NOTES), { code: 'STORAGE_UNAVAILABLE' });
  await server.start();
  await one.files.store(NOTES, 1);
  const two = node(tables);
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('a store whose connection is lost says so, and what is done of it later does no harm', { skip }, async () => {
  const tables = await cluster();
  const one = node(tables);
  fill(one);
  await one.files.store(NOTES, 1);
  one.put('apps/notes/_chat/w1.jsonl');
  const held = await holdStore(tables, NOTES, 'apps/notes/_chat/w1.jsonl');
  const stored = one.files.store(NOTES, 1);
  assert.ok(await held.isHeld());
  await Promise.all([
    assert.rejects(stored, { code: 'STORAGE_UNAVAILABLE' }),
    tables.pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%INSERT INTO svc.entries%' AND wait_event_type = 'Lock'`,
    ),
  ]);
  await held.go();

  // As if a server did the lost statement after all: it brings a file that is gone by now.
  one.put('apps/notes/_chat/w2.jsonl');
  await new SharedFiles(one.layout, tables).store(NOTES, 1);
  rmSync(join(one.dataDir, 'apps/notes/_chat/w2.jsonl'));
  await one.files.store(NOTES, 1);
  one.put('apps/notes/_chat/w3.jsonl');
  await new SharedFiles(one.layout, tables).store(NOTES, 1);
  rmSync(join(one.dataDir, 'apps/notes/_chat/w3.jsonl'));
  one.put('apps/notes/_chat/w4.jsonl');
  await one.files.store(NOTES, 1);
  const two = node(tables);
  await two.files.fetch(NOTES);
  assert.deepEqual(everythingIn(two.dataDir), everythingIn(one.dataDir));
});

test('a removed app is gone at the next fetch, and can be stored again', { skip }, async () => {
  const tables = await cluster();
  const [one, two] = [node(tables), node(tables)];
  fill(one);
  await one.files.store(NOTES, 1);
  await two.files.fetch(NOTES);
  await one.files.remove(NOTES, 1);
  await two.files.fetch(NOTES);
  assert.deepEqual(
    Object.keys(everythingIn(two.dataDir)).filter((path) => path.includes('notes')),
    [],
  );
  appendFileSync(join(one.dataDir, 'apps/notes/settings.json'), ' ');
  await one.files.store(NOTES, 1);
  await two.files.fetch(NOTES);
  assert.equal(readFileSync(join(two.dataDir, 'apps/notes/settings.json'), 'utf8'), '{} ');
});
