/** The console's code of an app, through a real browser: files, a draft that is edited, checked, previewed and published, and rollbacks. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { list } from 'tar';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import type { StoreKind, TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { newAppSuite } from './console-home.ts';
import { newAutomationSuite } from './console-new-automation.ts';
import { removalSuite } from './console-settings.ts';
import { consoleSuite } from './console-suite.ts';

const shop = (title: string, ...more: string[]) =>
  appOf('shop', {
    queries: { list: `async ({ db }) => db.all('SELECT * FROM items')` },
    manifest: { name: 'Shop' },
    files: {
      'index.html': `<!doctype html><html lang="en"><title>Shop</title><h1>${title}</h1></html>\n`,
    },
    migrations: ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT);\n', ...more],
  });

function codeSuite(gateway: TestGateway, store: StoreKind): void {
  describe(`the code of an app on the ${store} store`, { skip: withoutChromium() }, () => {
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1280, height: 800 } },
      {
        apps: { shop: shop('First') },
        prepare: async () =>
          void (await gateway.install('shop', shop('Second', 'ALTER TABLE items ADD COLUMN price;\n'))),
        reloads: true,
      },
    );

    const editor = (page: Page, file: string) => page.getByRole('textbox', { name: file, exact: true });
    const row = (page: Page, version: string) => page.getByRole('row').filter({ hasText: version });
    const versions = async (): Promise<{ versionId: string; active: boolean }[]> =>
      (await suite.gateway.call('GET', '/svc/_apps/shop/versions')).json;

    test('shows the files of the live version, and of an earlier one', async () => {
      const page = await suite.open('/apps/shop/code');
      await page.getByRole('link', { name: 'index.html' }).click();
      await page.getByText('<h1>Second</h1>').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Save' }).isVisible(), false);
      if (store === 'tarball') await page.getByText('svc convert --store git').waitFor();
      await page.getByRole('link', { name: 'Versions' }).click();
      const first = (await versions()).at(-1)?.versionId ?? '';
      await page.getByRole('link', { name: first, exact: true }).click();
      await page.getByRole('link', { name: 'index.html' }).click();
      await page.getByText('<h1>First</h1>').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    // Drafts need the git store.
    const onGit = store === 'git' ? test : () => {};
    onGit(
      'recovers by itself from a restart of the gateway: unsaved text, what is shown, and views not opened before',
      async () => {
        const page = await suite.open('/apps/shop/code?file=index.html');
        await page.getByRole('button', { name: 'Edit' }).click();
        await page.waitForURL(/session=/);
        const draft = new URL(page.url()).hash;
        await editor(page, 'index.html').click();
        await page.keyboard.press('Control+End');
        await page.keyboard.type('<!-- not saved -->');
        const { port } = gateway;
        await gateway.stop();
        await page.getByText('The gateway does not answer').first().waitFor();
        await openView(page, '/apps/shop/files');
        await page.getByRole('alert').filter({ hasText: 'The gateway does not answer' }).waitFor();
        await openView(page, '/apps/shop/settings');
        await page.getByRole('alert').filter({ hasText: 'The gateway does not answer' }).waitFor();
        await gateway.start(String(port));
        await page.getByRole('heading', { name: 'Tokens for programs' }).waitFor();
        await page.getByText('No program has a token').waitFor();
        await page.getByText('All systems running').waitFor();
        await openView(page, draft.slice(1));
        await page.getByText('<!-- not saved -->').waitFor();
        const unsaved = page.getByRole('link', { name: 'index.html not saved' });
        await unsaved.waitFor();
        await page.getByRole('button', { name: 'Save' }).click();
        await unsaved.waitFor({ state: 'detached' });
        suite.complaints.length = 0;
      },
    );

    test('says that the gateway was upgraded only where the file of a view is gone', async () => {
      const page = await suite.open('/apps/shop');
      const gone = (route: Route) => route.fulfill({ status: 404, body: '{}' });
      await page.route('**/svc/_console/part-*', gone);
      await openView(page, '/apps/shop/logs');
      await page.getByRole('alert').filter({ hasText: 'The gateway was upgraded' }).waitFor();
      await page.unroute('**/svc/_console/part-*', gone);
      await page.getByRole('button', { name: 'Reload the page' }).click();
      await page.getByRole('region', { name: 'Log' }).waitFor();
      suite.complaints.length = 0;
    });

    test('downloads a version as an archive', async () => {
      const [first = ''] = (await versions()).map(({ versionId }) => versionId).toReversed();
      const page = await suite.open(`/apps/shop/code?version=${encodeURIComponent(first)}`);
      await page.getByRole('button', { name: 'Get the code' }).click();
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('dialog', { name: 'Get the code' }).getByRole('button', { name: 'Download' }).click(),
      ]);
      assert.equal(file.suggestedFilename(), `shop-${first.slice(first.indexOf('/') + 1)}.tgz`);
      const names: string[] = [];
      await list({ file: await file.path(), onReadEntry: (entry) => names.push(entry.path) });
      assert.deepEqual(names, ['app.json', 'index.html', 'migrations/0001_step.sql', 'queries/list.js']);
      assert.deepEqual(suite.complaints, []);
    });

    test('shows what a version changed against the one before and the live one, and goes back from there', async () => {
      const page = await suite.open('/apps/shop/code?show=versions');
      const [second = '', first = ''] = (await versions()).map(({ versionId }) => versionId);
      await row(page, second).getByRole('button', { name: 'Changes' }).click();
      const latest = page.getByRole('dialog', { name: second });
      await latest.getByText(`2 files changed since ${first}.`).waitFor();
      await latest.getByText('+<!doctype html><html lang="en"><title>Shop</title><h1>Second</h1></html>').waitFor();
      await assertAccessible(page);
      await latest.getByRole('button', { name: 'Close' }).click();
      await row(page, first).getByRole('button', { name: 'Changes' }).click();
      const dialog = page.getByRole('dialog', { name: first });
      await dialog.getByText('This is the first version.').waitFor();
      await dialog.getByRole('button', { name: 'Since the live one' }).click();
      await dialog.getByText(`2 files changed since ${second}.`).waitFor();
      await dialog.getByText('-<!doctype html><html lang="en"><title>Shop</title><h1>Second</h1></html>').waitFor();
      await dialog.getByRole('button', { name: 'Make live' }).click();
      await page
        .getByRole('dialog', { name: `Make ${first} live` })
        .getByRole('button', { name: 'Cancel' })
        .click();
      assert.equal((await versions()).find(({ active }) => active)?.versionId, second);
      assert.deepEqual(suite.complaints, []);
    });

    test('rolls back to a version, after it showed the changes and what the data keeps', async () => {
      const page = await suite.open('/apps/shop/code?show=versions');
      const [second = '', first = ''] = (await versions()).map(({ versionId }) => versionId);
      await row(page, first).getByRole('button', { name: 'Make' }).click();
      const dialog = page.getByRole('dialog', { name: `Make ${first} live` });
      await dialog.getByText('The data keeps what migrations/0002_step.sql did').waitFor();
      await dialog.getByText('+<!doctype html><html lang="en"><title>Shop</title><h1>First</h1></html>').waitFor();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Make live' }).click();
      await row(page, first).getByText('live', { exact: true }).waitFor();
      assert.equal((await versions()).find(({ active }) => active)?.versionId, first);
      await row(page, second).getByRole('button', { name: 'Make' }).click();
      await page.getByRole('button', { name: 'Make live', exact: true }).click();
      await row(page, second).getByText('live', { exact: true }).waitFor();
      await row(page, first).getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('link', { name: first, exact: true }).waitFor({ state: 'detached' });
      assert.deepEqual(
        (await versions()).map(({ versionId }) => versionId),
        [second],
      );
      assert.deepEqual(suite.complaints, []);
    });

    test('is accessible, in light, in dark and on a phone', async () => {
      const page = await suite.open('/apps/shop/code?file=index.html');
      for (const view of ['file=index.html', 'show=versions']) {
        await openView(page, `/apps/shop/code?${view}`);
        await (view === 'show=versions' ? page.getByRole('table') : page.getByText('<h1>Second</h1>')).waitFor();
        for (const [colorScheme, width] of [
          ['light', 1280],
          ['dark', 1280],
          ['light', 390],
        ] as const) {
          await page.emulateMedia({ colorScheme });
          await page.setViewportSize({ width, height: 800 });
          await assertAccessible(page);
        }
      }
    });

    if (store === 'tarball') return;

    /** Opens a draft in the view; resolves with its workspace. */
    async function edit(file: string): Promise<{ page: Page; workspace: string }> {
      const page = await suite.open(`/apps/shop/code?file=${file}`);
      await page.getByRole('button', { name: 'Edit', exact: true }).click();
      await page.getByRole('button', { name: 'Publish' }).waitFor();
      await editor(page, file).waitFor();
      const workspace = new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('session') ?? '';
      return { page, workspace };
    }

    const type = async (page: Page, file: string, text: string) => {
      await editor(page, file).click();
      await page.keyboard.press('Control+a');
      await page.keyboard.insertText(text);
    };

    test('edits a draft, shows its page beside, and publishes it', async () => {
      const { page, workspace } = await edit('index.html');
      const shown = page.getByRole('combobox', { name: 'What is shown' });
      await page.getByRole('button', { name: 'Draft name' }).click();
      const form = page.getByRole('dialog', { name: 'Name of this draft' });
      await form.getByText(workspace).waitFor();
      assert.match(await form.getByLabel('Name').inputValue(), /^Draft \d+$/);
      await form.getByLabel('Name').fill('The third heading');
      await assertAccessible(page);
      await form.getByRole('button', { name: 'Save the name' }).click();
      await shown.getByText('The third heading, ').waitFor({ state: 'attached' });
      await page.getByRole('link', { name: 'Preview' }).click();
      const preview = page.frameLocator('iframe');
      await preview.getByRole('heading', { name: 'Second' }).waitFor();
      await type(page, 'index.html', '<!doctype html><html lang="en"><title>Shop</title><h1>Third</h1></html>');
      await page.getByText('not saved', { exact: true }).waitFor();
      await page.keyboard.press('Control+s');
      await preview.getByRole('heading', { name: 'Third' }).waitFor();
      await page.getByRole('link', { name: 'Changes' }).click();
      await page.getByText('<h1>Third</h1>').first().waitFor();
      await page.getByRole('button', { name: 'Publish' }).click();
      const dialog = page.getByRole('dialog', { name: 'Publish this draft' });
      await dialog.getByText('1 file will be live').waitFor();
      await assertAccessible(page);
      await dialog.getByLabel('Message').fill('The third');
      await dialog.getByRole('button', { name: 'Publish' }).click();
      await page.getByText(/shop\/v\d+ is live/).waitFor();
      assert.match((await suite.gateway.call('GET', '/svc/shop/')).text, /Third/);
      await page.getByRole('link', { name: 'Versions' }).click();
      await row(page, 'The third').getByText('live', { exact: true }).waitFor();
      assert.deepEqual(
        suite.complaints.filter((text) => !/409/.test(text)),
        [],
      );
    });

    test('shows findings of the checks at their lines, and refuses to publish', async () => {
      const { page } = await edit('queries/list.js');
      await type(page, 'queries/list.js', 'export default async () => {\n  return 1 +;\n};\n');
      const dialog = page.getByRole('dialog', { name: 'Publish this draft' });
      // Publishing saves too: it waits for a running save.
      await page.route('**/files/queries/list.js', async (route) => {
        if (route.request().method() === 'PUT') await dialog.waitFor();
        await route.continue();
      });
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('button', { name: 'Publish' }).click();
      await dialog.getByText('It cannot be published like this').waitFor();
      assert.equal(await dialog.getByRole('button', { name: 'Publish' }).isDisabled(), true);
      await assertAccessible(page);
      const found = page.getByRole('list', { name: 'What is wrong' });
      await dialog.getByRole('button', { name: /^queries\/list\.js:2/ }).click();
      await dialog.waitFor({ state: 'detached' });
      await page.locator('.cm-activeLine', { hasText: 'return 1 +;' }).waitFor();
      await page.locator('.cm-lint-marker-error').waitFor();
      await openView(page, `${new URL(page.url()).hash.slice(1).replace('queries%2Flist.js', 'app.json')}`);
      await type(page, 'app.json', '{ "id": "shop" ');
      await page.keyboard.press('Control+s');
      await found.getByText('app.json').first().waitFor();
    });

    test('shows after each save what publishing would refuse, at its line, and only for the saved text', async () => {
      const { page } = await edit('queries/list.js');
      const live = await versions();
      const writes = 'export default async ({ db }) => {\n  await db.run("DELETE FROM items");\n  return [];\n};\n';
      const reads = 'export default async ({ db }) => db.all("SELECT id FROM items");\n';
      const saved = async (text: string) => {
        await type(page, 'queries/list.js', text);
        await page.keyboard.press('Control+s');
        await page.getByText('not saved', { exact: true }).waitFor({ state: 'detached' });
      };
      let first: Route | undefined;
      await page.route('**/check', async (route) => {
        if (first !== undefined) return await route.continue();
        first = route;
      });
      const asked = page.waitForRequest('**/check');
      await saved(writes);
      await asked;
      const next = page.waitForResponse('**/check');
      await saved(reads);
      assert.deepEqual((await (await next).json()).findings, []);
      // The answer about the previous text comes last.
      const late = page.waitForResponse('**/check');
      const body = { app: 'shop', findings: [{ code: 'INVALID_HANDLER', path: 'queries/list.js', message: 'late' }] };
      await first?.fulfill({ json: body });
      await late;
      await page.evaluate("fetch('/svc/_health').then((response) => response.text())");
      const found = page.getByRole('list', { name: 'What is wrong' });
      assert.equal(await found.count(), 0);

      await saved(writes);
      await found.getByRole('button', { name: /^queries\/list\.js:2:/ }).click();
      await page.locator('.cm-activeLine', { hasText: 'DELETE FROM items' }).waitFor();
      await page.locator('.cm-lint-marker-error').waitFor();
      await page.getByRole('link', { name: 'queries/list.js something is wrong' }).waitFor();
      await assertAccessible(page);
      await saved(reads);
      await found.waitFor({ state: 'detached' });
      assert.deepEqual(await versions(), live);
    });

    test('the files are a tree with what the draft changed, and the arrow keys move in it', async () => {
      const { page, workspace } = await edit('index.html');
      const files = `/svc/_sessions/${workspace}/apps/shop/files`;
      await suite.gateway.call('PUT', `${files}/lib/deep/new.js`, { body: 'export const a = 1;\n' });
      await suite.gateway.call('PUT', `${files}/index.html`, { body: '<h1>Changed</h1>\n' });
      await suite.gateway.call('DELETE', `${files}/queries/list.js`);
      const tree = page.getByRole('navigation', { name: 'Files' });
      for (const name of [
        /^lib\/deep\/new\.js added$/,
        /^index\.html changed$/,
        /^queries\/list\.js .*deleted$/,
        /^app\.json$/,
      ])
        await tree.getByRole('link', { name }).waitFor();
      await tree.getByRole('button', { name: 'New file' }).focus();
      for (const key of ['ArrowDown', 'ArrowDown', 'ArrowLeft']) await page.keyboard.press(key);
      await tree.getByRole('button', { name: 'deep has changes', expanded: false }).waitFor();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await editor(page, 'lib/deep/new.js').waitFor();
      await tree.getByRole('link', { name: 'lib/deep/new.js added' }).press('ArrowLeft');
      await tree.getByRole('button', { name: 'deep', expanded: true }).and(page.locator(':focus')).waitFor();
      for (const [colorScheme, width] of [
        ['dark', 1280],
        ['light', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await assertAccessible(page);
      }
      assert.match(await page.getByLabel('File', { exact: true }).innerText(), /index\.html – changed/);
      await page.setViewportSize({ width: 1280, height: 800 });
      await tree.getByRole('link', { name: 'queries/list.js' }).click();
      await page.getByText('SELECT * FROM items').waitFor();
    });

    test('runs the tests of the draft with what was typed, and leads to the one that failed', async () => {
      const { page, workspace } = await edit('index.html');
      await page.getByRole('button', { name: 'Run tests' }).click();
      const tests = page.getByRole('region', { name: 'Tests' });
      await tests.getByText('The draft has no tests.').waitFor();
      const file = `/svc/_sessions/${workspace}/apps/shop/files/tests/shop.test.js`;
      await suite.gateway.call('PUT', file, {
        body: `import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
test('one is one', () => {});
test('the page is typed', () => {
  assert.match(readFileSync(new URL('../index.html', import.meta.url), 'utf8'), /Typed/);
});
`,
      });
      await tests.getByRole('button', { name: 'Run again' }).click();
      await tests.getByText('2 tests: 1 failed, 1 passed').waitFor();
      await assertAccessible(page);
      await tests.getByRole('button', { name: 'tests/shop.test.js:5' }).click();
      await page.locator('.cm-activeLine', { hasText: 'the page is typed' }).waitFor();
      await openView(page, `/apps/shop/code?session=${workspace}&file=index.html`);
      await type(page, 'index.html', '<!doctype html><title>Typed</title>');
      await page.getByRole('button', { name: 'Run tests' }).click();
      await tests.getByText('2 tests: 2 passed').waitFor();
      await tests.getByRole('button', { name: 'Close' }).click();
      await tests.waitFor({ state: 'detached' });
      assert.deepEqual(suite.complaints, []);
    });

    test("opens the draft's folder in an editor, which changes the draft", async () => {
      const { page } = await edit('index.html');
      await page.getByRole('button', { name: 'Get the code' }).click();
      const dialog = page.getByRole('dialog', { name: 'Get the code' });
      const folder = await dialog.getByRole('textbox', { name: 'Folder of the draft' }).inputValue();
      assert.equal(await dialog.getByRole('link', { name: 'VS Code' }).getAttribute('href'), `vscode://file${folder}/`);
      assert.equal(await dialog.getByRole('textbox', { name: 'Command of the app' }).inputValue(), 'svc pull shop');
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Close' }).click();
      writeFileSync(join(folder, 'index.html'), '<h1>From the editor</h1>\n');
      await page.getByText('From the editor').waitFor();
    });

    test('unsaved text is there again after another view, and only a discard removes it', async () => {
      const { page, workspace } = await edit('index.html');
      await type(page, 'index.html', 'half a page');
      await page.getByRole('link', { name: 'app.json' }).click();
      await editor(page, 'app.json').waitFor();
      await page.getByRole('link', { name: 'index.html not saved' }).waitFor();
      await openView(page, '/apps/shop');
      await page.getByText('Store').first().waitFor();
      await openView(page, `/apps/shop/code?session=${workspace}&file=index.html`);
      await page.getByText('half a page').waitFor();
      await page.getByRole('button', { name: 'Discard' }).click();
      const dialog = page.getByRole('dialog', { name: 'Discard this draft?' });
      await dialog.getByText('so is 1 text that is not saved').waitFor();
      await dialog.getByRole('button', { name: 'Discard' }).click();
      await page.getByRole('button', { name: 'Edit', exact: true }).waitFor();
      assert.equal((await suite.gateway.call('GET', `/svc/_sessions/${workspace}/apps/shop/files`)).status, 404);
    });

    test('two writers never overwrite each other', async () => {
      const { page, workspace } = await edit('index.html');
      const file = `/svc/_sessions/${workspace}/apps/shop/files/index.html`;
      await type(page, 'index.html', 'mine');
      await suite.gateway.call('PUT', file, { body: Buffer.from('theirs') });
      await page.keyboard.press('Control+s');
      await page.getByRole('alert').filter({ hasText: 'Somebody else changed this file' }).waitFor();
      assert.equal((await suite.gateway.call('GET', file)).text, 'theirs');
      await page.getByRole('button', { name: 'Save mine over theirs' }).click();
      // The question closes when the button is pressed; the text counts as saved when it is stored.
      await page.getByText('Somebody else changed this file').waitFor({ state: 'detached' });
      await page.getByText('not saved', { exact: true }).waitFor({ state: 'detached' });
      assert.equal((await suite.gateway.call('GET', file)).text, 'mine');
      // A file without local changes follows by itself.
      await suite.gateway.call('PUT', file, { body: Buffer.from('theirs again') });
      await page.getByText('theirs again').waitFor();
    });

    test('files are made, renamed and deleted', async () => {
      const { page, workspace } = await edit('index.html');
      const paths = async () =>
        (await suite.gateway.call('GET', `/svc/_sessions/${workspace}/apps/shop/files`)).json.map(
          ({ path }: { path: string }) => path,
        );
      await page.getByRole('button', { name: 'New file' }).click();
      const made = page.getByRole('dialog', { name: 'New file' });
      await made.getByLabel('Path').fill('notes.exe');
      await made.getByRole('button', { name: 'Make file' }).click();
      await made.getByRole('alert').waitFor();
      await made.getByLabel('Path').fill('notes.md');
      await made.getByRole('button', { name: 'Make file' }).click();
      await type(page, 'notes.md', '# Notes');
      await page.getByRole('button', { name: 'Rename' }).click();
      const named = page.getByRole('dialog', { name: 'Rename notes.md' });
      await named.getByLabel('Path').fill('lib/readme.md');
      await named.getByRole('button', { name: 'Rename' }).click();
      await editor(page, 'lib/readme.md').waitFor();
      assert.deepEqual(
        [(await paths()).includes('notes.md'), (await paths()).includes('lib/readme.md')],
        [false, true],
      );
      await page.getByText('# Notes').waitFor();
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('link', { name: 'lib/readme.md' }).waitFor({ state: 'detached' });
      assert.equal((await paths()).includes('lib/readme.md'), false);
    });

    test("others' publications are merged, with both versions of lines that both changed", async () => {
      const { page } = await edit('index.html');
      await type(page, 'index.html', '<h1>Mine</h1>\n');
      await page.keyboard.press('Control+s');
      await page.getByText('not saved', { exact: true }).waitFor({ state: 'detached' });
      assert.equal(
        (await suite.gateway.upload('shop', shop('Theirs', 'ALTER TABLE items ADD COLUMN price;\n'))).status,
        201,
      );
      await page.getByRole('button', { name: 'Publish' }).click();
      const dialog = page.getByRole('dialog', { name: 'Publish this draft' });
      await dialog.getByText('It cannot be published like this').waitFor();
      assert.equal(await dialog.getByRole('button', { name: 'Publish', exact: true }).isDisabled(), true);
      await dialog.getByRole('button', { name: 'Merge what was published' }).click();
      await dialog.getByText('stand between marks').waitFor();
      await dialog.getByRole('button', { name: 'index.html' }).click();
      await page.getByText('<<<<<<< workspace').waitFor();
    });
  });
}

describe('tarball', () => codeSuite(gatewayOfSuite({ store: 'tarball' }), 'tarball'));

describe('git', () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  codeSuite(gateway, 'git');
  newAutomationSuite(gateway);
  newAppSuite(gateway);
  removalSuite(gateway, 'git');
});
