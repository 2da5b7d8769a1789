/** Pages of apps in a host of MCP Apps: the extension's own `AppBridge` in a browser, with the strictest policy that it names. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { inflateSync } from 'node:zlib';
import type { Frame } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import { type HostLook, McpAppHost } from '../../testing/mcp-app-host.ts';
import { eventually as within } from '../../testing/waiting.ts';
import { BRIDGE_APP, bridgeCases, until } from './bridge-cases.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';
import { PATIENCE_MS, TemplateApp } from './template-app.ts';

const PICTURE = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"/>');
/** A font with one letter, deflated. */
const FONT = inflateSync(
  Buffer.from(
    'eNqFUD1LA0EQfbv3gSZiEEJIFU7wq4sGUQtBUlsENEU6XZJLTrxLDo0YO0tLwX9gY6O1f8DSnyFoaRG1PN/enZII6lt2Zt7Ozszb' +
      'hQCQwTkMOLXdcqW6XX0FxBJP95uBCjGFG/JL8tWOf9a2PxaL5I/kBc9VrfJhrsT4lnvN44FVEO+Mn7jnvKA/kA1GEBc0tt9rKmRj' +
      '/qB5oAYhTFjkE+ROVwWuXM8skOv6Stg77lMXIYs6D62V+/r+6mAvt/kGw3jR2efl9vyoF0MxpDMgkYA1hhNtsI9W02JWYBwiPpGs' +
      'STISP2HIBn/Bot7/MdZ9i6Crc/0GJ1WG79n61flUTZ4zeYPWjHk9ihIb3Y1Myn7NjV/PHiuzM+lHxD1Lups5yTt23F/HEtNkNZyi' +
      'ix246OAEPhSOUgV/4BMi6T2a',
    'base64',
  ),
);

/** Tries what a page may not, one after the other. */
const HOSTILE = `
  const { svc } = window;
  const found = {};
  const attempt = async (name, work) => {
    found[name] = await Promise.resolve().then(work).then((value) => JSON.stringify(value) ?? 'done', () => 'refused');
  };
  const ask = (method, params) => new Promise((resolve, reject) => {
    const id = 'x' + Math.random();
    addEventListener('message', ({ data }) => { if (data.id === id) data.error ? reject(data.error) : resolve(data.result.isError ? reject() : data.result); });
    parent.postMessage({ jsonrpc: '2.0', id, method, params }, '*');
  });
  await attempt('own', () => svc.read({ query: 'own' }));
  await attempt('fetch', () => fetch('http://127.0.0.1:1/'));
  await attempt('gateway', () => fetch(document.currentScript?.src ?? 'http://secret.svc.localhost/svc/secret/'));
  await attempt('parent', () => parent.document.title);
  await attempt('top', () => top.location.href);
  await attempt('storage', () => localStorage.length);
  await attempt('cookie', () => document.cookie);
  await attempt('code', () => new Function('return 1')());
  await attempt('picture', () => new Promise((resolve, reject) => Object.assign(new Image(), { onload: resolve, onerror: reject, src: 'http://127.0.0.1:1/x.png' })));
  for (const [name, tool, input] of [['another', 'tell', {}], ['sql', 'svc_sql_read', { app: 'secret', sql: 'SELECT 1' }], ['dispatcher', 'svc_read', { app: 'secret', query: 'tell' }], ['opening', 'open_hostile', {}]])
    await attempt(name, () => ask('tools/call', { name: tool, arguments: input }));
  for (const uri of ['ui://secret/page', 'svc://secret/app.json', 'svc://secret/queries/tell', 'svc://secret/_blobs/${'0'.repeat(64)}'])
    await attempt(uri, () => ask('resources/read', { uri }));
  window.found = found;
`;

const { gateway, remove } = makeGateway({ apps: { bridge: BRIDGE_APP } });
const eventually = async (holds: () => Promise<boolean>) => assert.ok(await within(PATIENCE_MS, holds));
const hosts: McpAppHost[] = [];
before(() => gateway.start());
after(async () => {
  for (const host of hosts) await host.close();
  await remove();
});

async function hostOf(app: string, of: TestGateway = gateway): Promise<McpAppHost> {
  const host = await McpAppHost.open(await sharedChromium(), of, `/svc/${app}/_mcp`);
  host.page.setDefaultTimeout(PATIENCE_MS);
  hosts.push(host);
  return host;
}

