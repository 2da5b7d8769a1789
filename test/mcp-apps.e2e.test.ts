/** Pages of apps as MCP Apps, for the official client in both eras of the protocol (specification, "MCP Apps"). */
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { PAGE_TYPE } from '../protocol/http/mcp-app.ts';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { appsClient } from '../testing/mcp-app-host.ts';

const PAGE = '<!doctype html><html><head><title>Notes</title></head><body>Notes</body></html>';

const notes = (page = PAGE, manifest: Record<string, unknown> = {}) =>
  appOf('notes', {
    manifest: { name: 'My notes', ...manifest },
    queries: { list: { run: '() => [1]', opensPage: true }, both: '() => "query"' },
    actions: { add: '() => ({ body: null })', both: '() => ({ body: "action" })' },
    files: { 'index.html': page },
  });

describe('MCP Apps', () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  const open: Client[] = [];
  after(() => Promise.all(open.map((client) => client.close())));
  before(() => gateway.install('notes', notes()));

  async function connect(client: Client, path = '/svc/notes/_mcp', token = gateway.token): Promise<Client> {
    open.push(client);
    const headers = { authorization: `Bearer ${token}` };
    await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.url), { requestInit: { headers } }));
    return client;
  }

  const plain = (era: 'legacy' | 'auto') =>
    new Client({ name: 'plain', version: '1' }, { versionNegotiation: { mode: era } });
  const uiOf = (tools: Awaited<ReturnType<Client['listTools']>>['tools']) =>
    Object.fromEntries(tools.map(({ name, _meta }) => [name, _meta?.ui]));
  /** Of a document, without all that a failure would print. */
  const bodyOf = ([content]: Awaited<ReturnType<Client['readResource']>>['contents']) =>
    /<body>(.*)<\/body>/s.exec((content as { text: string }).text)?.[1];
  const refused = (code: number) => (error: unknown) => error instanceof ProtocolError && error.code === code;

  for (const era of ['legacy', 'auto'] as const) {
    test(`a client of ${era === 'legacy' ? '2025' : '2026'} that shows pages gets the page and its tool`, async () => {
      const client = await connect(appsClient(era));
      const uri = 'ui://notes/page';
      const { tools } = await client.listTools();
      assert.deepEqual(uiOf(tools), {
        list: { resourceUri: uri, visibility: ['model', 'app'] },
        'query.both': { visibility: ['model', 'app'] },
        add: { visibility: ['model', 'app'] },
        'action.both': { visibility: ['model', 'app'] },
        open_notes: { resourceUri: uri, visibility: ['model'] },
      });
      const opening = tools.find(({ name }) => name === 'open_notes');
      assert.match(opening?.description ?? '', /^Show the page of "My notes"/);
      assert.equal(opening?.annotations?.readOnlyHint, true);
      const { resources } = await client.listResources();
      assert.equal(resources.find((resource) => resource.uri === uri)?.mimeType, PAGE_TYPE);

      const { contents } = await client.readResource({ uri });
      assert.equal(contents.length, 1);
      const [content] = contents;
      assert.ok(content && 'text' in content);
      assert.deepEqual(
        [content.uri, content.mimeType, content._meta],
        [uri, PAGE_TYPE, { ui: { prefersBorder: true } }],
      );
      const home = `http://notes.svc.localhost:${new URL(gateway.url).port}/svc/notes/`;
      assert.ok(content.text.includes(` data-settings="{}" data-home="${home}">`), content.text.slice(0, 900));
      assert.ok(content.text.includes('"ui/initialize"') && content.text.includes('</script><title>Notes</title>'));
      assert.ok(Buffer.byteLength(content.text) < LIMITS.mcpBridgeBytes);

      const result = await client.callTool({ name: 'open_notes', arguments: {} });
      assert.deepEqual(result.content, [
        {
          type: 'text',
          text: 'The person sees the page of "My notes". It shows the data of the app, and what changes.',
        },
      ]);
      await assert.rejects(client.callTool({ name: 'open_notes', arguments: { id: 1 } }), refused(-32_602));
    });

    test(`a client of ${era === 'legacy' ? '2025' : '2026'} that does not sees nothing of it`, async () => {
      const client = await connect(plain(era));
      const { tools } = await client.listTools();
      assert.deepEqual(uiOf(tools), {
        list: undefined,
        'query.both': undefined,
        add: undefined,
        'action.both': undefined,
      });
      const { resources } = await client.listResources();
      assert.ok(resources.length > 0 && resources.every(({ uri }) => uri.startsWith('svc://')));
      await assert.rejects(client.readResource({ uri: 'ui://notes/page' }), refused(-32_602));
      await assert.rejects(client.callTool({ name: 'open_notes', arguments: {} }), refused(-32_602));
    });
  }

  test('the address of all apps has no pages, and an address has those of no other app', async () => {
    await gateway.install('other', appOf('other', { files: { 'index.html': PAGE } }));
    const all = await connect(appsClient('legacy'), '/svc/_mcp');
    assert.ok((await all.listTools()).tools.every(({ name, _meta }) => name.startsWith('svc_') && !_meta?.ui));
    const client = await connect(appsClient('legacy'));
    for (const uri of ['ui://other/page', `svc://other/_blobs/${'0'.repeat(64)}`, 'svc://notes/_blobs/x'])
      await assert.rejects(client.readResource({ uri }), refused(-32_602), uri);
  });

  test('tools that are not of the app are not for its page', async () => {
    const made = await gateway.call('POST', '/svc/_tokens', {
      body: { name: 'reader', apps: ['notes'], tools: 'read' },
    });
    assert.equal(made.status, 201, made.text);
    const reader = await connect(appsClient('legacy'), '/svc/notes/_mcp', made.json.token);
    assert.deepEqual(Object.keys(uiOf((await reader.listTools()).tools)), ['list', 'query.both', 'open_notes']);

    const session = (await gateway.call('POST', '/svc/_sessions', { body: { app: 'notes' } })).json.sessionId;
    const draft = await connect(appsClient('legacy'), `/svc/_draft/${session}/notes/_mcp`);
    const shown = uiOf((await draft.listTools()).tools);
    assert.deepEqual(shown.svc_draft_check, { visibility: ['model'] });
    await gateway.call('PUT', `/svc/_sessions/${session}/apps/notes/files/index.html`, {
      body: Buffer.from(PAGE.replace('<body>', '<body>Draft of ')),
    });
    const { contents } = await draft.readResource({ uri: 'ui://notes/page' });
    assert.equal(bodyOf(contents), 'Draft of Notes');
    await gateway.call('PUT', `/svc/_sessions/${session}/apps/notes/files/index.html`, {
      body: Buffer.from('<script src="https://cdn.example/x.js"></script>'),
    });
    assert.ok(!Object.hasOwn(uiOf((await draft.listTools()).tools), 'open_notes'), 'this one cannot be shown');
  });

  test('svc_describe says where the page is, or why it is nowhere', async () => {
    const describe = async (app: string) =>
      (await gateway.call('POST', '/svc/_tool/svc_describe', { body: { app } })).json.data.mcpApp;
    assert.deepEqual(await describe('notes'), { resource: 'ui://notes/page', tool: 'open_notes' });
    await gateway.install('headless', appOf('headless', { queries: { one: '() => 1' } }));
    assert.equal(await describe('headless'), undefined);
    const frames = appOf('frames', {
      queries: { one: { run: '() => 1', opensPage: true } },
      files: { 'index.html': '<iframe src="x.html"></iframe>', 'x.html': '' },
    });
    await gateway.install('frames', frames);
    assert.deepEqual(await describe('frames'), {
      faults: [
        {
          path: 'index.html',
          message: 'It shows something in a frame, <iframe>, and hosts show no frames in a page.',
          keyword: 'frame',
        },
      ],
    });
    const client = await connect(appsClient('legacy'), '/svc/frames/_mcp');
    assert.deepEqual(uiOf((await client.listTools()).tools), { one: undefined });
    await assert.rejects(client.readResource({ uri: 'ui://frames/page' }), refused(-32_602));
  });

  test('a tool of the app keeps its name', async () => {
    await gateway.install(
      'named',
      appOf('named', { queries: { open_named: '() => "own"' }, files: { 'index.html': PAGE } }),
    );
    const client = await connect(appsClient('legacy'), '/svc/named/_mcp');
    assert.deepEqual(uiOf((await client.listTools()).tools), { open_named: { visibility: ['model', 'app'] } });
    const { content } = await client.callTool({ name: 'open_named', arguments: {} });
    assert.deepEqual(content, [{ type: 'text', text: '"own"' }]);
  });

  test('another page of a version is told, and settings are in the document', async () => {
    const client = await connect(appsClient('legacy'));
    const changed = new Promise<void>((resolve) =>
      client.setNotificationHandler('notifications/resources/list_changed', () => resolve()),
    );
    await client.listResources();
    await gateway.install('notes', notes(PAGE.replace('<body>', '<body>New: '), { version: '2.0.0' }));
    await changed;
    await gateway.call('PUT', '/svc/_apps/notes/settings', { body: { size: 'a "b" & c' } });
    const { contents } = await client.readResource({ uri: 'ui://notes/page' });
    assert.equal(bodyOf(contents), 'New: Notes');
    const { text } = contents[0] as { text: string };
    assert.ok(text.includes('data-settings="{&quot;size&quot;:&quot;a \\&quot;b\\&quot; &amp; c&quot;}"'));
  });

  test('files of the app are resources for its page', async () => {
    const client = await connect(appsClient('legacy'));
    const put = async (bytes: Buffer) =>
      (await gateway.call('PUT', '/svc/notes/_blobs', { body: bytes, headers: { 'content-type': 'image/gif' } })).json;
    const { sha256 } = await put(Buffer.from('GIF89a'));
    const uri = `svc://notes/_blobs/${sha256}`;
    const { contents } = await client.readResource({ uri });
    assert.deepEqual(contents, [{ uri, mimeType: 'image/gif', blob: Buffer.from('GIF89a').toString('base64') }]);
    const most = await put(Buffer.alloc(LIMITS.mcpFileBytes));
    assert.equal((await client.readResource({ uri: `svc://notes/_blobs/${most.sha256}` })).contents.length, 1);
    const large = await put(Buffer.alloc(LIMITS.mcpFileBytes + 1));
    await assert.rejects(client.readResource({ uri: `svc://notes/_blobs/${large.sha256}` }), /at most are read/);
    await assert.rejects(client.readResource({ uri: `svc://notes/_blobs/${'0'.repeat(64)}` }), refused(-32_602));
  });

  test('a damaged document is made anew by the next start', async () => {
    const prepared = join(gateway.dataDir, 'apps', 'notes', 'prepared');
    const versions = readdirSync(prepared);
    for (const version of versions) writeFileSync(join(prepared, version, 'page.html'), 'damaged');
    const client = await connect(appsClient('legacy'));
    await assert.rejects(client.readResource({ uri: 'ui://notes/page' }), /is damaged/);
    await gateway.stop();
    await gateway.start();
    const again = await connect(appsClient('legacy'));
    const { contents } = await again.readResource({ uri: 'ui://notes/page' });
    assert.equal(bodyOf(contents), 'New: Notes');
  });
});
