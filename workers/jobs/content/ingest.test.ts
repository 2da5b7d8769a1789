import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { StaticEntry, VersionSummary } from '../../../protocol/manifest.ts';
import type { IngestJob } from '../../../protocol/wire/jobs.ts';
import { VersionPaths } from '../../../storage/layout.ts';
import { automation } from '../../../testing/apps.ts';
import { appFiles, type Entry, gnuName, paxName, tar, tarball, tarEntry } from '../../../testing/archive.ts';
import { readSource } from '../handlers.ts';
import { check, ingest } from './ingest.ts';

const root = mkdtempSync(join(tmpdir(), 'ingest-'));
after(() => rmSync(root, { recursive: true, force: true }));
const HANDLER = 'export default async () => {};\n';
let uploads = 0;

/** Takes an archive in; `staging` is its own folder. */
async function take(archive: Buffer, more: Partial<Pick<IngestJob, 'known' | 'active'>> = {}) {
  const staging = join(root, `staging-${++uploads}`);
  const file = join(root, `upload-${uploads}.tgz`);
  mkdirSync(staging);
  writeFileSync(file, archive);
  const job = {
    source: { archive: file },
    commit: null,
    app: 'notes',
    staging,
    uploadedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  };
  return { staging, result: await ingest({ ...job, known: [], active: null, ...more }) };
}

async function staged(archive: Buffer): Promise<{ staging: string; summary: VersionSummary }> {
  const { staging, result } = await take(archive);
  assert.ok('staged' in result);
  return { staging, summary: result.staged };
}

