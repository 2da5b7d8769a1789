/** The gateway as an MCP server, driven by the official client in both eras of the protocol, on both edges. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite, onEachEdge } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';

const NUMBER = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };

const notes = (version = '1.0.0') =>
  appOf('notes', {
    manifest: { version },
    migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
    queries: {
      count: {
        run: "({ db }) => db.get('SELECT count(*) AS n FROM notes')",
        description: 'How many notes there are.',
        output: NUMBER,
      },
      list: "({ db }) => db.all('SELECT * FROM notes')",
      both: '() => "query"',
    },
    actions: {
      add: {
        run: "async ({ db, body }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body: { n: 1 } }; }",
        input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
        output: NUMBER,
        writes: ['notes'],
      },
      clear: { run: "async ({ db }) => { await db.run('DELETE FROM notes'); return null; }", confirmation: 'required' },
      both: '() => ({ body: "action" })',
      refuse: '() => ({ status: 409, body: { why: "taken" } })',
      fail: '() => { throw new Error("no luck"); }',
    },
  });

type Era = 'legacy' | 'auto';

type Answers = 'accept' | 'decline' | 'cancel';

/** A client that asks its person, who answers so, or leaves the question where the answer is a promise. */
function askingClient(era: Era, person: (message: string) => Answers | Promise<Answers>): Client {
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: era }, capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', async ({ params }) => ({ action: await person(params.message) }));
  return client;
}

