/** The console's Logs of an app, driven in a browser: live, filtered, paused, earlier entries, thousands of them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const APP = (id: string) =>
  appOf(id, {
    actions: {
      say: `async ({ input, log }) => { log[input.level ?? 'info'](input.text, { extra: 7 }); return null; }`,
      many: `async ({ input, log }) => { for (let i = 1; i <= input.count; i++) { log.info('line ' + i); if (i % 50 === 0) await new Promise((go) => setTimeout(go, 2)); } return null; }`,
      fail: `async () => {\n  throw new Error('The till is empty');\n}`,
    },
    automations: { chime: `async ({ log }) => log.info('ding')` },
    manifest: { name: 'Till' },
  });

export function logsSuite(gateway: TestGateway): void {
  describe('log of an app in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1120, height: 900 } },
      { apps: { till: APP('till'), long: APP('long'), quiet: APP('quiet') } },
    );
    const { open } = suite;
    const say = (text: string, level = 'info') => suite.gateway.write('till', 'say', { text, level });
    const lines = (page: Page) => page.locator('.log-line');

    test('past entries show, and new ones at once, also if the log was empty', async () => {
      const page = await open('/apps/quiet/logs');
      await page.getByText('Nothing has been logged yet').waitFor();
      await page.getByText('following', { exact: true }).waitFor();
      await suite.gateway.write('quiet', 'say', { text: 'the first words' });
      await lines(page).filter({ hasText: 'the first words' }).getByText('extra=7').waitFor();
      assert.equal(await lines(page).count(), 1);
      await page.reload();
      await lines(page).filter({ hasText: 'the first words' }).waitFor();
      await suite.gateway.write('quiet', 'say', { text: 'then more' });
      await lines(page).filter({ hasText: 'then more' }).waitFor();
      assert.equal(await lines(page).count(), 2, 'nothing twice');
      assert.deepEqual(suite.complaints, []);
    });

    test('filters by level, text and call, which the address keeps', async () => {
      await say('all is well');
      await say('stock is low', 'warn');
      await suite.gateway.write('till', 'fail', {});
      const page = await open('/apps/till/logs');
      await lines(page).filter({ hasText: 'The till is empty' }).waitFor();
      await page.getByLabel('Least level').selectOption('warn');
      await lines(page).filter({ hasText: 'all is well' }).waitFor({ state: 'detached' });
      await lines(page).filter({ hasText: 'stock is low' }).waitFor();
      await page.getByLabel('Text').fill('STOCK');
      await lines(page).filter({ hasText: 'The till is empty' }).waitFor({ state: 'detached' });
      await page.waitForURL(/level=warn&text=STOCK$/);
      await page.reload();
      await lines(page).filter({ hasText: 'stock is low' }).waitFor();
      assert.equal(await lines(page).count(), 1);
      await page.getByLabel('Text').fill('nowhere');
      await page.getByText(/^None of \d+ entries match\.$/).waitFor();

      await page.getByLabel('Text').fill('');
      await page.getByLabel('Least level').selectOption('');
      await lines(page).filter({ hasText: 'stock is low' }).getByRole('button').click();
      await page.waitForURL(/call=[0-9a-f]{32}$/);
      await lines(page).filter({ hasText: 'all is well' }).waitFor({ state: 'detached' });
      assert.equal(await lines(page).count(), 1);
    });

    test('a place in an error leads to that line of the code, and what a run logged to the run', async () => {
      await suite.gateway.write('till', 'fail', {});
      const { json } = await suite.gateway.call('POST', '/svc/_automations/till/chime/run?wait=1', { body: {} });
      const page = await open('/apps/till/logs');
      await lines(page)
        .filter({ hasText: 'ding' })
        .getByRole('link', { name: `run …${json.runId.slice(-6)}` })
        .click();
      await page.getByRole('heading', { name: 'till/chime', level: 1 }).waitFor();
      await page.goBack();
      await lines(page)
        .getByRole('link', { name: /^actions\/fail\.js:2:/ })
        .last()
        .click();
      await page.locator('.cm-activeLine', { hasText: 'The till is empty' }).waitFor();
      await page.getByText('This is the live code.').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('paused, nothing moves; resumed, it is all there', async () => {
      await say('before the pause');
      const page = await open('/apps/till/logs');
      await lines(page).filter({ hasText: 'before the pause' }).waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
      await say('during the pause');
      await page.getByRole('button', { name: 'Resume (1 new entry)' }).waitFor();
      assert.equal(await lines(page).filter({ hasText: 'during the pause' }).count(), 0);
      await page.getByRole('button', { name: 'Resume' }).click();
      await lines(page).filter({ hasText: 'during the pause' }).waitFor();
    });

    test('a log that is lost says so, and goes on with what was logged meanwhile, each once', async () => {
      await say('before the loss');
      const page = await open('/apps/till/logs');
      await lines(page).filter({ hasText: 'before the loss' }).waitFor();
      await page.getByText('following', { exact: true }).waitFor();
      const { port } = suite.gateway;
      await suite.gateway.stop();
      await page.getByText('connecting', { exact: true }).waitFor();
      await suite.gateway.start(String(port));
      await say('during the loss');
      await page.getByText('following', { exact: true }).waitFor();
      await lines(page).filter({ hasText: 'during the loss' }).waitFor();
      await say('after the loss');
      await lines(page).filter({ hasText: 'after the loss' }).waitFor();
      assert.equal(await lines(page).filter({ hasText: 'the loss' }).count(), 3, 'nothing twice');
    });

    test('what was before shows also while there are too many streams, and is followed once there are fewer', async () => {
      await say('among many');
      const page = await suite.openAnother('/nothing');
      const error = { code: 'OVERLOADED', message: 'There are too many streams.' };
      await page.route('**/svc/_logs?*follow=1*', (route) => route.fulfill({ status: 503, json: { error } }));
      await openView(page, '/apps/till/logs');
      await lines(page).filter({ hasText: 'among many' }).waitFor();
      await page.getByText('connecting', { exact: true }).waitFor();
      await page.unroute('**/svc/_logs?*follow=1*');
      await page.getByText('following', { exact: true }).waitFor();
      await say('among few');
      await lines(page).filter({ hasText: 'among few' }).waitFor();
    });

    test('of thousands of entries only near ones are drawn; earlier ones load, each once, without moving the text', async () => {
      await suite.gateway.write('long', 'many', { count: 3000 });
      const page = await open('/apps/long/logs');
      const line = (number: number) => page.locator('.log-text', { hasText: new RegExp(`line ${number}\\b`) });
      await line(3000).waitFor();
      const texts = () => page.locator('.log-text').allTextContents();
      const scrollTo = (top: number) => page.evaluate(`document.querySelector('.log-scroll').scrollTop = ${top}`);
      assert.ok((await texts()).length < 300, 'windowed');
      for (const first of [2001, 1501]) {
        await scrollTo(0);
        await page.getByRole('button', { name: 'Earlier entries' }).click();
        await line(first + 499).waitFor();
        const top = await page.evaluate("document.querySelector('.log-scroll').scrollTop");
        assert.ok((top as number) > 1000, 'the shown text does not move');
        await scrollTo(0);
        await line(first).waitFor();
        assert.equal(await line(first - 1).count(), 0);
        const drawn = (await texts()).map((text) => /line \d+/.exec(text)?.[0]);
        assert.equal(new Set(drawn).size, drawn.length, 'nothing twice');
        assert.ok(drawn.length < 600, 'windowed');
      }
      assert.deepEqual(suite.complaints, []);
    });

    test('up to a time, without later entries', async () => {
      await say('early');
      const { json } = await suite.gateway.call('GET', '/svc/_logs?app=till&limit=1');
      await say('late');
      const page = await open(`/apps/till/logs?until=${json[0].ts + 1}`);
      await lines(page).filter({ hasText: 'early' }).first().waitFor();
      assert.equal(await lines(page).filter({ hasText: /late/ }).count(), 0);
    });

    test('everything is reachable in light, in dark and on a phone', async () => {
      await say(`a line that is ${'very '.repeat(60)}long${'x'.repeat(300)}`, 'warn');
      await suite.gateway.write('till', 'fail', {});
      const page = await open('/apps/till/logs');
      await lines(page).filter({ hasText: 'The till is empty' }).first().waitFor();
      await assertAccessible(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await assertAccessible(page);
    });
  });
}
