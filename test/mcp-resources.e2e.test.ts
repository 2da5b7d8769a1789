/** Queries as resources of MCP, read and subscribed to by the official client in both eras of the protocol, on both edges. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite, onEachEdge } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';

/** Notes, under any id. */
const app = (id: string, version = '1.0.0') =>
  appOf(id, {
    manifest: { version, name: `Notes ${version}` },
    migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
    queries: {
      list: { run: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')", description: 'All notes.' },
      find: {
        run: "({ db, input }) => db.all('SELECT text FROM notes WHERE text LIKE ?', input.like)",
        input: {
          type: 'object',
          properties: { like: { type: 'string' } },
          required: ['like'],
          additionalProperties: false,
        },
      },
      tables: '() => "a query, not the tables"',
      fail: '() => { throw new Error("no luck"); }',
      who: '({ ctx }) => ctx.caller',
    },
    actions: {
      add: { run: "({ db, input }) => db.run('INSERT INTO notes (text) VALUES (?)', input.text)", writes: ['notes'] },
      clear: { run: "({ db }) => db.run('DELETE FROM notes')", writes: ['notes'] },
    },
  });

type Era = 'legacy' | 'auto';
const ERAS: Era[] = ['legacy', 'auto'];

/** A client that records the changes that it is notified of. */
class Reader {
  readonly client: Client;
  readonly transport: StreamableHTTPClientTransport;
  readonly updated: string[] = [];
  /** The lists that it heard are others. */
  readonly relisted: string[] = [];
  readonly era: Era;
  #listening: { close(): Promise<void>; closed: Promise<string> } | null = null;

  constructor(gateway: TestGateway, path: string, era: Era, token = gateway.token) {
    this.era = era;
    this.client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } });
    this.client.setNotificationHandler('notifications/resources/updated', ({ params: { uri } }) => {
      this.updated.push(uri);
    });
    for (const list of ['tools', 'resources'] as const) {
      const told = () => void this.relisted.push(list);
      this.client.setNotificationHandler(`notifications/${list}/list_changed`, told);
    }
    this.transport = new StreamableHTTPClientTransport(new URL(path, gateway.url), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
      reconnectionOptions: {
        initialReconnectionDelay: 10,
        maxReconnectionDelay: 10,
        reconnectionDelayGrowFactor: 1,
        maxRetries: 3,
      },
    });
  }

  static async connect(gateway: TestGateway, path: string, era: Era, token?: string): Promise<Reader> {
    const reader = new Reader(gateway, path, era, token);
    const before = await subscribersOf(gateway);
    await reader.client.connect(reader.transport);
    // Clients of 2025 open their stream beside.
    if (era === 'legacy') await eventually(async () => (await subscribersOf(gateway)) > before);
    return reader;
  }

  async subscribe(uri: string): Promise<void> {
    if (this.era === 'legacy') await this.client.subscribeResource({ uri });
    else this.#listening = await this.client.listen({ resourceSubscriptions: [uri] });
  }

  /** Clients of 2025 hear of lists in their session's stream. */
  async hearOfLists(): Promise<void> {
    if (this.era === 'legacy') return;
    this.#listening = await this.client.listen({ toolsListChanged: true, resourcesListChanged: true });
  }

  /** Resolves when the gateway has ended the request that `subscribe` of the newer era opened. */
  async ended(): Promise<string | undefined> {
    return await this.#listening?.closed;
  }

  async unsubscribe(uri: string): Promise<void> {
    if (this.era === 'legacy') await this.client.unsubscribeResource({ uri });
    else await this.#listening?.close();
  }

  async read(uri: string): Promise<unknown> {
    const [content] = (await this.client.readResource({ uri })).contents;
    assert.ok(content && 'text' in content);
    assert.deepEqual([content.uri, content.mimeType], [uri, 'application/json']);
    return JSON.parse(content.text);
  }

  /** Ends the session too, as clients should. */
  async close(): Promise<void> {
    await this.transport.terminateSession();
    await this.client.close();
  }
}

async function subscribersOf(gateway: TestGateway): Promise<number> {
  return (await gateway.system()).counters.subscribers;
}

