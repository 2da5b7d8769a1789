/**
 * Open pages while the gateway is unreachable, and while signed out: their messages, the errors of calls, how they
 * recover, and what `svc.live` tells them (specification, "Page bridge").
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { BrowserContext, Frame, Page } from 'playwright-core';
import { rotateToken } from '../../storage/token.ts';
import { appOf } from '../../testing/apps.ts';
import { signBrowserIn } from '../../testing/browser-session.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { arrive, consoleOf, enter, OWN_FETCH, originOf } from '../../testing/pages.ts';
import { eventually } from '../../testing/waiting.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
const NOTES = { app: 'notes' };

const page = (body: string) => `<!doctype html><html lang="en"><head><title>Notes</title>
  <style>html { color-scheme: dark } body { margin: 0 } dialog { padding: 1rem }</style></head><body>${body}</body></html>`;

const FILES = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')" },
  actions: {
    add: {
      run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
      writes: ['notes'],
    },
  },
  files: {
    'index.html': page(
      `<h1>Notes</h1><textarea aria-label="Text"></textarea><div style="height: 2000px"></div><button id="last">Last</button>
       <dialog><button>In the dialog</button></dialog>`,
    ),
    'frame.html': page('<iframe src="index.html" width="800" height="400"></iframe>'),
    'sandbox.html': page(
      '<iframe src="index.html" width="800" height="400" sandbox="allow-scripts allow-same-origin"></iframe>',
    ),
  },
});

const OFFLINE = 'No connection.';
const SIGNED_OUT = 'You are signed out.';
/** The events of the page, in order, from now on. */
const FOLLOW = `window.told = []; document.addEventListener('svc:status', ({ detail }) => told.push(detail.status));
  svc.onChange(({ type }) => told.push(type));`;
const add = (text: string, more = '') =>
  `svc.write({ action: 'add', input: { text: '${text}' }${more} }).then(() => 'stored', ({ code, message }) => code + ': ' + message)`;

const UPLOAD = `svc.upload(new Blob(['four'])).then(({ size }) => size, ({ code }) => code)`;

const bar = (window: Pick<Page, 'getByRole'>, text: string) => window.getByRole('status').filter({ hasText: text });

const comesTrue = async (condition: () => unknown, what = String(condition)) =>
  assert.ok(await eventually(PATIENCE_MS, condition), `It did not come true: ${what}`);
/** Not `waitForFunction`: the policy of a page may let it evaluate no text. After a reload the page is asked again. */
const holds = (window: Page | Frame, expression: string) =>
  comesTrue(() => window.evaluate(expression).catch(() => false), expression);
const heard = (window: Page, last: string) => holds(window, `told.at(-1) === '${last}'`);
const isOnline = (window: Page | Frame) => holds(window, `svc.status === 'online'`);

/** A picture, if a person wants to look: SVC_LOOK names the folder. */
async function picture(window: Page, name: string): Promise<void> {
  const folder = process.env.SVC_LOOK;
  if (!folder) return;
  for (const width of [1120, 390]) {
    await window.setViewportSize({ width, height: 760 });
    await window.screenshot({ path: `${folder}/connection-${name}-${width}.png`, animations: 'disabled' });
  }
}

const LIST = appOf('list', {
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
      '<!doctype html><html lang="en"><head><title>List</title></head><body><script src="page.js"></script></body></html>',
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

describe('pages and their gateway', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ store: 'git' });

  describe('the connection of a page', () => connections(gateway));
  // The last, because the gateway gets another token.
  describe('svc.live', () => liveQueries(gateway));
});

