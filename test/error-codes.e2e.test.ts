/**
 * Every error code of the table is provoked on the real daemon, or by a test that ELSEWHERE names, and what the command line
 * prints of the answer says what to do.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { explain } from '../cli/explain.ts';
import { Client } from '../cli/gateway/client.ts';
import { ERROR_CODES, type ErrorBody, type ErrorCode } from '../protocol/errors.ts';
import { GatewayError } from '../protocol/http/gateway-error.ts';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { BEST_EDGE, gatewayOfSuite, rawRequest, sendRaw } from '../testing/edges.ts';
import { type Answer, root, type TestGateway } from '../testing/gateway.ts';
import { consoleHost } from '../testing/origins.ts';

let gateway: TestGateway;
let archives: TestGateway;

/** An automation that answers with the error of a call. */
const caught = (call: string) =>
  `async ({ ctx }) => { try { await ${call}; } catch ({ code, message, path }) { return { output: { code, message, path } }; } }`;

const NOTES = appOf('notes', {
  manifest: { public: true, blobQuotaMb: 0 },
  migrations: ['CREATE TABLE notes (text TEXT);'],
  queries: {
    list: { run: '({ db }) => db.all("SELECT * FROM notes")', public: true },
    broken: '() => { throw new Error("It broke."); }',
  },
  actions: {
    add: {
      run: '({ db, input }) => db.run("INSERT INTO notes VALUES (?)", input.text)',
      input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    },
  },
  automations: {
    refused: caught('ctx.tool("svc_read", { app: "other", query: "list" })'),
    unreachable: caught('ctx.tool("git.push", {})'),
  },
  files: { 'index.html': '<p>Notes' },
});

