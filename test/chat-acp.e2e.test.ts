/**
 * Chat windows with an agent in a separate process, a scripted one that speaks ACP (specification, "Chat windows" and
 * "Runners").
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { replay, say, send, type TurnEventSeen, textOf, turnIdOf, turnOf, typesOf, until } from '../testing/chat.ts';
import { onEachEdge } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';
import { startModelStub } from '../testing/model-stub.ts';
import { enter, signIn } from '../testing/origins.ts';
import { nodesOf } from '../testing/runs.ts';

const AGENT = join(root, 'testing/stub-agent.mjs');

/** Where agents keep their sessions. */
const keep = mkdtempSync(join(tmpdir(), 'svc-acp-'));
process.on('exit', () => rmSync(keep, { recursive: true, force: true }));
const model = await startModelStub();
after(() => model.close());
const config = {
  runners: {
    stub: { kind: 'acp', command: [process.execPath, AGENT, '--keep', keep] },
    local: { kind: 'model', baseUrl: `${model.url}/v1`, model: 'stub-model' },
  },
  runner: 'stub',
};

const notes = (id: string, manifest: Record<string, unknown> = {}) =>
  appOf(id, {
    manifest,
    migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
    queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
    actions: {
      add: {
        run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
        writes: ['notes'],
      },
      clear: {
        run: "({ db }) => db.run('DELETE FROM notes')",
        description: 'Deletes all notes.',
        confirmation: 'required',
        writes: ['notes'],
      },
    },
  });

