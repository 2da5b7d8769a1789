/**
 * The console, the example apps and the examples of embedding in a real browser (specification, "Page bridge"), and what a
 * newcomer does first.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import type { BrowserContext, Frame, Page } from 'playwright-core';
import { tarball } from '../../testing/archive.ts';
import { signBrowserIn } from '../../testing/browser-session.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { EXAMPLES, PASSWORD, startExample } from '../../testing/embedding-cases.ts';
import { appFolder, root, type TestGateway } from '../../testing/gateway.ts';
import { Host } from '../../testing/host.ts';
import { consoleOf, enter, linkTo, originOf } from '../../testing/pages.ts';
import { filesOf } from '../../testing/published.ts';
import { eventually } from '../../testing/waiting.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
/** When the theme was set on `<html>`, in the page's own time. */
const WATCH_THEME = `
  new MutationObserver(() => { window.themeSetAt ??= performance.now(); })
    .observe(document, { subtree: true, attributes: true, attributeFilter: ['data-theme'] });`;
const FIRST_PAINT = `new Promise((resolve) => new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime))
  .observe({ type: 'paint', buffered: true }))`;

const run = promisify(execFile);

/** The `svc` command, as that gateway's user. */
async function svc({ url, token }: TestGateway, ...args: string[]): Promise<string> {
  const env = { ...process.env, SVC_URL: url, ...(token === '' ? {} : { SVC_TOKEN: token }) };
  const { stdout } = await run(process.execPath, [join(root, 'bin/svc.js'), ...args], { env });
  return stdout;
}

/** A copy of the todo app with another version and another heading. */
function changedApp(folder: string): string {
  const copy = join(folder, 'todos');
  cpSync(join(root, 'templates/todos'), copy, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(copy, 'app.json'), 'utf8')) as { version: string };
  manifest.version = '2.0.0';
  writeFileSync(join(copy, 'app.json'), JSON.stringify(manifest));
  const page = join(copy, 'index.html');
  writeFileSync(page, readFileSync(page, 'utf8').replace(/<title>[^<]*<\/title>/, '<title>Todos, changed</title>'));
  return copy;
}

