/** Signing in and out as people see it: links, the console, and pages whose session ends while somebody writes in them. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { isAppId } from '../../protocol/ids.ts';
import { openConsole } from '../../testing/console.ts';
import { eventually, gatewayOfSuite } from '../../testing/edges.ts';
import { root } from '../../testing/gateway.ts';
import { startModelStub } from '../../testing/model-stub.ts';
import { baseOf, consoleOf, enter, linkTo, originOf } from '../../testing/pages.ts';
import { script } from '../../testing/stub-runner.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';
import { sharedToolsSuite } from './console-tools.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
const TODOS = { app: 'todos' };
/** All apps that come with the gateway. */
const APPS = [
  ...readdirSync(join(root, 'templates')).filter(isAppId),
  ...readdirSync(join(root, 'examples')).filter((name) => name !== 'embedding'),
];

/** Two pages, of which one embeds the other. */
const FRAMES = {
  'app.json': JSON.stringify({ id: 'frames', name: 'Frames', version: '1.0.0', queries: [{ name: 'one' }] }),
  'queries/one.js': 'export default () => 1;',
  'index.html':
    '<!doctype html><html lang="en"><head><title>Outer</title></head><body><iframe src="inner.html"></iframe></body></html>',
  'inner.html': '<!doctype html><html lang="en"><head><title>Inner</title></head><body><h1>Inner</h1></body></html>',
};

const bar = (page: Pick<Page, 'getByRole'>) => page.getByRole('status').filter({ hasText: 'You are signed out' });
const signInLink = (page: Pick<Page, 'getByRole'>) => page.getByRole('link', { name: 'Sign in', exact: true });
const READ = `svc.read({ query: 'list' }).then(() => 'read', ({ code, message }) => code + ': ' + message)`;

