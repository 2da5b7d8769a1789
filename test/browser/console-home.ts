/** The console's frame, Home and System, driven in a browser: attention, new apps, the palette, processes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { appOf } from '../../testing/apps.ts';
import { tarball, zipOf } from '../../testing/archive.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const FRAGILE = appOf('fragile', {
  queries: {
    crash: '() => { setTimeout(() => { throw new Error("gone wrong"); }, 0); return new Promise(() => {}); }',
    fine: '() => 1',
  },
  manifest: { name: 'Fragile' },
});

const WINDOW = { viewport: { width: 1280, height: 900 }, colorScheme: 'light' } as const;

/** The apps todos and guestbook are there. */
export function homeSuite(gateway: TestGateway): void {
  describe("the console's home", { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, WINDOW);
    const { open } = suite;

    test('each place has an address, is clean for axe-core, and fits a phone', async () => {
      const page = await open('/');
      await page.getByRole('link', { name: 'Todos', exact: true }).waitFor();
      for (const [view, heading] of [
        ['/', 'Apps'],
        ['/apps/todos', 'Todos'],
        ['/automations', 'Automations'],
        ['/automations/calendar', 'Automations'],
        ['/automations/todos/digest', 'Evening digest'],
        ['/runs', 'Runs'],
        ['/system', 'System'],
        ['/system/insights', 'System'],
      ] as const) {
        await openView(page, view);
        await page.getByRole('heading', { name: heading, exact: true, level: 1 }).waitFor();
        await page.getByText('Reading…').first().waitFor({ state: 'detached' });
        // console-views.test.ts looks at them in light and wide, and in dark on a phone.
        for (const [colorScheme, width] of [
          ['dark', 1280],
          ['light', 390],
        ] as const) {
          await page.emulateMedia({ colorScheme });
          await page.setViewportSize({ width, height: 900 });
          await assertAccessible(page);
        }
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      assert.deepEqual(suite.complaints, []);
    });

    test('the palette goes to an app by a few letters, by keyboard alone', async () => {
      const page = await open('/');
      await page.getByRole('link', { name: 'Guestbook', exact: true }).waitFor();
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox').waitFor();
      await page.keyboard.type('guest');
      await page.getByRole('option', { name: /^Guestbook guestbook/, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Guestbook', level: 1 }).waitFor();
      assert.equal(new URL(page.url()).hash, '#/apps/guestbook');
      // The one before may still be there.
      await page.getByRole('combobox').waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox').waitFor();
      await page.keyboard.type('insights');
      await page.keyboard.press('Enter');
      await page.getByRole('link', { name: 'Insights' }).and(page.locator('[aria-current=page]')).waitFor();
      await page.goBack();
      await page.getByRole('heading', { name: 'Guestbook', level: 1 }).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a quarantined app comes first, with its reason, and is restarted there', async () => {
      assert.equal((await suite.gateway.upload('fragile', FRAGILE)).status, 201);
      const call = (query: string, input: unknown = {}) =>
        suite.gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'fragile', query, input } });
      let code = '';
      // The same call twice would be refused instead.
      for (let at = 1; at < 60 && code !== 'QUARANTINED'; at++) code = (await call('crash', { at })).json.error.code;
      assert.equal(code, 'QUARANTINED');
      const page = await open('/');
      const attention = page.getByRole('region', { name: 'Needs attention' });
      await attention.getByText('Fragile is quarantined').waitFor();
      await page.getByRole('link', { name: '1 app quarantined' }).waitFor();
      assert.equal(await page.getByText('All systems running').count(), 0);
      await assertAccessible(page);
      await attention.getByRole('button', { name: 'Restart Fragile' }).click();
      await attention.waitFor({ state: 'detached' });
      assert.equal((await call('fine')).json.data, 1);
      assert.deepEqual(suite.complaints, []);
      await suite.gateway.call('DELETE', '/svc/_apps/fragile?purge=1');
    });

    test('a card shows the whole name and the icon of its app, and a state only where something is wrong', async () => {
      const name = 'Inventory of the kitchen in the house by the lake, second floor';
      const icon = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>';
      const pictured = appOf('pictured', { manifest: { name }, files: { 'index.html': '<p>x', 'icon.svg': icon } });
      const stored = await suite.gateway.upload('pictured', pictured);
      assert.deepEqual([stored.status, stored.json.warnings], [201, undefined], stored.text);
      const { icon: isPictured, activeVersion } = (await suite.gateway.call('GET', '/svc/_apps/pictured')).json;
      assert.equal(isPictured, true);
      const page = await open('/');
      const card = page.getByRole('listitem').filter({ hasText: name });
      await card.locator('img').evaluate((image: { decode(): Promise<void> }) => image.decode());
      const heading = card.getByRole('heading', { name });
      type Box = { scrollWidth: number; clientWidth: number };
      assert.ok(await heading.evaluate(({ scrollWidth, clientWidth }: Box) => scrollWidth <= clientWidth));
      assert.equal(await card.locator('.state').count(), 0);
      assert.deepEqual(suite.complaints, []);

      const asked = (query: string, token?: null) =>
        suite.gateway.call('GET', `/svc/_apps/pictured/icon${query}`, token === null ? { token } : {});
      const named = await asked(`?version=${encodeURIComponent(activeVersion)}`);
      assert.equal(named.headers['content-type'], 'image/png');
      assert.match(String(named.headers['cache-control']), /immutable/);
      assert.equal((await asked('?version=other')).headers['cache-control'], 'no-cache');
      assert.equal((await asked('', null)).status, 401);
      await suite.gateway.call('DELETE', '/svc/_apps/pictured?purge=1');
    });

    test('a gateway that gives no answer is not said to be well', async () => {
      await suite.newContext();
      await suite.context.clock.install();
      const page = await open('/');
      await page.getByText('All systems running').waitFor();
      // The next request is never answered.
      await page.route('**/svc/_system', () => {});
      await page.waitForRequest('**/svc/_system');
      await page.clock.fastForward(21_000);
      await page.getByText('The gateway does not answer').waitFor();
      assert.equal(await page.getByText('All systems running').count(), 0);
      await page.unroute('**/svc/_system');
      await page.clock.fastForward(4000);
      await page.getByText('All systems running').waitFor();
    });

    test('an archive becomes an app, and what is wrong with one is said', async () => {
      const page = await open('/');
      await page.getByRole('button', { name: 'New app' }).click();
      const dialog = page.getByRole('dialog', { name: 'New app' });
      await dialog.getByRole('button', { name: 'From a file' }).click();
      const choose = (buffer: Buffer) =>
        dialog.getByLabel(/^File/).setInputFiles({ name: 'carried.tar.gz', mimeType: 'application/gzip', buffer });
      const make = () => dialog.getByRole('button', { name: 'Make it', exact: true }).click();
      await choose(Buffer.from('this is no archive'));
      assert.equal(await dialog.getByLabel(/^Id/).inputValue(), 'carried');
      await make();
      await dialog.getByRole('alert').filter({ hasText: 'archive' }).waitFor();
      await choose(tarball(appOf('carried', { manifest: { name: 'Carried' } })));
      await make();
      await page.getByRole('heading', { name: 'Carried', level: 1 }).waitFor();
      assert.equal((await suite.gateway.call('GET', '/svc/_apps/carried')).json.name, 'Carried');

      // The id is taken: it may be the next version.
      await openView(page, '/');
      await page.getByRole('button', { name: 'New app' }).click();
      await dialog.getByRole('button', { name: 'From a file' }).click();
      await choose(tarball(appOf('carried', { manifest: { name: 'Carried on' } })));
      await make();
      await dialog.getByRole('alert').filter({ hasText: 'already exists' }).waitFor();
      await dialog.getByRole('button', { name: 'Make it the next version of carried' }).click();
      await page.getByRole('heading', { name: 'Carried on', level: 1 }).waitFor();
    });

    test('a zip archive at an address becomes an app under another name; a refusal keeps what was typed', async (t) => {
      const files = appOf('far', { manifest: { name: 'Far' }, queries: { one: '() => 1' } });
      const archive = zipOf(Object.fromEntries(Object.entries(files).map(([name, text]) => [`far-1.0/${name}`, text])));
      const server = createServer((request, response) => {
        if (request.url === '/moved') response.writeHead(302, { location: '/far.zip' }).end();
        else if (request.url === '/far.zip') response.end(archive);
        else response.writeHead(404).end();
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.after(() => server.close());
      const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const page = await open('/');
      await page.getByRole('button', { name: 'New app' }).click();
      const dialog = page.getByRole('dialog', { name: 'New app' });
      await dialog.getByRole('button', { name: 'From an address' }).click();
      const make = () => dialog.getByRole('button', { name: 'Make it', exact: true }).click();
      const address = dialog.getByLabel(/^Address/);
      await dialog.getByLabel(/^Name/).fill('Farther');
      for (const [typed, said] of [
        [`${base}/nothing`, 'status 404'],
        [`${suite.gateway.url}/svc/`, 'the gateway itself'],
      ] as const) {
        await address.fill(typed);
        await make();
        await dialog.getByRole('alert').filter({ hasText: said }).waitFor();
        assert.equal(await address.inputValue(), typed);
      }
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Blank' }).click();
      assert.equal(await dialog.getByLabel(/^Name/).inputValue(), 'Farther');
      await dialog.getByRole('button', { name: 'From an address' }).click();
      await address.fill(`${base}/moved`);
      await make();
      await page.getByRole('heading', { name: 'Farther', level: 1 }).waitFor();
      assert.equal((await suite.gateway.read('farther', 'one')).json.data, 1);
    });

    test('a template does not become an app on the tarball store: the refusal says what to do', async () => {
      const page = await open('/');
      await page.getByRole('button', { name: 'New app' }).click();
      const dialog = page.getByRole('dialog', { name: 'New app' });
      await dialog.getByRole('button', { name: 'Use Kanban' }).waitFor();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Use Kanban' }).click();
      await dialog.getByRole('button', { name: 'Make it' }).click();
      await dialog.getByRole('alert').filter({ hasText: 'svc convert --store git' }).waitFor();
    });

    test('System shows each process and the apps in it, and what it carries as curves', async () => {
      await suite.gateway.call('POST', '/svc/_tool/svc_write', {
        body: { app: 'todos', action: 'add', input: { title: 'x' } },
      });
      const page = await open('/system');
      for (const name of ['supervisor', 'writer', 'host-1'])
        await page.getByRole('row').filter({ hasText: name }).filter({ hasText: 'running' }).waitFor();
      await page
        .getByRole('row')
        .filter({ hasText: 'writer' })
        .getByText(/\d+ commits? of/)
        .waitFor();
      await page.getByRole('row').getByRole('link', { name: 'todos', exact: true }).waitFor();
      for (const title of ['Event loop', 'CPU', 'Memory', 'Writer'])
        await page.getByRole('img', { name: new RegExp(`^${title}\\.`) }).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a picture of an app that a busy gateway refused is asked for again', async () => {
      await suite.newContext();
      let isBusy = true;
      await suite.context.route(/\/svc\/_apps\/todos\/icon/, (route) =>
        isBusy ? route.fulfill({ status: 503 }) : route.continue(),
      );
      const page = await open('/apps/todos');
      await page.getByRole('heading', { name: 'Todos', level: 1 }).waitFor();
      await page.locator('.app-head span.tile').waitFor();
      isBusy = false;
      await page.locator('.app-head img').evaluate((image: { decode(): Promise<void> }) => image.decode());
    });

    test('signing out asks for the token, and signing in again shows what was there', async () => {
      await suite.newContext();
      const page = await open('/apps/todos/data');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByText('You are signed out here and on the pages of all apps.').waitFor();
      await page.getByLabel('Access token').fill(suite.gateway.token);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByRole('heading', { name: 'Todos', level: 1 }).waitFor();
      assert.equal(new URL(page.url()).hash, '#/apps/todos/data');
    });
  });
}

/** New apps on the git store. */
export function newAppSuite(gateway: TestGateway): void {
  describe("the console's home on the git store", { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, WINDOW);

    test('a template becomes an app, and so does nothing but a name', async () => {
      const page = await suite.open('/');
      await page.getByRole('button', { name: 'New app' }).click();
      const dialog = page.getByRole('dialog', { name: 'New app' });
      await dialog.getByRole('button', { name: 'Use Kanban' }).waitFor();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Use Kanban' }).click();
      assert.equal(await dialog.getByLabel(/^Name/).inputValue(), 'Kanban');
      await assertAccessible(page);
      await dialog.getByLabel(/^Name/).fill('Our board');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Our board', level: 1 }).waitFor();
      await page.getByRole('status').filter({ hasText: 'our-board is live.' }).waitFor();
      await openView(page, '/');
      await page.getByRole('button', { name: 'New app' }).click();
      await page.getByRole('button', { name: 'Blank' }).click();
      await page.getByLabel(/^Name/).fill('Größe & Café');
      await page.getByRole('button', { name: 'Make it' }).click();
      await page.getByRole('heading', { name: 'Größe & Café', level: 1 }).waitFor();
      assert.equal(new URL(page.url()).hash, '#/apps/gro-e-cafe');
      assert.deepEqual(suite.complaints, []);
    });
  });
}
