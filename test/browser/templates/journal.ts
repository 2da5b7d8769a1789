/** The journal template as a person uses it, and its tools called one by one. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { callEveryTool, installTemplate, runEveryAutomation, type TemplateApp } from '../template-app.ts';

const DAY_MS = 86_400_000;
/** The browser and this process are in one time zone. */
const day = (ago = 0) => {
  const now = new Date();
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate());
  return new Date(today - ago * DAY_MS).toISOString().slice(0, 10);
};
/** Four years, so that it works on a leap day too. */
const yearsAgo = (years: number) => `${Number(day().slice(0, 4)) - years}${day().slice(4)}`;

export function suite(): void {
  let app: TemplateApp;

  before(async () => {
    app = await installTemplate('journal');
  });
  after(() => app.close());

  afterEach(() => app.closeWindows());

  test('a text is stored, shown in another window, and shown after a reload', async () => {
    const [here, there] = [await app.window(), await app.window()];
    await here.getByText('Nothing yet.').waitFor();
    await app.picture(here, 'empty');
    await here.getByLabel('Entry').fill('Walked along the river with Ada.\nThe café was open.');
    await here.getByText('Saved', { exact: true }).waitFor();
    await there.getByText('10 words', { exact: true }).waitFor();
    assert.match(await there.getByLabel('Entry').inputValue(), /^Walked along/);
    await here.reload();
    await here.getByText('Saved', { exact: true }).waitFor();
    assert.match(await here.getByLabel('Entry').inputValue(), /café was open\.$/);
    await here.getByRole('button', { name: 'Day before' }).click();
    await here.getByText('Yesterday', { exact: true }).waitFor();
    await here.getByLabel('Entry').fill('Rain all day.');
    await here.getByText('Saved', { exact: true }).waitFor();
    await there.getByRole('button', { name: 'Rain all day.' }).click();
    await there.getByText('Yesterday', { exact: true }).waitFor();
    await there.locator('dd#streak').filter({ hasText: '2' }).waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('typing is possible only after the day has loaded, which would replace the text', async () => {
    const page = await app.window();
    const entry = page.getByLabel('Entry');
    let answer = () => {};
    const answered = new Promise<void>((done) => {
      answer = done;
    });
    const asked = new Promise<void>((heard) => {
      void page.route('**/_tool/svc_read', async (route) => {
        heard();
        await answered;
        await route.continue();
      });
    });
    await page.reload({ waitUntil: 'commit' });
    await asked;
    assert.equal(await entry.isEditable(), false);
    answer();
    await page.locator('#text:not([readonly])').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
  });

  test('when two windows edit the same day, the person decides which text to keep', async () => {
    const [here, there] = [await app.window(), await app.window()];
    for (const page of [here, there]) await page.getByText('Saved', { exact: true }).waitFor();
    // A write that this window does not notice, between its last read and its save.
    await here.route(
      '**/_tool/svc_write',
      async (route) => {
        await app.write('save', { day: day(), text: 'From elsewhere.' });
        await route.continue();
      },
      { times: 1 },
    );
    await here.getByLabel('Entry').fill('Mine.');
    await here.getByRole('button', { name: 'Keep mine' }).waitFor();
    assert.equal((await app.read('entry', { day: day() })).text, 'From elsewhere.');
    await app.picture(here, 'conflict');
    await here.getByRole('button', { name: 'Keep mine' }).click();
    await here.getByText('Saved', { exact: true }).waitFor();
    assert.equal((await app.read('entry', { day: day() })).text, 'Mine.');
    await there.getByText('1 word', { exact: true }).waitFor();
    // Only the browser's console reports the 409 as an error.
    assert.deepEqual(
      app.complaints.splice(0).filter((text) => !text.includes('409')),
      [],
    );
  });

  test('search finds words by their beginnings, the calendar leads to days, and old years come back', async () => {
    for (let ago = 2; ago < 40; ago += 3) {
      await app.write('save', {
        day: day(ago),
        text: `The train to Lisbon was late. ${'A long day. '.repeat(ago * 3)}`,
      });
    }
    await app.write('save', { day: yearsAgo(4), text: 'Moved into the new flat.' });
    const page = await app.window();
    await page.getByText('Moved into the new flat.').first().waitFor();
    await app.picture(page, 'full');
    await page.getByRole('searchbox', { name: 'Search' }).fill('LISB trai');
    await page.getByRole('heading', { name: 'Found on 13 days' }).waitFor();
    await page.locator('mark').filter({ hasText: 'Lisbon' }).first().waitFor();
    await app.picture(page, 'search');
    await page.getByRole('searchbox', { name: 'Search' }).fill('');
    await page.getByRole('button', { name: `Open`, exact: false }).first().click();
    await page.waitForURL(`**/#${yearsAgo(4)}`);
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('Kept as you type', { exact: true }).waitFor();
    assert.equal((await app.read('entry', { day: yearsAgo(4) })).updatedAt, 0);
    await page.goBack();
    await page.getByText('Today', { exact: true }).first().waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('two people write on the same day, and neither sees the pages of the other', async () => {
    const [june, otto] = [await app.windowOf('June'), await app.windowOf('Otto')];
    await june.getByText('Nothing yet.').waitFor();
    await june.getByLabel('Entry').fill('A secret of June.');
    await june.getByText('Saved', { exact: true }).waitFor();
    await otto.getByText('Others who have this app do not see your pages.').waitFor();
    await otto.getByRole('searchbox', { name: 'Search' }).fill('secret');
    await otto.getByRole('heading', { name: 'Nothing found' }).waitFor();
    await otto.getByLabel('Entry').fill('Words of Otto, and of nobody else.');
    await otto.getByText('Saved', { exact: true }).waitFor();
    await june.locator('dd#total-words').filter({ hasText: '4' }).waitFor();
    assert.equal(await june.getByLabel('Entry').inputValue(), 'A secret of June.');
    assert.ok(!(await otto.content()).includes('June'));
    await app.picture(otto, 'person');
    assert.deepEqual(app.complaints, []);
  });

  test('the typeface and the theme are kept', async () => {
    const page = await app.window();
    await page.getByLabel('Typeface').selectOption('Sans');
    await page.locator('html[data-typeface=sans]').waitFor();
    await page.reload();
    assert.equal(await page.locator('html').getAttribute('data-typeface'), 'sans');
    await page.getByLabel('Theme').selectOption('Dark');
    await page.locator('html[data-theme=dark]').waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('the week in review', async () => {
    const outputs = await runEveryAutomation(app);
    const { days } = outputs['weekly-review'] as { days: number };
    assert.ok(days >= 2, `${days} days`);
    const page = await app.window();
    await page.getByText(`${days} of 7 days`).waitFor();
  });

  test('every tool does what its contract says', async () => {
    await callEveryTool(app);
    assert.equal((await app.gateway.write(app.id, 'remove', { day: '2020-02-29' })).status, 404);
    assert.deepEqual(await app.read('search', { text: 'leap' }), []);
    const refused = await app.gateway.write(app.id, 'save', { day: '2020-01-01', text: 'x', seen: 5 });
    assert.equal(refused.status, 409);
    assert.deepEqual(await app.read('search', { text: '"*' }), []);
  });
}
