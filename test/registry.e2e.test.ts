/**
 * The registry over HTTP, on both edges: uploads, versions, migrations, removal (specification, "Uploads" and "Activation").
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { LIMITS } from '../protocol/limits.ts';
import { appOf, automation } from '../testing/apps.ts';
import { type Entry, tarball } from '../testing/archive.ts';
import { eventually, onEachEdge, rawRequest, sendRaw } from '../testing/edges.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { pause } from '../testing/waiting.ts';

const RETENTION = 3;
const VERSION_ID = /^v_\d{8}T\d{9}Z_[0-9a-f]{6}$/;

/** An app that answers with its version, and has a table of notes. */
const notes = (id: string, version: string, migrations: string[] = []) =>
  appOf(id, {
    manifest: { version },
    migrations,
    queries: { which: `() => "${version}"`, list: '({ db }) => db.all("SELECT * FROM notes")' },
    actions: {
      add: { run: '({ db, input }) => db.run("INSERT INTO notes (text) VALUES (?)", input.text)', writes: ['notes'] },
    },
  });

const CREATE = 'CREATE TABLE notes (text TEXT NOT NULL);';

async function json(answer: Promise<Answer>, status = 200) {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.json;
}

async function fails(answer: Promise<Answer>, status: number, code: string, path?: string | RegExp) {
  const got = await answer;
  assert.deepEqual([got.status, got.json.isError, got.json.error.code], [status, true, code], got.text);
  if (path instanceof RegExp) assert.match(got.json.error.path, path);
  else assert.equal(got.json.error.path, path);
  assert.ok(!got.text.includes(`${tmpdir()}/`), got.text);
}

const appDir = (gateway: TestGateway, id: string) => join(gateway.dataDir, 'apps', id);
const leftovers = (gateway: TestGateway) => readdirSync(join(gateway.dataDir, 'tmp'));

/** Ids that are refused wherever an id is part of the address. */
const BAD_IDS: [id: string, code: string][] = [
  ['_apps', 'RESERVED_ID'],
  ['_x', 'RESERVED_ID'],
  ['Notes', 'INVALID_ID'],
  ['-x', 'INVALID_ID'],
  ['a.b', 'INVALID_ID'],
  ['a%20b', 'INVALID_ID'],
  ['%C3%BC', 'INVALID_ID'],
  ['..%2f..%2fetc', 'INVALID_ID'],
  ['a%00', 'INVALID_ID'],
  ['x'.repeat(64), 'INVALID_ID'],
];

const entry = (name: string, more: Partial<Entry> = {}): Entry[] => [
  { name: 'app.json', content: '{}' },
  { name, ...more },
];
const manifest = (members: object) =>
  tarball({ 'app.json': JSON.stringify({ id: 'bad', name: 'Bad', version: '1', ...members }) });

