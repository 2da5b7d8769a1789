/** The website in a browser: read, searched and walked through, on wide screens and phones, light and dark. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { buildSite } from '../../scripts/site/build.ts';
import { accessibilityFaults } from '../../testing/axe.ts';
import { root } from '../../testing/gateway.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

const PATIENCE_MS = 90_000;
const PHONE = { viewport: { width: 390, height: 844 } };
const WIDE = { viewport: { width: 1440, height: 900 } };
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

describe('the website in a browser', { skip: withoutChromium() }, () => {
  const out = mkdtempSync(join(tmpdir(), 'svc-site-'));
  const sockets = new Set<Socket>();
  let server: Server;
  let origin: string;
  before(async () => {
    await buildSite(root, out);
    server = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? '/', 'http://site');
      const file = join(out, normalize(pathname === '/' ? '/index.html' : pathname));
      try {
        response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
        response.end(readFileSync(file));
      } catch {
        response.writeHead(404).end();
      }
    });
    server.on('connection', (socket) => sockets.add(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    rmSync(out, { recursive: true, force: true });
  });

  /** A page of the site; `faults` collects what went wrong in it: messages, failed requests, ones to other origins. */
  async function open(path: string, options: BrowserContextOptions): Promise<{ page: Page; faults: string[] }> {
    const page = await (await (await sharedChromium()).newContext(options)).newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const faults: string[] = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) faults.push(message.text());
    });
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== origin) faults.push(`request to ${request.url()}`);
    });
    page.on('response', (response) => {
      if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
    });
    await page.goto(`${origin}/${path}`);
    return { page, faults };
  }
  const overflow = (page: Page) => page.evaluate('document.documentElement.scrollWidth - innerWidth');

  test('the start page says what it is: a sentence, a picture, the commands, and links to the documents', async () => {
    const { page, faults } = await open('', WIDE);
    await page.getByRole('heading', { level: 1, name: 'svc-gateway' }).waitFor();
    assert.equal(await page.locator('.hero code').first().textContent(), 'npm ci && npm start');
    const picture = page.locator('.hero img');
    assert.ok(
      (await picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth)) > 0,
      'the picture is not there',
    );
    const box = await picture.boundingBox();
    assert.ok(box && box.y + box.height <= WIDE.viewport.height, 'the picture is below the edge of the window');
    assert.ok((await page.locator('.gets li').count()) >= 4);
    await page.locator('.hero').getByRole('link', { name: 'First steps' }).click();
    await page.getByRole('heading', { level: 1, name: 'First steps' }).waitFor();
    assert.deepEqual(faults, []);
  });

  test('the search works by keyboard, and opens the section', async () => {
    const { page, faults } = await open('files.html', WIDE);
    await page.keyboard.press('/');
    const field = page.getByRole('combobox', { name: 'Search the documents' });
    await field.fill('quarantined');
    const first = page.getByRole('option').first();
    await first.waitFor();
    assert.equal(await first.getAttribute('aria-selected'), 'true');
    await field.fill('trustedProx');
    await page.getByRole('option').filter({ hasText: 'Configuration' }).first().waitFor();
    await field.fill('no such wörd anywhere');
    await page.getByRole('status').filter({ hasText: 'Nothing has all of' }).waitFor();
    await field.fill('svc rollback');
    const found = page.getByRole('option').filter({ has: page.getByText('svc rollback <app> [version]') });
    await found.waitFor();
    const wanted = await found.getAttribute('href');
    while ((await found.getAttribute('aria-selected')) !== 'true') await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${origin}/${wanted}`);
    assert.equal(wanted, 'cli.html#svc-rollback-app-version');
    assert.ok(await page.locator('[id="svc-rollback-app-version"]').isVisible());
    assert.deepEqual(faults, []);
  });

  test('on a phone all documents are behind one button, and the search behind another', async () => {
    const { page, faults } = await open('files.html', PHONE);
    const list = page.getByRole('navigation', { name: 'All documents' });
    assert.equal(await list.isVisible(), false);
    await page.getByRole('button', { name: 'All documents' }).click();
    assert.equal(await list.getByRole('link', { name: 'Files', exact: true }).getAttribute('aria-current'), 'page');
    await list.getByRole('link', { name: 'Automations', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Automations' }).waitFor();
    await page.getByText('On this page').first().click();
    await page.locator('.toc-short').getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.waitForURL(/#webhooks$/);
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('combobox').fill('cron');
    await page.getByRole('option').first().click();
    await page.getByRole('combobox').waitFor({ state: 'hidden' });
    await page.getByRole('link', { name: /^Next / }).click();
    assert.deepEqual(faults, []);
  });

  test('no page is wider than a phone or a window, and each has the list of documents beside it if there is room', async () => {
    for (const options of [PHONE, WIDE]) {
      const { page, faults } = await open('', options);
      const pages = await page
        .locator('.documents a')
        .evaluateAll((links) => links.map((link) => (link as unknown as { href: string }).href));
      assert.ok(pages.length > 20);
      assert.equal(await overflow(page), 0);
      for (const address of pages) {
        await page.goto(address);
        assert.ok(Number(await overflow(page)) <= 0, `${address} at ${options.viewport.width}`);
        const list = page.getByRole('navigation', { name: 'All documents' });
        assert.equal(await list.isVisible(), options === WIDE, address);
      }
      assert.deepEqual(faults, []);
    }
  });

  test('everybody can use it: axe-core finds nothing, light and wide, dark and on a phone', async () => {
    for (const options of [
      { ...WIDE, colorScheme: 'light' },
      { ...PHONE, colorScheme: 'dark' },
    ] as const) {
      const { page } = await open('', options);
      assert.deepEqual(await accessibilityFaults(page), [], `the first page, ${options.colorScheme}`);
      await page.getByRole('button', { name: 'Search' }).click();
      await page.getByRole('combobox').fill('backup');
      await page.getByRole('option').first().waitFor();
      assert.deepEqual(await accessibilityFaults(page), [], `the search, ${options.colorScheme}`);
      for (const path of ['live.html', 'performance.html']) {
        await page.goto(`${origin}/${path}`);
        assert.deepEqual(await accessibilityFaults(page), [], `${path} ${options.colorScheme}`);
      }
    }
  });
});
