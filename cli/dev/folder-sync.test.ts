import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Parser, type ReadEntry } from 'tar';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { asUser, temporaryFolder } from '../../testing/command-line.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import { Client } from '../gateway/client.ts';
import { FolderSync, type Synced } from './folder-sync.ts';

const PREFIX = '/svc/_sessions/s1/apps/notes/files';

/**
 * `requests` are the methods of those that came; the connection of those in `failing` ends. `onFetch` is called before a file
 * is answered.
 */
type Workspace = {
  client: Client;
  files: Map<string, string>;
  refused: Set<string>;
  requests: string[];
  failing: Set<string>;
  onFetch: (path: string) => void;
};

/**
 * The files of a workspace as a gateway has them; those named in `refused` are not taken, nor an archive with one of them. Writes
 * are answered `together`. Without `archives` it is a gateway that takes none.
 */
async function workspace(t: TestContext, { together = 1, archives = true } = {}): Promise<Workspace> {
  const files = new Map<string, string>();
  const requests: string[] = [];
  const failing = new Set<string>();
  const refused = new Set<string>();
  const held: (() => void)[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? '').slice(PREFIX.length + 1));
    const chunks: Buffer[] = [];
    requests.push(request.method ?? '');
    if (failing.has(request.method ?? '')) return void request.destroy();
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const answer = (status: number, body: unknown) =>
        response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
      const error = (status: number, code: string) => answer(status, { isError: true, error: { code, message: path } });
      if (request.method === 'POST') {
        const sent = archives ? unpack(Buffer.concat(chunks)) : new Map<string, string>();
        if (!archives) return error(405, 'METHOD_NOT_ALLOWED');
        if ([...sent.keys()].some((name) => refused.has(name))) return error(400, 'ARCHIVE_PATH');
        for (const [name, text] of sent) files.set(name, text);
        return answer(
          200,
          [...sent].map(([name, text]) => row(name, text)),
        );
      }
      if (path === '')
        return answer(
          200,
          [...files].map(([name, text]) => row(name, text)),
        );
      if (refused.has(path)) return error(413, 'ARCHIVE_TOO_LARGE');
      if (request.method === 'GET') it.onFetch(path);
      if (request.method === 'PUT') files.set(path, Buffer.concat(chunks).toString());
      const text = files.get(path);
      if (text === undefined) return error(404, 'NOT_FOUND');
      if (request.method === 'DELETE') files.delete(path);
      if (request.method !== 'PUT') return answer(200, request.method === 'GET' ? text : row(path, text));
      assert.ok(held.push(() => answer(200, row(path, text))) <= together, 'no more than the limit at the same time');
      // The last requests are answered first.
      if (held.length === together) for (const release of held.splice(0).reverse()) release();
      return undefined;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new Client({ url, urlFrom: '', token: undefined, tokenFrom: '' });
  const it: Workspace = { client, files, refused, requests, failing, onFetch: () => {} };
  return it;
}

/** Name → text of what an archive holds. */
function unpack(archive: Buffer): Map<string, string> {
  const files = new Map<string, string>();
  const parser = new Parser({ sync: true } as never);
  parser.on('entry', (entry: ReadEntry) => {
    files.set(entry.path, '');
    entry.on('data', (chunk: Buffer) => files.set(entry.path, files.get(entry.path) + chunk.toString()));
  });
  parser.end(gunzipSync(archive));
  return files;
}

function row(path: string, text: string): { path: string; size: number; sha: string } {
  const size = Buffer.byteLength(text);
  return { path, size, sha: createHash('sha1').update(`blob ${size}\0${text}`).digest('hex') };
}

