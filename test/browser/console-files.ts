/** The console's Files of an app, driven in a browser: thousands of files, previews, uploads, downloads, deletion. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import { eventually } from '../../testing/edges.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const MANY = 10_000;
const MiB = 1024 * 1024;
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');
const shortName = (bytes: Buffer | string): string => sha256(bytes).slice(0, 16);

const SHOTS = appOf('shots', {
  manifest: { name: 'Shots' },
  queries: { list: { run: `({ db }) => db.all('SELECT * FROM shots')`, reads: ['shots'] } },
  migrations: [
    'CREATE TABLE shots (id INTEGER PRIMARY KEY, file TEXT, title TEXT); CREATE TABLE notes (text TEXT PRIMARY KEY) WITHOUT ROWID;',
  ],
});

export function filesSuite(gateway: TestGateway): void {
  describe('files of an app in the console', { skip: withoutChromium() }, () => {
    const shelf = (id: string, blobQuotaMb: number) => appOf(id, { manifest: { name: id, blobQuotaMb } });
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1120, height: 900 }, colorScheme: 'light' },
      { apps: { album: shelf('album', 1), shelf: shelf('shelf', 1024), shots: SHOTS } },
    );
    const { open } = suite;
    const assertLooks = async (page: Page) => {
      for (const [colorScheme, width] of [
        ['light', 1120],
        ['dark', 1120],
        ['light', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        await assertAccessible(page);
      }
      await page.setViewportSize({ width: 1120, height: 900 });
    };
    const row = (page: Page, bytes: Buffer | string) => page.getByRole('row').filter({ hasText: shortName(bytes) });
    const status = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text });
    const stored = async () => (await suite.gateway.call('GET', '/svc/album/_blobs')).json;

    test('files are uploaded, viewed, downloaded and deleted; one that does not fit is refused with a message', async () => {
      const page = await open('/apps/album/files');
      await page.getByText('The app keeps no files yet').waitFor();
      await page.getByText('ctx.blobs.put').waitFor();
      await assertLooks(page);

      const [chooser] = await Promise.all([
        page.waitForEvent('filechooser'),
        page.getByRole('button', { name: 'Upload…' }).click(),
      ]);
      const text = '<b>milk</b>\nwater';
      await chooser.setFiles([
        { name: 'pixel.png', mimeType: 'image/png', buffer: PIXEL },
        { name: 'film.mp4', mimeType: 'video/mp4', buffer: Buffer.alloc(MiB + 1) },
        { name: 'list.md', mimeType: '', buffer: Buffer.from(text) },
      ]);
      const uploads = page.getByRole('region', { name: 'Uploads' });
      await uploads.getByText('1 not stored').waitFor();
      await uploads
        .getByRole('alert')
        .filter({ hasText: /1 MiB do not fit: .* raise "blobQuotaMb"/ })
        .waitFor();
      await status(page, '2 files, ').waitFor();
      await row(page, PIXEL).getByText('image/png').waitFor();
      await row(page, text).getByText('text/markdown').waitFor();
      await assertLooks(page);
      await uploads.getByRole('button', { name: 'Done' }).click();

      await row(page, PIXEL)
        .getByRole('link', { name: shortName(PIXEL), exact: true })
        .click();
      const dialog = page.getByRole('dialog', { name: `File ${shortName(PIXEL)}` });
      const image = dialog.getByRole('img');
      await image.waitFor();
      await eventually(() => page.evaluate("document.querySelector('.file-shown')?.naturalWidth === 1"));
      await assertLooks(page);
      await page.keyboard.press('Escape');
      // The address changes after the dialog is closed.
      await page.waitForURL((url) => !url.hash.includes('file='));
      await openView(page, `/apps/album/files?file=${sha256(text)}`);
      await page.getByRole('region', { name: 'Text of the file' }).getByText('<b>milk</b>').waitFor();
      // Another view is chosen while a file is shown: closing the dialog does not lead back.
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /^Search apps/ }).waitFor();
      await page.keyboard.type('insights');
      await page.getByRole('option', { name: /^Insights/, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'System', level: 1 }).waitFor();
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
      assert.equal(new URL(page.url()).hash, '#/system/insights');
      await page.goBack();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('dialog').getByRole('link', { name: 'Download' }).click(),
      ]);
      assert.equal(download.suggestedFilename(), `${shortName(text)}.md`);
      assert.equal(readFileSync(await download.path(), 'utf8'), text);

      await page.getByRole('dialog').getByRole('button', { name: 'Delete…' }).click();
      const question = page.getByRole('dialog', { name: 'Delete this file?' });
      await question.getByRole('button', { name: 'Cancel' }).click();
      await question.waitFor({ state: 'detached' });
      assert.equal((await stored()).usage.files, 2);
      await page.keyboard.press('Escape');
      await row(page, text)
        .getByRole('button', { name: /^Delete/ })
        .click();
      await question.getByRole('button', { name: 'Delete file' }).click();
      await row(page, text).waitFor({ state: 'detached' });
      await status(page, '1 file, ').waitFor();
      assert.deepEqual(
        (await stored()).files.map((file: { sha256: string }) => file.sha256),
        [sha256(PIXEL)],
      );
      await openView(page, `/apps/album/files?file=${sha256(text)}`);
      await page.getByRole('alert').filter({ hasText: 'There is no such file' }).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a file is called as a row calls it, shows what uses it, and is deleted after a warning', async () => {
      const put = async (body: Buffer, type: string) =>
        (await gateway.call('PUT', '/svc/shots/_blobs', { body, headers: { 'content-type': type } })).json.sha256;
      const sql = (text: string, ...params: unknown[]) =>
        gateway.call('POST', '/svc/_apps/shots/sql', { body: { sql: text, params } });
      const [image, text] = [await put(PIXEL, 'image/png'), await put(Buffer.from('spoken of'), 'text/plain')];
      await sql('INSERT INTO shots (id, file, title) VALUES (7, ?, ?), (8, ?, NULL)', image, 'The pier', image);
      await sql('INSERT INTO notes (text) VALUES (?)', `See [it](_blobs/${text}).`);
      const page = await open('/apps/shots/files');
      const shown = page.getByRole('row').filter({ hasText: 'The pier' });
      await shown.getByRole('link', { name: 'shots 7' }).waitFor();
      await shown.getByText('and 1 more row').waitFor();
      assert.equal(await shown.getByRole('link', { name: 'Download' }).getAttribute('download'), 'The pier.png');
      await eventually(() => page.evaluate("document.querySelector('img.thumbnail')?.naturalWidth === 1"));
      await assertLooks(page);
      await shown.getByRole('link', { name: 'The pier', exact: true }).click();
      const dialog = page.getByRole('dialog', { name: 'File The pier' });
      await dialog.getByRole('link', { name: 'list', exact: true }).waitFor();
      await dialog.getByRole('link', { name: 'shots 8' }).click();
      await status(page, '2 rows').waitFor();
      await page.getByText('The pier').first().waitFor();

      await openView(page, '/apps/shots/files');
      await row(page, 'spoken of')
        .getByRole('button', { name: /^Delete/ })
        .click();
      const question = page.getByRole('dialog', { name: 'Delete this file?' });
      await question.getByRole('alert').getByRole('link', { name: 'notes' }).waitFor();
      await question.getByRole('button', { name: 'Delete all the same' }).click();
      await row(page, 'spoken of').waitFor({ state: 'detached' });
      assert.deepEqual(suite.complaints, []);
    });

    test('files are dropped on the view, and a refusal of the gateway is shown', async () => {
      const page = await open('/apps/album/files');
      await page.getByRole('button', { name: 'Upload…' }).waitFor();
      // Somebody else fills the quota meanwhile.
      await status(page, ' of 1 MiB').waitFor();
      const filler = Buffer.alloc(MiB - 2000, 1);
      const { status: filled } = await suite.gateway.call('PUT', '/svc/album/_blobs', { body: filler });
      assert.equal(filled, 201);
      const drop = (content: string, name: string) =>
        page.evaluate(`(() => {
          const data = new DataTransfer();
          data.items.add(new File([${content}], ${JSON.stringify(name)}, { type: 'text/plain' }));
          const view = document.querySelector('.files-view');
          for (const type of ['dragover', 'drop'])
            view.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
        })()`);
      await drop("'x'.repeat(3000)", 'long.txt');
      const uploads = page.getByRole('region', { name: 'Uploads' });
      await uploads.getByRole('alert').filter({ hasText: 'may have 1 MiB together' }).waitFor();
      await drop("'dropped'", 'short.txt');
      await uploads.getByText('All stored').waitFor();
      await row(page, 'dropped').waitFor();
      await uploads.getByRole('link', { name: 'Show short.txt' }).click();
      await page.getByRole('region', { name: 'Text of the file' }).getByText('dropped').waitFor();
      assert.equal((await suite.gateway.call('DELETE', `/svc/album/_blobs/${sha256(filler)}`)).status, 200);
    });

    test('ten thousand files are paged, sorted and found', async () => {
      const folder = join(suite.gateway.dataDir, 'apps/shelf/_blobs');
      mkdirSync(folder, { recursive: true });
      const text = (at: number) => `file ${at}`.padEnd(at === 7 ? 5000 : 20);
      for (let at = 0; at < MANY; at++) {
        const path = join(folder, sha256(text(at)));
        writeFileSync(path, text(at));
        utimesSync(path, 1000 + at, 1000 + at);
      }
      const page = await open('/apps/shelf/files');
      await status(page, '10,000 files').waitFor();
      await row(page, text(MANY - 1)).waitFor();
      assert.equal(await page.getByRole('row').count(), 101);
      await page.getByRole('link', { name: 'Next page' }).click();
      await row(page, text(MANY - 101)).waitFor();
      await page.getByText('Page 2').waitFor();
      await page.reload();
      await row(page, text(MANY - 101)).waitFor();
      await page.goBack();
      await row(page, text(MANY - 1)).waitFor();
      await page.getByLabel('Sort').selectOption('largest');
      await row(page, text(7)).waitFor();
      await assertLooks(page);
      await page.getByRole('searchbox').fill(sha256(text(42)).slice(0, 12).toUpperCase());
      await page.keyboard.press('Enter');
      await row(page, text(42)).waitFor();
      assert.equal(await page.getByRole('row').count(), 2);
      assert.deepEqual(suite.complaints, []);
    });
  });
}
