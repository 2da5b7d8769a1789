/**
 * A gateway as a plugin has it: the host's own callers beside browser sessions, and its agents' tools without HTTP
 * (specification, "Extension points").
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ConversationRunner, HostFire, PreparedTurn } from '../supervisor/extension-points.ts';
import { buildGateway, type Gateway } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { say } from '../testing/chat.ts';
import { TestGateway } from '../testing/gateway.ts';
import { runToEnd } from '../testing/runs.ts';

/** What the host itself checks. */
const OWN = 'own-token-of-the-host';

const folder = mkdtempSync(join(tmpdir(), 'svc-plugin-'));
const gateway = new TestGateway(join(folder, 'data'), []);
let built: Gateway;
let server: Server;
const prepared: PreparedTurn[] = [];
const fires: HostFire[] = [];
let duringTurn: (turn: PreparedTurn) => Promise<string> = async () => '';

const conversationRunner: ConversationRunner = async function* ({ prepare }) {
  const turn = await prepare?.();
  assert.ok(turn);
  prepared.push(turn);
  yield { type: 'final', text: await duringTurn(turn) };
};

before(async () => {
  built = buildGateway({
    dataDir: gateway.dataDir,
    log: 'silent',
    auth: false,
    appsStoreRoot: 'code-store',
    pageOrigins: 'shared',
    admits: (request) => request.header('authorization') === `Bearer ${OWN}`,
    conversationRunner,
    fireAutomationFactory: () => async (fire) => {
      fires.push(fire);
      return { output: null };
    },
  });
  server = createServer((request, response) => {
    if (!built.handle(request, response)) response.writeHead(404).end();
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway.token = OWN;
  const app = { queries: { who: '({ ctx }) => ctx.caller' }, automations: { tick: '() => ({})' } };
  for (const id of ['notes', 'other']) await gateway.install(id, appOf(id, app));
});
after(async () => {
  await built.stop(0);
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const PAGE = { 'sec-fetch-site': 'same-origin' };

test('who the host lets in may do everything; others need a session or a token of the gateway', async () => {
  const token = null;
  assert.equal((await gateway.call('GET', '/svc/_apps', { token })).json.error.code, 'UNAUTHORIZED');
  assert.equal((await gateway.call('GET', '/svc/_apps')).json.length, 2);
  assert.equal(built.token, null);
  assert.ok(!existsSync(join(gateway.dataDir, 'token.bin')), 'there is no second administrator');

  const { url } = (await gateway.call('POST', '/svc/_session/links')).json;
  const [, link] = /#link=(\w+)/.exec(url) ?? [];
  const session = await gateway.call('POST', '/svc/_session', { token, headers: PAGE, body: { link } });
  const [cookie = ''] = String(session.headers['set-cookie']).split(';');
  const headers = { ...PAGE, cookie, 'svc-page-key': session.json.pageKey };
  const read = { app: 'notes', query: 'who' };
  assert.equal(
    (await gateway.call('POST', '/svc/_tool/svc_read', { token, headers, body: read })).json.data.kind,
    'session',
  );
  assert.equal((await gateway.call('GET', '/svc/_apps', { token, headers })).status, 403);
  assert.equal((await gateway.call('GET', '/svc/_apps', { headers: { host: 'evil.example' } })).status, 421);

  const body = { name: 'p', tools: 'read', apps: ['notes'] };
  const made = (await gateway.call('POST', '/svc/_tokens', { body })).json;
  assert.equal((await gateway.read('notes', 'who', {}, { token: made.token })).json.data.kind, 'token');
  assert.equal((await gateway.read('other', 'who', {}, { token: made.token })).status, 403);
});

test("the host's agents call tools without HTTP: every app for its operator, one app in a turn", async () => {
  const call = async (name: string, args: Record<string, unknown>, token?: string) => {
    const { text, isError } = await built.callTool({ name, args, token });
    return isError ? JSON.parse(text).error.code : JSON.parse(text);
  };
  assert.deepEqual(await call('svc_read', { app: 'other', query: 'who' }), { kind: 'agent', name: 'host' });
  assert.equal((await call('svc_describe', {})).apps.length, 2);
  await assert.rejects(call('svc_forget', {}), { code: 'UNKNOWN_TOOL' });
  await assert.rejects(call('svc_read', { query: 'who' }), { code: 'INVALID_INPUT', path: '/app' });

  let answers: unknown[] = [];
  duringTurn = async ({ token }) => {
    answers = [
      await call('svc_read', { app: 'notes', query: 'who' }, token),
      await call('svc_read', { app: 'other', query: 'who' }, token),
      await call('svc_sql_read', { app: 'other', sql: 'SELECT 1' }, token),
      (await call('svc_describe', {}, token)).apps.length,
    ];
    return 'done';
  };
  const events = await say(gateway, 'notes', 'w1', 'Hello');
  assert.equal(events.find(({ type }) => type === 'final')?.text, 'done');
  assert.deepEqual(answers, [{ kind: 'agent', name: 'host' }, 'FORBIDDEN', 'FORBIDDEN', 1]);
  const [turn] = prepared as [PreparedTurn];
  assert.equal(turn.conversation, 'svc-chat:notes:ww1');
  assert.match(turn.instructions, /"notes" \(id `notes`\)/);
  assert.ok(existsSync(turn.folder));
  await assert.rejects(call('svc_read', { app: 'notes', query: 'who' }, turn.token), { code: 'UNAUTHORIZED' });
});

test('a fire names the file of its handler, and what handlers are told of the automation', async () => {
  assert.equal((await runToEnd(gateway, 'notes/tick')).state, 'ok');
  const [{ handler, automation }] = fires as [HostFire];
  assert.deepEqual(automation, { ref: 'notes/tick', id: 'tick', name: 'Daily', version: '0.1.0' });
  assert.ok(handler.endsWith('/automations/tick/handler.js') && existsSync(handler));
});
