/**
 * Tokens for programs: made, listed, revoked, kept over restarts and kills, and as a digest only (specification,
 * "Tokens for programs").
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { rotateToken } from '../storage/token.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';
import { whyNoShim } from '../testing/shim/compile.ts';
import { CrashPlan } from '../testing/shim/crash.ts';

type Row = {
  id: string;
  name: string;
  apps: string[] | null;
  tools: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
};

const DAY = LIMITS.dayMs;
const WORD = appOf('word', { queries: { say: '() => "hello"' } });

const create = (gateway: TestGateway, body: object): Promise<Answer> => gateway.call('POST', '/svc/_tokens', { body });
const revoke = (gateway: TestGateway, id: string): Promise<Answer> => gateway.call('DELETE', `/svc/_tokens/${id}`);

async function list(gateway: TestGateway, query = ''): Promise<Row[]> {
  const answer = await gateway.call('GET', `/svc/_tokens${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

async function made(gateway: TestGateway, body: object): Promise<Row & { token: string }> {
  const answer = await create(gateway, body);
  assert.equal(answer.status, 201, answer.text);
  return answer.json;
}

async function install(gateway: TestGateway, id: string): Promise<void> {
  const answer = await gateway.upload(id, appOf(id, { queries: { say: '() => "hello"' } }));
  assert.equal(answer.status, 201, answer.text);
}

function isError(answer: Answer, status: number, code: string, path?: string): void {
  const { error } = answer.json;
  assert.deepEqual([answer.status, error.code, error.path], [status, code, path], answer.text);
}

/** Files below a folder that have a text in them. */
function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(text));
}