/** Into the form of the console. */
async function typeToken(page: Page, token: string): Promise<void> {
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** A picture, if a person wants to look: SVC_LOOK names the folder. */
async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.SVC_LOOK;
  if (!folder) return;
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1120, 390]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 760 });
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png`, animations: 'disabled' });
    }
  }
}

describe('sessions in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ apps: ['todos', 'guestbook'] });
  let context: BrowserContext;

  before(() => gateway.install('frames', FRAMES));
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(() => context.close());

  async function open(): Promise<Page> {
    const page = await context.newPage();
    const following = page.waitForResponse(/_changes/);
    await enter(page, gateway, TODOS);
    await following;
    return page;
  }

  async function openHome(): Promise<Page> {
    const page = await context.newPage();
    await page.goto(consoleOf(gateway));
    await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
    return page;
  }

  test('a page with typed text says that its session ended, and continues after a sign-in in another tab', async () => {
    const page = await open();
    const field = page.getByLabel('New todo');
    await field.fill('half a sentence');
    const admin = await openHome();
    await admin.getByRole('button', { name: 'Sign out' }).click();
    await admin.getByText('You are signed out here and on the pages of all apps.').waitFor();

    await bar(page).waitFor();
    assert.equal(await page.evaluate(READ), 'UNAUTHORIZED: Your session has ended. Sign in and try again.');
    await field.press('Enter');
    await page.getByText('Your session has ended. Sign in and try again').waitFor();
    // A refused text need not be typed again.
    await eventually(() => page.evaluate(`document.activeElement.value === 'half a sentence'`));
    await page.evaluate('window.told = []; svc.onChange((event) => told.push(event.type))');
    await picture(page, 'signed-out');
    const opened = context.waitForEvent('page');
    await signInLink(page).click();
    const tab = await opened;
    await tab.getByText(`Continue to ${page.url()}`).waitFor();
    await typeToken(tab, gateway.token);
    await tab.waitForURL(page.url());
    await tab.getByRole('heading', { name: 'Todos' }).waitFor();

    await page.bringToFront();
    await bar(page).waitFor({ state: 'detached' });
    await eventually(() => page.evaluate('told.includes("reset")'));
    assert.equal(await field.inputValue(), 'half a sentence');
    assert.equal((await gateway.write('todos', 'add', { title: 'From elsewhere' })).status, 201);
    await page.getByRole('button', { name: 'From elsewhere', exact: true }).waitFor();
    await field.press('Enter');
    await page.getByRole('button', { name: 'half a sentence', exact: true }).waitFor();
  });

  test('a page without typed text signs in in the same tab, and returns to the exact address', async () => {
    const page = await open();
    await page.goto(`${page.url()}?theme=dark#here`);
    await context.clearCookies();
    assert.match(await page.evaluate(READ), /^UNAUTHORIZED/);
    await signInLink(page).click();
    await typeToken(page, gateway.token);
    await page.waitForURL(`${originOf(gateway, TODOS)}/svc/todos/?theme=dark#here`);
    assert.equal(await page.evaluate(READ), 'read');
    assert.equal(context.pages().length, 1);
  });

  test('a signed-out page only asks whether it is signed in', async () => {
    await context.clock.install();
    const page = await open();
    await context.clearCookies();
    await page.evaluate(READ);
    await bar(page).waitFor();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.evaluate('dispatchEvent(new PageTransitionEvent("pageshow"))');
    await page.evaluate('dispatchEvent(new Event("focus"))');
    // A stream would be tried again once a second at first, and the session is looked for every ten.
    await context.clock.runFor(4000);
    await page.evaluate("fetch('/svc/_session').then((answer) => answer.text())");
    assert.deepEqual([...new Set(asked)], ['/svc/_session']);
    assert.ok(asked.length <= 3, `asked ${asked.length} times`);
    assert.equal(await bar(page).count(), 1);
  });

  test('the bar can be reached while a dialog is open, and after it', async () => {
    const page = await open();
    await page.evaluate(
      'document.body.append(Object.assign(document.createElement("dialog"), { id: "asks", textContent: "Really?" }))',
    );
    await page.evaluate('document.querySelector("#asks").showModal()');
    await context.clearCookies();
    await page.evaluate(READ);
    await signInLink(page).click({ trial: true });
    await page.evaluate('document.querySelector("#asks").close()');
    await signInLink(page).click({ trial: true });
  });

  test('a page in a frame offers to sign in in a new tab', async () => {
    const page = await context.newPage();
    await enter(page, gateway, { app: 'frames' });
    const frame = page.frameLocator('iframe');
    await frame.getByRole('heading', { name: 'Inner' }).waitFor();
    await context.clearCookies();
    await page.frames()[1]?.evaluate(`svc.read({ query: 'one' }).catch(() => {})`);
    const opened = context.waitForEvent('page');
    await frame.getByRole('link', { name: 'Sign in' }).click();
    const tab = await opened;
    await typeToken(tab, gateway.token);
    await tab.getByRole('heading', { name: 'Inner' }).waitFor();
    await page.bringToFront();
    await frame.getByText('If no tab opened, go to').waitFor({ state: 'detached' });
  });

  test('settings are accepted from every page that may embed it, the console too', async () => {
    // The console's own policy has no frames of other origins yet.
    const embedding = await (await sharedChromium()).newContext({ bypassCSP: true });
    embedding.setDefaultTimeout(PATIENCE_MS);
    const page = await embedding.newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
    await page.evaluate(`document.body.append(Object.assign(document.createElement('iframe'), {
      src: '${originOf(gateway, TODOS)}/', width: 900, height: 600 }))`);
    const frame = page.frameLocator('iframe').last();
    await frame.getByRole('heading', { name: 'Todos' }).waitFor();
    assert.equal(page.frames().at(-1)?.url(), `${originOf(gateway, TODOS)}/`);
    await page.evaluate(`frames[frames.length - 1].postMessage({ type: 'svc:theme', theme: 'dark' }, '*')`);
    await frame.locator('html[data-theme=dark]').waitFor({ state: 'attached' });
    await embedding.close();
  });

  test('the console says when its session has ended, and continues at the same view', async () => {
    await open();
    const page = await openHome();
    await page.evaluate('window.marked = true');
    await context.clearCookies();
    await page.getByText('Your session has ended').waitFor();
    await picture(page, 'console-ended');
    await typeToken(page, '0'.repeat(64));
    await page.getByRole('alert').filter({ hasText: 'does not know this token' }).waitFor();
    await typeToken(page, gateway.token);
    await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
    assert.equal(await page.evaluate('window.marked'), true, 'it is the same page');
    await picture(page, 'console');
  });

  test('a link signs one browser in', async () => {
    const link = await linkTo(gateway, TODOS);
    const page = await context.newPage();
    await page.goto(link);
    await page.getByRole('heading', { name: 'Todos' }).waitFor();
    assert.equal(new URL(page.url()).origin, originOf(gateway, TODOS));
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByRole('heading', { name: 'Todos' }).waitFor();

    const other = await (await sharedChromium()).newContext();
    const late = await other.newPage();
    await late.goto(link);
    await late.getByRole('alert').filter({ hasText: 'already used or has expired' }).waitFor({ timeout: PATIENCE_MS });
    await late.getByText('svc open').first().waitFor();
    assert.equal(late.url(), consoleOf(gateway));
    await picture(late, 'link-used');
    await typeToken(late, gateway.token);
    await late.getByRole('heading', { name: 'Todos' }).waitFor();
    await other.close();
  });

  test('an address that is opened signed out is shown after the sign-in', async () => {
    const page = await context.newPage();
    const address = `${originOf(gateway, TODOS)}/svc/todos/index.html?theme=dark`;
    await page.goto(address);
    assert.equal(new URL(page.url()).host, baseOf(gateway));
    await page.getByText(`Continue to ${address}`).waitFor();
    await typeToken(page, gateway.token);
    await page.waitForURL(address);
    await page.getByRole('heading', { name: 'Todos' }).waitFor();
    const second = await context.newPage();
    await second.goto(
      `${consoleOf(gateway)}#enter=${encodeURIComponent(`${originOf(gateway, { app: 'guestbook' })}/`)}`,
    );
    await second.waitForURL(`${originOf(gateway, { app: 'guestbook' })}/`);
  });
});

