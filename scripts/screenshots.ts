/** Takes the pictures of conversations in docs/: node --import tsx scripts/screenshots.ts, after a build. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { startChromium } from '../testing/chromium.ts';
import { makeGateway, root } from '../testing/gateway.ts';
import { linkTo } from '../testing/pages.ts';
import { STUB_RUNNERS, script } from '../testing/stub-runner.ts';

const PICTURES = {
  'screenshot-chat': { viewport: { width: 1040, height: 720 }, colorScheme: 'light' },
  'screenshot-chat-dark': { viewport: { width: 1040, height: 720 }, colorScheme: 'dark' },
  'screenshot-chat-phone': { viewport: { width: 390, height: 760 }, colorScheme: 'light' },
} as const;

const MESSAGES = [
  script(
    'call add {"title":"Milk"}',
    'call add {"title":"Water the plants"}',
    'say **Milk** and the plants are on the list. Open now:',
    'say 1. Milk',
    'say 2. Water the plants',
  ),
  script('ask delete everything that is done'),
];

for (const [name, options] of Object.entries(PICTURES)) {
  const config = { runners: { local: STUB_RUNNERS.runners.stub } };
  const { gateway, remove } = makeGateway({ store: 'git', apps: ['todos'], config });
  await gateway.start();
  const browser = await startChromium();
  try {
    const page = await (await browser.newContext(options)).newPage();
    await page.goto(await linkTo(gateway));
    await page.getByRole('link', { name: 'Chat about Todos' }).click();
    for (const message of MESSAGES) {
      await page.getByRole('textbox', { name: 'Message' }).fill(message);
      // What the scripted agent is told is no sentence: the picture shows what a person would say.
      await page.getByRole('button', { name: 'Send' }).click();
      await page
        .getByRole('log')
        .getByRole('status')
        .last()
        .filter({ hasText: /local|answer/ })
        .waitFor();
    }
    const said = ['Add milk, and the plants want water', 'Clear what is done'];
    await page.evaluate(`document.querySelectorAll('.message').forEach((one, i) => (one.textContent = ${JSON.stringify(said)}[i]));
      document.querySelectorAll('.chat-windows option').forEach((one) => (one.textContent = ${JSON.stringify(said[0])}));
      document.activeElement.blur();
      document.querySelector('.chat-log').scrollTop = 1e6;`);
    const path = join(root, 'docs', `${name}.png`);
    rmSync(path, { force: true });
    await page.screenshot({ path });
  } finally {
    await browser.close();
    await remove();
  }
}
