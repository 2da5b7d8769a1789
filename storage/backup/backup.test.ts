import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Entry, tar, tarEntry } from '../../testing/archive.ts';
import { type Fixture, makeFixture, VERSION_ID } from '../../testing/backup-fixture.ts';
import { type CodeStorePaths, Layout } from '../layout.ts';
import { openSqlite } from '../sqlite.ts';
import { inspectDatabase } from './backup-database.ts';
import { makeBackup } from './make-backup.ts';
import { BackupWorkspace, packPart } from './pack.ts';
import { readBackup, restoreBackup } from './read-backup.ts';

// Backups as files: what goes in comes out, and what is damaged is refused with nothing touched.

const CODE = `apps/notes/versions/${VERSION_ID}`;
const LONG_NAME = `${'long-'.repeat(40)}é name.js`;

/** Every file below a folder with its content. */
function contents(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name)).sort();
  return Object.fromEntries(paths.map((path) => [path.slice(folder.length + 1), readFileSync(path, 'latin1')]));
}

/** The files of an uncompressed archive, in their order, by walking its headers. */
function entriesOf(bytes: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; bytes[at] !== 0; ) {
    const text = (from: number, length: number) =>
      bytes.toString('utf8', at + from, at + from + length).replace(/\0.*$/s, '');
    const size = Number.parseInt(text(124, 12), 8);
    const name = text(345, 130) === '' ? text(0, 100) : `${text(345, 130)}/${text(0, 100)}`;
    entries.push({ name, type: text(156, 1), content: Buffer.from(bytes.subarray(at + 512, at + 512 + size)) });
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return entries;
}

/** Tries to restore, and to verify alone; both must refuse, and nothing may be left. */
async function refused(fixture: Fixture, code: string, message?: RegExp): Promise<void> {
  const before = readdirSync(fixture.folder).sort();
  const target = join(fixture.folder, 'new', 'data');
  const isExpected = (error: { code?: string; message: string }) => {
    assert.equal(error.code, code, error.message);
    if (message) assert.match(error.message, message);
    return true;
  };
  await assert.rejects(restoreBackup(fixture.file, target), isExpected);
  assert.deepEqual(readdirSync(fixture.folder).sort(), before, 'something is left');
}

/** A fixture whose backup was rewritten, entry by entry; compressed anew, so that only our own checks can notice. */
async function rewritten(t: TestContext, change: (entries: Entry[]) => Entry[]): Promise<Fixture> {
  const fixture = makeFixture(t);
  await fixture.take();
  const entries = change(entriesOf(gunzipSync(readFileSync(fixture.file))));
  writeFileSync(fixture.file, gzipSync(tar(entries)));
  return fixture;
}

test('a restore gives back everything that was backed up, without the log', async (t) => {
  const fixture = makeFixture(t);
  const original = contents(fixture.layout.dataDir);
  await fixture.take();
  const target = join(fixture.folder, 'a', 'b');
  const manifest = await restoreBackup(fixture.file, target);
  const restored = contents(target);
  assert.deepEqual(JSON.parse(restored['apps/_registry.json'] ?? ''), {
    apps: { notes: { registeredAt: '2026-01-02T03:04:05.000Z' } },
  });
  assert.equal(restored['config.json'], '{}\n');
  assert.deepEqual(JSON.parse(restored['format.json'] ?? ''), { format: 1, svcVersion: '0.1.0' });
  for (const path of ['apps/_registry.json', 'config.json', 'format.json', 'manifest.json']) delete restored[path];
  delete original['apps/notes/logs.jsonl'];
  assert.deepEqual(Object.keys(restored), Object.keys(original));
  assert.equal(restored[join(CODE, 'queries', LONG_NAME)], 'export default 1;');
  delete restored['apps/notes/data.sqlite'];
  delete original['apps/notes/data.sqlite'];
  assert.deepEqual(restored, original);
  assert.deepEqual(manifest.databases, [
    {
      path: 'apps/notes/data.sqlite',
      userVersion: 3,
      integrity: 'ok',
      tables: [
        { name: 'notes', rows: 500 },
        { name: 'odd "name', rows: 0 },
        { name: 'sqlite_schema', rows: 2 },
      ],
    },
  ]);
  assert.equal(statSync(target).mode & 0o777, 0o700);
  assert.equal(statSync(join(target, 'apps/notes/data.sqlite')).mode & 0o777, 0o600);
  assert.equal(statSync(fixture.file).mode & 0o777, 0o600);
});