async function connect(
  gateway: TestGateway,
  path: string,
  era: Era,
  token = gateway.token,
  client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } }),
): Promise<Client> {
  const transport = new StreamableHTTPClientTransport(new URL(path, gateway.url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  return client;
}

const textOf = (result: Awaited<ReturnType<Client['callTool']>>): string => {
  const [part] = result.content;
  assert.equal(part?.type, 'text');
  return part.text;
};

let installed = 0;
/** Each test that writes has its own app. */
async function install(gateway: TestGateway, files = notes()): Promise<string> {
  const id = `notes-${++installed}`;
  const answer = await gateway.upload(id, {
    ...files,
    'app.json': files['app.json']?.toString().replace('"id":"notes"', `"id":"${id}"`) ?? '',
  });
  assert.equal(answer.status, 201, answer.text);
  return id;
}

onEachEdge({}, (gateway, _edge, store) => {
  /** An app that no test writes to. */
  let shared = '';
  before(async () => {
    shared = await install(gateway);
  });

  for (const era of ['legacy', 'auto'] as const) {
    test(`serves the tools of an app to a client that is ${era}`, async (t) => {
      const id = await install(gateway);
      const client = await connect(gateway, `/svc/${id}/_mcp`, era);
      t.after(() => client.close());

      const { tools } = await client.listTools();
      assert.deepEqual(
        tools.map(({ name }) => name),
        ['count', 'list', 'query.both', 'add', 'clear', 'action.both', 'refuse', 'fail'],
      );
      const [count, , , add, clear] = tools;
      assert.equal(count?.description, 'How many notes there are.');
      assert.deepEqual(count?.outputSchema, NUMBER);
      assert.equal(count?.annotations?.readOnlyHint, true);
      assert.deepEqual(add?.inputSchema.required, ['text']);
      assert.equal(add?.annotations?.destructiveHint, false);
      assert.equal(clear?.annotations?.destructiveHint, true);

      const added = await client.callTool({ name: 'add', arguments: { text: 'milk' } });
      assert.deepEqual(added.structuredContent, { n: 1 });
      const counted = await client.callTool({ name: 'count' });
      assert.deepEqual(counted.structuredContent, { n: 1 });
      assert.equal(textOf(counted), '{"n":1}');
      assert.deepEqual(JSON.parse(textOf(await client.callTool({ name: 'list' }))), [{ id: 1, text: 'milk' }]);
      assert.equal(textOf(await client.callTool({ name: 'query.both' })), '"query"');
      assert.equal(textOf(await client.callTool({ name: 'action.both' })), '"action"');
    });

    test(`tells a client that is ${era} what went wrong`, async (t) => {
      const client = await connect(gateway, `/svc/${shared}/_mcp`, era);
      t.after(() => client.close());

      const refused = await client.callTool({ name: 'refuse' });
      assert.equal(refused.isError, true);
      assert.deepEqual(JSON.parse(textOf(refused)), { status: 409, body: { why: 'taken' } });
      const failed = await client.callTool({ name: 'fail' });
      assert.equal(failed.isError, true);
      const { isError, error } = JSON.parse(textOf(failed));
      assert.deepEqual([isError, error.code], [true, 'HANDLER_ERROR']);
      assert.match(error.message, /no luck/);

      const isInvalid = (code: string) => (thrown: unknown) =>
        thrown instanceof ProtocolError && thrown.code === -32_602 && (thrown.data as { code: string }).code === code;
      await assert.rejects(client.callTool({ name: 'add', arguments: { text: 1 } }), isInvalid('INVALID_INPUT'));
      await assert.rejects(client.callTool({ name: 'nothing' }), isInvalid('UNKNOWN_TOOL'));
    });

    test(`serves the dispatcher's tools to a client that is ${era}`, async (t) => {
      const id = await install(gateway);
      const client = await connect(gateway, '/svc/_mcp', era);
      t.after(() => client.close());
      const call = async (name: string, args: Record<string, unknown>) =>
        await client.callTool({ name, arguments: args });

      assert.deepEqual(
        (await client.listTools()).tools.map(({ name }) => name),
        ['svc_describe', 'svc_read', 'svc_write', 'svc_sql_describe', 'svc_sql_read', 'svc_sql_write'],
      );
      const described = JSON.parse(textOf(await call('svc_describe', {})));
      assert.ok(described.apps.some(({ app }: { app: string }) => app === id));
      await call('svc_write', { app: id, action: 'add', input: { text: 'bread' } });
      assert.deepEqual(JSON.parse(textOf(await call('svc_read', { app: id, query: 'count' }))), { n: 1 });
      // A refusal of an app is for the model to read; a refusal of the dispatcher's own tools is an error of the
      // protocol.
      const wrong = await call('svc_write', { app: id, action: 'add', input: {} });
      assert.equal(JSON.parse(textOf(wrong)).error.code, 'INVALID_INPUT');
      const unknown = await call('svc_read', { app: 'nothing', query: 'count' });
      assert.equal(JSON.parse(textOf(unknown)).error.code, 'UNKNOWN_APP');
      await assert.rejects(call('svc_read', { query: 'count' }), /"app" of svc_read is missing/);
      await assert.rejects(call('svc_read', { app: id, query: 'count', x: 1 }), /not one of its arguments/);
    });
  }

  for (const era of ['legacy', 'auto'] as const) {
    test(`a person at a client that is ${era} is asked before an action that wants it, where the client can ask`, async (t) => {
      const id = await install(gateway);
      const count = async () => (await gateway.read(id, 'count')).json.data.n;
      await gateway.write(id, 'add', { text: 'milk' });
      const heard: string[] = [];
      let answer: Answers = 'decline';
      const client = askingClient(era, async (message) => {
        heard.push(message);
        assert.equal(await count(), 1, 'nothing ran before the answer');
        return answer;
      });
      await connect(gateway, `/svc/${id}/_mcp`, era, gateway.token, client);
      const dispatcher = askingClient(era, () => 'cancel');
      await connect(gateway, '/svc/_mcp', era, gateway.token, dispatcher);
      t.after(() => Promise.all([client.close(), dispatcher.close()]));

      const codeOf = (result: Awaited<ReturnType<Client['callTool']>>) => JSON.parse(textOf(result)).error?.code;
      const refused = await client.callTool({ name: 'clear' });
      assert.deepEqual([refused.isError, codeOf(refused)], [true, 'NOT_CONFIRMED']);
      assert.deepEqual(heard, [`Run "clear" of "${id}"?`]);
      const input = { app: id, action: 'clear', input: { all: true } };
      const cancelled = await dispatcher.callTool({ name: 'svc_write', arguments: input });
      assert.equal(codeOf(cancelled), 'NOT_CONFIRMED');
      // What does not want it is not asked for.
      await client.callTool({ name: 'add', arguments: { text: 'bread' } });
      await gateway.write(id, 'clear');
      await gateway.write(id, 'add', { text: 'milk' });
      assert.equal(heard.length, 1);

      answer = 'accept';
      const allowed = await client.callTool({ name: 'clear', arguments: { why: 'old' } });
      assert.deepEqual([allowed.isError, textOf(allowed)], [undefined, 'null']);
      assert.deepEqual(heard.slice(1), [`Run "clear" of "${id}"?\n{"why":"old"}`]);
      assert.equal(await count(), 0);

      // A client that cannot ask decides itself: it was told that the action is destructive.
      await gateway.write(id, 'add', { text: 'milk' });
      const plain = await connect(gateway, `/svc/${id}/_mcp`, era);
      t.after(() => plain.close());
      assert.equal((await plain.callTool({ name: 'clear' })).isError, undefined);
      assert.equal(await count(), 0);
    });
  }

  test('a call that its client gives up while a person is asked does not run, whatever is answered then', async (t) => {
    const id = await install(gateway);
    await gateway.write(id, 'add', { text: 'milk' });
    const giveUp = new AbortController();
    let answer: (answered: Answers) => void = () => {};
    const client = askingClient('legacy', () => {
      giveUp.abort();
      return new Promise((resolve) => {
        answer = resolve;
      });
    });
    await connect(gateway, `/svc/${id}/_mcp`, 'legacy', gateway.token, client);
    t.after(() => client.close());
    await assert.rejects(client.callTool({ name: 'clear' }, { signal: giveUp.signal }));
    answer('accept');
    await client.ping();
    assert.equal((await gateway.read(id, 'count')).json.data.n, 1);
  });

  test('a session whose client can ask is never answered without a question, also when it was forgotten', async () => {
    const id = await install(gateway);
    await gateway.write(id, 'add', { text: 'milk' });
    const path = `/svc/${id}/_mcp`;
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    };
    const message = (method: string, params: object) => ({ jsonrpc: '2.0', id: 'a', method, params });
    const capabilities = { elicitation: {} };
    const clientInfo = { name: 'test', version: '1' };
    const initialize = message('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo });
    const begun = await gateway.call('POST', path, { body: initialize, headers });
    const session = String(begun.headers['mcp-session-id']);
    // The second is one of an earlier gateway.
    for (const named of [session, session.replace(/^.{8}/, '00000000')]) {
      const own = { ...headers, 'mcp-session-id': named };
      const clear = message('tools/call', { name: 'clear', arguments: {} });
      const stream = await gateway.stream(path, own, clear);
      const { id: question, method } = JSON.parse((await stream.next()).data);
      assert.equal(method, 'elicitation/create');
      const accept = { jsonrpc: '2.0', id: question, result: { action: 'accept' } };
      // The answer of another session is none.
      await gateway.call('POST', path, { body: accept, headers: { ...own, 'mcp-session-id': 'other' } });
      assert.equal((await gateway.read(id, 'count')).json.data.n, 1);
      assert.equal(
        (await gateway.call('POST', path, { body: { ...accept, result: undefined, error: {} }, headers: own })).status,
        202,
      );
      assert.match((await stream.next()).data, /NOT_CONFIRMED/);
      await stream.ended();
      // One for which the library answers has no stream for a question.
      const whole = await gateway.call('POST', path, {
        body: { ...clear, params: { ...clear.params, unread: true } },
        headers: own,
      });
      assert.match(whole.text, /NOT_CONFIRMED/);
    }
    assert.equal((await gateway.read(id, 'count')).json.data.n, 1);
  });

  test('an answer counts once, for the call and the client that it was asked for', async () => {
    const id = await install(gateway);
    const count = async () => (await gateway.read(id, 'count')).json.data.n;
    const add = () => gateway.write(id, 'add', { text: 'milk' });
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
    };
    const made = (await gateway.call('POST', '/svc/_tokens', { body: { name: 'two', tools: 'write' } })).json;
    const clear = async (more: object = {}, args: object = {}, token = gateway.token) => {
      const answer = await gateway.call('POST', `/svc/${id}/_mcp`, {
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { name: 'clear', arguments: args, _meta: meta, ...more },
        },
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/call',
          'mcp-name': 'clear',
        },
        token,
      });
      return answer.json.result ?? answer.json.error;
    };
    const asked = await clear();
    assert.equal(asked.resultType, 'input_required');
    const { method, params } = asked.inputRequests.confirm;
    assert.deepEqual([method, params.mode, params.requestedSchema.properties], ['elicitation/create', 'form', {}]);
    const { requestState } = asked;
    const yes = { inputResponses: { confirm: { action: 'accept' } }, requestState };
    await add();
    for (const again of [await clear({ inputResponses: yes.inputResponses }), await clear({ requestState })])
      assert.equal(again.resultType, 'input_required');
    for (const refused of [
      await clear({ ...yes, requestState: 'made up' }),
      await clear(yes, { other: 1 }),
      await clear(yes, {}, made.token),
    ])
      assert.deepEqual([refused.code, refused.data.path], [-32_602, '/requestState']);
    assert.equal(await count(), 1);
    assert.equal((await clear(yes)).resultType, 'complete');
    assert.equal(await count(), 0);
    await add();
    assert.equal((await clear(yes)).code, -32_602);
    assert.equal(await count(), 1);
  });

  test('shows the manifest as a resource', async (t) => {
    const client = await connect(gateway, `/svc/${shared}/_mcp`, 'auto');
    t.after(() => client.close());
    const { resources } = await client.listResources();
    assert.deepEqual(
      resources.map(({ uri }) => uri),
      ['app.json', 'tables', 'queries/count', 'queries/list', 'queries/both'].map((rest) => `svc://${shared}/${rest}`),
    );
    const tables = (await client.readResource({ uri: `svc://${shared}/tables` })).contents[0];
    assert.ok(tables && 'text' in tables);
    assert.deepEqual(
      JSON.parse(tables.text).tables.map(({ name }: { name: string }) => name),
      ['notes'],
    );
    const { contents } = await client.readResource({ uri: `svc://${shared}/app.json` });
    const [content] = contents;
    assert.ok(content && 'text' in content);
    assert.equal(JSON.parse(content.text).id, shared);
    await assert.rejects(client.readResource({ uri: `svc://${shared}/data.sqlite` }), /no resource/);
  });

  test('lists all tools of one version or of the next while versions change', async (t) => {
    const versionOf = (n: number) =>
      appOf('changing', {
        manifest: { version: `${n}.0.0` },
        queries: Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`q${n}_${i}`, `() => ${n}`])),
      });
    await gateway.upload('changing', versionOf(0));
    const client = await connect(gateway, '/svc/changing/_mcp', 'auto');
    t.after(() => client.close());
    let uploading = true;
    const uploads = (async () => {
      for (let n = 1; n <= 8; n++) await gateway.upload('changing', versionOf(n));
    })().finally(() => {
      uploading = false;
    });
    while (uploading) {
      const { tools } = await client.listTools();
      const [first] = tools;
      const version = first?.name.split('_')[0];
      assert.deepEqual(
        tools.map(({ name }) => name),
        Array.from({ length: 20 }, (_, i) => `${version}_${i}`),
      );
    }
    await uploads;
  });

  test('gives a token only what it may use, and checks token, Host and Origin before the protocol', async (t) => {
    await gateway.upload('other', appOf('other', { queries: { get: '() => 1' } }));
    const body = { name: 'reader', apps: [shared], tools: 'read' };
    const { token } = (await gateway.call('POST', '/svc/_tokens', { body })).json;

    const reader = await connect(gateway, `/svc/${shared}/_mcp`, 'auto', token);
    t.after(() => reader.close());
    assert.deepEqual(
      (await reader.listTools()).tools.map(({ name }) => name),
      ['count', 'list', 'query.both'],
    );
    const refused = await reader.callTool({ name: 'add', arguments: { text: 'x' } });
    assert.equal(JSON.parse(textOf(refused)).error.code, 'FORBIDDEN');

    const initialize = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    const attempt = async (path: string, headers: Record<string, string>, as: string | null = gateway.token) => {
      const answer = await gateway.call('POST', path, { body: initialize, headers, token: as });
      return [answer.status, answer.json?.error?.code];
    };
    assert.deepEqual(await attempt('/svc/_mcp', {}, null), [401, 'UNAUTHORIZED']);
    assert.deepEqual(await attempt(`/svc/${shared}/_mcp`, {}, 'wrong'), [401, 'UNAUTHORIZED']);
    assert.deepEqual(await attempt('/svc/other/_mcp', {}, token), [403, 'FORBIDDEN']);
    assert.deepEqual(await attempt('/svc/_mcp', { origin: 'https://evil.example' }), [403, 'FORBIDDEN']);
    assert.deepEqual(await attempt('/svc/_mcp', { origin: 'null' }), [403, 'FORBIDDEN']);
    assert.deepEqual(await attempt('/svc/_mcp', { host: 'evil.example' }), [421, 'MISDIRECTED']);
    assert.deepEqual(await attempt('/svc/nothing/_mcp', {}), [404, 'UNKNOWN_APP']);
    assert.equal((await gateway.call('GET', '/svc/_mcp')).status, 405);
    const garbage = await gateway.call('POST', '/svc/_mcp', { body: Buffer.from('{"jsonrpc":') });
    assert.deepEqual([garbage.status, garbage.json.error.code], [400, 'BAD_REQUEST']);
    const deep = await gateway.call('POST', '/svc/_mcp', { body: Buffer.from('['.repeat(100_000)) });
    assert.equal(deep.status, 400);
  });

  test('answers a plain call like the library', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const send = async (name: string, args: unknown, modern: boolean, more: Record<string, unknown>) => {
      const params = { name, arguments: args, ...(modern && { _meta: meta }), ...more };
      const answer = await gateway.call('POST', `/svc/${shared}/_mcp`, {
        body: { jsonrpc: '2.0', id: 'a', method: 'tools/call', params },
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(modern
            ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name }
            : { 'mcp-protocol-version': '2025-06-18' }),
        },
      });
      const event = /^data: (.*)$/m.exec(answer.text)?.[1];
      return { status: answer.status, message: JSON.parse(event ?? answer.text), streamed: event !== undefined };
    };
    for (const modern of [false, true]) {
      for (const [name, args] of [
        ['count', {}],
        ['list', {}],
        ['refuse', {}],
        ['fail', {}],
        ['add', { text: 1 }],
        ['nothing', {}],
      ] as const) {
        const plain = await send(name, args, modern, {});
        // A member that nothing else reads sends the call through the library.
        const whole = await send(name, args, modern, { unread: true });
        assert.deepEqual(plain.message, whole.message, `${name} ${modern}`);
        assert.equal(plain.status, whole.status);
        assert.equal(plain.streamed, false);
        assert.equal(whole.streamed, !modern);
      }
    }
  });

  const gitTest = store === 'git' ? test : () => {};

  gitTest('serves the tools of a draft, and nothing of what is live', async (t) => {
    await gateway.upload('notes', notes());
    const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
    const edit = await gateway.call('PUT', `/svc/_sessions/${sessionId}/apps/notes/files/queries/list.js`, {
      body: Buffer.from('export default () => "drafted";\n'),
    });
    assert.equal(edit.status < 300, true, edit.text);
    const draft = await connect(gateway, `/svc/_draft/${sessionId}/notes/_mcp`, 'auto');
    const live = await connect(gateway, '/svc/notes/_mcp', 'auto');
    t.after(() => Promise.all([draft.close(), live.close()]));
    await draft.callTool({ name: 'add', arguments: { text: 'in the draft' } });
    assert.equal(textOf(await draft.callTool({ name: 'list' })), '"drafted"');
    assert.equal(textOf(await draft.callTool({ name: 'count' })), '{"n":1}');
    assert.equal(textOf(await live.callTool({ name: 'list' })), '[]');
  });
});

