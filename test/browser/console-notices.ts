/** The console's Notices below System, driven in a browser: channels, a test, and this browser's own agreement. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertAccessible } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { PushReceiver } from '../../testing/notice-servers.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

/** Nothing answers there. */
export const NOWHERE = { kind: 'json', url: 'http://127.0.0.1:2/a-secret-path' } as const;

const SUBSCRIPTION = new PushReceiver().subscription('https://push.example/of-this-browser');

/** A browser without windows allows no notices and reaches no push service: these two answer for it. */
const AGREES = `
  let subscription = null;
  Object.defineProperty(Notification, 'permission', { get: () => 'default' });
  Notification.requestPermission = async () => 'granted';
  PushManager.prototype.getSubscription = async () => subscription;
  PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
    if (!userVisibleOnly || applicationServerKey.length !== 87) throw new TypeError('no key');
    const made = ${JSON.stringify(SUBSCRIPTION)};
    subscription = { ...made, toJSON: () => made, unsubscribe: async () => { subscription = null; return true; } };
    return subscription;
  };`;

/** The gateway has the channel \`NOWHERE\`. */
export function noticesSuite(gateway: TestGateway): void {
  describe('notices in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, { viewport: { width: 1120, height: 800 }, colorScheme: 'light' });

    test('a test says which channel fails and why; this browser agrees, is listed and removed', async () => {
      await suite.newContext();
      await suite.context.addInitScript(AGREES);
      const page = await suite.open('/system/notices');
      const row = page.getByRole('row').filter({ hasText: 'Webhook' });
      await row.waitFor();
      await page.getByRole('button', { name: 'Send a test' }).click();
      await page.getByText('The test did not reach 1 channel').waitFor();
      await row.getByText('Nothing answers at its address.').waitFor();

      await page.getByText('No browser shows notices yet').waitFor();
      await page.getByRole('button', { name: 'Notify me in this browser' }).click();
      const browser = page.getByRole('row').filter({ hasText: 'Chrome on Linux' });
      await browser.getByText('this browser').waitFor();
      const worker =
        "navigator.serviceWorker.getRegistration('/svc/_push.js').then((found) => found?.active?.scriptURL)";
      assert.equal(new URL(String(await page.evaluate(worker))).pathname, '/svc/_push.js');
      const listed = async () =>
        (await gateway.call('GET', '/svc/_notices')).json.channels.filter(
          ({ kind }: { kind: string }) => kind === 'push',
        );
      assert.equal((await listed())[0].browser.name, 'Chrome on Linux');
      for (const [colorScheme, width] of [
        ['light', 1120],
        ['dark', 390],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await assertAccessible(page);
      }
      await browser.getByRole('button', { name: 'Remove' }).click();
      await page.getByRole('button', { name: 'Remove browser' }).click();
      await browser.waitFor({ state: 'detached' });
      assert.deepEqual(await listed(), []);
      assert.equal(await page.evaluate(worker), undefined);
      assert.deepEqual(suite.complaints, []);
      assert.ok(!(await page.content()).includes('a-secret-path'));
    });
  });
}
