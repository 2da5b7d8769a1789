/** Automations made and changed in the console without an editor, in a real browser: into a draft, and live from there. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const ADD = {
  run: `async ({ input, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', input.text); }`,
  input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false },
};

export function newAutomationSuite(gateway: TestGateway): void {
  describe('new automations in a browser', { skip: withoutChromium() }, () => {
    const pad = appOf('pad', {
      manifest: { name: 'Pad' },
      queries: { list: `({ db }) => db.all('SELECT text FROM notes')` },
      actions: { add: ADD },
      migrations: ['CREATE TABLE notes (text TEXT);'],
    });
    const suite = consoleSuite(gateway, { viewport: { width: 1280, height: 900 } }, { apps: { pad } });

    const publish = async (page: Page) => {
      await page.getByRole('button', { name: 'Publish' }).click();
      const dialog = page.getByRole('dialog', { name: 'Publish this draft' });
      await dialog.getByRole('button', { name: 'Publish' }).click();
      await dialog.waitFor({ state: 'detached' });
    };

    test('one that runs an action on days of the week is made in a draft, published, and given another schedule', async () => {
      const page = await suite.open('/apps/pad/automations');
      await page.getByRole('link', { name: 'New automation' }).click();
      await page.getByLabel('Name').fill('Écrire le matin');
      assert.equal(await page.getByRole('textbox', { name: /^Id/ }).inputValue(), 'ecrire-le-matin');
      await page.getByLabel('Time zone').fill('Europe/Lisbon');
      await page.getByLabel('How often').selectOption('On days of the week');
      await page.getByLabel('At', { exact: true }).fill('07:30');
      await page.getByLabel('Friday').uncheck();
      const next = page.getByRole('status').filter({ hasText: 'The next times' });
      await next.getByText(/^At 07:30( AM)?, Monday through Thursday$/).waitFor();
      assert.equal(await next.getByRole('listitem').filter({ hasText: '7:30' }).count(), 5);
      await page.getByLabel('Time zone').fill('Mars/Olympus');
      await page.getByRole('alert').filter({ hasText: 'no time zone that this computer knows' }).waitFor();
      await page.getByLabel('Time zone').fill('Europe/Lisbon');
      await page.getByLabel('Run an action').check();
      await page.getByRole('button', { name: 'Make it in a draft' }).click();
      await page.getByRole('alert').filter({ hasText: 'This is required.' }).waitFor();
      await page.getByLabel('text', { exact: true }).fill('Good "morning"');
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Make it in a draft' }).click();
      await page.getByRole('textbox', { name: 'automations/ecrire-le-matin/handler.js' }).waitFor();
      await publish(page);
      const address = '/svc/_automations/pad/ecrire-le-matin';
      const { manifest } = (await gateway.call('GET', address)).json;
      assert.deepEqual(manifest.triggers, [{ kind: 'cron', expr: '30 7 * * MON-THU', tz: 'Europe/Lisbon' }]);
      assert.deepEqual([manifest.name, manifest.enabled], ['Écrire le matin', true]);
      const run = await gateway.call('POST', `${address}/run?wait=1`, { body: {} });
      assert.equal(run.json.state, 'ok', run.text);
      assert.deepEqual((await gateway.read('pad', 'list', {})).json.data, [{ text: 'Good "morning"' }]);

      await page.evaluate(`location.hash = '#/automations/pad/ecrire-le-matin'`);
      await page.getByRole('button', { name: 'Edit schedule' }).click();
      const dialog = page.getByRole('dialog', { name: 'Schedule of Écrire le matin' });
      assert.equal(await dialog.getByLabel('At', { exact: true }).inputValue(), '07:30');
      await dialog.getByLabel('How often').selectOption('By a cron expression');
      const expression = dialog.getByRole('textbox', { name: 'Cron expression' });
      assert.equal(await expression.inputValue(), '30 7 * * MON-THU');
      await expression.fill('0 8 1 * ');
      await dialog.getByRole('alert').filter({ hasText: 'is no cron expression' }).waitFor();
      assert.equal(await dialog.getByRole('button', { name: 'Save in a draft' }).isDisabled(), true);
      await expression.fill('0 8 1 * *');
      await dialog.getByRole('button', { name: 'Add another' }).click();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Save in a draft' }).click();
      await page.getByText('"expr": "0 8 1 * *"').waitFor();
      await publish(page);
      const { triggers } = (await gateway.call('GET', address)).json;
      assert.deepEqual(
        triggers.map(({ expr }: { expr: string }) => expr),
        ['0 8 1 * *', '0 9 * * *'],
      );
      assert.deepEqual(suite.complaints, []);
    });

    test('one with a webhook asks an agent; its prompt is a text whatever it holds, and its webhook stays when it is edited', async () => {
      const page = await suite.open('/automations/new?app=pad');
      await page.getByLabel('Name').fill('Asked');
      await page.getByLabel('By a webhook').check();
      const prompt = ['Say `it` in $', '{one} line.\nAnd \\n nothing else.'].join('');
      await page.getByLabel('Prompt').fill(prompt);
      await page.getByRole('button', { name: 'Make it in a draft' }).click();
      await page.getByRole('textbox', { name: 'automations/asked/handler.js' }).waitFor();
      await publish(page);
      const before = (await gateway.call('GET', '/svc/_automations/pad/asked')).json;
      assert.equal(before.manifest.prompt, prompt);
      assert.match(before.triggers[0].url, /_svc-hook/);
      const { json } = await gateway.call('POST', '/svc/_automations/pad/asked/run?wait=1', { body: {} });
      const [node] = (await gateway.call('GET', `/svc/_runs/${json.runId}/nodes`)).json;
      assert.deepEqual([node.kind, node.args.prompt], ['agent', prompt]);
      await page.evaluate(`location.hash = '#/automations/pad/asked'`);
      await page.getByRole('button', { name: 'Edit schedule' }).click();
      await page.getByRole('button', { name: 'Add a schedule' }).click();
      await page.getByRole('button', { name: 'Save in a draft' }).click();
      await page.getByText('"expr": "0 9 * * *"').waitFor();
      await publish(page);
      const after = (await gateway.call('GET', '/svc/_automations/pad/asked')).json;
      assert.equal(after.triggers.length, 2);
      assert.equal(after.triggers[1].url, before.triggers[0].url);
    });
  });
}
