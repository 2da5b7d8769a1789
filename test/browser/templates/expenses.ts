/** The template `expenses` as a person uses it, its tools as programs call them, and its month in review. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { accessibilityFaults } from '../../../testing/axe.ts';
import { callEveryTool, openTemplate, runEveryAutomation } from '../template-app.ts';

const today = new Date();
/** A day of this month, by the clock of this computer, as the page and the gateway see it. */
const day = (number: number, monthsBack = 0) => {
  const at = new Date(today.getFullYear(), today.getMonth() - monthsBack, number, 12);
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, '0')}-${String(number).padStart(2, '0')}`;
};

export function suite(): void {
  test('a month is kept, in two windows', async (t) => {
    const app = await openTemplate(t, 'expenses');
    const [here, there] = [await app.window(), await app.window()];
    await there.getByText('Nothing spent this month.').waitFor();
    await app.picture(here, 'empty');

    const add = async (amount: string, category: string, note: string, on = day(2)) => {
      await here.getByLabel('Amount').first().fill(amount);
      await here.getByLabel('Category').first().selectOption(category);
      await here.getByLabel('Day').first().fill(on);
      await here.getByLabel('Note').first().fill(note);
      await here.keyboard.press('Enter');
    };
    await add('twelve', 'Groceries', 'Bread');
    await here.getByRole('alert').filter({ hasText: 'Write an amount like 12' }).waitFor();
    await add('12,50', 'Groceries', '=Bread, "and" cheese');
    await there.getByRole('button', { name: '=Bread' }).filter({ hasText: '12.50' }).waitFor();
    await add('48.9', 'Transport', 'Train to Lisbon', day(1));
    await there.locator('#total').filter({ hasText: '61.40' }).waitFor();

    await here.getByRole('button', { name: /^Train to Lisbon/ }).click();
    await here.locator('#editor').getByLabel('Amount').fill('50');
    await here.keyboard.press('Enter');
    await there.locator('#total').filter({ hasText: '62.50' }).waitFor();

    await here.getByRole('button', { name: 'Categories and budgets' }).click();
    await here.getByLabel('Budget of Transport').fill('40');
    await here.getByLabel('Budget of Groceries').fill('100');
    await here.getByLabel('New category').fill('groceries');
    await here.keyboard.press('Enter');
    await here.getByRole('alert').filter({ hasText: 'There is a category “groceries” already.' }).waitFor();
    await here.getByLabel('New category').fill('Garden');
    await here.keyboard.press('Enter');
    await here.getByLabel('Name of Garden').waitFor();
    await here.getByRole('button', { name: 'Remove category Transport' }).click();
    await here.getByRole('button', { name: 'Remove', exact: true }).click();
    await here.getByRole('alert').filter({ hasText: '1 expense is in this category' }).waitFor();
    await app.picture(here, 'budgets');
    await here.getByRole('button', { name: 'Close' }).click();
    await there.getByRole('button', { name: /^Transport.*over budget/ }).waitFor();
    await there.getByRole('button', { name: /^Groceries.*87.50 left/ }).waitFor();

    await there.getByRole('button', { name: /^Transport.*over budget/ }).click();
    await there.getByRole('heading', { name: 'Transport' }).waitFor();
    assert.equal(await there.locator('.expense').count(), 1, 'only those of the category are shown');
    await there.getByRole('button', { name: 'Show all' }).click();

    const download = here.waitForEvent('download');
    await here.getByRole('button', { name: 'Save as CSV' }).click();
    const csv = readFileSync(await (await download).path(), 'utf8').split('\r\n');
    assert.deepEqual(csv, [
      'Day,Amount (EUR),Category,Note',
      `${day(1)},50.00,Transport,Train to Lisbon`,
      `${day(2)},12.50,Groceries,"'=Bread, ""and"" cheese"`,
      '',
    ]);

    await here.getByRole('radio', { name: '$' }).focus();
    await here.getByText('$', { exact: true }).click();
    await here.locator('#total').filter({ hasText: '$62.50' }).waitFor();
    await here.reload();
    await here.locator('#total').filter({ hasText: '$62.50' }).waitFor();
    await app.picture(here, 'month');

    await here.getByRole('button', { name: /^Remove: Train/ }).click();
    await here.getByRole('button', { name: 'Remove', exact: true }).click();
    await there.locator('#total').filter({ hasText: '12.50' }).waitFor();
    await here.getByRole('button', { name: 'Month before' }).click();
    await here.getByText('Nothing spent this month.').waitFor();
    // The browser reports the two refusals (409) that were asked for above.
    assert.deepEqual(
      app.complaints.filter((text) => !text.includes('status of 409')),
      [],
    );
  });

  test('two people see who paid, and who owes what', async (t) => {
    const app = await openTemplate(t, 'expenses');
    const [mia, noah] = [await app.windowOf('Mia'), await app.windowOf('Noah')];
    const add = async (page: Page, amount: string, note: string) => {
      await page.locator('#amount').fill(amount);
      await page.locator('#day').fill(day(3));
      await page.locator('#note').fill(note);
      await page.locator('#note').press('Enter');
      await page.locator('.expense').filter({ hasText: note }).waitFor();
    };
    await add(mia, '40', 'Market');
    assert.equal(await mia.getByLabel('Paid by').first().isVisible(), false, 'there is nobody else');
    await add(noah, '10', 'Bread');
    await noah.locator('#add').getByLabel('Paid by').selectOption('Mia');
    await add(noah, '6', 'Soap');
    const balances = mia.getByRole('region', { name: 'Who paid' }).getByRole('listitem');
    await balances.filter({ hasText: 'Mia' }).getByText('gets back €18.00').waitFor();
    await balances.filter({ hasText: 'Noah' }).getByText('owes €18.00').waitFor();
    await mia.locator('.expense').filter({ hasText: 'Soap' }).getByText('Mia').waitFor();
    await app.picture(mia, 'people');
    assert.deepEqual(await accessibilityFaults(mia), []);
    assert.deepEqual(app.complaints, []);
  });

  test('its tools, and the month in review', async (t) => {
    const app = await openTemplate(t, 'expenses');
    await callEveryTool(app);
    assert.equal((await app.gateway.write(app.id, 'remove', { id: 1 })).json.data.status, 404);

    for (const cents of [1000, 2000, 3000]) await app.write('add', { cents, day: day(10, 1), category: 3 });
    await app.write('updateCategory', { id: 3, budget: 5000 });
    const first = await app.read('list', { limit: 2 });
    const second = await app.read('list', { limit: 2, before: first.next });
    assert.deepEqual(
      [...first.expenses, ...second.expenses].map(({ cents }) => cents),
      [3000, 2000, 1000],
    );
    assert.equal(second.next, null);

    const last = day(1, 1).slice(0, 7);
    const outputs = await runEveryAutomation(app);
    assert.deepEqual(outputs, { monthly: { month: last, total: 6000, over: ['Home'] } });
    const [, summary] = await app.read('summaries');
    assert.equal(summary.text, '60.00 in 3 expenses. Most went to Home: 60.00. Home is 10.00 over its budget.');
  });
}