test('a backup of an earlier release is whole, and its files come back under their names', async (t) => {
  const target = join(makeFixture(t).folder, 'earlier');
  const file = join(import.meta.dirname, '../../test/backups/format-1.svc-backup.tar.gz');
  const manifest = await restoreBackup(file, target);
  assert.deepEqual(
    manifest.databases.map(({ path, integrity }) => [path, integrity]),
    [
      ['runtime.sqlite', 'ok'],
      ['identity.sqlite', 'ok'],
      ['analytics.sqlite', 'ok'],
      ['apps/shop/data.sqlite', 'ok'],
    ],
  );
  const restored = contents(target);
  for (const { path, sha256 } of manifest.files)
    assert.equal(
      createHash('sha256')
        .update(restored[path] as string, 'latin1')
        .digest('hex'),
      sha256,
      path,
    );
  // Under a name that only fits into an extended header.
  const name = `code-store/worktrees/sessions/draft/apps/shop/${'long-'.repeat(24)}é.txt`;
  assert.equal(restored[name], 'under a long name');
});

test('the files of an app are packed while its deployments are held, and only then', async (t) => {
  const { layout } = makeFixture(t);
  let held: string | null = null;
  const packed: [path: string, held: string | null][] = [];
  await makeBackup({
    layout,
    config: null,
    svcVersion: '0.1.0',
    dataFormat: 1,
    takenAt: 0,
    apps: ['notes', 'gone'],
    hold: async (id, work) => {
      if (id === 'gone') return null;
      held = id;
      await work();
      held = null;
      return 0;
    },
    pack: async (work) => {
      // A pack takes its time.
      await new Promise(setImmediate);
      if ('sources' in work) for (const { path } of work.sources) packed.push([path, held]);
      return { files: 0, bytes: 0 };
    },
  });
  assert.ok(packed.some(([path]) => path === 'apps/notes/current.json'));
  assert.ok(packed.some(([path]) => path === 'journal/notes.json'));
  for (const [path, by] of packed) assert.equal(by, /^apps\/notes\/|^journal\//.test(path) ? 'notes' : null, path);
});

test('workspaces that are being made, replaced or removed are left out', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-sessions-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const layout = new Layout(join(folder, 'data'), undefined, 'code-store');
  const { workspacesDir } = layout.codeStore as CodeStorePaths;
  for (const name of ['mine', '.0c4f5a52-7f3d-4a3f-9b57-6d6c7a1b2c3d', '.aside.mine.notes']) {
    mkdirSync(join(workspacesDir, name, 'apps/notes'), { recursive: true });
    writeFileSync(join(workspacesDir, name, 'apps/notes/app.json'), '{}');
  }
  const workspace = new BackupWorkspace(folder);
  await makeBackup({
    layout,
    config: null,
    svcVersion: '0.1.0',
    takenAt: 0,
    dataFormat: 1,
    apps: [],
    hold: async () => null,
    pack: (work) => packPart(workspace, work, () => {}),
  });
  const packed = entriesOf(gunzipSync(readFileSync(workspace.archive))).map(({ name }) => name);
  assert.deepEqual(
    packed.filter((name) => name.includes('sessions/')),
    ['code-store/worktrees/sessions/mine/apps/notes/app.json'],
  );
});

test('a database is copied as it is at one moment, while rows come in', async (t) => {
  const fixture = makeFixture(t);
  const db = openSqlite(fixture.layout.app('notes').data);
  t.after(() => db.close());
  const insert = db.prepare('INSERT INTO notes (text) VALUES (?)');
  const pair = db.transaction((n: number) => {
    insert.run(`${n} a ${'x'.repeat(3000)}`);
    insert.run(`${n} b`);
  });
  for (let n = 0; n < 5000; n++) pair(n);
  let added = 0;
  await fixture.take(() => {
    if (added++ < 200) pair(added);
  });
  const target = join(fixture.folder, 'restored');
  await restoreBackup(fixture.file, target);
  assert.ok(added > 10, 'nothing was written meanwhile');
  const copy = openSqlite(join(target, 'apps/notes/data.sqlite'));
  const rows = copy.prepare('SELECT count(*) FROM notes').pluck().get() as number;
  copy.close();
  assert.equal(rows % 2, 0, 'half a transaction is in the copy');
  assert.ok(rows >= 10_500, `${rows} rows: some that were there before are missing`);
});

