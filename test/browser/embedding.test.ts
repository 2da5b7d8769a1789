/**
 * The embedding examples through a real browser: with origins if the gateway checks who calls, else at the host's own
 * address.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { appFolder, root } from '../../testing/gateway.ts';
import { Host } from '../../testing/host.ts';
import { consoleOf, linkTo, originOf } from '../../testing/pages.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;

for (const { file, hasToken } of [
  { file: 'express.js', hasToken: false },
  { file: 'fastify.js', hasToken: true },
]) {
  test(`examples/embedding/${file} in a browser`, { skip: withoutChromium() }, async (t) => {
    const host = new Host([join('examples/embedding', file)]);
    t.after(() => host.remove());
    await host.listening(hasToken);
    const { gateway } = host;
    const origin = hasToken ? originOf(gateway, { app: 'todos' }) : gateway.url;
    const page = await openPage(t);
    const command = [join(root, 'bin/svc.js'), 'push', appFolder('todos')];
    const env = { ...process.env, SVC_URL: gateway.url, ...(hasToken ? { SVC_TOKEN: gateway.token } : {}) };
    const { stdout } = await promisify(execFile)(process.execPath, command, { env });
    const address = hasToken ? `${origin}/` : `${origin}/svc/todos/`;
    assert.ok(stdout.includes(` ${address}\n`), stdout);

    if (hasToken) await page.goto(await linkTo(gateway));
    else {
      await page.goto(gateway.url);
      await page.getByRole('link', { name: 'Apps', exact: true }).click();
    }
    await page.getByText('All systems running').waitFor();
    assert.equal(page.url(), hasToken ? consoleOf(gateway) : `${gateway.url}/svc/`);
    assert.equal(await page.getByRole('button', { name: 'Sign out' }).isVisible(), hasToken);
    await page.getByRole('link', { name: 'Open Todos' }).click();
    await page.waitForURL(`${origin}/svc/todos/`);
    await page.goto(address);
    await page.getByLabel('New todo').fill('Within a host');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Within a host', exact: true }).waitFor();
  });
}

async function openPage(t: { after(cleanup: () => Promise<void>): void }): Promise<Page> {
  const context = await (await sharedChromium()).newContext();
  t.after(() => context.close());
  context.setDefaultTimeout(PATIENCE_MS);
  return context.newPage();
}