const SHA256 = '0'.repeat(64);
const call = (...request: Parameters<TestGateway['call']>) => gateway.call(...request);
const post = (path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
  call('POST', path, { body, headers });
const raw = async (...request: [method: string, target: string, lines: string[], body?: string]) => {
  const { status, body } = await sendRaw(gateway, rawRequest(gateway, ...request));
  return { status, json: JSON.parse(body) };
};
const upload = (source: Parameters<typeof appOf>[1]) => gateway.upload('bad', appOf('bad', source));
const uploadEntry = (name: string, type?: string) =>
  gateway.upload(
    'bad',
    tarball([
      { name: 'app.json', content: '{}' },
      { name, ...(type && { type, link: 'app.json' }) },
    ]),
  );
const run = async (automation: string) => {
  const { json } = await post(`/svc/_automations/notes/${automation}/run?wait=1`);
  return { status: ERROR_CODES[json.output.code as ErrorCode].status, json: { isError: true, error: json.output } };
};

async function workspace(id: string, files: Record<string, string> = {}): Promise<string> {
  await post('/svc/_sessions', { sessionId: id });
  for (const [name, text] of Object.entries(files)) await write(id, name, text);
  return id;
}

function write(id: string, name: string, text: string, headers: Record<string, string> = {}): Promise<Answer> {
  return call('PUT', `/svc/_sessions/${id}/apps/notes/files/${name}`, { body: Buffer.from(text), headers });
}

type Provoked = Pick<Answer, 'status' | 'json'>;

const PROVOKED: Partial<Record<ErrorCode, () => Promise<Provoked>>> = {
  BAD_REQUEST: () => post('/svc/_tool/svc_read', '{'),
  UNAUTHORIZED: () => call('GET', '/svc/_apps', { token: 'wrong' }),
  FORBIDDEN: async () => {
    const { token } = (await post('/svc/_tokens', { name: 'reader', tools: 'read', apps: ['notes'] })).json;
    return call('DELETE', '/svc/_apps/notes', { token });
  },
  MISDIRECTED: () => call('GET', '/svc/_apps', { headers: { host: 'elsewhere.example' } }),
  NOT_FOUND: () => call('GET', '/svc/_nothing'),
  METHOD_NOT_ALLOWED: () => call('PUT', '/svc/_apps'),
  // The other edge takes bodies without a length.
  ...(BEST_EDGE === 'uws' && {
    LENGTH_REQUIRED: () =>
      raw('POST', '/svc/_tool/svc_describe', ['transfer-encoding: chunked'], '2\r\n{}\r\n0\r\n\r\n'),
  }),
  PAYLOAD_TOO_LARGE: () => post('/svc/_tool/svc_describe', Buffer.alloc(LIMITS.requestBodyBytes + 1, ' ')),
  RANGE_NOT_SATISFIABLE: () => call('GET', '/svc/notes/index.html', { headers: { range: 'bytes=99-' } }),
  HEADERS_TOO_LARGE: () => raw('GET', '/svc/_apps', [`x: ${'y'.repeat(LIMITS.headerBytes)}`]),
  RATE_LIMITED: async () => {
    const visit = () => call('POST', '/svc/_tool/svc_read', { token: null, body: { app: 'notes', query: 'list' } });
    await visit();
    return visit();
  },
  CONFLICT: () => post('/svc/_apps', { id: 'notes' }),
  RESERVED_ID: () => gateway.upload('_bad', NOTES),
  INVALID_ID: () => gateway.upload('a.b', NOTES),
  UNKNOWN_TOOL: () => post('/svc/_tool/svc_sing'),
  UNKNOWN_APP: () => gateway.read('nots', 'list'),
  UNKNOWN_QUERY: () => gateway.read('notes', 'lst'),
  UNKNOWN_ACTION: () => gateway.write('notes', 'ad'),
  UNKNOWN_VERSION: () => post('/svc/_apps/notes/activate', { versionId: 'notes/v99' }),
  WRONG_KIND: () => gateway.read('notes', 'add'),
  INVALID_INPUT: () => gateway.write('notes', 'add', { text: 1 }),
  NO_ACTIVE_VERSION: async () => {
    await archives.upload('stored', appOf('stored', { queries: { list: '() => []' } }), '?activate=0');
    return archives.read('stored', 'list');
  },
  HANDLER_ERROR: () => gateway.read('notes', 'broken'),
  IDEMPOTENCY_MISMATCH: async () => {
    const headers = { 'idempotency-key': 'one' };
    await gateway.write('notes', 'add', { text: 'a' }, { headers });
    return gateway.write('notes', 'add', { text: 'b' }, { headers });
  },
  INVALID_MANIFEST: () => upload({ manifest: { name: '' } }),
  INVALID_AUTOMATION: () => upload({ automations: { daily: { run: '() => {}', name: 1 } } }),
  UNKNOWN_AUTOMATION: () => post('/svc/_automations/notes/nothing/run'),
  UNKNOWN_RUN: () => call('GET', '/svc/_runs/019a0000-0000-7000-8000-000000000001'),
  TOOL_REFUSED: () => run('refused'),
  TOOL_SERVER_FAILED: () => run('unreachable'),
  NO_RUNNER: () => post('/svc/notes/_chat', { windowId: 'one', message: 'Hello' }),
  UNKNOWN_WINDOW: () => call('GET', '/svc/notes/_chat/windows/none/history'),
  WINDOW_DAMAGED: () => {
    mkdirSync(join(gateway.dataDir, 'apps/notes/_chat/wbroken.jsonl'), { recursive: true });
    return call('GET', '/svc/notes/_chat/windows/broken/history');
  },
  INVALID_MIGRATION: () => upload({ files: { 'migrations/first.sql': 'SELECT 1;' } }),
  MIGRATION_FAILED: () => upload({ migrations: ['CREATE TABLE x (;'] }),
  INVALID_ARCHIVE: () => gateway.upload('bad', Buffer.from('no archive')),
  ARCHIVE_ENTRY_TYPE: () => uploadEntry('a.js', '2'),
  ARCHIVE_PATH: () => uploadEntry('../a.js'),
  ARCHIVE_EXTENSION: () => uploadEntry('run.exe'),
  ARCHIVE_TOO_LARGE: () => upload({ files: { 'large.txt': Buffer.alloc(LIMITS.archiveFileBytes + 1) } }),
  INVALID_HANDLER: () => upload({ queries: { list: '() => {' } }),
  INVALID_PAGE: () => upload({ manifest: { page: { entry: 'app.ts' } }, files: { 'app.ts': 'const = 1;' } }),
  NO_GIT_STORE: () => archives.call('POST', '/svc/_sessions', { body: {} }),
  FETCH_FAILED: () => post('/svc/_apps/_fetch', { id: 'far', url: 'http://127.0.0.1:1/' }),
  UNKNOWN_PERSON: () => call('GET', '/svc/_people/p_0'),
  UNKNOWN_GROUP: () => call('DELETE', '/svc/_groups/g_0'),
  UNKNOWN_SHARE: () => call('DELETE', '/svc/_apps/notes/shares/s_0'),
  UNKNOWN_INVITATION: () => call('DELETE', '/svc/_invitations/i_0'),
  LINK_ENDED: () => {
    const headers = { host: consoleHost(gateway), 'sec-fetch-site': 'same-origin' };
    return post('/svc/_auth/link', { code: 'x' }, headers);
  },
  UNKNOWN_SESSION: () => call('GET', '/svc/_sessions/none/diff'),
  UNKNOWN_CONVERSATION: () => call('GET', '/_svc-conversations/apps/notes/sessions/none'),
  UNKNOWN_BLOB: () => call('GET', `/svc/notes/_blobs/${SHA256}`),
  UNKNOWN_SECRET: () => call('DELETE', '/svc/_apps/notes/secrets/NONE'),
  UNKNOWN_TOKEN: () => call('DELETE', '/svc/_tokens/none'),
  UNKNOWN_TEMPLATE: () => post('/svc/_apps/_clone', { templateId: 'none' }),
  SESSION_DAMAGED: async () => {
    const id = await workspace('damaged', { 'a.txt': 'a' });
    rmSync(join(gateway.dataDir, 'code-store/worktrees/sessions', id, 'session.json'));
    return call('GET', `/svc/_sessions/${id}/diff`);
  },
  PRECONDITION_FAILED: async () => {
    const id = await workspace('edits', { 'a.txt': 'a' });
    return write(id, 'a.txt', 'b', { 'if-match': '"older"' });
  },
  NO_CHANGES: async () => post(`/svc/_sessions/${await workspace('idle')}/publish`, { app: 'notes' }),
  MERGE_CONFLICT: async () => {
    const late = await workspace('late', { 'index.html': '<p>Late' });
    const early = await workspace('early', { 'index.html': '<p>Early' });
    assert.equal((await post(`/svc/_sessions/${early}/publish`, {})).status, 201);
    return post(`/svc/_sessions/${late}/publish`, {});
  },
  UNKNOWN_TRASH: () => call('DELETE', '/svc/_trash/none-1700000000000'),
  WOULD_REPLACE: () => gateway.upload('notes', appOf('notes'), '?ifLive=notes%2Fv9'),
  VERSION_ACTIVE: async () => {
    const [{ versionId }] = (await archives.call('GET', '/svc/_apps/notes/versions')).json;
    return archives.call('DELETE', `/svc/_apps/notes/versions/${versionId}`);
  },
  BACKUP_FOLDER: () => call('PUT', '/svc/_backups', { body: { cron: '0 3 * * *', dir: '/dev/null' } }),
  NO_CLUSTER: () => call('POST', '/svc/_cluster/drain', { body: { draining: true } }),
  RESTORE_TARGET: () => post('/svc/_code/import', 'no bundle', { 'content-type': 'application/octet-stream' }),
  QUOTA_EXCEEDED: () => call('PUT', '/svc/notes/_blobs', { body: 'x', headers: { 'content-type': 'text/plain' } }),
};

/** They need a separate disk, clock, agent or process. */
const ELSEWHERE: Partial<Record<ErrorCode, string>> = {
  LENGTH_REQUIRED: 'test/http.e2e.test.ts',
  OVERLOADED: 'test/dispatcher.e2e.test.ts',
  INTERNAL: 'test/disk.e2e.test.ts',
  OUTCOME_UNKNOWN: 'test/runaway-writes.e2e.test.ts',
  QUARANTINED: 'test/runaway.e2e.test.ts',
  MODE_UNAVAILABLE: 'test/chat.e2e.test.ts',
  AGENT_FAILED: 'test/chat.e2e.test.ts',
  UNKNOWN_TURN: 'test/chat.e2e.test.ts',
  RUN_ABORTED: 'test/chat.e2e.test.ts',
  NOT_CONFIRMED: 'test/chat-acp.e2e.test.ts',
  SECRET_UNREADABLE: 'test/secrets.e2e.test.ts',
  UNKNOWN_PASSKEY: 'test/passkeys.e2e.test.ts',
  FRESH_SIGN_IN_NEEDED: 'test/people-account.e2e.test.ts',
  TEMPLATE_FAILED: 'supervisor/authoring/templates.test.ts',
  STORE_DAMAGED: 'test/damaged-store.e2e.test.ts',
  BACKUP_TOO_LARGE: 'test/jobs.e2e.test.ts',
  INVALID_BACKUP: 'test/backup.e2e.test.ts',
  DATA_FORMAT: 'test/data-format.e2e.test.ts',
  STORAGE_FULL: 'test/disk.e2e.test.ts',
  STORAGE_UNAVAILABLE: 'supervisor/cluster/calls/calls.test.ts',
  NOT_IN_CLUSTER: 'supervisor/cluster/calls/all-nodes.test.ts',
  LAST_NODE: 'test/cluster-operations.e2e.test.ts',
};

/** What is wrong with one value, file or field says which. */
const WITH_PATH: ErrorCode[] = [
  'INVALID_INPUT',
  'INVALID_MANIFEST',
  'INVALID_AUTOMATION',
  'INVALID_MIGRATION',
  'MIGRATION_FAILED',
  'ARCHIVE_ENTRY_TYPE',
  'ARCHIVE_PATH',
  'ARCHIVE_EXTENSION',
  'PRECONDITION_FAILED',
  'TOOL_REFUSED',
];

describe('each code', () => {
  gateway = gatewayOfSuite({
    edge: BEST_EDGE,
    config: { appsStoreRoot: 'code-store', runners: {}, publicLimits: { reads: 1, writes: 1 } },
    env: { PATH: `${join(process.execPath, '..')}:/usr/bin:/bin` },
  });
  archives = gatewayOfSuite({ edge: BEST_EDGE, store: 'tarball' });

  before(async () => {
    for (const each of [gateway, archives]) {
      const answer = await each.upload('notes', NOTES);
      assert.ok(answer.status < 300, answer.text);
    }
  });

  for (const [code, { status }] of Object.entries(ERROR_CODES) as [ErrorCode, { status: number }][]) {
    const provoke = PROVOKED[code];
    if (provoke === undefined) {
      test(`${code} is provoked in ${ELSEWHERE[code]}`, () => {
        const file = join(root, ELSEWHERE[code] ?? assert.fail('Provoke it here.'));
        assert.ok(existsSync(file) && new RegExp(`\\b${code}\\b`).test(readFileSync(file, 'utf8')), file);
      });
      continue;
    }
    test(`${code} says what happened and what to do`, async () => {
      const answer = await provoke();
      assert.deepEqual([answer.status, answer.json.error?.code], [status, code], JSON.stringify(answer.json));
      const error = answer.json.error as ErrorBody;
      assert.match(error.message, /^\S[\s\S]+\S$/);
      assert.doesNotMatch(error.message, /\n\s+at |\/tmp\//, 'no stacks, no paths of this machine');
      if (WITH_PATH.includes(code)) assert.ok(error.path, JSON.stringify(error));
      // It may ask the gateway which names there are.
      const connection = { url: gateway.url, urlFrom: '', token: gateway.token, tokenFrom: '' };
      const failed = new GatewayError(answer.status, error);
      const { title, lines } = await explain(failed, new Client(connection), { app: 'notes', tool: 'list' });
      assert.equal(title, `${code}: ${error.message}`);
      assert.ok(lines.length > 0 && lines.every((line) => /^\S/.test(line)), lines.join('\n'));
    });
  }
});
