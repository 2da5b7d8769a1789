/** People in the console, driven in a browser: invited, signed in on a phone with a password or passkey, given an app and relieved of it. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { addAuthenticator } from '../../testing/chromium.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { PASSWORD } from '../../testing/people.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';
import { consoleSuite, PATIENCE_MS } from './console-suite.ts';

const WINDOW = { viewport: { width: 1280, height: 900 } } as const;
const PHONE = { viewport: { width: 390, height: 780 }, colorScheme: 'dark' } as const;

/** The app todos is there. */
export function peopleSuite(gateway: TestGateway): void {
  describe('people in the console', { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, WINDOW);
    const phones: BrowserContext[] = [];
    const phone = async (address: string): Promise<Page> => {
      const context = await (await sharedChromium()).newContext(PHONE);
      context.setDefaultTimeout(PATIENCE_MS);
      phones.push(context);
      const page = await context.newPage();
      await page.goto(address);
      return page;
    };
    const home = () => `http://svc.localhost:${gateway.port}/svc/`;

    test('somebody is invited to an app, makes an account on a phone, uses the app, and loses it at once', async () => {
      const admin = await suite.open('/people');
      await admin.getByText('Nobody has an account yet').waitFor();
      await admin.getByRole('button', { name: 'Invite…' }).click();
      const dialog = admin.getByRole('dialog', { name: 'Invite somebody' });
      await dialog.getByLabel(/^Name/).fill('Ada');
      await dialog.getByLabel(/^E-mail address/).fill('ada@example.org');
      await dialog.getByRole('combobox', { name: /^App/ }).selectOption('todos');
      await dialog.getByRole('combobox', { name: /^Role in the app/ }).selectOption('editor');
      await dialog.getByText('changes its data').waitFor();
      await assertAccessible(admin);
      await dialog.getByRole('button', { name: 'Make the link' }).click();
      const link = await admin.getByRole('textbox', { name: 'Link of' }).inputValue();
      await admin.getByRole('button', { name: 'Close' }).click();

      const ada = await phone(link);
      await ada.getByRole('heading', { name: 'You are invited' }).waitFor();
      await ada.getByText('Todos: an editor sees everything, and changes its data.').waitFor();
      assert.equal(await ada.getByLabel(/^E-mail address/).inputValue(), 'ada@example.org');
      await assertAccessible(ada);
      await ada.getByLabel(/^Password/).fill(PASSWORD);
      await ada.getByRole('button', { name: 'Make the account' }).click();
      await ada.getByRole('link', { name: 'Ada', exact: true }).waitFor();
      assert.equal(await ada.getByRole('link', { name: 'System' }).count(), 0);
      await assertAccessible(ada);

      // The app's own page, at its own address.
      await ada.goto(`${home()}todos/`);
      await ada.getByRole('textbox').first().fill('buy milk');
      await ada.keyboard.press('Enter');
      await ada.getByText('buy milk', { exact: true }).waitFor();
      const { id, ...user } = (await ada.evaluate('svc.user')) as Record<string, string>;
      assert.deepEqual(user, { name: 'Ada', email: 'ada@example.org', role: 'editor' });
      assert.match(id ?? '', /^p_/);
      const [account] = await Promise.all([ada.context().waitForEvent('page'), ada.evaluate('svc.signOut()')]);
      await account.getByRole('heading', { name: 'Your account' }).waitFor();
      await account.close();

      await openView(admin, '/apps/todos/settings');
      const sharing = admin.getByRole('region', { name: 'Sharing' });
      await sharing.getByRole('button', { name: 'Remove Ada' }).click();
      await admin.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
      await sharing.getByText('Nobody else has this app').waitFor();
      await ada.getByRole('textbox').first().fill('buy more milk');
      await ada.keyboard.press('Enter');
      await ada.getByText('is not shared with you').first().waitFor();
    });

    test('a manager has the views of an app, and no others; an author may make apps', async () => {
      const made = async (invitation: object, name: string) => {
        const { json } = await gateway.call('POST', '/svc/_invitations', { body: { name, ...invitation } });
        const page = await phone(json.url);
        await page.getByLabel(/^E-mail address/).fill(`${name}@example.org`);
        await page.getByLabel(/^Password/).fill(PASSWORD);
        await page.getByRole('button', { name: 'Make the account' }).click();
        await page.getByRole('heading', { name: 'Apps', level: 1 }).waitFor();
        return page;
      };
      const manager = await made({ grants: [{ app: 'todos', role: 'manager' }] }, 'mara');
      const refused: string[] = [];
      manager.on('response', (answer) => answer.status() === 403 && refused.push(answer.url()));
      await manager.getByRole('link', { name: 'Todos', exact: true }).click();
      for (const view of ['Data', 'Code', 'Automations', 'Logs', 'Files', 'Settings'])
        await manager.getByRole('navigation', { name: 'Views of Todos' }).getByRole('link', { name: view }).click();
      await manager.getByRole('region', { name: 'Sharing' }).getByText('mara').waitFor();
      await manager.getByRole('region', { name: 'Secrets' }).waitFor();
      assert.equal(await manager.getByRole('region', { name: 'Tokens for programs' }).count(), 0);
      assert.equal(await manager.getByRole('link', { name: 'Runs', exact: true }).count(), 0);
      assert.deepEqual(refused, []);
      const author = await made({ role: 'author' }, 'amy');
      await author.getByRole('button', { name: 'New app' }).click();
      await author.getByRole('button', { name: 'Use Bookmarks' }).waitFor();
      const people: { id: string; name: string }[] = (await gateway.call('GET', '/svc/_people')).json;
      for (const { id, name } of people) if (name !== 'Ada') await gateway.call('DELETE', `/svc/_people/${id}`);
    });

    test('signing in with a password, the account, and a changed password', async () => {
      const ada = await phone(home());
      await ada.getByLabel('E-mail address').fill('ada@example.org');
      await ada.getByLabel('Password').fill('a wrong password');
      await ada.getByRole('button', { name: 'Sign in', exact: true }).click();
      await ada.getByText('The e-mail address or the password is wrong.').waitFor();
      await assertAccessible(ada);
      await ada.getByLabel('Password').fill(PASSWORD);
      await ada.getByRole('button', { name: 'Sign in', exact: true }).click();
      await ada.getByRole('link', { name: 'Ada', exact: true }).click();
      await ada.getByRole('heading', { name: 'Your account' }).waitFor();
      await ada.getByText('this one').waitFor();
      await assertAccessible(ada);
      await ada.getByLabel(/^Your name/).fill('Ada L.');
      await ada.getByRole('button', { name: 'Save' }).click();
      await ada.getByRole('link', { name: 'Ada L.', exact: true }).waitFor();
      await ada.getByLabel(/^Password until now/).fill(PASSWORD);
      await ada.getByLabel(/^New password/).fill(`${PASSWORD} 2`);
      await ada.getByRole('button', { name: 'Change the password' }).click();
      await ada.getByText('Your password is changed').waitFor();
    });

    test('a program is connected by signing in, with less than was offered, and disconnected under the account', async () => {
      const [person] = (await gateway.call('GET', '/svc/_people')).json;
      const body = { person: person.id, role: 'editor' };
      const share = (await gateway.call('POST', '/svc/_apps/todos/shares', { body })).json;
      const program = createServer((asked, answer) => answer.end(`Answered ${asked.url}`)).listen(0, '127.0.0.1');
      await once(program, 'listening');
      const redirect = `http://127.0.0.1:${(program.address() as AddressInfo).port}/callback`;
      const metadata = { client_name: '<img src=x onerror=alert(1)>', redirect_uris: [redirect] };
      const { client_id } = (await gateway.call('POST', '/svc/_oauth/register', { body: metadata })).json;
      const asked = {
        ...{ client_id, redirect_uri: redirect, response_type: 'code', state: 'abc' },
        ...{ code_challenge: 'x'.repeat(43), code_challenge_method: 'S256' },
        resource: `${gateway.url}/svc/todos/_mcp`,
      };
      const address = `${home()}_oauth/authorize?${new URLSearchParams(asked)}`;
      const ada = await phone(address);
      await ada.getByLabel('E-mail address').fill('ada@example.org');
      await ada.getByLabel('Password').fill(`${PASSWORD} 2`);
      await ada.getByRole('button', { name: 'Sign in', exact: true }).click();
      await ada.getByRole('heading', { name: 'Connect a program to Todos?' }).waitFor();
      await ada.getByText('<img src=x onerror=alert(1)>').waitFor();
      await ada.getByText('It will act as Ada L.').waitFor();
      await assertAccessible(ada);
      const role = ada.getByRole('combobox', { name: /^Its role/ });
      assert.deepEqual(await role.getByRole('option').allInnerTexts(), ['viewer', 'editor']);
      await role.selectOption('viewer');
      await ada.getByRole('button', { name: 'Connect', exact: true }).click();
      await ada.getByText('Answered /callback?code=').waitFor();
      assert.equal(new URL(ada.url()).searchParams.get('state'), 'abc');

      await ada.goto(address);
      await ada.getByRole('button', { name: 'Do not connect' }).click();
      await ada.getByText('Answered /callback?error=access_denied').waitFor();
      await ada.goto(address.replace('todos', 'nothing'));
      await ada.getByText('is not shared with you').waitFor();
      await ada.goto(address.replace(encodeURIComponent(redirect), encodeURIComponent('https://evil.example/')));
      await ada.getByText('did not register the address').waitFor();
      await assertAccessible(ada);

      const verifier = 'v'.repeat(43);
      const challenge = createHash('sha256').update(verifier).digest('base64url');
      await ada.goto(address.replace('x'.repeat(43), challenge));
      await ada.getByRole('button', { name: 'Connect', exact: true }).click();
      await ada.getByText('Answered /callback?code=').waitFor();
      const code = new URL(ada.url()).searchParams.get('code') ?? '';
      const form = {
        grant_type: 'authorization_code',
        code,
        client_id,
        redirect_uri: redirect,
        code_verifier: verifier,
      };
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      const taken = await gateway.call('POST', '/svc/_oauth/token', {
        headers,
        body: String(new URLSearchParams(form)),
      });
      assert.equal(taken.status, 200, taken.text);
      await ada.goto(`${home()}#/account`);
      const programs = ada.getByRole('region', { name: 'Connected programs' });
      await programs.getByText('editor of Todos').waitFor();
      await assertAccessible(ada);
      await programs.getByRole('button', { name: 'Disconnect' }).click();
      await programs.getByText('No program is connected').waitFor();
      await gateway.call('DELETE', `/svc/_apps/todos/shares/${share.id}`);
      program.closeAllConnections();
      program.close();
    });

    test('an owner changes a role, keeps somebody out, makes a group and shares with it', async () => {
      const admin = await suite.open('/people');
      await admin.getByRole('button', { name: 'Change Ada L.' }).click();
      const person = admin.getByRole('dialog', { name: 'Ada L.' });
      await person.getByRole('combobox', { name: /^Role/ }).selectOption('author');
      await admin.getByText('Ada L. is author now.').waitFor();
      await person.getByRole('button', { name: 'Keep them out' }).click();
      await person.getByRole('button', { name: 'Let them sign in' }).waitFor();
      await assertAccessible(admin);
      await person.getByRole('button', { name: 'Close' }).click();
      await admin.getByText('disabled').waitFor();
      await admin.getByRole('button', { name: 'New group…' }).click();
      const group = admin.getByRole('dialog', { name: 'New group' });
      await group.getByLabel('Name').fill('Family');
      await group.getByRole('checkbox', { name: 'Ada L.' }).check();
      await group.getByRole('button', { name: 'Save' }).click();
      await admin.getByText('1 person').waitFor();
      await openView(admin, '/apps/todos/settings');
      const sharing = admin.getByRole('region', { name: 'Sharing' });
      await sharing.getByRole('button', { name: 'Share…' }).click();
      const dialog = admin.getByRole('dialog', { name: 'Share Todos' });
      await dialog.getByRole('combobox', { name: /^With/ }).selectOption('Family (group)');
      await assertAccessible(admin);
      await dialog.getByRole('button', { name: 'Share', exact: true }).click();
      await sharing.getByText('Family').waitFor();
      await openView(admin, '/');
      // What `svc.share()` of a page opens.
      await openView(admin, '/apps/todos/settings?part=sharing&share');
      await admin.getByRole('dialog', { name: 'Share Todos' }).waitFor();
    });

    test('whoever has a link uses the app without an account, and their page says so when it ends', async () => {
      const admin = await suite.open('/apps/todos/settings');
      const sharing = admin.getByRole('region', { name: 'Sharing' });
      await sharing.getByRole('button', { name: 'Share…' }).click();
      const dialog = admin.getByRole('dialog', { name: 'Share Todos' });
      await dialog.getByRole('combobox', { name: /^With/ }).selectOption('Whoever has a link, without an account');
      const role = dialog.getByRole('combobox', { name: /^Role in the app/ });
      assert.deepEqual(await role.getByRole('option').allInnerTexts(), ['viewer', 'editor']);
      await role.selectOption('editor');
      await dialog.getByRole('combobox', { name: /^Ends/ }).selectOption('in 7 days');
      await assertAccessible(admin);
      await dialog.getByRole('button', { name: 'Make the link' }).click();
      await admin.getByRole('dialog', { name: 'Link to Todos' }).getByText('without an account').waitFor();
      const link = await admin.getByRole('textbox', { name: 'Link of' }).inputValue();
      await assertAccessible(admin);
      await admin.getByRole('button', { name: 'Close' }).click();

      const guest = await phone(link);
      await guest.waitForURL(`http://todos.svc.localhost:${gateway.port}/`);
      await guest.getByRole('textbox').first().fill('bring bread');
      await guest.keyboard.press('Enter');
      await guest.getByRole('button', { name: 'bring bread', exact: true }).waitFor();
      assert.deepEqual(await guest.evaluate('[svc.user, svc.visitor]'), [null, false]);
      await guest.reload();
      await guest.getByRole('button', { name: 'bring bread', exact: true }).waitFor();
      await guest.getByRole('textbox').first().fill('half a sente');

      await openView(admin, '/');
      await openView(admin, '/apps/todos/settings');
      await sharing.getByText('made by the administrator, last opened').waitFor();
      await sharing.getByRole('button', { name: 'End the link made by the administrator' }).click();
      await admin.getByRole('dialog').getByRole('button', { name: 'End', exact: true }).click();
      await guest.getByText('The link by which you came here has ended. What is on this page stays.').waitFor();
      assert.equal(await guest.getByRole('textbox').first().inputValue(), 'half a sente');
      await assertAccessible(guest);
      await guest.goto(guest.url());
      await guest.getByRole('heading', { name: 'This link has ended' }).waitFor();
      await guest.goto('about:blank');
      await guest.goto(link);
      await guest.getByRole('heading', { name: 'This link does not work' }).waitFor();
      await assertAccessible(guest);
      await guest.getByRole('button', { name: 'Sign in' }).click();
      await guest.getByRole('heading', { name: /^Sign in/ }).waitFor();
    });

    test('somebody makes a passkey on a phone, signs in with it, and keeps the only one; an app gets it from no browser', async () => {
      const body = { name: 'Bea', grants: [{ app: 'todos', role: 'viewer' }] };
      const { url } = (await gateway.call('POST', '/svc/_invitations', { body })).json;
      const bea = await phone('about:blank');
      await addAuthenticator(bea);
      await bea.goto(url);
      await bea.getByText('your face, finger or PIN signs you in').waitFor();
      await assertAccessible(bea);
      await bea.getByRole('button', { name: 'Make a passkey' }).click();
      await bea.getByRole('link', { name: 'Bea', exact: true }).click();
      const passkeys = bea.getByRole('region', { name: 'Passkeys' });
      await passkeys.getByText('Chrome on Linux').waitFor();
      await passkeys.getByRole('button', { name: 'Add a passkey…' }).click();
      await passkeys.getByText('This device has a passkey of this account already.').waitFor();
      await passkeys.getByRole('button', { name: 'Rename Chrome on Linux' }).click();
      const renaming = bea.getByRole('dialog', { name: 'Rename a passkey' });
      await renaming.getByLabel(/^Name/).fill('Phone');
      await renaming.getByRole('button', { name: 'Rename', exact: true }).click();
      await assertAccessible(bea);
      await passkeys.getByRole('button', { name: 'Remove Phone' }).click();
      const removing = bea.getByRole('dialog', { name: 'Remove Phone?' });
      await removing.getByRole('button', { name: 'Remove passkey' }).click();
      await removing.getByText('You could not sign in any more without this passkey').waitFor();
      await removing.getByRole('button', { name: 'Cancel' }).click();

      await bea.goto(`${home()}todos/`);
      await bea.getByRole('textbox').first().waitFor();
      const asked = "{ publicKey: { challenge: new Uint8Array(32), rpId: 'svc.localhost' } }";
      const refused = await bea.evaluate(`navigator.credentials.get(${asked}).then(() => 'given', ({ name }) => name)`);
      assert.equal(refused, 'NotAllowedError');

      await bea.goto(home());
      await bea.getByRole('button', { name: 'Sign out' }).click();
      await bea.getByRole('button', { name: 'Sign in with a passkey' }).click();
      await bea.getByRole('link', { name: 'Bea', exact: true }).waitFor();

      const elsewhere = await phone('about:blank');
      await addAuthenticator(elsewhere, 'apps.example.com');
      await elsewhere.goto(home());
      await elsewhere.getByRole('button', { name: 'Sign in with a passkey' }).click();
      await elsewhere.getByRole('alert').filter({ hasText: 'works only at the address where it was made' }).waitFor();
      await elsewhere.getByLabel('E-mail address').waitFor();
    });

    test('an invitation that does not work says so, and leads to signing in', async () => {
      const page = await phone(`${home()}#invitation=nothing`);
      await page.getByRole('heading', { name: 'This invitation does not work' }).waitFor();
      await page.getByText('Ask whoever sent it for another one.').waitFor();
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByLabel('E-mail address').waitFor();
      await page.getByRole('button', { name: 'Use the access token' }).click();
      await page.getByLabel('Access token').fill(gateway.token);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByRole('heading', { name: 'Apps', level: 1 }).waitFor();
      for (const context of phones) await context.close();
    });
  });
}