function connections(gateway: TestGateway): void {
  let context: BrowserContext;

  before(() => gateway.install('notes', FILES));
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(() => context.close());

  async function open(): Promise<Page> {
    const window = await context.newPage();
    const following = window.waitForResponse(/_changes/);
    const { address } = await signBrowserIn(window, gateway, NOTES);
    await window.goto(address);
    await following;
    await window.evaluate(FOLLOW);
    return window;
  }

  const startAgain = () => gateway.start(new URL(gateway.url).port);
  const stored = async (text: string) => {
    const { json } = await gateway.read('notes', 'list');
    return json.data.filter((note: { text: string }) => note.text === text).length;
  };

  test('a page notices that the gateway was killed, keeps typed text, and reconnects by itself', async () => {
    const window = await open();
    await window.getByLabel('Text').fill('half a sentence');
    assert.equal(await window.evaluate('svc.status'), 'online');
    await gateway.kill();
    await bar(window, OFFLINE).waitFor();
    assert.equal(await window.evaluate('svc.status'), 'offline');
    assert.match(await window.evaluate(add('lost')), /^OFFLINE: There is no connection, so this was not sent\./);
    assert.equal(await window.evaluate(UPLOAD), 'OFFLINE');
    await picture(window, 'offline');
    await startAgain();
    await heard(window, 'reset');
    assert.deepEqual(await window.evaluate('told'), ['offline', 'online', 'reset']);
    assert.equal(await window.evaluate('svc.status'), 'online');
    assert.equal(await window.getByLabel('Text').inputValue(), 'half a sentence');
    await bar(window, 'Connected again.').waitFor();
    assert.equal(await window.evaluate(add('found')), 'stored');
    assert.equal(await window.evaluate(UPLOAD), 4);
    assert.deepEqual([await stored('lost'), await stored('found')], [0, 1]);
    await window.getByRole('status').waitFor({ state: 'detached' });
    assert.equal(await window.evaluate('document.documentElement.style.cssText'), '');
  });

  test('a call that ran when the gateway died rejects with an unknown outcome, and a person can retry at once', async () => {
    const window = await open();
    await window.route('**/_tool/svc_write', async (route) => {
      await gateway.kill();
      await route.continue();
    });
    assert.match(
      await window.evaluate(add('nobody knows')),
      /^UNREACHABLE: No answer came, so this may be stored or not\./,
    );
    assert.equal(await window.evaluate('svc.status'), 'offline', 'it knows before the call rejects');
    // The page tries by itself, too, and the button goes when it succeeds.
    await window.getByRole('button', { name: 'Try again' }).focus();
    await startAgain();
    await window.keyboard.press('Enter');
    await heard(window, 'reset');
  });

  test('without a network the page is offline until the browser has one again', async () => {
    const window = await open();
    await context.setOffline(true);
    await bar(window, OFFLINE).waitFor();
    await context.setOffline(false);
    await isOnline(window);
  });

  test('a gateway on this machine can be reached without a network', async () => {
    const window = await open();
    const asked = window.waitForResponse(/_session/);
    await window.evaluate('dispatchEvent(new Event("offline"))');
    await asked;
    assert.equal(await window.evaluate(add('without a network')), 'stored');
    assert.deepEqual(
      (await window.evaluate<string[]>('told')).filter((one) => one !== 'change'),
      [],
    );
  });

  test('a session that ended while the gateway was away shows as signed out when it is back', async () => {
    const window = await open();
    await window.getByLabel('Text').fill('half a sentence');
    await gateway.kill();
    await bar(window, OFFLINE).waitFor();
    await context.clearCookies();
    await startAgain();
    await window.evaluate('dispatchEvent(new Event("online"))');
    await bar(window, SIGNED_OUT).waitFor();
    assert.match(await window.evaluate(add('lost')), /^UNAUTHORIZED: Your session has ended\./);
    await enter(await context.newPage(), gateway, NOTES);
    await window.evaluate('dispatchEvent(new Event("focus"))');
    await heard(window, 'reset');
    assert.deepEqual(await window.evaluate('told'), ['offline', 'signed-out', 'online', 'reset']);
    assert.equal(await window.getByLabel('Text').inputValue(), 'half a sentence');
  });

  test('a call with `once` that got no answer is stored once, however often it is sent', async () => {
    const window = await open();
    const once = add('once', ', once: true');
    const keys: string[] = [];
    // The call arrives, but its answer does not.
    await window.route(
      '**/_tool/svc_write',
      async (route) => {
        const key = route.request().headers()['idempotency-key'] ?? '';
        keys.push(key);
        await arrive(gateway, route);
        await route.abort('connectionreset');
      },
      { times: 2 },
    );
    for (let attempt = 0; attempt < 2; attempt++) {
      assert.equal(
        await window.evaluate(once),
        'UNREACHABLE: No answer came. Send it again: it will not be stored twice.',
      );
    }
    assert.equal(await window.evaluate('svc.status'), 'online', 'the gateway answers');
    assert.equal(await window.evaluate(once), 'stored');
    assert.equal(await stored('once'), 1);
    assert.equal(await window.evaluate(once), 'stored');
    assert.equal(await stored('once'), 2, 'after an answer it is another call');
    assert.equal(keys[0], keys[1]);
    assert.equal(await window.evaluate(add('twice')), 'stored');
  });

  test('the bar is below the content, as light or dark as the page, and inside an open dialog', async () => {
    const window = await open();
    await gateway.kill();
    await bar(window, OFFLINE).waitFor();
    const button = window.getByRole('button', { name: 'Try again' });
    assert.equal(
      await window.evaluate('getComputedStyle(document.documentElement.lastElementChild).colorScheme'),
      'dark',
    );
    await window.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    await window.locator('#last').click({ trial: true });
    const [last, host] = await window.evaluate<[number, number]>(
      '[document.querySelector("#last").getBoundingClientRect().bottom, document.documentElement.lastElementChild.getBoundingClientRect().top]',
    );
    assert.ok(last <= host + 1, `the content ends at ${last}, the bar begins at ${host}`);
    const height = await window.evaluate<string>('document.documentElement.style.getPropertyValue("--svc-bar")');
    assert.ok(Number.parseFloat(height) > 30, height);
    await window.evaluate('document.querySelector("dialog").showModal()');
    await button.click({ trial: true });
    await window.getByRole('button', { name: 'In the dialog' }).click({ trial: true });
    await picture(window, 'dialog');
    await window.evaluate('document.querySelector("dialog").close()');
    await window.getByLabel('Text').focus();
    await button.focus();
    await startAgain();
    await window.keyboard.press('Enter');
    await window.getByRole('status').waitFor({ state: 'detached' });
    assert.equal(await window.evaluate('document.activeElement.localName'), 'textarea', 'the focus is where it was');
  });

  for (const name of ['frame', 'sandbox']) {
    test(`a page in a ${name} says where to sign in, and works again afterwards`, async () => {
      const window = await open();
      await window.goto(`${originOf(gateway, NOTES)}/${name}.html`);
      const frame = window.frameLocator('iframe');
      await frame.getByLabel('Text').fill('half a sentence');
      await context.clearCookies();
      await window.frames()[1]?.evaluate(`svc.read({ query: 'list' }).catch(() => {})`);
      const opened = name === 'frame' ? context.waitForEvent('page') : null;
      await frame.getByRole('link', { name: 'Sign in' }).click();
      await opened;
      await bar(frame, `If no tab opened, go to ${originOf(gateway, NOTES)}/index.html`).waitFor();
      if (name === 'sandbox') assert.equal(context.pages().length, 1);
      await enter(await context.newPage(), gateway, NOTES);
      // The other one looks by itself.
      if (name === 'sandbox') await window.frames()[1]?.evaluate('dispatchEvent(new Event("focus"))');
      else await window.bringToFront();
      await isOnline(window.frames()[1] as Frame);
      assert.equal(await frame.getByLabel('Text').inputValue(), 'half a sentence');
    });
  }

  for (const [way, refusal] of [
    ['its own 401', { status: 401, contentType: 'text/html', body: '<h1>Sign in</h1>' }],
    ['its own 401 in JSON', { status: 401, contentType: 'application/json', body: '{"error":"sign in"}' }],
    ['a redirect', { status: 302, headers: { location: '/login' } }],
  ] as const) {
    test(`a host in front of the gateway that refuses with ${way} signs in at the page itself`, async () => {
      const window = await open();
      let isSignedIn = false;
      await window.route(/_tool|_session/, (route) =>
        isSignedIn
          ? route.fulfill({ status: 404, json: { isError: true, error: { code: 'NOT_FOUND', message: '' } } })
          : route.fulfill(refusal),
      );
      assert.match(await window.evaluate(add('lost')), /^UNAUTHORIZED: /);
      await bar(window, SIGNED_OUT).waitFor();
      const link = window.getByRole('link', { name: 'Sign in' });
      await link.focus();
      assert.equal(await link.getAttribute('href'), `${originOf(gateway, NOTES)}/svc/notes/`);
      isSignedIn = true;
      await window.evaluate('dispatchEvent(new Event("focus"))');
      await heard(window, 'reset');
      assert.deepEqual(await window.evaluate('told'), ['signed-out', 'online', 'reset']);
    });
  }

  test('a visitor of a public page reads its data again when the gateway is back, without a session', async () => {
    const manifest = JSON.parse(String(FILES['app.json']));
    manifest.id = 'open';
    manifest.public = true;
    for (const tool of [...manifest.queries, ...manifest.actions]) tool.public = true;
    const files = { ...FILES, 'app.json': JSON.stringify(manifest) };
    assert.equal((await gateway.upload('open', files)).status, 201);
    const window = await context.newPage();
    await window.goto(`${originOf(gateway, { app: 'open' })}/`);
    await window.evaluate(FOLLOW);
    assert.equal(await window.evaluate(add('of a visitor')), 'stored');
    await gateway.kill();
    assert.match(await window.evaluate(add('lost')), /^UNREACHABLE: /);
    await bar(window, OFFLINE).waitFor();
    await startAgain();
    await heard(window, 'reset');
    assert.deepEqual(await window.evaluate('told'), ['offline', 'online', 'reset']);
    assert.equal(await window.evaluate(add('again')), 'stored');
    await window.getByRole('status').waitFor({ state: 'detached' });
  });

  test('another server that answers in place of the gateway is not taken for it', async () => {
    const window = await open();
    await window.route(/_tool|_session/, (route) => route.fulfill({ status: 502, body: '<h1>Bad gateway</h1>' }));
    assert.match(await window.evaluate(add('lost')), /^UNREACHABLE: /);
    assert.equal(await window.evaluate('svc.status'), 'offline');
    await window.unrouteAll();
    await isOnline(window);
  });
}

