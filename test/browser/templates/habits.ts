/** The habits template as a person uses it, and its tools called one by one. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { callEveryTool, installTemplate, runEveryAutomation, type TemplateApp } from '../template-app.ts';

const DAY_MS = 86_400_000;
/** The browser and this process are in one time zone. */
const day = (ago = 0) => {
  const now = new Date();
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate());
  return new Date(today - ago * DAY_MS).toISOString().slice(0, 10);
};

export function suite(): void {
  let app: TemplateApp;

  before(async () => {
    app = await installTemplate('habits');
  });
  after(() => app.close());
  afterEach(() => app.closeWindows());

  const row = (page: Page, name: string) =>
    page.getByRole('listitem').filter({ has: page.getByRole('group', { name }) });
  const today = (page: Page, name: string) => row(page, name).locator('input.today');

  test('a habit is added and checked off, another window shows it, and so does a reload', async () => {
    const [here, there] = [await app.window(), await app.window()];
    await here.getByText('No habits yet.').waitFor();
    await app.picture(here, 'empty');
    await here.getByLabel('New habit').fill('Read ten pages');
    await here.keyboard.press('Enter');
    await here.getByLabel('New habit').fill('Run');
    await here.getByLabel('How often').first().selectOption('3 days a week');
    await here.getByRole('button', { name: 'Add' }).click();
    await there.getByText('0 of 2 done today').waitFor();
    await today(there, 'Read ten pages').check();
    await here.getByText('1 of 2 done today').waitFor();
    assert.ok(await today(here, 'Read ten pages').isChecked(), 'checked in the other window too');
    await here.reload();
    await here.getByText('1 of 2 done today').waitFor();
    await row(here, 'Run').getByText('0 of 3').waitFor();
    await today(here, 'Read ten pages').uncheck();
    await there.getByText('0 of 2 done today').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('arrows move over the grid and the space bar checks', async () => {
    const page = await app.window();
    await page.getByRole('button', { name: 'Week before' }).click();
    await page.getByText('The week of').waitFor();
    const boxes = row(page, 'Run').getByRole('checkbox');
    await boxes.first().focus();
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Space');
    await row(page, 'Run').getByText('3 of 3').waitFor();
    await page.reload();
    await row(page, 'Run').getByText('3 of 3').waitFor();
    await page.keyboard.press('n');
    assert.equal(await page.locator(':focus').getAttribute('id'), 'name');
    assert.deepEqual(app.complaints, []);
  });

  test('streaks are days for a habit of every day, and weeks for one with a goal', async () => {
    const reading = (await app.write('add', { name: 'Practise the piano', color: 'violet' })).id as number;
    for (const ago of [1, 2, 3, 4, 6, 7, 8, 9, 10])
      await app.write('check', { id: reading, day: day(ago), done: true });
    const swim = (await app.write('add', { name: 'Swim', goal: 2, color: 'blue' })).id as number;
    // Two days of each of the three weeks before this one, far from their edges.
    const sunday = Date.parse(day()) - ((new Date(day()).getUTCDay() + 6) % 7) * DAY_MS - DAY_MS;
    for (const back of [2, 4, 9, 11, 16, 18]) {
      const on = new Date(sunday - back * DAY_MS).toISOString().slice(0, 10);
      await app.write('check', { id: swim, day: on, done: true });
    }
    type Entry = { name: string; streak: number; best: number };
    const board = (await app.read('board', { from: day(6), to: day(), today: day() })) as Entry[];
    const found = new Map(board.map(({ name, streak, best }) => [name, [streak, best]]));
    assert.deepEqual(found.get('Practise the piano'), [4, 5]);
    assert.deepEqual(found.get('Swim'), [3, 3]);
    const page = await app.window();
    await row(page, 'Swim').getByText('3 weeks in a row').waitFor();
    await row(page, 'Practise the piano').getByText('4 days in a row').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('a habit is changed, archived, restored and removed', async () => {
    const page = await app.window();
    await page.getByRole('button', { name: /^Run/ }).click();
    const editor = page.getByRole('dialog', { name: 'Change the habit' });
    await editor.getByLabel('Name').fill('Run in the park');
    await editor.getByRole('radio', { name: 'rose' }).check();
    await app.picture(page, 'editor');
    await editor.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: /^Run in the park/ }).click();
    await editor.getByRole('button', { name: 'Put away' }).click();
    await page.getByText('Put away (1)').click();
    await app.picture(page, 'archive');
    await page.getByRole('button', { name: 'Take back: Run in the park' }).click();
    await page.getByRole('button', { name: /^Run in the park/ }).click();
    await editor.getByRole('button', { name: 'Remove…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await row(page, 'Run in the park').waitFor({ state: 'detached' });
    const board = (await app.read('board', { from: day(), to: day(), today: day() })) as { name: string }[];
    assert.deepEqual(
      board.map(({ name }) => name),
      ['Read ten pages', 'Practise the piano', 'Swim'],
    );
    assert.deepEqual(app.complaints, []);
  });

  test('the nightly roll-up is drawn', async () => {
    const outputs = await runEveryAutomation(app);
    assert.deepEqual(outputs.nightly, { habits: 3, done: 1, longest: 4 });
    for (let ago = 2; ago < 30; ago++) {
      await app.write('saveRollup', { day: day(ago), habits: 3, done: ago % 4, longest: 4, madeAt: 1 });
    }
    const page = await app.window();
    await page.getByText('Yesterday: 1 of 3 done.').waitFor();
    await app.picture(page, 'full');
    assert.deepEqual(app.complaints, []);
  });

  test('every tool does what its contract says', async () => {
    const { id } = await app.write('add', { name: 'Stretch' });
    await callEveryTool(app, { id });
    for (const [action, input] of [
      ['check', { id, day: day(), done: true }],
      ['update', { id, archived: false }],
      ['remove', { id }],
    ] as const) {
      assert.equal((await app.gateway.write(app.id, action, input)).status, 404, action);
    }
  });
}
