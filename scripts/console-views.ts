/**
 * Takes a picture of each view of the console in light and dark, on a desk and on a phone, to be looked at, and the one of docs/console.md:
 * node --import tsx scripts/console-views.ts <folder>, after a build.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startChromium } from '../testing/chromium.ts';
import { openConsole, openView, VIEWS } from '../testing/console.ts';
import { makeGateway, root } from '../testing/gateway.ts';

const LOOKS = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
  'phone-dark': { viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
} as const;

const folder = process.argv[2];
if (folder === undefined) throw new Error('Name the folder for the pictures.');
mkdirSync(folder, { recursive: true });
const apps = ['todos', 'kanban', 'feeds', 'journal', 'expenses', 'habits'];
const { gateway, remove } = makeGateway({ store: 'git', apps });
await gateway.start();
const browser = await startChromium();
try {
  for (const title of ['Milk', 'Water the plants', 'Call the plumber'])
    await gateway.call('POST', '/svc/_tool/svc_write', { body: { app: 'todos', action: 'add', input: { title } } });
  const icon = readFileSync(join(root, 'templates/todos/icon.svg'));
  for (const [body, type] of [
    [icon, 'image/svg+xml'],
    [Buffer.from('day,done\nMonday,3\n'), 'text/csv'],
  ] as const)
    await gateway.call('PUT', '/svc/todos/_blobs', { body, headers: { 'content-type': type } });
  const { json } = await gateway.call('POST', '/svc/_automations/todos/digest/run?wait=1', { body: {} });
  await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'drafting' } });
  const title = '<!doctype html>\n<title>Todos, but better</title>\n';
  await gateway.call('PUT', '/svc/_sessions/drafting/apps/todos/files/about.html', { body: title });
  const draft = '/apps/todos/code?session=drafting';
  const views = {
    ...VIEWS,
    run: `/runs/${json.runId}`,
    draft: `${draft}&file=about.html&preview=1`,
    changes: `${draft}&show=changes`,
  };
  for (const [look, options] of Object.entries(LOOKS)) {
    const context = await browser.newContext(options);
    const { page, complaints } = await openConsole(context, gateway);
    for (const [name, view] of Object.entries(views)) {
      await openView(page, view);
      await page.locator('h1').first().waitFor();
      // Curves and editors come after the view.
      await page.waitForTimeout(2500);
      await page.screenshot({ path: join(folder, `${name}-${look}.png`) });
      if (name === 'home' && look === 'light')
        await page.screenshot({ path: join(root, 'docs/screenshot-console.png') });
    }
    if (complaints.length > 0) console.log(`${look}: ${complaints.join('; ')}`);
    await context.close();
  }
} finally {
  await browser.close();
  await remove();
}
