/** The console's Backups and Trash below System, driven in a browser. */
import assert from 'node:assert/strict';
import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

/** The gateway has made no backup yet, and its trash is empty. */
export function backupsSuite(gateway: TestGateway): void {
  describe('backups and trash in the console', { skip: withoutChromium() }, () => {
    const app = (id: string) => appOf(id, { manifest: { name: id.toUpperCase() } });
    const suite = consoleSuite(
      gateway,
      { viewport: { width: 1120, height: 900 }, colorScheme: 'light' },
      { apps: { notes: app('notes'), lists: app('lists') } },
    );
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
    const files = async () => (await gateway.call('GET', '/svc/_backups/files')).json;

    test('a backup is made and verified, a changed one is detected; the command that restores it is shown', async () => {
      const page = await suite.open('/system/backups');
      await page.getByText('No backup was made yet').waitFor();
      assert.equal(await page.getByRole('link', { name: 'Cluster' }).count(), 0, 'it is in none');
      await page.getByRole('button', { name: 'Back up now' }).click();
      await page.getByText(/Made and verified .*, in /).waitFor();
      const [made] = await files();
      const row = page.getByRole('row').filter({ hasText: made.name });
      await row.getByRole('button', { name: 'Verify' }).click();
      await row.getByText('just now').last().waitFor();
      await page.getByText(`svc restore ${made.file} --data-dir ${gateway.dataDir}-restored`).waitFor();
      await assertLooks(page);
      assert.deepEqual(suite.complaints, []);
      truncateSync(made.file, 1000);
      await row.getByRole('button', { name: 'Verify' }).click();
      await row.getByText('changed or cut off').waitFor();
      await row.getByRole('alert').waitFor();
    });

    test('a schedule is set, refused with a message, and ended; a failed backup shows where people look for it', async () => {
      const page = await suite.open('/system/backups');
      await page.getByRole('button', { name: 'Make backups on schedule…' }).click();
      const dialog = page.getByRole('dialog', { name: 'Backups on schedule' });
      await dialog.getByLabel('When').fill('daily');
      await dialog.getByRole('button', { name: 'Store' }).click();
      await dialog.getByRole('alert').filter({ hasText: 'cron' }).waitFor();
      await assertAccessible(page);
      await dialog.getByLabel('When').fill('0 4 * * *');
      await dialog.getByLabel('Files to keep').fill('3');
      const folder = join(gateway.dataDir, '..', 'backups');
      await dialog.getByLabel('Folder').fill(folder);
      await dialog.getByRole('button', { name: 'Store' }).click();
      await dialog.waitFor({ state: 'detached' });
      await page.getByText(/^At 04:00( AM)?, every day$/).waitFor();
      await page.getByText('the newest 3').waitFor();
      const { schedule } = (await gateway.call('GET', '/svc/_backups')).json;
      assert.deepEqual(schedule, { cron: '0 4 * * *', keep: 3, dir: folder, setBy: 'command' });

      rmSync(folder, { recursive: true });
      writeFileSync(folder, 'no folder');
      await page.getByRole('button', { name: 'Back up now' }).click();
      await page.getByText('The last one failed').waitFor();
      await page.getByText(`${folder} is not a folder`).waitFor();
      await openView(page, '/');
      await page.getByText('The last backup failed').waitFor();
      await page.getByRole('link', { name: 'Last backup failed' }).waitFor();
      assert.equal(await page.getByText('All systems running').count(), 0);
      await page.getByRole('link', { name: 'Show backups' }).click();
      await page.getByText('The last one failed').waitFor();
      await page.getByRole('button', { name: 'Change the schedule…' }).click();
      await dialog.getByRole('button', { name: 'End the schedule' }).click();
      await page.getByRole('button', { name: 'Make backups on schedule…' }).waitFor();
      assert.equal((await gateway.call('GET', '/svc/_backups')).json.schedule, null);
      rmSync(folder);
    });

    test('the length of sign-ins is chosen', async () => {
      const page = await suite.open('/system/sign-in');
      await page.getByText('30 days', { exact: true }).click();
      await page.getByText('from now on stay so for 30 days').waitFor();
      await assertLooks(page);
      const length = await gateway.call('GET', '/svc/_session/length');
      assert.deepEqual(length.json, { hours: 720, setBy: 'console' });
    });

    test('a removed app is restored, and the trash is emptied', async () => {
      const page = await suite.open('/system/trash');
      await page.getByText('The trash is empty').waitFor();
      for (const id of ['notes', 'lists']) assert.equal((await gateway.call('DELETE', `/svc/_apps/${id}`)).status, 200);
      await page.reload();
      await page.getByRole('status').filter({ hasText: '2 apps' }).waitFor();
      await assertLooks(page);
      const row = page.getByRole('row').filter({ hasText: 'NOTES' });
      await row.getByRole('button', { name: /^Restore/ }).click();
      await page.getByRole('dialog', { name: 'Restore NOTES?' }).getByRole('button', { name: 'Restore app' }).click();
      await row.waitFor({ state: 'detached' });
      assert.equal((await gateway.call('GET', '/svc/_apps/notes')).status, 200);

      assert.equal((await gateway.upload('lists', appOf('lists'))).status, 201);
      await page.getByRole('button', { name: /^Restore/ }).click();
      const question = page.getByRole('dialog', { name: 'Restore LISTS?' });
      await question.getByRole('button', { name: 'Restore app' }).click();
      await question.getByRole('alert').waitFor();
      await question.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'Empty the trash…' }).click();
      const last = page.getByRole('dialog', { name: 'Delete LISTS for good?' });
      await last.getByText('Nothing brings them back but a').waitFor();
      await assertAccessible(page);
      await last.getByRole('button', { name: 'Delete for good' }).click();
      await page.getByText('The trash is empty').waitFor();
      assert.deepEqual((await gateway.call('GET', '/svc/_trash')).json, []);
    });

    test('the audit log says who removed it, the newest first, and has earlier entries', async () => {
      const page = await suite.open('/system/audit');
      const rows = page.getByRole('row').filter({ has: page.getByRole('cell') });
      await rows.first().getByText('app.deleted').waitFor();
      await rows.first().getByText('browser').waitFor();
      await assertLooks(page);
      await assertAccessible(page);
      for (let i = 0; i < 50; i++)
        assert.equal((await gateway.call('POST', '/svc/_session/links', { body: { open: 'notes' } })).status, 201);
      await page.reload();
      await page.getByRole('button', { name: 'Earlier entries' }).click();
      await rows.filter({ hasText: 'app.deleted' }).first().waitFor();
      assert.ok((await rows.count()) > 50);
    });
  });
}
