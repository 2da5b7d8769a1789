/** Drives the console in a browser for tests: signs in, opens its views, and checks for faults in them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { BrowserContext, Page } from 'playwright-core';
import type { TestGateway } from './gateway.ts';
import { linkTo } from './pages.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Each view of the console with the template todos as an app: the end of its address by a short name. */
export const VIEWS = {
  home: '/',
  overview: '/apps/todos',
  tools: '/apps/todos/tools',
  data: '/apps/todos/data?table=todos',
  sql: '/apps/todos/data?sql=1',
  code: '/apps/todos/code',
  versions: '/apps/todos/code?show=versions',
  'app-automations': '/apps/todos/automations',
  logs: '/apps/todos/logs',
  chat: '/apps/todos/chat',
  files: '/apps/todos/files',
  settings: '/apps/todos/settings',
  automations: '/automations',
  calendar: '/automations/calendar',
  automation: '/automations/todos/digest',
  'new-automation': '/automations/new?app=todos',
  runs: '/runs',
  people: '/people',
  account: '/account',
  system: '/system',
  insights: '/system/insights',
  notices: '/system/notices',
  backups: '/system/backups',
  trash: '/system/trash',
  'sign-in': '/system/sign-in',
  document: '/docs/backup?part=removed-apps',
} as const;

/** Opens a view, `/apps/todos/data` or the like, signed in. `complaints` collects the errors of the browser. */
export async function openConsole(
  context: BrowserContext,
  gateway: TestGateway,
  view = '/',
  complaints: string[] = [],
): Promise<{ page: Page; complaints: string[] }> {
  const page = await context.newPage();
  page.on('console', (message) => {
    // The page of an app, which the console shows in a frame, may wish for the focus.
    const isOfPage = message.text().startsWith('Blocked autofocusing');
    if (message.type() === 'error' && !isOfPage) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(await linkTo(gateway));
  await page.locator('#content').waitFor();
  await openView(page, view);
  return { page, complaints };
}

/** Shows another view of an open console. */
export async function openView(page: Page, view: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(`#${view}`)}`);
}

/**
 * Asserts that axe-core finds no problem, and that the page is not wider than the window. It skips the elements that
 * `without` selects: the page of an app in a frame has separate tests.
 */
export async function assertAccessible(page: Page, without: readonly string[] = []): Promise<void> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(AXE);
  const found = (await page.evaluate(
    `axe.run({ exclude: ${JSON.stringify(without.map((selector) => [selector]))} }, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) =>
      id + ': ' + nodes.map(({ html, failureSummary }) => html.slice(0, 200) + ' ' + failureSummary).join('; ')))`,
  )) as string[];
  assert.deepEqual(found, [], `axe-core at ${page.url()}`);
  const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
  assert.ok((over as number) <= 0, `${page.url()} is ${over} px wider than the window`);
}
