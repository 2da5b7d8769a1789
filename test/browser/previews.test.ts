/** Previews in a browser that is not signed in: by `svc dev --open`, and by the address that is printed. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { BrowserContext } from 'playwright-core';
import { appFolder, root, startGateway, TestGateway } from '../../testing/gateway.ts';
import { baseOf, consoleOf, linkTo, originOf } from '../../testing/pages.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
const DRAFT = { session: 'dev-notes', app: 'notes' };

describe('previews', { skip: withoutChromium() }, () => {
  const home = mkdtempSync(join(tmpdir(), 'svc-previews-'));
  let gateway: TestGateway;
  let removeGateway: () => Promise<void>;
  let context: BrowserContext;
  let dev: ChildProcess;
  /** The first event that `svc dev` prints. */
  let ready: { preview: string };
  /** The file with which it starts the browser. */
  let opened: string;

  before(async () => {
    const owner = {
      after: (remove: () => Promise<void>) => {
        removeGateway = remove;
      },
    };
    gateway = await startGateway(owner, { store: 'git' });
    // Replaces the system's program: passes on the file to open.
    writeFileSync(join(home, 'xdg-open'), `#!/bin/sh\nprintf %s "$*" > '${home}/opened'\n`, { mode: 0o755 });
    execFileSync('mkfifo', [join(home, 'opened')]);
    const env = {
      HOME: home,
      PATH: `${home}:${process.env.PATH}`,
      SVC_URL: gateway.url,
      SVC_TOKEN: gateway.token,
    };
    const svc = [join(root, 'bin/svc.js')];
    execFileSync(process.execPath, [...svc, 'new', 'notes'], { cwd: home, env });
    dev = spawn(process.execPath, [...svc, 'dev', 'notes', '--open', '--json'], {
      cwd: home,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    assert.ok(dev.stdout, 'its output is a pipe');
    const lines = createInterface({ input: dev.stdout });
    lines.on('line', (line) => {
      const event = JSON.parse(line);
      if (event.event === 'ready') ready = event;
    });
    opened = await readFile(join(home, 'opened'), 'utf8');
  });
  after(async () => {
    const exit = once(dev, 'exit');
    dev.kill('SIGINT');
    await exit;
    await removeGateway();
    rmSync(home, { recursive: true, force: true });
  });
  beforeEach(async () => {
    context = await (await sharedChromium()).newContext();
    context.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(() => context.close());

  test('svc dev --open signs the browser in, by a file that only the user can read and a link that works once', async () => {
    assert.equal(ready.preview, `${originOf(gateway, DRAFT)}/`);
    assert.deepEqual([statSync(dirname(opened)).mode & 0o777, statSync(opened).mode & 0o777], [0o700, 0o600]);
    const page = await context.newPage();
    await page.goto(pathToFileURL(opened).href);
    await page.getByRole('heading', { name: 'Notes' }).waitFor();
    assert.equal(new URL(page.url()).origin, originOf(gateway, DRAFT));
    const [link = ''] = /http:[^"]*#link=[^"]*/.exec(readFileSync(opened, 'utf8')) ?? [];
    assert.ok(!link.includes(gateway.token));
    const another = await (await sharedChromium()).newContext();
    const late = await another.newPage();
    await late.goto(link);
    await late.getByRole('alert').filter({ hasText: 'already used' }).waitFor({ timeout: PATIENCE_MS });
    await another.close();
  });

  test('svc serve --open does so for the app that it was started with', async () => {
    const commands = join(home, 'served');
    mkdirSync(commands);
    writeFileSync(join(commands, 'xdg-open'), `#!/bin/sh\nprintf %s "$*" > '${commands}/opened'\n`, { mode: 0o755 });
    execFileSync('mkfifo', [join(commands, 'opened')]);
    const flags = ['--store', 'tarball', '--open', '--with', appFolder('guestbook'), '--with', appFolder('todos')];
    const served = new TestGateway(join(home, 'data'), flags, { PATH: `${commands}:${process.env.PATH}` });
    await served.start();
    try {
      const file = await readFile(join(commands, 'opened'), 'utf8');
      const page = await context.newPage();
      await page.goto(pathToFileURL(file).href);
      await page.getByRole('heading', { name: 'Guestbook' }).waitFor();
      assert.equal(new URL(page.url()).origin, originOf(served, { app: 'guestbook' }));
      assert.equal(await served.stop(), 0);
      assert.equal(existsSync(file), false, 'the file goes with the gateway');
    } finally {
      await served.stop();
    }
  });

  test('a preview sends a signed-out browser to the sign-in and back; a program gets a 401', async () => {
    const page = await context.newPage();
    await page.goto(`${ready.preview}?theme=dark`);
    await page.getByText(`Continue to ${ready.preview}?theme=dark`).waitFor();
    await page.getByLabel('Access token').fill(gateway.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${ready.preview}?theme=dark`);
    await page.getByRole('heading', { name: 'Notes' }).waitFor();
    const program = await gateway.call('GET', '/svc/_draft/dev-notes/notes/', { token: null });
    assert.deepEqual([program.status, program.json.error.code], [401, 'UNAUTHORIZED']);
  });

  test('the console redirects only to pages of its own gateway', async () => {
    const page = await context.newPage();
    for (const [name, value] of [
      ['open', '//evil.example'],
      ['open', 'https://evil.example'],
      ['open', '_draft/../..//evil.example'],
      ['open', '_draft//evil.example'],
      ['open', '_draft/s1/..'],
      ['open', '_draft/s1/notes/x'],
      ['open', '_draft/s1/notes\n'],
      ['open', '_apps'],
      ['open', '..'],
      ['open', 'notes?x'],
      ['enter', '//evil.example'],
      ['enter', 'https://evil.example/svc/notes/'],
      ['enter', 'javascript:alert(1)'],
      ['enter', `http://${baseOf(gateway)}.evil.example/`],
      ['enter', `http://evil${baseOf(gateway)}/`],
      ['enter', `http://${baseOf(gateway)}@evil.example/`],
      ['enter', 'http://'],
    ]) {
      await page.goto('about:blank');
      await page.goto(`${await linkTo(gateway)}&${name}=${encodeURIComponent(value as string)}`);
      await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
      assert.equal(page.url(), consoleOf(gateway), value);
    }
  });
});