async function shown(app: string, look?: HostLook): Promise<{ host: McpAppHost; page: Frame }> {
  const host = await hostOf(app);
  return { host, page: await host.show(`open_${app}`, {}, look) };
}

describe('the bridge at the gateway', { skip: withoutChromium() }, () => {
  const app = new TemplateApp('bridge', gateway, 'todos');
  after(() => app.close());
  let page: ReturnType<TemplateApp['window']> | undefined;
  bridgeCases('gateway', () => (page ??= app.window()));
});

describe('the bridge in a host', { skip: withoutChromium() }, () => {
  let page: Promise<Frame> | undefined;
  bridgeCases('host', () => (page ??= shown('bridge').then((all) => all.page)));
});

describe('a page in a host of MCP Apps', { skip: withoutChromium() }, () => {
  const texts = (page: Frame) => page.locator('li').allTextContents();
  /** Shows what it has read and what it follows. */
  const lists = (id: string) =>
    appOf(id, {
      migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
      queries: { list: { run: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')", opensPage: true } },
      actions: {
        add: {
          run: "async ({ db, body }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { body: null }; }",
          writes: ['notes'],
        },
      },
      files: {
        'index.html':
          '<!doctype html><html><head><script type="module" src="app.js"></script></head><body><ul></ul><p></p><a href="more.html">More</a><a href="https://example.org/x">Out</a><a href="#end">End</a></body></html>',
        'more.html': '',
        'app.js': `const { svc } = window;
          const read = async () => {
            const all = await svc.read({ query: 'list' });
            document.querySelector('ul').replaceChildren(...all.map(({ text }) => Object.assign(document.createElement('li'), { textContent: text })));
          };
          window.told = 0;
          svc.onChange(() => { told++; void read(); });
          svc.live('list', {}, (all) => { document.querySelector('p').textContent = all.length + ' notes'; });
          addEventListener('pagehide', () => svc.write({ action: 'add', input: { text: 'last' } }));
          await read();`,
      },
    });

  test('shows what others write: after a result of a tool, and by itself while it is seen', async () => {
    await gateway.install('lists', lists('lists'));
    const { host, page } = await shown('lists');
    await page.getByText('0 notes').waitFor();
    await gateway.write('lists', 'add', { text: 'from elsewhere' });
    await host.page.evaluate("bridge.sendToolResult({ content: [{ type: 'text', text: 'null' }] })");
    await page.getByText('from elsewhere').waitFor();
    await page.getByText('1 notes').waitFor();
    await gateway.write('lists', 'add', { text: 'a moment later' });
    await page.getByText('a moment later').waitFor();
    await page.getByText('2 notes').waitFor();
    const told = await page.evaluate('told');
    const asked = host.requests.length;
    await eventually(async () => host.requests.length >= asked + 4);
    assert.equal(await page.evaluate('told'), told, 'nothing is told where nothing changed');
    assert.deepEqual(await texts(page), ['from elsewhere', 'a moment later']);
  });

  test('a tool with opensPage shows the page, which knows of the call', async () => {
    const host = await hostOf('lists');
    const page = await host.show('list', { of: 'today' });
    await page.getByText('2 notes').waitFor();
    assert.deepEqual(await page.evaluate('svc.opened'), { tool: 'list', input: { of: 'today' } });
  });

  test('links open outside, by the host', async () => {
    const { host, page } = await shown('lists');
    await page.getByText('More').click();
    await page.getByText('Out').click();
    await page.getByText('End').click();
    await eventually(async () => ((await host.page.evaluate('opened.length')) as number) === 2);
    const home = `http://lists.svc.localhost:${gateway.port}/svc/lists/`;
    assert.deepEqual(await host.page.evaluate('opened'), [`${home}more.html`, 'https://example.org/x']);
    assert.equal(await page.evaluate('location.href'), 'about:srcdoc#end');
    await page.evaluate("history.replaceState(null, '', '#kept'); history.pushState(null, '', location.pathname)");
    assert.equal(await page.evaluate('location.href'), 'about:srcdoc');
  });

  test('the page stores what it holds before it is taken away', async () => {
    const { host } = await shown('lists');
    assert.deepEqual(await host.page.evaluate('bridge.teardownResource({})'), {});
    assert.equal((await gateway.read('lists', 'list')).json.data.at(-1).text, 'last');
  });

  test('it has the look of its host, and the height of its content', async () => {
    const look: HostLook = { theme: 'dark', styles: { variables: { '--color-text-primary': 'rgb(1, 2, 3)' } } };
    const files = {
      'index.html':
        '<!doctype html><html><head><style>@font-face { font-family: Own; src: url(own.ttf) } body { margin: 0; min-height: 100dvh } p { height: 20px; margin: 0; color: var(--color-text-primary); color-scheme: inherit }</style></head><body><p>Text</p><dialog><div style="height: 300px">Open</div></dialog></body></html>',
      'own.ttf': FONT,
    };
    await gateway.install('look', appOf('look', { files }));
    const { host, page } = await shown('look', look);
    const of = (property: string) => page.evaluate(`getComputedStyle(document.querySelector('p')).${property}`);
    assert.deepEqual([await of('color'), await of('colorScheme')], ['rgb(1, 2, 3)', 'dark']);
    assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark');
    await host.page.evaluate("bridge.setHostContext({ theme: 'light' })");
    await until(page, "document.documentElement.dataset.theme === 'light'");
    await until(page, 'innerHeight === 20');
    await page.evaluate("document.querySelector('dialog').showModal()");
    await until(page, 'innerHeight > 300');
    await page.evaluate("document.querySelector('dialog div').style.height = '400px'");
    await until(page, 'innerHeight > 400');
    await page.evaluate("document.querySelector('dialog').close()");
    await until(page, 'innerHeight === 20');
    await until(page, "[...document.fonts].some(({ family, status }) => family === 'Own' && status === 'loaded')");
  });

  test('a page that grows with its frame does not grow without end', async () => {
    const page =
      '<!doctype html><html><head><style>body { margin: 0 } div { height: 50px }</style></head><body><div></div></body>' +
      '<script type="module">const grow = () => { document.querySelector("div").style.height = innerHeight + 10 + "px" }; addEventListener("resize", grow); grow();</script></html>';
    await gateway.install('grows', appOf('grows', { files: { 'index.html': page } }));
    const { host } = await shown('grows');
    await eventually(async () => ((await host.page.evaluate('sizes.length')) as number) >= 6);
    // It would ask for more in each of these.
    await host.page.evaluate(
      'new Promise((done) => { let left = 20; const next = () => (left-- > 0 ? requestAnimationFrame(next) : done()); next(); })',
    );
    assert.ok(((await host.page.evaluate('sizes.length')) as number) < 12);
  });

  test('a hostile page reaches nothing but the tools of its app', async () => {
    await gateway.install('secret', appOf('secret', { queries: { tell: '() => "secret"' } }));
    const page = '<!doctype html><html><head><script type="module" src="app.js"></script></head><body></body></html>';
    const files = { 'index.html': page, 'app.js': HOSTILE };
    await gateway.install('hostile', appOf('hostile', { queries: { own: '() => "own"' }, files }));
    const { page: frame, host } = await shown('hostile');
    await until(frame, 'window.found');
    const found = (await frame.evaluate('found')) as Record<string, string>;
    const refused = Object.entries(found).filter(([, outcome]) => outcome !== 'refused');
    assert.deepEqual(refused, [['own', '"own"']], JSON.stringify(found));
    const asked = host.requests.map(({ params }) => params.name ?? params.uri);
    assert.ok(
      asked.includes('ui://secret/page') && asked.includes('tell'),
      'the host was asked, and the gateway refused',
    );
  });

  test('files of the app are shown, and none are added', async () => {
    const { sha256 } = (
      await gateway.call('PUT', '/svc/bridge/_blobs', { body: PICTURE, headers: { 'content-type': 'image/svg+xml' } })
    ).json;
    const { page } = await shown('bridge');
    await page.evaluate(`document.body.append(Object.assign(new Image(), { src: svc.url('_blobs/${sha256}') }))`);
    await until(page, 'document.images[0].naturalWidth === 30');
    const added = await page.evaluate("svc.upload(new Blob(['x'])).catch(({ code }) => code)");
    assert.equal(added, 'UNSUPPORTED');
  });

  test('without a host it says that there is none', async () => {
    const browser = await sharedChromium();
    const host = await hostOf('lists');
    const { contents } = await host.client.readResource({ uri: 'ui://lists/page' });
    const page = await browser.newPage();
    await page.setContent((contents[0] as { text: string }).text);
    await until(page, "svc.status === 'offline'");
    assert.equal(await page.evaluate("svc.read({ query: 'list' }).catch(({ code }) => code)"), 'UNREACHABLE');
    await page.close();
  });
});
