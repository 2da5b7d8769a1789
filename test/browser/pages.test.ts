/** The console and the example apps, in a real browser (decisions, section 5). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { startChromium } from '../../testing/chromium.ts';
import { root, startGateway, type TestGateway } from '../../testing/gateway.ts';
import { consoleOf, enter, linkTo } from '../../testing/pages.ts';
import { withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
/** When the theme was set on `<html>`, in the page's own time. */
const WATCH_THEME = `
  new MutationObserver(() => { window.themeSetAt ??= performance.now(); })
    .observe(document, { subtree: true, attributes: true, attributeFilter: ['data-theme'] });`;
const FIRST_PAINT = `new Promise((resolve) => new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime))
  .observe({ type: 'paint', buffered: true }))`;

describe('in a browser', { skip: withoutChromium() }, () => {
  let gateway: TestGateway;
  let removeGateway: () => Promise<void>;
  let browser: Browser;
  let context: BrowserContext;
  let complaints: string[];

  before(async () => {
    const owner = {
      after: (remove: () => Promise<void>) => {
        removeGateway = remove;
      },
    };
    gateway = await startGateway(owner, { apps: ['todos', 'guestbook', 'meter'] });
    browser = await startChromium();
  });
  after(async () => {
    await browser?.close();
    await removeGateway();
  });
  beforeEach(async () => {
    context = await browser.newContext({ viewport: { width: 1120, height: 620 }, colorScheme: 'light' });
    context.setDefaultTimeout(PATIENCE_MS);
    complaints = [];
    // Refused scripts and styles are reported here too.
    context.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    context.on('weberror', (error) => complaints.push(String(error.error())));
  });

  afterEach(() => context.close());

  /** Opens the address that `svc serve` prints for an app. */
  async function open(app: string): Promise<Page> {
    const page = await context.newPage();
    await enter(page, gateway, { app });
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
});
