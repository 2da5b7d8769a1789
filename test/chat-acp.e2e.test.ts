/** Chat windows with an agent in a separate process, a scripted one that speaks ACP (decisions, section 12). */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import {
  historyOf,
  replay,
  say,
  send,
  type TurnEventSeen,
  textOf,
  turnIdOf,
  turnOf,
  typesOf,
  until,
} from '../testing/chat.ts';
import { gatewayOfSuite, onEachEdge } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';
import { enter, signIn } from '../testing/origins.ts';
import { nodesOf } from '../testing/runs.ts';
import { eventually } from '../testing/waiting.ts';

const AGENT = join(root, 'testing/stub-agent.mjs');

/** Where agents keep their sessions. */
const keep = mkdtempSync(join(tmpdir(), 'svc-acp-'));
process.on('exit', () => rmSync(keep, { recursive: true, force: true }));
const config = {
  runners: { stub: { kind: 'acp', command: [process.execPath, AGENT, '--keep', keep] } },
  runner: 'stub',
};

const notes = (id: string) =>
  appOf(id, {
    migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
    queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
    actions: {
      add: {
        run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
        writes: ['notes'],
      },
    },
  });

async function install(gateway: TestGateway, id = 'notes'): Promise<void> {
  const { status, text } = await gateway.upload(id, notes(id));
  assert.equal(status, 201, text);
}

async function stateOf(gateway: TestGateway, window: string, turnId: string): Promise<string> {
  const rows = await historyOf(gateway, 'notes', window);
  return rows.find((row) => row.kind === 'user' && row.turnId === turnId)?.state;
}