function write(folder: string, files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

const NOTHING = { written: [], deleted: [], taken: [], overwritten: [], gone: [] };

/** The result of a sync in which no file had a fault. */
async function synced(sync: FolderSync, client: Client): Promise<Synced['result']> {
  const { result, faults } = await sync.sync(client);
  assert.deepEqual(faults, []);
  return result;
}

test('the workspace becomes equal to the folder; equal files are not sent again', async (t) => {
  const { client, files } = await workspace(t);
  files.set('app.json', 'of the blank app').set('old.css', '');
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'queries/list.js': 'a', '.env': 'SECRET', 'list.js~': '', 'draft.swp': '' });
  const sync = new FolderSync('s1', 'notes', folder);
  const first = await synced(sync, client);
  assert.deepEqual(first, { ...NOTHING, written: ['app.json', 'queries/list.js'], deleted: ['old.css'] });
  assert.deepEqual(Object.fromEntries(files), { 'app.json': '{}', 'queries/list.js': 'a' });
  assert.deepEqual(await synced(sync, client), NOTHING);

  renameSync(join(folder, 'queries'), join(folder, 'lib'));
  const renamed = await synced(sync, client);
  assert.deepEqual(renamed, { ...NOTHING, written: ['lib/list.js'], deleted: ['queries/list.js'] });
});

test("others' changes in the workspace are copied to the folder, unless the same file was edited locally", async (t) => {
  const { client, files } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'style.css': 'a', 'app.js': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);

  files.set('style.css', 'merged').set('app.js', 'theirs').set('actions/add.js', 'new').delete('app.json');
  write(folder, { 'app.js': 'mine' });
  assert.deepEqual(await synced(sync, client), {
    ...NOTHING,
    written: ['app.js'],
    taken: ['actions/add.js', 'style.css'],
    overwritten: ['app.js'],
    gone: ['app.json'],
  });
  assert.equal(readFileSync(join(folder, 'style.css'), 'utf8'), 'merged');
  assert.equal(readFileSync(join(folder, 'actions/add.js'), 'utf8'), 'new');
  assert.equal(files.get('app.js'), 'mine');
  assert.equal(readFileSync(join(folder, 'app.json'), 'utf8'), '{}', 'no file of the folder is lost');

  files.set('style.css', 'of another workspace');
  sync.forget();
  assert.deepEqual(await synced(sync, client), { ...NOTHING, written: ['app.json', 'style.css'] });
  assert.equal(files.get('style.css'), 'merged');
});

test('a file that is saved while the workspace’s is fetched stays, and is sent', async (t) => {
  const it = await workspace(t);
  const { client, files } = it;
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'style.css': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);

  files.set('style.css', 'theirs').set('new.js', 'theirs');
  it.onFetch = (path) => write(folder, { [path]: `mine ${path}` });
  const first = await synced(sync, client);
  assert.deepEqual(first, { ...NOTHING, written: ['style.css'], overwritten: ['style.css'] });
  const second = await synced(sync, client);
  assert.deepEqual(second, { ...NOTHING, written: ['new.js'], overwritten: ['new.js'] });
  for (const path of ['style.css', 'new.js']) {
    assert.equal(readFileSync(join(folder, path), 'utf8'), `mine ${path}`);
    assert.equal(files.get(path), `mine ${path}`);
  }
  assert.deepEqual(readdirSync(folder).sort(), ['app.json', 'new.js', 'style.css'], 'nothing is left behind');
});

test('a file that is new here since the folder was scanned stays', async (t) => {
  const it = await workspace(t);
  const { client, files } = it;
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'a.css': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);

  files.set('a.css', 'theirs').set('new.js', 'theirs');
  // The files of both sides come first.
  it.onFetch = () => write(folder, { 'new.js': 'mine' });
  assert.deepEqual(await synced(sync, client), { ...NOTHING, taken: ['a.css'] });
  assert.deepEqual(await synced(sync, client), { ...NOTHING, written: ['new.js'], overwritten: ['new.js'] });
  assert.equal(files.get('new.js'), 'mine');
});

test('a refused file does not stop the others', async (t) => {
  const { client, files, refused } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, { 'a.js': 'a', 'b.js': 'b', 'c.js': 'c' });
  refused.add('b.js');
  const sync = new FolderSync('s1', 'notes', folder);
  const { result, faults } = await sync.sync(client);
  assert.deepEqual(result.written, ['a.js', 'c.js']);
  assert.deepEqual(
    faults.map(({ path, error }) => [path, error instanceof GatewayError && error.path]),
    [['b.js', 'b.js']],
  );
  assert.deepEqual([...files.keys()], ['a.js', 'c.js']);
  refused.clear();
  assert.deepEqual(await synced(sync, client), { ...NOTHING, written: ['b.js'] });
});

