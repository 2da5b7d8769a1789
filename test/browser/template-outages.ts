/**
 * Every template while the gateway is away, when an answer is lost, and when its session has ended: typed text stays,
 * nothing is stored twice.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { arrive } from '../../testing/pages.ts';
import { eventually } from '../../testing/waiting.ts';
import { installTemplate, PATIENCE_MS, type TemplateApp } from './template-app.ts';
import { dayAgo } from './template-calls.ts';
import { BLANK, FORMS, type Form } from './template-forms.ts';

/** Chromium complains about these by itself. */
const isNetwork = (complaint: string) => /ERR_|401|Failed to load|Failed to fetch/.test(complaint);

export function outages(): void {
  let app: TemplateApp;

  afterEach(async () => {
    assert.deepEqual(
      app.complaints.filter((complaint) => !isNetwork(complaint)),
      [],
    );
    await app.close();
  });

  /** A window on a new app, that follows the changes. */
  async function open(template: string, prepare?: Form['prepare']): Promise<Page> {
    app = await installTemplate(template);
    await prepare?.(app);
    const page = await app.window();
    await page.evaluate('window.stays = true');
    // Messages that vanish after 6 s may be gone before a busy machine checks.
    await page.evaluate(
      '{ const later = setTimeout; window.setTimeout = (run, ms) => later(run, ms === 6000 ? 600_000 : ms); }',
    );
    return page;
  }

  const bar = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text }).waitFor();
  const offline = async (page: Page) => {
    await app.setOffline(true);
    await bar(page, 'No connection.');
  };
  const online = async (page: Page) => {
    if (app.gateway.isRunning) await app.setOffline(false);
    else {
      await app.gateway.start(String(app.gateway.port));
      await page.evaluate('dispatchEvent(new Event("online"))');
    }
    await bar(page, 'Connected again.');
  };
  const signOut = async (page: Page) => {
    await app.signOut();
    await bar(page, 'You are signed out.');
  };
  const signIn = async (page: Page) => {
    await app.signIn();
    await page.evaluate('dispatchEvent(new Event("focus"))');
    await bar(page, 'Signed in again.');
  };
  /** The next call arrives at the gateway, and its answer does not come back: resolves when that has happened. */
  const loseAnswer = (page: Page) =>
    new Promise<void>((resolve) => {
      const lose = async (route: Route) => {
        await arrive(app.gateway, route);
        await route.abort('connectionreset');
        resolve();
      };
      void page.route('**/_tool/svc_write', lose, { times: 1 });
    });

  for (const { id, isPublic, prepare, fill, send, field, row, count } of [...FORMS, BLANK]) {
    test(`${id}: text that is added without a connection or a session stays typed, and is stored once`, async () => {
      const page = await open(id, prepare);
      const typed = id === 'bookmarks' ? (text: string) => `https://127.0.0.1:1/${text}` : (text: string) => text;
      const isTyped = async (text: string) =>
        assert.ok(await eventually(PATIENCE_MS, async () => (await field(page).inputValue()) === typed(text)));
      const kept = async (text: string, message: RegExp) => {
        await page.getByText(message).first().waitFor();
        await isTyped(text);
        await row(page, text).waitFor({ state: 'hidden' });
      };
      const added = async (text: string) => {
        await row(page, text).first().waitFor();
        await row(page, text).nth(1).waitFor({ state: 'hidden' });
        assert.equal(await count(app, text), 1);
      };

      await fill(page, 'milk');
      await page.route('**/_tool/svc_write', (route) => app.setOffline(true).then(() => route.continue()), {
        times: 1,
      });
      await send(page);
      await kept('milk', /will not be stored twice/);
      await bar(page, 'No connection.');
      await send(page);
      await kept('milk', /so this was not sent/);
      await online(page);
      await kept('milk', /Connected again/);
      await send(page);
      await added('milk');

      await fill(page, 'bread');
      const lost = loseAnswer(page);
      await send(page);
      await lost;
      await isTyped('bread');
      await page.getByText(/will not be stored twice/).waitFor();
      await send(page);
      await added('bread');

      await fill(page, 'salt');
      await signOut(page);
      await send(page);
      if (!isPublic) {
        await kept('salt', /Your session has ended/);
        await signIn(page);
        await send(page);
      }
      await added('salt');
      assert.equal(await page.evaluate('window.stays'), true, 'it is the same page');
    });
  }

  test('todos: a change without a connection shows the stored state, and a new title stays to be stored', async () => {
    const page = await open('todos', (todos) => todos.write('add', { title: 'Sow peas' }));
    const box = page.getByRole('checkbox', { name: 'Sow peas' });
    await box.waitFor();
    await offline(page);
    await box.click();
    await page.getByText(/so this was not sent/).waitFor();
    await page.getByRole('checkbox', { name: 'Sow peas', checked: false }).waitFor();
    await page.getByRole('button', { name: 'Sow peas', exact: true }).click();
    await page.getByLabel('Title').fill('Sow beans');
    await page.getByLabel('Title').press('Enter');
    await page.getByLabel('Title').waitFor();
    assert.equal(await page.getByLabel('Title').inputValue(), 'Sow beans');
    await online(page);
    await page.getByLabel('Title').press('Enter');
    await page.getByRole('button', { name: 'Sow beans', exact: true }).waitFor();
  });

  test('habits: a check without a connection is reverted, and a dialog stays until it is stored', async () => {
    const page = await open('habits', (habits) => habits.write('add', { name: 'Stretch' }));
    const box = page.getByRole('checkbox', { name: /^Stretch, / }).first();
    await box.waitFor();
    await offline(page);
    await box.click();
    await page.getByText(/so this was not sent/).waitFor();
    assert.equal(await box.isChecked(), false);
    await page.getByRole('button', { name: /^Stretch/ }).click();
    await page.locator('#edit-name').fill('Swim');
    await page.getByRole('button', { name: 'Save' }).click();
    await page
      .getByRole('dialog')
      .getByText(/so this was not sent/)
      .waitFor();
    assert.equal(await page.locator('#edit-name').inputValue(), 'Swim');
    await online(page);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#list').getByText('Swim', { exact: true }).waitFor();
  });

  test('bookmarks: a dialog stays open until it is stored', async () => {
    const page = await open('bookmarks', (bookmarks) => bookmarks.write('add', { url: 'https://127.0.0.1:1/peas' }));
    await page.getByRole('button', { name: /^Change: .*peas/ }).click();
    await page.locator('#edit-note').fill('A long note');
    await offline(page);
    await page.getByRole('button', { name: 'Save' }).click();
    await page
      .getByRole('dialog')
      .getByText(/so this was not sent/)
      .waitFor();
    await online(page);
    assert.equal(await page.locator('#edit-note').inputValue(), 'A long note');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#list').getByText('A long note').waitFor();
    await page.getByRole('button', { name: 'Import' }).click();
    await page.locator('#import-text').fill('https://127.0.0.1:1/one');
    const lost = loseAnswer(page);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Import' }).click();
    await lost;
    await dialog.getByText(/will not be stored twice/).waitFor();
    await dialog.getByRole('button', { name: 'Import' }).click();
    await page.getByText('1 imported').first().waitFor();
  });

  test('kanban: a card that is moved without a connection moves back', async () => {
    const page = await open('kanban', async (kanban) => {
      const { id } = await kanban.write('addBoard', { name: 'House' });
      const { columns } = await kanban.read('board', { id });
      await kanban.write('addCard', { column: columns[0].id, title: 'Paint' });
    });
    const card = page.getByRole('button', { name: 'Paint', exact: true });
    const column = (at: number) => page.locator('#columns > *').nth(at).getByRole('button', { name: 'Paint' });
    await column(0).waitFor();
    await offline(page);
    await card.press('Shift+ArrowRight');
    await page.getByText(/so this was not sent/).waitFor();
    await column(0).waitFor();
    await card.click();
    await page.locator('#card-title').fill('Paint the door');
    await page.getByRole('button', { name: 'Save' }).click();
    await page
      .locator('#card-problem')
      .getByText(/so this was not sent/)
      .waitFor();
    await online(page);
    assert.equal(await page.locator('#card-title').inputValue(), 'Paint the door');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Paint the door' }).waitFor();
  });

  test('feeds: an item that is read without a connection is unread again, and an address stays typed', async () => {
    const page = await open('feeds', async () => {
      for (const sql of [
        "INSERT INTO feeds (url, title, added_at) VALUES ('https://127.0.0.1:1/', 'Garden', 1)",
        "INSERT INTO items (feed, guid, title, summary, published_at) VALUES (1, 'a', 'Peas', 'Now.', 1)",
      ]) {
        const { status, text } = await app.gateway.call('POST', `/svc/_apps/${app.id}/sql`, { body: { sql } });
        assert.equal(status, 200, text);
      }
    });
    const item = page.locator('li.item');
    await item.waitFor();
    await page.locator('#url').fill('https://127.0.0.1:1/rss.xml');
    await offline(page);
    await item.getByRole('button', { name: 'Mark as read' }).click();
    await page
      .getByText(/so this was not sent/)
      .first()
      .waitFor();
    await item.getByRole('button', { name: 'Mark as read' }).waitFor();
    await page.locator('#url').press('Enter');
    await page
      .locator('#url-problem')
      .getByText(/so this was not sent/)
      .waitFor();
    assert.equal(await page.locator('#url').inputValue(), 'https://127.0.0.1:1/rss.xml');
    await online(page);
  });

  test('expenses: what a busy gateway does not answer is read again, without a click', async () => {
    const page = await open('expenses', (expenses) =>
      expenses.write('add', { cents: 1250, day: dayAgo(), category: 1, note: 'Peas' }),
    );
    await page.getByText('Peas').waitFor();
    const busy = (route: Route) =>
      route.fulfill({
        status: 503,
        json: { isError: true, error: { code: 'OVERLOADED', message: 'The app is busy.' } },
      });
    await page.route('**/_tool/svc_read', busy, { times: 1 });
    await page.reload();
    await page.getByText('The app is busy.').waitFor();
    await page.getByText('Peas').waitFor();
  });

  const insertItem = async () => {
    for (const sql of [
      "INSERT OR IGNORE INTO feeds (id, url, title, added_at) VALUES (9, 'https://127.0.0.1:1/9', 'Shed', 1)",
      "INSERT INTO items (feed, guid, title, summary, published_at) VALUES (9, 'm', 'Meanwhile', 'Now.', 1)",
    ]) {
      const { status, text } = await app.gateway.call('POST', `/svc/_apps/${app.id}/sql`, { body: { sql } });
      assert.equal(status, 200, text);
    }
  };
  for (const [id, write] of [
    ['todos', () => app.write('add', { title: 'Meanwhile' })],
    ['kanban', () => app.write('addCard', { column: 1, title: 'Meanwhile' })],
    ['feeds', insertItem],
    [BLANK.id, () => app.write('add', { text: 'Meanwhile' })],
  ] as const) {
    test(`${id}: others' writes while signed out show afterwards, without a click`, async () => {
      const page = await open(id, id === 'kanban' ? (kanban) => kanban.write('addBoard', { name: 'Shed' }) : undefined);
      const row = page.getByText('Meanwhile', { exact: true });
      await signOut(page);
      await write();
      assert.equal(await row.count(), 0);
      await signIn(page);
      await row.waitFor();
      assert.equal(await page.evaluate('window.stays'), true, 'it is the same page');
    });
  }

  test('expenses: names and budgets of categories that were typed without a connection are stored when it is back', async () => {
    const page = await open('expenses');
    await page
      .getByRole('button', { name: /budgets/i })
      .first()
      .click();
    const name = page.getByLabel('Name of Groceries');
    await name.waitFor();
    await offline(page);
    await name.fill('Food');
    await name.blur();
    await page
      .locator('#category-problem')
      .getByText(/so this was not sent/)
      .waitFor();
    assert.equal(await name.inputValue(), 'Food');
    await online(page);
    await page.getByLabel('Name of Food').waitFor();
  });

  test('journal: a text is kept while there is no connection or session, and saved by itself afterwards', async () => {
    const page = await open('journal');
    const text = page.getByLabel('Entry');
    await text.fill('Rain.');
    await page.getByText('Saved', { exact: true }).waitFor();
    await offline(page);
    await text.fill('Rain, then sun.');
    await page.getByText(/^Not saved yet: There is no connection/).waitFor();
    await online(page);
    await page.getByText('Saved', { exact: true }).waitFor();
    await signOut(page);
    await text.fill('Rain, then sun, then rain.');
    await page.getByText(/^Not saved yet: Your session has ended/).waitFor();
    await signIn(page);
    await page.getByText('Saved', { exact: true }).waitFor();
    assert.equal(await text.inputValue(), 'Rain, then sun, then rain.');
    const lost = loseAnswer(page);
    await text.fill('Rain again.');
    await lost;
    await page.getByText(/^Not saved yet: No answer came/).waitFor();
    await page.getByText('Saved', { exact: true }).waitFor();
    const today = new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
    assert.equal((await app.read('entry', { day: today })).text, 'Rain again.');
  });

  test('gallery: photos that were not stored wait to be tried again, and a caption stays', async () => {
    const page = await open('gallery');
    const uploads = page.locator('#uploads li');
    const image = {
      name: 'peas.svg',
      mimeType: 'image/svg+xml',
      buffer: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    };
    await offline(page);
    await page.locator('#files').setInputFiles(image);
    await uploads.getByText(/so this was not sent/).waitFor();
    await online(page);
    await signOut(page);
    await uploads.getByRole('button', { name: 'Try again' }).click();
    await uploads.getByText(/Your session has ended/).waitFor();
    const link = page.getByRole('link', { name: 'Sign in' });
    await link.focus();
    assert.equal(await link.getAttribute('target'), '_blank', 'in this tab the photo would be lost');
    await signIn(page);
    await uploads.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('button', { name: 'peas.svg' }).click();
    await uploads.waitFor({ state: 'detached' });
    await page.locator('#caption').fill('The first peas');
    await offline(page);
    await page.locator('#caption').press('Enter');
    await page
      .locator('#caption-problem')
      .getByText(/so this was not sent/)
      .waitFor();
    await online(page);
    assert.equal(await page.locator('#caption').inputValue(), 'The first peas');
    await page.locator('#caption').press('Enter');
    await page.locator('#caption-problem').waitFor({ state: 'hidden' });
    await page.getByText('The caption was saved.').waitFor({ state: 'attached' });
    assert.equal((await app.read('list', { limit: 5 })).photos[0].caption, 'The first peas');
  });
}