test('an already damaged database is saved and restored unchanged, and reported as damaged', async (t) => {
  const fixture = makeFixture(t);
  const file = fixture.layout.app('notes').data;
  const bytes = readFileSync(file);
  bytes.fill(0xff, 4096, 4196);
  writeFileSync(file, bytes);
  await fixture.take();
  const target = join(fixture.folder, 'restored');
  const manifest = await restoreBackup(fixture.file, target);
  assert.notEqual(manifest.databases[0]?.integrity, 'ok');
  assert.deepEqual(readFileSync(join(target, 'apps/notes/data.sqlite')).subarray(4096), bytes.subarray(4096));
  writeFileSync(file, 'no database at all');
  await fixture.take();
  const other = await restoreBackup(fixture.file, join(fixture.folder, 'other'));
  assert.equal(other.databases[0]?.integrity, 'file is not a database');
});

test('looking into a database does not change its file', (t) => {
  const { layout } = makeFixture(t);
  const { data, dir } = layout.app('notes');
  const before = readFileSync(data);
  const names = readdirSync(dir);
  inspectDatabase(data);
  assert.deepEqual(readFileSync(data), before);
  assert.deepEqual(readdirSync(dir), names);
});

test('each flipped bit is noticed, except in unused bytes of the gzip header', async (t) => {
  const fixture = makeFixture(t);
  const whole = readFileSync(await fixture.take());
  // Time, hints and system: bytes 4 to 9 of a gzip member's header, and the flag "probably text".
  const saysNothing = (at: number, bit: number) => (at >= 4 && at <= 9) || (at === 3 && bit === 0);
  const positions = [
    ...Array(24).keys(),
    ...Array.from({ length: 150 }, (_, n) => Math.floor((n * whole.length) / 150)),
  ];
  for (const at of [...positions, whole.length - 8, whole.length - 4, whole.length - 1]) {
    const bit = at % 8;
    if (saysNothing(at, bit)) continue;
    const damaged = Buffer.from(whole);
    damaged[at] = (damaged[at] as number) ^ (1 << bit);
    writeFileSync(fixture.file, damaged);
    const found = await readBackup(fixture.file).then(
      (manifest) => JSON.stringify(manifest),
      (error: { code?: string }) => error.code,
    );
    if (found === 'INVALID_BACKUP') continue;
    // A later member's header: the content must then be what it was.
    writeFileSync(fixture.file, whole);
    assert.equal(found, JSON.stringify(await readBackup(fixture.file)), `bit ${bit} of byte ${at}`);
    assert.deepEqual(gunzipSync(damaged), gunzipSync(whole), `bit ${bit} of byte ${at}`);
  }
});

test('a backup that is cut off anywhere is refused', async (t) => {
  const fixture = makeFixture(t);
  const whole = readFileSync(await fixture.take());
  for (const length of [
    0,
    1,
    9,
    10,
    512,
    whole.length >> 2,
    whole.length >> 1,
    whole.length - 9,
    whole.length - 8,
    whole.length - 1,
  ]) {
    writeFileSync(fixture.file, whole);
    truncateSync(fixture.file, length);
    await refused(fixture, 'INVALID_BACKUP');
  }
});

test('bytes after the end are refused', async (t) => {
  const fixture = makeFixture(t);
  const whole = readFileSync(await fixture.take());
  const more = [
    Buffer.from('x'),
    Buffer.alloc(1),
    Buffer.alloc(700_000),
    gzipSync(Buffer.alloc(512)),
    gzipSync(tar({ a: 'b' })),
    whole,
  ];
  for (const extra of more) {
    writeFileSync(fixture.file, whole);
    appendFileSync(fixture.file, extra);
    await refused(fixture, 'INVALID_BACKUP');
  }
});