test('a file that others delete in the workspace stays deleted there until it is edited locally', async (t) => {
  const { client, files } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'old.md': 'old', 'older.md': 'older' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);

  files.delete('old.md');
  files.delete('older.md');
  const first = await sync.sync(client);
  assert.deepEqual(first.result, { ...NOTHING, gone: ['old.md', 'older.md'] });
  assert.deepEqual(first.files, ['app.json'], 'those that both have');
  assert.deepEqual(await synced(sync, client), NOTHING, 'it is reported once');
  assert.deepEqual([...files.keys()], ['app.json']);
  assert.equal(readFileSync(join(folder, 'old.md'), 'utf8'), 'old');

  write(folder, { 'old.md': 'new' });
  rmSync(join(folder, 'older.md'));
  assert.deepEqual(await synced(sync, client), { ...NOTHING, written: ['old.md'] });
  write(folder, { 'older.md': 'older' });
  assert.deepEqual(await synced(sync, client), { ...NOTHING, written: ['older.md'] }, 'it was created again');
});

test('a file that is too large or unreadable is named, and does not stop the others', async (t) => {
  const { client, files } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, { 'a.txt': 'a', 'large.txt': '', 'secret.txt': 's', 'z.txt': 'z' });
  truncateSync(join(folder, 'large.txt'), 5 * 1024 * 1024 + 1);
  chmodSync(join(folder, 'secret.txt'), 0);
  const sync = new FolderSync('s1', 'notes', folder);
  const { result, faults } = await asUser(folder, () => sync.sync(client));
  assert.deepEqual(result, { ...NOTHING, written: ['a.txt', 'z.txt'] });
  assert.deepEqual([...files.keys()].sort(), ['a.txt', 'z.txt']);
  assert.deepEqual(
    faults.map(({ path, error }) => [path, (error as Error).message]),
    [
      ['large.txt', 'large.txt has 5,242,881 bytes; a file of an app may have 5,242,880 (5 MiB).'],
      ['secret.txt', 'secret.txt cannot be read: permission is denied.'],
    ],
  );
});

test('a file of the workspace that cannot be written is named, and does not stop the others', async (t) => {
  const { client, files } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, { 'css/style.css': 'a', 'a.txt': 'a', lib: 'a file' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);
  chmodSync(join(folder, 'css'), 0o555);
  files.set('css/style.css', 'theirs').set('lib/dates.js', 'theirs').set('more.txt', 'theirs');
  write(folder, { 'a.txt': 'mine' });
  const told = (): Promise<unknown[]> =>
    asUser(folder, async () => {
      const { result, faults } = await sync.sync(client);
      return [result, faults.map(({ error }) => (error as Error).message)];
    });
  const messages = [
    'css/style.css cannot be written: permission is denied.',
    'lib/dates.js cannot be written: a file is where its folder should be.',
  ];
  assert.deepEqual(await told(), [{ ...NOTHING, written: ['a.txt'], taken: ['more.txt'] }, messages]);
  assert.deepEqual(await told(), [NOTHING, messages], 'the same faults are reported again');
  assert.equal(readFileSync(join(folder, 'more.txt'), 'utf8'), 'theirs');
});

const NAMES = Array.from({ length: 40 }, (_, n) => `${String(n).padStart(2, '0')}.txt`);

