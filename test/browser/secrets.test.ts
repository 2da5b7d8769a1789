/** The form for secrets in the console, used through a real browser: for a live app, and for a draft. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { startGateway, type TestGateway } from '../../testing/gateway.ts';
import { linkTo } from '../../testing/pages.ts';
import { startChromium, withoutChromium } from './chromium.ts';

/** Far more than any of it takes, so that a busy machine fails nothing. */
const PATIENCE_MS = 90_000;
const PEM = '-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----';

const SHOP = appOf('shop', {
  queries: { check: `async ({ input, ctx }) => (await ctx.secrets.get(input.name)) === input.expected` },
  manifest: { name: 'Shop' },
  files: { 'index.html': '<!doctype html><title>Shop</title><h1>Shop</h1>' },
});

describe('secrets in a browser', { skip: withoutChromium() }, () => {
  const cleanups: (() => unknown)[] = [];
  const owner = { after: (cleanup: () => unknown) => void cleanups.unshift(cleanup) };
  let gateway: TestGateway;
  let browser: Browser;
  let context: BrowserContext;
  let complaints: string[];

  before(async () => {
    gateway = await startGateway(owner, { store: 'git' });
    browser = await startChromium();
    owner.after(() => browser.close());
    assert.equal((await gateway.upload('shop', SHOP)).status, 201);
  });
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  beforeEach(async () => {
    context = await browser.newContext({ viewport: { width: 1120, height: 900 }, colorScheme: 'light' });
    context.setDefaultTimeout(PATIENCE_MS);
    complaints = [];
    context.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    context.on('weberror', (error) => complaints.push(String(error.error())));
  });
  afterEach(() => context.close());

  const row = (page: Page, name: string) => page.getByRole('dialog').getByRole('listitem').filter({ hasText: name });
  const fill = async (page: Page, name: string, value: string) => {
    await page.getByLabel('Name').fill(name);
    await page.getByLabel('Value').fill(value);
    await page.getByRole('button', { name: 'Set secret' }).click();
  };
  const matches = async (name: string, expected: string) =>
    (await gateway.read('shop', 'check', { name, expected })).json.data;
  /** `SVC_LOOK` says where, when somebody wants to look. */
  const picture = async (page: Page, name: string) => {
    const folder = process.env.SVC_LOOK;
    if (folder) await page.screenshot({ path: `${folder}/${name}.png`, animations: 'disabled' });
  };

  test('a secret is set, replaced and removed; its value is not shown and not left in the page', async () => {
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('button', { name: 'Secrets of Shop' }).click();
    await page.getByRole('heading', { name: 'Secrets of Shop' }).waitFor();
    await page.getByText('No secrets yet.').waitFor();
    await page.getByLabel('Value').fill('typed, then closed');
    const shownAs = "getComputedStyle(document.querySelector('#secret-value')).webkitTextSecurity";
    assert.equal(await page.evaluate(shownAs), 'disc');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    assert.equal(await page.locator('#secret-value').inputValue(), '');

    await page.getByRole('button', { name: 'Secrets of Shop' }).click();
    await fill(page, 'TLS_KEY', PEM);
    await page.getByText('TLS_KEY is set').waitFor();
    await row(page, 'TLS_KEY').getByText('set just now').waitFor();
    assert.equal(await matches('TLS_KEY', PEM), true, 'with its lines');
    assert.equal(await page.getByLabel('Value').inputValue(), '');
    assert.doesNotMatch(await page.content(), /MIIEvQ/);
    await picture(page, 'secrets');

    await page.getByRole('button', { name: 'Replace TLS_KEY' }).click();
    assert.equal(await page.getByLabel('Name').inputValue(), 'TLS_KEY');
    await page.keyboard.type('another value');
    await page.getByRole('button', { name: 'Set secret' }).click();
    await page.getByText('TLS_KEY is set').waitFor();
    assert.equal(await matches('TLS_KEY', 'another value'), true);

    page.on('dialog', (question) => void question.accept());
    await page.getByRole('button', { name: 'Remove TLS_KEY' }).click();
    await page.getByText('No secrets yet.').waitFor();
    assert.deepEqual((await gateway.call('GET', '/svc/_apps/shop/secrets')).json, []);
    assert.deepEqual(complaints, []);
  });

  test('what the gateway refuses is said, and what was typed stays', async () => {
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('button', { name: 'Secrets of Shop' }).click();
    await fill(page, 'LARGE', 'x'.repeat(64 * 1024 + 1));
    await page.getByRole('alert').filter({ hasText: 'at most 65536 bytes' }).waitFor();
    assert.equal(await page.getByLabel('Name').inputValue(), 'LARGE');
    assert.deepEqual((await gateway.call('GET', '/svc/_apps/shop/secrets')).json, []);
  });

  test('beside the page of an app: those of the live app', async () => {
    await gateway.call('PUT', '/svc/_apps/shop/secrets/LIVE', { body: { value: 'that of live' } });
    const page = await context.newPage();
    const link = new URL(await linkTo(gateway));
    await page.goto(link.href);
    await page.getByRole('button', { name: 'Secrets of Shop' }).waitFor();
    await page.goto(`${link.origin}/svc/#chat=shop`);
    await page.getByRole('heading', { name: 'Shop' }).waitFor();
    await page.getByRole('button', { name: 'Secrets', exact: true }).click();
    await row(page, 'LIVE').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  });
});