onEachEdge({}, (gateway, _edge, store) => {
  before(async () => assert.ok((await gateway.upload('notes', app('notes'))).status < 300));
  const add = (text: string) => gateway.write('notes', 'add', { text });
  const clear = () => gateway.write('notes', 'clear');
  const LIST = 'svc://notes/queries/list';
  const FIND = `svc://notes/queries/find?input=${encodeURIComponent('{"like":"m%"}')}`;

  for (const era of ERAS) {
    test(`a client that is ${era} reads queries as resources`, async (t) => {
      await clear();
      await add('milk');
      const reader = await Reader.connect(gateway, '/svc/notes/_mcp', era);
      t.after(() => reader.close());
      const { resources } = await reader.client.listResources();
      assert.deepEqual(
        resources.map(({ uri }) => uri),
        ['app.json', 'tables', 'queries/list', 'queries/tables', 'queries/fail', 'queries/who'].map(
          (rest) => `svc://notes/${rest}`,
        ),
      );
      assert.equal(resources[2]?.description, 'All notes.');
      const { resourceTemplates } = await reader.client.listResourceTemplates();
      assert.deepEqual(
        resourceTemplates.map(({ uriTemplate }) => uriTemplate),
        ['svc://notes/queries/{query}{?input}'],
      );
      assert.equal(reader.client.getServerCapabilities()?.resources?.subscribe, true);
      assert.deepEqual(await reader.read(LIST), [{ text: 'milk' }]);
      assert.deepEqual(await reader.read(`${LIST}?input={}`), [{ text: 'milk' }]);
      assert.deepEqual(await reader.read(FIND), [{ text: 'milk' }]);
      assert.equal(await reader.read('svc://notes/queries/tables'), 'a query, not the tables');
    });

    for (const path of ['/svc/notes/_mcp', '/svc/_mcp']) {
      test(`a client that is ${era} hears at ${path} whenever a result changes, and reads the new one`, async (t) => {
        await clear();
        const reader = await Reader.connect(gateway, path, era);
        t.after(() => reader.close());
        await reader.subscribe(FIND);
        await add('bread');
        await add('milk');
        await eventually(() => reader.updated.length > 0);
        // A write that did not change it sends no notification.
        assert.deepEqual([reader.updated, await reader.read(FIND)], [[FIND], [{ text: 'milk' }]]);
        await add('mint');
        await eventually(() => reader.updated.length > 1);
        assert.deepEqual(await reader.read(FIND), [{ text: 'milk' }, { text: 'mint' }]);
        await reader.unsubscribe(FIND);
        await add('more');
        await reader.subscribe(LIST);
        await add('and more');
        await eventually(() => reader.updated.includes(LIST));
        assert.deepEqual(reader.updated, [FIND, FIND, LIST]);
      });
    }

    const wrong: [what: string, uri: string, words: RegExp][] = [
      ['a URI that names no query', 'svc://notes/data.sqlite', /There is no resource/],
      ['another scheme', 'https://notes/queries/list', /There is no resource/],
      ['another app', 'svc://other/queries/list', /There is no resource/],
      ['an unknown query', 'svc://notes/queries/nothing', /no query "nothing"|has no query/],
      ['an action', 'svc://notes/queries/add', /action/],
      ['input that is not JSON', 'svc://notes/queries/list?input={', /not JSON/],
      ['input against the schema', 'svc://notes/queries/find?input={"like":1}', /like/],
      ['input that is missing', 'svc://notes/queries/find', /like/],
      ['an invalid percent encoding', 'svc://notes/queries/list?input=%zz', /percent sign/],
      ['input that nests too deep', `svc://notes/queries/list?input=${'['.repeat(2000)}`, /too deep/],
      ['a URI that is too long', `svc://notes/queries/list?input="${'x'.repeat(LIMITS.mcpUriBytes)}"`, /8192 bytes/],
    ];
    test(`a client that is ${era} gets an error that says what is wrong with a resource`, async (t) => {
      const reader = await Reader.connect(gateway, '/svc/notes/_mcp', era);
      t.after(() => reader.close());
      for (const [what, uri, words] of wrong) {
        for (const attempt of [() => reader.read(uri), () => reader.subscribe(uri)]) {
          await assert.rejects(attempt, (error) => {
            assert.ok(error instanceof ProtocolError, `${what}: ${error}`);
            assert.equal(error.code, -32_602, what);
            assert.match(error.message, words, what);
            return true;
          });
        }
      }
      await assert.rejects(reader.read('svc://notes/queries/fail'), /no luck/);
      await assert.rejects(reader.subscribe('svc://notes/app.json'), /results of queries/);
    });

    test(`subscriptions of a client that is ${era} end with its token, and another token may not continue them`, async (t) => {
      const tokenFor = async (name: string, apps?: string[]) =>
        (await gateway.call('POST', '/svc/_tokens', { body: { name, apps, tools: 'read' } })).json;
      await gateway.upload('other', appOf('other', { queries: { get: '() => 1' } }));
      const [all, foreign] = [await tokenFor('reader', ['notes']), await tokenFor('foreign', ['other'])];
      const stranger = await Reader.connect(gateway, '/svc/_mcp', era, foreign.token);
      for (const attempt of [() => stranger.read(LIST), () => stranger.subscribe(LIST)])
        await assert.rejects(attempt, /may do "read" with "other"/);
      await stranger.close();

      const reader = await Reader.connect(gateway, '/svc/notes/_mcp', era, all.token);
      t.after(() => reader.client.close());
      await reader.subscribe('svc://notes/queries/who');
      await reader.subscribe(LIST);
      const kept = await tokenFor('kept', ['notes']);
      const staying = await Reader.connect(gateway, '/svc/notes/_mcp', era, kept.token);
      await staying.subscribe(LIST);
      assert.deepEqual(await reader.read('svc://notes/queries/who'), { kind: 'token', name: 'reader' });
      await gateway.call('DELETE', `/svc/_tokens/${all.id}`);
      if (era === 'auto') assert.equal(await reader.ended(), 'remote');
      await add('after');
      await eventually(() => staying.updated.includes(LIST));
      assert.deepEqual(reader.updated, []);
      await gateway.call('DELETE', `/svc/_tokens/${kept.id}`);
      await eventually(async () => (await subscribersOf(gateway)) === 0);
      await staying.client.close();
      await gateway.call('DELETE', `/svc/_tokens/${foreign.id}`);
    });

    test(`a client that is ${era} hears when the lists of its app are others, and no other client does`, async (t) => {
      const versionOf = (...queries: string[]) =>
        appOf('listed', { queries: Object.fromEntries(queries.map((name) => [name, '() => 1'])) });
      const publish = async (...queries: string[]) =>
        assert.ok((await gateway.upload('listed', versionOf(...queries))).status < 300);
      await publish('one');
      const reader = await Reader.connect(gateway, '/svc/listed/_mcp', era);
      const others = await Promise.all(
        ['/svc/notes/_mcp', '/svc/_mcp'].map((path) => Reader.connect(gateway, path, era)),
      );
      t.after(() => Promise.all([reader.client.close(), ...others.map((other) => other.close())]));
      for (const one of [reader, ...others]) await one.hearOfLists();
      const { tools, resources } = reader.client.getServerCapabilities() ?? {};
      assert.deepEqual([tools?.listChanged, resources?.listChanged], [true, true]);

      await publish('one', 'two');
      await eventually(() => reader.relisted.length > 1);
      assert.deepEqual(reader.relisted, ['tools', 'resources']);
      const listed = async () => (await reader.client.listTools()).tools.map(({ name }) => name);
      assert.deepEqual(await listed(), ['one', 'two']);
      const versions = (await gateway.call('GET', '/svc/_apps/listed/versions')).json;
      const first = versions.find(({ active }: { active: boolean }) => !active);
      const back = await gateway.call('POST', '/svc/_apps/listed/activate', { body: { versionId: first.versionId } });
      assert.equal(back.status, 200, back.text);
      await eventually(() => reader.relisted.length > 3);
      assert.deepEqual(await listed(), ['one']);
      assert.ok((await gateway.call('DELETE', '/svc/_apps/listed')).status < 300);
      if (era === 'auto') assert.equal(await reader.ended(), 'graceful');
      await eventually(() => reader.relisted.length > 5);
      assert.deepEqual(reader.relisted, ['tools', 'resources', 'tools', 'resources', 'tools', 'resources']);
      assert.deepEqual(
        others.map(({ relisted }) => relisted),
        [[], []],
      );
    });

    test(`subscriptions of a client that is ${era} end with the app`, async (t) => {
      await gateway.upload('gone', appOf('gone', { queries: { one: '() => 1' } }));
      const reader = await Reader.connect(gateway, '/svc/gone/_mcp', era);
      t.after(() => reader.client.close());
      await reader.subscribe('svc://gone/queries/one');
      assert.ok((await gateway.call('DELETE', '/svc/_apps/gone')).status < 300);
      if (era === 'auto') assert.equal(await reader.ended(), 'graceful');
      await eventually(async () => (await subscribersOf(gateway)) === 0);
    });
  }

  type Rpc = {
    status: number;
    session: string | undefined;
    error?: { code: number; message: string; data?: { code: string } };
  };
  /** One raw message of a client of 2025. */
  const rpc = async (method: string, params: object, session?: string, token = gateway.token): Promise<Rpc> => {
    const answer = await gateway.call('POST', '/svc/notes/_mcp', {
      body: { jsonrpc: '2.0', id: 1, method, params },
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        ...(session !== undefined && { 'mcp-session-id': session }),
      },
      token,
    });
    const text = /^data: (.*)$/m.exec(answer.text)?.[1] ?? answer.text;
    return { ...JSON.parse(text), status: answer.status, session: answer.headers['mcp-session-id'] };
  };
  const begin = async (): Promise<string> => {
    const clientInfo = { name: 'test', version: '1' };
    const { session } = await rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    assert.ok(session);
    return session;
  };
  const withSession = (method: string, session?: string, token = gateway.token) =>
    gateway.call(method, '/svc/notes/_mcp', { headers: session ? { 'mcp-session-id': session } : {}, token });
  const open = (session: string, headers: Record<string, string> = {}) =>
    gateway.stream('/svc/notes/_mcp', { 'mcp-session-id': session, ...headers });

  test('a client that reconnects is notified once of changes that it missed', async () => {
    await clear();
    const session = await begin();
    assert.equal((await rpc('resources/subscribe', { uri: LIST }, session)).error, undefined);
    assert.equal((await rpc('resources/subscribe', { uri: LIST }, session)).error, undefined);
    const stream = await open(session);
    await add('one');
    const { id, data } = await stream.next();
    assert.deepEqual(JSON.parse(data), {
      jsonrpc: '2.0',
      method: 'notifications/resources/updated',
      params: { uri: LIST },
    });
    stream.close();
    await eventually(async () => (await subscribersOf(gateway)) === 0);
    await add('two');
    const again = await open(session, { 'last-event-id': id });
    const told = await again.next();
    assert.deepEqual([JSON.parse(told.data).params, Number(told.id) > Number(id)], [{ uri: LIST }, true]);
    // A second stream replaces the first, and has nothing to send.
    const third = await open(session, { 'last-event-id': told.id });
    await again.ended();
    assert.equal((await rpc('resources/unsubscribe', { uri: LIST }, session)).error, undefined);
    assert.equal((await rpc('resources/subscribe', { uri: FIND }, session)).error, undefined);
    await add('more milk');
    await add('milk');
    assert.deepEqual(JSON.parse((await third.next()).data).params, { uri: FIND });
    assert.equal((await withSession('DELETE', session)).status, 204);
    await third.ended();
  });

  test("a session that has ended, never existed or is another client's is refused, and nothing is left of it", async () => {
    const session = await begin();
    const stream = await open(session);
    assert.equal((await rpc('resources/subscribe', { uri: LIST }, session)).error, undefined);
    const made = (await gateway.call('POST', '/svc/_tokens', { body: { name: 'thief', tools: 'read' } })).json;
    for (const method of ['GET', 'DELETE']) {
      const stolen = await withSession(method, session, made.token);
      assert.deepEqual([stolen.status, stolen.json.error.code], [404, 'NOT_FOUND']);
      const unknown = await withSession(method, 'unknown');
      assert.deepEqual([unknown.status, unknown.json.error.code], [404, 'NOT_FOUND']);
      const none = await withSession(method);
      assert.deepEqual([none.status, none.headers.allow], [405, 'POST']);
    }
    assert.equal((await rpc('resources/unsubscribe', { uri: LIST }, session, made.token)).status, 404);
    await gateway.call('DELETE', `/svc/_tokens/${made.id}`);
    // The end of another client's token does not touch the stream.
    await add('after the thief');
    assert.deepEqual(JSON.parse((await stream.next()).data).params, { uri: LIST });
    assert.equal((await withSession('DELETE', session)).status, 204);
    await stream.ended();
    for (const method of ['GET', 'DELETE']) assert.equal((await withSession(method, session)).status, 404);
    assert.equal((await rpc('tools/list', {}, session)).status, 404);
    assert.equal((await rpc('resources/subscribe', { uri: LIST }, session)).status, 404);
    // After a restart of the gateway, requests that need no session are answered.
    assert.equal((await rpc('tools/list', {}, 'of an earlier gateway')).status, 200);
    assert.match((await rpc('resources/subscribe', { uri: LIST })).error?.message ?? '', /belongs to a session/);
    await eventually(async () => (await subscribersOf(gateway)) === 0);
  });

  test('an invalid subscription is refused before any stream opens', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const listen = async (notifications: unknown, id: unknown = 1) =>
      await gateway.call('POST', '/svc/notes/_mcp', {
        body: { jsonrpc: '2.0', id, method: 'subscriptions/listen', params: { _meta: meta, notifications } },
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'subscriptions/listen',
        },
      });
    for (const [filter, words] of [
      [undefined, /"notifications" must be an object that says/],
      [null, /"notifications" must be an object that says/],
      [[LIST], /"notifications" must be an object that says/],
      [{ resourceSubscriptions: LIST }, /array of URIs/],
      [{ resourceSubscriptions: [LIST, 1] }, /resourceSubscriptions\[1\]" must be a text/],
      [{ resourceSubscriptions: [LIST, 'svc://notes/queries/nothing'] }, /no query "nothing"/],
    ] as const) {
      const { status, json } = await listen(filter);
      assert.deepEqual([status, json.id, json.error.code], [200, 1, -32_602]);
      assert.match(json.error.message, words);
    }
    assert.equal((await listen({ resourceSubscriptions: [LIST] }, null)).status, 400);
    const session = await begin();
    for (const method of ['read', 'subscribe', 'unsubscribe']) {
      for (const params of [{}, { uri: 1 }, { uri: null }]) {
        const { error } = await rpc(`resources/${method}`, params, session);
        assert.deepEqual([error?.code, error?.message], [-32_602, '"uri" is missing, or no text.']);
      }
    }
    await withSession('DELETE', session);
    assert.equal(await subscribersOf(gateway), 0);
  });

  test('one client may subscribe to a limited number of resources, in both eras', async (t) => {
    const uri = (n: number) => `svc://notes/queries/find?input=${encodeURIComponent(JSON.stringify({ like: `${n}` }))}`;
    const session = await begin();
    for (let n = 0; n < LIMITS.liveQueriesOfStream; n++)
      assert.equal((await rpc('resources/subscribe', { uri: uri(n) }, session)).error, undefined);
    const { error } = await rpc('resources/subscribe', { uri: LIST }, session);
    assert.deepEqual([error?.code, error?.data?.code], [-32_603, 'OVERLOADED']);
    assert.equal((await rpc('resources/subscribe', { uri: uri(0) }, session)).error, undefined, 'it has that one');
    await rpc('resources/unsubscribe', { uri: uri(0) }, session);
    assert.equal((await rpc('resources/subscribe', { uri: LIST }, session)).error, undefined);
    await withSession('DELETE', session);

    const reader = await Reader.connect(gateway, '/svc/notes/_mcp', 'auto');
    t.after(() => reader.close());
    const many = Array.from({ length: LIMITS.liveQueriesOfStream + 1 }, (_, n) => uri(n));
    await assert.rejects(reader.client.listen({ resourceSubscriptions: many }), /50 resources at most/);
    const { honoredFilter, close } = await reader.client.listen({ resourceSubscriptions: many.slice(1) });
    assert.deepEqual(honoredFilter, { resourceSubscriptions: many.slice(1) });
    await close();
    await eventually(async () => (await subscribersOf(gateway)) === 0);
    // There are no prompts, so nothing can follow.
    const nothing = await reader.client.listen({ promptsListChanged: true });
    assert.deepEqual([nothing.honoredFilter, await nothing.closed], [{}, 'graceful']);
  });

  const gitTest = store === 'git' ? test : () => {};

  gitTest('the resources of a draft are those of its code and data', async (t) => {
    await gateway.upload('drafted', app('drafted'));
    const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
    const file = `/svc/_sessions/${sessionId}/apps/drafted/files/queries/list.js`;
    const put = (text: string) => gateway.call('PUT', file, { body: Buffer.from(`export default ${text};\n`) });
    assert.ok((await put('({ db }) => db.get("SELECT count(*) AS drafted FROM notes")')).status < 300);
    const uri = 'svc://drafted/queries/list';
    const draft = await Reader.connect(gateway, `/svc/_draft/${sessionId}/drafted/_mcp`, 'auto');
    const live = await Reader.connect(gateway, '/svc/drafted/_mcp', 'legacy');
    t.after(() => Promise.all([draft.client.close(), live.client.close()]));
    await draft.subscribe(uri);
    await live.subscribe(uri);
    assert.deepEqual([await draft.read(uri), await live.read(uri)], [{ drafted: 0 }, []]);
    await draft.client.callTool({ name: 'add', arguments: { text: 'in the draft' } });
    await eventually(() => draft.updated.length === 1);
    assert.deepEqual([await draft.read(uri), await live.read(uri)], [{ drafted: 1 }, []]);
    assert.ok((await put('() => "edited"')).status < 300);
    await eventually(() => draft.updated.length === 2);
    assert.equal(await draft.read(uri), 'edited');
    assert.deepEqual(live.updated, []);
  });
});