onEachEdge({ config }, (gateway, _edge, store) => {
  before(async () => {
    for (const id of ['notes', 'other']) await install(gateway, id);
  });

  test('an agent uses the tools of its app, which a page sees, and of no other app', async () => {
    const page = await gateway.stream('/svc/notes/_changes');
    const events = await say(
      gateway,
      'notes',
      'tools',
      [
        'tools',
        'say {result}',
        'call add {"text":"milk"}',
        'call svc_sql_write {"app":"notes","sql":"INSERT INTO notes (text) VALUES (?)","params":["bread"]}',
        'call list {}',
        'say {result}',
        'call svc_sql_read {"app":"other","sql":"SELECT 1"}',
        'say {result}',
      ].join('\n'),
    );
    const text = textOf(events);
    assert.match(text, /list/);
    assert.match(text, /svc_sql_describe.*svc_sql_read.*svc_sql_write/s);
    assert.match(text, /milk.*bread/s);
    assert.match(text, /FORBIDDEN.*own app only/);
    const results = events.filter(({ type }) => type === 'tool.result');
    assert.deepEqual(
      results.map(({ ok }) => ok),
      [true, true, true, false],
    );
    for (const action of ['add', 'sql']) {
      const { table, source, action: did } = JSON.parse((await page.next()).data);
      assert.deepEqual([table, source, did], ['notes', 'agent', action]);
    }
    page.close();
    assert.deepEqual((await gateway.read('other', 'list')).json.data, []);
    const nodes = await nodesOf(gateway, turnIdOf(events));
    assert.deepEqual(
      nodes.map(({ ok }) => ok),
      [true, true, true, false],
    );
  });

  test('the token of a turn is valid for the tools of its app, until the turn ends', async () => {
    await gateway.write('notes', 'add', { text: 'eggs' });
    const stream = await send(gateway, 'notes', { windowId: 'token', message: 'servers\nsay {result}\nhang' });
    const seen = await until(stream, 'assistant.delta');
    let text = textOf(seen);
    while (!text.endsWith(']')) text += textOf(await until(stream, 'assistant.delta'));
    const [{ headers }] = JSON.parse(text) as [{ headers: { name: string; value: string }[] }];
    const [, token = ''] = /^Bearer (svca_[0-9a-f]{64})$/.exec(headers[0]?.value ?? '') ?? [];
    const rpc = async (path: string, method: string, params: unknown, more: Record<string, string> = {}) => {
      const body = { jsonrpc: '2.0', id: 1, method, params };
      const accept = 'application/json, text/event-stream';
      const mcp = { accept, 'content-type': 'application/json', 'mcp-protocol-version': '2025-06-18', ...more };
      return await gateway.call('POST', path, { body, token, headers: mcp });
    };
    const call = (path: string, name: string, args: unknown) => rpc(path, 'tools/call', { name, arguments: args });
    const sql = { sql: 'SELECT 1 AS one' };
    assert.match((await call('/svc/_mcp', 'svc_sql_read', { app: 'notes', ...sql })).text, /\\"rows\\":\[\[1\]\]/);
    assert.match((await call('/svc/_mcp', 'svc_read', { app: 'notes', query: 'list' })).text, /eggs/);
    for (const [name, args] of [
      ['svc_sql_read', { app: 'other', ...sql }],
      ['svc_sql_write', { app: 'other', sql: "INSERT INTO notes (text) VALUES ('x')" }],
      ['svc_read', { app: 'other', query: 'list' }],
      ['svc_write', { app: 'other', action: 'add', input: { text: 'x' } }],
      ['svc_describe', { app: 'other' }],
    ] as const) {
      assert.match((await call('/svc/_mcp', name, args)).text, /FORBIDDEN/, name);
    }
    const described = (await call('/svc/_mcp', 'svc_describe', {})).text;
    assert.match(described, /notes/);
    assert.doesNotMatch(described, /other/);
    assert.match((await rpc('/svc/_mcp', 'tools/list', {})).text, /svc_sql_write/);
    assert.equal((await rpc('/svc/other/_mcp', 'tools/list', {})).status, 403);
    for (const [method, path] of [
      ['GET', '/svc/_apps'],
      ['GET', '/svc/notes/'],
      ['GET', '/svc/_runs?app=notes'],
      ['POST', '/svc/notes/_chat'],
      ['GET', '/svc/notes/_chat/windows'],
      ['POST', '/svc/_apps/notes/sql'],
      ['POST', '/svc/_tokens'],
    ] as const) {
      const answer = await gateway.call(method, path, { token, ...(method === 'POST' ? { body: {} } : {}) });
      assert.equal(answer.status, 403, `${method} ${path}: ${answer.text}`);
    }
    const begun = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    const session = {
      'mcp-session-id': String((await rpc('/svc/_mcp', 'initialize', begun)).headers['mcp-session-id']),
    };
    const resource = async (method: string, app: string) =>
      (await rpc('/svc/_mcp', `resources/${method}`, { uri: `svc://${app}/queries/list` }, session)).text;
    for (const method of ['read', 'subscribe']) {
      assert.doesNotMatch(await resource(method, 'notes'), /"error"/);
      assert.match(await resource(method, 'other'), /FORBIDDEN.*own app only|own app only.*FORBIDDEN/);
    }
    const followed = await gateway.stream('/svc/_mcp', { ...session, authorization: `Bearer ${token}` });
    const page = await gateway.stream('/svc/notes/_changes');
    assert.equal((await gateway.write('notes', 'add', { text: 'by token' }, { token })).status, 201);
    assert.match((await followed.next()).data, /resources\/updated.*svc:\/\/notes\/queries\/list/);
    assert.equal(JSON.parse((await page.next()).data).source, 'agent');
    page.close();
    assert.equal((await gateway.write('other', 'add', { text: 'x' }, { token })).status, 403);
    await gateway.call('DELETE', `/svc/notes/_chat/windows/token/turns/${turnIdOf(seen)}`);
    await turnOf(stream);
    await followed.ended();
    for (const path of ['/svc/_mcp', '/svc/notes/_mcp']) {
      assert.equal((await rpc(path, 'tools/list', {})).status, 401, path);
    }
    assert.equal((await gateway.write('notes', 'add', { text: 'late' }, { token })).status, 401);
  });

  test('a permission is granted, and denied', async () => {
    for (const [answer, result] of [
      ['allow', 'allowed'],
      ['reject', 'rejected'],
    ] as const) {
      const window = `asked-${answer}`;
      const stream = await send(gateway, 'notes', {
        windowId: window,
        message: 'ask delete everything\nsay {result}',
      });
      const seen = await until(stream, 'permission');
      const { requestId, options, detail } = seen.at(-1) as TurnEventSeen;
      assert.match(detail, /delete everything/);
      const { optionId } = options.find(({ kind }: { kind: string }) => kind.startsWith(answer));
      const path = `/svc/notes/_chat/windows/${window}/turns/${turnIdOf(seen)}/permissions/${requestId}`;
      const answered = await gateway.call('POST', path, { body: { optionId } });
      assert.deepEqual([answered.status, answered.json.ok], [200, answer === 'allow'], answered.text);
      assert.match(textOf(await turnOf(stream)), new RegExp(result));
      const node = (await nodesOf(gateway, turnIdOf(seen))).find(({ kind }) => kind === 'permission');
      assert.deepEqual([node?.ok, node?.output], [answer === 'allow', { optionId }]);
    }
  });

  test("a client that leaves, and a deletion, cancel the agent's work", async () => {
    const left = await send(gateway, 'notes', { windowId: 'left', message: 'say here\nhang' });
    const seen = await until(left, 'assistant.delta');
    left.close();
    const followed = await replay(gateway, 'notes', 'left', turnIdOf(seen));
    assert.deepEqual(typesOf(followed).slice(-2), ['aborted', 'end']);
    const deleted = await send(gateway, 'notes', { windowId: 'left', message: 'say there\nhang' });
    const turnId = turnIdOf(await until(deleted, 'assistant.delta'));
    await gateway.call('DELETE', `/svc/notes/_chat/windows/left/turns/${turnId}`);
    assert.deepEqual(typesOf(await turnOf(deleted)).slice(-2), ['aborted', 'end']);
    assert.equal(textOf(await say(gateway, 'notes', 'left', 'say back')), 'back');
  });

  // What follows is the same on each edge and store.
  if (store === 'git') return;

  test('two messages in one window are one conversation of the agent', async () => {
    const both = await Promise.all(
      [1, 2].map(() => send(gateway, 'notes', { windowId: 'two', message: 'prompts\nsay {result}' })),
    );
    const texts = await Promise.all(both.map(async (stream) => textOf(await turnOf(stream))));
    assert.deepEqual(texts.sort(), ['1', '2']);
  });

  test('twenty windows at once, with at most eight agents', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `many${i}`);
    const turns = await Promise.all(ids.map((id) => say(gateway, 'notes', id, `say I am ${id}\ncall list {}`)));
    for (const [i, events] of turns.entries()) {
      assert.match(textOf(events), new RegExp(`I am many${i}$`));
      assert.equal(events.at(-2)?.type, 'final');
      assert.deepEqual(
        events.map(({ id }) => id),
        events.map((_event, n) => n + 1),
      );
    }
  });

  test('a failure of the agent is the error of the turn, and the next message works', async () => {
    for (const [message, code] of [
      ['fail no luck', 'AGENT_FAILED'],
      ['say a\ncrash 3', 'AGENT_FAILED'],
    ] as const) {
      const events = await say(gateway, 'notes', 'failing', message);
      assert.deepEqual(typesOf(events).slice(-2), ['error', 'end'], message);
      assert.equal(events.at(-2)?.code, code, events.at(-2)?.message);
    }
    assert.equal(textOf(await say(gateway, 'notes', 'failing', 'say still here')), 'still here');
  });
});

