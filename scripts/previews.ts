/** Takes the pictures of the templates that the console shows, or of some: node --import tsx scripts/previews.ts [id…], after a build. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startChromium } from '../testing/chromium.ts';
import { makeGateway, root } from '../testing/gateway.ts';
import { enter } from '../testing/pages.ts';
import { join as joinAs } from '../testing/people.ts';

/** Three quarters of these are enough for a tile of 240 px on a sharp screen. */
const VIEWPORT = { width: 800, height: 500 };
const SCALE = 0.6;

type Call = [action: string, input: unknown];
const today = new Date().toISOString().slice(0, 10);
const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

/** What each has in its picture. */
const CALLS: Record<string, Call[]> = {
  bookmarks: [
    ['add', { url: 'https://www.sqlite.org/wal.html', title: 'Write-ahead logging', tags: ['sqlite'], later: false }],
    ['add', { url: 'https://developer.mozilla.org/', title: 'MDN Web Docs', tags: ['web', 'reference'], later: false }],
    ['add', { url: 'https://www.rfc-editor.org/', title: 'RFC Editor', tags: ['reference'], later: true }],
  ],
  contact: [
    ['send', { name: 'Ada', email: 'ada@example.org', message: 'Does it run on my own machine?', source: 'form' }],
    ['send', { name: 'Grace', email: 'grace@example.org', message: 'The form works. Thank you!', source: 'form' }],
  ],
  expenses: [
    ['add', { cents: 1250, day: today, category: 1, note: 'Bread and cheese' }],
    ['add', { cents: 4900, day: daysAgo(1), category: 2, note: 'Train' }],
    ['add', { cents: 2330, day: daysAgo(2), category: 1, note: 'Market' }],
  ],
  feeds: [],
  gallery: [],
  habits: [
    ['add', { name: 'Read', goal: 5, color: 'blue' }],
    ['add', { name: 'Run', goal: 3, color: 'green' }],
    ['add', { name: 'Piano', goal: 4, color: 'violet' }],
    ...[0, 1, 2, 4].map((days): Call => ['check', { id: 1, day: daysAgo(days), done: true }]),
    ...[1, 3].map((days): Call => ['check', { id: 2, day: daysAgo(days), done: true }]),
    ...[0, 2, 3].map((days): Call => ['check', { id: 3, day: daysAgo(days), done: true }]),
  ],
  journal: [
    ['save', { day: today, text: 'Rain in the morning.\n\nPlanted the tomatoes, and wrote to Ada.' }],
    ['save', { day: daysAgo(1), text: 'A long walk.' }],
  ],
  kanban: [
    ['addBoard', { name: 'Garden' }],
    ['addCard', { column: 1, title: 'Order seeds', color: 'green' }],
    ['addCard', { column: 1, title: 'Fix the fence' }],
    ['addCard', { column: 2, title: 'Dig the beds', color: 'amber' }],
    ['addCard', { column: 3, title: 'Sharpen the tools', color: 'blue' }],
  ],
  polls: [
    ['add', { question: 'Which game on Sunday?', options: ['Chess', 'Cards'], several: true }],
    ['add', { question: 'Where do we eat on Friday?', options: ['Pizza', 'Noodles', 'Soup'], named: true }],
  ],
  todos: [
    ['add', { title: 'Milk' }],
    ['add', { title: 'Water the plants' }],
    ['add', { title: 'Call the plumber' }],
    ['update', { id: 1, done: true }],
  ],
};

/** The options that people choose, poll by poll. */
const VOTES = { Ada: [[1, 2], [4]], Grace: [[1], [3]], Alan: [[1], [4]] };

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(CALLS);
const { gateway, remove } = makeGateway({ apps: wanted });
await gateway.start();
const browser = await startChromium();
const context = await browser.newContext({ viewport: VIEWPORT, deviceScaleFactor: SCALE, colorScheme: 'light' });
try {
  mkdirSync(join(root, 'console/previews'), { recursive: true });
  for (const app of wanted) {
    for (const [action, input] of CALLS[app] ?? []) {
      const { status, text } = await gateway.call('POST', '/svc/_tool/svc_write', { body: { app, action, input } });
      if (status >= 300) throw new Error(`${app} ${action}: ${text}`);
    }
    if (app === 'polls') {
      for (const [name, votes] of Object.entries(VOTES)) {
        const { origin } = await joinAs(gateway, name, { grants: [{ app, role: 'voter' }] });
        for (const [poll, options] of votes.entries()) {
          const body = { app, action: 'vote', input: { poll: poll + 1, options } };
          const { status, text } = await origin.call('POST', '/svc/_tool/svc_write', { body });
          if (status >= 300) throw new Error(`${app} vote: ${text}`);
        }
      }
    }
    const page = await context.newPage();
    await enter(page, gateway, { app });
    await page.waitForLoadState('load');
    await page.waitForTimeout(1500);
    await page.screenshot({ path: join(root, 'console/previews', `preview-${app}.png`) });
    await page.close();
  }
} finally {
  await browser.close();
  await remove();
}
