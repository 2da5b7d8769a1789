// Files of apps in the real daemon: up and down as streams, ranges, types that may not run, quotas, drafts, crashes, backups.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';

const MiB = 1024 * 1024;
const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');
const BASE = '/svc/album/_blobs';
const ALBUM = appOf('album');

function put(
  gateway: TestGateway,
  body: Buffer | string,
  type?: string,
  { base = BASE, token }: { base?: string; token?: string } = {},
): Promise<Answer> {
  const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
  return gateway.call('PUT', base, { body, headers, ...(token === undefined ? {} : { token }) });
}

const get = (gateway: TestGateway, name: string, headers: Record<string, string> = {}, base = BASE): Promise<Answer> =>
  gateway.call('GET', `${base}/${name}`, { headers });
const codeOf = ({ status, json }: Answer): [number, string] => [status, json.error.code];
const temporary = (gateway: TestGateway): string[] =>
  readdirSync(join(gateway.dataDir, 'tmp')).filter((name) => name.startsWith('blob-'));
const folderOf = (gateway: TestGateway, app = 'album'): string => join(gateway.dataDir, 'apps', app, '_blobs');

/** Announces a body of `length` bytes, sends only `sent`, waits until that is on disk, and cuts the connection. */
async function cutOff(gateway: TestGateway, sent: Buffer, length: number): Promise<void> {
  const req = request(`${gateway.url}${BASE}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${gateway.token}`, 'content-length': String(length) },
  });
  req.on('error', () => {});
  req.write(sent);
  await eventually(() => temporary(gateway).length > 0);
  req.destroy();
}

