import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Client } from './client.ts';
import { CommandError, type GatewayError } from './failure.ts';
import { FolderSync } from './folder-sync.ts';
import { temporaryFolder } from './test-support.ts';

const PREFIX = '/svc/_sessions/s1/apps/notes/files';

/** The files of a session as a gateway has them; those named in `refused` are not taken. */
async function session(t: TestContext): Promise<{ client: Client; files: Map<string, string>; refused: Set<string> }> {
  const files = new Map<string, string>();
  const refused = new Set<string>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? '').slice(PREFIX.length + 1));
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const answer = (status: number, body: unknown) =>
        response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
      const error = (status: number, code: string) => answer(status, { isError: true, error: { code, message: path } });
      if (path === '')
        return answer(
          200,
          [...files].map(([name, text]) => row(name, text)),
        );
      if (refused.has(path)) return error(413, 'ARCHIVE_TOO_LARGE');
      if (request.method === 'PUT') files.set(path, Buffer.concat(chunks).toString());
      const text = files.get(path);
      if (text === undefined) return error(404, 'NOT_FOUND');
      if (request.method === 'DELETE') files.delete(path);
      return answer(200, request.method === 'GET' ? text : row(path, text));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { client: new Client({ url, urlFrom: '', token: undefined, tokenFrom: '' }), files, refused };
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

const NOTHING = { written: [], deleted: [], taken: [], overwritten: [] };

test('the session becomes what the folder is; what is the same is not sent again', async (t) => {
  const { client, files } = await session(t);
  files.set('app.json', 'of the blank app').set('old.css', '');
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'queries/list.js': 'a', '.env': 'SECRET', 'list.js~': '', 'draft.swp': '' });
  const sync = new FolderSync('s1', 'notes', folder);
  const first = await sync.sync(client);
  assert.deepEqual(first, { ...NOTHING, written: ['app.json', 'queries/list.js'], deleted: ['old.css'] });
  assert.deepEqual(Object.fromEntries(files), { 'app.json': '{}', 'queries/list.js': 'a' });
  assert.deepEqual(await sync.sync(client), NOTHING);

  renameSync(join(folder, 'queries'), join(folder, 'lib'));
  const renamed = await sync.sync(client);
  assert.deepEqual(renamed, { ...NOTHING, written: ['lib/list.js'], deleted: ['queries/list.js'] });
});

test('what somebody else does in the session is taken over, unless the same file was edited here', async (t) => {
  const { client, files } = await session(t);
  const folder = temporaryFolder(t);
  write(folder, { 'app.json': '{}', 'style.css': 'a', 'app.js': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);

  files.set('style.css', 'merged').set('app.js', 'theirs').set('actions/add.js', 'new').delete('app.json');
  write(folder, { 'app.js': 'mine' });
  const result = await sync.sync(client);
  assert.deepEqual(result, {
    written: ['app.js', 'app.json'],
    deleted: [],
    taken: ['style.css', 'actions/add.js'],
    overwritten: ['app.js'],
  });
  assert.equal(readFileSync(join(folder, 'style.css'), 'utf8'), 'merged');
  assert.equal(readFileSync(join(folder, 'actions/add.js'), 'utf8'), 'new');
  assert.equal(files.get('app.js'), 'mine');
  assert.equal(files.get('app.json'), '{}', 'no file of the folder is lost');

  files.set('style.css', 'of another session');
  sync.forget();
  assert.deepEqual(await sync.sync(client), { ...NOTHING, written: ['style.css'] });
  assert.equal(files.get('style.css'), 'merged');
});

test('a file that is refused keeps no other back', async (t) => {
  const { client, files, refused } = await session(t);
  const folder = temporaryFolder(t);
  write(folder, { 'a.js': 'a', 'b.js': 'b', 'c.js': 'c' });
  refused.add('b.js');
  const sync = new FolderSync('s1', 'notes', folder);
  await assert.rejects(sync.sync(client), (error: GatewayError) => error.body.code === 'ARCHIVE_TOO_LARGE');
  assert.deepEqual([...files.keys()], ['a.js', 'c.js']);
  refused.clear();
  assert.deepEqual(await sync.sync(client), { ...NOTHING, written: ['b.js'] });
});

test('a folder that is gone takes nothing out of the session', async (t) => {
  const { client, files } = await session(t);
  const folder = join(temporaryFolder(t), 'notes');
  write(folder, { 'a.js': 'a' });
  const sync = new FolderSync('s1', 'notes', folder);
  await sync.sync(client);
  rmSync(folder, { recursive: true });
  await assert.rejects(sync.sync(client), CommandError);
  assert.deepEqual([...files.keys()], ['a.js']);
  assert.equal(existsSync(folder), false);
});
