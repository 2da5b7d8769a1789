/** The console's chat with an app, through a real browser with the scripted agent: beside the app's page, by keyboard, on a phone. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import type { FrameLocator, Page } from 'playwright-core';
import { automation } from '../../testing/apps.ts';
import { assertAccessible, openConsole, openView } from '../../testing/console.ts';
import { eventually, gatewayOfSuite } from '../../testing/edges.ts';
import { type StoreKind, startGateway } from '../../testing/gateway.ts';
import { STUB_RUNNERS, script } from '../../testing/stub-runner.ts';
import { withoutChromium } from './chromium.ts';
import { type ConsoleSuite, consoleSuite } from './console-suite.ts';

/** Harmful output of a model, one line each. */
const ATTACKS = [
  '<script>window.harm = 1</script>',
  '<img src="/svc/_apps" onerror="window.harm = 2">',
  '<svg onload="window.harm = 3"><script>window.harm = 4</script></svg>',
  '<iframe srcdoc="<script>parent.harm = 5</script>"></iframe>',
  '<form action="/svc/_session" method="post"><button>Sign out</button></form>',
  '<a href="javascript:window.harm = 6" id="content" onclick="window.harm = 7">here</a>',
  '[there](javascript:window.harm=8) ![pixel](https://evil.example/pixel.png)',
  '<style>body { display: none }</style><base href="https://evil.example/">',
  '<math><mtext><table><mglyph><style><img src=x onerror="window.harm = 9">',
];

/** As many rows as a window's page has, in two turns. */
const CALLS = Array.from({ length: 100 }, () => 'call stats');

type Field = { focus(): void; addEventListener(type: 'blur', callback: () => void, options: { once: true }): void };

