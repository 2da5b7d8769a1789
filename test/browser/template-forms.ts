/** The forms of the templates: how a person adds one thing, wherever the page is shown. */
import type { Locator, Page } from 'playwright-core';
import type { TemplateApp } from './template-app.ts';
import { dayAgo } from './template-calls.ts';

/** A page, or a frame with one. */
export type Shown = Pick<Page, 'getByLabel' | 'getByPlaceholder' | 'getByRole' | 'getByText' | 'locator'>;

/** How a person adds one thing in a template. */
export type Form = {
  id: string;
  /** Rows that must exist first. */
  prepare?(app: TemplateApp): Promise<unknown>;
  /** It works without a sign-in. */
  isPublic?: boolean;
  fill(page: Shown, text: string): Promise<void>;
  send(page: Shown): Promise<void>;
  /** The field with the text, and the element that shows that it was stored. */
  field(page: Shown): Locator;
  row(page: Shown, text: string): Locator;
  count(app: TemplateApp, text: string): Promise<number>;
  /** The same from elsewhere, for pages that show what was added. */
  add?(app: TemplateApp, text: string): Promise<unknown>;
};

const countIn = (rows: Record<string, unknown>[], member: string, text: string) =>
  rows.filter((row) => row[member] === text).length;
const enterIn = (field: Locator) => field.press('Enter');

export const FORMS: Form[] = [
  {
    id: 'todos',
    fill: (page, text) => page.getByLabel('New todo').fill(text),
    send: (page) => enterIn(page.getByLabel('New todo')),
    field: (page) => page.getByLabel('New todo'),
    row: (page, text) => page.locator('#list li:not([inert])').getByRole('button', { name: text, exact: true }),
    count: async (app, text) => countIn(await app.read('list'), 'title', text),
    add: (app, text) => app.write('add', { title: text }),
  },
  {
    id: 'habits',
    fill: (page, text) => page.locator('#name').fill(text),
    send: (page) => enterIn(page.locator('#name')),
    field: (page) => page.locator('#name'),
    row: (page, text) => page.locator('#list').getByText(text, { exact: true }),
    count: async (app, text) =>
      countIn(await app.read('board', { from: '2026-01-05', to: '2026-01-11', today: '2026-01-11' }), 'name', text),
    add: (app, text) => app.write('add', { name: text }),
  },
  {
    id: 'kanban',
    prepare: (app) => app.write('addBoard', { name: 'Garden' }),
    fill: (page, text) => page.getByPlaceholder('Add a card').first().fill(text),
    send: (page) => enterIn(page.getByPlaceholder('Add a card').first()),
    field: (page) => page.getByPlaceholder('Add a card').first(),
    row: (page, text) => page.getByRole('button', { name: text, exact: true }),
    count: async (app, text) => {
      const { columns } = await app.read('board', { id: 1 });
      return countIn(columns[0].cards, 'title', text);
    },
    add: (app, text) => app.write('addCard', { column: 1, title: text }),
  },
  {
    id: 'expenses',
    fill: async (page, text) => {
      // Without a category, which the page asks for when it opens, its browser sends nothing.
      await page.locator('#category option').first().waitFor({ state: 'attached' });
      await page.locator('#amount').fill('12.50');
      await page.locator('#note').fill(text);
    },
    send: (page) => enterIn(page.locator('#note')),
    field: (page) => page.locator('#note'),
    row: (page, text) => page.locator('#list .expense').filter({ hasText: text }),
    count: async (app, text) => {
      const month = `${new Date().getFullYear()}-${String(new Date().getMonth() + 1).padStart(2, '0')}`;
      return countIn((await app.read('list', { month })).expenses, 'note', text);
    },
    add: (app, text) => app.write('add', { cents: 100, day: dayAgo(), category: 1, note: text }),
  },
  {
    id: 'polls',
    fill: async (page, text) => {
      // The list may show a poll before its dialog has heard that it was made, closes and empties its fields.
      await page.locator('#add [type=submit]:enabled').waitFor({ state: 'attached' });
      if (!(await page.getByLabel('Question').isVisible()))
        await page.getByRole('button', { name: 'New poll' }).click();
      await page.getByLabel('Question').fill(text);
      await page.getByPlaceholder('Option 1').fill('Yes');
      await page.getByPlaceholder('Option 2').fill('No');
    },
    send: (page) => page.getByRole('button', { name: 'Make the poll' }).click(),
    field: (page) => page.getByLabel('Question'),
    row: (page, text) => page.getByRole('heading', { name: text, exact: true }),
    count: async (app, text) => countIn(await app.read('list'), 'question', text),
    add: (app, text) => app.write('add', { question: text, options: ['Yes', 'No'] }),
  },
  {
    id: 'bookmarks',
    fill: (page, text) => page.locator('#url').fill(`https://127.0.0.1:1/${text}`),
    send: (page) => enterIn(page.locator('#url')),
    field: (page) => page.locator('#url'),
    row: (page, text) => page.locator('#list').getByRole('link', { name: text }),
    count: async (app, text) => countIn(await app.read('list'), 'url', `https://127.0.0.1:1/${text}`),
    add: (app, text) => app.write('add', { url: `https://127.0.0.1:1/${text}` }),
  },
  {
    id: 'contact',
    isPublic: true,
    fill: async (page, text) => {
      if (await page.locator('#another').isVisible()) await page.locator('#another').click();
      await page.locator('#name').fill('Ada');
      await page.locator('#email').fill('ada@example.org');
      await page.locator('#message').fill(text);
    },
    send: (page) => page.getByRole('button', { name: 'Send message' }).click(),
    field: (page) => page.locator('#message'),
    row: (page) => page.getByRole('heading', { name: 'Thank you, Ada!' }),
    count: async (app, text) => countIn((await app.read('inbox')).messages, 'message', text),
  },
];

/** The app that `svc new` makes. */
export const BLANK: Form = {
  id: '_blank',
  fill: (page, text) => page.getByLabel('New note').fill(text),
  send: (page) => enterIn(page.getByLabel('New note')),
  field: (page) => page.getByLabel('New note'),
  row: (page, text) => page.locator('#notes li').filter({ hasText: text }),
  count: async (app, text) => countIn(await app.read('list'), 'text', text),
  add: (app, text) => app.write('add', { text }),
};