const BAD_ARCHIVES: [name: string, archive: Buffer, status: number, code: string, path?: string | RegExp][] = [
  ['nothing at all', Buffer.alloc(0), 400, 'INVALID_ARCHIVE'],
  ['no gzip', Buffer.from('{"id":"bad"}'), 400, 'INVALID_ARCHIVE'],
  ['gzip without a tar', gzipSync('hello'), 400, 'INVALID_ARCHIVE'],
  ['cut short', tarball({ 'app.json': randomBytes(5000) }).subarray(0, 3000), 400, 'INVALID_ARCHIVE'],
  ['a symbolic link', tarball(entry('a.js', { type: '2', link: '/etc/passwd' })), 400, 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a hard link', tarball(entry('a.js', { type: '1', link: 'app.json' })), 400, 'ARCHIVE_ENTRY_TYPE', 'a.js'],
  ['a path that escapes', tarball(entry('../a.js')), 400, 'ARCHIVE_PATH', '../a.js'],
  ['an absolute path', tarball(entry('/etc/a.js')), 400, 'ARCHIVE_PATH', '/etc/a.js'],
  ['names that differ only by case', tarball([...entry('a.js'), { name: 'A.js' }]), 400, 'ARCHIVE_PATH', 'A.js'],
  ['a binary', tarball(entry('run.exe')), 400, 'ARCHIVE_EXTENSION', 'run.exe'],
  [
    'a bomb',
    tarball(entry('big.txt', { content: Buffer.alloc(LIMITS.archiveFileBytes + 1) })),
    413,
    'ARCHIVE_TOO_LARGE',
    'big.txt',
  ],
  ['no manifest', tarball({ 'index.html': 'x' }), 400, 'INVALID_MANIFEST', ''],
  ['a manifest that is not JSON', tarball({ 'app.json': '{' }), 400, 'INVALID_MANIFEST', ''],
  ['the id of another app', manifest({ id: 'other' }), 400, 'INVALID_MANIFEST', 'id'],
  ['no name', manifest({ name: undefined }), 400, 'INVALID_MANIFEST', 'name'],
  ['an empty version', manifest({ version: '' }), 400, 'INVALID_MANIFEST', 'version'],
  ['a query without its file', manifest({ queries: [{ name: 'list' }] }), 400, 'INVALID_MANIFEST', 'queries[0].name'],
  [
    'a schema that does not compile',
    tarball(appOf('bad', { queries: { q: { run: '() => 1', input: { type: 'nonsense' } } } })),
    400,
    'INVALID_MANIFEST',
    /^queries\[0\]\.input/,
  ],
  [
    'an automation that is not valid',
    tarball(appOf('bad', { files: { 'automations/x/automation.json': '{}', 'automations/x/handler.js': '' } })),
    400,
    'INVALID_AUTOMATION',
    'automations/x/automation.json#name',
  ],
  [
    'a migration with a gap',
    tarball({ ...appOf('bad'), 'migrations/0002_b.sql': 'SELECT 1' }),
    400,
    'INVALID_MIGRATION',
    /0002_b/,
  ],
  [
    'a migration with transaction control',
    tarball(appOf('bad', { migrations: ['COMMIT; DROP TABLE x'] })),
    400,
    'INVALID_MIGRATION',
    /0001/,
  ],
  [
    'a migration that attaches',
    tarball(appOf('bad', { migrations: ["ATTACH 'other.sqlite' AS o"] })),
    400,
    'INVALID_MIGRATION',
    /0001/,
  ],
];

onEachEdge({ config: { versionRetention: RETENTION } }, (gateway, edge, store) => {
  const get = (path: string) => gateway.call('GET', `/svc/_apps${path}`);
  const post = (path: string, body?: unknown) => gateway.call('POST', `/svc/_apps${path}`, { body });
  const remove = (path: string) => gateway.call('DELETE', `/svc/_apps${path}`);

  test('no apps', async () => assert.deepEqual(await json(get('')), []));

  test('an upload registers and activates: 201; the same content again: 200', async () => {
    const before = Date.now();
    const files = { ...notes('first', '1.0.0', [CREATE]), 'index.html': '<h1>Hi</h1>' };
    const first = await json(gateway.upload('first', files), 201);
    const { versionId, sha256, ...rest } = first;
    if (store === 'git') assert.equal(versionId, 'first/v1');
    else assert.match(versionId, VERSION_ID);
    assert.match(sha256, /^[0-9a-f]{64}$/);
    if (store === 'tarball') assert.ok(versionId.endsWith(sha256.slice(0, 6)), `${versionId} does not name ${sha256}`);
    assert.deepEqual(rest, {
      id: 'first',
      activeVersion: versionId,
      files: 6,
      bytes: Object.values(files).join('').length,
      deduplicated: false,
      migrationsApplied: [1],
      pruned: [],
      webhooks: [],
    });
    const again = await json(gateway.upload('first', Object.fromEntries(Object.entries(files).reverse())));
    assert.deepEqual(again, { ...first, deduplicated: true, migrationsApplied: [] });

    const [record, ...others] = await json(get(''));
    assert.deepEqual(others, []);
    const { registeredAt, updatedAt, ...fixed } = record;
    assert.ok(registeredAt >= before && updatedAt >= before && updatedAt <= Date.now());
    assert.deepEqual(fixed, {
      id: 'first',
      name: 'first',
      version: '1.0.0',
      kind: 'app',
      backend: store,
      status: 'active',
      activeVersion: versionId,
      queries: 2,
      actions: 1,
      automations: 0,
    });
    assert.deepEqual(await json(get('/first')), {
      ...record,
      manifest: JSON.parse(String(notes('first', '1.0.0')['app.json'])),
      page: `http://first.svc.localhost:${new URL(gateway.url).port}/`,
    });
    const [{ uploadedAt, commit, ...version }] = await json(get('/first/versions'));
    assert.ok(uploadedAt >= before);
    if (store === 'git') assert.match(commit, /^[0-9a-f]{40}$/);
    else assert.equal(commit, undefined);
    assert.deepEqual(version, { versionId, active: true, sha256, version: '1.0.0', files: 6, bytes: rest.bytes });
  });

  test('an upload answers with the addresses of its webhooks, and their secrets, once', async () => {
    const hook = {
      'automations/x/automation.json': automation({ triggers: [{ kind: 'webhook', pending: true }] }),
      'automations/x/handler.js': 'export default () => {};',
    };
    const files = { ...notes('hooked', '1'), ...hook };
    const { webhooks } = await json(gateway.upload('hooked', files), 201);
    const [{ webhookId, secret, url, ...rest }] = webhooks;
    assert.match(secret, /^[0-9a-f]{48}$/);
    assert.equal(url, `${gateway.url}/_svc-hook/${webhookId}`);
    assert.deepEqual([rest, webhooks.length], [{ automationId: 'x', ownerApp: 'hooked' }, 1]);
    assert.deepEqual((await json(gateway.upload('hooked', files))).webhooks, []);
    assert.deepEqual((await json(gateway.upload('hooked', { ...notes('hooked', '2'), ...hook }), 201)).webhooks, []);
    assert.equal((await json(get('/hooked'))).automations, 1);
    await json(remove('/hooked?purge=1'));
  });

  test('?activate=0 only stores; activate flips', async () => {
    const stored = await json(gateway.upload('flip', notes('flip', '1'), '?activate=0'), 201);
    assert.equal(stored.activeVersion, null);
    const record = await json(get('/flip'));
    assert.deepEqual([record.status, record.activeVersion, record.manifest], ['no_active_version', null, null]);
    await fails(gateway.read('flip', 'which'), 503, 'NO_ACTIVE_VERSION');
    const first = stored.versionId;
    assert.deepEqual(await json(post('/flip/activate', { versionId: first })), {
      id: 'flip',
      activeVersion: first,
      previousVersion: null,
      migrationsAhead: [],
      webhooks: [],
    });
    assert.equal((await json(gateway.read('flip', 'which'))).data, '1');

    const second = (await json(gateway.upload('flip', notes('flip', '2'), '?activate=0'), 201)).versionId;
    assert.equal((await json(gateway.read('flip', 'which'))).data, '1');
    assert.deepEqual(await json(post('/flip/activate', { versionId: second })), {
      id: 'flip',
      activeVersion: second,
      previousVersion: first,
      migrationsAhead: [],
      webhooks: [],
    });
    assert.equal((await json(gateway.read('flip', 'which'))).data, '2');
    assert.deepEqual(
      (await json(get('/flip/versions'))).map(({ versionId, active }: { versionId: string; active: boolean }) => [
        versionId,
        active,
      ]),
      [
        [second, true],
        [first, false],
      ],
    );
    assert.equal(
      (await json(gateway.upload('flip', notes('flip', '1')))).activeVersion,
      first,
      'uploading old content activates it',
    );
    assert.equal((await json(gateway.read('flip', 'which'))).data, '1');
    assert.deepEqual(await json(post('/flip/activate', { versionId: first })), {
      id: 'flip',
      activeVersion: first,
      previousVersion: first,
      migrationsAhead: [],
      webhooks: [],
    });
  });

  test('a version can be deleted unless it is active', async () => {
    const one = (await json(gateway.upload('del', notes('del', '1')), 201)).versionId;
    const two = (await json(gateway.upload('del', notes('del', '2')), 201)).versionId;
    await fails(remove(`/del/versions/${encodeURIComponent(two)}`), 409, 'VERSION_ACTIVE');
    assert.deepEqual(await json(remove(`/del/versions/${encodeURIComponent(one)}`)), {
      id: 'del',
      versionId: one,
      deleted: true,
    });
    await fails(remove(`/del/versions/${encodeURIComponent(one)}`), 404, 'UNKNOWN_VERSION');
    await fails(post('/del/activate', { versionId: one }), 404, 'UNKNOWN_VERSION');
    await fails(post('/del/activate', { versionId: '../../first' }), 404, 'UNKNOWN_VERSION');
    await fails(remove('/del/versions/..%2f..%2fdata.sqlite'), 404, 'UNKNOWN_VERSION');
    await fails(post('/del/activate', {}), 400, 'BAD_REQUEST', 'versionId');
    await fails(post('/del/activate', '{'), 400, 'BAD_REQUEST');
    assert.equal(
      (await json(gateway.upload('del', notes('del', '1')), 201)).deduplicated,
      false,
      'its content is gone too',
    );
  });

  test('an unknown app is UNKNOWN_APP everywhere', async () => {
    const calls = [
      get('/nobody'),
      get('/nobody/versions'),
      post('/nobody/activate', { versionId: 'v' }),
      remove('/nobody'),
      remove('/nobody/versions/v'),
      post('/nobody/restart'),
      get('/nobody/settings'),
      post('/nobody/sql', { sql: 'select 1' }),
    ];
    for (const call of calls) await fails(call, 404, 'UNKNOWN_APP');
  });

  describe('ids', () => {
    for (const [id, code] of BAD_IDS) {
      test(`${id.slice(0, 20)} is ${code}`, async () => {
        await fails(gateway.upload(id, notes('x', '1')), 400, code);
        await fails(get(`/${id}`), 400, code);
        await fails(remove(`/${id}?purge=1`), 400, code);
        assert.deepEqual(leftovers(gateway), []);
      });
    }

    for (const id of ['0', 'a_b-c', 'x'.repeat(63)]) {
      test(`${id.slice(0, 20)} is taken`, async () => {
        await json(gateway.upload(id, appOf(id)), 201);
        await json(remove(`/${id}?purge=1`));
      });
    }
  });

  describe('refused uploads leave nothing', () => {
    for (const [name, archive, status, code, path] of BAD_ARCHIVES) {
      test(name, async () => {
        await fails(gateway.upload('bad', archive), status, code, path);
        await fails(get('/bad'), 404, 'UNKNOWN_APP');
        assert.equal(existsSync(appDir(gateway, 'bad')), false);
        assert.deepEqual(leftovers(gateway), []);
      });
    }

    test('a bad upload of a live app', async () => {
      await json(gateway.upload('steady', notes('steady', '1')), 201);
      const before = await json(get('/steady'));
      for (const [, archive, status] of BAD_ARCHIVES.slice(1, 9))
        assert.equal((await gateway.upload('steady', archive)).status, status);
      assert.deepEqual(await json(get('/steady')), before);
      assert.equal((await json(gateway.read('steady', 'which'))).data, '1');
      assert.equal(readdirSync(join(appDir(gateway, 'steady'), 'versions')).length, 1);
    });

    test('a body over the limit, which is declared and never sent', async () => {
      const length = `content-length: ${LIMITS.uploadBodyBytes + 1}`;
      const answer = await sendRaw(gateway, rawRequest(gateway, 'POST', '/svc/_apps/bad/upload', [length]));
      assert.deepEqual([answer.status, JSON.parse(answer.body).error.code], [413, 'PAYLOAD_TOO_LARGE']);
      assert.deepEqual(leftovers(gateway), []);
    });

    test('a body in chunks', async () => {
      const body = tarball(appOf('chunked'));
      const send = fetch(`${gateway.url}/svc/_apps/chunked/upload`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.token}` },
        body: new Blob([body]).stream(),
        duplex: 'half',
      } as RequestInit);
      assert.equal((await send).status, edge === 'node' ? 201 : 411);
    });

    test('a client that disconnects in the middle', async () => {
      const { hostname, port } = new URL(gateway.url);
      const archive = tarball({ ...appOf('gone'), 'noise.txt': randomBytes(200_000) });
      const socket = connect(Number(port), hostname);
      socket.write(rawRequest(gateway, 'POST', '/svc/_apps/gone/upload', [`content-length: ${archive.length}`]));
      socket.write(archive.subarray(0, 100_000));
      await eventually(() => leftovers(gateway).length === 1);
      socket.destroy();
      await eventually(() => leftovers(gateway).length === 0);
      await fails(get('/gone'), 404, 'UNKNOWN_APP');
      assert.equal(existsSync(appDir(gateway, 'gone')), false);
    });
  });

  test('old versions are pruned; the active one and the one before it stay', async () => {
    const ids: string[] = [];
    for (const version of ['1', '2', '3', '4']) {
      const { versionId, pruned } = await json(gateway.upload('many', notes('many', version)), 201);
      ids.push(versionId);
      // The git store removes old versions only from the disk.
      const gone = store === 'tarball' && ids.length > RETENTION ? [ids[ids.length - RETENTION - 1]] : [];
      assert.deepEqual(pruned, gone);
    }
    await json(post('/many/activate', { versionId: ids[1] }));
    for (const version of ['5', '6', '7'])
      await json(gateway.upload('many', notes('many', version), '?activate=0'), 201);
    const all = (await json(get('/many/versions'))) as { versionId: string; active: boolean; version: string }[];
    assert.equal(all.length, store === 'git' ? 7 : RETENTION);
    const before = encodeURIComponent(all[0]?.versionId ?? '');
    assert.deepEqual(await json(get(`/many/versions?limit=1&before=${before}`)), all.slice(1, 2));
    for (const query of ['before=nobody', 'before=', 'limit=0', 'limit=501', 'limit=x'])
      await fails(get(`/many/versions?${query}`), 400, 'BAD_REQUEST', query.split('=', 1)[0]);
    const onDisk = readdirSync(join(appDir(gateway, 'many'), 'versions'));
    const kept = all.filter(({ versionId }) => onDisk.includes(basename(versionId)));
    assert.equal(onDisk.length, RETENTION);
    assert.deepEqual(
      kept.filter(({ active }) => active).map(({ versionId }) => versionId),
      [ids[1]],
    );
    assert.deepEqual(
      kept.map(({ version }) => version),
      ['7', '6', '2'],
    );
    assert.equal((await json(gateway.read('many', 'which'))).data, '2');
  });

  describe('migrations', () => {
    const steps = [CREATE, 'ALTER TABLE notes ADD COLUMN done INTEGER NOT NULL DEFAULT 0;'];
    const backups = () => readdirSync(join(appDir(gateway, 'mig'), 'backups'));

    test('are applied once, in their order', async () => {
      assert.deepEqual((await json(gateway.upload('mig', notes('mig', '1', [CREATE])), 201)).migrationsApplied, [1]);
      await json(gateway.write('mig', 'add', { text: 'kept' }));
      const second = await json(gateway.upload('mig', notes('mig', '2', steps)), 201);
      assert.deepEqual(second.migrationsApplied, [2]);
      assert.deepEqual((await json(gateway.read('mig', 'list'))).data, [{ text: 'kept', done: 0 }]);
      assert.equal(backups().length, 1);
    });

    test('a rollback does not change the data, and the way back applies nothing', async () => {
      const [second, first] = await json(get('/mig/versions'));
      await json(post('/mig/activate', { versionId: first.versionId }));
      assert.deepEqual((await json(gateway.read('mig', 'list'))).data, [{ text: 'kept', done: 0 }]);
      await json(post('/mig/activate', { versionId: second.versionId }));
      assert.equal(backups().length, 1);
    });

    test('SQL that fails changes nothing, and the previous version keeps serving', async () => {
      const before = await json(get('/mig'));
      const broken = [...steps, 'DELETE FROM notes; INSERT INTO missing VALUES (1);'];
      for (const _ of [1, 2]) {
        await fails(gateway.upload('mig', notes('mig', '3', broken)), 422, 'MIGRATION_FAILED', /0003_step\.sql$/);
        assert.deepEqual((await json(gateway.read('mig', 'list'))).data, [{ text: 'kept', done: 0 }]);
        assert.equal((await json(gateway.read('mig', 'which'))).data, '2');
        assert.deepEqual(await json(get('/mig')), before);
      }
      assert.equal((await json(get('/mig/versions'))).length, 2, 'the version that failed is not kept');
    });

    test('a stored version whose migration fails is not activated', async () => {
      const broken = [...steps, 'INSERT INTO missing VALUES (1);'];
      const { versionId } = await json(gateway.upload('mig', notes('mig', '4', broken), '?activate=0'), 201);
      await fails(post('/mig/activate', { versionId }), 422, 'MIGRATION_FAILED', /0003/);
      assert.equal((await json(gateway.read('mig', 'which'))).data, '2');
      await json(remove(`/mig/versions/${encodeURIComponent(versionId)}`));
    });

    test('with the mistake fixed it succeeds', async () => {
      const fixed = [...steps, "INSERT INTO notes (text) VALUES ('new');"];
      assert.deepEqual((await json(gateway.upload('mig', notes('mig', '3', fixed)), 201)).migrationsApplied, [3]);
      assert.deepEqual(
        (await json(gateway.read('mig', 'list'))).data.map(({ text }: { text: string }) => text),
        ['kept', 'new'],
      );
    });

    test('the newest three copies of the data are kept', async () => {
      const all = [...steps, "INSERT INTO notes (text) VALUES ('new');"];
      for (const version of ['5', '6', '7']) {
        all.push('SELECT 1;');
        await json(gateway.upload('mig', notes('mig', version, [...all])), 201);
      }
      assert.equal(backups().length, LIMITS.backups);
    });

    test('a first version that fails leaves no app', async () => {
      await fails(
        gateway.upload('stillborn', notes('stillborn', '1', ['CREATE TABLE a (x); nonsense'])),
        422,
        'MIGRATION_FAILED',
        /0001/,
      );
      await fails(get('/stillborn'), 404, 'UNKNOWN_APP');
      assert.equal(existsSync(appDir(gateway, 'stillborn')), false);
      await json(gateway.upload('stillborn', notes('stillborn', '1', ['CREATE TABLE a (x);'])), 201);
    });
  });

  describe('removal', () => {
    const key = { headers: { 'idempotency-key': 'once' } };
    const trash = () => readdirSync(join(gateway.dataDir, 'trash')).filter((name) => name.startsWith('gone-'));
    const create = async () => {
      await json(gateway.upload('gone', notes('gone', '1', [CREATE])), 201);
      assert.equal((await json(gateway.write('gone', 'add', { text: 'old' }, key))).data.body.changes, 1);
      await json(gateway.call('PUT', '/svc/_apps/gone/settings', { body: { theme: 'dark' } }));
    };

    test('moves the app and its data to the trash', async () => {
      await create();
      assert.deepEqual(await json(remove('/gone')), { id: 'gone', deleted: true });
      await fails(gateway.read('gone', 'list'), 404, 'UNKNOWN_APP');
      assert.equal((await gateway.call('GET', '/svc/gone/')).status, 404);
      assert.equal(
        (await json(get(''))).some(({ id }: { id: string }) => id === 'gone'),
        false,
      );
      const [name, ...others] = trash();
      assert.deepEqual(others, []);
      assert.match(name ?? '', /^gone-\d{13}$/);
      assert.ok(existsSync(join(gateway.dataDir, 'trash', name ?? '', 'data.sqlite')));
      assert.equal(existsSync(appDir(gateway, 'gone')), false);
      await fails(remove('/gone'), 404, 'UNKNOWN_APP');
    });

    test('the name can be used again, and nothing of the old app comes back', async () => {
      await create();
      assert.deepEqual(
        (await json(gateway.read('gone', 'list'))).data,
        [{ text: 'old' }],
        'written again, not replayed',
      );
      await json(remove('/gone'));
      await json(gateway.upload('gone', notes('gone', '1', [CREATE])), 201);
      assert.deepEqual((await json(gateway.read('gone', 'list'))).data, []);
      assert.deepEqual((await json(get('/gone/settings'))).settings, {});
      assert.deepEqual(await json(gateway.call('GET', '/svc/_logs?app=gone')), []);
      assert.equal((await json(get('/gone/versions'))).length, 1);
      await json(remove('/gone'));
      assert.equal(trash().length, 3);
    });

    test('?purge=1 keeps nothing', async () => {
      await create();
      const before = trash().length;
      await json(remove('/gone?purge=1'));
      assert.equal(trash().length, before);
      assert.equal(existsSync(appDir(gateway, 'gone')), false);
      assert.deepEqual(leftovers(gateway), []);
    });

    test('during running calls', async () => {
      await create();
      const calls = Array.from({ length: 40 }, (_, i) => gateway.write('gone', 'add', { text: String(i) }));
      await json(remove('/gone?purge=1'));
      for (const { status, text } of await Promise.all(calls)) assert.ok([200, 404, 500].includes(status), text);
      assert.equal(existsSync(appDir(gateway, 'gone')), false);
    });
  });

  test('versions swapped under load: no call fails, and each is answered by one of the two', async () => {
    const one = (await json(gateway.upload('load', notes('load', '1')), 201)).versionId;
    const two = (await json(gateway.upload('load', notes('load', '2')), 201)).versionId;
    await json(gateway.read('load', 'which'));
    const seen = new Set<string>();
    let swapping = true;
    const client = async () => {
      while (swapping) {
        const { status, text } = await gateway.read('load', 'which');
        seen.add(`${status} ${text}`);
        // Always some are under way; without a pause they would take the time of the swaps.
        await pause(5);
      }
    };
    const clients = Array.from({ length: 8 }, client);
    for (let i = 0; i < 10; i++) await json(post('/load/activate', { versionId: i % 2 ? two : one }));
    swapping = false;
    await Promise.all(clients);
    assert.deepEqual([...seen].sort(), ['200 {"isError":false,"data":"1"}', '200 {"isError":false,"data":"2"}']);
  });

  test('after activate is answered, no call gets the old version', async () => {
    const [two, one] = await json(get('/load/versions'));
    for (let i = 0; i < 6; i++) {
      const version = i % 2 ? two : one;
      await json(post('/load/activate', { versionId: version.versionId }));
      const answers = await Promise.all(Array.from({ length: 8 }, () => gateway.read('load', 'which')));
      assert.deepEqual(new Set(answers.map((answer) => answer.json.data)), new Set([version.version]));
    }
  });

  test('concurrent uploads of one app are processed one after the other', async () => {
    const answers = await Promise.all(
      ['1', '2', '3', '4'].map((version) => gateway.upload('race', notes('race', version, [CREATE]))),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 201, 201],
    );
    assert.deepEqual(
      answers.flatMap((answer) => answer.json.migrationsApplied),
      [1],
    );
    const versions = (await json(get('/race/versions'))) as { active: boolean; version: string }[];
    const active = versions.filter((version) => version.active);
    assert.equal(active.length, 1);
    assert.equal((await json(gateway.read('race', 'which'))).data, active[0]?.version);
  });

  test('restart replaces the thread', async () => {
    assert.deepEqual(await json(post('/load/restart')), { id: 'load', restarted: true });
    assert.equal((await gateway.read('load', 'which')).status, 200);
  });

  describe('after a restart', () => {
    const damages: [id: string, change: (sound: object) => object | string, path: string][] = [
      ['hurt-json', () => '{"id":"hurt-json",', ''],
      ['hurt-name', (sound) => ({ ...sound, name: '' }), 'name'],
      [
        'hurt-schema',
        (sound) => ({ ...sound, queries: [{ name: 'which', input: { type: 'nonsense' } }] }),
        'queries[0].input',
      ],
    ];
    // One of them shows that a checkout is read in the same way.
    const hurt = store === 'git' ? damages.slice(1, 2) : damages;
    const others = async () =>
      (await json(get(''))).filter(({ id }: { id: string }) => hurt.every(([one]) => one !== id));

    before(async () => {
      for (const [id] of hurt) await json(gateway.upload(id, notes(id, '1', [CREATE])), 201);
      const sound = await others();
      const files = await Promise.all(
        hurt.map(async ([id]) =>
          join(appDir(gateway, id), 'versions', basename((await json(get(`/${id}`))).activeVersion), 'app.json'),
        ),
      );
      assert.equal(await gateway.stop(), 0);
      for (const [n, [, change]] of hurt.entries()) {
        const file = files[n] as string;
        const changed = change(JSON.parse(readFileSync(file, 'utf8')));
        writeFileSync(file, typeof changed === 'string' ? changed : JSON.stringify(changed));
      }
      await gateway.start();
      assert.deepEqual(await others(), sound, 'registered apps are there');
    });

    for (const [id, , path] of hurt) {
      test(`an app.json damaged on disk, ${id}: its calls say so, other apps keep working, an upload of the same files repairs it`, async () => {
        const starts = new RegExp(`^${path.replace(/[[\]]/g, '\\$&')}`);
        await fails(gateway.read(id, 'which'), 500, 'INVALID_MANIFEST', starts);
        await fails(gateway.write(id, 'add', { text: 'x' }), 500, 'INVALID_MANIFEST', starts);
        const described = (app?: string) => gateway.call('POST', '/svc/_tool/svc_describe', { body: { app } });
        await fails(described(id), 500, 'INVALID_MANIFEST', starts);
        const { apps } = (await json(described())).data;
        assert.equal(apps.find(({ app }: { app: string }) => app === id).error.code, 'INVALID_MANIFEST');
        assert.equal((await json(gateway.read('many', 'which'))).data, '2');
        assert.equal((await get(`/${id}`)).status, path === '' ? 500 : 200);
        await gateway.upload(id, notes(id, '1', [CREATE]));
        assert.equal((await json(gateway.read(id, 'which'))).data, '1');
        await json(described(id));
      });
    }
  });

  test('registered apps are there after a kill', async () => {
    const before = await json(get(''));
    await gateway.kill();
    await gateway.start();
    assert.deepEqual(await json(get('')), before);
  });
});
