/** The template `feeds`, against a server in this process that serves RSS, Atom and something broken. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { runToEnd } from '../../../testing/runs.ts';
import { callEveryTool, openTemplate, runEveryAutomation } from '../template-app.ts';

const rss = (items: string) => `<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0"><channel><title>Bread &amp; Butter</title><link>/</link><description>Baking.</description>${items}</channel></rss>`;
const RYE = `<item><guid isPermaLink="false">rye-1</guid><title><![CDATA[Rye <em>bread</em> &amp; salt]]></title>
  <link>/rye</link><description>&lt;p onclick="alert(1)"&gt;It&#8217;s &lt;b&gt;dark&lt;/b&gt;.&lt;/p&gt;&lt;script&gt;alert(2)&lt;/script&gt;</description>
  <pubDate>Sat, 21 Nov 2026 10:00:00 +0100</pubDate></item>`;
const TRAP = `<item><guid>trap</guid><title>Do not click</title><link>javascript:alert(3)</link></item>`;
const BUN = `<item><title>Buns</title><link>/buns</link></item>`;
const ATOM = `<feed xmlns="http://www.w3.org/2005/Atom"><title type="html">Night &lt;i&gt;sky&lt;/i&gt;</title><link href="/sky"/>
  <entry><id>tag:moon</id><title>Moon</title><link rel="self" href="/x.xml"/><link href="/moon"/><updated>2026-11-20T21:00:00Z</updated>
  <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">Full <b>moon</b></div></content></entry></feed>`;

/** Answers by path; records the requests with their conditional headers. */
async function startSite(owner: { after(cleanup: () => void): void }) {
  const pages: Record<string, { body: string; type?: string; etag?: string }> = {
    '/rss.xml': { body: rss(RYE + TRAP), etag: '"1"' },
    '/atom.xml': { body: ATOM },
    '/broken.xml': { body: rss(RYE) },
    '/blog': {
      body: '<html><head><link rel="alternate" type="application/atom+xml" href="/atom.xml?a=1&amp;b=2"></head></html>',
      type: 'text/html',
    },
    '/nothing': { body: '<html><head></head><body>Hi</body></html>', type: 'text/html' },
  };
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    const page = pages[path];
    asked.push(`${path} ${request.headers['if-none-match'] ?? '-'}`);
    if (page?.etag && page.etag === request.headers['if-none-match']) response.writeHead(304).end();
    else if (!page) response.writeHead(404).end();
    else {
      response.writeHead(200, {
        'content-type': page.type ?? 'application/xml',
        ...(page.etag ? { etag: page.etag } : {}),
      });
      response.end(page.body);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  owner.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, pages, asked };
}