describe('conversations in a browser', { skip: withoutChromium() }, () => {
  const window = { viewport: { width: 1200, height: 760 } };
  const suiteOf = (store: StoreKind) =>
    consoleSuite(gatewayOfSuite({ store, apps: ['todos'], config: STUB_RUNNERS }), window, { reloads: true });
  const tarball = suiteOf('tarball');
  const git = suiteOf('git');

  /** Resolves when the page shows a new conversation, so that a message goes there. */
  async function begin(page: Page): Promise<void> {
    const shown = page.url();
    await page.getByRole('button', { name: 'New' }).click();
    await page.waitForURL((url) => url.href !== shown);
    await log(page).locator('.turn').first().waitFor({ state: 'detached' });
  }

  async function open(suite: ConsoleSuite): Promise<Page> {
    const page = await suite.open('/apps/todos/chat');
    const heading = frameOf(page).getByRole('heading', { level: 1 });
    await heading.waitFor().catch(async (error: Error) => {
      const frames = await Promise.all(page.frames().map(async (one) => `${one.url()} ${await one.content()}`));
      throw new Error(`${error.message}\nThe frames: ${frames.join('\n').slice(-4000)}`);
    });
    await page.getByRole('combobox', { name: 'Agent and model' }).waitFor();
    await begin(page);
    return page;
  }

  /** Refused scripts and frames are reported by the browser too. */
  const assertQuiet = ({ complaints }: ConsoleSuite) =>
    assert.deepEqual(
      complaints.filter((text) => !/autofocusing/.test(text)),
      [],
    );

  const frameOf = (page: Page): FrameLocator => page.frameLocator('iframe');
  const log = (page: Page) => page.getByRole('log', { name: 'Messages' });
  const focused = (page: Page) =>
    page.evaluate<string>('document.activeElement.getAttribute("aria-label") ?? document.activeElement.className');
  const lastTurn = (page: Page) => log(page).locator('.turn').last();

  /** In light and in dark. */
  async function assertBothAccessible(page: Page): Promise<void> {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await assertAccessible(page, ['iframe']);
    }
  }

  async function say(page: Page, ...steps: string[]): Promise<void> {
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.fill(script(...steps));
    await message.press('Enter');
  }

  test('a message leads to a tool call, and the page beside it changes', async () => {
    const page = await open(tarball);
    await say(page, 'think It wants milk.', 'call add {"title": "Buy milk"}', 'say It is **on** the list.');
    await frameOf(page).getByText('Buy milk').waitFor();
    const turn = lastTurn(page);
    await turn.getByLabel('done').waitFor();
    await turn.locator('strong', { hasText: 'on' }).waitFor();
    await turn.getByRole('status').filter({ hasText: 'stub' }).waitFor();
    await turn.locator('summary', { hasText: 'add' }).click();
    await turn.getByText('"title": "Buy milk"').first().waitFor();
    await turn.locator('summary', { hasText: 'Thoughts' }).click();
    await turn.getByText('It wants milk.').last().waitFor();
    assert.equal(await page.getByRole('combobox', { name: 'What the agent may work on' }).isDisabled(), true);
    // Its run leads back to it.
    await openView(page, '/runs?ref=todos%2F_chat');
    await page
      .getByRole('link', { name: /^ok todos, chat/ })
      .first()
      .click();
    await page.getByRole('link', { name: 'a message in a conversation' }).click();
    await lastTurn(page).locator('strong', { hasText: 'on' }).waitFor();
    assertQuiet(tarball);
  });

  test('the page beside a conversation cannot take the console elsewhere, and opens tabs of its own', async () => {
    const page = await open(tarball);
    const console = page.url();
    const frame = page.frames().find((one) => one !== page.mainFrame());
    for (const [text, target] of [
      ['Take the tab', '_top'],
      ['Open a tab', '_blank'],
    ])
      await frame?.evaluate(`document.body.prepend(Object.assign(document.createElement('a'),
        { href: '/svc/todos/?taken', target: '${target}', textContent: '${text}' }))`);
    const refused = page.waitForEvent('console', (message) => /sandbox/.test(message.text()));
    await frameOf(page).getByText('Take the tab').click();
    await refused;
    assert.equal(page.url(), console);
    const opened = page.context().waitForEvent('page');
    await frameOf(page).getByText('Open a tab').click();
    const tab = await opened;
    await tab.getByRole('heading', { name: 'Todos' }).waitFor();
    await tab.close();
    assert.deepEqual(
      tarball.complaints.splice(0).filter((text) => !/sandbox|autofocusing/.test(text)),
      [],
    );
  });

  test('a conversation shows again after a reload, and another one can be chosen', async () => {
    const page = await open(tarball);
    await say(page, 'say Number one.');
    await lastTurn(page).getByRole('status').filter({ hasText: 'stub' }).waitFor();
    await begin(page);
    await say(page, 'say Number two.', 'call nothing');
    await lastTurn(page).locator('.text', { hasText: 'there is no tool nothing' }).waitFor();
    await page.reload();
    await log(page).locator('.text', { hasText: 'Number two.' }).waitFor();
    await page.getByRole('combobox', { name: 'Conversation' }).selectOption({ label: 'say Number one.' });
    await log(page).locator('.text', { hasText: 'Number one.' }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    const asked = page.getByRole('dialog', { name: 'Delete this conversation?' });
    await asked.getByRole('button', { name: 'Delete' }).click();
    await log(page).locator('.text', { hasText: 'Number two.' }).waitFor();
    await eventually(async () => (await focused(page)) === 'Conversation');
    assertQuiet(tarball);
  });

  test('a conversation keeps its agent, and a new one begins with the one chosen last', async () => {
    const page = await open(tarball);
    const agent = page.getByRole('combobox', { name: 'Agent and model' });
    const shown = () => agent.locator('option:checked').textContent();
    await agent.selectOption({ label: 'Small' });
    await say(page, 'say Small talk.');
    await lastTurn(page).getByRole('status').filter({ hasText: 'stub-small' }).waitFor();
    await page.reload();
    await eventually(async () => (await shown()) === 'Small');
    await begin(page);
    assert.equal(await shown(), 'Small');
    await agent.selectOption('');
    assert.equal(await shown(), 'Default agent');
    await page.getByRole('combobox', { name: 'Conversation' }).selectOption({ label: 'say Small talk.' });
    await log(page).locator('.text', { hasText: 'Small talk.' }).waitFor();
    assert.equal(await shown(), 'stub, as before');
    assertQuiet(tarball);
  });

  test('a permission is granted by keyboard', async () => {
    const page = await open(tarball);
    await say(page, 'ask wipe the cache', 'say It was {result}.');
    const box = page.getByRole('group', { name: 'May it do this?' });
    await box.getByText('wipe the cache').first().waitFor();
    for (let i = 0; i < 8 && (await page.evaluate('document.activeElement.textContent')) !== 'Yes'; i++)
      await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    assert.equal(await focused(page), 'Messages');
    await log(page).locator('.text', { hasText: 'It was allowed.' }).waitFor();
    await log(page).locator('.permission').getByText('Yes').waitFor();
    assertQuiet(tarball);
  });

  test('a running turn is followed after a reload, messages wait behind it, and it can be stopped', async () => {
    const page = await open(tarball);
    await say(page, 'say I begin.', 'hang');
    await log(page).locator('.text', { hasText: 'I begin.' }).waitFor();
    await say(page, 'say I waited.');
    await page.getByText('1 message waiting').waitFor();
    await page.reload();
    await log(page).locator('.text', { hasText: 'I begin.' }).waitFor();
    await page.getByText('1 message waiting').waitFor();
    assert.equal(await log(page).locator('.text', { hasText: 'I begin.' }).count(), 1);
    await page.getByRole('button', { name: 'Stop' }).press('Enter');
    await log(page).getByRole('status').filter({ hasText: 'Stopped' }).waitFor();
    await log(page).locator('.text', { hasText: 'I waited.' }).waitFor();
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'hidden' });
    assert.equal(await focused(page), 'Message');
    assertQuiet(tarball);
  });

  test("an agent's text runs nothing, loads nothing, and links only to the web", async () => {
    const page = await open(tarball);
    const requests: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    const [first = ''] = ATTACKS;
    await say(page, ...ATTACKS.flatMap((attack) => [`say ${attack}`, `call ${attack.replaceAll(' ', '')}`]));
    await lastTurn(page).getByRole('status').filter({ hasText: 'stub' }).waitFor();
    await say(page, 'say [web](https://example.org/) **end**');
    await log(page).locator('strong', { hasText: 'end' }).waitFor();
    await page.reload();
    await log(page).locator('strong', { hasText: 'end' }).waitFor();
    assert.equal(await page.evaluate('window.harm'), undefined);
    assert.equal(
      await log(page)
        .locator('.turn')
        .locator('script, img, svg, iframe, form, style, base, math, object, [onerror], [onclick], [id]')
        .count(),
      0,
    );
    const links = await page.evaluate<string[][]>(
      '[...document.querySelectorAll("[role=log] a[href]")].map((a) => [a.getAttribute("href"), a.target, a.rel])',
    );
    assert.deepEqual(links.at(-1), ['https://example.org/', '_blank', 'noopener noreferrer']);
    for (const [href] of links) assert.match(href ?? '', /^https:\/\//);
    await log(page)
      .locator('summary', { hasText: first.replaceAll(' ', '') })
      .first()
      .waitFor();
    assert.deepEqual(
      requests.filter((url) => !new URL(url).host.includes('svc.localhost')),
      [],
    );
    assertQuiet(tarball);
  });

  test('an agent that fails says why, and what to do', async () => {
    const page = await open(tarball);
    await say(page, 'fail The model is on holiday.');
    await log(page).getByRole('alert').filter({ hasText: 'The model is on holiday.' }).waitFor();
    await log(page).getByText('svc agents').waitFor();
    await page.reload();
    await log(page).getByRole('alert').filter({ hasText: 'The model is on holiday.' }).waitFor();
  });

  test('without an agent it says how to get one', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-no-agents-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const lonely = await startGateway(t, {
      apps: ['todos'],
      env: { PATH: `${folder}:${dirname(process.execPath)}`, HOME: folder },
    });
    // The cookies of two gateways would replace each other.
    await tarball.newContext();
    const { page } = await openConsole(tarball.context, lonely, '/apps/todos/chat');
    const card = page.getByRole('region', { name: 'No agent yet' });
    assert.equal(
      await card.getByRole('textbox', { name: 'Install of Codex' }).inputValue(),
      'npm install -g @openai/codex',
    );
    assert.equal(await card.getByRole('textbox', { name: 'Sign in of Claude Code' }).inputValue(), 'claude');
    await assertBothAccessible(page);
    await card.getByRole('button', { name: 'Look again' }).click();
    await card.getByText('Still none').waitFor();
    await say(page, 'hello');
    await log(page).getByRole('alert').filter({ hasText: 'NO_RUNNER' }).waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'hello');
  });

  test('in mode full the preview follows the draft, its diff is shown, and it is published', async () => {
    const page = await open(git);
    await page.getByRole('combobox', { name: 'What the agent may work on' }).selectOption('full');
    await say(page, 'read index.html', 'edit index.html <h1>Errands</h1>', 'say Renamed.');
    await frameOf(page).getByRole('heading', { name: 'Errands' }).waitFor();
    await page.getByText('1 file changed, not published').waitFor();
    await page.getByRole('button', { name: 'Live' }).click();
    await frameOf(page).getByRole('heading', { name: 'Todos' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Draft', pressed: true }).waitFor();
    await frameOf(page).getByRole('heading', { name: 'Errands' }).waitFor();
    await page.getByRole('button', { name: 'Show changes' }).press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Changes of the draft' });
    await dialog.getByText('+<h1>Errands</h1>').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Publish' }).press('Enter');
    await page.getByText('todos/v2 is live').waitFor();
    assert.equal(await focused(page), 'chat-changes');
    assert.equal(await page.getByRole('button', { name: 'Publish' }).isVisible(), false);
    await page.getByRole('button', { name: 'Live', pressed: true }).waitFor();
    await frameOf(page).getByRole('heading', { name: 'Errands' }).waitFor();
    assertQuiet(git);
  });

  test('what is wrong with the draft is said beside it, until the agent has repaired it', async () => {
    const page = await open(git);
    await page.getByRole('combobox', { name: 'What the agent may work on' }).selectOption('full');
    await say(page, 'edit queries/list.js export default (', 'say Broken.');
    const wrong = page.getByRole('list', { name: 'What is wrong' });
    await wrong.getByRole('button', { name: 'queries/list.js' }).waitFor();
    await assertAccessible(page, ['iframe']);
    await say(page, 'heard', 'say {result}', 'edit queries/list.js export default () => [];', 'say Repaired.');
    await log(page).getByText('The gateway found faults in the draft').waitFor();
    await wrong.waitFor({ state: 'detached' });
    await page.getByText('1 file changed, not published').waitFor();
    assertQuiet(git);
  });

  test('each conversation loads the page it shows and no other; one with the same page loads nothing', async () => {
    const page = await open(git);
    const mode = page.getByRole('combobox', { name: 'What the agent may work on' });
    const chosen = page.getByRole('combobox', { name: 'Conversation' });
    /** What the frame was sent to since this was asked last. */
    const asked: string[] = [];
    const loaded = () => asked.splice(0);
    page.on('request', (request) => {
      const isAsked = request.method() === 'POST' && new URL(request.url()).pathname === '/svc/_enter';
      const { to } = isAsked ? request.postDataJSON() : {};
      if (to !== undefined) asked.push(to);
    });
    for (const [kind, text] of [
      ['data', 'One of data'],
      ['data', 'Two of data'],
      ['full', 'About code'],
    ] as const) {
      await begin(page);
      await mode.selectOption(kind);
      await say(page, ...(kind === 'full' ? ['edit index.html <h1>Drafted</h1>'] : []), `say ${text}.`);
      await lastTurn(page).getByRole('status').filter({ hasText: 'stub' }).waitFor();
    }
    await frameOf(page).getByRole('heading', { name: 'Drafted' }).waitFor();
    const [draft = '', ...more] = loaded();
    assert.match(draft, /^\/svc\/_draft\/conversation-\w+\/todos\/$/);
    assert.deepEqual(more, [], 'the live page was there before');

    await page.reload();
    await frameOf(page).getByRole('heading', { name: 'Drafted' }).waitFor();
    assert.deepEqual(loaded(), [draft], 'a conversation with a draft is opened');

    const choose = async (text: string) => {
      await chosen.selectOption({ label: `say ${text}.` });
      await log(page).locator('.text', { hasText: text }).waitFor();
    };
    await choose('One of data');
    // Another test may have published another heading.
    await frameOf(page)
      .getByRole('heading', { level: 1, name: /^(?!Drafted)/ })
      .waitFor();
    assert.deepEqual(loaded(), ['/svc/todos/'], 'from the draft to the live page');
    await choose('Two of data');
    await page.getByRole('button', { name: 'New' }).click();
    await choose('One of data');
    assert.deepEqual(loaded(), [], 'between conversations with the live page');
    await chosen.selectOption({ index: 0 });
    await frameOf(page).getByRole('heading', { name: 'Drafted' }).waitFor();
    assert.deepEqual(loaded(), [draft], 'back to the draft');

    await say(page, 'say It goes on.', 'hang');
    await log(page).locator('.text', { hasText: 'It goes on.' }).waitFor();
    await page.reload();
    await log(page).locator('.text', { hasText: 'It goes on.' }).waitFor();
    await frameOf(page).getByRole('heading', { name: 'Drafted' }).waitFor();
    assert.deepEqual(loaded(), [draft], 'one whose turn runs is opened');
    await page.getByRole('button', { name: 'Stop' }).click();
    assertQuiet(git);
  });

  test('the secrets beside the page of a draft are those of the draft', async () => {
    const page = await open(git);
    await page.getByRole('combobox', { name: 'What the agent may work on' }).selectOption('full');
    await say(page, 'read index.html', 'edit index.html <h1>Secret errands</h1>', 'say Renamed.');
    await frameOf(page).getByRole('heading', { name: 'Secret errands' }).waitFor();
    const secrets = page.getByRole('button', { name: 'Secrets', exact: true });
    await secrets.click();
    const dialog = page.getByRole('dialog', { name: 'Secrets of the draft of Todos' });
    await dialog.getByText('A draft never gets a value of the live app').waitFor();
    await dialog.getByLabel('Name').fill('API_KEY');
    await dialog.getByLabel('Value').fill('for trying out');
    await dialog.getByRole('button', { name: 'Set secret' }).click();
    await dialog.getByText('API_KEY is set').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Live' }).click();
    await secrets.click();
    const live = page.getByRole('dialog', { name: 'Secrets of Todos' });
    await live.getByText('No secrets yet.').waitFor();
    assert.equal(await live.getByText('A draft never gets').isVisible(), false);
    assertQuiet(git);
  });

  test('publishing shows the address and the secret of a new webhook, to be copied', async () => {
    await git.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const page = await open(git);
    await page.getByRole('combobox', { name: 'What the agent may work on' }).selectOption('full');
    const file = automation({ triggers: [{ kind: 'webhook', pending: true }] });
    await say(
      page,
      `write automations/hook/automation.json ${file}`,
      'write automations/hook/handler.js export default () => ({});',
    );
    const pending = page.getByText('Publishing creates the webhook of todos/hook.');
    await pending.waitFor();
    await page.reload();
    await pending.waitFor();
    assert.equal(await pending.count(), 1);
    await page.getByRole('button', { name: 'Publish' }).click();
    const minted = page.getByRole('region', { name: 'it is not shown again' });
    const secret = await minted.getByRole('textbox', { name: 'Secret of todos/hook' }).inputValue();
    const url = await minted.getByRole('textbox', { name: 'Address of todos/hook' }).inputValue();
    await minted.getByRole('button', { name: 'Copy secret of todos/hook' }).click();
    await minted.getByText('Copied').waitFor();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), secret);
    const posted = await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${secret}` }, body: 'x' });
    assert.equal(posted.status, 200, await posted.text());
    await page.getByRole('button', { name: 'New' }).click();
    assert.equal(await minted.isVisible(), true, 'it stays beside another conversation');
    await minted.getByRole('button', { name: 'I have kept it' }).click();
    await minted.waitFor({ state: 'hidden' });
    assert.equal(await page.locator('.minted').count(), 0);
    assert.equal(await focused(page), 'Messages');
    await page.getByRole('combobox', { name: 'Conversation' }).selectOption({ index: 1 });
    await page.getByRole('button', { name: 'Draft' }).waitFor();
    assert.equal(await pending.isVisible(), false, 'it is published');
    assertQuiet(git);
  });

  test('in mode full files are attached to a message: chosen, dropped and pasted', async () => {
    const page = await open(git);
    const attach = page.getByRole('button', { name: 'Attach' });
    const mode = page.getByRole('combobox', { name: 'What the agent may work on' });
    await mode.selectOption('data');
    assert.equal(await attach.isVisible(), false);
    await mode.selectOption('full');
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), attach.press('Enter')]);
    const pixel = Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    );
    await chooser.setFiles([
      { name: 'wish.toml', mimeType: '', buffer: Buffer.from('colour = "green"') },
      { name: 'pixel.png', mimeType: 'image/png', buffer: pixel },
    ]);
    for (const [target, kind, property] of [
      ['.chat-panel', 'drop', 'dataTransfer'],
      ['.chat-form textarea', 'paste', 'clipboardData'],
    ])
      await page.evaluate(`{
        const data = new DataTransfer();
        data.items.add(new File(['${kind}ed'], '${kind}.txt', { type: 'text/plain' }));
        const event = new Event('${kind}', { bubbles: true, cancelable: true });
        event.${property} = data;
        document.querySelector('${target}').dispatchEvent(event);
      }`);
    const files = page.getByRole('list', { name: 'Files that go with the message' });
    assert.deepEqual(
      (await files.getByRole('listitem').allInnerTexts()).map((text) => text.split('\n')[0]),
      ['wish.toml', 'pixel.png', 'drop.txt', 'paste.txt'],
    );
    await files.getByRole('button', { name: 'Remove drop.txt' }).click();
    await say(page, 'heard', 'say {result}');
    await lastTurn(page).locator('.text', { hasText: 'colour = "green"' }).waitFor();
    assert.equal(await files.isVisible(), false);
    await page.reload();
    await lastTurn(page).getByRole('link', { name: 'paste.txt' }).waitFor();
    assert.deepEqual(await lastTurn(page).locator('.files').getByRole('link').allInnerTexts(), [
      'wish.toml',
      'pixel.png',
      'paste.txt',
    ]);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      lastTurn(page).getByRole('link', { name: 'wish.toml' }).click(),
    ]);
    assert.equal(download.suggestedFilename(), 'wish.toml');
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.zip', mimeType: '', buffer: Buffer.from([80, 75, 0, 255]) });
    await page.getByRole('alert').filter({ hasText: 'a.zip: agents take images' }).waitFor();
    assert.equal(await files.isVisible(), false);
    assertQuiet(git);
  });

  test('earlier messages and conversations are shown on demand', async () => {
    for (const message of [script('say One.'), ...['Two', 'Three'].map((word) => script(...CALLS, `say ${word}.`))])
      await git.gateway.call('POST', '/svc/todos/_chat', { body: { windowId: 'long', message } });
    for (let i = 0; i < 51; i++)
      await git.gateway.call('POST', '/_svc-conversations/apps/todos/sessions', { body: { title: `Plan ${i}` } });
    const page = await open(git);
    await page.goto(`${new URL(page.url()).origin}/svc/#chat=todos&window=long`);
    await log(page).locator('.text', { hasText: 'Three.' }).waitFor();
    assert.equal(await log(page).locator('.turn').count(), 1);
    await page.getByRole('button', { name: 'Show earlier messages' }).press('Enter');
    await log(page).locator('.text', { hasText: 'One.' }).waitFor();
    assert.deepEqual(await log(page).locator('.turn .text').allInnerTexts(), ['One.', 'Two.', 'Three.']);
    assert.equal(await log(page).locator('.tool').count(), 2 * CALLS.length);
    await page.getByRole('button', { name: 'Show earlier messages' }).waitFor({ state: 'hidden' });
    const chosen = page.getByRole('combobox', { name: 'Conversation' });
    const plans = chosen.locator('option', { hasText: /^Plan \d/ });
    assert.equal(await plans.count(), 50);
    await chosen.selectOption({ label: 'Earlier conversations …' });
    await chosen.locator('option', { hasText: /^Plan 0$/ }).waitFor({ state: 'attached' });
    assert.equal(await plans.count(), 51);
    assert.equal(await chosen.locator('option:checked').innerText(), 'say One.');
    assertQuiet(git);
  });

  test('on a phone chat and page are two views, and nothing is wider than the screen', async () => {
    await tarball.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true });
    const page = await tarball.open('/apps/todos/chat');
    await page.getByRole('combobox', { name: 'Agent and model' }).waitFor();
    await say(page, `call add {"title": "${'Long '.repeat(40)}"}`, `say \`${'x'.repeat(300)}\` | a | b |`);
    await lastTurn(page).getByRole('status').filter({ hasText: 'stub' }).waitFor();
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
    await page.getByRole('button', { name: 'Page', exact: true }).tap();
    await frameOf(page).getByText('Long Long').first().waitFor();
    assert.equal(await log(page).isVisible(), false);
    await page.getByRole('button', { name: 'Chat', exact: true }).tap();
    assert.equal(await log(page).isVisible(), true);
    await assertBothAccessible(page);
    assertQuiet(tarball);
  });

  test('on a desk every part of a conversation is accessible', async () => {
    const page = await open(git);
    await page.getByRole('combobox', { name: 'What the agent may work on' }).selectOption('full');
    await say(
      page,
      'think Hm.',
      'read index.html',
      'edit index.html <h1>A new heading</h1>',
      'ask to go on',
      'say Done.',
    );
    await page.getByRole('group', { name: 'May it do this?' }).waitFor();
    await page.getByText('1 file changed, not published').waitFor();
    await assertBothAccessible(page);
    await page.getByRole('button', { name: 'Show changes' }).click();
    await page.getByRole('dialog', { name: 'Changes of the draft' }).waitFor();
    await assertBothAccessible(page);
  });

  test('typed text is there again after a visit to another view', async () => {
    const page = await open(tarball);
    await page.getByRole('textbox', { name: 'Message' }).fill('half a sentence');
    await openView(page, '/apps/todos');
    await page.getByText('Store').waitFor();
    await openView(page, '/apps/todos/chat');
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.waitFor();
    assert.equal(await message.inputValue(), 'half a sentence');
  });

  test('a page that focuses one of its fields takes no keys from the message; a click in it does', async () => {
    const page = await open(tarball);
    const message = page.getByRole('textbox', { name: 'Message' });
    const field = frameOf(page).getByLabel('New todo');
    await message.fill('half');
    // Resolves when the field has lost the focus that it took.
    await field.evaluate((it: Field) => {
      const lost = new Promise<void>((resolve) => it.addEventListener('blur', () => resolve(), { once: true }));
      it.focus();
      return lost;
    });
    await page.keyboard.type(' more');
    assert.equal(await message.inputValue(), 'half more');
    await field.click();
    await page.keyboard.type('Milk');
    assert.deepEqual([await field.inputValue(), await message.inputValue()], ['Milk', 'half more']);
  });
});