describe('a gateway with the git store', () => {
  const gateway = gatewayOfSuite({ store: 'git', config });
  beforeEach(() => install(gateway));
  afterEach(() => gateway.call('DELETE', '/svc/_apps/notes'));

  test("a draft's windows are separate: they use the draft's data, and are removed with the session", async () => {
    await gateway.write('notes', 'add', { text: 'live' });
    const opened = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    assert.equal(opened.status, 201, opened.text);
    const draft = '_draft/s1/notes';
    const message =
      'call add {"text":"drafted"}\ncall svc_sql_read {"app":"notes","sql":"SELECT text FROM notes"}\nsay {result}';
    const events = await say(gateway, draft, 'w', message);
    assert.match(textOf(events), /live.*drafted/s);
    assert.equal(events[0]?.sessionId, 's1');
    assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);
    await say(gateway, 'notes', 'w', 'say live');
    const windowsOf = async (app: string): Promise<string[]> =>
      (await gateway.call('GET', `/svc/${app}/_chat/windows`)).json.map(({ title }: { title: string }) => title);
    assert.deepEqual(
      [await windowsOf(draft), await windowsOf('notes')],
      [['call add {"text":"drafted"}'], ['say live']],
    );

    const origin = await enter(gateway, await signIn(gateway), { app: 'notes', session: 's1' });
    const post = { body: { windowId: 'page', message: 'say x' }, headers: { origin: `http://${origin.host}` } };
    assert.equal((await origin.call('POST', `/svc/${draft}/_chat`, post)).status, 200);
    assert.equal((await origin.call('POST', '/svc/notes/_chat', post)).status, 403);

    const running = await send(gateway, draft, { windowId: 'w', message: 'say here\nhang' });
    await until(running, 'assistant.delta');
    assert.equal((await gateway.call('DELETE', '/svc/_sessions/s1')).status, 200);
    await running.ended();
    assert.equal((await gateway.call('GET', `/svc/${draft}/_chat/windows`)).status, 404);
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    assert.deepEqual(await windowsOf(draft), []);
    assert.deepEqual(await windowsOf('notes'), ['say live']);
  });

  test('a gateway that is killed in a turn loses nothing of the conversation, and continues', async () => {
    await say(gateway, 'notes', 'w', 'say first');
    const body = {
      windowId: 'w',
      message: 'say partly done\ncall add {"text":"milk"}\nhang',
      idempotencyKey: 'k',
      detach: true,
    };
    const stream = await send(gateway, 'notes', body);
    const seen = await until(stream, 'tool.result');
    const waiting = await send(gateway, 'notes', { windowId: 'w', message: 'say waits', detach: true });
    const waited = await until(waiting, 'phase');
    // No turn waits until its run is recorded.
    const isRecorded = async () => (await gateway.call('GET', `/svc/_runs/${turnIdOf(waited)}`)).status === 200;
    assert.ok(await eventually(30_000, isRecorded), 'the run of the waiting turn is never recorded');
    await gateway.kill();
    await gateway.start();
    const [listed] = (await gateway.call('GET', '/svc/notes/_chat/windows')).json;
    assert.deepEqual([listed.turns, listed.lastTurn], [3, { turnId: turnIdOf(waited), state: 'interrupted' }]);
    assert.equal(await stateOf(gateway, 'w', turnIdOf(seen)), 'interrupted');
    const rows = await historyOf(gateway, 'notes', 'w');
    assert.deepEqual(
      rows.map(({ kind, text, toolName, state, ok }) => [kind, text ?? /add/.test(toolName), state ?? ok]),
      [
        ['user', 'say first', 'ok'],
        ['assistant', 'first', undefined],
        ['user', body.message, 'interrupted'],
        ['assistant', 'partly done', undefined],
        ['tool', true, true],
        ['user', 'say waits', 'interrupted'],
      ],
    );
    // A client that reads on from the last event gets the end; a retry is not a second turn.
    const rest = await replay(gateway, 'notes', 'w', turnIdOf(seen), seen.at(-1)?.id);
    assert.deepEqual(typesOf(rest), ['error', 'end']);
    assert.deepEqual(await turnOf(await send(gateway, 'notes', body)), [...seen, ...rest]);
    assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'milk' }]);
    const next = await say(gateway, 'notes', 'w', 'prompts\nsay {result}');
    assert.equal(next.at(-1)?.type, 'end');
    // The agent was asked twice before, and knows it.
    assert.match(textOf(next), /^[23]$/);
    for (const turnId of [turnIdOf(seen), turnIdOf(waited)]) {
      assert.equal((await gateway.call('GET', `/svc/_runs/${turnId}`)).json.state, 'interrupted');
    }
  });

  test('damage to a transcript loses only the damaged rows', async () => {
    const first = await say(gateway, 'notes', 'w', 'say one');
    await say(gateway, 'notes', 'w', 'say two');
    await gateway.stop();
    const path = join(gateway.dataDir, 'apps/notes/_chat/ww.jsonl');
    const lines = readFileSync(path, 'utf8').split('\n');
    lines.splice(1, 0, '{"kind":"events"', '\0\0\0\0');
    writeFileSync(path, lines.join('\n'));
    appendFileSync(path, '{"kind":"user","turnId":"cut","ts":1,"mess');
    await gateway.start();
    const texts = (await historyOf(gateway, 'notes', 'w')).map(({ text }) => text);
    assert.deepEqual(texts, ['say one', 'one', 'say two', 'two']);
    assert.deepEqual(await replay(gateway, 'notes', 'w', turnIdOf(first)), first);
    assert.equal(textOf(await say(gateway, 'notes', 'w', 'say three')), 'three');
    assert.equal((await historyOf(gateway, 'notes', 'w')).length, 6);
  });
});
