/** The console's Tools of an app, driven in a browser: forms made from schemas, results, errors at their fields, history, copies. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const SHAPES = {
  type: 'object',
  required: ['title', 'count', 'urgent', 'who'],
  additionalProperties: false,
  $defs: {
    line: { type: 'object', required: ['sku'], properties: { sku: { type: 'string' }, pieces: { type: 'integer' } } },
  },
  properties: {
    title: { type: 'string', minLength: 2, description: 'What it is called' },
    body: { type: 'string' },
    count: { type: 'integer', minimum: 1 },
    urgent: { type: 'boolean' },
    colour: { enum: ['red', 'green'] },
    due: { type: 'string', format: 'date' },
    tags: { type: 'array', items: { type: 'string' } },
    lines: { type: 'array', items: { $ref: '#/$defs/line' } },
    where: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
    who: {
      oneOf: [
        { title: 'A person', type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
        { title: 'Nobody', type: 'null' },
      ],
    },
  },
};

const SHOP = appOf('shop', {
  queries: {
    rows: { run: '({ db }) => db.all("SELECT id, title FROM orders ORDER BY id")', description: 'All orders' },
    echo: { run: '({ input }) => input', input: SHAPES, description: 'Answers what it gets' },
    broken: '() => { throw new Error("The till is empty"); }',
    free: '({ input }) => input',
  },
  actions: {
    add: {
      run: `async ({ db, input }) => { await db.run('INSERT INTO orders (title) VALUES (?)', input.title); return { status: 201, body: 'stored' }; }`,
      input: { type: 'object', required: ['title'], properties: { title: { type: 'string', minLength: 2 } } },
      writes: ['orders'],
    },
    clear: { run: `async ({ db }) => { await db.run('DELETE FROM orders'); return null; }`, confirmation: 'required' },
  } as never,
  migrations: ['CREATE TABLE orders (id INTEGER PRIMARY KEY, title TEXT)'],
  manifest: { name: 'Shop' },
});

const WINDOW = { viewport: { width: 1120, height: 900 } };
const result = (page: Page) => page.getByRole('region', { name: 'Result' });

export function toolsSuite(gateway: TestGateway): void {
  describe('tools of an app in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1120, height: 900 } },
      { apps: { shop: SHOP }, reloads: true },
    );
    const { open } = suite;

    test('the list shows all tools, and an address shows one', async () => {
      const page = await open('/apps/shop/tools');
      const list = page.getByRole('navigation', { name: 'Tools' });
      await list.getByText('Answers what it gets').waitFor();
      assert.deepEqual(await list.locator('b').allTextContents(), ['rows', 'echo', 'broken', 'free', 'add', 'clear']);
      await list.getByRole('link', { name: 'add' }).click();
      await page.waitForURL(/tools\?action=add$/);
      await page.getByText('action: writes orders').waitFor();
      await openView(page, '/apps/shop/tools?query=none');
      await page.getByText('The app has no such tool').waitFor();
    });

    test('each kind of schema has its field, and the input has the filled-in values', async () => {
      const page = await open('/apps/shop/tools?query=echo');
      const form = page.locator('.tool-form');
      await form.getByText('What it is called').waitFor();
      await form.getByLabel('title', { exact: true }).fill('It\'s "new"');
      await form.getByLabel('count').fill('3');
      await form.getByLabel('urgent').check();
      await form.getByLabel('colour').selectOption({ label: 'green' });
      await form.getByLabel('due').fill('2026-03-04');
      await form.getByRole('button', { name: 'Add to tags' }).click();
      await form.getByRole('group', { name: 'tags' }).getByRole('textbox').fill('a');
      await form.getByRole('button', { name: 'Add to lines' }).click();
      await form.getByLabel('sku').fill('X-1');
      await form.getByLabel('pieces').fill('2');
      await form.getByRole('button', { name: 'Add where' }).click();
      await form.getByLabel('city').fill('Oslo');
      await form.getByLabel('name', { exact: true }).fill('Ada');
      await page.keyboard.press('Control+Enter');
      await result(page).getByText('Status 200').waitFor();
      const expected = {
        title: 'It\'s "new"',
        count: 3,
        urgent: true,
        colour: 'green',
        due: '2026-03-04',
        tags: ['a'],
        lines: [{ sku: 'X-1', pieces: 2 }],
        where: { city: 'Oslo' },
        who: { name: 'Ada' },
      };
      const answered = async () => JSON.parse((await result(page).locator('pre').textContent()) as string);
      assert.deepEqual(await answered(), expected);

      await form.getByLabel('Kind of who').selectOption({ label: 'Nobody' });
      await form.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByText('"who": null').waitFor();
      assert.deepEqual(await answered(), { ...expected, who: null });

      await form.getByRole('button', { name: 'Edit as JSON' }).click();
      await form.getByLabel('Input as JSON').fill('{"title": ');
      await form.getByText('This is no JSON yet').waitFor();
      await form.getByLabel('Input as JSON').fill('{"title": "JSON", "count": 1, "urgent": false, "who": null}');
      await form.getByRole('button', { name: 'Edit as form' }).click();
      assert.equal(await form.getByLabel('title', { exact: true }).inputValue(), 'JSON');
      assert.deepEqual(suite.complaints, []);
    });

    test('a refusal of the gateway shows at the field, and typed text stays', async () => {
      const page = await open('/apps/shop/tools?query=echo');
      const form = page.locator('.tool-form');
      await form.getByLabel('title', { exact: true }).fill('x');
      await form.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByText('INVALID_INPUT (400)').waitFor();
      const title = form.getByLabel('title', { exact: true });
      assert.equal(await title.getAttribute('aria-invalid'), 'true');
      assert.equal(await title.inputValue(), 'x');
      assert.equal(await form.getByText('This is required.').count(), 2, 'count, and the name of who');

      // Incomplete JSON is not run in its last valid form, and it is there again after another tool.
      const before = (await suite.gateway.read('shop', 'rows')).json.data;
      await openView(page, '/apps/shop/tools?action=add');
      await form.getByLabel('title').fill('Typed');
      await openView(page, '/apps/shop/tools?query=rows');
      await form.getByRole('button', { name: 'Run query' }).waitFor();
      await page.goBack();
      await form.getByRole('button', { name: 'Run action' }).waitFor();
      assert.equal(await form.getByLabel('title').inputValue(), 'Typed');
      await form.getByRole('button', { name: 'Edit as JSON' }).click();
      await form.getByLabel('Input as JSON').fill('{ "title": "Cut off"');
      await form.getByLabel('Input as JSON').press('Control+Enter');
      await form.getByRole('button', { name: 'Run action' }).click();
      await form.getByLabel('Input as JSON').and(page.locator(':focus')).waitFor();
      await form.getByRole('alert').filter({ hasText: 'This is no JSON yet' }).waitFor();
      assert.deepEqual((await suite.gateway.read('shop', 'rows')).json.data, before);

      await openView(page, '/apps/shop/tools?query=broken');
      await form.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByText('HANDLER_ERROR (500)').waitFor();
      await result(page).getByText('The till is empty').waitFor();
    });

    test('an action writes, a query shows its rows, and both can be run again', async () => {
      const page = await open('/apps/shop/tools?action=add');
      const form = page.locator('.tool-form');
      await form.getByLabel('title').fill('Milk');
      await form.getByRole('button', { name: 'Run action' }).click();
      await result(page).getByText('Status 201').waitFor();
      await openView(page, '/apps/shop/tools?query=rows');
      await form.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByRole('cell', { name: 'Milk' }).waitFor();
      await result(page).getByText('1 row').waitFor();
      await result(page).getByRole('button', { name: 'As JSON' }).click();
      await result(page).getByText('"title": "Milk"').waitFor();
      await page.getByRole('button', { name: 'Run again' }).click();
      await result(page).getByText('from kept results').waitFor();

      await openView(page, '/apps/shop/tools?action=add');
      await page.getByRole('button', { name: 'Run again' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Run add' }).click();
      await result(page).getByText('Status 201').waitFor();
      assert.equal((await suite.gateway.read('shop', 'rows')).json.data.length, 2);

      await openView(page, '/apps/shop/tools?action=clear');
      await form.getByRole('button', { name: 'Run action' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      assert.equal((await suite.gateway.read('shop', 'rows')).json.data.length, 2);
      await form.getByRole('button', { name: 'Run action' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Run clear' }).click();
      await result(page).getByText('Status 200').waitFor();
      assert.deepEqual((await suite.gateway.read('shop', 'rows')).json.data, []);
    });

    test('a call is copied for a shell, with its quotes and without the token', async () => {
      const page = await open('/apps/shop/tools?query=free');
      const title = `It's "$HOME" \`id\` \\ ünï`;
      await page.getByLabel('Input as JSON').fill(JSON.stringify({ title }));
      const copied = async (format: string) => {
        await page.getByLabel('Copy as').selectOption({ label: format });
        return (await page.locator('.copied pre').textContent()) as string;
      };
      const curl = await copied('curl');
      assert.ok(curl.includes('$(svc token)') && !curl.includes(suite.gateway.token), curl);
      const shell = (text: string) =>
        execFileSync('sh', ['-c', `svc() { echo "$TOKEN"; }\n${text}`], {
          env: { ...process.env, TOKEN: suite.gateway.token },
          encoding: 'utf8',
        });
      assert.deepEqual(JSON.parse(shell(curl)), { isError: false, data: { title } });
      const command = await copied('svc');
      const printed = execFileSync('sh', ['-c', `svc() { printf '%s\\n' "$@"; }\n${command}`], { encoding: 'utf8' });
      assert.deepEqual(printed.trim().split('\n'), ['read', 'shop', 'free', JSON.stringify({ title })]);
      const { method, params } = JSON.parse(await copied('MCP'));
      assert.deepEqual([method, params], ['tools/call', { name: 'free', arguments: { title } }]);
    });

    test('everything is reachable in light, in dark and on a phone', async () => {
      const page = await open('/apps/shop/tools?query=echo');
      const form = page.locator('.tool-form');
      await form.getByRole('button', { name: 'Add to lines' }).click();
      await form.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByText('INVALID_INPUT').waitFor();
      await page.getByLabel('Copy as').selectOption({ label: 'curl' });
      await assertAccessible(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await assertAccessible(page);
    });
  });
}

/** The gateway has one address for all apps. */
export function sharedToolsSuite(gateway: TestGateway): void {
  describe('tools of an app in the console at an address that all apps share', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, WINDOW, { apps: { shop: SHOP } });

    test('the tools can be called, and nothing can be administered', async () => {
      const page = await suite.open('/');
      const asked: string[] = [];
      page.on('request', (request) => asked.push(new URL(request.url()).pathname));
      await page.getByRole('link', { name: 'Tools of Shop' }).click();
      const views = page.getByRole('navigation', { name: 'Views of Shop' });
      await views.getByRole('link', { name: 'Tools' }).and(page.locator('[aria-current=page]')).waitFor();
      assert.deepEqual(await views.getByRole('link').allTextContents(), ['Tools', 'Chat']);
      await page.getByRole('navigation', { name: 'Tools' }).getByRole('link', { name: 'add' }).click();
      await page.locator('.tool-form').getByLabel('title').fill('Bread');
      await page.getByRole('button', { name: 'Run action' }).click();
      await result(page).getByText('stored').waitFor();
      await openView(page, '/apps/shop/tools?query=rows');
      await page.getByRole('button', { name: 'Run query' }).click();
      await result(page).getByText('Bread').first().waitFor();
      await assertAccessible(page);
      // It sends no request that it may not send.
      assert.deepEqual(
        asked.filter((path) => /^\/svc\/_(?!tool\/|console\/|session$)/.test(path)),
        [],
      );
      await openView(page, '/apps/shop/settings');
      await page.getByText('The app has no such view').waitFor();
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /^Search apps/ }).fill('shop');
      await page.getByRole('option', { name: 'Shop: Tools' }).waitFor();
      assert.equal(await page.getByRole('option', { name: /Restart|Data|Settings/ }).count(), 0);
    });
  });
}