describe('the page key, in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ apps: ['todos'] });
  let context: BrowserContext;

  before(() => gateway.install('frames', FRAMES));
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(() => context.close());

  const reads = async (page: Page) => {
    await page.getByLabel('New todo').waitFor();
    assert.equal(await page.evaluate(READ), 'read');
  };
  /** For pages of this origin, or of all, both storages throw, as where a person blocks them. */
  const blockStorage = (origin?: string) =>
    context.addInitScript({
      content: `if (${JSON.stringify(origin ?? null)} === null || location.origin === '${origin}') {
        for (const name of ['localStorage', 'sessionStorage'])
          Object.defineProperty(window, name, { get() { throw new DOMException('Blocked.', 'SecurityError'); } });
      }`,
    });
  const addressOf = (page: Page) => page.evaluate<string>('location.href');

  test('is not in the page, in its address or in what the browser stores with it', async () => {
    const page = await context.newPage();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await enter(page, gateway, TODOS);
    await reads(page);
    const key = await page.evaluate<string>("localStorage.getItem('svc:page-key')");
    assert.match(key, /^[0-9a-f]{64}$/);
    assert.ok(!asked.some((url) => url.includes(key)));
    assert.ok(!(await page.content()).includes(key));
    assert.ok(!JSON.stringify(await context.cookies()).includes(key));
    const address = await addressOf(page);
    await page.goto(`${address}?another#svc-page-key=${'0'.repeat(64)}`);
    await reads(page);
    assert.equal(await addressOf(page), `${address}?another`, 'a key in an address that anybody can make is dropped');
  });

  test('that an origin has lost is given again by the console, without a sign-in', async () => {
    const page = await context.newPage();
    await enter(page, gateway, TODOS);
    const address = `${await addressOf(page)}?theme=dark#here`;
    await page.evaluate('localStorage.clear()');
    assert.equal(await page.evaluate(READ), 'read', 'the page that is open goes on');
    await page.goto(address);
    await page.waitForURL(address);
    await reads(page);
    // Another tab, too.
    const other = await context.newPage();
    await other.goto(address);
    await reads(other);
  });

  test('that the console has lost is made by a sign-in, which comes back to the page', async () => {
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.locator('#content').waitFor();
    await page.evaluate('localStorage.clear()');
    await page.reload();
    await page.getByLabel('Access token').waitFor();
    await page.goto(`${originOf(gateway, TODOS)}/`);
    await page.getByText(`Continue to ${originOf(gateway, TODOS)}/`).waitFor();
    await typeToken(page, gateway.token);
    await page.waitForURL(`${originOf(gateway, TODOS)}/`);
    await reads(page);
  });

  test('of an app whose storage is blocked is in memory, and a reload gets it at the console', async () => {
    await blockStorage(originOf(gateway, TODOS));
    const page = await context.newPage();
    await enter(page, gateway, TODOS);
    await reads(page);
    const address = `${originOf(gateway, TODOS)}/svc/todos/?theme=dark#here`;
    await page.goto(address);
    await page.waitForURL(address);
    await reads(page);
    await page.reload();
    await page.waitForURL(address);
    await reads(page);
    assert.equal((await gateway.write('todos', 'add', { title: 'Live here' })).status, 201);
    await page.getByRole('button', { name: 'Live here', exact: true }).waitFor();
  });

  test('of a browser that blocks all storage is in memory, and a reload asks to sign in', async () => {
    await blockStorage();
    const page = await context.newPage();
    await enter(page, gateway, TODOS);
    await reads(page);
    const address = await addressOf(page);
    await page.reload();
    await page.getByText(`Continue to ${address}`).waitFor();
    await typeToken(page, gateway.token);
    await page.waitForURL(address);
    await reads(page);
  });

  test('of a browser that keeps no cookie of the app leads to an explanation, not around in a circle', async () => {
    const asks = (url: URL) => url.origin === originOf(gateway, TODOS) && url.pathname === '/svc/_session';
    // As the gateway answers then.
    await context.route(asks, (route) => route.fulfill({ json: { signedIn: false } }));
    const page = await context.newPage();
    await page.goto(await linkTo(gateway, TODOS));
    await page.getByRole('alert').filter({ hasText: 'did not keep the session' }).waitFor();
    assert.equal(await addressOf(page), `${originOf(gateway, TODOS)}/svc/_enter`);
    await context.unroute(asks);
    await page.getByRole('link', { name: 'Try again' }).click();
    await reads(page);
  });

  test('opens a file that is no page, and one that is no file of the app', async () => {
    await blockStorage();
    const page = await context.newPage();
    const open = async (path: string) => {
      await page.goto(await linkTo(gateway));
      await page.locator('#content').waitFor();
      const address = `${originOf(gateway, TODOS)}${path}`;
      await page.goto('about:blank');
      await page.goto(`${consoleOf(gateway)}#enter=${encodeURIComponent(address)}`);
      await typeToken(page, gateway.token);
      await page.waitForURL((url) => url.href.startsWith(address));
      return page.content();
    };
    assert.match(await open('/icon.svg'), /<svg/);
    assert.equal(page.url(), `${originOf(gateway, TODOS)}/icon.svg`);
    assert.match(await open('/nothing.html'), /There is nothing at this address/);
    assert.match(await open('/svc/_apps/todos/settings'), /This address is for programs and pages/);
  });

  test('is kept where the browser clears what an earlier app of this id has stored', async () => {
    const page = await context.newPage();
    const FRAMED = { app: 'frames' };
    await enter(page, gateway, FRAMED);
    await page.evaluate("localStorage.setItem('of', 'the earlier one')");
    await gateway.call('DELETE', '/svc/_apps/frames?purge=1');
    await gateway.install('frames', FRAMES);
    const cleared = page.waitForResponse(async (response) => (await response.headerValue('clear-site-data')) !== null);
    await enter(page, gateway, FRAMED);
    await cleared;
    assert.equal(await page.evaluate(`svc.read({ query: 'one' })`), 1);
    const kept = await page.evaluate("[localStorage.getItem('of'), localStorage.getItem('svc:page-key') !== null]");
    assert.deepEqual(kept, [null, true]);
  });

  test('signs the addresses of files, also where a page names a plain one', async () => {
    const page = await context.newPage();
    await enter(page, gateway, { app: 'frames' });
    const file = `svc.upload(new Blob(['<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>'], { type: 'image/svg+xml' }))`;
    const shown = (address: string, how: string) =>
      page.evaluate(`${file}.then(({ sha256 }) => new Promise((resolve) => {
        const image = document.createElement('img');
        image.onload = () => resolve(image.naturalWidth);
        image.onerror = () => resolve('refused');
        image.src = ${address};
        ${how}
      }))`);
    assert.equal(await shown("svc.url('_blobs/' + sha256)", ''), 7);
    assert.equal(await shown("'_blobs/' + sha256", 'document.body.append(image);'), 7, 'a plain one, in the page');
    assert.equal(await shown("'_blobs/' + sha256", ''), 'refused', 'a plain one that no page shows');
    const text = await page.evaluate(
      `${file}.then(({ sha256 }) => svc.fetch('_blobs/' + sha256)).then((answer) => answer.text())`,
    );
    assert.match(String(text), /^<svg/);
    await page.evaluate(`${file}.then(({ sha256 }) => {
      document.body.innerHTML = '<a download="seven.svg">Seven</a>';
      document.querySelector('a').href = '_blobs/' + sha256;
    })`);
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Seven').click()]);
    assert.equal(download.suggestedFilename(), 'seven.svg');
    assert.equal(await download.failure(), null);
  });
});

