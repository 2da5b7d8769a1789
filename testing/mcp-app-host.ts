/**
 * A host of MCP Apps in a browser: the extension's own `AppBridge`, with the official client to an app's address, shows the page in the
 * frames that MCP Apps wants, with the strictest policy that it names.
 */
import assert from 'node:assert/strict';
import { Client, ProtocolError, StreamableHTTPClientTransport, type Tool } from '@modelcontextprotocol/client';
import { build } from 'esbuild';
import type { Browser, BrowserContext, Frame, Page } from 'playwright-core';
import { PAGE_TYPE, UI_EXTENSION } from '../protocol/http/mcp-app.ts';
import { root, type TestGateway } from './gateway.ts';

const HOST = 'http://host.test/';
const SANDBOX = 'http://sandbox.test/';

/** The policy of a host for a page that declares no domains. */
const POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'; form-action 'none'";

/** The frame between: passes messages on, and shows the page in a frame without an origin of its own. */
const PROXY = `<!doctype html><style>html, body, iframe { height: 100%; width: 100%; margin: 0; border: 0; display: block }</style><body><script>
  const inner = document.createElement('iframe');
  inner.setAttribute('sandbox', 'allow-scripts allow-forms');
  document.body.append(inner);
  addEventListener('message', ({ source, data }) => {
    if (source === inner.contentWindow) parent.postMessage(data, '*');
    else if (data?.method === 'ui/notifications/sandbox-resource-ready') inner.srcdoc = data.params.html;
    else inner.contentWindow.postMessage(data, '*');
  });
  parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '*');
</script></body>`;

/** What the host's own page runs. \`callHost\` is this process. */
const HOST_SCRIPT = `
  import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';
  const call = async (method, params) => {
    const { result, error } = await window.callHost(method, params);
    if (error) throw Object.assign(new Error(error.message), { code: error.code, data: error.data });
    return result;
  };
  window.show = async ({ html, tool, input, result, context }) => {
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
    frame.style.height = '150px';
    document.body.replaceChildren(frame);
    const bridge = new AppBridge(null, { name: 'Test host', version: '1' }, { serverTools: {}, serverResources: {}, openLinks: {} },
      { hostContext: { ...context, toolInfo: { tool } } });
    bridge.oncalltool = (params) => call('tools/call', params);
    bridge.onreadresource = (params) => call('resources/read', params);
    bridge.onopenlink = async ({ url }) => { window.opened.push(url); return {}; };
    bridge.onsizechange = ({ height }) => { window.sizes.push(height); if (height !== undefined) frame.style.height = height + 'px'; };
    window.opened = [];
    window.sizes = [];
    window.bridge = bridge;
    const begun = new Promise((resolve) => { bridge.oninitialized = resolve; });
    const ready = new Promise((resolve) => { bridge.onsandboxready = resolve; });
    frame.src = '${SANDBOX}';
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    await ready;
    await bridge.sendSandboxResourceReady({ html });
    await begun;
    await bridge.sendToolInput({ arguments: input });
    await bridge.sendToolResult(result);
  };
`;

let script: Promise<string> | undefined;

/** Built once for a file of tests. */
function hostScript(): Promise<string> {
  script ??= build({
    stdin: { contents: HOST_SCRIPT, resolveDir: root },
    bundle: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    logLevel: 'warning',
  }).then(({ outputFiles: [file] }) => file?.text ?? '');
  return script;
}

export type HostLook = { theme?: 'light' | 'dark'; styles?: object; containerDimensions?: object };

/** One window of a host, with a client of one address. */
export class McpAppHost {
  readonly client: Client;
  readonly page: Page;
  /** Errors in the console, and what the policy refused. */
  readonly complaints: string[];
  /** The requests of the page that the host passed on. */
  readonly requests: { method: string; params: Record<string, unknown> }[] = [];
  #tools: Tool[] = [];

  private constructor(client: Client, page: Page, complaints: string[]) {
    this.client = client;
    this.page = page;
    this.complaints = complaints;
  }

