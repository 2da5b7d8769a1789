/**
 * Authoring as people see it: pages that follow publications, and drafts that follow their files (specification, "Page bridge"
 * and "Drafts").
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BrowserContext, ConsoleMessage, Page } from 'playwright-core';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { baseOf, linkTo } from '../../testing/pages.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;

/** Several checks of a page. */
const LOOK_MS = 5000;

describe('authoring in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ store: 'git' });
  let context: BrowserContext;
  let workspace: string;
  /** The page that the app began with. */
  let wholePage: string;

  before(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const made = await gateway.call('POST', '/svc/_apps', { body: { id: 'notes', name: 'Notes' } });
    workspace = made.json.sessionId;
    wholePage = (await gateway.call('GET', file('index.html'))).text;
    await publish();
    const page = await context.newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('heading', { name: 'Notes' }).first().waitFor();
    await page.close();
  });

  const file = (path: string) => `/svc/_sessions/${workspace}/apps/notes/files/${path}`;

  async function edit(path: string, change: (text: string) => string): Promise<void> {
    const { text } = await gateway.call('GET', file(path));
    const answer = await gateway.call('PUT', file(path), { body: Buffer.from(change(text)) });
    assert.equal(answer.status, 200, answer.text);
  }

  async function publish(): Promise<void> {
    const answer = await gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body: {} });
    assert.equal(answer.status, 201, answer.text);
  }

  async function open(path: string): Promise<Page> {
    const page = await context.newPage();
    await page.clock.install();
    // Its change stream is open: from here on it gets every event.
    const following = page.waitForResponse(/_changes/);
    await page.goto(`http://${baseOf(gateway)}${path}`);
    await following;
    return page;
  }

  const titled = (from: string, to: string) => (text: string) => text.replaceAll(`<h1>${from}</h1>`, `<h1>${to}</h1>`);

  test('an open page shows a publication, and the old version after a rollback', async () => {
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

  test('unsaved input is not lost: the page waits', async () => {
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

  /** Makes this form the page of the app, with fields and editable elements of every kind. */
  const FORM = `<!doctype html><html lang="en"><head><title>Form</title></head><body><h1>Form</h1>
<form id="form"><label>Title <input name="title"></label><label>Text <textarea name="text"></textarea></label>
<label>Size <select name="size"><option>small<option>large</select></label><label>Gift <input type="checkbox" name="gift"></label></form>
<label>Filter <select><option>all<option>open</select></label><div contenteditable="true" role="textbox" aria-label="Note">As it was</div>
<dialog><label>Draft <input></label></dialog><p tabindex="0">Elsewhere</p></body></html>`;

  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).textContent();

  /** The page checks once a second whether it may reload: asserts that it checks several times, and does not reload. */
  async function staysForLooks(page: Page, title = 'Form'): Promise<void> {
    await page.evaluate('addEventListener("beforeunload", () => { window.leaves = true; })');
    await page.clock.runFor(LOOK_MS);
    assert.deepEqual([await page.evaluate('window.leaves'), await heading(page)], [undefined, title]);
  }

  async function formPage(): Promise<Page> {
    await edit('index.html', () => FORM);
    await publish();
    return open('/svc/notes/');
  }

  /** Publishes this many times, and resolves when the page got an event for each. */
  async function publishForms(page: Page, times: number, from = 'Form', to = 'New form'): Promise<void> {
    for (let made = 0; made < times; made++) {
      const told = page.evaluate(
        'new Promise((done) => addEventListener("svc:newversion", () => done(true), { once: true }))',
      );
      await edit('index.html', (text) => `${titled(from, to)(text)}\n`);
      await publish();
      await told;
    }
  }

  const writings: [name: string, write: (page: Page) => Promise<void>, empty: (page: Page) => Promise<void>][] = [
    [
      'a text',
      (page) => page.getByLabel('Title').pressSequentially('half'),
      (page) => page.evaluate('document.forms[0].reset()'),
    ],
    [
      'a long text',
      (page) => page.getByLabel('Text').pressSequentially('half'),
      (page) => page.getByLabel('Text').fill(''),
    ],
    [
      'a choice of a form',
      async (page) => void (await page.getByLabel('Size').selectOption('large')),
      async (page) => void (await page.getByLabel('Size').selectOption('small')),
    ],
    ['a tick of a form', (page) => page.getByLabel('Gift').check(), (page) => page.getByLabel('Gift').uncheck()],
    [
      'a text in the page itself',
      (page) => page.getByLabel('Note').pressSequentially('half'),
      (page) => page.getByLabel('Note').fill('As it was'),
    ],
  ];
  describe('what is half written delays the reload, also after its field has lost the focus', () => {
    let page: Page;
    before(async () => {
      page = await formPage();
    });
    after(() => page.close());

    // Each reload shows the form that the next one begins with.
    let title = 'Form';
    for (const [at, [name, write, empty]] of writings.entries()) {
      test(name, async () => {
        const next = `Form ${at + 1}`;
        await write(page);
        await page.getByText('Elsewhere').focus();
        await publishForms(page, 1, title, next);
        await staysForLooks(page, title);
        // Its change stream is open: from here on it gets every event.
        const following = page.waitForResponse(/_changes/);
        await empty(page);
        await page.getByRole('heading', { name: next, exact: true }).waitFor();
        await following;
        title = next;
      });
    }
  });

  test('input that nobody would lose does not delay a reload: a filter, a field that a script fills, a closed dialog', async () => {
    const page = await formPage();
    await page.getByLabel('Filter').selectOption('open');
    await page.evaluate('document.forms[0].title.value = "from the data"; document.forms[0].title.focus()');
    await page.evaluate('document.querySelector("dialog").showModal()');
    await page.getByLabel('Draft').fill('half');
    await page.evaluate('document.querySelector("dialog").close()');
    await publishForms(page, 1);
    await page.getByRole('heading', { name: 'New form' }).waitFor();
    await page.close();
  });

  test('of several versions published while somebody writes, the page loads the last one, once', async () => {
    const page = await formPage();
    await page.getByLabel('Title').fill('half');
    await page.evaluate('window.timers = new Set()');
    await page.evaluate(
      `for (const [start, end] of [['setInterval', 'clearInterval']]) {
        const [set, clear] = [window[start], window[end]];
        window[start] = (...args) => { const id = set(...args); timers.add(id); return id; };
        window[end] = (id) => { timers.delete(id); clear(id); };
      }`,
    );
    await publishForms(page, 3);
    assert.equal(await page.evaluate('timers.size'), 1);
    let loads = 0;
    page.on('load', () => loads++);
    // The stream of the reloaded page is open, so that it learns of the next version.
    const following = page.waitForResponse(/_changes/);
    await page.getByLabel('Title').fill('');
    await page.clock.runFor(LOOK_MS);
    await page.getByRole('heading', { name: 'New form' }).waitFor();
    await following;
    await page.clock.runFor(LOOK_MS);
    await edit('index.html', titled('New form', 'Last form'));
    await publish();
    await page.getByRole('heading', { name: 'Last form' }).waitFor();
    await page.waitForLoadState('load');
    assert.equal(loads, 2);
    await page.close();
  });

  test('a page waits for the answer to its action', async () => {
    const page = await formPage();
    let answer = () => {};
    await page.route('**/_tool/svc_write', async (route) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      await route.fulfill({ json: { isError: false, data: { status: 200, body: null } } });
    });
    const asked = page.waitForRequest('**/_tool/svc_write');
    await page.evaluate('void svc.write({ action: "add", input: { text: "under way" } })');
    await asked;
    await publishForms(page, 1);
    await staysForLooks(page);
    answer();
    await page.getByRole('heading', { name: 'New form' }).waitFor();
    await page.close();
  });

  test('a page that was offline while a version was published shows it when it is back', async () => {
    const page = await formPage();
    await page.evaluate('dispatchEvent(new PageTransitionEvent("pagehide"))');
    await edit('index.html', (text) => text.replace('<h1>Form</h1>', '<h1>New form</h1>'));
    await publish();
    await page.evaluate('dispatchEvent(new PageTransitionEvent("pageshow"))');
    await page.getByRole('heading', { name: 'New form' }).waitFor();
    await page.close();
  });

  test('a preview follows every edit, also through a fault, and changes nothing live', async () => {
    await edit('index.html', () => wholePage);
    const page = await open(`/svc/_draft/${workspace}/notes/`);
    await page.getByText('half a sentence').waitFor();
    await edit('index.html', titled('Notes', 'A draft'));
    await page.getByRole('heading', { name: 'A draft' }).waitFor();
    await page.getByLabel('New note').fill('only in the draft');
    await page.getByLabel('New note').press('Enter');
    await page.getByText('only in the draft').waitFor();
    const manifest = (await gateway.call('GET', file('app.json'))).text;
    await gateway.call('PUT', file('app.json'), { body: Buffer.from('{') });
    await page.getByText('INVALID_MANIFEST').waitFor();
    await gateway.call('PUT', file('app.json'), { body: Buffer.from(manifest) });
    await page.getByRole('heading', { name: 'A draft' }).waitFor();
    assert.ok(
      !(await gateway.read('notes', 'list', {})).text.includes('only in the draft'),
      'the live app has no such note',
    );
    await page.close();
  });

  test('a page with a build follows its sources, also through a fault, under the policy of pages', async () => {
    const complaints: string[] = [];
    const complain = (message: ConsoleMessage) => {
      if (message.type() === 'error') complaints.push(message.text());
    };
    const put = async (path: string, text: string) => {
      const { status, text: answer } = await gateway.call('PUT', file(path), { body: Buffer.from(text) });
      assert.ok(status < 300, answer);
    };
    const manifest = (await gateway.call('GET', file('app.json'))).json;
    await put('img/dot.svg', '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><circle r="8"/></svg>');
    await put('page/main.css', 'h1 { background: url(../img/dot.svg) rgb(1, 2, 3) }');
    await put('page/label.ts', "export const label: string = 'from a module';\n");
    await put(
      'page/main.ts',
      "import dot from '../img/dot.svg';\nimport { label } from './label';\nimport './main.css';\n" +
        'const image = new Image();\nimage.src = dot;\nimage.alt = label;\ndocument.body.append(image, label);\n',
    );
    const head = '<link rel="stylesheet" href="app.css"><script type="module" src="app.js"></script>';
    await put('index.html', `<!doctype html><head>${head}</head><h1>Built</h1>`);
    await gateway.call('DELETE', file('app.js'));
    await put('app.json', JSON.stringify({ ...manifest, page: { entry: 'page/main.ts' } }));

    const preview = await open(`/svc/_draft/${workspace}/notes/`);
    await preview.getByText('from a module').waitFor();
    await put('page/label.ts', 'export const label: = 1;\n');
    await preview.getByText('INVALID_PAGE').waitFor();
    await preview.getByText('page/label.ts:1:21').waitFor();
    await put('page/label.ts', "export const label = 'mended';\n");
    await preview.getByText('mended').waitFor();
    await preview.close();

    // Its errors name the source.
    const label = "export const label = 'mended';\n";
    await put('page/label.ts', `${label}\nsetTimeout(() => {\n  throw new Error('on purpose');\n});\n`);
    const logs = await gateway.stream(`/svc/_draft/${workspace}/_logs?app=notes&follow=1`);
    const throwing = await context.newPage();
    await throwing.goto(`http://${baseOf(gateway)}/svc/_draft/${workspace}/notes/`);
    let entry = '';
    while (!entry.includes('on purpose')) entry = (await logs.next()).data;
    assert.match(entry, /"file":"page\/label\.ts","line":4,"column":9/);
    logs.close();
    await throwing.close();
    await put('page/label.ts', label);

    await publish();
    context.on('console', complain);
    const live = await open('/svc/notes/');
    await live.getByText('mended').waitFor();
    const shown = await live.evaluate(
      "(async () => { const image = document.querySelector('img'); await image.decode(); return [image.naturalWidth, getComputedStyle(document.querySelector('h1')).backgroundColor]; })()",
    );
    assert.deepEqual(shown, [8, 'rgb(1, 2, 3)']);
    assert.deepEqual(complaints, []);
    context.off('console', complain);
    await live.close();
  });
});
