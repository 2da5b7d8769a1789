/** The template `contact`: somebody writes, somebody reads, and another site posts to the webhook. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MintedWebhook } from '../../../protocol/automations/automation.ts';
import { eventually } from '../../../testing/edges.ts';
import { consoleOf, linkTo, originOf } from '../../../testing/pages.ts';
import { post } from '../../../testing/runs.ts';
import { sharedChromium } from '../chromium.ts';
import { callEveryTool, openTemplate, runEveryAutomation, type TemplateApp } from '../template-app.ts';

const ADA = { name: 'Ada', email: 'ada@example.org', message: 'Do you have time on Monday?' };

/** A new address and secret for the template's webhook. */
async function mint(app: TemplateApp): Promise<MintedWebhook> {
  const { text, json } = await app.gateway.call('POST', '/svc/_automations/_provision', {
    body: { ref: `${app.id}/inbox`, renew: true },
  });
  assert.equal(json.webhooks?.length, 1, text);
  return json.webhooks[0];
}

export function suite(): void {
  test('written on one page, read on the other', async (t) => {
    const app = await openTemplate(t, 'contact');
    const [form, inbox] = [await app.window(), await app.window('inbox.html')];
    await inbox.getByText('No messages.').waitFor();
    await app.picture(inbox, 'inbox-empty');

    await form.getByLabel('Your name').fill('Ada');
    await form.getByLabel('E-mail').fill('ada at example');
    await form.getByRole('button', { name: 'Send message' }).click();
    await form.getByText('This is not an e-mail address.').waitFor();
    await form.getByText('Write a few words.').waitFor();
    assert.equal(
      await form.evaluate('document.activeElement.id'),
      'email',
      'the first field that is wrong has the focus',
    );
    await app.picture(form, 'form');
    await form.getByLabel('E-mail').fill(ADA.email);
    await form.getByLabel('Message').fill('Hello!\n<img src=x onerror=alert(1)>');
    await form.getByRole('button', { name: 'Send message' }).click();
    await form.getByRole('heading', { name: 'Thank you, Ada!' }).waitFor();
    await app.picture(form, 'thanks');

    await inbox.getByText('1 unread').waitFor();
    await app.write('send', { name: 'Grace', email: 'grace@example.org', message: 'About the invoice of May.' });
    await inbox.getByText('2 unread').waitFor();
    await inbox.getByRole('button', { name: /Ada/ }).click();
    await inbox.getByText('<img src=x onerror=alert(1)>').waitFor();
    await inbox.getByText('1 unread').waitFor();
    assert.equal(await inbox.getByRole('link', { name: ADA.email }).getAttribute('href'), `mailto:${ADA.email}`);
    await app.picture(inbox, 'inbox');
    await inbox.getByRole('button', { name: 'Archive', exact: true }).click();
    await inbox.getByRole('button', { name: /Ada/ }).waitFor({ state: 'detached' });
    await inbox.getByText('Archive 1').click();
    await inbox.getByRole('button', { name: /Ada/ }).waitFor();
    await inbox.getByLabel('Search').fill('invoice');
    await inbox.getByText('No message has “invoice” in it.').waitFor();
    await inbox.getByText('Inbox 1', { exact: true }).click();
    await inbox.getByRole('button', { name: /Grace/ }).click();
    await inbox.getByRole('button', { name: 'Remove', exact: true }).click();
    await inbox.locator('#confirm').getByRole('button', { name: 'Remove' }).click();
    await inbox.getByText('No message has “invoice” in it.').waitFor();
    await inbox.reload();
    await inbox.getByText('Nothing unread.').waitFor();
    await inbox.getByText('Archive 1').click();
    await inbox.getByRole('button', { name: /Ada/ }).waitFor();
    assert.deepEqual(app.complaints, []);
  });

  test('a visitor without a token sends a message, which only the owner reads', async (t) => {
    const app = await openTemplate(t, 'contact');
    await app.gateway.call('PUT', `/svc/_apps/${app.id}/settings`, { body: { appAccent: '#0a7' } });
    const address = originOf(app.gateway, { app: app.id });
    const context = await (await sharedChromium()).newContext();
    t.after(() => context.close());
    const visitor = await context.newPage();
    const requests: string[] = [];
    const problems: string[] = [];
    visitor.on('request', (request) => requests.push(`${request.method()} ${new URL(request.url()).pathname}`));
    visitor.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    await visitor.goto(`${address}/`);
    await visitor.getByLabel('Your name').fill('Grace');
    await visitor.getByLabel('E-mail').fill('grace@example.org');
    await visitor.getByLabel('Message').fill('Hello from nobody in particular.');
    assert.equal(await visitor.getByRole('link', { name: 'Inbox' }).count(), 0, 'the way to the inbox is the owner’s');
    assert.equal(await visitor.evaluate('document.documentElement.dataset.appAccent'), '#0a7');
    await app.picture(visitor, 'visitor');
    const owner = await app.window('inbox.html');
    await owner.getByText('No messages.').waitFor();
    await visitor.getByRole('button', { name: 'Send message' }).click();
    await visitor.getByRole('heading', { name: 'Thank you, Grace!' }).waitFor();
    await owner.getByText('1 unread').waitFor();
    await owner.getByRole('button', { name: /Grace/ }).click();
    await owner.getByText('Hello from nobody in particular.').waitFor();
    assert.equal(await visitor.getByRole('status').filter({ hasText: 'ign' }).count(), 0, 'no sign-in is required');
    assert.deepEqual(
      requests.filter((request) => /_changes|_live|_session|_enter/.test(request)),
      [],
    );
    assert.deepEqual(problems, []);

    const probe = (call: string) =>
      visitor.evaluate(`${call}.then((value) => JSON.stringify(value), ({ code, message }) => code + ': ' + message)`);
    const stolen = { ...ADA, externalId: 'm-1' };
    await app.write('send', stolen);
    assert.equal(
      await probe(`svc.write({ action: 'send', input: ${JSON.stringify(stolen)} })`),
      'ACTION_FAILED: Visitors may not set “externalId”.',
    );
    assert.match(String(await probe(`svc.read({ query: 'inbox' })`)), /^UNAUTHORIZED: Sign in/);
  });

  test('the owner signs in on a public page, and continues there', async (t) => {
    const app = await openTemplate(t, 'contact');
    await app.write('send', ADA);
    const context = await (await sharedChromium()).newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    const [address, consoleAddress] = [originOf(app.gateway, { app: app.id }), consoleOf(app.gateway)];
    await page.goto(`${address}/inbox.html`);
    await page.getByText('Sign in to use this.').waitFor();
    assert.equal(await page.getByRole('button', { name: /Ada/ }).count(), 0);
    // In another tab the owner signs in at the console; from there the way leads to the page, signed in.
    const other = await context.newPage();
    await other.goto(await linkTo(app.gateway));
    await other.waitForURL(consoleAddress);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: /Ada/ }).waitFor();
    assert.equal(page.url(), `${address}/inbox.html`);
    assert.equal(await page.evaluate('svc.visitor'), false);
    await context.clearCookies({ domain: new URL(address).hostname });
    await other.goto(`${consoleAddress}${app.id}/`);
    await other.getByRole('link', { name: 'Inbox' }).click();
    await other.getByRole('button', { name: /Ada/ }).waitFor();
  });

  test('posts of another site arrive, and invalid ones are reported', async (t) => {
    const app = await openTemplate(t, 'contact');
    const webhook = await mint(app);
    const inbox = await app.window('inbox.html');
    assert.equal((await post(app.gateway, webhook, { ...ADA, id: 'm-1' })).status, 200);
    await inbox.getByRole('button', { name: /Ada/ }).waitFor();
    assert.equal((await post(app.gateway, webhook, { ...ADA, id: 'm-1' })).status, 200, 'repeated, as a sender may do');
    assert.equal(
      (await post(app.gateway, webhook, 'name=Grace+H&email=grace%40example.org&message=By+form')).status,
      200,
    );
    await inbox.getByRole('button', { name: /Grace H/ }).waitFor();
    assert.equal((await app.read('counts')).open, 2);

    const wrong = await post(app.gateway, webhook, { ...ADA, email: 'nobody' });
    assert.equal(wrong.status, 500);
    assert.match(wrong.json.error.message, /not an e-mail address/);
    await eventually(async () => (await app.read('counts')).refused === 1);
    await inbox.getByText('One invalid post to the webhook').click();
    await inbox.getByText('The field “email” is not an e-mail address.').waitFor();
    await app.picture(inbox, 'refused');
    await inbox.getByRole('button', { name: 'Forget these' }).click();
    await inbox.getByText('One invalid post to the webhook').waitFor({ state: 'hidden' });
    assert.equal((await post(app.gateway, webhook, ADA, { token: 'wrong' })).status, 401);
    assert.deepEqual(app.complaints, []);
  });

  test('its tools and automations', async (t) => {
    const app = await openTemplate(t, 'contact');
    await callEveryTool(app);
    assert.equal((await app.gateway.write(app.id, 'mark', { id: 1, read: true })).json.data.status, 404);
    const outputs = await runEveryAutomation(app, {
      inbox: ADA,
      refused: { runId: 'r', automationName: 'Inbox', error: { code: 'HANDLER_ERROR', message: 'No.' } },
    });
    assert.deepEqual(outputs.inbox, { id: 1, known: false });
    assert.equal((await app.read('refused'))[0].reason, 'No.');
    for (let n = 0; n < 4; n++) await app.write('send', ADA);
    const first = await app.read('inbox', { limit: 3 });
    const second = await app.read('inbox', { limit: 3, before: first.next });
    assert.deepEqual([first.messages.length, second.messages.length, second.next], [3, 2, null]);
  });
}