/** A client of 2026 that subscribes to a query. */
const MODERN = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
  'mcp-protocol-version': '2026-07-28',
};
const LISTEN = {
  jsonrpc: '2.0',
  id: 1,
  method: 'subscriptions/listen',
  params: {
    notifications: { resourceSubscriptions: ['svc://notes/queries/list'] },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
};

async function install(gateway: TestGateway, id = 'notes', manifest: Record<string, unknown> = {}): Promise<void> {
  const { status, text } = await gateway.upload(id, notes(id, manifest));
  assert.equal(status, 201, text);
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
    const plain = textOf(await say(gateway, 'notes', 'token', 'servers\nsay {result}'));
    assert.match(plain, /"Bearer \[secret token\]"/, 'it is in no transcript');
    const message = 'servers hex\nsay {result}\nhang';
    const stream = await send(gateway, 'notes', { windowId: 'token', message });
    const seen = await until(stream, 'assistant.delta');
    const [{ headers }] = JSON.parse(Buffer.from(textOf(seen), 'hex').toString()) as [
      { headers: { name: string; value: string }[] },
    ];
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
    const own = { authorization: `Bearer ${token}` };
    const live = await gateway.stream('/svc/notes/_live?query=list', own);
    await live.next();
    const listening = await gateway.stream(
      '/svc/_mcp',
      { ...own, ...MODERN, 'mcp-method': 'subscriptions/listen' },
      LISTEN,
    );
    await listening.next();
    const kept = await gateway.stream('/svc/notes/_live?query=list');
    await gateway.call('DELETE', `/svc/notes/_chat/windows/token/turns/${turnIdOf(seen)}`);
    await turnOf(stream);
    for (const one of [followed, live, listening]) await one.ended();
    await kept.next();
    await gateway.write('notes', 'add', { text: 'later' });
    await kept.next();
    kept.close();
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

  test('an action that wants a confirmation runs once a person has allowed it, however the agent calls it', async () => {
    const notesNow = async () => (await gateway.read('notes', 'list')).json.data.length;
    const page = await enter(gateway, await signIn(gateway), { app: 'notes' });
    const asked = async (windowId: string, step: string) => {
      await gateway.write('notes', 'add', { text: 'kept' });
      const stream = await send(gateway, 'notes', { windowId, message: `${step}\nsay {result}` });
      const seen = await until(stream, 'permission');
      const question = seen.at(-1) as TurnEventSeen;
      assert.deepEqual([question.toolName, question.detail.split('\n')[0]], ['clear', 'Deletes all notes.']);
      assert.ok((await notesNow()) > 0, 'nothing ran before the answer');
      const path = `/svc/notes/_chat/windows/${windowId}/turns/${turnIdOf(seen)}/permissions/${question.requestId}`;
      // The page may call the action itself, so it may confirm it.
      const answer = (kind: string) => {
        const { optionId } = question.options.find((option: { kind: string }) => option.kind.startsWith(kind));
        return page.call('POST', path, { body: { optionId }, headers: { origin: `http://${page.host}` } });
      };
      return { stream, answer, path, turnId: turnIdOf(seen) };
    };
    const step = 'call clear {"all":true}';
    const refused = await asked('clear-1', step);
    assert.deepEqual((await refused.answer('reject')).json.ok, false);
    const refusal = await turnOf(refused.stream);
    assert.match(textOf(refusal), /NOT_CONFIRMED.*\\"clear\\" of \\"notes\\".*refused it/);
    assert.ok((await notesNow()) > 0);
    assert.equal((await gateway.call('POST', refused.path, { body: { optionId: 'run' } })).status, 409);
    const [node] = (await nodesOf(gateway, refused.turnId)).filter(({ kind }) => kind === 'permission');
    assert.deepEqual([node?.name, node?.ok], ['clear', false]);

    const allowed = await asked('clear-2', step);
    assert.deepEqual((await allowed.answer('allow')).json.ok, true);
    assert.doesNotMatch(textOf(await turnOf(allowed.stream)), /error/);
    assert.equal(await notesNow(), 0);

    // With the token of its turn, over HTTP; a repetition of what ran is not asked for again.
    const stream = await send(gateway, 'notes', { windowId: 'clear-3', message: 'servers hex\nsay {result}\nhang' });
    const seen = await until(stream, 'assistant.delta');
    const token = /svca_[0-9a-f]{64}/.exec(Buffer.from(textOf(seen), 'hex').toString())?.[0] ?? '';
    const body = { app: 'notes', action: 'clear' };
    const clear = () =>
      gateway.call('POST', '/svc/_tool/svc_write', { body, token, headers: { 'idempotency-key': 'k' } });
    for (const [kind, status] of [
      ['reject', 403],
      ['allow', 201],
    ] as const) {
      await gateway.write('notes', 'add', { text: 'kept' });
      const answering = clear();
      const question = (await until(stream, 'permission')).at(-1) as TurnEventSeen;
      assert.ok((await notesNow()) > 0);
      const { optionId } = question.options.find((option: { kind: string }) => option.kind.startsWith(kind));
      const path = `/svc/notes/_chat/windows/clear-3/turns/${turnIdOf(seen)}/permissions/${question.requestId}`;
      await gateway.call('POST', path, { body: { optionId } });
      const answer = await answering;
      if (kind === 'reject') assert.deepEqual([answer.status, answer.json.error.code], [status, 'NOT_CONFIRMED']);
      else assert.equal(answer.status < 300, true, answer.text);
    }
    assert.equal((await clear()).headers['idempotency-replayed'], 'true');
    // The end of the turn is a "no".
    const late = gateway.call('POST', '/svc/_tool/svc_write', { body, token });
    await until(stream, 'permission');
    await gateway.call('DELETE', `/svc/notes/_chat/windows/clear-3/turns/${turnIdOf(seen)}`);
    assert.equal((await late).json.error.code, 'NOT_CONFIRMED');
    assert.deepEqual(typesOf(await turnOf(stream)).slice(-3), ['permission.result', 'aborted', 'end']);
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

  test("a page's chat reaches only runners that enforce mode data, and by SQL what the app gives", async () => {
    const console = await signIn(gateway);
    const toolsOf = () =>
      (model.requests.at(-1)?.tools ?? []).map(({ name }) => name).filter((name) => /sql/.test(name));
    for (const [sql, tools] of [
      [undefined, ['svc_sql_describe', 'svc_sql_read']],
      [false, []],
      ['write', ['svc_sql_describe', 'svc_sql_read', 'svc_sql_write']],
    ] as const) {
      const id = `paged-${sql ?? 'usual'}`;
      await install(gateway, id, sql === undefined ? {} : { chat: { sql } });
      const page = await enter(gateway, console, { app: id });
      const sends = (windowId: string, more: object = {}) =>
        page.call('POST', `/svc/${id}/_chat`, {
          body: { windowId, message: 'call: list {}\nsay: done', ...more },
          headers: { origin: `http://${page.host}` },
        });
      const refused = await sends('named', { runner: 'stub' });
      assert.deepEqual([refused.status, refused.json.error.path], [403, 'runner'], refused.text);
      assert.match(refused.json.error.message, /"stub" does not enforce mode "data"/);
      assert.equal((await sends('named', { model: 'stub/any' })).status, 403);
      const answer = await sends('own');
      assert.match(answer.text, /"runner":"local"/);
      assert.match(answer.text, /event: tool.result\nid: \d+\ndata: .*"toolName":"list","ok":true/);
      assert.deepEqual(toolsOf(), tools);
      // Whoever continues it: a page may have said anything in it.
      await say(gateway, id, 'own', 'say: on');
      assert.deepEqual(toolsOf(), tools);
      await say(gateway, id, 'opened', 'say: mine', { runner: 'local' });
      assert.equal(toolsOf().length, 3);
      assert.equal((await sends('opened')).status, 200);
      assert.deepEqual(toolsOf(), tools);
      await say(gateway, id, 'programs', 'say mine');
      assert.equal((await sends('programs')).status, 403, 'it stays with its agent');
    }
  });

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