test('zeros behind the end of the archive are refused, compressed with it or in a gzip member behind it', async (t) => {
  const fixture = makeFixture(t);
  const whole = gunzipSync(readFileSync(await fixture.take()));
  for (const zeros of [1, 512, 1024, 700_000]) {
    writeFileSync(fixture.file, gzipSync(Buffer.concat([whole, Buffer.alloc(zeros)])));
    await refused(fixture, 'INVALID_BACKUP', /follows its end/);
    writeFileSync(fixture.file, Buffer.concat([gzipSync(whole), gzipSync(Buffer.alloc(zeros))]));
    await refused(fixture, 'INVALID_BACKUP', /follows its end/);
  }
});

test('any number of zeros after the end of the file is refused', async (t) => {
  const fixture = makeFixture(t);
  const whole = readFileSync(await fixture.take());
  // gunzip takes zeros for filling, and whether the stream says that some were left is a matter of timing: hence so many.
  for (let zeros = 1; zeros <= 40; zeros++) {
    writeFileSync(fixture.file, Buffer.concat([whole, Buffer.alloc(zeros)]));
    await refused(fixture, 'INVALID_BACKUP', /follows its end/);
  }
});

test('a header with a number that tar cannot have is refused', async (t) => {
  const fixture = makeFixture(t);
  mkdirSync(join(fixture.folder, 'work'));
  for (const first of [0x81, 0xfe]) {
    const archive = tar({ 'profile.json': '{}' });
    // Where the size of the first file begins.
    archive[124] = first;
    writeFileSync(fixture.file, gzipSync(archive));
    await assert.rejects(readBackup(fixture.file), { code: 'INVALID_BACKUP' });
  }
});

test('a file that is no backup is refused', async (t) => {
  const fixture = makeFixture(t);
  mkdirSync(join(fixture.folder, 'work'));
  for (const bytes of [
    Buffer.from('hello'),
    gzipSync('hello'),
    gzipSync(tar({ 'app.json': '{}' })),
    gzipSync(tar({})),
  ]) {
    writeFileSync(fixture.file, bytes);
    await refused(fixture, 'INVALID_BACKUP');
  }
});

/** Changes of an archive that is whole as gzip and tar. */
const REWRITES: Record<string, [message: RegExp, change: (entries: Entry[]) => Entry[]]> = {
  'a file that is missing': [
    /a file is missing/,
    (entries) => entries.filter(({ name }) => !name.endsWith('app.json')),
  ],
  'a file too many': [/a file too many/, (entries) => [{ name: `${CODE}/more.js`, content: '' }, ...entries]],
  'a file twice': [/a file twice/, ([first, ...rest]) => [first as Entry, first as Entry, ...rest]],
  'content that was changed': [
    /checksum/,
    (entries) => entries.map((one) => (one.name.endsWith('app.json') ? { ...one, content: '{"id":"nodes"}' } : one)),
  ],
  'content that was lengthened': [
    /has 3 bytes instead of 2/,
    (entries) => entries.map((one) => (one.name === 'profile.json' ? { ...one, content: '{} ' } : one)),
  ],
  'a database that was changed': [
    /checksum/,
    (entries) =>
      entries.map((one) => (one.name.endsWith('data.sqlite') ? { ...one, content: flipped(one.content) } : one)),
  ],
  'a manifest that is not JSON': [/not JSON/, (entries) => withManifest(entries, (text) => text.slice(0, -3))],
  'a manifest of another shape': [/the shape/, (entries) => withManifest(entries, () => '{"format":1}')],
  'a manifest of a newer format': [
    /newer svc/,
    (entries) => withManifest(entries, () => '{"format":2,"svcVersion":"9"}'),
  ],
  'another number of rows': [
    /has 500 rows instead of 501/,
    (entries) => withManifest(entries, (text) => text.replace('"rows":500', '"rows":501')),
  ],
  'another schema version': [
    /has had 3 migrations instead of 4/,
    (entries) => withManifest(entries, (text) => text.replace('"userVersion":3', '"userVersion":4')),
  ],
  'a database that is not described': [
    /does not describe/,
    (entries) =>
      withManifest(entries, (text) =>
        text.replace('apps/notes/data.sqlite","userVersion', 'runtime.sqlite","userVersion'),
      ),
  ],
  'no manifest': [/no manifest/, (entries) => entries.slice(0, -1)],
  'a file behind the manifest': [
    /follows its manifest/,
    (entries) => [entries.at(-1) as Entry, ...entries.slice(0, -1)],
  ],
  'a symbolic link': [
    /type SymbolicLink/,
    (entries) => [{ name: `${CODE}/x.js`, type: '2', link: '/etc/passwd' }, ...entries],
  ],
  'a hard link': [/type Link/, (entries) => [{ name: `${CODE}/x.js`, type: '1', link: 'profile.json' }, ...entries]],
  'a device': [/type CharacterDevice/, (entries) => [{ name: `${CODE}/x.js`, type: '3' }, ...entries]],
  'a folder': [/type Directory/, (entries) => [{ name: `${CODE}/x/`, type: '5' }, ...entries]],
};