async function refused(archive: Buffer): Promise<SvcError> {
  const error = await take(archive).then(
    () => assert.fail('the archive was taken'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof SvcError, String(error));
  assert.equal(existsSync(join(root, `staging-${uploads}`)), false, 'something is left in the staging folder');
  return error;
}

/** A valid app with these entries behind its own. */
function withEntries(...entries: Entry[]): Buffer {
  const files = Object.entries(appFiles('notes')).map(([name, content]) => ({ name, content }));
  return tarball([...files, ...entries]);
}

/** An entry whose name may be longer than a header takes. */
const named = (name: string, type = '0'): Entry[] => [paxName(name), { name: 'short', type }];

const LONG = `${'x'.repeat(10_000)}.js`;
/** One level more than permitted. */
const DEEP = `${'d/'.repeat(LIMITS.archiveDepth)}a.js`;
/** Names in an app before others are added. */
const OWN = Object.keys(appFiles('notes')).length;
const HEADER = tarEntry(paxName('a.js'));
const BIG = Buffer.alloc(LIMITS.archiveFileBytes);
const whole = tar(appFiles('notes'));

const BAD_ARCHIVES: [name: string, archive: () => Buffer, code: string, path?: string][] = [
  ['nothing', () => Buffer.alloc(0), 'INVALID_ARCHIVE'],
  ['text', () => Buffer.from('hello'), 'INVALID_ARCHIVE'],
  ['tar that is not gzipped', () => whole, 'INVALID_ARCHIVE'],
  ['gzip of text', () => gzipSync('hello '.repeat(500)), 'INVALID_ARCHIVE'],
  ['gzip of nothing', () => gzipSync(''), 'INVALID_ARCHIVE'],
  ['gzipped twice', () => gzipSync(tarball(appFiles('notes'))), 'INVALID_ARCHIVE'],
  ['tar without its end', () => gzipSync(whole.subarray(0, -1024)), 'INVALID_ARCHIVE'],
  ['tar cut inside a file', () => gzipSync(whole.subarray(0, 700)), 'INVALID_ARCHIVE'],
  [
    'a header that was changed',
    () => gzipSync(Buffer.concat([tarEntry({ name: 'a.js' }).fill('b', 0, 1), whole])),
    'INVALID_ARCHIVE',
  ],
  [
    'a symbolic link',
    () => withEntries({ name: 'a.js', type: '2', link: '/etc/passwd' }),
    'ARCHIVE_ENTRY_TYPE',
    'a.js',
  ],
  ['a symbolic link to nothing', () => withEntries({ name: 'a.js', type: '2' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a hard link', () => withEntries({ name: 'a.js', type: '1', link: 'index.html' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a character device', () => withEntries({ name: 'a.js', type: '3' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a block device', () => withEntries({ name: 'a.js', type: '4' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a pipe', () => withEntries({ name: 'a.js', type: '6' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a sparse file', () => withEntries({ name: 'a.js', type: 'S' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['an unknown type', () => withEntries({ name: 'a.js', type: 'Z' }), 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a path that goes up', () => withEntries({ name: '../a.js' }), 'ARCHIVE_PATH', '../a.js'],
  ['a path that goes up later', () => withEntries({ name: 'x/../../a.js' }), 'ARCHIVE_PATH', 'x/../../a.js'],
  ['a folder that goes up', () => withEntries({ name: '../x/', type: '5' }), 'ARCHIVE_PATH', '../x/'],
  ['an absolute path', () => withEntries({ name: '/etc/a.js' }), 'ARCHIVE_PATH', '/etc/a.js'],
  ['a drive letter', () => withEntries({ name: 'C:/a.js' }), 'ARCHIVE_PATH', 'C:/a.js'],
  ['a drive letter behind ./', () => withEntries({ name: './c:a.js' }), 'ARCHIVE_PATH', './c:a.js'],
  ['a backslash', () => withEntries({ name: '..\\a.js' }), 'ARCHIVE_PATH', '..\\a.js'],
  ['a NUL in a pax name', () => withEntries(paxName('a.js\0.png'), { name: 'b.js' }), 'ARCHIVE_PATH', 'a.js'],
  ['a NUL in a GNU name', () => withEntries(gnuName('a.js\0.png'), { name: 'b.js' }), 'ARCHIVE_PATH', 'a.js'],
  [
    'a path that goes up in a pax name',
    () => withEntries(paxName('../a.js'), { name: 'b.js' }),
    'ARCHIVE_PATH',
    '../a.js',
  ],
  ['a name of 10,000 characters', () => withEntries(paxName(LONG), { name: 'b.js' }), 'ARCHIVE_PATH', LONG],
  ['a GNU name of 10,000 characters', () => withEntries(gnuName(LONG), { name: 'b.js' }), 'ARCHIVE_PATH', LONG],
  [
    'metadata without end',
    () => withEntries(paxName('x'.repeat(100_000)), { name: 'b.js' }),
    'ARCHIVE_PATH',
    'PaxHeader/x',
  ],
  ['a name that is no UTF-8', () => gzipSync(tarEntry({ name: 'a.js' }).fill(0xff, 0, 1)), 'INVALID_ARCHIVE'],
  ['the same name twice', () => withEntries({ name: './index.html' }), 'ARCHIVE_PATH', './index.html'],
  ['names equal but for their case', () => withEntries({ name: 'Index.HTML' }), 'ARCHIVE_PATH', 'Index.HTML'],
  [
    'folders equal but for their case',
    () => withEntries({ name: 'x/a.js' }, { name: 'X/b.js' }),
    'ARCHIVE_PATH',
    'X/b.js',
  ],
  [
    'names equal but for their composition',
    () => withEntries({ name: 'é.js' }, { name: 'e\u0301.js' }),
    'ARCHIVE_PATH',
    'e\u0301.js',
  ],
  ['a file where a folder is', () => withEntries({ name: 'x.js/a.js' }, { name: 'x.js' }), 'ARCHIVE_PATH', 'x.js'],
  ['a folder where a file is', () => withEntries({ name: 'x.js' }, { name: 'x.js/a.js' }), 'ARCHIVE_PATH', 'x.js/a.js'],
  ['a program', () => withEntries({ name: 'bin/a.sh' }), 'ARCHIVE_EXTENSION', 'bin/a.sh'],
  ['a database', () => withEntries({ name: 'data.sqlite' }), 'ARCHIVE_EXTENSION', 'data.sqlite'],
  ['a name without extension', () => withEntries({ name: 'LICENSE' }), 'ARCHIVE_EXTENSION', 'LICENSE'],
  ['a name that is only an extension', () => withEntries({ name: 'x/.js' }), 'ARCHIVE_EXTENSION', 'x/.js'],
  [
    'a file too large',
    () => withEntries({ name: 'a.js', content: Buffer.alloc(BIG.length + 1) }),
    'ARCHIVE_TOO_LARGE',
    'a.js',
  ],
  [
    'a file that claims gigabytes',
    () => withEntries({ name: 'a.js', size: 8 * 2 ** 30 - 1 }),
    'ARCHIVE_TOO_LARGE',
    'a.js',
  ],
  [
    'too much in all',
    () => withEntries(...Array.from({ length: 11 }, (_, i) => ({ name: `${i}.js`, content: BIG }))),
    'ARCHIVE_TOO_LARGE',
    '9.js',
  ],
  [
    'too many entries',
    () => withEntries(...Array.from({ length: LIMITS.archiveEntries }, (_, i) => ({ name: `${i}/`, type: '5' }))),
    'ARCHIVE_TOO_LARGE',
    `${LIMITS.archiveEntries - 2}/`,
  ],
  [
    'few entries with many folders in their paths',
    () => withEntries(...Array.from({ length: 100 }, (_, i) => named(`${i}/${'d/'.repeat(61)}a.js`)).flat()),
    'ARCHIVE_TOO_LARGE',
    `${Math.floor((LIMITS.archiveEntries - OWN) / 63)}/${'d/'.repeat(61)}a.js`,
  ],
  ['a file that lies too deep', () => withEntries(...named(DEEP)), 'ARCHIVE_PATH', DEEP],
  [
    'a folder that lies too deep',
    () => withEntries(...named('d/'.repeat(LIMITS.archiveDepth + 1), '5')),
    'ARCHIVE_PATH',
    'd/'.repeat(LIMITS.archiveDepth + 1),
  ],
  [
    'zeros without end behind the archive',
    () => gzipSync(Buffer.concat([whole, Buffer.alloc(90 * 2 ** 20)]), { level: 1 }),
    'ARCHIVE_TOO_LARGE',
  ],
  [
    'headers without end',
    () => gzipSync(Buffer.alloc(75_000 * HEADER.length, HEADER), { level: 1 }),
    'ARCHIVE_TOO_LARGE',
  ],
  ['no manifest', () => tarball({ 'index.html': '' }), 'INVALID_MANIFEST', ''],
];

for (const [name, archive, code, path] of BAD_ARCHIVES) {
  test(`refused: ${name}`, async () => {
    const error = await refused(archive());
    assert.equal(error.code, code, error.message);
    assert.equal(error.path, path);
    assert.ok(!error.message.includes(root), 'the message holds a path of this machine');
  });
}

test('a gzip file that is cut anywhere is refused', async () => {
  const archive = tarball(appFiles('notes'));
  for (let length = 1; length < archive.length; length += 11) {
    assert.equal(
      (await refused(archive.subarray(0, length))).code,
      'INVALID_ARCHIVE',
      `${length} of ${archive.length} bytes`,
    );
  }
});

test('the error for an archive of the folder instead of its content says what to do', async () => {
  const files = Object.entries(appFiles('notes')).map(([name, content]) => [`notes/${name}`, content]);
  const error = await refused(tarball(Object.fromEntries(files)));
  assert.equal(error.code, 'INVALID_MANIFEST');
  assert.match(error.message, /the folder "notes"/);
});

test('an archive as tar writes it is taken: ./, folders, long names, upper-case extensions', async () => {
  const long = `lib/${'n'.repeat(180)}.js`;
  const { staging, summary } = await staged(
    tarball([
      { name: './', type: '5' },
      { name: './app.json', content: appFiles('notes')['app.json'] as string },
      { name: './lib/', type: '5' },
      { name: './lib/', type: '5' },
      paxName(`./${long}`),
      { name: 'short.js', content: 'a' },
      gnuName('lib/gnu-long.js'),
      { name: 'short.js', content: 'b' },
      { name: 'PHOTO.PNG', content: 'c' },
    ]),
  );
  assert.deepEqual(readdirSync(join(staging, 'code')).sort(), ['PHOTO.PNG', 'app.json', 'lib']);
  assert.equal(readFileSync(join(staging, 'code', long), 'utf8'), 'a');
  assert.equal(readFileSync(join(staging, 'code/lib/gnu-long.js'), 'utf8'), 'b');
  assert.equal(summary.files, 4);
  assert.equal(statSync(join(staging, 'code/PHOTO.PNG')).mode & 0o777, 0o600);
});

test('an archive is taken with as many files and folders, and as deep, as is permitted', async () => {
  const deepest = DEEP.slice(2);
  const others = LIMITS.archiveEntries - OWN - LIMITS.archiveDepth;
  const { summary } = await staged(
    withEntries(...named(deepest), ...Array.from({ length: others }, (_, i) => ({ name: `${i}.js` }))),
  );
  assert.equal(summary.files, OWN + 1 + others);
});

test('the summary describes the version', async () => {
  const manifest = {
    description: 'Keeps notes',
    queries: [{ name: 'list', description: 'All', timeoutMs: 500, input: { type: 'object' }, reads: ['notes'] }],
    actions: [{ name: 'add', confirmation: 'required', writes: ['notes'] }, { name: 'clear' }],
    knobs: [{ key: 'size', label: 'Size', type: 'segmented', default: 's', options: [{ value: 's', label: 'S' }] }],
    custom: true,
  };
  const files = {
    ...appFiles('notes', manifest),
    'queries/list.js': HANDLER,
    'actions/add.js': HANDLER,
    'actions/clear.js': HANDLER,
    'migrations/0001_notes.sql': 'CREATE TABLE notes (id);',
    'migrations/0002_more.sql': 'ALTER TABLE notes ADD text;',
    'migrations/README.md': 'About them.',
    'automations/daily/automation.json': automation(),
    'automations/daily/handler.js': HANDLER,
    'automations/shared.js': '',
  };
  const { staging, summary } = await staged(tarball(files));
  assert.deepEqual(summary, {
    versionId: `v_20260102T030405006Z_${summary.sha256.slice(0, 6)}`,
    sha256: summary.sha256,
    manifestSha256: summary.manifestSha256,
    uploadedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    files: 11,
    bytes: Object.values(files).reduce((sum, text) => sum + text.length, 0),
    name: 'Notes',
    version: '1.0.0',
    description: 'Keeps notes',
    kind: 'app',
    queries: [{ name: 'list', description: 'All', timeoutMs: 500 }],
    actions: [
      { name: 'add', confirmation: 'required', writes: ['notes'] },
      { name: 'clear', writes: [] },
    ],
    knobs: manifest.knobs,
    migrations: 2,
    automations: 1,
    commons: true,
    page: summary.page,
  });
  const document = readFileSync(join(staging, 'prepared', 'page.html'));
  assert.ok(summary.page && 'sha256' in summary.page);
  const { bytes, bridgeAt, sha256 } = summary.page;
  assert.deepEqual([bytes, sha256], [document.length, createHash('sha256').update(document).digest('hex')]);
  assert.equal(document.toString('utf8', bridgeAt, bridgeAt + 10), '></script>');
  assert.deepEqual(JSON.parse(readFileSync(join(staging, 'prepared/version.json'), 'utf8')), summary);
  const code = join(staging, 'code');
  assert.deepEqual(await check({ code, app: 'notes' }), { manifestSha256: summary.manifestSha256 });
});

const tools = { queries: [{ name: 'list' }] };

test('the summary lists broken handler rules, up to a limit', async () => {
  const writes = Array.from(
    { length: LIMITS.inputIssues + 1 },
    (_, n) => `export const f${n} = ({ db }) => db.run('DELETE FROM t');\n`,
  );
  const { summary, staging } = await staged(
    tarball({ ...appFiles('notes', tools), 'queries/list.js': HANDLER + writes.join('') }),
  );
  assert.equal(summary.warnings?.length, LIMITS.inputIssues);
  const { path, keyword, line } = summary.warnings?.[0] ?? {};
  assert.deepEqual([path, keyword, line], ['queries/list.js', 'query-handlers-read-only', 2]);
  assert.deepEqual(JSON.parse(readFileSync(join(staging, 'prepared/version.json'), 'utf8')).warnings, summary.warnings);
});

test('a handler that cannot be loaded is refused, beside the one that breaks a rule', async () => {
  const broken = { ...appFiles('notes', { ...tools, actions: [{ name: 'add' }] }), 'actions/add.js': '(' };
  const error = await refused(
    tarball({ ...broken, 'queries/list.js': `${HANDLER}export const f = (db) => db.run('DELETE FROM t');` }),
  );
  assert.deepEqual([error.code, error.issues?.map(({ keyword }) => keyword)], ['INVALID_HANDLER', ['syntax']]);
});

test('the same content is the same version, however it was packed', async () => {
  const files = appFiles('notes');
  const { staging: first, summary } = await staged(tarball(files));
  const known = [{ ...summary, code: join(first, 'code'), prepared: join(first, 'prepared') }];
  const reversed = Object.fromEntries(Object.entries(files).reverse());
  const { staging, result } = await take(gzipSync(tar(reversed), { level: 9 }), { known });
  assert.deepEqual(result, { known: summary.versionId });
  assert.equal(existsSync(join(staging, 'prepared')), false);
  const renamed = await staged(
    tarball({ 'app.json': files['app.json'] as string, 'start.html': files['index.html'] as string }),
  );
  assert.notEqual(renamed.summary.sha256, summary.sha256);
});

test('static files are listed with their type, tag and smaller copies', async () => {
  const script = 'export const answer = 42;\n'.repeat(100);
  const noise = Buffer.from(Array.from({ length: 2000 }, (_, i) => (i * 2654435761) >>> 24));
  const page = `<!doctype html><head><title>x</title></head><script>go()</script>${'<p>text</p>'.repeat(200)}`;
  const { staging } = await staged(
    tarball([
      ...Object.entries({ ...appFiles('notes'), 'index.html': page, 'lib/app.js': script }).map(([name, content]) => ({
        name,
        content,
      })),
      { name: 'photo.png', content: noise },
      { name: 'tiny.css', content: 'a{}' },
      { name: '__proto__.js', content: '1' },
      { name: 'notes.md', content: 'text' },
      { name: '.hidden.js', content: 'text' },
      { name: 'actions/x.js', content: 'text' },
    ]),
  );
  const list = JSON.parse(readFileSync(join(staging, 'prepared/static.json'), 'utf8')) as Record<string, StaticEntry>;
  assert.deepEqual(Object.keys(list).sort(), ['__proto__.js', 'index.html', 'lib/app.js', 'photo.png', 'tiny.css']);
  const copies = join(staging, 'prepared/static');

  const js = list['lib/app.js'] as StaticEntry;
  assert.equal(js.type, 'text/javascript; charset=utf-8');
  assert.match(js.etag, /^"[0-9a-f]{32}"$/);
  assert.equal(js.bytes, script.length);
  const br = readFileSync(join(copies, 'lib/app.js.br'));
  const gzip = readFileSync(join(copies, 'lib/app.js.gz'));
  assert.deepEqual([br.length, gzip.length], [js.br, js.gzip]);
  assert.equal(brotliDecompressSync(br).toString(), script);
  assert.equal(gunzipSync(gzip).toString(), script);

  const html = list['index.html'] as StaticEntry;
  const served = readFileSync(join(copies, 'index.html'), 'utf8');
  assert.match(served, /<head><script src="\/svc\/_client.js" data-app="notes"><\/script><title>/);
  assert.equal(brotliDecompressSync(readFileSync(join(copies, 'index.html.br'))).toString(), served);
  assert.equal(html.prepared, true);
  assert.equal(html.bytes, served.length);
  assert.equal(html.scriptHashes?.length, 1);

  assert.deepEqual(Object.keys(list['photo.png'] as StaticEntry), ['type', 'etag', 'bytes']);
  assert.deepEqual(Object.keys(list['tiny.css'] as StaticEntry), ['type', 'etag', 'bytes']);
});

test('icons are drawn of the icon of an app with a page, but for those that it has files of', async () => {
  const icon =
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" fill="#08f"/></svg>';
  const own = { name: 'icon-192.png', content: 'own' };
  // Served as `icon-512.png/…`: what is prepared of it is a folder.
  const folder = { name: 'Icon-512.png/index.html', content: '<p>text' };
  const { staging, summary } = await staged(withEntries({ name: 'icon.svg', content: icon }, own, folder));
  const { static: index, staticDir, preparedList } = new VersionPaths('', join(staging, 'prepared'));
  const list = JSON.parse(readFileSync(index, 'utf8')) as Record<string, StaticEntry>;
  assert.deepEqual([list['icon-192.png']?.bytes, list['icon-192.png']?.prepared], [3, undefined]);
  assert.equal(list['icon-512.png'], undefined);
  const { type, bytes, prepared } = list['icon-maskable-512.png'] as StaticEntry;
  const png = readFileSync(join(staticDir, 'icon-maskable-512.png'));
  assert.deepEqual([type, bytes, prepared], ['image/png', png.length, true]);
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.ok('static/icon-maskable-512.png' in JSON.parse(readFileSync(preparedList, 'utf8')), 'its damage is noticed');
  assert.equal(summary.warnings, undefined);

  const { 'index.html': _, ...plain } = appFiles('notes');
  const { staging: without } = await staged(tarball({ ...plain, 'icon.svg': icon }));
  assert.deepEqual(Object.keys(JSON.parse(readFileSync(join(without, 'prepared/static.json'), 'utf8'))), ['icon.svg']);
});

test('an icon that cannot be drawn is a warning of the version', async () => {
  const { staging, summary } = await staged(withEntries({ name: 'icon.svg', content: '<svg' }));
  const [warning, ...others] = summary.warnings ?? [];
  assert.deepEqual([warning?.path, warning?.keyword, others], ['icon.svg', 'icon', []]);
  const stored = JSON.parse(readFileSync(join(staging, 'prepared/version.json'), 'utf8')) as VersionSummary;
  assert.deepEqual(stored.warnings, summary.warnings);
});

const BAD_MIGRATIONS: [name: string, files: Record<string, string>, path: string, message: RegExp][] = [
  ['a gap', { '0001_a.sql': '', '0003_b.sql': '' }, '0003_b.sql', /0002 comes next/],
  ['no first', { '0002_a.sql': '' }, '0002_a.sql', /0001 comes next/],
  ['a number twice', { '0001_a.sql': '', '0001_b.sql': '' }, '0001_b.sql', /twice: migrations\/0001_a\.sql has it too/],
  ['zero', { '0000_a.sql': '' }, '0000_a.sql', /0001 comes next/],
  ['a bad slug', { '0001_A.sql': '' }, '0001_A.sql', /NNNN_<slug>\.sql/],
  ['three digits', { '001_a.sql': '' }, '001_a.sql', /NNNN_<slug>\.sql/],
  ['a folder', { 'x/0001_a.sql': '' }, 'x/0001_a.sql', /directly in migrations/],
  ['transaction control', { '0001_a.sql': 'SELECT 1;\nCOMMIT;' }, '0001_a.sql', /on line 2: COMMIT/],
  ['attach', { '0001_a.sql': `/* x */ attach 'x' AS y` }, '0001_a.sql', /ATTACH/],
];

for (const [name, files, path, message] of BAD_MIGRATIONS) {
  test(`migrations refused: ${name}`, async () => {
    const entries = Object.entries(files).map(([file, content]) => ({ name: `migrations/${file}`, content }));
    const error = await refused(withEntries(...entries));
    assert.equal(error.code, 'INVALID_MIGRATION');
    assert.equal(error.path, `migrations/${path}`);
    assert.match(error.message, message);
  });
}

test('a trigger with its body is no transaction control', async () => {
  const sql = 'CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = 1; END;';
  const { summary } = await staged(withEntries({ name: 'migrations/0001_a.sql', content: sql }));
  assert.equal(summary.migrations, 1);
});

test('thousands of small files are taken', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 2000 }, (_, i) => [`lib/${i % 50}/${i}.js`, `export default ${i};`.repeat(80)]),
  );
  const { summary } = await staged(tarball({ ...appFiles('notes'), ...files }));
  assert.equal(summary.files, 2002);
});

test('a handler’s text is read, or the error says why not; symbolic links are not followed', () => {
  const code = join(root, 'sources');
  mkdirSync(join(code, 'lib/folder.js'), { recursive: true });
  writeFileSync(join(code, 'lib/a.js'), 'a');
  writeFileSync(join(code, 'lib/large.js'), 'a'.repeat(5 * 1024 * 1024 + 1));
  symlinkSync(join(code, 'lib'), join(code, 'link'));
  assert.deepEqual(readSource(code, 'lib/a.js'), { text: 'a' });
  assert.deepEqual(readSource(code, 'lib/none.js'), { refused: 'does not exist' });
  assert.deepEqual(readSource(code, `lib/${'a'.repeat(300)}.js`), { refused: 'does not exist' });
  assert.deepEqual(readSource(code, 'lib/folder.js'), { refused: 'is not a file' });
  assert.deepEqual(readSource(code, 'lib/large.js'), { refused: 'is larger than 5242880 bytes' });
  assert.match((readSource(code, 'link/a.js') as { refused: string }).refused, /behind a symbolic link/);
});

test('addresses that a page loads from and its policy blocks are warnings; links that a person follows are none', async () => {
  const page = [
    '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="a.css">',
    '<iframe src="https://video.example/1"></iframe><iframe src="own.html"></iframe>',
    '<a href="https://elsewhere.example/">more</a><img src="data:image/png;base64,AA==">',
  ].join('\n');
  const css = '@font-face { font-family: x; src: url("https://fonts.example/x.woff2"); }';
  const { summary } = await staged(tarball({ ...appFiles('notes'), 'index.html': page, 'a.css': css }));
  const blocked = (origin: string) =>
    `It needs https://${origin}.example, and there is only what is in the app. The policy of pages blocks it.`;
  assert.deepEqual(summary.warnings?.map(({ path, keyword, message }) => [path, keyword, message]).sort(), [
    ['a.css', 'origin', blocked('fonts')],
    ['index.html', 'origin', blocked('cdn')],
    ['index.html', 'origin', blocked('video')],
  ]);
});
