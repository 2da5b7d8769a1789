/** The console's palette, driven in a browser by keyboard alone: apps, runs and commands. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import { eventually } from '../../testing/edges.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const SHIP = appOf('ship', {
  manifest: { name: 'Ship' },
  queries: { crash: '() => { setTimeout(() => { throw new Error("sunk"); }, 0); return new Promise(() => {}); }' },
  automations: {
    weigh: { run: 'async () => ({ weighed: true })', name: 'Weigh the cargo' },
    sail: { run: 'async () => { throw new Error("no wind"); }', name: 'Set sail' },
  },
});

export function paletteSuite(gateway: TestGateway): void {
  describe("the console's palette", { skip: withoutChromium() }, () => {
    /** Of a run of each automation, the one that succeeded and the one that failed. */
    const runs: Record<string, string> = {};
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1280, height: 900 } },
      {
        apps: { ship: SHIP },
        reloads: true,
        prepare: async () => {
          for (const id of ['weigh', 'sail']) {
            const { json } = await gateway.call('POST', `/svc/_automations/ship/${id}/run`, { body: {} });
            runs[id] = json.runId;
            const events = await gateway.call('GET', `/svc/_runs/${json.runId}/events`);
            assert.match(events.text, /run\.end/);
          }
        },
      },
    );

    const option = (page: Page, name: string | RegExp) => page.getByRole('option', { name });
    const group = (page: Page, name: string) => page.getByRole('group', { name });

    const input = (page: Page) => page.getByRole('combobox', { name: 'Search apps, runs and commands' });

    async function search(page: Page, text: string): Promise<void> {
      // The one before may still be there, with its text.
      await input(page).waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await input(page).waitFor();
      await page.keyboard.type(text);
    }

    async function open(view = '/'): Promise<Page> {
      const page = await suite.open(view);
      await page.getByRole('heading', { level: 1 }).waitFor();
      return page;
    }

    test('shows places, commands and the latest runs at once, each group by its name, at every size', async () => {
      const page = await open();
      await search(page, '');
      await group(page, 'Apps and views').getByRole('option', { name: /^Apps/, selected: true }).waitFor();
      await group(page, 'Commands')
        .getByRole('option', { name: /^New app from a template/ })
        .waitFor();
      await group(page, 'Runs')
        .getByRole('option', { name: /^Set sail: error/ })
        .waitFor();
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 1280],
        ['light', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await assertAccessible(page);
      }
      // Up from the first goes to the last, which scrolls into view.
      await page.keyboard.press('ArrowUp');
      const last = page.getByRole('option', { selected: true });
      assert.equal(await last.textContent(), await page.getByRole('option').last().textContent());
      assert.equal(await input(page).getAttribute('aria-activedescendant'), await last.getAttribute('id'));
      assert.ok(((await last.boundingBox())?.y ?? 800) < 800);
      await page.keyboard.press('Escape');
      await input(page).waitFor({ state: 'detached' });
      assert.deepEqual(suite.complaints, []);
    });

    test('a run is found by its automation, its state and the beginning of its id', async () => {
      const page = await open();
      for (const [typed, found] of [
        ['weigh cargo ok', 'weigh'],
        ['ship failed', 'sail'],
        [runs.weigh ?? '', 'weigh'],
        [runs.sail?.slice(0, 9) ?? '', 'sail'],
      ] as const) {
        const name = found === 'sail' ? /^Set sail: error/ : /^Weigh the cargo: ok/;
        await search(page, typed);
        await group(page, 'Runs').getByRole('option', { name }).waitFor();
        while ((await page.getByRole('option', { name, selected: true }).count()) === 0)
          await page.keyboard.press('ArrowDown');
        await page.keyboard.press('Enter');
        await page.getByText(runs[found] ?? '', { exact: true }).waitFor();
        assert.equal(new URL(page.url()).hash, `#/runs/${runs[found]}`);
      }
      await search(page, 'no such thing');
      await page.getByRole('status').filter({ hasText: 'Nothing matches.' }).waitFor();
      assert.equal(await page.getByRole('option').count(), 0);
    });

    test('asks when the typing pauses, and an older answer never replaces a newer one', async () => {
      const page = await open();
      const asked: string[] = [];
      let late: Route | undefined;
      let isHeld = () => {};
      const held = new Promise<void>((resolve) => {
        isHeld = resolve;
      });
      await page.route('**/svc/_runs?*', async (route) => {
        const { search: query } = new URL(route.request().url());
        asked.push(query);
        if (!query.includes('state=error')) return await route.continue();
        late = route;
        isHeld();
      });
      await search(page, 'failed');
      await held;
      const answered = page.waitForResponse(/ref=ship%2Fweigh/);
      await page.keyboard.press('Control+a');
      await page.keyboard.type('cargo');
      await answered;
      const wanted = group(page, 'Runs').getByRole('option', { name: /^Weigh the cargo: ok/ });
      await wanted.waitFor();
      // The browser cancelled the first request: a late answer to it, and another one, change nothing.
      await late?.continue().catch(() => {});
      await page.evaluate("fetch('/svc/_health').then((response) => response.text())");
      assert.equal(await wanted.isVisible(), true);
      // Asked once for words that select the same runs, of which one page is read.
      assert.ok(!asked.some((query, at) => query === asked[at - 1]), asked.join(' '));
      assert.match(asked.at(-1) ?? '', /limit=50&ref=ship%2Fweigh/);
    });

    test('commands do what the buttons do: run an automation, switch it, change the theme, take a backup, sign out', async () => {
      await suite.newContext();
      const page = await open('/apps/ship');
      await search(page, 'run weigh');
      await option(page, /^Run Weigh the cargo now/).waitFor();
      await page.keyboard.press('Enter');
      await page.waitForURL(/#\/runs\/[0-9a-f-]{36}$/);
      assert.notEqual(new URL(page.url()).hash, `#/runs/${runs.weigh}`);

      await search(page, 'switch sail');
      await option(page, /^Switch Set sail off/).waitFor();
      await page.keyboard.press('Enter');
      await page.getByText('Set sail is off.').waitFor();
      assert.equal((await suite.gateway.call('GET', '/svc/_automations/ship/sail')).json.enabled, false);

      await search(page, 'theme dark');
      await page.keyboard.press('Enter');
      const scheme = () => page.evaluate('getComputedStyle(document.documentElement).colorScheme');
      await eventually(() => page.evaluate('document.documentElement.style.colorScheme === "dark"'));
      await page.reload();
      await page.getByRole('heading', { level: 1 }).waitFor();
      assert.equal(await scheme(), 'dark');
      await search(page, 'theme system');
      await page.keyboard.press('Enter');
      await eventually(() => page.evaluate('document.documentElement.style.colorScheme === ""'));
      assert.equal(await scheme(), 'light dark');

      await search(page, 'back up now');
      await option(page, /^Back up now/).waitFor();
      await page.keyboard.press('Enter');
      await page.getByText('The backup is being made.').waitFor();
      assert.equal(new URL(page.url()).hash, '#/system/backups');
      await page.getByText('.svc-backup.tar.gz').first().waitFor();

      assert.deepEqual(suite.complaints, []);
      await search(page, 'sign out');
      await page.keyboard.press('Enter');
      await page.getByLabel('Access token').waitFor();
    });

    test('a new app is asked for in its dialog, with the template in focus', async () => {
      const page = await open('/runs');
      await search(page, 'new kanban');
      await page.getByRole('option', { name: /^New app from Kanban/, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog', { name: 'New app' });
      await dialog.getByRole('button', { name: 'Use Kanban' }).and(page.locator(':focus')).waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      await search(page, 'blank');
      await page.getByRole('option', { name: /^New blank app/, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      await dialog.getByLabel(/^Name/).waitFor();
    });

    test('secret, rollback and help lead to where that is done, of the app that is shown first', async () => {
      const page = await open('/apps/ship');
      for (const [typed, name, address] of [
        ['secret', /^Secrets of Ship/, '#/apps/ship/settings?part=secrets'],
        ['rollback', /^Roll back Ship/, '#/apps/ship/code?show=versions'],
      ] as const) {
        await search(page, typed);
        await page.getByRole('option', { name, selected: true }).waitFor();
        await page.keyboard.press('Enter');
        await page.waitForURL((url) => url.hash === address);
        await openView(page, '/apps/ship');
      }
      await search(page, 'help');
      await page.getByRole('option', { name: /^Help/, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'The console', level: 1 }).waitFor();
      await page.getByRole('link', { name: 'HTTP reference' }).first().click();
      await page.getByRole('heading', { name: 'HTTP reference', level: 1 }).waitFor();
      await openView(page, '/system/trash');
      await page.getByRole('link', { name: 'Help' }).click();
      await page.getByRole('heading', { name: 'Removed apps' }).and(page.locator(':focus')).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('the theme is chosen among three, of which the browser keeps one', async () => {
      const page = await open();
      const theme = page.getByRole('group', { name: 'Colours' });
      const scheme = () => page.evaluate('document.documentElement.style.colorScheme');
      await theme.getByRole('button', { name: 'Auto', pressed: true }).waitFor();
      await theme.getByRole('button', { name: 'Dark' }).click();
      assert.equal(await scheme(), 'dark');
      await page.reload();
      await theme.getByRole('button', { name: 'Dark', pressed: true }).waitFor();
      assert.equal(await scheme(), 'dark');
      await theme.getByRole('button', { name: 'Auto' }).click();
      assert.equal(await scheme(), '');
    });

    test('a quarantined app is restarted', async () => {
      const call = (at: number) =>
        suite.gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'ship', query: 'crash', input: { at } } });
      let code = '';
      // The same call twice would be refused instead.
      for (let at = 1; at < 60 && code !== 'QUARANTINED'; at++) code = (await call(at)).json.error.code;
      assert.equal(code, 'QUARANTINED');
      const page = await open();
      await page.getByText('Ship is quarantined').waitFor();
      await search(page, 'quarantine');
      await option(page, /^Restart Ship/).waitFor();
      await page.keyboard.press('Enter');
      await page.getByText('Ship is restarted.').waitFor();
      assert.equal((await suite.gateway.call('GET', '/svc/_apps/ship')).json.status, 'active');
    });
  });
}
