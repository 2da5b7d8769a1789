/** Conversations of an app on the real daemon, and the files that go with their messages. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { BEST_EDGE, EDGES, gatewayOfSuite } from '../testing/edges.ts';
import type { Answer, EdgeKind, TestGateway } from '../testing/gateway.ts';

const LIST = '/_svc-conversations/apps/notes/sessions';
const BLOBS = '/_svc-conversations/apps/notes/blobs';
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

/** The gateway of the suite being defined, with the app `other`, and for each test a new `notes`. */
function withApps(edge: EdgeKind): TestGateway {
  const gateway = gatewayOfSuite({ edge, store: 'git' });
  const add = async (id: string) => assert.equal((await gateway.upload(id, appOf(id))).status, 201);
  before(() => add('other'));
  beforeEach(() => add('notes'));
  afterEach(() => gateway.call('DELETE', '/svc/_apps/notes'));
  return gateway;
}

function codeOf({ status, json }: Answer): [number, string] {
  return [status, json.error.code];
}

function upload(gateway: TestGateway, body: Buffer | string, type = 'image/png'): Promise<Answer> {
  return gateway.call('POST', BLOBS, { body, headers: { 'content-type': type } });
}

function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

for (const edge of EDGES) {
  describe(edge, () => {
    const gateway = withApps(edge);

    test(`a file is kept by its content, and never served as a script (${edge})`, async () => {
      const bytes = randomBytes(3 * 1024 * 1024);
      const stored = await upload(gateway, bytes, 'text/html; charset=utf-8');
      const sha = sha256(bytes);
      assert.equal(stored.status, 201, stored.text);
      assert.deepEqual(stored.json, { sha256: sha, size: bytes.length, type: 'text/html; charset=utf-8' });
      assert.equal((await upload(gateway, bytes, 'text/html; charset=utf-8')).status, 200);
      const got = await gateway.call('GET', `${BLOBS}/${sha}`);
      assert.equal(got.status, 200);
      assert.ok(got.bytes.equals(bytes));
      assert.equal(got.headers['content-type'], 'text/html; charset=utf-8');
      assert.equal(got.headers['content-disposition'], 'attachment');
      assert.equal(got.headers['x-content-type-options'], 'nosniff');
      assert.match(String(got.headers['content-security-policy']), /sandbox/);
      const head = await gateway.call('HEAD', `${BLOBS}/${sha}`);
      assert.deepEqual([head.status, head.bytes.length], [200, 0]);
      const same = await gateway.call('GET', `${BLOBS}/${sha}`, { headers: { 'if-none-match': `"${sha}"` } });
      assert.equal(same.status, 304);
      assert.deepEqual(codeOf(await gateway.call('GET', `/_svc-conversations/apps/other/blobs/${sha}`)), [
        404,
        'UNKNOWN_BLOB',
      ]);
      assert.deepEqual((await gateway.call('DELETE', `${BLOBS}/${sha}`)).json, { sha256: sha, deleted: true });
      assert.deepEqual(codeOf(await gateway.call('GET', `${BLOBS}/${sha}`)), [404, 'UNKNOWN_BLOB']);
      assert.deepEqual(readdirSync(join(gateway.dataDir, 'apps/notes/_attachments')), []);
    });

    test(`a body that is too large, cut or of no type leaves nothing (${edge})`, async () => {
      assert.deepEqual(codeOf(await upload(gateway, Buffer.alloc(LIMITS.attachmentBytes + 1))), [
        413,
        'PAYLOAD_TOO_LARGE',
      ]);
      for (const type of ['nonsense', 'text/ html', `text/${'x'.repeat(200)}`])
        assert.deepEqual(codeOf(await upload(gateway, PNG, type)), [400, 'BAD_REQUEST'], type);
      for (const name of ['x', '../../token.bin', 'A'.repeat(64)])
        assert.deepEqual(codeOf(await gateway.call('GET', `${BLOBS}/${encodeURIComponent(name)}`)), [
          404,
          'UNKNOWN_BLOB',
        ]);
      await new Promise<void>((resolve) => {
        const cut = request(gateway.url + BLOBS, {
          method: 'POST',
          headers: { authorization: `Bearer ${gateway.token}`, 'content-length': '1000000' },
        });
        cut.on('error', () => resolve());
        cut.write(Buffer.alloc(1000), () => cut.destroy());
      });
      // The request behind it: by then the one that was cut has ended.
      const empty = await upload(gateway, '');
      assert.deepEqual([empty.status, empty.json.size], [201, 0]);
      const left = readdirSync(join(gateway.dataDir, 'apps/notes/_attachments')).filter(
        (name) => !name.endsWith('.tmp'),
      );
      assert.deepEqual(left, [sha256('')]);
    });

    if (edge === BEST_EDGE) testConversations(gateway);
  });
}

