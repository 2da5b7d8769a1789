/** `svc.live` in a page, looked at through a real browser (decisions, section 13). */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { eventually } from '../../testing/edges.ts';
import { startGateway, type TestGateway } from '../../testing/gateway.ts';
import { enter } from '../../testing/pages.ts';
import { startChromium, withoutChromium } from './chromium.ts';

const PATIENCE_MS = 90_000;

const APP = appOf('notes', {
  migrations: ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT)'],
  queries: {
    list: '({ db, input }) => db.all("SELECT title FROM items WHERE title LIKE ? ORDER BY id", (input.like ?? "") + "%")',
    count: '({ db }) => db.get("SELECT count(*) AS n FROM items")',
  },
  actions: {
    add: { run: '({ db, input }) => db.run("INSERT INTO items (title) VALUES (?)", input.title)', writes: ['items'] },
  },
  files: {
    'index.html':
      '<!doctype html><html lang="en"><head><title>Notes</title></head><body><script src="page.js"></script></body></html>',
    'page.js': `
      window.told = { all: [], again: [], count: [], a: [], errors: [], changes: 0 };
      svc.onChange(() => { told.changes += 1; });
      window.stop = svc.live('list', {}, (rows) => { told.all.push(rows.length); rows.length = 0; });
      svc.live('list', {}, (rows) => told.again.push(rows.length));
      svc.live('count', {}, ({ n }) => told.count.push(n));
      svc.live('nothing', {}, () => {}, ({ code }) => told.errors.push(code));
    `,
  },
});

describe('svc.live in a browser', { skip: withoutChromium() }, () => {
  let gateway: TestGateway;
  let removeGateway: () => Promise<void>;
  let browser: Browser;
  let page: Page;

  before(async () => {
    const owner = {
      after: (remove: () => Promise<void>) => {
        removeGateway = remove;
      },
    };
    gateway = await startGateway(owner, {});
    assert.equal((await gateway.upload('notes', APP)).status, 201);
    browser = await startChromium();
    page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await enter(page, gateway, { app: 'notes' });
  });
  after(async () => {
    await browser?.close();
    await removeGateway();
  });

  const add = (title: string) => gateway.write('notes', 'add', { title });
  /** What the page was told last. */
  const last = (list: string, value: unknown) => holds(`told.${list}.at(-1) === ${JSON.stringify(value)}`);
  /** Not `waitForFunction`: the page's policy lets it evaluate no text. */
  const holds = (expression: string) => eventually(() => page.evaluate(expression));

  test('each callback is called at once and with each change, by one stream', async () => {
    await Promise.all([last('all', 0), last('again', 0), last('count', 0), last('errors', 'UNKNOWN_QUERY')]);
    await add('apple');
    await Promise.all([last('all', 1), last('again', 1), last('count', 1)]);
    assert.deepEqual(await page.evaluate('told.errors'), ['UNKNOWN_QUERY']);
    assert.equal((await gateway.system()).counters.subscribers, 1);
  });

  test('a query that is followed later comes without those that the page has, and an ended one no more', async () => {
    await page.evaluate(`
      svc.live('list', { like: 'a' }, (rows) => told.a.push(rows.length));
      stop();
    `);
    await last('a', 1);
    await add('avocado');
    await Promise.all([last('a', 2), last('again', 2), last('count', 2)]);
    assert.deepEqual(await page.evaluate('[told.all, told.again, told.count]'), [
      [0, 1],
      [0, 1, 2],
      [0, 1, 2],
    ]);
    assert.equal((await gateway.system()).counters.subscribers, 1);
  });

  test('after the connection was lost, what changed is told, and nothing twice', async () => {
    await page.context().setOffline(true);
    await holds('svc.status === "offline"');
    await add('banana');
    await page.context().setOffline(false);
    await Promise.all([last('again', 3), last('count', 3)]);
    assert.deepEqual(await page.evaluate('told.a'), [1, 2]);
  });
});
