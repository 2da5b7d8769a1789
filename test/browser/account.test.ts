/** One's own account in a browser: made at the first start, changed after a fresh sign-in, with a picture; and what is typed when a role ends. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { addAuthenticator } from '../../testing/chromium.ts';
import { assertAccessible } from '../../testing/console.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { linkTo } from '../../testing/pages.ts';
import { anHourLater, PASSWORD } from '../../testing/people.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;

describe('an account in a browser', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ apps: ['todos'] });
  const contexts: BrowserContext[] = [];
  const open = async (address: string): Promise<Page> => {
    const context = await (await sharedChromium()).newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(PATIENCE_MS);
    contexts.push(context);
    const page = await context.newPage();
    await addAuthenticator(page);
    await page.goto(address);
    return page;
  };
  let owner: Page;
  after(async () => {
    for (const context of contexts) await context.close();
  });

  test('the link of the first start offers an account, which may wait, and is the owner’s', async () => {
    owner = await open(await linkTo(gateway));
    const card = owner.getByRole('region', { name: 'Make an account for yourself' });
    await card.waitFor();
    await assertAccessible(owner);
    await card.getByRole('button', { name: 'Make my account' }).click();
    await owner.getByRole('heading', { name: 'Make your account' }).waitFor();
    await owner.getByRole('button', { name: 'Not now' }).click();
    await card.getByRole('button', { name: 'Make my account' }).click();
    await owner.getByLabel('Your name').fill('Ada');
    await owner.getByLabel(/^E-mail address/).fill('ada@example.org');
    await assertAccessible(owner);
    await owner.getByRole('button', { name: 'Make a passkey' }).click();
    await owner.getByRole('link', { name: 'Ada', exact: true }).waitFor();
    assert.equal(await card.count(), 0);
    const [person] = (await gateway.call('GET', '/svc/_people')).json;
    assert.deepEqual([person.name, person.role, person.methods], ['Ada', 'owner', ['passkey']]);
    // The administrator is not asked again, and the machine's link still is the administrator's.
    const admin = await open(await linkTo(gateway));
    await admin.getByRole('link', { name: 'Account', exact: true }).waitFor();
    assert.equal(await admin.getByRole('region', { name: 'Make an account for yourself' }).count(), 0);
  });

  test('who signed in a while ago is asked whether it is them, and goes on; a picture is theirs', async () => {
    await anHourLater(gateway);
    await owner.goto(`http://svc.localhost:${gateway.port}/svc/#/account`);
    const passkeys = owner.getByRole('region', { name: 'Passkeys' });
    await passkeys.getByRole('button', { name: 'Add a passkey…' }).click();
    const dialog = owner.getByRole('dialog', { name: 'Is it you?' });
    await dialog.getByRole('button', { name: 'Close' }).click();
    await passkeys.getByText('Confirm that it is you').waitFor();
    await passkeys.getByRole('button', { name: 'Add a passkey…' }).click();
    await dialog.getByRole('button', { name: 'Use a passkey' }).waitFor();
    await assertAccessible(owner);
    await dialog.getByRole('button', { name: 'Use a passkey' }).click();
    await passkeys.getByText('This device has a passkey of this account already.').waitFor();

    const drawn: string = await owner.evaluate(
      "Object.assign(document.createElement('canvas'), { width: 900, height: 600 }).toDataURL('image/png')",
    );
    const file = { name: 'me.png', mimeType: 'image/png', buffer: Buffer.from(drawn.split(',')[1] ?? '', 'base64') };
    const card = owner.getByRole('region', { name: 'Picture' });
    await card.locator('input[type=file]').setInputFiles({ ...file, buffer: Buffer.from('<svg/>') });
    await card.getByText('cannot read this as a picture').waitFor();
    await card.locator('input[type=file]').setInputFiles(file);
    await owner.getByText('Your picture is changed.').waitFor();
    const picture = card.locator('img');
    await picture.waitFor();
    await owner.waitForFunction("document.querySelector('img.portrait')?.complete");
    const width = await owner.evaluate("document.querySelector('img.portrait').naturalWidth");
    const address = await picture.getAttribute('src');
    assert.equal(width, 256);
    assert.match(String(address), /^\/svc\/_people\/p_\w+\/picture\/\w+$/);
    await assertAccessible(owner);

    await owner.getByRole('button', { name: 'Remove my account…' }).click();
    const removing = owner.getByRole('dialog', { name: 'Remove your account?' });
    await assertAccessible(owner);
    await removing.getByRole('button', { name: 'Remove my account', exact: true }).click();
    await removing.getByText('last owner').waitFor();
    await removing.getByRole('button', { name: 'Cancel' }).click();
  });

  test('what was typed stays where the role is taken away meanwhile, and a notice says it', async () => {
    const invite = { name: 'Bob', email: 'bob@example.org', grants: [{ app: 'todos', role: 'editor' }] };
    const { url } = (await gateway.call('POST', '/svc/_invitations', { body: invite })).json;
    const bob = await open(url);
    await bob.getByLabel(/^Password/).fill(PASSWORD);
    await bob.getByRole('button', { name: 'Make the account' }).click();
    await bob.getByRole('link', { name: 'Bob', exact: true }).waitFor();
    await bob.goto(`http://svc.localhost:${gateway.port}/svc/#/apps/todos/chat`);
    const message = bob.getByRole('textbox', { name: 'Message' });
    await message.fill('Add milk, please');
    const shares: { id: string; name: string }[] = (await gateway.call('GET', '/svc/_apps/todos/shares')).json;
    const share = shares.find(({ name }) => name === 'Bob');
    assert.equal((await gateway.call('DELETE', `/svc/_apps/todos/shares/${share?.id}`)).status, 200);
    const notice = bob.getByText('What you typed here stays until you leave this page.');
    await notice.waitFor();
    // The page is drawn anew with the notice.
    await bob.waitForFunction("document.querySelector('textarea').value === 'Add milk, please'");
    await message.press('Enter');
    await bob.getByText('is not shared with you').first().waitFor();
    await bob.waitForFunction("document.querySelector('textarea').value === 'Add milk, please'");
    await assertAccessible(bob);
  });
});