describe('the command', () => {
  const gateway = gatewayOfSuite({});

  for (const era of ERAS) {
    test(`svc mcp subscribes for a client that is ${era}, also after a restart of the gateway`, async (t) => {
      const id = `notes-${era}`;
      await gateway.upload(id, app(id));
      const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } });
      const updated: string[] = [];
      client.setNotificationHandler('notifications/resources/updated', ({ params: { uri } }) => void updated.push(uri));
      let relisted = 0;
      client.setNotificationHandler('notifications/tools/list_changed', () => void relisted++);
      const args = [join(root, 'bin/svc.js'), 'mcp', id, '--data-dir', gateway.dataDir];
      await client.connect(new StdioClientTransport({ command: process.execPath, args }));
      t.after(() => client.close());
      const uri = `svc://${id}/queries/find?input={"like":"ü%25"}`;
      const read = async () => {
        const [content] = (await client.readResource({ uri })).contents;
        assert.ok(content && 'text' in content);
        return JSON.parse(content.text).length;
      };
      const subscribe = async () => {
        if (era === 'auto') return await client.listen({ resourceSubscriptions: [uri] });
        await client.subscribeResource({ uri });
        return null;
      };
      const wrong = `svc://${id}/queries/nothing`;
      await assert.rejects(
        era === 'legacy' ? client.subscribeResource({ uri: wrong }) : client.listen({ resourceSubscriptions: [wrong] }),
        /nothing/,
      );
      if (era === 'legacy') {
        await eventually(async () => (await subscribersOf(gateway)) === 1);
        await gateway.upload(id, app(id, '2.0.0'));
        await eventually(() => relisted === 1);
      }
      const listening = await subscribe();
      await gateway.write(id, 'add', { text: 'über' });
      await eventually(() => updated.length > 0);
      assert.equal(await read(), 1);
      await gateway.stop();
      await gateway.start();
      // A newer client learns that its request has ended; a client of 2025 notices nothing.
      if (listening !== null) assert.notEqual(await listening.closed, 'local');
      await gateway.write(id, 'add', { text: 'übrig' });
      if (era === 'auto') await subscribe();
      else await eventually(() => updated.length > 1 && relisted > 1);
      assert.equal(await read(), 2);
      const before = updated.length;
      await eventually(async () => (await subscribersOf(gateway)) === 1);
      await gateway.write(id, 'add', { text: 'üblich' });
      await eventually(() => updated.length > before);
      await client.close();
      await eventually(async () => (await subscribersOf(gateway)) === 0);
    });
  }
});
