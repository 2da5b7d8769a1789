/** What a newcomer does first, from the printed address to a killed machine, in one go. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startChromium } from '../../testing/chromium.ts';
import { root, startGateway, type TestGateway } from '../../testing/gateway.ts';
import { enter, originOf } from '../../testing/pages.ts';
import { withoutChromium } from './chromium.ts';

const run = promisify(execFile);

/** The `svc` command, as that gateway's user. */
async function svc(gateway: TestGateway, ...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, [join(root, 'bin/svc.js'), ...args], {
    env: { ...process.env, SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
  });
  return stdout;
}

/** A copy of the todo app with another version and another heading. */
function changedApp(folder: string): string {
  const copy = join(folder, 'todos');
  cpSync(join(root, 'templates/todos'), copy, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(copy, 'app.json'), 'utf8')) as { version: string };
  manifest.version = '2.0.0';
  writeFileSync(join(copy, 'app.json'), JSON.stringify(manifest));
  const page = join(copy, 'index.html');
  writeFileSync(page, readFileSync(page, 'utf8').replace(/<title>[^<]*<\/title>/, '<title>Todos, changed</title>'));
  return copy;
}

test('a newcomer’s first ten minutes', { skip: withoutChromium() }, async (t) => {
  const gateway = await startGateway(t, { apps: ['todos'] });
  const browser = await startChromium();
  t.after(() => browser.close());
  const folder = mkdtempSync(join(tmpdir(), 'svc-story-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);

  const here = await context.newPage();
  await enter(here, gateway, { app: 'todos' });
  const there = await context.newPage();
  await there.goto(originOf(gateway, { app: 'todos' }));

  await here.getByLabel('New todo').fill('From the page');
  await here.keyboard.press('Enter');
  await there.getByRole('button', { name: 'From the page', exact: true }).waitFor();

  assert.equal((await gateway.write('todos', 'add', { title: 'From HTTP' })).status, 201);
  await there.getByRole('button', { name: 'From HTTP', exact: true }).waitFor();
  await svc(gateway, 'write', 'todos', 'add', '{"title":"From the command line"}');
  await there.getByRole('button', { name: 'From the command line', exact: true }).waitFor();

  await svc(gateway, 'push', changedApp(folder));
  // A page follows publications by itself: a reload here would interfere.
  await there.waitForFunction("document.title === 'Todos, changed'");
  await svc(gateway, 'rollback', 'todos');
  await there.waitForFunction("document.title === 'Todos'");

  await gateway.kill();
  await gateway.start();
  const again = await context.newPage();
  await enter(again, gateway, { app: 'todos' });
  for (const title of ['From the page', 'From HTTP', 'From the command line']) {
    await again.getByRole('button', { name: title, exact: true }).waitFor();
  }
  const versions = (await gateway.call('GET', '/svc/_apps/todos/versions')).json as {
    active: boolean;
    version: string;
  }[];
  assert.deepEqual(
    versions.map(({ version, active }) => [version, active]),
    [
      ['2.0.0', false],
      ['1.0.0', true],
    ],
  );
});