onEachEdge({}, (gateway) => {
  test('a stored file comes back, with its type, and in ranges', async () => {
    assert.equal((await gateway.upload('album', ALBUM)).status, 201);
    const photo = randomBytes(3 * MiB + 17);
    const stored = await put(gateway, photo, 'image/jpeg');
    assert.equal(stored.status, 201, stored.text);
    const name = sha256(photo);
    assert.deepEqual(stored.json, { sha256: name, size: photo.length, type: 'image/jpeg' });

    const whole = await get(gateway, name);
    assert.equal(whole.status, 200);
    assert.ok(whole.bytes.equals(photo));
    const { headers } = whole;
    assert.equal(headers['content-length'], String(photo.length));
    assert.equal(headers['content-type'], 'image/jpeg');
    assert.equal(headers['content-disposition'], 'inline');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers.etag, `"${name}"`);
    assert.equal(headers['accept-ranges'], 'bytes');
    const head = await gateway.call('HEAD', `${BASE}/${name}`);
    assert.equal(head.status, 200);
    assert.equal(head.headers['content-length'], String(photo.length));
    assert.equal((await get(gateway, name, { 'if-none-match': `"${name}"` })).status, 304);

    const ranges: [range: string, first: number, last: number][] = [
      ['bytes=0-0', 0, 0],
      ['bytes=10-', 10, photo.length - 1],
      ['bytes=-5', photo.length - 5, photo.length - 1],
      [`bytes=1000-${2 * MiB}`, 1000, 2 * MiB],
      [`bytes=5-${photo.length * 2}`, 5, photo.length - 1],
    ];
    for (const [range, first, last] of ranges) {
      const part = await get(gateway, name, { range });
      assert.equal(part.status, 206, range);
      assert.equal(part.headers['content-range'], `bytes ${first}-${last}/${photo.length}`);
      assert.ok(part.bytes.equals(photo.subarray(first, last + 1)), range);
    }
    for (const range of [`bytes=${photo.length}-`, 'bytes=-0']) {
      const outside = await get(gateway, name, { range });
      assert.deepEqual(codeOf(outside), [416, 'RANGE_NOT_SATISFIABLE']);
      assert.equal(outside.headers['content-range'], `bytes */${photo.length}`);
    }
    for (const range of ['bytes=0-1,5-6', 'lines=1-2', 'bytes=5-1'])
      assert.equal((await get(gateway, name, { range })).status, 200, range);
    assert.equal((await get(gateway, name, { range: 'bytes=0-1', 'if-range': '"other"' })).status, 200);
    assert.equal((await get(gateway, name, { range: 'bytes=0-1', 'if-range': `"${name}"` })).status, 206);
  });

  test('a reader that is slower than the disk gets every byte', async () => {
    const film = randomBytes(12 * MiB);
    const name = (await put(gateway, film, 'video/mp4')).json.sha256;
    const headers = { authorization: `Bearer ${gateway.token}` };
    const [res] = (await once(request(`${gateway.url}${BASE}/${name}`, { headers }).end(), 'response')) as [Readable];
    const hash = createHash('sha256');
    for await (const chunk of res) {
      hash.update(chunk as Buffer);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.equal(hash.digest('hex'), name);
  });

  test('the same content is stored once, and has the latest type', async () => {
    const text = 'stored twice';
    assert.equal((await put(gateway, text, 'text/plain')).status, 201);
    assert.equal((await put(gateway, text, 'text/csv; charset=utf-8')).status, 201);
    assert.equal((await get(gateway, sha256(text))).headers['content-type'], 'text/csv; charset=utf-8');
    assert.equal((await put(gateway, text)).json.type, 'application/octet-stream');
    const bytes = await get(gateway, sha256(text));
    assert.equal(bytes.headers['content-type'], 'application/octet-stream');
    assert.equal(bytes.headers['content-disposition'], 'attachment');
  });

  test('an empty file can be stored', async () => {
    const stored = await put(gateway, '', 'text/plain');
    assert.deepEqual(stored.json, { sha256: sha256(''), size: 0, type: 'text/plain' });
    const answer = await get(gateway, sha256(''));
    assert.deepEqual([answer.status, answer.text, answer.headers['content-length']], [200, '', '0']);
    assert.equal((await get(gateway, sha256(''), { range: 'bytes=0-' })).status, 416);
  });

  test('no stored file runs as a script of the app', async () => {
    const shown = [
      'image/png',
      'IMAGE/WEBP',
      'audio/mpeg',
      'video/mp4',
      'application/pdf',
      'text/plain; charset=utf-8',
    ];
    const kept = ['text/html', 'image/svg+xml', 'application/xhtml+xml', 'text/xml', 'application/json', 'text/xsl'];
    const scripts = [
      'text/javascript',
      'application/javascript; charset=utf-8',
      'text/ecmascript',
      'TEXT/JavaScript1.5',
    ];
    for (const [at, type] of [...shown, ...kept, ...scripts].entries()) {
      const body = `<script>alert(${at})</script>`;
      assert.equal((await put(gateway, body, type)).json.type, type);
      const { headers } = await get(gateway, sha256(body));
      const policy = String(headers['content-security-policy']);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['content-disposition'], kept.includes(type) ? 'attachment' : 'inline', type);
      assert.equal(headers['content-type'], scripts.includes(type) ? 'text/plain; charset=utf-8' : type);
      assert.match(policy, /^default-src 'none'/);
      assert.doesNotMatch(policy, /script-src/);
      assert.equal(/sandbox/.test(policy), type !== 'application/pdf', type);
    }
  });

  test('bad input is refused and leaves nothing', async () => {
    const before = readdirSync(folderOf(gateway)).length;
    for (const type of ['png', 'image/', 'image /png', 'text/plain, text/html', `text/${'x'.repeat(200)}`])
      assert.deepEqual(codeOf(await put(gateway, 'x', type)), [400, 'BAD_REQUEST'], type);
    assert.deepEqual(codeOf(await put(gateway, 'x', 'text/plain', { base: '/svc/none/_blobs' })), [404, 'UNKNOWN_APP']);
    assert.deepEqual(codeOf(await put(gateway, 'x', 'text/plain', { base: '/svc/_x/_blobs' })), [400, 'RESERVED_ID']);
    assert.deepEqual(codeOf(await put(gateway, 'x', 'text/plain', { token: 'wrong' })), [401, 'UNAUTHORIZED']);
    for (const name of [sha256('never'), 'x', `${sha256('').toUpperCase()}`, `${sha256('')}.type`, '..%2Fcurrent.json'])
      for (const method of ['GET', 'DELETE'])
        assert.deepEqual(codeOf(await gateway.call(method, `${BASE}/${name}`)), [404, 'UNKNOWN_BLOB'], name);
    const tooLarge = await gateway.call('PUT', BASE, { headers: { 'content-length': String(100 * MiB + 1) } });
    assert.deepEqual(codeOf(tooLarge), [413, 'PAYLOAD_TOO_LARGE']);
    assert.equal((await gateway.call('POST', BASE, { body: 'x' })).status, 405);
    assert.equal(readdirSync(folderOf(gateway)).length, before);
    assert.deepEqual(temporary(gateway), []);
  });

  test('an interrupted upload leaves nothing', async () => {
    const body = randomBytes(2 * MiB);
    await cutOff(gateway, body.subarray(0, MiB), body.length);
    await eventually(() => temporary(gateway).length === 0);
    assert.deepEqual(codeOf(await get(gateway, sha256(body))), [404, 'UNKNOWN_BLOB']);
    assert.equal((await put(gateway, body)).status, 201);
  });

  test('a deleted file is gone', async () => {
    const body = 'to be deleted';
    await put(gateway, body, 'text/plain');
    assert.deepEqual((await gateway.call('DELETE', `${BASE}/${sha256(body)}`)).json, {
      sha256: sha256(body),
      deleted: true,
    });
    assert.deepEqual(codeOf(await get(gateway, sha256(body))), [404, 'UNKNOWN_BLOB']);
    assert.ok(!readdirSync(folderOf(gateway)).some((name) => name.startsWith(sha256(body))));
  });

  test('files are listed page by page, newest or largest first, to callers that may manage the app', async () => {
    const list = (query = '', token = gateway.token) =>
      gateway.call('GET', `/svc/shelf/_blobs${query}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await gateway.upload('shelf', appOf('shelf', { manifest: { blobQuotaMb: 2 } }))).status, 201);
    assert.deepEqual((await list()).json, { files: [], next: null, usage: { files: 0, bytes: 0, quota: 2 * MiB } });
    const base = { base: '/svc/shelf/_blobs' };
    const bodies = [30, 10, 20, 20, 50].map((size, at) => String(at).repeat(size));
    for (const [at, body] of bodies.entries()) {
      assert.equal((await put(gateway, body, at === 1 ? 'text/csv' : undefined, base)).status, 201);
      // Files of one millisecond are sorted by name.
      utimesSync(join(folderOf(gateway, 'shelf'), sha256(body)), 1000 + at, 1000 + at);
    }
    // A type without its file, as a crash leaves it.
    writeFileSync(join(folderOf(gateway, 'shelf'), `${sha256('half')}.type`), 'text/plain');

    const whole = (await list()).json;
    assert.deepEqual(whole.usage, { files: 5, bytes: 130, quota: 2 * MiB });
    assert.equal(whole.next, null);
    const row = (at: number) => {
      const type = at === 1 ? 'text/csv' : 'application/octet-stream';
      return { sha256: sha256(bodies[at] ?? ''), size: bodies[at]?.length, type, storedAt: (1000 + at) * 1000 };
    };
    assert.deepEqual(whole.files, [4, 3, 2, 1, 0].map(row));

    for (const [sort, expected] of [
      ['newest', [4, 3, 2, 1, 0]],
      ['largest', [4, 0, ...[2, 3].sort((a, b) => (row(a).sha256 < row(b).sha256 ? -1 : 1)), 1]],
    ] as const) {
      const names: string[] = [];
      let next: string | null = '';
      for (let pages = 0; next !== null; pages++) {
        assert.ok(pages < 3);
        const after: string = next === '' ? '' : `&after=${next}`;
        const { json: page }: Answer = await list(`?sort=${sort}&limit=2${after}`);
        names.push(...page.files.map((file: { sha256: string }) => file.sha256));
        next = page.next;
      }
      assert.deepEqual(
        names,
        expected.map((at) => row(at).sha256),
        sort,
      );
    }
    const { next } = (await list('?limit=2')).json;
    assert.equal((await gateway.call('DELETE', `/svc/shelf/_blobs/${row(3).sha256}`)).status, 200);
    assert.deepEqual((await list(`?limit=2&after=${next}`)).json.files, [2, 1].map(row));
    const one = row(0);
    assert.deepEqual((await list(`?prefix=${one.sha256.slice(0, 20)}`)).json.files, [one]);
    assert.deepEqual((await list(`?prefix=${one.sha256}`)).json.files, [one]);

    for (const query of [
      'limit=0',
      'limit=501',
      'limit=x',
      'sort=oldest',
      'prefix=X',
      'after=1',
      `after=-1-${one.sha256}`,
    ]) {
      const refused = await list(`?${query}`);
      assert.deepEqual(codeOf(refused), [400, 'BAD_REQUEST'], query);
      assert.equal(refused.json.error.path, query.split('=')[0]);
    }
    assert.deepEqual(codeOf(await gateway.call('GET', '/svc/nothing/_blobs')), [404, 'UNKNOWN_APP']);
    assert.deepEqual(codeOf(await list('', 'wrong')), [401, 'UNAUTHORIZED']);
    for (const [tools, status] of [
      ['read', 403],
      ['write', 403],
      ['all', 200],
    ] as const) {
      const made = await gateway.call('POST', '/svc/_tokens', { body: { name: tools, apps: ['shelf'], tools } });
      assert.equal((await list('', made.json.token)).status, status, tools);
    }
  });

  test('the quota of the manifest holds, counts concurrent uploads, and frees room after a deletion', async () => {
    const files = appOf('small', { manifest: { blobQuotaMb: 1 } });
    const small = { base: '/svc/small/_blobs' };
    assert.equal((await gateway.upload('small', files)).status, 201);
    const bodies = Array.from({ length: 4 }, () => randomBytes(MiB / 4));
    const answers = await Promise.all(bodies.map((body) => put(gateway, body, 'image/png', small)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 201, 201],
    );
    const over = await put(gateway, 'one byte more', 'text/plain', small);
    assert.deepEqual(codeOf(over), [507, 'QUOTA_EXCEEDED']);
    assert.match(over.json.error.message, /may have 1 MiB together and have 1\.0/);
    const [first = Buffer.of()] = bodies;
    assert.equal((await gateway.call('DELETE', `/svc/small/_blobs/${sha256(first)}`)).status, 200);
    const three = await Promise.all([0, 1, 2].map(() => put(gateway, randomBytes(MiB / 4), undefined, small)));
    assert.deepEqual(three.map(({ status }) => status).sort(), [201, 507, 507]);
    assert.equal(readdirSync(folderOf(gateway, 'small')).filter((name) => !name.includes('.')).length, 4);
    assert.deepEqual(temporary(gateway), []);
    const large = await put(gateway, randomBytes(20 * MiB), 'image/png', small);
    assert.deepEqual(codeOf(large), [507, 'QUOTA_EXCEEDED']);
  });

  test('removing an app removes its files', async () => {
    await gateway.upload('gone', appOf('gone'));
    const gone = { base: '/svc/gone/_blobs' };
    await put(gateway, 'x', 'text/plain', gone);
    assert.equal((await gateway.call('DELETE', '/svc/_apps/gone')).status, 200);
    assert.deepEqual(codeOf(await get(gateway, sha256('x'), {}, gone.base)), [404, 'UNKNOWN_APP']);
    const [trashed = ''] = readdirSync(join(gateway.dataDir, 'trash')).filter((name) => name.startsWith('gone-'));
    assert.equal(readFileSync(join(gateway.dataDir, 'trash', trashed, '_blobs', sha256('x')), 'utf8'), 'x');
    await gateway.upload('gone', appOf('gone'));
    assert.deepEqual(codeOf(await get(gateway, sha256('x'), {}, gone.base)), [404, 'UNKNOWN_BLOB']);
  });
});

test('after a crash acknowledged files are there, the rest is gone, and the usage is right', async (t) => {
  const gateway = await startGateway(t);
  assert.equal((await gateway.upload('album', appOf('album', { manifest: { blobQuotaMb: 2 } }))).status, 201);
  const body = randomBytes(MiB);
  assert.equal((await put(gateway, body, 'image/png')).status, 201);
  const req = request(`${gateway.url}${BASE}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${gateway.token}`, 'content-length': String(MiB) },
  });
  req.on('error', () => {});
  req.write(randomBytes(MiB / 2));
  await eventually(() => temporary(gateway).length > 0);
  await gateway.kill();
  // What a crash between the two files of a blob leaves.
  writeFileSync(join(folderOf(gateway), `${sha256('half')}.type`), 'text/plain');
  await gateway.start();
  await eventually(() => temporary(gateway).length === 0);
  const answer = await get(gateway, sha256(body));
  assert.ok(answer.bytes.equals(body));
  assert.equal(answer.headers['content-type'], 'image/png');
  assert.equal((await put(gateway, randomBytes(MiB), 'image/png')).status, 201);
  assert.deepEqual(codeOf(await put(gateway, 'x')), [507, 'QUOTA_EXCEEDED']);
  assert.ok(!existsSync(join(folderOf(gateway), `${sha256('half')}.type`)));
});

test('a draft sees the files of the live app, and changes only its own', async (t) => {
  const gateway = await startGateway(t, { store: 'git' });
  assert.equal((await gateway.upload('album', ALBUM)).status, 201);
  const draft = '/svc/_draft/s1/album/_blobs';
  for (const text of ['one', 'two']) await put(gateway, text, 'text/plain');
  await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
  assert.equal((await get(gateway, sha256('one'), {}, draft)).text, 'one');

  assert.equal((await put(gateway, 'three', 'text/plain', { base: draft })).status, 201);
  assert.equal((await get(gateway, sha256('three'), {}, draft)).text, 'three');
  assert.deepEqual(codeOf(await get(gateway, sha256('three'))), [404, 'UNKNOWN_BLOB']);

  assert.equal((await gateway.call('DELETE', `${draft}/${sha256('one')}`)).status, 200);
  assert.deepEqual(codeOf(await get(gateway, sha256('one'), {}, draft)), [404, 'UNKNOWN_BLOB']);
  assert.deepEqual(codeOf(await gateway.call('DELETE', `${draft}/${sha256('one')}`)), [404, 'UNKNOWN_BLOB']);
  assert.equal((await get(gateway, sha256('one'))).text, 'one');
  assert.equal((await put(gateway, 'one', 'text/csv', { base: draft })).status, 201);
  assert.equal((await get(gateway, sha256('one'), {}, draft)).headers['content-type'], 'text/csv');
  assert.equal((await get(gateway, sha256('one'))).headers['content-type'], 'text/plain');

  assert.equal((await gateway.call('POST', '/svc/_sessions/s1/apps/album/reset-data')).status, 200);
  assert.deepEqual(codeOf(await get(gateway, sha256('three'), {}, draft)), [404, 'UNKNOWN_BLOB']);
  assert.equal((await get(gateway, sha256('one'), {}, draft)).headers['content-type'], 'text/plain');

  await put(gateway, 'four', 'text/plain', { base: draft });
  assert.equal((await gateway.call('DELETE', '/svc/_sessions/s1')).status, 200);
  assert.deepEqual(codeOf(await get(gateway, sha256('four'), {}, draft)), [404, 'UNKNOWN_SESSION']);
  assert.ok(!existsSync(join(gateway.dataDir, 'apps', '_drafts', 's1')));
});
