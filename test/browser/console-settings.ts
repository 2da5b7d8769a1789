/** The console's Settings of an app, driven in a browser: knobs, secrets, tokens for programs, restart and removal. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import { eventually } from '../../testing/edges.ts';
import { root, type StoreKind, type TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const PEM = '-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----';

const BAKERY = appOf('bakery', {
  queries: { check: `async ({ input, ctx }) => (await ctx.secrets.get(input.name)) === input.expected` },
  manifest: {
    name: 'Bakery',
    knobs: [
      {
        key: 'theme',
        label: 'Theme',
        type: 'segmented',
        default: 'auto',
        options: [
          { value: 'auto', label: 'Auto' },
          { value: 'dark', label: 'Dark' },
        ],
      },
      {
        key: 'appAccent',
        label: 'Accent',
        type: 'swatch',
        default: '#c2410c',
        options: [
          { value: '#c2410c', label: 'Rust' },
          { value: '#0f766e', label: 'Teal' },
        ],
      },
    ],
  },
  files: { 'index.html': '<!doctype html><title>Bakery</title><h1>Bakery</h1>' },
});

const STOCK = appOf('stock', {
  manifest: { name: 'Stock' },
  migrations: ['CREATE TABLE goods (name TEXT NOT NULL)'],
  queries: { list: '({ db }) => db.all("SELECT name FROM goods")' },
  actions: { add: { run: '({ db, input }) => db.run("INSERT INTO goods VALUES (?)", input.name)', writes: ['goods'] } },
  automations: {
    count: { run: 'async () => ({})', triggers: [{ kind: 'cron', expr: '0 7 * * *' }] },
    take: { run: 'async () => ({})', triggers: [{ kind: 'webhook', pending: true }] },
  },
  files: { 'index.html': '<!doctype html><title>Stock</title><h1>Stock</h1>' },
});

const WINDOW: BrowserContextOptions = {
  viewport: { width: 1120, height: 900 },
  colorScheme: 'light',
  permissions: ['clipboard-read', 'clipboard-write'],
};

export function settingsSuite(gateway: TestGateway): void {
  describe('settings of an app in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, WINDOW, { apps: { bakery: BAKERY, stock: STOCK } });
    const open = (view = '/apps/bakery/settings') => suite.open(view);
    const secretRow = (page: Page, name: string) =>
      page.getByRole('list', { name: 'Secrets' }).getByRole('listitem').filter({ hasText: name });
    const setSecret = async (page: Page, name: string, value: string) => {
      const form = page.locator('.secret-form');
      await form.getByLabel('Name').fill(name);
      await form.getByLabel('Value').fill(value);
      await form.getByRole('button').click();
    };
    const matches = async (name: string, expected: string) =>
      (await suite.gateway.read('bakery', 'check', { name, expected })).json.data;
    const settings = async () => (await suite.gateway.call('GET', '/svc/_apps/bakery/settings')).json.settings;

    test('a secret is set, replaced and removed; its value is not shown and not left in the page', async () => {
      const page = await open();
      await page.getByText('No secrets yet.').waitFor();
      const value = page.locator('.secret-value');
      const shownAs = "getComputedStyle(document.querySelector('.secret-value')).webkitTextSecurity";
      assert.equal(await page.evaluate(shownAs), 'disc');
      await value.fill('typed, then left');
      await openView(page, '/apps/bakery');
      await value.waitFor({ state: 'detached' });
      await openView(page, '/apps/bakery/settings');
      assert.equal(await value.inputValue(), '');

      await setSecret(page, 'TLS_KEY', PEM);
      await page.getByText('TLS_KEY is set').waitFor();
      await secretRow(page, 'TLS_KEY').getByText('set just now').waitFor();
      assert.equal(await matches('TLS_KEY', PEM), true, 'with its lines');
      assert.equal(await value.inputValue(), '');
      assert.doesNotMatch(await page.content(), /MIIEvQ/);

      await page.getByRole('button', { name: 'Replace TLS_KEY' }).click();
      await page.keyboard.type('another value');
      await page.getByRole('button', { name: 'Replace secret' }).click();
      await page.getByText('TLS_KEY is set').waitFor();
      assert.equal(await matches('TLS_KEY', 'another value'), true);

      await page.getByRole('button', { name: 'Remove TLS_KEY' }).click();
      const question = page.getByRole('dialog', { name: 'Remove TLS_KEY?' });
      await question.getByRole('button', { name: 'Cancel' }).click();
      await question.waitFor({ state: 'detached' });
      assert.equal(await matches('TLS_KEY', 'another value'), true);
      await page.getByRole('button', { name: 'Remove TLS_KEY' }).click();
      await question.getByRole('button', { name: 'Remove secret' }).click();
      await page.getByText('No secrets yet.').waitFor();
      assert.deepEqual((await suite.gateway.call('GET', '/svc/_apps/bakery/secrets')).json, []);
      assert.deepEqual(suite.complaints, []);
    });

    test('a secret that is refused says why, and what was typed stays', async () => {
      const page = await open();
      await setSecret(page, 'LARGE', 'x'.repeat(64 * 1024 + 1));
      await page.getByRole('alert').filter({ hasText: 'at most 65536 bytes' }).waitFor();
      assert.equal(await page.locator('.secret-form').getByLabel('Name').inputValue(), 'LARGE');
      assert.deepEqual((await suite.gateway.call('GET', '/svc/_apps/bakery/secrets')).json, []);
    });

    test('knobs are chosen with the keyboard, and go back to their default', async () => {
      const page = await open();
      const theme = page.getByRole('group', { name: 'Theme' });
      await theme.getByRole('radio', { name: 'Auto' }).focus();
      await page.keyboard.press('ArrowRight');
      await page.getByText('Saved.').waitFor();
      assert.deepEqual(await settings(), { theme: 'dark' });
      await page.getByRole('group', { name: 'Accent' }).getByText('Teal').click();
      await page.getByRole('button', { name: 'Use default of Accent' }).waitFor();
      await page.getByRole('button', { name: 'Use default of Theme' }).click();
      await theme.getByText('as by default').waitFor();
      await eventually(async () => isDeepStrictEqual(await settings(), { appAccent: '#0f766e' }));
      assert.deepEqual(suite.complaints, []);
    });

    test('an app is duplicated with its data, and called, drawn and opened to visitors in another way', async () => {
      const { gateway } = suite;
      await gateway.write('stock', 'add', { name: 'flour' });
      const photo = { body: Buffer.from('a photo'), headers: { 'content-type': 'image/png' } };
      const { sha256 } = (await gateway.call('PUT', '/svc/stock/_blobs', photo)).json;
      const page = await open('/apps/stock/settings');
      await page.getByRole('button', { name: 'Duplicate…' }).click();
      const dialog = page.getByRole('dialog', { name: 'Duplicate Stock' });
      assert.equal(await dialog.getByLabel('Name').inputValue(), 'Stock 2');
      await dialog.getByLabel(/^Id/).fill('stock');
      await dialog.getByRole('button', { name: 'Duplicate' }).click();
      await dialog.getByRole('alert').filter({ hasText: 'already exists' }).waitFor();
      await dialog.getByLabel(/^Id/).fill('second');
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Duplicate' }).click();
      await page.getByRole('heading', { name: 'Stock 2', level: 1 }).waitFor();
      await page.getByRole('region', { name: 'Keep the secret now' }).waitFor();
      assert.deepEqual((await gateway.read('second', 'list')).json.data, [{ name: 'flour' }]);
      assert.equal((await gateway.call('GET', `/svc/second/_blobs/${sha256}`)).text, 'a photo');
      const { rows } = (await gateway.call('GET', '/svc/_automations?app=second')).json;
      assert.deepEqual(
        rows.map(({ id, enabled }: { id: string; enabled: boolean }) => [id, enabled]),
        [
          ['count', false],
          ['take', false],
        ],
      );
      await gateway.call('POST', '/svc/_automations/second/count/enabled', { body: { enabled: true } });
      await gateway.write('second', 'add', { name: 'salt' });
      assert.deepEqual((await gateway.read('stock', 'list')).json.data, [{ name: 'flour' }], 'its data is its own');

      await openView(page, '/apps/second/settings');
      const general = page.getByRole('region', { name: 'General' });
      await general.getByLabel('Name').fill('Salt cellar');
      await general.getByLabel(/^Icon/).setInputFiles(join(root, 'console/previews/preview-todos.png'));
      await general.locator('img[src^="data:image/svg"]').waitFor();
      await general.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('heading', { name: 'Salt cellar', level: 1 }).waitFor();
      await page.locator('.app-head img').evaluate((image: { decode(): Promise<void> }) => image.decode());
      const versions = async () => (await gateway.call('GET', '/svc/_apps/second/versions')).json.length;
      assert.equal(await versions(), 2);
      const count = async () => (await gateway.call('GET', '/svc/_automations/second/count')).json;
      assert.equal((await count()).enabled, true, 'a switch stays as it was set');
      const visitors = page.getByRole('region', { name: 'Visitors' });
      await visitors.getByText('Nobody may use this app').waitFor();
      const asked = { token: null, body: { app: 'second', query: 'list' } };
      assert.equal((await gateway.call('POST', '/svc/_tool/svc_read', asked)).status, 401);
      await visitors.getByLabel('query list').check();
      await visitors.getByRole('button', { name: 'Save visitors' }).click();
      await eventually(async () => (await gateway.call('POST', '/svc/_tool/svc_read', asked)).status === 200);
      assert.equal(await versions(), 3);
      assert.deepEqual((await gateway.read('second', 'list')).json.data, [{ name: 'flour' }, { name: 'salt' }]);
      assert.deepEqual(
        suite.complaints.filter((text) => !/409 \(Conflict\)/.test(text)),
        [],
      );
      await gateway.call('DELETE', '/svc/_apps/second?purge=1');
    });

    test('a token is made for the app, shown once, and revoked', async () => {
      const page = await open();
      await page.getByText('No program has a token for this app').waitFor();
      await page.getByRole('button', { name: 'New token' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('zapier');
      await page.getByRole('button', { name: 'Make token' }).click();
      const made = page.getByRole('dialog', { name: 'Token for zapier' });
      const token = (await made.locator('.token-text').textContent()) as string;
      await made.getByRole('button', { name: 'Copy token' }).click();
      await made.getByRole('button', { name: 'Copied' }).waitFor();
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), token);
      await made.getByRole('button', { name: 'Close' }).click();
      // A closed dialog has no role, but it is still in the page for a moment.
      await page.locator('.token-text').waitFor({ state: 'detached' });
      assert.doesNotMatch(await page.content(), /svct_/);

      const input = { name: 'NONE', expected: '' };
      const used = () =>
        suite.gateway.call('POST', '/svc/_tool/svc_read', { token, body: { app: 'bakery', query: 'check', input } });
      assert.equal((await used()).status, 500, 'the handler was called');
      const row = page.getByRole('row').filter({ hasText: 'zapier' });
      await row.getByText('read').waitFor();
      await row.getByText('in 89 days').waitFor();
      await row.getByRole('button', { name: 'Revoke zapier' }).click();
      await page.getByRole('button', { name: 'Revoke token' }).click();
      await row.waitFor({ state: 'detached' });
      assert.equal((await used()).status, 401);
    });

    test('everything is reachable in light, in dark and on a phone', async () => {
      await suite.gateway.call('PUT', '/svc/_apps/bakery/secrets/LIVE', { body: { value: 'that of live' } });
      const page = await open();
      await secretRow(page, 'LIVE').waitFor();
      await page.getByRole('group', { name: 'Theme' }).waitFor();
      await assertAccessible(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Remove…' }).click();
      await page.getByRole('dialog', { name: 'Remove Bakery?' }).waitFor();
      await assertAccessible(page);
    });
  });
}

/** What is said depends on the store. */
export function removalSuite(gateway: TestGateway, store: StoreKind): void {
  describe(`the end of an app in the console, ${store} store`, { skip: withoutChromium() }, () => {
    const apps = {
      gone: appOf('gone', { queries: { one: '() => 1' } }),
      kept: appOf('kept', { manifest: { name: 'Kept' } }),
    };
    const suite = consoleSuite(gateway, WINDOW, { apps });

    test('an app is restarted and removed, after a description of what will happen', async () => {
      const page = await suite.open('/apps/gone/settings');
      await page.getByRole('button', { name: 'Restart', exact: true }).click();
      await page.getByText('gone is restarted').waitFor();
      await page.getByRole('button', { name: 'Remove…' }).click();
      const question = page.getByRole('dialog');
      await question.getByText('svc trash restore gone').waitFor();
      await question.getByText(store === 'git' ? 'stays in the history' : 'versions go to the trash').waitFor();
      await question.getByLabel('Delete it for good').check();
      await question.getByText('Only a backup can bring it back').waitFor();
      await question.getByRole('button', { name: /^Remove / }).click();
      await page.waitForURL(/#\/$/);
      assert.equal((await suite.gateway.call('GET', '/svc/_apps/gone')).status, 404);
      await page.getByRole('link', { name: 'Kept', exact: true }).waitFor();
      await page.getByRole('link', { name: 'gone', exact: true }).waitFor({ state: 'detached' });
    });
  });
}