export function suite(): void {
  test('followed, read and refreshed, in two windows', async (t) => {
    const app = await openTemplate(t, 'feeds');
    const site = await startSite(t);
    const [here, there] = [await app.window(), await app.window()];
    await here.getByText('You follow nothing yet.').waitFor();
    await app.picture(here, 'empty');
    const follow = async (url: string) => {
      await here.getByLabel('Address of a feed or page').fill(url);
      await here.keyboard.press('Enter');
    };
    await follow(`${site.url}/nothing`);
    await here.getByRole('alert').filter({ hasText: 'This is no feed, and no page that names one' }).waitFor();
    await follow(`${site.url}/gone`);
    await here.getByRole('alert').filter({ hasText: 'The server answers 404.' }).waitFor();
    await follow(`${site.url}/rss.xml`);
    await there.getByRole('link', { name: 'Rye bread & salt' }).waitFor();
    await there.getByText('It’s dark.').waitFor();
    await here.getByRole('heading', { name: 'Bread & Butter' }).waitFor();
    await follow(`${site.url}/blog`);
    await here.getByRole('heading', { name: 'Night sky' }).waitFor();
    await here.getByText('Full moon').waitFor();
    await follow(`${site.url}/atom.xml?a=1&b=2`);
    await here.getByRole('alert').filter({ hasText: 'You follow “Night sky” already.' }).waitFor();

    const rye = there.getByRole('link', { name: 'Rye bread & salt' });
    assert.equal(await rye.getAttribute('href'), `${site.url}/rye`);
    assert.equal(await rye.getAttribute('rel'), 'noopener noreferrer');
    await there.getByText('Do not click').waitFor();
    assert.equal(await there.getByRole('link', { name: 'Do not click' }).count(), 0, 'only http and https are linked');

    await here.getByRole('button', { name: /^Unread/ }).click();
    await here.getByRole('button', { name: 'Unread 3 unread' }).waitFor();
    await rye.focus();
    await there.keyboard.press('s');
    await there.keyboard.press('m');
    await here.getByRole('button', { name: 'Unread 2 unread' }).waitFor();
    await here.getByRole('link', { name: 'Rye bread & salt' }).waitFor({ state: 'detached' });
    await here.getByRole('button', { name: 'Starred' }).click();
    await here.getByRole('link', { name: 'Rye bread & salt' }).waitFor();
    await here.getByRole('button', { name: 'Everything' }).click();
    await here.getByText('Do not click').waitFor();

    site.pages['/rss.xml'] = { body: rss(BUN + RYE + TRAP), etag: '"2"' };
    delete site.pages['/atom.xml'];
    await here.getByRole('button', { name: 'Refresh now' }).click();
    await here.getByRole('status').filter({ hasText: '1 new, 1 could not be fetched.' }).waitFor();
    await there.getByRole('link', { name: 'Buns' }).waitFor();
    await here.getByRole('button', { name: /^Night sky/ }).click();
    await here.getByText(/It could not be fetched .* The server answers 404\./).waitFor();
    await app.picture(here, 'trouble');
    await here.getByRole('button', { name: 'Everything' }).click();
    await here.getByText('Do not click').waitFor();
    await app.picture(here, 'items');

    await here.getByRole('button', { name: /^Night sky/ }).click();
    await here.getByRole('button', { name: 'Edit feed' }).click();
    await here.getByLabel('Title').fill('Stars');
    await here.getByRole('button', { name: 'Save' }).click();
    await here.locator('#editor').waitFor({ state: 'hidden' });
    await there.getByRole('button', { name: /^Stars/ }).waitFor();
    await here.getByRole('button', { name: 'Edit feed' }).click();
    await here.locator('#editor').getByRole('button', { name: 'Stop following' }).click();
    await here.locator('#confirm').getByRole('button', { name: 'Stop following' }).click();
    await there.getByRole('button', { name: /^Stars/ }).waitFor({ state: 'detached' });
    await there.getByRole('button', { name: 'Mark all as read' }).click();
    await there.getByText('You have read everything.').waitFor();
    await there.reload();
    await there.getByText('You have read everything.').waitFor();
    // The browser reports the refusals (409, 422) that were asked for above.
    assert.deepEqual(
      app.complaints.filter((text) => !/status of 4(09|22)/.test(text)),
      [],
    );
  });

  test('its tools, and the automation that fetches', async (t) => {
    const app = await openTemplate(t, 'feeds');
    const site = await startSite(t);
    await callEveryTool(app, { web: site.url });
    assert.deepEqual(site.asked, ['/rss.xml -', '/rss.xml "1"'], 'the request has the known validators');
    assert.deepEqual((await app.read('items', { show: 'all' })).items, []);

    for (const path of ['/rss.xml', '/atom.xml', '/broken.xml']) await app.write('subscribe', { url: site.url + path });
    assert.deepEqual(await app.write('refresh', {}), { checked: 3, added: 0, failed: 0 });
    site.pages['/rss.xml'] = { body: rss(BUN + RYE + TRAP) };
    site.pages['/broken.xml'] = { body: '<rss><channel><item>' };
    assert.deepEqual(await runEveryAutomation(app), { refresh: { checked: 3, added: 1, failed: 1 } });
    const again = await runToEnd(app.gateway, `${app.id}/refresh`);
    assert.equal(again.summary, '0 new in 3 feeds, 1 could not be fetched');
    const problems = (await app.read('feeds')).map(({ problem }: { problem: string | null }) => problem);
    assert.deepEqual(problems.sort(), ['It cannot be read as a feed: <item> has no end.', null, null]);
    const first = await app.read('items', { show: 'all', limit: 3 });
    const second = await app.read('items', { show: 'all', limit: 3, before: first.next });
    const titles = [...first.items, ...second.items].map(({ title }) => title);
    assert.deepEqual([...titles].sort(), ['Buns', 'Do not click', 'Moon', 'Rye bread & salt', 'Rye bread & salt']);
    assert.equal(titles.at(-1), 'Moon', 'the oldest is last');
  });
}