  /** `path` is the address of the app, `/svc/<app>/_mcp`. */
  static async open(
    browser: Browser,
    gateway: TestGateway,
    path: string,
    { era = 'legacy', token = gateway.token }: { era?: 'legacy' | 'auto'; token?: string | null } = {},
  ): Promise<McpAppHost> {
    const client = appsClient(era);
    const headers = { authorization: `Bearer ${token}` };
    await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.url), { requestInit: { headers } }));
    const context = await browser.newContext({ viewport: { width: 800, height: 900 }, colorScheme: 'light' });
    const complaints = listenTo(context);
    await serve(context);
    const page = await context.newPage();
    const host = new McpAppHost(client, page, complaints);
    await page.exposeFunction('callHost', (method: string, params: Record<string, unknown>) =>
      host.#call(method, params),
    );
    await page.goto(HOST);
    host.#tools = (await client.listTools()).tools;
    return host;
  }

  async close(): Promise<void> {
    await this.page.context().close();
    await this.client.close();
  }

  /** Calls the tool as the model does, and shows the page that it opens. Resolves with the frame of the page. */
  async show(name: string, input: Record<string, unknown> = {}, context: HostLook = {}): Promise<Frame> {
    const tool = this.#tools.find((one) => one.name === name);
    const { resourceUri } = (tool?._meta?.ui ?? {}) as { resourceUri?: string };
    assert.ok(resourceUri, `${name} opens a page`);
    const { contents } = await this.client.readResource({ uri: resourceUri });
    const [content] = contents;
    assert.ok(content && 'text' in content && content.mimeType === PAGE_TYPE);
    const result = await this.client.callTool({ name, arguments: input });
    const shown = JSON.stringify({ html: content.text, tool, input, result, context });
    await this.page.evaluate(`show(${shown})`);
    const frame = this.page.frames().find((one) => one.url() === 'about:srcdoc');
    assert.ok(frame);
    return frame;
  }

  /** As MCP Apps wants it, a page calls nothing that is not for pages. */
  async #call(method: string, params: Record<string, unknown>): Promise<object> {
    this.requests.push({ method, params });
    try {
      const tool = this.#tools.find(({ name }) => name === params.name);
      const { visibility = ['app'] } = (tool?._meta?.ui ?? {}) as { visibility?: string[] };
      if (method === 'tools/call' && !visibility.includes('app')) throw new ProtocolError(-32_000, 'Not for pages.');
      const result =
        method === 'tools/call'
          ? await this.client.callTool(params as Parameters<Client['callTool']>[0])
          : await this.client.readResource(params as Parameters<Client['readResource']>[0]);
      return { result };
    } catch (error) {
      const { code = -32_603, message, data } = error as ProtocolError;
      return { error: { code, message, data } };
    }
  }
}

/** A client of a host that shows pages. */
export function appsClient(era: 'legacy' | 'auto'): Client {
  return new Client(
    { name: 'test-host', version: '1' },
    { versionNegotiation: { mode: era }, capabilities: { extensions: { [UI_EXTENSION]: { mimeTypes: [PAGE_TYPE] } } } },
  );
}

function listenTo(context: BrowserContext): string[] {
  const complaints: string[] = [];
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  context.on('weberror', (error) => complaints.push(String(error.error())));
  return complaints;
}

async function serve(context: BrowserContext): Promise<void> {
  const text = await hostScript();
  const body = `<!doctype html><meta charset="utf-8"><style>body { margin: 0 } iframe { display: block; width: 100%; border: 0 }</style><body></body><script>${text.replaceAll('</script', '<\\/script')}</script>`;
  await context.route(`${HOST}**`, (route) => route.fulfill({ contentType: 'text/html', body }));
  const headers = { 'content-security-policy': POLICY };
  await context.route(`${SANDBOX}**`, (route) => route.fulfill({ contentType: 'text/html', headers, body: PROXY }));
}
