/** The steps of docs/people.md, "From nothing to a shared app in five minutes", as two people do them in two browsers. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { addAuthenticator } from '../testing/chromium.ts';
import type { Clone } from '../testing/clone.ts';
import { LONG_MS } from '../testing/waiting.ts';
import { sharedChromium } from './browser/chromium.ts';

const PHONE = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true } as const;

/** `owner` is a window of the owner, who is signed in. */
export async function sharesAnApp(owner: Page, clone: Clone): Promise<void> {
  const console = `http://svc.localhost:${new URL(owner.url()).port}/svc/`;
  await owner.goto(console);
  await owner.getByRole('button', { name: 'New app' }).click();
  await owner.getByRole('button', { name: 'Use Todos' }).click();
  await owner.getByLabel('Name').fill('Groceries');
  await owner.getByRole('button', { name: 'Make it' }).click();
  const views = owner.getByRole('navigation', { name: 'Views of Groceries' });
  await views.getByRole('link', { name: 'Settings' }).click();
  const sharing = owner.getByRole('region', { name: 'Sharing' });
  await sharing.getByRole('button', { name: 'Share…' }).click();
  const dialog = owner.getByRole('dialog', { name: 'Share Groceries' });
  await dialog.getByLabel(/^E-mail address/).fill('ada@example.org');
  await dialog.getByRole('combobox', { name: /^Role in the app/ }).selectOption('editor');
  await dialog.getByText('sees everything, and changes its data').waitFor();
  await dialog.getByRole('button', { name: 'Share', exact: true }).click();
  const link = await owner.getByRole('textbox', { name: 'Link of' }).inputValue();
  await owner.getByRole('button', { name: 'Close' }).click();

  const phone = await (await sharedChromium()).newContext(PHONE);
  phone.setDefaultTimeout(LONG_MS);
  const ada = await phone.newPage();
  await addAuthenticator(ada);
  await ada.goto(link);
  await ada.getByText('Groceries: an editor sees everything, and changes its data.').waitFor();
  await ada.getByLabel(/^Your name/).fill('Ada');
  await ada.getByRole('button', { name: 'Make a passkey' }).tap();
  await ada.getByRole('link', { name: 'Open Groceries' }).tap();
  await ada.getByLabel('New todo').fill('Milk');
  assert.equal(await ada.evaluate('svc.user.name'), 'Ada');

  const page = await owner.context().newPage();
  await page.goto(`${console}groceries/`);
  // At the app's own origin, where the first address leads to.
  await page.getByText('A clean slate.').waitFor();
  await page.evaluate('var changed = new Promise((resolve) => svc.onChange(({ by }) => by && resolve(by.name)))');
  await ada.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Milk', exact: true }).waitFor();
  assert.equal(await page.evaluate('changed'), 'Ada');

  await ada.getByLabel('New todo').fill('Bread');
  await sharing.getByRole('button', { name: 'Remove Ada', exact: true }).click();
  await owner.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await ada.getByText('is not shared with you').first().waitFor();
  assert.equal(await ada.getByLabel('New todo').inputValue(), 'Bread', 'what was typed is there');
  const audit = JSON.parse(await clone.run('svc audit -n 20 --json')) as { actor: string; action: string }[];
  const done = audit.map(({ action }) => action);
  for (const action of ['invitation.made', 'sign-in', 'share.ended']) assert.ok(done.includes(action), action);
  await phone.close();
  // The same address is invited on the command line next.
  await clone.run('svc people rm Ada --yes');
}
