/** Authoring as people see it: pages that follow what is published, and drafts that follow their files (decisions, section 7). */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { startChromium, withoutChromium } from './chromium.ts';

/** Far more than any of it takes, so that a busy machine fails nothing. */
const PATIENCE_MS = 90_000;

describe('authoring in a browser', { skip: withoutChromium() }, () => {
  let gateway: TestGateway;
  let removeGateway: () => Promise<void>;
  let browser: Browser;
  let context: BrowserContext;
  let session: string;

  before(async () => {
    const owner = {
      after: (remove: () => Promise<void>) => {
        removeGateway = remove;
      },
    };
    gateway = await startGateway(owner, { store: 'git' });
    browser = await startChromium();
    context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const made = await gateway.call('POST', '/svc/_apps', { body: { id: 'notes', name: 'Notes' } });
    session = made.json.sessionId;
    await publish();
    const page = await context.newPage();
    await page.goto(`${gateway.url}/svc/#token=${gateway.token}`);
    await page.getByRole('heading', { name: 'Notes' }).first().waitFor();
    await page.close();
  });
  after(async () => {
    await browser?.close();
    await removeGateway();
  });

  const file = (path: string) => `/svc/_sessions/${session}/apps/notes/files/${path}`;

  async function edit(path: string, change: (text: string) => string): Promise<void> {
    const { text } = await gateway.call('GET', file(path));
    const answer = await gateway.call('PUT', file(path), { body: Buffer.from(change(text)) });
    assert.equal(answer.status, 200, answer.text);
  }

  async function publish(): Promise<void> {
    const answer = await gateway.call('POST', `/svc/_sessions/${session}/publish`, { body: {} });
    assert.equal(answer.status, 201, answer.text);
  }

  async function open(path: string): Promise<Page> {
    const page = await context.newPage();
    // Its change stream stands: from here on it hears of everything.
    const following = page.waitForResponse(/_changes/);
    await page.goto(gateway.url + path);
    await following;
    return page;
  }

  const titled = (from: string, to: string) => (text: string) => text.replaceAll(`<h1>${from}</h1>`, `<h1>${to}</h1>`);

  test('an open page shows what is published, and goes back with a rollback', async () => {
    const page = await open('/svc/notes/');
    await edit('index.html', titled('Notes', 'Second notes'));
    assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Notes');
    await publish();
    await page.getByRole('heading', { name: 'Second notes' }).waitFor();
    await gateway.call('POST', '/svc/_apps/notes/rollback', { body: { version: 1 } });
    await page.getByRole('heading', { name: 'Notes', exact: true }).waitFor();
    await gateway.call('POST', '/svc/_apps/notes/activate', { body: { versionId: 'notes/v2' } });
    await page.getByRole('heading', { name: 'Second notes' }).waitFor();
    await page.close();
  });

  test('nobody loses what is being written: the page waits', async () => {
    const page = await open('/svc/notes/');
    const field = page.getByLabel('New note');
    await field.fill('half a sentence');
    const told = page.evaluate(
      'new Promise((done) => addEventListener("svc:newversion", () => done(true), { once: true }))',
    );
    await edit('index.html', titled('Second notes', 'Third notes'));
    await publish();
    assert.equal(await told, true);
    assert.equal(await field.inputValue(), 'half a sentence');
    assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Second notes');
    await field.press('Enter');
    await page.getByRole('heading', { name: 'Third notes' }).waitFor();
    await page.getByText('half a sentence').waitFor();
    await page.close();
  });

  test('a preview follows every edit, through a fault and out of it, and touches nothing live', async () => {
    const page = await open(`/svc/_draft/${session}/notes/`);
    await page.getByText('half a sentence').waitFor();
    await edit('index.html', titled('Third notes', 'A draft'));
    await page.getByRole('heading', { name: 'A draft' }).waitFor();
    await page.getByLabel('New note').fill('only in the draft');
    await page.getByLabel('New note').press('Enter');
    await page.getByText('only in the draft').waitFor();
    const manifest = (await gateway.call('GET', file('app.json'))).text;
    await gateway.call('PUT', file('app.json'), { body: Buffer.from('{') });
    await page.getByText('INVALID_MANIFEST').waitFor();
    await gateway.call('PUT', file('app.json'), { body: Buffer.from(manifest) });
    await page.getByRole('heading', { name: 'A draft' }).waitFor();
    assert.ok(!(await gateway.read('notes', 'list', {})).text.includes('only in the draft'), 'live has no such note');
    await page.close();
  });
});