describe('tokens for programs', () => {
  const gateway = gatewayOfSuite({ config: { log: 'debug' } });
  before(() => install(gateway, 'word'));

  describe('over the API', () => {
    test('a token is answered once, listed without its text, and revoked', async () => {
      const before = Date.now();
      const answer = await create(gateway, { name: 'zapier', apps: ['word'], tools: 'read', expiresInDays: 90 });
      assert.equal(answer.status, 201, answer.text);
      assert.equal(answer.headers['cache-control'], 'no-store');
      const { token, ...row } = answer.json as Row & { token: string };
      assert.match(token, /^svct_[0-9a-f]{64}$/);
      const { id, createdAt } = row;
      assert.ok(createdAt >= before && createdAt <= Date.now());
      const expiresAt = createdAt + 90 * DAY;
      assert.deepEqual(row, {
        id,
        name: 'zapier',
        apps: ['word'],
        tools: 'read',
        createdAt,
        expiresAt,
        lastUsedAt: null,
      });

      const { token: second, ...every } = await made(gateway, { name: 'zapier', apps: null, tools: 'all' });
      assert.deepEqual([every.apps, every.expiresAt], [null, null]);
      const listed = await gateway.call('GET', '/svc/_tokens');
      assert.deepEqual(listed.json, [every, row]);
      for (const secret of [token, second]) assert.ok(!listed.text.includes(secret.slice(5)));
      assert.deepEqual(await list(gateway, '?limit=1'), [every]);
      assert.deepEqual(await list(gateway, `?before=${every.id}`), [row]);
      isError(await gateway.call('GET', '/svc/_tokens?before=nothing'), 404, 'UNKNOWN_TOKEN');
      isError(await gateway.call('GET', '/svc/_tokens?limit=501'), 400, 'BAD_REQUEST', 'limit');

      assert.deepEqual((await revoke(gateway, id)).json, { id, deleted: true });
      isError(await revoke(gateway, id), 404, 'UNKNOWN_TOKEN');
      assert.deepEqual(await list(gateway), [every]);
      assert.equal((await revoke(gateway, every.id)).status, 200);
    });

    test('a bad request is refused with the member, and makes no token', async () => {
      const good = { name: 'x', apps: ['word'], tools: 'read' };
      const long = 'x'.repeat(LIMITS.programTokenNameChars + 1);
      const many = Array.from({ length: LIMITS.programTokenApps + 1 }, (_, i) => `app-${i}`);
      const cases: [body: object, status: number, code: string, path: string][] = [
        [{ ...good, name: undefined }, 400, 'BAD_REQUEST', 'name'],
        [{ ...good, name: ' ' }, 400, 'BAD_REQUEST', 'name'],
        [{ ...good, name: 5 }, 400, 'BAD_REQUEST', 'name'],
        [{ ...good, name: long }, 400, 'BAD_REQUEST', 'name'],
        [{ ...good, tools: undefined }, 400, 'BAD_REQUEST', 'tools'],
        [{ ...good, tools: 'admin' }, 400, 'BAD_REQUEST', 'tools'],
        [{ ...good, tools: ['read'] }, 400, 'BAD_REQUEST', 'tools'],
        [{ ...good, apps: 'word' }, 400, 'BAD_REQUEST', 'apps'],
        [{ ...good, apps: [] }, 400, 'BAD_REQUEST', 'apps'],
        [{ ...good, apps: many }, 400, 'BAD_REQUEST', 'apps'],
        [{ ...good, apps: ['word', null] }, 400, 'BAD_REQUEST', 'apps[1]'],
        [{ ...good, apps: ['word', 'No'] }, 400, 'INVALID_ID', 'apps[1]'],
        [{ ...good, apps: ['_drafts'] }, 400, 'RESERVED_ID', 'apps[0]'],
        [{ ...good, expires: 90 }, 400, 'BAD_REQUEST', 'expires'],
        [{ ...good, apps: ['word', 'nobody'] }, 404, 'UNKNOWN_APP', 'apps[1]'],
        ...[0, -1, 1.5, '90', LIMITS.programTokenDays + 1, true].map(
          (expiresInDays): [object, number, string, string] => [
            { ...good, expiresInDays },
            400,
            'BAD_REQUEST',
            'expiresInDays',
          ],
        ),
      ];
      for (const [body, status, code, path] of cases) isError(await create(gateway, body), status, code, path);
      isError(await gateway.call('POST', '/svc/_tokens', { body: '[]' }), 400, 'BAD_REQUEST');
      for (const method of ['GET', 'POST']) {
        isError(await gateway.call(method, '/svc/_tokens', { token: null }), 401, 'UNAUTHORIZED');
      }
      assert.deepEqual(await list(gateway), []);
    });

    test('old tokens do not name a new app with the id of a removed one', async () => {
      for (const query of ['', '?purge=1']) {
        await install(gateway, 'first');
        await install(gateway, 'other');
        const only = await made(gateway, { name: 'only', apps: ['first'], tools: 'all' });
        const both = await made(gateway, { name: 'both', apps: ['first', 'other'], tools: 'all' });
        assert.equal((await gateway.call('DELETE', `/svc/_apps/first${query}`)).status, 200);
        const left = (await list(gateway)).map(({ id, apps }) => [id, apps]);
        assert.deepEqual(left, [[both.id, ['other']]]);
        isError(await create(gateway, { name: 'late', apps: ['first'], tools: 'read' }), 404, 'UNKNOWN_APP', 'apps[0]');
        await install(gateway, 'first');
        assert.deepEqual(
          (await list(gateway)).map(({ id, apps }) => [id, apps]),
          left,
        );
        isError(await revoke(gateway, only.id), 404, 'UNKNOWN_TOKEN');
        assert.equal((await revoke(gateway, both.id)).status, 200);
        for (const id of ['first', 'other']) await gateway.call('DELETE', `/svc/_apps/${id}?purge=1`);
      }
    });
  });

  describe('on disk', () => {
    test('tokens survive a restart, and a new token of the administrator', async () => {
      await made(gateway, { name: 'one', tools: 'read' });
      await made(gateway, { name: 'two', apps: ['word'], tools: 'write', expiresInDays: 1 });
      const before = await list(gateway);
      assert.equal(await gateway.stop(), 0);
      await rotateToken(join(gateway.dataDir, 'token.bin'));
      await gateway.start();
      assert.deepEqual(await list(gateway), before);
    });

    test('acknowledged tokens and revocations survive a kill', async () => {
      const expected = await list(gateway);
      for (let round = 0; round < 2; round++) {
        const { token, ...row } = await made(gateway, { name: `round ${round}`, tools: 'read' });
        expected.unshift(row);
        await gateway.kill();
        await gateway.start();
        assert.deepEqual(await list(gateway), expected);
        if (round % 2 === 0) continue;
        const gone = expected.pop() as Row;
        assert.equal((await revoke(gateway, gone.id)).status, 200);
        await gateway.kill();
        await gateway.start();
        assert.deepEqual(await list(gateway), expected);
      }
    });

    test('no file of the data directory has the text of a token', async () => {
      const kept = await made(gateway, { name: 'needle-in-files', apps: ['word'], tools: 'all' });
      const gone = await made(gateway, { name: 'gone', tools: 'all' });
      await gateway.call('GET', '/svc/word/', { token: kept.token });
      await gateway.read('word', 'say', {}, { token: gone.token });
      await revoke(gateway, gone.id);
      const without = () => {
        for (const { token } of [kept, gone]) assert.deepEqual(filesWith(gateway.dataDir, token.slice(5)), []);
      };
      // Checks that files are read at all, the write-ahead log among them.
      assert.match(filesWith(gateway.dataDir, 'needle-in-files').join(' '), /identity\.sqlite/);
      without();
      await gateway.stop();
      without();
      for (const { token } of [kept, gone]) assert.ok(!gateway.log.includes(token.slice(5)), 'nor has the log');
      await gateway.start();
    });

    test('an expired token is listed as such, and causes no warning at the start', async () => {
      const { id } = await made(gateway, { name: 'short', tools: 'read', expiresInDays: 1 });
      await gateway.stop();
      const past = Date.now() - 1;
      const db = openSqlite(join(gateway.dataDir, 'identity.sqlite'));
      db.prepare('UPDATE program_tokens SET expires_at = ? WHERE id = ?').run(past, id);
      db.close();
      await gateway.start();
      assert.deepEqual(
        (await list(gateway)).filter((row) => row.id === id).map(({ expiresAt }) => expiresAt),
        [past],
      );
      assert.equal((await revoke(gateway, id)).status, 200);
    });
  });

  // The last one: the tokens are lost.
  test('a gateway starts and serves although its tokens cannot be read', async () => {
    await made(gateway, { name: 'one', tools: 'read' });
    await gateway.stop();
    writeFileSync(join(gateway.dataDir, 'identity.sqlite'), 'This is no database.'.repeat(100));
    await gateway.start();
    assert.equal((await gateway.read('word', 'say')).json.data, 'hello');
    isError(await gateway.call('GET', '/svc/_tokens'), 500, 'STORE_DAMAGED');
    assert.match(gateway.log, /Tokens for programs cannot be read/);
  });
});

const skip = whyNoShim() ?? false;

test('a removal that a crash interrupted leaves no token for the next app with the id', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const dataDir = join(folder, 'data');
  const plan = CrashPlan.in(folder, dataDir);
  const crashing = new TestGateway(dataDir, ['--store', 'tarball'], plan.env);
  t.after(async () => {
    await crashing.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  await crashing.start();
  assert.equal((await crashing.upload('word', WORD)).status, 201);
  await made(crashing, { name: 'only', apps: ['word'], tools: 'all' });
  plan.set([{ point: 'rename apps/_registry.json', passing: 1, mode: 'process' }]);
  await assert.rejects(crashing.call('DELETE', '/svc/_apps/word?purge=1'));
  await crashing.exited();
  await crashing.start();
  assert.deepEqual(
    (await list(crashing)).map(({ apps }) => apps),
    [['word']],
    'it names an unknown app',
  );
  assert.equal((await crashing.upload('word', WORD)).status, 201);
  assert.deepEqual(await list(crashing), []);
});