describe('mcp', () => {
  const gateway = gatewayOfSuite({});

  test("svc mcp serves programs' clients of both eras, also after a restart of the gateway", async (t) => {
    const clients: Client[] = [];
    for (const era of ['legacy', 'auto'] as const) {
      const id = await install(gateway);
      const client = askingClient(era, () => 'decline');
      const args = [join(root, 'bin/svc.js'), 'mcp', id, '--data-dir', gateway.dataDir];
      await client.connect(new StdioClientTransport({ command: process.execPath, args }));
      t.after(() => client.close());
      clients.push(client);
      assert.equal((await client.listTools()).tools.length, 8);
      await client.callTool({ name: 'add', arguments: { text: 'milk' } });
      assert.deepEqual((await client.callTool({ name: 'count' })).structuredContent, { n: 1 });
      await assert.rejects(client.callTool({ name: 'add', arguments: {} }), ProtocolError);
      assert.match(textOf(await client.callTool({ name: 'clear' })), /NOT_CONFIRMED/);
    }
    await gateway.stop();
    for (const client of clients)
      await assert.rejects(client.callTool({ name: 'count' }), /No gateway is running|does not answer|nothing listens/);
    await gateway.start();
    for (const client of clients)
      assert.deepEqual((await client.callTool({ name: 'count' })).structuredContent, { n: 1 });
  });

  test('SQL tools read and change rows, and nothing else', async (t) => {
    const logged = {
      migrations: [
        'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT',
        'CREATE TABLE history (text TEXT); CREATE TRIGGER log AFTER INSERT ON notes BEGIN INSERT INTO history VALUES (new.text); END;',
        'CREATE VIEW texts AS SELECT text FROM notes',
      ],
    };
    await gateway.upload('notes', appOf('notes', logged));
    await gateway.upload('other', appOf('other'));
    const client = await connect(gateway, '/svc/_mcp', 'auto');
    t.after(() => client.close());
    const call = async (name: string, args: Record<string, unknown>) => {
      const result = await client.callTool({ name, arguments: { app: 'notes', ...args } });
      return { isError: result.isError === true, value: JSON.parse(textOf(result)) };
    };
    const refusal = async (name: string, sql: string) => {
      const { isError, value } = await call(name, { sql });
      assert.equal(isError, true, sql);
      return value.error.message as string;
    };

    const { tables } = (await call('svc_sql_describe', {})).value;
    assert.deepEqual(
      tables.map(({ name, type }: Record<string, string>) => `${type} ${name}`),
      ['table history', 'table notes', 'view texts'],
    );
    assert.deepEqual(tables[1].columns[1], {
      name: 'text',
      type: 'TEXT',
      notNull: true,
      primaryKey: false,
      default: null,
    });

    const changes = await gateway.stream('/svc/notes/_changes');
    const written = await call('svc_sql_write', { sql: 'INSERT INTO notes (text) VALUES (?)', params: ['milk'] });
    assert.equal(written.value.changes, 1);
    const events = [JSON.parse((await changes.next()).data), JSON.parse((await changes.next()).data)];
    assert.deepEqual(events.map(({ table, source }) => `${table} ${source}`).sort(), ['history agent', 'notes agent']);
    changes.close();

    const read = await call('svc_sql_read', { sql: 'WITH t AS (SELECT * FROM texts) SELECT text FROM t' });
    assert.deepEqual(read.value, { columns: ['text'], rows: [['milk']], truncated: false });
    const many = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500) SELECT i FROM n';
    const { rows, truncated } = (await call('svc_sql_read', { sql: many })).value;
    assert.deepEqual([rows.length, truncated], [200, true]);

    assert.match(await refusal('svc_sql_read', 'DELETE FROM notes'), /only reads/);
    assert.match(await refusal('svc_sql_read', 'SELECT 1; DELETE FROM notes'), /more than one statement/);
    assert.match(await refusal('svc_sql_write', 'SELECT * FROM notes'), /INSERT, UPDATE, DELETE or REPLACE/);
    for (const sql of [
      'DROP TABLE notes',
      'CREATE TABLE x (a)',
      'ALTER TABLE notes ADD COLUMN done',
      'CREATE INDEX i ON notes (text)',
    ])
      assert.match(await refusal('svc_sql_write', sql), /changed by migrations/);
    for (const sql of ["ATTACH 'x.sqlite' AS x", 'VACUUM', 'BEGIN', 'PRAGMA user_version = 9'])
      assert.match(await refusal('svc_sql_write', sql), /refused|can be read here/);
    assert.equal((await call('svc_sql_read', { sql: 'SELECT count(*) FROM notes' })).value.rows[0][0], 1);

    // A token for one app reaches only the data of that app, and a token for reading cannot use SQL.
    const tokenFor = async (tools: string) => {
      const body = { name: tools, apps: ['notes'], tools };
      return (await gateway.call('POST', '/svc/_tokens', { body })).json.token as string;
    };
    const all = await connect(gateway, '/svc/_mcp', 'auto', await tokenFor('all'));
    const reader = await connect(gateway, '/svc/_mcp', 'auto', await tokenFor('read'));
    t.after(() => Promise.all([all.close(), reader.close()]));
    const statement = { sql: 'SELECT 1' };
    const own = await all.callTool({ name: 'svc_sql_read', arguments: { app: 'notes', ...statement } });
    assert.deepEqual(JSON.parse(textOf(own)).rows, [[1]]);
    for (const [as, app] of [
      [all, 'other'],
      [reader, 'notes'],
    ] as const) {
      const answer = await as.callTool({ name: 'svc_sql_read', arguments: { app, ...statement } });
      assert.equal(JSON.parse(textOf(answer)).error.code, 'FORBIDDEN');
    }

    // Each is shown what it may call of that, and no more.
    const writer = await connect(gateway, '/svc/_mcp', 'auto', await tokenFor('write'));
    t.after(() => writer.close());
    const reading = ['svc_describe', 'svc_read'];
    for (const [client, names] of [
      [reader, reading],
      [writer, [...reading, 'svc_write']],
      [all, [...reading, 'svc_write', 'svc_sql_describe', 'svc_sql_read', 'svc_sql_write']],
    ] as const) {
      const { tools } = await client.listTools();
      assert.deepEqual(
        tools.map(({ name }) => name),
        names,
      );
    }

    // Last: the thread that cannot be stopped is replaced.
    const slow = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n';
    assert.match(await refusal('svc_sql_read', slow), /2(\.0)? s|2000|time/);
  });
});