function testConversations(gateway: TestGateway): void {
  test('conversations are opened, listed, named and deleted, and survive a kill', async () => {
    const made = await gateway.call('POST', LIST, { body: { conversationId: 'one', title: 'First' } });
    assert.equal(made.status, 201, made.text);
    const { createdAt, updatedAt, ...row } = made.json;
    assert.ok(createdAt > 0 && updatedAt === createdAt);
    assert.deepEqual(row, {
      conversationId: 'one',
      app: 'notes',
      title: 'First',
      adapter: null,
      counts: { turns: 0, messages: 0 },
      state: null,
    });
    const unnamed = (await gateway.call('POST', LIST, { body: {} })).json;
    assert.match(unnamed.conversationId, /^c[0-9a-f]{16}$/);
    await gateway.kill();
    await gateway.start();
    const ids = async (query = ''): Promise<string[]> =>
      (await gateway.call('GET', `${LIST}${query}`)).json.map((one: { conversationId: string }) => one.conversationId);
    const [newest = '', oldest = ''] = await ids();
    assert.deepEqual([newest, oldest], [unnamed.conversationId, 'one']);
    assert.deepEqual(await ids('?limit=1'), [newest]);
    assert.deepEqual(await ids(`?limit=1&before=${newest}`), ['one']);
    assert.deepEqual(await ids('?before=one'), []);
    const renamed = await gateway.call('PATCH', `${LIST}/one`, { body: { title: 'Renamed' } });
    assert.deepEqual([renamed.status, renamed.json.title], [200, 'Renamed']);
    assert.equal((await gateway.call('GET', `${LIST}/one`)).json.title, 'Renamed');
    assert.deepEqual((await gateway.call('DELETE', `${LIST}/one`)).json, { conversationId: 'one', deleted: true });
    assert.deepEqual(codeOf(await gateway.call('GET', `${LIST}/one`)), [404, 'UNKNOWN_CONVERSATION']);
  });

  test('bad requests about conversations get the one error shape', async () => {
    await gateway.call('POST', LIST, { body: { conversationId: 'mine' } });
    const other = '/_svc-conversations/apps/other/sessions';
    const cases: [method: string, path: string, body: unknown, code: [number, string]][] = [
      ['POST', LIST, { conversationId: 'mine' }, [409, 'CONFLICT']],
      ['POST', other, { conversationId: 'mine' }, [409, 'CONFLICT']],
      ['POST', LIST, { conversationId: '-x' }, [400, 'INVALID_ID']],
      ['POST', LIST, { conversationId: 'x'.repeat(65) }, [400, 'INVALID_ID']],
      ['POST', LIST, { conversationId: 7 }, [400, 'BAD_REQUEST']],
      ['POST', LIST, { title: '' }, [400, 'BAD_REQUEST']],
      ['POST', LIST, [], [400, 'BAD_REQUEST']],
      ['PATCH', `${LIST}/mine`, {}, [400, 'BAD_REQUEST']],
      ['PATCH', `${LIST}/nope`, { title: 'x' }, [404, 'UNKNOWN_CONVERSATION']],
      ['GET', `${other}/mine`, undefined, [404, 'UNKNOWN_CONVERSATION']],
      ['DELETE', `${other}/mine`, undefined, [404, 'UNKNOWN_CONVERSATION']],
      ['GET', `${LIST}?limit=0`, undefined, [400, 'BAD_REQUEST']],
      ['GET', `${LIST}?before=nope`, undefined, [404, 'UNKNOWN_CONVERSATION']],
      ['GET', '/_svc-conversations/apps/nope/sessions', undefined, [404, 'UNKNOWN_APP']],
      ['GET', '/_svc-conversations/apps/_x/sessions', undefined, [400, 'RESERVED_ID']],
      ['GET', '/_svc-conversations/apps/notes', undefined, [404, 'NOT_FOUND']],
      ['PUT', LIST, {}, [405, 'METHOD_NOT_ALLOWED']],
    ];
    for (const [method, path, body, code] of cases) {
      const answer = await gateway.call(method, path, body === undefined ? {} : { body });
      assert.deepEqual(codeOf(answer), code, `${method} ${path} ${JSON.stringify(body)}`);
    }
    assert.equal((await gateway.call('GET', LIST, { token: null })).status, 401);
  });

  test('the next start removes partial files of a crash, and keeps stored ones', async () => {
    await upload(gateway, PNG);
    await gateway.kill();
    const folder = join(gateway.dataDir, 'apps/notes/_attachments');
    const [unknown, temporary] = [join(folder, 'a'.repeat(64)), join(folder, '.0f.tmp')];
    for (const path of [unknown, temporary]) writeFileSync(path, 'x');
    await gateway.start();
    const gone = async () => {
      while (existsSync(unknown) || existsSync(temporary)) await new Promise((resolve) => setTimeout(resolve, 10));
    };
    await gone();
    assert.equal((await gateway.call('GET', `${BLOBS}/${sha256(PNG)}`)).status, 200);
  });

  test('conversations and files are removed with their app', async () => {
    await gateway.call('POST', LIST, { body: { conversationId: 'mine' } });
    await upload(gateway, PNG);
    assert.equal((await gateway.call('DELETE', '/svc/_apps/notes')).status, 200);
    assert.equal((await gateway.upload('notes', appOf('notes'))).status, 201);
    assert.deepEqual((await gateway.call('GET', LIST)).json, []);
    assert.deepEqual(codeOf(await gateway.call('GET', `${BLOBS}/${sha256(PNG)}`)), [404, 'UNKNOWN_BLOB']);
  });
}
