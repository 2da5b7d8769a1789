/**
 * The console's Overview of an app, driven in a browser: its last hour, its parts, a quarantine and its end; and `svc
 * activity`.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const APP = (id: string) =>
  appOf(id, {
    queries: { one: { run: '() => 1', public: true } as never, fail: `() => { throw new Error('no'); }` },
    actions: {
      crash: '() => { setTimeout(() => { throw new Error("gone wrong"); }, 0); return new Promise(() => {}); }',
    },
    migrations: ['CREATE TABLE orders (id INTEGER PRIMARY KEY)'],
    manifest: { name: 'Kiosk', description: 'Sells things' },
  });

const PAGED = appOf('paged', { files: { 'index.html': '<!doctype html><title>Paged</title><h1>Welcome in</h1>' } });

export function overviewSuite(gateway: TestGateway): void {
  describe('overview of an app in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1120, height: 900 } },
      { apps: { kiosk: APP('kiosk'), bad: APP('bad'), paged: PAGED } },
    );
    const { open } = suite;
    const activity = async (id: string) => (await suite.gateway.call('GET', `/svc/_apps/${id}/activity`)).json;

    test('the calls of the last hour are drawn, and given as text', async () => {
      for (let i = 0; i < 3; i++) await suite.gateway.read('kiosk', 'one');
      await suite.gateway.read('kiosk', 'fail');
      const { points, state, files } = await activity('kiosk');
      assert.equal(state, 'live');
      assert.equal(files.files, 0);
      assert.deepEqual([points.at(-1).calls, points.at(-1).failed], [4, 1]);
      assert.ok(points.at(-1).dataBytes > 0 && points.at(-1).p50 !== null);

      const page = await open('/apps/kiosk');
      await page.getByText('Sells things').waitFor();
      // A minute may have passed since.
      await page.getByRole('img', { name: /^Calls a minute\. calls: from \d+ to 4, / }).waitFor();
      await page.getByRole('img', { name: /^Errors a minute\. all: from \d+ to 1, / }).waitFor();
      for (const name of ['Duration', 'Data', 'Live'])
        await page.getByRole('img', { name: new RegExp(`^${name}`) }).waitFor();
      assert.equal(await page.locator('.chart canvas').count(), 5);
      await page.getByText('query one').waitFor();
      const { versionId } = (await suite.gateway.call('GET', '/svc/_apps/kiosk/versions')).json[0];
      const live = page.getByRole('link', { name: versionId, exact: true });
      assert.equal(await live.getAttribute('href'), '#/apps/kiosk/code?show=versions');
      await suite.gateway.read('kiosk', 'one');
      await page.getByRole('img', { name: /calls: from \d+ to (?:5, now 5|4, now 1)\.$/ }).waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('a new app shows its page, its address, and first steps that go away', async () => {
      const page = await open('/apps/paged');
      await page.frameLocator('iframe').getByRole('heading', { name: 'Welcome in' }).waitFor();
      const { port } = new URL(suite.gateway.url);
      const address = page.getByLabel('Address of paged', { exact: true });
      assert.equal(await address.inputValue(), `http://paged.svc.localhost:${port}/`);
      const steps = page.getByRole('region', { name: 'First steps' });
      await steps.getByRole('link', { name: 'Change it' }).click();
      await page.waitForURL(/#\/apps\/paged\/code$/);
      await openView(page, '/apps/paged');
      await steps.getByRole('listitem').filter({ hasText: 'Change it' }).getByText('Done').waitFor();
      await assertAccessible(page);
      await steps.getByRole('button', { name: 'Hide' }).click();
      await steps.waitFor({ state: 'detached' });
      await page.reload();
      await page.frameLocator('iframe').getByRole('heading', { name: 'Welcome in' }).waitFor();
      assert.equal(await steps.count(), 0);
      assert.deepEqual(suite.complaints, []);
    });

    test('an app that is removed while it is shown is reported as gone', async () => {
      const { status, text } = await suite.gateway.upload('brief', appOf('brief'));
      assert.equal(status, 201, text);
      const page = await open('/apps/brief');
      await page.getByRole('heading', { name: 'brief', level: 1 }).waitFor();
      await suite.gateway.call('DELETE', '/svc/_apps/brief');
      await page.getByRole('heading', { name: 'There is no app “brief”', level: 1 }).waitFor();
      await page.getByRole('link', { name: 'trash' }).click();
      await page.getByRole('row').filter({ hasText: 'brief' }).waitFor();
    });

    test('a quarantine shows its reason, and a restart ends it', async () => {
      // The same call twice would be refused instead.
      for (let input = 1; (await activity('bad')).reason === null; input++) {
        assert.ok(input < 60, 'it is given up on');
        await suite.gateway.write('bad', 'crash', { input });
      }
      const page = await open('/apps/bad');
      const card = page.getByRole('region', { name: 'This app is out of service' });
      await card.getByText('Its last thread ended').waitFor();
      await assertAccessible(page);
      await card.getByRole('button', { name: 'Restart' }).click();
      await card.waitFor({ state: 'detached' });
      assert.equal((await activity('bad')).reason, null);
      assert.equal((await suite.gateway.read('bad', 'one')).json.data, 1);
    });

    test('everything is reachable in light, in dark and on a phone', async () => {
      const page = await open('/apps/kiosk');
      await page.locator('.chart canvas').first().waitFor();
      await assertAccessible(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await assertAccessible(page);
    });
  });
}
