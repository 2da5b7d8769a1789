/** The page of every template in a host of MCP Apps: it reads, it writes, and it shows what others write. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { root } from '../../testing/gateway.ts';
import { McpAppHost } from '../../testing/mcp-app-host.ts';
import { eventually } from '../../testing/waiting.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';
import { installTemplate, PATIENCE_MS, type TemplateApp } from './template-app.ts';
import { dayAgo } from './template-calls.ts';
import { BLANK, FORMS, type Form } from './template-forms.ts';

/** What Chromium says of frames, whatever is in them. */
const isOfFrames = (complaint: string) => /can escape its sandboxing|Blocked autofocusing/.test(complaint);

async function sql(app: TemplateApp, statement: string): Promise<void> {
  const { status, text } = await app.gateway.call('POST', `/svc/_apps/${app.id}/sql`, { body: { sql: statement } });
  assert.equal(status, 200, text);
}

async function addPhoto(app: TemplateApp, name: string): Promise<unknown> {
  const body = Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><title>${name}</title></svg>`,
  );
  const headers = { 'content-type': 'image/svg+xml' };
  const { sha256 } = (await app.gateway.call('PUT', `/svc/${app.id}/_blobs`, { body, headers })).json;
  return await app.write('add', { file: sha256, name });
}

const addItem = (app: TemplateApp, title: string) =>
  sql(
    app,
    `INSERT INTO items (feed, guid, title, summary, published_at) VALUES (1, '${title}', '${title}', 'Now.', 1)`,
  );

/** The templates without such a form. */
const OTHERS: Form[] = [
  {
    id: 'journal',
    fill: (page, text) => page.getByLabel('Entry').fill(text),
    send: (page) => page.getByText('Saved', { exact: true }).waitFor(),
    field: (page) => page.getByLabel('Entry'),
    row: (page, text) => page.locator('#recent').getByText(text),
    count: async (app, text) => ((await app.read('entry', { day: dayAgo() })).text === text ? 1 : 0),
    add: (app, text) => app.write('save', { day: dayAgo(1), text }),
  },
  {
    id: 'gallery',
    prepare: (app) => addPhoto(app, 'first.svg'),
    fill: async (page, text) => {
      await page.locator('img[src^="data:image/svg"]').waitFor();
      await page.getByRole('button', { name: 'first.svg' }).click();
      await page.getByPlaceholder('Add a caption').fill(text);
    },
    send: async (page) => {
      await page.getByRole('button', { name: 'Save caption' }).click();
      await page.getByRole('button', { name: 'Close' }).click();
    },
    field: (page) => page.getByPlaceholder('Add a caption'),
    row: (page, text) => page.locator('#photos').getByRole('button', { name: text }),
    count: async (app, text) => ((await app.read('list', { limit: 5 })).photos[0].caption === text ? 1 : 0),
    add: addPhoto,
  },
  {
    id: 'feeds',
    prepare: async (app) => {
      await sql(app, "INSERT INTO feeds (url, title, added_at) VALUES ('https://127.0.0.1:1/', 'Garden', 1)");
      await addItem(app, 'milk');
    },
    fill: (page, text) => page.locator('li.item').getByText(text).waitFor(),
    send: (page) => page.getByRole('button', { name: 'Star', exact: true }).click(),
    field: (page) => page.locator('#url'),
    row: (page, text) => page.locator('li.item').getByText(text),
    count: async (app) => (await app.read('items', { show: 'starred' })).items.length,
    add: addItem,
  },
];

describe('templates in a host of MCP Apps', { skip: withoutChromium() }, () => {
  const forms = [...FORMS, ...OTHERS, BLANK];

  test('every template is here', () => {
    assert.deepEqual(forms.map(({ id }) => id).sort(), readdirSync(join(root, 'dist/templates')).sort());
  });

  for (const { id, prepare, fill, send, row, count, add } of forms) {
    test(id, async (t) => {
      const app = await installTemplate(id);
      await prepare?.(app);
      const host = await McpAppHost.open(await sharedChromium(), app.gateway, `/svc/${app.id}/_mcp`);
      t.after(() => host.close());
      host.page.setDefaultTimeout(PATIENCE_MS);
      const page = await host.show(`open_${app.id}`, {}, { theme: 'dark' });
      await fill(page, 'milk');
      await send(page);
      await row(page, 'milk').first().waitFor();
      // Some pages show it before it is stored.
      assert.ok(await eventually(PATIENCE_MS, async () => (await count(app, 'milk')) === 1));
      if (add !== undefined) {
        await add(app, 'bread');
        await host.page.evaluate('bridge.sendToolResult({ content: [] })');
        await row(page, 'bread').first().waitFor();
      }
      assert.equal(await page.evaluate('getComputedStyle(document.documentElement).colorScheme'), 'dark');
      assert.deepEqual(
        host.complaints.filter((complaint) => !isOfFrames(complaint)),
        [],
      );
    });
  }
});