for (const [what, [message, change]] of Object.entries(REWRITES)) {
  test(`${what} is refused`, async (t) => refused(await rewritten(t, change), 'INVALID_BACKUP', message));
}

const NAMES = [
  '../evil',
  '/etc/evil',
  `${CODE}/../../../../evil`,
  `${CODE}/..`,
  `${CODE}/a//b`,
  `${CODE}/a\\b`,
  `${CODE}`,
  'token.bin',
  'lock',
  'run/daemon.json',
  'apps/../token.bin',
  'apps/_evil/current.json',
  'apps/notes/logs.jsonl',
  'apps/notes/versions/evil/app.json',
  './profile.json',
  'C:/evil',
  '',
];
test('a name that no backup has is refused before anything is written under it', async (t) => {
  const fixture = makeFixture(t);
  const original = entriesOf(gunzipSync(readFileSync(await fixture.take())));
  for (const name of NAMES) {
    writeFileSync(fixture.file, gzipSync(tar([{ name, content: 'evil' }, ...original])));
    await refused(fixture, 'INVALID_BACKUP', /a file that no backup has/);
  }
});

test('a header that is damaged, and an extended one without end, are refused', async (t) => {
  const fixture = makeFixture(t);
  const bytes = gunzipSync(readFileSync(await fixture.take()));
  const damaged = Buffer.from(bytes);
  damaged[20] = 0x41;
  const huge = tarEntry({ name: 'x', type: 'x', size: 1 << 30 });
  const twice = Buffer.concat([1, 2].map(() => tarEntry({ name: 'x', type: 'x', content: '13 path=abc\n' })));
  for (const [content, message] of [
    [damaged, /header in it is damaged/],
    [Buffer.concat([huge, bytes]), /too large/],
    [Buffer.concat([twice, bytes]), /type ExtendedHeader/],
  ] as const) {
    writeFileSync(fixture.file, gzipSync(content));
    await refused(fixture, 'INVALID_BACKUP', message);
  }
});

test('a place that is not empty, or a file, is refused and stays as it is', async (t) => {
  const fixture = makeFixture(t);
  await fixture.take();
  const target = join(fixture.folder, 'full');
  mkdirSync(target);
  writeFileSync(join(target, 'precious'), 'text');
  const link = join(fixture.folder, 'link');
  symlinkSync(target, link);
  for (const place of [target, link, fixture.file]) {
    await assert.rejects(restoreBackup(fixture.file, place), { code: 'RESTORE_TARGET' });
  }
  assert.deepEqual(contents(target), { precious: 'text' });
});

test('an empty directory is restored into', async (t) => {
  const fixture = makeFixture(t);
  await fixture.take();
  const target = join(fixture.folder, 'empty');
  mkdirSync(target);
  await restoreBackup(fixture.file, target);
  assert.equal(existsSync(join(target, 'apps/notes/data.sqlite')), true);
});

test('an interrupted restore leaves no files and no folders', async (t) => {
  const fixture = makeFixture(t);
  await fixture.take();
  const before = readdirSync(fixture.folder);
  const controller = new AbortController();
  controller.abort(new Error('enough'));
  await assert.rejects(restoreBackup(fixture.file, join(fixture.folder, 'a/b/c'), controller.signal), /enough/);
  assert.deepEqual(readdirSync(fixture.folder), before);
});

function flipped(content: Entry['content']): Buffer {
  const bytes = Buffer.from(content as Buffer);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
  return bytes;
}

function withManifest(entries: Entry[], change: (text: string) => string): Entry[] {
  return entries.map((one) => (one.name === 'manifest.json' ? { ...one, content: change(String(one.content)) } : one));
}
