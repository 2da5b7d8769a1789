/** The template `gallery` as a person uses it: photos dropped, pasted and chosen, seen in two windows; and its tools. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { callEveryTool, openTemplate } from '../template-app.ts';

/** A PNG of one colour. */
function png(width: number, height: number, [red, green, blue]: [number, number, number]): Buffer {
  const row = Buffer.concat([Buffer.of(0), Buffer.alloc(width * 3, Buffer.of(red, green, blue))]);
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(data.length);
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([head, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: height }, () => row)));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))]);
}

const choose = (page: Page, ...files: [name: string, buffer: Buffer, mimeType?: string][]): Promise<void> =>
  page
    .getByLabel('Add photos')
    .setInputFiles(files.map(([name, buffer, mimeType = 'image/png']) => ({ name, buffer, mimeType })));

/** Drops a file on the page, or pastes it. */
const bring = (page: Page, how: 'drop' | 'paste', name: string, bytes: Buffer): Promise<void> =>
  page.evaluate(
    `(() => {
      const transfer = new DataTransfer();
      const bytes = Uint8Array.from(atob('${bytes.toString('base64')}'), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([bytes], '${name}', { type: 'image/png' }));
      if ('${how}' === 'paste') return void document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true }));
      for (const type of ['dragenter', 'dragover', 'drop']) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    })()`,
  );

const photo = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
/** Whether its picture is loaded, and how wide it is. */
const widthOf = (page: Page, name: string): Promise<number> =>
  photo(page, name)
    .locator('img')
    .evaluate(async (image) => {
      const { complete, naturalWidth } = image as unknown as { complete: boolean; naturalWidth: number };
      if (!complete) await new Promise((resolve) => image.addEventListener('load', resolve, { once: true }));
      return naturalWidth || (image as unknown as { naturalWidth: number }).naturalWidth;
    });

export function suite(): void {
  test('photos are dropped, pasted, chosen, captioned and removed, in two windows', async (t) => {
    const app = await openTemplate(t, 'gallery');
    const [here, there] = [await app.window(), await app.window()];
    await here.getByText('No photos yet.').waitFor();
    await app.picture(here, 'empty');

    const sea = png(1600, 1200, [40, 110, 180]);
    await bring(here, 'drop', 'sea.png', sea);
    await photo(there, 'sea.png').waitFor();
    await bring(here, 'paste', 'dune.png', png(900, 1400, [210, 180, 120]));
    await photo(there, 'dune.png').waitFor();
    await choose(here, ['dot.png', png(20, 20, [200, 40, 40])], ['sea again.png', sea]);
    await photo(there, 'dot.png').waitFor();
    await here.locator('#uploads').waitFor({ state: 'hidden' });
    await here.getByText('3 photos').waitFor();

    const { photos } = await app.read('list');
    const stored = photos.find(({ name }: { name: string }) => name === 'sea.png');
    assert.deepEqual([stored.width, stored.height, stored.size], [1600, 1200, sea.length]);
    const thumbnail = await app.gateway.call('GET', `/svc/${app.id}/_blobs/${stored.thumbnail}`);
    assert.equal(thumbnail.headers['content-type'], 'image/webp');
    assert.equal(await widthOf(there, 'sea.png'), 640);
    const dot = photos.find(({ name }: { name: string }) => name === 'dot.png');
    assert.equal(dot.thumbnail, dot.file);
    await app.picture(here, 'photos');

    await photo(here, 'sea.png').click();
    await here.getByPlaceholder('Add a caption').fill('The sea at noon');
    await here.keyboard.press('Enter');
    await photo(there, 'The sea at noon').waitFor();
    await here.getByRole('status').filter({ hasText: 'The caption was saved.' }).waitFor();
    await app.picture(here, 'viewer');
    await here.getByRole('button', { name: 'Close' }).focus();
    await here.keyboard.press('ArrowLeft');
    await here.locator('#viewer').getByText('dune.png').waitFor();
    await here.getByPlaceholder('Add a caption').fill('Sand');
    await here.getByRole('button', { name: 'Newer' }).click();
    await photo(there, 'Sand').waitFor();
    await here.getByRole('button', { name: 'Older' }).click();
    await here.getByPlaceholder('Add a caption').fill('A dune');
    await here.keyboard.press('Escape');
    await photo(there, 'A dune').waitFor();
    await photo(here, 'A dune').click();
    const download = here.waitForEvent('download');
    await here.getByRole('link', { name: 'Download' }).click();
    assert.equal((await download).suggestedFilename(), 'dune.png');
    await here.getByRole('button', { name: 'Remove' }).click();
    await here.locator('#confirm').getByRole('button', { name: 'Remove' }).click();
    await photo(there, 'A dune').waitFor({ state: 'detached' });
    await here.locator('#viewer').waitFor({ state: 'hidden' });
    const dune = photos.find(({ name }: { name: string }) => name === 'dune.png');
    for (const file of [dune.file, dune.thumbnail])
      assert.equal((await app.gateway.call('GET', `/svc/${app.id}/_blobs/${file}`)).status, 404);
    assert.deepEqual(app.complaints, []);
  });

  test('an upload that fails can be tried again, and a file that is not a photo is refused', async (t) => {
    const app = await openTemplate(t, 'gallery');
    const page = await app.window();
    await page.route('**/_blobs', (route) => route.abort());
    await choose(page, ['sea.png', png(30, 20, [40, 110, 180])]);
    await page.getByText('The server did not answer.').waitFor();
    assert.equal((await app.read('list')).total, 0);
    await page.unroute('**/_blobs');
    await page.getByRole('button', { name: 'Try again' }).click();
    await photo(page, 'sea.png').waitFor();
    await page.locator('#uploads').waitFor({ state: 'hidden' });

    app.complaints.length = 0;
    await choose(page, ['notes.txt', Buffer.from('no image'), 'text/plain'], ['broken.png', Buffer.from('no image')]);
    await page.getByText('“notes.txt” is no image.').waitFor();
    await page.getByText('This browser cannot show “broken.png”.').waitFor();
    for (const name of ['notes.txt', 'broken.png'])
      await page.locator('.upload', { hasText: name }).getByRole('button', { name: 'Dismiss' }).click();
    await page.locator('#uploads').waitFor({ state: 'hidden' });

    const svg =
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.hacked = document.hacked = 1</script></svg>';
    await choose(page, ['drawing.svg', Buffer.from(svg), 'image/svg+xml']);
    await photo(page, 'drawing.svg').waitFor();
    assert.equal(await widthOf(page, 'drawing.svg'), 9);
    assert.equal(await page.evaluate('document.hacked ?? window.hacked'), undefined);
    assert.equal((await app.read('list')).total, 2);
    assert.deepEqual(app.complaints, []);
  });

  test('its tools', async (t) => {
    const app = await openTemplate(t, 'gallery');
    await callEveryTool(app);
    const { gateway } = app;
    const text = await gateway.call('PUT', `/svc/${app.id}/_blobs`, {
      body: 'text',
      headers: { 'content-type': 'text/plain' },
    });
    for (const [file, code] of [
      [text.json.sha256, 'NO_IMAGE'],
      ['0'.repeat(64), 'UNKNOWN_FILE'],
    ]) {
      const answer = await gateway.write(app.id, 'add', { file, name: 'x' });
      assert.deepEqual([answer.status, answer.json.data.body.code], [422, code]);
    }
  });
}