function liveQueries(gateway: TestGateway): void {
  let page: Page;

  before(async () => {
    await gateway.install('list', LIST);
    const context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    page = await context.newPage();
    await enter(page, gateway, { app: 'list' });
  });
  after(() => page.context().close());

  const add = (title: string) => gateway.write('list', 'add', { title });
  /** The last value that the page got. */
  const last = (list: string, value: unknown) => holds(page, `told.${list}.at(-1) === ${JSON.stringify(value)}`);
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
    await holds(page, 'svc.status === "offline"');
    await add('banana');
    await page.context().setOffline(false);
    await Promise.all([last('again', 3), last('count', 3)]);
    assert.deepEqual(await page.evaluate('told.a'), [1, 2]);
  });

  /** The values of `list` and `count`, and the status events of the page, since the last call. */
  const news = () =>
    page.evaluate<unknown[][]>('[told.again, told.count, told.statuses].map((list) => list.splice(0))');
  /** The page follows again: missing values are on their way. */
  const follows = () => comesTrue(async () => (await gateway.system()).counters.subscribers === 1);
  const startAgain = async () => {
    await gateway.start(new URL(gateway.url).port);
    await page.evaluate('dispatchEvent(new Event("online"))');
    await follows();
  };
  /** At the console, in another window of the same browser. */
  const signOut = async () => {
    const other = await page.context().newPage();
    await other.goto(consoleOf(gateway));
    await other.evaluate(`${OWN_FETCH}('/svc/_session', { method: 'DELETE' }).then((answer) => answer.text())`);
    await other.close();
  };
  const signIn = async () => {
    const other = await page.context().newPage();
    await enter(other, gateway, { app: 'list' });
    await other.close();
    await page.evaluate('dispatchEvent(new Event("focus"))');
    await follows();
  };

  test('a restarted gateway sends changes by itself, once, and nothing to a page that has them', async () => {
    await news();
    await gateway.kill();
    await holds(page, 'svc.status === "offline"');
    await startAgain();
    // Anything sent earlier would have arrived before this.
    await add('cherry');
    await Promise.all([last('again', 4), last('count', 4)]);
    assert.deepEqual(await news(), [[4], [4], ['offline', 'online']]);
    await gateway.kill();
    await holds(page, 'svc.status === "offline"');
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
      await holds(page, 'svc.status === "signed-out"');
      await comesTrue(async () => (await gateway.system()).counters?.subscribers === 0);
      const before = (await gateway.read('list', 'count')).json.data.n;
      await add('fig');
      assert.deepEqual(await news(), [[], [], ['signed-out']], 'no value comes without a session');
      await signIn();
      await Promise.all([last('again', before + 1), last('count', before + 1)]);
      assert.deepEqual(await news(), [[before + 1], [before + 1], ['online']]);
    });
  }

  test('a preview follows the data of its draft, and its code when a file is saved', async () => {
    const draft = { workspace: 's1', app: 'list' };
    assert.equal((await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } })).status, 201);
    await enter(page, gateway, draft);
    const { n } = (await gateway.read('list', 'count')).json.data;
    await Promise.all([last('again', n), last('count', n)]);
    await add('only live');
    const body = { app: 'list', action: 'add', input: { title: 'only here' } };
    for (const more of [1, 2]) {
      assert.equal((await gateway.call('POST', '/svc/_draft/s1/_tool/svc_write', { body })).status, 200);
      await Promise.all([last('again', n + more), last('count', n + more)]);
    }
    assert.deepEqual((await news())[0], [n, n + 1, n + 2]);
    const path = '/svc/_sessions/s1/apps/list/files/queries/count.js';
    const saved = await gateway.call('PUT', path, { body: 'export default () => ({ n: "saved" });\n' });
    assert.ok(saved.status < 300, saved.text);
    await last('count', 'saved');
    assert.equal((await gateway.read('list', 'count')).json.data.n, n + 1, 'live has its own');
  });
}
