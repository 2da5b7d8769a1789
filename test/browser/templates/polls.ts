/** The template `polls` as several people use it, each in a browser of their own, and its tools as programs call them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { accessibilityFaults } from '../../../testing/axe.ts';
import { callEveryTool, openTemplate } from '../template-app.ts';

/** Waits until a poll shows these votes, option by option. */
async function shows(page: Page, question: string, votes: string[]): Promise<void> {
  const form = page.getByRole('form', { name: question });
  for (const [at, text] of votes.entries()) await form.locator('.votes').nth(at).filter({ hasText: text }).waitFor();
}

export function suite(): void {
  test('people vote and change their vote, and everybody sees it at once; who made a poll closes it', async (t) => {
    const app = await openTemplate(t, 'polls');
    const polly = await app.windowOf('Polly');
    await polly.getByText('No poll is open.').waitFor();
    await app.picture(polly, 'empty');
    await polly.getByRole('button', { name: 'New poll' }).click();
    await polly.getByLabel('Question').fill('Where do we eat on Friday?');
    await polly.getByPlaceholder('Option 1').fill('Pizza');
    await polly.getByPlaceholder('Option 2').fill('Noodles');
    await polly.keyboard.press('Enter');
    await polly.keyboard.type('pizza');
    await polly.getByLabel('Everybody sees who chose what').check();
    assert.deepEqual(await accessibilityFaults(polly), []);
    await app.picture(polly, 'composer');
    await polly.getByRole('button', { name: 'Make the poll' }).click();
    await polly.getByRole('alert').filter({ hasText: 'Two options are the same' }).waitFor();
    await polly.getByPlaceholder('Option 3').fill('Soup');
    await polly.getByRole('button', { name: 'Make the poll' }).click();
    const friday = 'Where do we eat on Friday?';
    await polly.getByRole('heading', { name: friday }).waitFor();

    const victor = await app.windowOf('Victor', 'voter');
    await victor.getByRole('radio', { name: /^Noodles/ }).check();
    assert.equal(await victor.getByRole('button', { name: 'New poll' }).isVisible(), false);
    // Somebody else's vote arrives, and what is chosen and not sent stays.
    await polly.getByRole('radio', { name: /^Pizza/ }).press('Space');
    await polly.getByRole('button', { name: 'Vote' }).click();
    await shows(victor, friday, ['1', '0', '0']);
    await victor.getByText('Polly', { exact: true }).waitFor();
    assert.equal(await victor.getByRole('radio', { name: /^Noodles/ }).isChecked(), true);
    await victor.getByRole('button', { name: 'Vote' }).click();
    await shows(polly, friday, ['1', '1', '0']);
    await victor.getByRole('button', { name: 'Take my vote back' }).waitFor();
    assert.equal(await victor.evaluate('document.activeElement.type'), 'radio', 'the focus is at what was chosen');
    await polly.getByRole('radio', { name: /^Soup/ }).check();
    await polly.getByRole('button', { name: 'Change my vote' }).click();
    await shows(victor, friday, ['0', '1', '1']);
    await victor.getByText('2 people voted').waitFor();
    assert.equal(await victor.getByRole('button', { name: /^(Close|Remove): / }).count(), 0);
    assert.deepEqual(await accessibilityFaults(victor), []);

    // The administrator looks, and is asked to sign in to vote.
    await app.write('add', { question: 'Which days suit you?', options: ['Monday', 'Tuesday'], several: true });
    const page = await app.window();
    await page.getByText('Sign in with an account to vote.').waitFor();
    await shows(page, friday, ['0', '1', '1']);
    assert.equal(await page.getByRole('radio').count(), 0);
    assert.deepEqual(await accessibilityFaults(page), []);
    await app.picture(page, 'administrator');

    await victor.getByRole('checkbox', { name: /^Monday/ }).check();
    await victor.getByRole('checkbox', { name: /^Tuesday/ }).check();
    await app.picture(victor, 'polls');
    await victor.getByRole('form', { name: 'Which days' }).getByRole('button', { name: 'Vote' }).click();
    await shows(page, 'Which days suit you?', ['1', '1']);
    await victor.getByRole('button', { name: 'Take my vote back: Which days' }).click();
    await shows(page, 'Which days suit you?', ['0', '0']);

    await polly.getByRole('button', { name: `Close: ${friday}` }).click();
    await polly.getByRole('dialog').getByRole('button', { name: 'Close it' }).click();
    await victor.getByRole('region', { name: 'Closed' }).getByRole('heading', { name: friday }).waitFor();
    await victor.getByRole('region', { name: 'Closed' }).getByText('your vote').waitFor();
    assert.deepEqual(await accessibilityFaults(victor), []);
    await app.picture(polly, 'closed');
    await polly.getByRole('button', { name: `Remove: ${friday}` }).click();
    await polly.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await victor.getByRole('heading', { name: friday }).waitFor({ state: 'detached' });
    // The browser reports the refusal (400) that was asked for above.
    assert.deepEqual(
      app.complaints.filter((text) => !text.includes('status of 400')),
      [],
    );
  });

  test('its tools', async (t) => {
    await callEveryTool(await openTemplate(t, 'polls'));
  });
}
