/** The bookmarks template as a person uses it, and its tools called one by one. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import { callEveryTool, installTemplate, runEveryAutomation, type TemplateApp } from '../template-app.ts';

export function suite(): void {
  /** The web of these tests: pages with a title, and one that is gone. */
  const server = createServer((request, response) => {
    if (request.url === '/gone') response.writeHead(404).end();
    else response.end(`<!doctype html><title>\n Bread &amp; butter: ${request.url?.slice(1)} </title><p>Hello`);
  });
  let app: TemplateApp;
  let web: string;

  before(async () => {
    app = await installTemplate('bookmarks');
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    web = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(async () => {
    await app.close();
    server.closeAllConnections();
    server.close();
  });
  afterEach(() => app.closeWindows());

  test('an address is stored with the title of its page, another window shows it, and so does a reload', async () => {
    const [here, there] = [await app.window(), await app.window()];
    await here.getByText('No bookmarks yet.').waitFor();
    await app.picture(here, 'empty');
    await here.locator('#url').fill(`${web}/recipes`);
    await here.locator('#new-tags').fill('Cooking, weekend');
    await here.locator('#new-later').check();
    await here.keyboard.press('Enter');
    await there.getByRole('link', { name: 'Bread & butter: recipes' }).waitFor();
    await there.getByText('1 kept, 1 to read').waitFor();
    await here.reload();
    await here.getByRole('link', { name: 'Bread & butter: recipes' }).waitFor();
    assert.equal(await here.getByRole('link').getAttribute('href'), `${web}/recipes`);
    await here.getByRole('button', { name: 'Read later: Bread & butter: recipes' }).click();
    await there.getByText('1 kept, 0 to read').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('the same address is not stored twice, and an invalid one is refused with a message', async () => {
    const page = await app.window();
    await page.locator('#url').fill(`${web}/recipes`);
    await page.keyboard.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'You have this one already.' }).waitFor();
    assert.equal(await page.locator('#url').inputValue(), `${web}/recipes`);
    await page.locator('#url').fill('javascript:alert(1)');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'Paste the address of a web page' }).waitFor();
    // Only the browser's console reports the 409 as an error.
    assert.deepEqual(
      app.complaints.splice(0).filter((text) => !text.includes('409')),
      [],
    );
  });

  test('a pasted list is imported, and narrowed by tag, text and state', async () => {
    const page = await app.window();
    await page.getByRole('button', { name: 'Import…' }).click();
    const lines = [
      '- [The garden in spring](https://garden.example.org/spring)',
      '<DT><A HREF="https://news.example.com/?a=1&amp;b=2" ADD_DATE="1">News &amp; more</A>',
      'https://music.example.net/album An album',
      'nothing to see here',
      `${web}/gone`,
      `${web}/recipes`,
    ];
    await page.getByLabel('Addresses').fill(lines.join('\n'));
    await page.getByLabel('Tags for all of them').fill('imported');
    await app.picture(page, 'import');
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
    await page
      .getByRole('alert')
      .filter({ hasText: '4 imported, 1 known already, 1 line without an address' })
      .waitFor();
    await page.getByRole('link', { name: 'News & more' }).waitFor();
    await page
      .getByRole('complementary')
      .getByRole('button', { name: /^imported/ })
      .click();
    await page.getByRole('link', { name: 'recipes' }).waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('link').count(), 4);
    await page.getByRole('searchbox').fill('album');
    await page.getByRole('link', { name: 'garden' }).waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('link', { name: 'An album' }).waitFor();
    assert.equal(await page.getByRole('link').count(), 1);
    await page.getByRole('searchbox').fill('100%');
    await page.getByText('No matches.').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('a bookmark is changed and removed', async () => {
    const page = await app.window();
    await page.getByRole('button', { name: 'Change: An album' }).click();
    const editor = page.getByRole('dialog', { name: 'Change the bookmark' });
    await editor.getByLabel('Title').fill('The blue album');
    await editor.getByLabel('Tags').fill('music, imported');
    await editor.getByLabel('Note').fill('The one with the piano.');
    await app.picture(page, 'editor');
    await editor.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The one with the piano.').waitFor();
    const [album] = (await app.read('list', { tag: 'MUSIC' })) as { title: string; tags: string[] }[];
    assert.deepEqual([album?.title, album?.tags], ['The blue album', ['imported', 'music']]);
    await page.getByRole('button', { name: 'Change: The garden in spring' }).click();
    await editor.getByRole('button', { name: 'Remove…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
    await page.getByRole('button', { name: 'Remove: News & more' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('link', { name: 'News & more' }).waitFor({ state: 'detached' });
    assert.deepEqual(app.complaints, []);
  });

  test('the automation finds the pages that are gone', async () => {
    const own = (await app.read('list')) as { id: number; url: string }[];
    for (const { id, url } of own) if (!url.startsWith(web)) await app.write('remove', { id });
    assert.deepEqual(await runEveryAutomation(app), { 'dead-links': { checked: 2, dead: 1 } });
    await app.write('add', {
      url: 'https://www.example.org/a/long/way/to/go',
      title: 'How to bake bread at home',
      tags: ['cooking', 'weekend'],
      note: 'With the long rest overnight.',
      later: true,
    });
    await app.write('add', {
      url: 'https://developer.example.com/sqlite',
      title: 'Window functions, explained slowly',
      tags: ['sql', 'reference'],
    });
    const page = await app.window();
    await page.getByText('answered 404').waitFor();
    await app.picture(page, 'full');
    await page.getByText('Gone 1', { exact: true }).click();
    await page.getByRole('link', { name: 'recipes' }).waitFor({ state: 'detached' });
    await page.getByLabel('Density').selectOption('Compact');
    await page.locator('html[data-density=compact]').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('every tool does what its contract says', async () => {
    const { id } = await app.write('add', { url: `${web}/untitled` });
    await callEveryTool(app, { id, web });
    const { gateway } = app;
    assert.equal((await gateway.write(app.id, 'update', { id, later: true })).status, 404);
    assert.equal((await gateway.write(app.id, 'fetchTitle', { id })).status, 404);
    assert.equal((await gateway.write(app.id, 'add', { url: 'https://[' })).status, 422);
    assert.equal((await gateway.write(app.id, 'add', { url: 'https://example.org' })).status, 409);
    const text = Array.from({ length: 2000 }, (_, at) => `https://example.org/${at}`).join('\n');
    const tags = ['many', 'more'];
    assert.deepEqual(await app.write('import', { text, tags }), { added: 2000, known: 0, skipped: 0 });
    assert.equal((await gateway.write(app.id, 'import', { text: `${text}\n${web}/2001` })).status, 422);
    const last = ((await app.read('list', { tag: 'more', limit: 1000 })) as { id: number }[]).at(-1);
    assert.equal((await app.read('list', { tag: 'many', limit: 1000, before: last?.id })).length, 1000);
  });
}
