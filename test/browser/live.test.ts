/** `svc.live` in a page, in a real browser (decisions, section 13). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { rotateToken } from '../../storage/token.ts';
import { appOf } from '../../testing/apps.ts';
import { startChromium } from '../../testing/chromium.ts';
import { eventually } from '../../testing/edges.ts';
import { startGateway, type TestGateway } from '../../testing/gateway.ts';
import { consoleOf, enter } from '../../testing/pages.ts';
import { withoutChromium } from './chromium.ts';

const PATIENCE_MS = 90_000;

const APP = appOf('notes', {
  migrations: ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT); CREATE TABLE slow (title TEXT)'],
  queries: {
    list: '({ db, input }) => db.all("SELECT title FROM items WHERE title LIKE ? ORDER BY id", (input.like ?? "") + "%")',
    count: '({ db }) => db.get("SELECT count(*) AS n FROM items")',
    slow: '({ db, input }) => db.all("SELECT title FROM slow WHERE title = ?", input.title)',
  },
  actions: {
    add: { run: '({ db, input }) => db.run("INSERT INTO items (title) VALUES (?)", input.title)', writes: ['items'] },
    addSlowly: {
      run: `async ({ db, input }) => {
        await db.run("INSERT INTO slow VALUES (?)", input.title);
        await new Promise((done) => setTimeout(done, input.ms));
      }`,
      writes: ['slow'],
    },
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
      told.statuses = [];
      document.addEventListener('svc:status', ({ detail }) => told.statuses.push(detail.status));
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
    gateway = await startGateway(owner, { store: 'git' });
    assert.equal((await gateway.upload('notes', APP)).status, 201);
    browser = await startChromium();
    page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await enter(page, gateway, { app: 'notes' });
  });
  after(async () => {
    await browser?.close();
    await removeGateway();
  });

  const add = (title: string) => gateway.write('notes', 'add', { title });
  /** The last value that the page got. */
  const last = (list: string, value: unknown) => holds(`told.${list}.at(-1) === ${JSON.stringify(value)}`);
  /** Not `waitForFunction`: the page's policy lets it evaluate no text. After a reload the page is asked again. */
  const holds = (expression: string) => eventually(() => page.evaluate(expression).catch(() => false));

  test('each callback is called at once and with each change, by one stream', async () => {
    await Promise.all([last('all', 0), last('again', 0), last('count', 0), last('errors', 'UNKNOWN_QUERY')]);
    await add('apple');
    await Promise.all([last('all', 1), last('again', 1), last('count', 1)]);
    assert.deepEqual(await page.evaluate('told.errors'), ['UNKNOWN_QUERY']);
    assert.equal((await gateway.system()).counters.subscribers, 1);
  });

  test('a change by an action of the page comes after its answer, unless that takes long', async () => {
    const order = (title: string, ms: number) =>
      page.evaluate(
        `(async () => {
          const order = [];
          const told = new Promise((done) => {
            svc.live('slow', { title: '${title}' }, (rows) => { order.push(rows.length); if (rows.length > 0) done(); });
          });
          while (order.length === 0) await svc.read({ query: 'count' });
          await svc.write({ action: 'addSlowly', input: { title: '${title}', ms: ${ms} } });
          order.push('answer');
          await told;
          return order;
        })()`,
      );
    assert.deepEqual(await order('quick', 100), [0, 'answer', 1]);
    assert.deepEqual(await order('slow', 4000), [0, 1, 'answer']);
  });

  test('a query that is followed later comes without the others again, and an ended one no longer comes', async () => {
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

  test('after a lost connection the page gets the changes, and nothing twice', async () => {
    await page.context().setOffline(true);
    await holds('svc.status === "offline"');
    await add('banana');
    await page.context().setOffline(false);
    await Promise.all([last('again', 3), last('count', 3)]);
    assert.deepEqual(await page.evaluate('told.a'), [1, 2]);
  });

  /** The values of `list` and `count`, and the status events of the page, since the last call. */
  const news = () =>
    page.evaluate<unknown[][]>('[told.again, told.count, told.statuses].map((list) => list.splice(0))');
  /** The page follows again: missing values are on their way. */
  const follows = () => eventually(async () => (await gateway.system()).counters.subscribers === 1);
  const startAgain = async () => {
    await gateway.start(new URL(gateway.url).port);
    await page.evaluate('dispatchEvent(new Event("online"))');
    await follows();
  };
  /** At the console, in another window of the same browser. */
  const signOut = async () => {
    const other = await page.context().newPage();
    await other.goto(consoleOf(gateway));
    await other.evaluate(`fetch('/svc/_session', { method: 'DELETE' }).then((answer) => answer.text())`);
    await other.close();
  };
  const signIn = async () => {
    const other = await page.context().newPage();
    await enter(other, gateway, { app: 'notes' });
    await other.close();
    await page.evaluate('dispatchEvent(new Event("focus"))');
    await follows();
  };

  test('a restarted gateway sends changes by itself, once, and nothing to a page that has them', async () => {
    await news();
    await gateway.kill();
    await holds('svc.status === "offline"');
    await startAgain();
    // Anything sent earlier would have arrived before this.
    await add('cherry');
    await Promise.all([last('again', 4), last('count', 4)]);
    assert.deepEqual(await news(), [[4], [4], ['offline', 'online']]);
    await gateway.kill();
    await holds('svc.status === "offline"');
    await gateway.start(new URL(gateway.url).port);
    await add('date');
    await Promise.all([last('again', 5), last('count', 5)]);
    await follows();
    await add('elder');
    await Promise.all([last('again', 6), last('count', 6)]);
    assert.deepEqual(await news(), [
      [5, 6],
      [5, 6],
      ['offline', 'online'],
    ]);
  });

  for (const [way, end] of [
    ['is signed out', signOut],
    [
      'ends with the token',
      async () => {
        gateway.token = await rotateToken(join(gateway.dataDir, 'token.bin'));
      },
    ],
  ] as const) {
    test(`when the session ${way}, the stream ends, the page says so, and gets the latest value after a sign-in`, async () => {
      await news();
      await end();
      await holds('svc.status === "signed-out"');
      await eventually(async () => (await gateway.system()).counters?.subscribers === 0);
      const before = (await gateway.read('notes', 'count')).json.data.n;
      await add('fig');
      assert.deepEqual(await news(), [[], [], ['signed-out']], 'no value comes without a session');
      await signIn();
      await Promise.all([last('again', before + 1), last('count', before + 1)]);
      assert.deepEqual(await news(), [[before + 1], [before + 1], ['online']]);
    });
  }

  test('a preview follows the data of its draft, and its code when a file is saved', async () => {
    const draft = { session: 's1', app: 'notes' };
    assert.equal((await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } })).status, 201);
    await enter(page, gateway, draft);
    const { n } = (await gateway.read('notes', 'count')).json.data;
    await Promise.all([last('again', n), last('count', n)]);
    await add('only live');
    const body = { app: 'notes', action: 'add', input: { title: 'only here' } };
    for (const more of [1, 2]) {
      assert.equal((await gateway.call('POST', '/svc/_draft/s1/_tool/svc_write', { body })).status, 200);
      await Promise.all([last('again', n + more), last('count', n + more)]);
    }
    assert.deepEqual((await news())[0], [n, n + 1, n + 2]);
    const path = '/svc/_sessions/s1/apps/notes/files/queries/count.js';
    const saved = await gateway.call('PUT', path, { body: 'export default () => ({ n: "saved" });\n' });
    assert.ok(saved.status < 300, saved.text);
    await last('count', 'saved');
    assert.equal((await gateway.read('notes', 'count')).json.data.n, n + 1, 'live has its own');
  });
});