test('many files are sent in one request, and progress is reported', async (t) => {
  const { client, files, requests } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, Object.fromEntries(NAMES.map((name) => [name, name])));
  const heard: [number, number][] = [];
  const sync = new FolderSync('s1', 'notes', folder);
  const { result } = await sync.sync(client, (...progress) => heard.push(progress));
  assert.deepEqual(result.written, NAMES, 'in the order of the folder');
  assert.deepEqual(Object.fromEntries(files), Object.fromEntries(NAMES.map((name) => [name, name])));
  assert.deepEqual(requests, ['GET', 'POST']);
  assert.deepEqual([heard.length, heard.at(-1)], [40, [240, 240]]);

  requests.length = 0;
  files.set('00.txt', 'theirs');
  write(folder, Object.fromEntries(NAMES.slice(0, 10).map((name) => [name, 'mine'])));
  const second = await synced(sync, client);
  assert.deepEqual(second, { ...NOTHING, written: NAMES.slice(0, 10), overwritten: ['00.txt'] });
  assert.deepEqual(requests, ['GET', 'POST']);
  assert.deepEqual(await synced(sync, client), NOTHING);
});

test('of many files, those that an archive may not hold are sent one by one', async (t) => {
  const { client, files, refused, requests } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, Object.fromEntries([...NAMES, 'a.TXT', 'A.txt'].map((name) => [name, name])));
  refused.add('a.TXT');
  const { result, faults } = await new FolderSync('s1', 'notes', folder).sync(client);
  assert.deepEqual(
    faults.map(({ path }) => path),
    ['a.TXT'],
  );
  assert.deepEqual([result.written.length, files.size], [41, 41]);
  assert.deepEqual(requests, ['GET', 'POST', 'PUT']);
});

test('a refused archive is sent file by file, as to a gateway that takes no archives', async (t) => {
  for (const archives of [true, false]) {
    const { client, files, refused, requests } = await workspace(t, { archives });
    const folder = temporaryFolder(t);
    write(folder, Object.fromEntries(NAMES.map((name) => [name, name])));
    refused.add('07.txt');
    const { result, faults } = await new FolderSync('s1', 'notes', folder).sync(client);
    assert.deepEqual(
      faults.map(({ path }) => path),
      ['07.txt'],
    );
    assert.deepEqual([result.written.length, files.size, requests.length], [39, 39, 42]);
  }
});

test('a gateway that stops while it gets many files has all of them after the next sync', async (t) => {
  const { client, files, requests, failing } = await workspace(t);
  const folder = temporaryFolder(t);
  write(folder, Object.fromEntries(NAMES.map((name) => [name, name])));
  const sync = new FolderSync('s1', 'notes', folder);
  failing.add('POST');
  await assert.rejects(sync.sync(client), UnreachableError);
  failing.clear();
  for (const name of NAMES.slice(0, 20)) files.set(name, name);
  rmSync(join(folder, '39.txt'));
  const { result } = await sync.sync(client);
  assert.deepEqual(result.written, NAMES.slice(20, 39), 'those that it did not have');
  assert.deepEqual(requests, ['GET', 'POST', 'GET', 'POST']);
});

test('single files are sent four at the same time', { timeout: 20_000 }, async (t) => {
  const { client, files } = await workspace(t, { together: 4, archives: false });
  const folder = temporaryFolder(t);
  write(folder, Object.fromEntries(NAMES.map((name) => [name, name])));
  const { result } = await new FolderSync('s1', 'notes', folder).sync(client);
  assert.deepEqual(result.written, NAMES, 'in the order of the folder');
  assert.equal(files.size, 40);
});

test('an error that is not about a single file ends the sync', async (t) => {
  const folder = temporaryFolder(t);
  write(folder, { 'a.txt': 'a' });
  const client = new Client({ url: 'http://127.0.0.1:1', urlFrom: '', token: undefined, tokenFrom: '' });
  await assert.rejects(new FolderSync('s1', 'notes', folder).sync(client), UnreachableError);
});

test('a missing folder deletes nothing from the workspace', async (t) => {
  const { client, files } = await workspace(t);
  const folder = join(temporaryFolder(t), 'notes');
  write(folder, { 'a.js': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);
  rmSync(folder, { recursive: true });
  await assert.rejects(sync.sync(client), CommandError);
  assert.deepEqual([...files.keys()], ['a.js']);
  assert.equal(existsSync(folder), false);
});
