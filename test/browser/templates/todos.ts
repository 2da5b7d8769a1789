/**
 * The todos template: a second window, a reload, and its tools called one by one. pages.test.ts covers the look of the
 * page.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { callEveryTool, installTemplate, runEveryAutomation, type TemplateApp } from '../template-app.ts';

export function suite(): void {
  let app: TemplateApp;
  let here: Page;
  let there: Page;

  before(async () => {
    app = await installTemplate('todos');
    [here, there] = [await app.window(), await app.window()];
  });
  after(() => app.close());

  test('a todo is added, renamed, done and removed, in every window and after a reload', async () => {
    await here.getByText('A clean slate.').waitFor();
    await here.getByLabel('New todo').fill('Water the plants');
    await here.keyboard.press('Enter');
    await there.getByRole('button', { name: 'Water the plants', exact: true }).click();
    await there.getByLabel('Title').fill('Water all the plants');
    await there.keyboard.press('Enter');
    await here.getByRole('checkbox', { name: 'Water all the plants' }).check();
    await there.getByText('Everything is done.').waitFor();
    await there.reload();
    await there.getByRole('button', { name: 'Remove: Water all the plants' }).click();
    await there.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await here.getByText('A clean slate.').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('a todo that the filter hides shows with the next filter, in every window', async () => {
    const show = (filter: string) => here.locator('#filter label').filter({ hasText: filter }).click();
    await show('Done');
    await here.getByText('Nothing done yet.').waitFor();
    await here.getByLabel('New todo').fill('Sow peas');
    await here.keyboard.press('Enter');
    await there.getByRole('button', { name: 'Sow peas', exact: true }).waitFor();
    await here.getByText('1 to do, 0 done').waitFor();
    assert.equal(await here.locator('#list li').count(), 0);
    await there.getByRole('checkbox', { name: 'Sow peas' }).check();
    await here.getByRole('checkbox', { name: 'Sow peas', checked: true }).waitFor();
    await show('Open');
    await here.getByText('All done. Enjoy your day!').waitFor();
    await show('All');
    await here.getByRole('button', { name: 'Clear done' }).click();
    await here.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await there.getByText('A clean slate.').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('rows say who added and who ticked off, once there are several people', async () => {
    const rosa = await app.windowOf('Rosa');
    await rosa.getByLabel('New todo').fill('Buy stamps');
    await rosa.keyboard.press('Enter');
    const row = (page: Page) => page.getByRole('listitem').filter({ hasText: 'Buy stamps' });
    await row(rosa).waitFor();
    assert.equal(await rosa.getByText('from you').count(), 0, 'there is nobody else');
    await row(here).getByText('from Rosa', { exact: true }).waitFor();
    const sami = await app.windowOf('Sami');
    await row(sami).getByRole('checkbox').check();
    await row(rosa).getByText('from you, done by Sami').waitFor();
    await app.picture(rosa, 'people');
    await app.write('remove', { done: true });
    await rosa.getByText('A clean slate.').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('the automations', async () => {
    const outputs = await runEveryAutomation(app, { inbox: 'From the inbox' });
    assert.deepEqual(outputs.digest, { open: 0, done: 0 });
    await here.getByRole('button', { name: 'From the inbox', exact: true }).waitFor();
  });

  test('every tool does what its contract says', async () => {
    const { id } = await app.write('add', { title: 'Call grandmother' });
    await callEveryTool(app, { id });
  });
}
