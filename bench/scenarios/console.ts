/** What the console takes where there are many apps: its script, until it is there, and until a page of a large table is. */
import type { Page } from 'playwright-core';
import { startChromium } from '../../testing/chromium.ts';
import { linkTo } from '../../testing/pages.ts';
import { APP } from '../bench-app.ts';
import { type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact } from '../measurements.ts';
import { median } from '../statistics.ts';
import { appIds, crowd } from './crowd.ts';

const SIZES = { full: { apps: 500, rows: 100_000, times: 20 }, smoke: { apps: 5, rows: 2000, times: 2 } };
const ROW_PX = 34;

/** In a page that shows the console anew: the milliseconds until the first app is drawn. */
export const READY = `new Promise((resolve) => {
  const look = () => document.querySelector('.app-card') ? resolve(performance.now()) : requestAnimationFrame(look);
  look();
})`;

/** Scrolls the grid to a row and resolves to the milliseconds until it is drawn. */
const scrolledTo = (row: number) => `new Promise((resolve) => {
  const grid = document.querySelector('.grid');
  const begun = performance.now();
  grid.scrollTop = ${row} * ${ROW_PX};
  const look = () =>
    grid.querySelector('[aria-rowindex="${row + 2}"] .cell') ? resolve(performance.now() - begun) : requestAnimationFrame(look);
  look();
})`;

export const consoleScenario: Scenario = {
  name: 'console',
  question: 'How soon is the console there with 500 apps, and a page of a table of 100,000 rows?',
  run: async (context) => {
    const { apps, rows, times } = sized(context, SIZES);
    const dataDir = await crowd(context, appIds(apps));
    return withDaemon(context, (daemon) => measure(daemon, apps, rows, times), { dataDir });
  },
};

async function measure(daemon: Daemon, apps: number, rows: number, times: number): Promise<Finding[]> {
  const browser = await startChromium();
  try {
    const fill = `CREATE TABLE big AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
        SELECT i, 'Entry ' || i AS note FROM n`;
    await daemon.request('POST', `/svc/_apps/${APP}-0/sql`, JSON.stringify({ sql: fill }));
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const script = await scriptOf(page, await linkTo(daemon));
    const ready: number[] = [];
    for (let i = 0; i < times; i++) {
      await page.reload();
      ready.push(await page.evaluate<number>(READY));
    }
    await page.evaluate(`location.hash = '#/apps/${APP}-0/data?table=big'`);
    await page.locator('.grid .cell').first().waitFor();
    const pages: number[] = [];
    for (let i = 1; i <= times; i++) {
      // A page of rows that was not read before.
      pages.push(await page.evaluate<number>(scrolledTo(Math.floor((rows / (times + 1)) * i))));
    }
    return [
      fact('script of the first view', script / 2 ** 20, 'MiB', 'compressed, as Chromium got it'),
      fact('ready', median(ready), 'ms', `median of ${times} loads, ${apps} apps, signed in`),
      fact('a page of a table', median(pages), 'ms', `median of ${times} jumps in ${rows} rows`),
    ];
  } finally {
    await browser.close();
  }
}

/** Bytes of script that the first view takes. */
async function scriptOf(page: Page, address: string): Promise<number> {
  const sizes: Promise<{ responseBodySize: number }>[] = [];
  page.on('response', (response) => {
    const isScript = response.headers()['content-type']?.startsWith('text/javascript') ?? false;
    if (isScript) sizes.push(response.request().sizes());
  });
  await page.goto(address);
  await page.locator('.app-card').first().waitFor();
  const all = await Promise.all(sizes);
  page.removeAllListeners('response');
  return all.reduce((sum, { responseBodySize }) => sum + responseBodySize, 0);
}