describe('a visitor without a page key, in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({});

  test('is told once that a file is refused', async (t) => {
    const file = '_blobs/'.padEnd(71, '0');
    await gateway.install('open', {
      'app.json': JSON.stringify({ id: 'open', name: 'Open', version: '1.0.0', public: true }),
      'index.html': `<!doctype html><title>Open</title><body><script src="page.js"></script></body>`,
      'page.js': `const image = new Image();
        image.addEventListener('error', () => document.body.append('Refused.'));
        image.src = '${file}';
        document.body.append(image);`,
    });
    const context = await (await sharedChromium()).newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.goto(`${originOf(gateway, { app: 'open' })}/`);
    await page.getByText('Refused.').waitFor();
    assert.equal(await page.evaluate('svc.visitor'), true);
    assert.equal(asked.filter((path) => path.endsWith(file)).length, 1);
  });
});

// Sessions at a shared address reach no program that does as it likes.
const model = await startModelStub();
after(() => model.close());

describe('an address that all apps share, in a browser', { skip: withoutChromium() }, () => {
  const runners = { local: { kind: 'model', baseUrl: `${model.url}/v1`, model: 'stub-model' } };
  const gateway = gatewayOfSuite({ store: 'git', apps: APPS, config: { runners, pageOrigins: 'shared' } });

  test('an app shows its name and page in the console, and its chat works', async () => {
    const context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const { page } = await openConsole(context, gateway, '/apps/todos/chat');
    await page.getByRole('heading', { name: 'Todos', level: 1 }).first().waitFor();
    const frame = page.frameLocator('iframe');
    await frame.getByText('Nothing to do yet.').waitFor();
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.fill(script('call: add {"title": "Shared milk"}', 'say: Done.'));
    await message.press('Enter');
    await frame.getByText('Shared milk').waitFor();
    assert.equal(await page.getByRole('combobox', { name: 'What the agent may work on' }).isDisabled(), true);
    assert.equal(await page.getByRole('button', { name: 'Secrets' }).isVisible(), false);
    await context.close();
  });

  test('the console lists the apps, and says what it may not do and where to do it', async () => {
    const context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    assert.equal(page.url(), `${gateway.url}/svc/`);
    await page.getByRole('heading', { name: 'Apps only at this address' }).waitFor();
    await page.getByText(`http://svc.localhost:${new URL(gateway.url).port}/svc/`).waitFor();
    await page.getByText('appDomain').waitFor();
    assert.equal(await page.getByRole('heading', { name: 'System' }).isVisible(), false);
    await picture(page, 'shared');
    await page.getByRole('link', { name: 'Todos', exact: true }).click();
    await page.waitForURL(`${gateway.url}/svc/todos/`);
    await page.getByLabel('New todo').fill('At a shared address');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'At a shared address', exact: true }).waitFor();

    await page.goto(`${gateway.url}/svc/contact/`);
    await page.getByRole('link', { name: 'Inbox' }).click();
    await page.getByText('No messages.').waitFor();
    await context.clearCookies();
    await page.evaluate(`svc.read({ query: 'counts' }).catch(() => {})`);
    await signInLink(page).click();
    await typeToken(page, gateway.token);
    await page.waitForURL(`${gateway.url}/svc/contact/inbox.html`);
    await page.getByText('No messages.').waitFor();
    await context.close();
  });

  test('a browser that blocks all storage is signed in until a page is loaded again', async () => {
    const context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript({
      content: `for (const name of ['localStorage', 'sessionStorage'])
        Object.defineProperty(window, name, { get() { throw new DOMException('Blocked.', 'SecurityError'); } });`,
    });
    const page = await context.newPage();
    await page.goto(await linkTo(gateway, TODOS));
    await page.waitForURL(`${gateway.url}/svc/todos/`);
    assert.equal(await page.evaluate(READ), 'read');
    await page.reload();
    await typeToken(page, gateway.token);
    await page.waitForURL(`${gateway.url}/svc/todos/`);
    assert.equal(await page.evaluate(READ), 'read');
    await context.close();
  });

  test('every template and example works there', async () => {
    const context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const complaints: string[] = [];
    context.on('weberror', (error) => complaints.push(String(error.error())));
    const start = await context.newPage();
    await start.goto(await linkTo(gateway));
    await start.getByRole('heading', { name: 'Apps only at this address' }).waitFor();
    await start.close();
    context.on('response', (response) => {
      if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
    });
    for (const app of APPS) {
      const page = await context.newPage();
      const [following] = await Promise.all([
        page.waitForResponse(/_changes/),
        page.goto(`${gateway.url}/svc/${app}/`),
      ]);
      assert.equal(following.status(), 200, app);
      await page.getByRole('heading').first().waitFor();
      await page.close();
    }
    assert.deepEqual(complaints, []);
    await context.close();
  });

  sharedToolsSuite(gateway);
});
