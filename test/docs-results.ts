/** What the documents say about pages, and how a browser checks it. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { Clone } from '../testing/clone.ts';
import { LONG_MS } from '../testing/waiting.ts';
import { sharedChromium } from './browser/chromium.ts';
import { sharesAnApp } from './docs-people.ts';

type Result = {
  document: string;
  /** Words of the block after which it is true. */
  after: string;
  /** Whose page is opened. */
  app: string;
  what: string;
  look(page: Page, clone: Clone): Promise<unknown>;
};

/** Opens the page as a reader does, with the link of `svc open`, in a separate browser. */
export async function openPage(clone: Clone, app: string): Promise<Page> {
  const { url } = JSON.parse(await clone.run(`svc open ${app} --json`)) as { url: string };
  const context = await (await sharedChromium()).newContext({ colorScheme: 'light' });
  context.setDefaultTimeout(LONG_MS);
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForURL(({ hostname, pathname }) => hostname.startsWith(`${app}.`) && !pathname.includes('_enter'));
  return page;
}

const item = (page: Page, text: string) => page.getByRole('listitem').filter({ hasText: text });
const style = (page: Page, selector: string, name: string) =>
  page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${name}')`);

export const RESULTS: Result[] = [
  {
    document: 'docs/build.md',
    after: 'svc write notes add',
    app: 'notes',
    what: 'the page shows the note, and one that is written in the terminal meanwhile',
    look: async (page, clone) => {
      await item(page, 'Milk').waitFor();
      await clone.run(`svc write notes add '{"text": "Bread"}'`);
      await item(page, 'Bread').waitFor();
    },
  },
  {
    document: 'docs/use.md',
    after: '"Water the plants"',
    app: 'todos',
    what: 'the page shows what an agent added',
    look: (page) => item(page, 'Water the plants').waitFor(),
  },
  {
    document: 'docs/app-guide.md',
    after: 'svc write notes mark',
    app: 'notes',
    what: 'the note is marked on the page, and a click takes the mark away',
    look: async (page, clone) => {
      const box = item(page, 'Milk').getByRole('checkbox');
      await box.and(page.locator(':checked')).waitFor();
      await box.click();
      await box.and(page.locator(':not(:checked)')).waitFor();
      while (!/Milk/.test(await clone.run(`svc read notes list '{"marked": false}' --json`)));
    },
  },
  {
    document: 'docs/app-guide.md',
    after: 'Bread, butter, jam and honey',
    app: 'notes',
    what: 'the package of the handler shortened the text on the page',
    look: (page) => item(page, 'Bread, butter, jam …').waitFor(),
  },
  {
    document: 'docs/app-guide.md',
    after: '/svc/_apps/notes/settings',
    app: 'notes',
    what: 'the page is dark',
    look: async (page) => {
      await page.locator('html[data-theme=dark]').waitFor();
      assert.equal(await style(page, 'html', 'color-scheme'), 'dark');
    },
  },
  {
    document: 'docs/app-guide.md',
    after: 'UPDATE notes SET text = ?',
    app: 'notes',
    what: 'the page shows what SQL wrote',
    look: (page) => item(page, 'Oat milk').waitFor(),
  },
  {
    document: 'docs/authoring.md',
    after: 'Begin with the todo list',
    app: 'todos',
    what: 'the template has its page',
    look: (page) => page.getByRole('heading', { level: 1 }).waitFor(),
  },
  {
    document: 'docs/authoring.md',
    after: 'svc write notes tick',
    app: 'notes',
    what: 'the note is ticked on the page',
    look: (page) => item(page, '✓ Milk').waitFor(),
  },
  {
    document: 'docs/authoring.md',
    after: 'Tighter headings',
    app: 'notes',
    what: 'headings are tighter, and the file is the old one with a line more',
    look: async (page) => {
      assert.ok(Number.parseFloat(await style(page, 'h1', 'letter-spacing')) < 0);
      const css = await page.evaluate<string>(`fetch('style.css').then((answer) => answer.text())`);
      assert.doesNotMatch(css, /HTTP\/|content-type|etag/i);
      assert.notEqual(await style(page, 'main', 'max-width'), 'none', 'the rules before it hold');
    },
  },
  {
    document: 'docs/authoring.md',
    after: 'svc workspaces rm ben --yes',
    app: 'notes',
    what: 'the page has the line of Ben',
    look: (page) => page.getByPlaceholder('A note of ben…').waitFor(),
  },
  {
    document: 'docs/people.md',
    after: 'npm ci && npm start',
    app: 'todos',
    what: 'the owner makes an app and shares it, somebody uses it on a phone, and loses it at once',
    look: sharesAnApp,
  },
  {
    document: 'docs/live.md',
    after: 'svc push notes',
    app: 'notes',
    what: 'every window has the note, and what one window and the terminal add',
    look: async (page, clone) => {
      const other = await openPage(clone, 'notes');
      await item(other, 'Milk').waitFor();
      await page.getByRole('textbox').fill('Tea');
      await page.getByRole('button', { name: 'Add' }).click();
      await clone.run(`svc write notes add '{"text": "Bread"}'`);
      for (const window of [page, other]) for (const text of ['Tea', 'Bread']) await item(window, text).waitFor();
      await other.context().close();
    },
  },
];