describe('in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({});
  let context: BrowserContext;
  let complaints: string[];
  let addresses: Map<string, string>;

  before(async () => {
    for (const app of ['todos', 'guestbook', 'meter']) await gateway.install(app, filesOf(appFolder(app)));
  });
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext({
      viewport: { width: 1120, height: 620 },
      colorScheme: 'light',
      // Examples have scripts that move something.
      reducedMotion: 'no-preference',
    });
    context.setDefaultTimeout(PATIENCE_MS);
    complaints = [];
    addresses = new Map();
    // Refused scripts and styles are reported here too.
    context.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    context.on('weberror', (error) => complaints.push(String(error.error())));
  });

  afterEach(() => context.close());

  /** Signs in for the first page of an app alone: another session would take this one from the pages that are open. */
  async function open(app: string): Promise<Page> {
    const page = await context.newPage();
    const address = addresses.get(app) ?? (await signBrowserIn(page, gateway, { app })).address;
    addresses.set(app, address);
    await page.goto(address);
    return page;
  }

  test('the printed address signs in, and the code does not stay in the address bar', async () => {
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('heading', { name: 'Guestbook' }).waitFor();
    assert.equal(page.url(), consoleOf(gateway));
    assert.equal(await page.getByRole('list', { name: 'Apps' }).getByRole('listitem').count(), 3);
    assert.deepEqual(complaints, []);
  });

  test('without a token the console asks for one, and says so when it is wrong', async () => {
    const page = await context.newPage();
    await page.goto(consoleOf(gateway));
    await page.getByLabel('Access token').fill('0'.repeat(64));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').filter({ hasText: 'does not know this token' }).waitFor();
    const body = { name: 'zapier', tools: 'all', apps: ['todos'] };
    const program = (await gateway.call('POST', '/svc/_tokens', { body })).json;
    await page.getByLabel('Access token').fill(program.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page
      .getByRole('alert')
      .filter({ hasText: /token of a program, “zapier”.*“svc token” prints/ })
      .waitFor();
    await gateway.call('DELETE', `/svc/_tokens/${program.id}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').filter({ hasText: 'token of a program, and the gateway does not know it' }).waitFor();
    await page.getByLabel('Access token').fill(gateway.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
  });

  test('a todo that is added in one tab appears in another', async () => {
    const [here, there] = [await open('todos'), await open('todos')];
    await there.getByText('A clean slate.').waitFor();
    for (const title of ['Send the invoice', 'Book the train to Lisbon', 'Water the plants', 'Call grandmother']) {
      await here.getByLabel('New todo').fill(title);
      await here.keyboard.press('Enter');
      await there.getByRole('button', { name: title, exact: true }).waitFor();
    }
    await there.getByRole('checkbox', { name: 'Book the train to Lisbon' }).check();
    await here.getByText('3 to do, 1 done').waitFor();
    assert.deepEqual(complaints, []);
    if (process.env.SVC_SCREENSHOTS === '1') {
      await here.screenshot({ path: join(root, 'docs/screenshot-todos.png'), animations: 'disabled' });
    }
  });

  test('a refused input is shown beside its field', async () => {
    const page = await open('guestbook');
    await page.getByLabel('Your name').fill('A');
    await page.getByLabel('Message').fill('What a lovely place.');
    await page.getByRole('button', { name: 'Sign the book' }).click();
    await page.locator('#name-error').filter({ hasText: 'a little short' }).waitFor();
    assert.equal(await page.getByLabel('Your name').getAttribute('aria-invalid'), 'true');
    assert.equal(await page.getByLabel('Message').getAttribute('aria-invalid'), null);
    await page.getByLabel('Your name').fill('Ada');
    await page.getByRole('button', { name: 'Sign the book' }).click();
    await page.getByRole('listitem').filter({ hasText: 'What a lovely place.' }).waitFor();
  });

  test('settings apply before the first paint', async () => {
    const page = await open('guestbook');
    await page.locator('summary').click();
    await page.getByRole('radio', { name: 'Dark' }).check();
    await page.locator('html[data-theme=dark]').waitFor();
    await page.addInitScript(WATCH_THEME);
    await page.reload();
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
    const [setAt, paintedAt] = [
      await page.evaluate<number>('window.themeSetAt'),
      await page.evaluate<number>(FIRST_PAINT),
    ];
    assert.ok(setAt <= paintedAt, `set at ${setAt} ms, painted at ${paintedAt} ms`);
    await page.goto(`${page.url()}?theme=light&layout=nonsense`);
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'light');
    assert.equal(await page.locator('html').getAttribute('data-layout'), 'wall');
    assert.deepEqual(complaints, []);
  });

  test('a page can be installed, with the name, colour and icons of its app', async () => {
    const page = await open('guestbook');
    const browser = await context.newCDPSession(page);
    const { url, data = '', errors } = await browser.send('Page.getAppManifest');
    assert.deepEqual(errors, []);
    const { name, display, theme_color, start_url, icons } = JSON.parse(data);
    assert.deepEqual([name, display, theme_color], ['Guestbook', 'standalone', '#2f6f5e']);
    assert.equal(new URL(start_url, url).href, `${originOf(gateway, { app: 'guestbook' })}/`);
    const { installabilityErrors } = await browser.send('Page.getInstallabilityErrors');
    // A context of a test is incognito; the shell leaves that out.
    assert.deepEqual(
      installabilityErrors.filter(({ errorId }) => errorId !== 'in-incognito'),
      [],
    );

    const address = (name: string) => new URL(name, url).href;
    const touch = page.locator('link[rel=apple-touch-icon]');
    const wanted = [...icons.map(({ src }: { src: string }) => src), await touch.getAttribute('href')].map(address);
    const sizes = await page.evaluate(
      `Promise.all(${JSON.stringify(wanted)}.map((src) => {
        const image = Object.assign(new Image(), { src });
        return image.decode().then(() => [image.naturalWidth, image.naturalHeight]);
      }))`,
    );
    assert.deepEqual(
      sizes,
      [192, 512, 512, 180].map((size) => [size, size]),
    );
    // It has an icon of its own for the tab.
    assert.equal(await page.locator('link[rel=icon]').getAttribute('href'), 'icon.svg');
    assert.deepEqual(complaints, []);
  });

  test('a page that links its own manifest keeps it, and one in a frame gets none', async () => {
    const page = await open('meter');
    const pages: Record<string, string> = {
      '/own.html': '<link rel="Manifest" href="data:application/json,{}"><link rel="shortcut icon" href="data:,">',
      '/frame.html': '<title>In a frame</title>',
      '/outer.html': '<iframe src="frame.html"></iframe>',
    };
    await context.route(/(?:own|frame|outer)\.html$/, (route, request) => {
      const content = pages[new URL(request.url()).pathname];
      const body = `<!doctype html><script src="/svc/_client.js" data-app="meter"></script>${content}`;
      return route.fulfill({ contentType: 'text/html', body });
    });
    const linked = (where: Page | Frame) =>
      where.evaluate<string[]>(
        "[...document.querySelectorAll('link')].map(({ rel, href }) => rel + ' ' + href.replace(location.origin, ''))",
      );
    await page.goto(`${originOf(gateway, { app: 'meter' })}/own.html`);
    const touch = 'apple-touch-icon /svc/meter/apple-touch-icon.png';
    assert.deepEqual(await linked(page), ['Manifest data:application/json,{}', 'shortcut icon data:,', touch]);
    await page.goto(`${originOf(gateway, { app: 'meter' })}/outer.html`);
    const icon = 'icon /svc/meter/favicon.ico';
    assert.deepEqual(await linked(page), ['manifest /svc/meter/manifest.webmanifest', touch, icon]);
    assert.deepEqual(await linked(page.frames().at(-1) as Frame), []);
    assert.deepEqual(complaints, []);
  });

  test('a burst of writes moves the chart, in every tab', async () => {
    const [here, there] = [await open('meter'), await open('meter')];
    await here.getByRole('button', { name: 'Burst' }).click();
    await here
      .getByRole('status')
      .filter({ hasText: /^300 writes in [\d.]+ s/ })
      .waitFor();
    for (const page of [here, there]) {
      await page.locator('#total').filter({ hasText: /^300$/ }).waitFor();
      assert.ok((await page.locator('#bars .some').count()) > 0, 'bars in the chart');
    }
    assert.deepEqual(complaints, []);
  });

  test('a newcomer’s first ten minutes', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-story-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const here = await context.newPage();
    await enter(here, gateway, { app: 'todos' });
    const there = await context.newPage();
    await there.goto(originOf(gateway, { app: 'todos' }));
    const isTitled = (title: string) =>
      eventually(PATIENCE_MS, async () => (await there.title().catch(() => '')) === title);

    await here.getByLabel('New todo').fill('From the page');
    await here.keyboard.press('Enter');
    await there.getByRole('button', { name: 'From the page', exact: true }).waitFor();

    assert.equal((await gateway.write('todos', 'add', { title: 'From HTTP' })).status, 201);
    await there.getByRole('button', { name: 'From HTTP', exact: true }).waitFor();
    await svc(gateway, 'write', 'todos', 'add', '{"title":"From the command line"}');
    await there.getByRole('button', { name: 'From the command line', exact: true }).waitFor();

    await svc(gateway, 'push', changedApp(folder));
    // A page follows publications by itself: a reload here would interfere.
    assert.ok(await isTitled('Todos, changed'), 'the page follows an upload');
    await svc(gateway, 'rollback', 'todos');
    assert.ok(await isTitled('Todos'), 'and the way back');

    await gateway.kill();
    await gateway.start();
    const again = await context.newPage();
    await enter(again, gateway, { app: 'todos' });
    for (const title of ['From the page', 'From HTTP', 'From the command line']) {
      await again.getByRole('button', { name: title, exact: true }).waitFor();
    }
    const versions = (await gateway.call('GET', '/svc/_apps/todos/versions')).json as {
      active: boolean;
      version: string;
    }[];
    assert.deepEqual(
      versions.map(({ version, active }) => [version === '2.0.0', active]),
      [
        [true, false],
        [false, true],
      ],
    );
  });

  for (const { file, hasToken } of [
    { file: 'node.js', hasToken: false },
    { file: 'hono.js', hasToken: true },
    { file: 'fastify.js', hasToken: true },
  ]) {
    test(`examples/embedding/${file}: with origins if the gateway checks who calls, else at the host’s own address`, async (t) => {
      const host = new Host([join('examples/embedding', file)]);
      t.after(() => host.remove());
      await host.listening(hasToken);
      const { gateway } = host;
      const origin = hasToken ? originOf(gateway, { app: 'todos' }) : gateway.url;
      const page = await context.newPage();
      // A copy: a push writes into the folder.
      const folder = mkdtempSync(join(tmpdir(), 'svc-pushed-'));
      t.after(() => rmSync(folder, { recursive: true }));
      cpSync(appFolder('todos'), folder, { recursive: true });
      const stdout = await svc(gateway, 'push', folder);
      const address = hasToken ? `${origin}/` : `${origin}/svc/todos/`;
      assert.ok(stdout.includes(` ${address}\n`), stdout);

      if (hasToken) await page.goto(await linkTo(gateway));
      else {
        await page.goto(gateway.url);
        await page.getByRole('link', { name: 'Apps', exact: true }).click();
      }
      await page.getByText('All systems running').waitFor();
      assert.equal(page.url(), hasToken ? consoleOf(gateway) : `${gateway.url}/svc/`);
      assert.equal(await page.getByRole('button', { name: 'Sign out' }).isVisible(), hasToken);
      await page.getByRole('link', { name: 'Open Todos' }).click();
      await page.waitForURL(`${origin}/svc/todos/`);
      await page.goto(address);
      await page.getByLabel('New todo').fill('Within a host');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Within a host', exact: true }).waitFor();
    });
  }

  test('examples/embedding/express.js: an app in the browser of a person who signed in at the host', async (t) => {
    const host = await startExample(EXAMPLES.find(({ file }) => file === 'express.js') ?? assert.fail());
    t.after(() => host.remove());
    const { gateway } = host;
    const app = tarball(filesOf(appFolder('todos')));
    assert.equal((await gateway.upload('todos', app)).status, 201);
    const page = await context.newPage();
    const signIn = async (name: string) => {
      await page.goto(gateway.url);
      await page.getByLabel('Name').fill(name);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in' }).click();
    };
    await signIn('ada');
    await page.getByRole('link', { name: 'Apps', exact: true }).click();
    await page.getByText('All systems running').waitFor();
    await page.getByRole('link', { name: 'Open Todos' }).click();
    await page.waitForURL(`${gateway.url}/svc/todos/`);
    await page.getByLabel('New todo').fill('Within a host');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Within a host', exact: true }).waitFor();

    // A viewer sees the page, and what others write, and writes nothing.
    await context.clearCookies({ domain: '127.0.0.1' });
    await signIn('bob');
    await page.goto(`${gateway.url}/svc/`);
    await page.getByText('decides what you may do here').waitFor();
    await page.getByRole('link', { name: 'Open Todos' }).click();
    await page.getByRole('button', { name: 'Within a host', exact: true }).waitFor();
    await page.getByLabel('New todo').fill('Of a viewer');
    const refused = page.waitForResponse((answer) => answer.url().endsWith('/svc_write'));
    await page.keyboard.press('Enter');
    assert.equal((await refused).status(), 403);
  });
});
